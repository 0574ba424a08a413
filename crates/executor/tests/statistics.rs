//! Statistics: what the dispatcher counts of runs here and elsewhere, and what is left of it after a hand-over and a crash.

mod support;

use std::time::Duration;

use support::{
    virtual_time::{live, stop, store},
    *,
};
use turnwise_core::{
    GroupName, JobId, NewJob, QueueName, Timestamp,
    statistics::{Counted, Of, Span, Sums},
};
use turnwise_executor::{Ctx, Outcome, Registry, Task};
use turnwise_store::{AskErrors, AskOf, AskStatistics, MemoryStore, OperatorStore, Store};

/// Ends well with its third attempt.
struct Flaky;
impl Task for Flaky {
    type Args = ();
    const NAME: &'static str = "flaky";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if ctx.attempt() < 3 { Outcome::error("the line is busy") } else { Outcome::done() }
    }
}

struct Hopeless;
impl Task for Hopeless {
    type Args = ();
    const NAME: &'static str = "hopeless";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::fail("no such number")
    }
}

struct Nap;
impl Task for Nap {
    type Args = ();
    const NAME: &'static str = "nap";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Outcome::done()
    }
}

fn registry() -> Registry {
    tasks!(Flaky, Hopeless, Nap)
}

fn of_group(group: &str, task: &str) -> NewJob {
    NewJob { group: GroupName::new(group).unwrap(), ..job(task, "null") }
}

async fn all_end(store: &MemoryStore, jobs: &[JobId]) {
    for id in jobs {
        ended(store, *id).await;
    }
}

/// What is stored of a task since the beginning.
async fn total(store: &MemoryStore, task: &str) -> Sums {
    let totals = store.statistics_totals().await.unwrap();
    let mut wanted = totals.into_iter().filter(|row| matches!(&row.of, Of::Task(name) if name.as_str() == task));
    wanted.next().map(|row| row.sums).unwrap_or_default()
}

fn counts(sums: &Sums) -> [u64; 7] {
    Counted::ALL.map(|counted| sums.count(counted))
}

async fn minutes_of_groups(store: &MemoryStore) -> Vec<(Of, Sums)> {
    let of = AskOf::Groups { queue: QueueName::default(), groups: None };
    let ask = AskStatistics { span: Span::Minute, since: Timestamp::MIN, until: Timestamp::MAX, of };
    store.statistics(ask).await.unwrap().into_iter().map(|timed| (timed.row.of, timed.row.sums)).collect()
}

#[tokio::test(start_paused = true)]
async fn runs_here_and_elsewhere_are_counted_alike_with_the_errors_of_every_attempt() {
    for elsewhere in [false, true] {
        let store = store();
        let mut nodes = Vec::new();
        if elsewhere {
            nodes.push(live(node(&store, "worker", registry()).configure(|config| config.dispatch = false)));
            nodes.push(live(node(&store, "dispatcher", Registry::new())));
        } else {
            nodes.push(live(node(&store, "both", registry())));
        }
        let jobs = [of_group("a", "flaky"), of_group("a", "flaky"), of_group("b", "hopeless"), of_group("b", "nap")];
        store.enqueue(jobs.to_vec()).await.unwrap();
        all_end(&store, &ids(&jobs)).await;
        stop(nodes).await;
        let flaky = total(&store, "flaky").await;
        assert_eq!(counts(&flaky), [6, 2, 0, 0, 0, 4, 0], "elsewhere: {elsewhere}");
        assert_eq!(flaky.runs().count(), 6);
        assert!(flaky.runs().quantile(1.0).unwrap() < Duration::from_millis(100), "{flaky:?}");
        assert_eq!(flaky.histogram(Counted::Started).count(), 6);
        assert_eq!(counts(&total(&store, "hopeless").await), [1, 0, 1, 0, 0, 0, 0]);
        let nap = total(&store, "nap").await;
        assert_eq!(counts(&nap), [1, 1, 0, 0, 0, 0, 0]);
        assert!(nap.used >= 1_000_000, "a second of a slot: {nap:?}");
        let ask = AskErrors { span: Span::Minute, since: Timestamp::MIN, until: Timestamp::MAX };
        let timed = store.error_statistics(ask).await.unwrap();
        let mut errors: Vec<_> = timed.into_iter().map(|timed| timed.error).collect();
        errors.sort_by_key(|error| error.count);
        let errors: Vec<_> = errors.iter().map(|error| (error.fingerprint, error.count)).collect();
        let [flaky, _, hopeless, _] = &jobs;
        let print = async |job: &NewJob| story(&store, job.id).await.attempts[0].failure.as_ref().unwrap().print();
        assert_eq!(errors, [(print(hopeless).await, 1), (print(flaky).await, 4)], "as the jobs have them");
        // The groups' numbers come to the same.
        let mut of_groups = Sums::default();
        minutes_of_groups(&store).await.iter().for_each(|(_, sums)| of_groups.add(sums));
        assert_eq!(counts(&of_groups), [8, 3, 1, 0, 0, 4, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_dies_takes_ten_seconds_at_most_with_it_and_totals_go_on() {
    let store = store();
    let worker = live(node(&store, "worker", registry()).configure(|config| config.dispatch = false));
    let first = live(node(&store, "first", Registry::new()));
    let ends_within = async |seconds: u32| {
        let mut last = None;
        for _ in 0..seconds {
            let job = job("nap", "null");
            last = Some(put(&store, job).await);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        ended(&store, last.unwrap()).await;
    };
    ends_within(95).await;
    first.1.abort();
    let kept = total(&store, "nap").await;
    let ended_so_far = kept.count(Counted::Success);
    assert!((84..=95).contains(&ended_so_far), "{ended_so_far} of 95");
    let second = live(node(&store, "second", Registry::new()));
    ends_within(30).await;
    stop([second, worker]).await;
    let after = total(&store, "nap").await.count(Counted::Success);
    assert!(after >= ended_so_far + 28 && after <= 125, "{after} after {ended_so_far}");
    // By the minute, nothing is counted that is not in the totals.
    let mut by_minute = Sums::default();
    minutes_of_groups(&store).await.iter().for_each(|(_, sums)| by_minute.add(sums));
    assert_eq!(by_minute.count(Counted::Success), after);
}

#[tokio::test(start_paused = true)]
async fn groups_of_equal_weight_are_entitled_to_the_same_and_use_it() {
    let store = store();
    let node = node(&store, "one", registry()).configure(|config| config.core_pool_size = 1);
    let jobs: Vec<_> = (0..40).map(|n| of_group(if n < 20 { "a" } else { "b" }, "nap")).collect();
    store.enqueue(jobs.clone()).await.unwrap();
    let node = live(node);
    all_end(&store, &ids(&jobs)).await;
    stop([node]).await;
    let sums = |name: &str, rows: &[(Of, Sums)]| {
        let mut sums = Sums::default();
        let own = |of: &Of| matches!(of, Of::Group(group) if group.as_str() == name);
        rows.iter().filter(|(of, _)| own(of)).for_each(|(_, row)| sums.add(row));
        sums
    };
    let rows = minutes_of_groups(&store).await;
    let (a, b) = (sums("a", &rows), sums("b", &rows));
    let second = |sums: &Sums| (sums.used / 1_000_000, sums.entitled / 1_000_000);
    assert_eq!((second(&a).0, second(&b).0), (20, 20), "each used what its jobs took");
    for group in [&a, &b] {
        let entitled = second(group).1;
        assert!((17..=21).contains(&entitled), "about as much as it used: {entitled}");
    }
}
