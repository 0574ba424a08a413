//! Schedules, block windows and seals, with a real dispatcher on every store.

mod schema;
mod wait;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tempfile::TempDir;
use turnwise::{
    Config, Ctx, Executor, JobId, JobRequest, JobState, NodeName, Outcome, Registry, Task, Timestamp, Turnwise,
    overview::QueueState,
    schedules::{Schedule, Window, Zone},
    view::Gate,
};
use turnwise_testpg::Cluster;
use wait::until;

/// What has run, in order.
type Order = Arc<Mutex<Vec<String>>>;

struct Note(Order);

impl Task for Note {
    type Args = String;
    const NAME: &'static str = "note";
    async fn run(&self, _: Ctx, name: String) -> Outcome {
        self.0.lock().unwrap().push(name);
        Outcome::done()
    }
}

struct Place {
    turnwise: Turnwise,
    url: String,
    order: Order,
    _folder: TempDir,
}

impl Place {
    async fn at(url: impl FnOnce(&TempDir) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(&folder);
        let turnwise = schema::open(&url).await;
        Self { turnwise, url, order: Order::default(), _folder: folder }
    }

    async fn memory() -> Self {
        Self::at(|_| "memory:".to_owned()).await
    }

    async fn sqlite() -> Self {
        Self::at(|folder| format!("sqlite:{}", folder.path().join("jobs.db").display())).await
    }

    async fn postgres() -> Self {
        Self::at(|_| Cluster::shared().fresh_database().unwrap()).await
    }

    /// A node with one slot that notes what it runs.
    async fn node(&self) -> Arc<Executor> {
        let mut config = Config::new(NodeName::new("worker").unwrap());
        config.core_pool_size = 1;
        config.queue_capacity = 0;
        let mut registry = Registry::new();
        registry.register(Note(Arc::clone(&self.order))).unwrap();
        let executor = Arc::new(self.turnwise.executor_with(config).registry(registry).build().unwrap());
        executor.start().await.unwrap();
        executor
    }

    async fn submit(&self, queue: &str, name: &str) -> JobId {
        self.turnwise.submit(note(queue, name)).await.unwrap()
    }

    async fn wait_for(&self, id: JobId) {
        until("a job to end", || async { self.turnwise.job(id).await.unwrap().state == JobState::Success }).await;
    }

    /// Submits to a queue of its own and waits for the end: by then the dispatcher has seen what was done before.
    async fn pass(&self, name: &str) {
        let id = self.submit("free", name).await;
        self.wait_for(id).await;
    }

    async fn gates(&self, id: JobId) -> Vec<Gate> {
        self.turnwise.why(id).await.unwrap().why.unwrap().gates
    }

    async fn state(&self, queue: &str) -> QueueState {
        self.turnwise.overview().await.unwrap().state(&queue.parse().unwrap())
    }

    fn ran(&self) -> Vec<String> {
        self.order.lock().unwrap().clone()
    }
}

fn note(queue: &str, name: &str) -> JobRequest {
    JobRequest::new("note", &name).queue(queue)
}

macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test(flavor = "multi_thread")] async fn $case() { super::$case(super::Place::memory().await).await })*
        }
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")] async fn $case() { super::$case(super::Place::sqlite().await).await })*
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")] async fn $case() { super::$case(super::Place::postgres().await).await })*
        }
    };
}

on_every_store!(
    a_schedule_that_is_changed_moves_the_jobs_that_wait,
    a_job_is_started_by_the_schedule_and_no_second_time_is_waited_for,
    a_queue_in_a_window_starts_nothing_until_the_window_is_taken_away,
    a_sealed_queue_is_finished_only_when_the_dispatcher_says_so,
);

/// Months away, whenever the test runs.
fn far(now: Timestamp) -> Schedule {
    let month = if now.to_string()[5..7].parse::<u32>().unwrap() < 6 { 12 } else { 3 };
    Schedule::new(&format!("0 0 15 {month} *"), Zone::UTC).unwrap()
}

async fn a_schedule_that_is_changed_moves_the_jobs_that_wait(place: Place) {
    let far = far(place.turnwise.now().await.unwrap());
    place.turnwise.set_queue("nightly", |queue| queue.schedule = Some(far.clone())).await.unwrap();
    let _node = place.node().await;
    let scheduled = place.submit("nightly", "scheduled").await;
    let own = place.turnwise.submit(note("nightly", "own").delay(Duration::from_secs(3_600))).await.unwrap();
    place.pass("free").await;
    let job = place.turnwise.job(scheduled).await.unwrap();
    let due = far.next(job.submitted_at).unwrap();
    let gate = Gate::Scheduled { queue: "nightly".parse().unwrap(), schedule: far, due };
    assert_eq!(place.gates(scheduled).await, [gate]);
    let own_due = place.turnwise.job(own).await.unwrap().due_at.unwrap();
    assert_eq!(place.gates(own).await, [Gate::NotDue(own_due)]);
    assert_eq!(place.ran(), ["free"]);
    place.turnwise.set_queue("nightly", |queue| queue.schedule = None).await.unwrap();
    place.wait_for(scheduled).await;
    assert_eq!(place.gates(own).await, [Gate::NotDue(own_due)]);
}

async fn a_job_is_started_by_the_schedule_and_no_second_time_is_waited_for(place: Place) {
    let every_second = Schedule::new("* * * * * *", Zone::UTC).unwrap();
    place.turnwise.set_queue("quick", |queue| queue.schedule = Some(every_second.clone())).await.unwrap();
    let _node = place.node().await;
    let id = place.submit("quick", "scheduled").await;
    place.wait_for(id).await;
    let job = place.turnwise.job(id).await.unwrap();
    let due = every_second.next(job.submitted_at).unwrap();
    assert!(job.assigned_at.unwrap() >= due, "{job:?}");
}

async fn a_queue_in_a_window_starts_nothing_until_the_window_is_taken_away(place: Place) {
    let now = place.turnwise.now().await.unwrap();
    let hour = |by: u64| now.plus(Duration::from_secs(by * 3_600)).to_string()[11..13].to_owned();
    // From the hour that is now to the end of the next: no test takes so long.
    let window: Window = format!("{}:00-{}:00", hour(0), hour(2)).parse().unwrap();
    place.turnwise.set_queue("closed", |queue| queue.block = vec![window.clone()]).await.unwrap();
    let _node = place.node().await;
    let held = place.submit("closed", "held").await;
    place.pass("free").await;
    let gates = place.gates(held).await;
    let until = window.until(now).unwrap();
    assert_eq!(gates, [Gate::Window { queue: "closed".parse().unwrap(), window, until }]);
    assert_eq!(place.ran(), ["free"]);
    place.turnwise.set_queue("closed", |queue| queue.block = Vec::new()).await.unwrap();
    place.wait_for(held).await;
}

async fn a_sealed_queue_is_finished_only_when_the_dispatcher_says_so(place: Place) {
    place.turnwise.set_queue("second", |queue| queue.after = vec!["first".parse().unwrap()]).await.unwrap();
    let second = place.submit("second", "second").await;
    place.turnwise.seal_queue("first").await.unwrap();
    assert_eq!(place.state("first").await, QueueState::Active, "no dispatcher has looked for open transactions yet");
    let _node = place.node().await;
    place.wait_for(second).await;
    assert_eq!(place.state("first").await, QueueState::Finished);
    let unsealed = place.turnwise.unseal_queue("first").await.unwrap();
    assert_eq!((unsealed.sealed, unsealed.quiet), (None, None));
}

#[tokio::test]
async fn windows_that_leave_no_time_are_refused() {
    let place = Place::memory().await;
    let always: Vec<Window> = vec!["00:00-24:00".parse().unwrap()];
    let refused = place.turnwise.set_queue("q", |queue| queue.block = always.clone()).await.unwrap_err();
    assert!(refused.to_string().starts_with("block: the windows leave no time"), "{refused}");
    assert!(place.turnwise.settings().await.unwrap().queues.is_empty());
}

#[tokio::test]
async fn a_simulation_goes_by_windows_and_by_the_schedule_it_is_asked_about() {
    let place = Place::memory().await;
    let far = far(place.turnwise.now().await.unwrap());
    place.turnwise.set_queue("nightly", |queue| queue.schedule = Some(far.clone())).await.unwrap();
    let id = place.submit("nightly", "scheduled").await;
    let job = place.turnwise.job(id).await.unwrap();
    let hourly = Schedule::new("@hourly", Zone::UTC).unwrap();
    let change = |settings: &mut turnwise::settings::Settings| {
        settings.queues.values_mut().for_each(|queue| queue.schedule = Some(hourly.clone()));
    };
    let comparison = place.turnwise.simulate(Some(1), change).await.unwrap();
    let after = &comparison.after.groups[&job.group];
    assert_eq!((after.starts, after.longest), (1, Duration::ZERO), "a wait begins when a job is due");
    assert!(after.first.unwrap() <= hourly.next(job.submitted_at).unwrap().since(job.submitted_at));
}

/// Ends the transaction that was open when the queue was sealed, and returns what ran in which order.
async fn sealed_over_an_open_transaction(commit: bool) -> (Place, Vec<String>) {
    let place = Place::postgres().await;
    place.turnwise.set_queue("second", |queue| queue.after = vec!["first".parse().unwrap()]).await.unwrap();
    let _node = place.node().await;
    let (mut client, connection) = tokio_postgres::connect(&place.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let open = client.transaction().await.unwrap();
    note("first", "first").submit_in_postgres(&open).await.unwrap();
    place.turnwise.seal_queue("first").await.unwrap();
    let second = place.submit("second", "second").await;
    // After these two jobs the dispatcher has seen the seal, and there is a slot.
    place.pass("free").await;
    place.pass("free too").await;
    assert_eq!(place.state("first").await, QueueState::Active);
    let waits = Gate::WaitsFor { queue: "second".parse().unwrap(), other: "first".parse().unwrap() };
    assert_eq!(place.gates(second).await, [waits]);
    if commit {
        open.commit().await.unwrap()
    } else {
        open.rollback().await.unwrap()
    }
    place.wait_for(second).await;
    let ran = place.ran();
    (place, ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_transaction_that_was_open_at_the_seal_is_waited_for() {
    let (place, ran) = sealed_over_an_open_transaction(true).await;
    assert_eq!(ran, ["free", "free too", "first", "second"]);
    assert_eq!(place.state("first").await, QueueState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_rolled_back_does_not_hold_a_queue_up_for_long() {
    let (_place, ran) = sealed_over_an_open_transaction(false).await;
    assert_eq!(ran, ["free", "free too", "second"]);
}
