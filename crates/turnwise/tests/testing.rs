//! The testing kit, as the author of a service uses it. Nothing here waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use turnwise::{
    Ctx, Inner, JobRequest, JobState, Outcome, Registry, StartError, State, TaskError, Turnwise, task, testing::Kit,
};

trait Mailer: Send + Sync {
    fn send(&self, to: &str) -> Result<(), TaskError>;
}

/// Fails until it has been asked so many times.
#[derive(Default)]
struct Moody {
    refuse: u32,
    asked: AtomicU32,
}

impl Mailer for Moody {
    fn send(&self, to: &str) -> Result<(), TaskError> {
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.refuse {
            Err(TaskError::new(format!("no mail for {to} today")))
        } else {
            Ok(())
        }
    }
}

#[derive(Debug, serde::Serialize, serde::Deserialize, PartialEq)]
struct Welcome {
    name: String,
    friends: u32,
}

fn welcome_to(name: &str, friends: u32) -> Welcome {
    Welcome { name: name.to_owned(), friends }
}

#[task("welcome", retry = "durations:10s,1m", register = false)]
async fn welcome(
    args: Welcome,
    ctx: Ctx,
    mailer: State<dyn Mailer>,
    turnwise: State<Turnwise>,
) -> Result<String, TaskError> {
    ctx.log(format!("attempt {}", ctx.attempt()));
    mailer.send(&args.name)?;
    for n in 0..args.friends {
        turnwise.submit(welcome.job(welcome_to(&format!("{}'s friend {n}", args.name), 0))).await?;
    }
    Ok(format!("dear {}", args.name))
}

#[task("two halves", register = false)]
async fn two_halves(ctx: Ctx) -> Result<u32, TaskError> {
    let first: u32 = ctx.step("first", async { Ok::<_, TaskError>(20) }).await?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    Ok(first + 1)
}

#[task("again and again", register = false)]
async fn again_and_again(turnwise: State<Turnwise>) -> Result<(), TaskError> {
    turnwise.submit(again_and_again.job(())).await?;
    Ok(())
}

#[task("stubborn", register = false)]
async fn stubborn(ctx: Ctx, turnwise: State<Turnwise>) -> Result<(), TaskError> {
    turnwise.cancel(ctx.id()).await?;
    ctx.cancelled().await;
    Ok(())
}

#[task("onward", register = false)]
async fn onward() -> Outcome {
    Outcome::next(two_halves.job(()))
}

fn tasks() -> Registry {
    let mut tasks = Registry::new();
    tasks.register(welcome).unwrap().register(two_halves).unwrap().register(again_and_again).unwrap();
    tasks.register(stubborn).unwrap().register(onward).unwrap();
    tasks
}

async fn kit(refuse: u32) -> Kit {
    let mailer: Arc<dyn Mailer> = Arc::new(Moody { refuse, ..Moody::default() });
    Kit::with(tasks(), |node| node.shared(mailer)).await.unwrap()
}

#[tokio::test]
async fn a_job_runs_inline_and_tells_what_became_of_it() {
    let kit = kit(0).await;
    let ran = kit.run(welcome.job(welcome_to("Ada", 0)).group("acme")).await.unwrap();
    assert_eq!((ran.state, ran.counts.attempt, ran.group.as_str()), (JobState::Success, 1, "acme"));
    assert_eq!(ran.result::<String>().unwrap().unwrap(), "dear Ada");
    assert_eq!(ran.log(), ["attempt 1"]);
    assert_eq!((ran.started_at, ran.finished_at), (Some(kit.now()), Some(kit.now())), "time stands still");
}

#[tokio::test]
async fn a_retry_is_due_when_its_policy_says_and_runs_when_time_has_passed() {
    let kit = kit(2).await;
    let begun = kit.now();
    let ran = kit.run(welcome.job(welcome_to("Ada", 0))).await.unwrap();
    assert_eq!((ran.state, ran.error.as_deref()), (JobState::Stuck, Some("no mail for Ada today")));
    assert_eq!(ran.due_at, Some(begun.plus(Duration::from_secs(10))), "to the microsecond");
    assert!(kit.drain().await.unwrap().is_empty(), "not yet");
    assert!(kit.advance_to_next().await.unwrap());
    assert_eq!(kit.drain().await.unwrap(), [ran.id]);
    assert_eq!(kit.look(ran.id).await.unwrap().state, JobState::Stuck);
    kit.advance(Duration::from_secs(60));
    kit.drain().await.unwrap();
    let ran = kit.look(ran.id).await.unwrap();
    assert_eq!((ran.state, ran.counts.attempt), (JobState::Success, 3));
    assert_eq!(ran.log(), ["attempt 1", "attempt 2", "attempt 3"]);
    assert_eq!(ran.story.attempts.len(), 2);
    assert!(!kit.advance_to_next().await.unwrap(), "nothing waits any more");
}

#[tokio::test]
async fn what_runs_submit_is_seen_and_drained_too() {
    let kit = kit(0).await;
    kit.assert_none_submitted(welcome).await;
    let first = kit.run(welcome.job(welcome_to("Ada", 2))).await.unwrap();
    let friends = kit.submitted(welcome).await.unwrap();
    assert_eq!(friends, [welcome_to("Ada", 2), welcome_to("Ada's friend 0", 0), welcome_to("Ada's friend 1", 0)]);
    let friend = kit.assert_submitted(welcome, |args| args.name.ends_with("friend 1")).await;
    assert_eq!(friend.state, JobState::Waiting);
    let ran = kit.drain().await.unwrap();
    assert!(ran.len() == 2 && !ran.contains(&first.id) && ran[1] == friend.id, "{ran:?}");
    assert_eq!(kit.look(friend.id).await.unwrap().state, JobState::Success);
}

#[tokio::test]
#[should_panic = "no such job of task \"welcome\" was submitted; there are [\"{\\\"name\\\":\\\"Ada\\\",\\\"friends\\\":0}\"]"]
async fn what_was_not_submitted_is_told_with_what_was() {
    let kit = kit(0).await;
    kit.turnwise().submit(welcome.job(welcome_to("Ada", 0))).await.unwrap();
    kit.assert_submitted(welcome, |args| args.name == "Bob").await;
}

#[tokio::test]
async fn steps_and_long_sleeps_go_on_where_they_were() {
    let kit = kit(0).await;
    let ran = kit.run(onward.job(())).await.unwrap();
    assert_eq!((ran.state, ran.task.as_str()), (JobState::Waiting, "two halves"));
    assert_eq!(kit.drain().await.unwrap(), [ran.id]);
    assert_eq!(kit.look(ran.id).await.unwrap().state, JobState::Waiting, "asleep");
    kit.advance(Duration::from_secs(3599));
    assert!(kit.drain().await.unwrap().is_empty());
    kit.advance(Duration::from_secs(1));
    assert_eq!(kit.drain().await.unwrap(), [ran.id]);
    assert_eq!(kit.look(ran.id).await.unwrap().result::<u32>().unwrap(), Some(21));
}

#[tokio::test]
async fn a_later_job_runs_when_its_time_has_come_and_one_that_was_not_begun_in_time_fails() {
    let kit = kit(0).await;
    let hour = Duration::from_secs(3600);
    let later = kit.turnwise().submit(welcome.job(welcome_to("Ada", 0)).delay(hour)).await.unwrap();
    let urgent = JobRequest::of(welcome, &welcome_to("Bob", 0)).begin_within(Duration::from_secs(60));
    let urgent = kit.turnwise().submit(urgent).await.unwrap();
    kit.advance(hour);
    assert_eq!(kit.drain().await.unwrap(), [later]);
    assert_eq!(kit.look(urgent).await.unwrap().state, JobState::Failed);
}

#[tokio::test]
async fn a_cancel_reaches_a_run() {
    let kit = kit(0).await;
    assert_eq!(kit.run(stubborn.job(())).await.unwrap().state, JobState::Cancelled);
}

#[tokio::test]
#[should_panic = "10000 jobs have run and more are due: does a task submit itself?"]
async fn a_task_that_submits_itself_is_found_out() {
    let kit = kit(0).await;
    kit.run(again_and_again.job(())).await.unwrap();
    let _ = kit.drain().await;
}

#[tokio::test]
async fn middleware_goes_around_runs_of_the_kit_too() {
    async fn polite(ctx: Ctx, inner: Inner) -> Outcome {
        ctx.log("please");
        inner.run(ctx).await
    }
    let mailer: Arc<dyn Mailer> = Arc::new(Moody::default());
    let kit = Kit::with(tasks(), |node| node.shared(mailer).middleware(polite)).await.unwrap();
    let ran = kit.run(welcome.job(welcome_to("Ada", 0))).await.unwrap();
    assert_eq!(ran.log(), ["please", "attempt 1"]);
}

#[tokio::test]
async fn what_is_missing_is_said_at_the_start() {
    let error = Kit::new(tasks()).await.unwrap_err();
    assert!(matches!(&error, StartError::MissingState { task, .. } if task == "welcome"), "{error}");
    assert!(error.to_string().contains("dyn testing::Mailer"), "{error}");
}

#[tokio::test]
async fn the_error_of_a_task_that_needs_state_it_did_not_name_has_the_type() {
    #[task("greedy", register = false)]
    async fn greedy(ctx: Ctx) -> Result<(), TaskError> {
        ctx.need::<Moody>()?;
        Ok(())
    }
    let mut tasks = Registry::new();
    tasks.register(greedy).unwrap();
    let ran = Kit::new(tasks).await.unwrap().run(greedy.job(())).await.unwrap();
    let error = ran.error.as_deref().unwrap();
    assert!(error.contains("no state of type testing::Moody was given to the executor"), "{error}");
}

#[tokio::test]
async fn a_job_that_cannot_run_is_refused_with_the_reason() {
    let kit = kit(0).await;
    let error = kit.run(JobRequest::new("unheard of", &())).await.unwrap_err().to_string();
    assert_eq!(error, "task: \"unheard of\" is not among the kit's tasks");
    let done = kit.run(welcome.job(welcome_to("Ada", 0))).await.unwrap();
    let error = kit.run_again(done.id).await.unwrap_err().to_string();
    assert!(error.starts_with("job: ") && error.ends_with("is success and cannot run; retry it first"), "{error}");
    kit.turnwise().cancel(done.id).await.unwrap_err();
}
