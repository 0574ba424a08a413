//! Settings are changed without losing another caller's change, and a view shows what the dispatcher will do.

mod schema;
mod wait;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Notify;
use turnwise::{
    Config, Error, Filter, JobId, JobRequest, JobState, NodeName, Turnwise,
    settings::{Concurrency, Fairness},
    task,
    view::{Gate, Whose},
};
use wait::until;

static RELEASE: Notify = Notify::const_new();
static ORDER: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Holds the slot until the test lets go of it.
#[task("hold", register = false)]
async fn hold(_nothing: ()) {
    RELEASE.notified().await;
}

#[task("pass", register = false)]
async fn pass(_nothing: ()) {}

#[task("note", register = false)]
async fn note(name: String) {
    ORDER.lock().unwrap().push(name);
}

#[tokio::test]
async fn changes_made_at_the_same_time_are_all_kept() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let changes = (0..8).map(|_| {
        let turnwise = turnwise.clone();
        tokio::spawn(async move {
            turnwise.set_group("acme", |group| group.max_waiting = Some(group.max_waiting.unwrap_or(0) + 1)).await
        })
    });
    for change in changes.collect::<Vec<_>>() {
        change.await.unwrap().unwrap();
    }
    let settings = turnwise.settings().await.unwrap();
    assert_eq!(settings.groups.values().next().unwrap().max_waiting, Some(8));
}

#[tokio::test]
async fn a_pause_keeps_its_moment_and_what_else_is_set() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    turnwise.set_queue("mail", |queue| queue.concurrency = Concurrency::AtMost(3)).await.unwrap();
    let first = turnwise.pause_queue("mail", Some("rest".to_owned())).await.unwrap();
    let again = turnwise.pause_queue("mail", None).await.unwrap();
    assert_eq!((&first.paused, first.concurrency), (&again.paused, Concurrency::AtMost(3)));
    assert_eq!(first.paused.unwrap().reason.as_deref(), Some("rest"));
    let resumed = turnwise.resume_queue("mail").await.unwrap();
    assert_eq!((resumed.paused, resumed.concurrency), (None, Concurrency::AtMost(3)));
    assert!(matches!(turnwise.pause_queue("", None).await, Err(Error::Invalid(_))));
    assert!(matches!(turnwise.pause_queue("mail", Some("a\nb".to_owned())).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn queues_that_wait_for_each_other_are_refused() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let after = |name: &str| vec![name.parse().unwrap()];
    turnwise.set_queue("b", |queue| queue.after = after("a")).await.unwrap();
    turnwise.set_queue("c", |queue| queue.after = after("b")).await.unwrap();
    let refused = turnwise.set_queue("a", |queue| queue.after = after("c")).await.unwrap_err().to_string();
    assert!(refused.starts_with("after: ") && refused.contains("a → c → b → a"), "{refused}");
    assert!(!turnwise.settings().await.unwrap().queues.contains_key(&"a".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forecast_is_the_order_in_which_jobs_then_start() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    // Turns do not depend on how long a run happens to take.
    turnwise.set_queue("default", |queue| queue.fairness = Fairness::Turns).await.unwrap();
    let (heavy, scheme) = ("2".parse().unwrap(), "1,3".parse().unwrap());
    turnwise.set_installation(|installation| installation.scheme = scheme).await.unwrap();
    turnwise.set_group("heavy", |group| group.weight = heavy).await.unwrap();
    let mut config = Config::new(NodeName::new("worker").unwrap());
    config.core_pool_size = 1;
    // Nothing is assigned ahead of its start, so that the order of starts is the order of turns.
    config.queue_capacity = 0;
    let mut registry = turnwise::Registry::new();
    registry.register(hold).unwrap().register(note).unwrap();
    let executor = Arc::new(turnwise.executor_with(config).registry(registry).build().unwrap());
    executor.start().await.unwrap();
    let holder = turnwise.submit(hold.job(())).await.unwrap();
    until("the slot to be taken", || async { turnwise.job(holder).await.unwrap().state == JobState::Running }).await;

    let mut jobs: Vec<(JobId, String)> = Vec::new();
    for n in 0..24_i64 {
        let group = ["flood", "flood", "flood", "heavy", "quiet", "flood"][usize::try_from(n % 6).unwrap()];
        let name = format!("{group} {n}");
        let request: JobRequest = note.job(name.clone()).group(group).priority(1 + (n * 7) % 10);
        jobs.push((turnwise.submit(request).await.unwrap(), name));
    }
    let view = turnwise.scheduler_view().await.unwrap();
    let mut foretold: Vec<(usize, String)> = Vec::new();
    for (id, name) in &jobs {
        let why = view.why(*id).unwrap();
        assert_eq!(why.gates, [Gate::SlotsBusy { slots: 1 }], "{name}");
        foretold.push((why.forecast.unwrap().before, name.clone()));
    }
    foretold.sort();
    assert_eq!(foretold.iter().map(|(before, _)| *before).collect::<Vec<_>>(), (0..24).collect::<Vec<_>>());

    RELEASE.notify_one();
    until("the end", || async { ORDER.lock().unwrap().len() == 24 }).await;
    let names: Vec<_> = foretold.into_iter().map(|(_, name)| name).collect();
    assert_eq!(*ORDER.lock().unwrap(), names);
    executor.stop().await;
    let ended = turnwise.why(jobs[0].0).await.unwrap();
    assert!(ended.why.is_none() && ended.job.state == JobState::Success);
}

/// Another process sets it; the one that runs the jobs does not dispatch, and so reads no news.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_comes_to_go_by_what_is_set_for_the_installation() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let (office, workshop) = (schema::open(&url).await, schema::open(&url).await);
    let node = |turnwise: &Turnwise, name: &str, dispatch: bool| {
        let mut config = Config::new(NodeName::new(name).unwrap());
        config.dispatch = dispatch;
        let mut registry = turnwise::Registry::new();
        if !dispatch {
            registry.register(pass).unwrap();
        }
        Arc::new(turnwise.executor_with(config).registry(registry).build().unwrap())
    };
    let (dispatcher, worker) = (node(&office, "office", true), node(&workshop, "workshop", false));
    dispatcher.start().await.unwrap();
    worker.start().await.unwrap();
    let kept = async || {
        let id = office.submit(pass.job(())).await.unwrap();
        match office.wait(id).await {
            Ok(job) => job.state == JobState::Success,
            Err(error) => !matches!(error, Error::NoSuchJob(_)),
        }
    };
    assert!(kept().await);
    let none = Some(Duration::ZERO.into());
    let set = office.set_installation(|installation| installation.retention = none).await.unwrap();
    assert_eq!((set.retention, office.settings().await.unwrap().installation), (none, set));
    until("the other node to go by it", || async { !kept().await }).await;
    let waiting = office.submit(JobRequest::new("unknown", &())).await.unwrap();
    workshop.cancel(waiting).await.unwrap();
    assert!(matches!(office.job(waiting).await, Err(Error::NoSuchJob(_))), "a decision goes by it as well");
    worker.stop().await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn without_a_node_every_gate_is_told_and_slots_may_be_imagined() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let id = turnwise.submit(JobRequest::new("noop", &()).group("acme")).await.unwrap();
    turnwise.submit(JobRequest::new("noop", &()).group("other")).await.unwrap();
    let paused = turnwise.pause_group("acme", None).await.unwrap().paused.unwrap();
    let why = turnwise.why(id).await.unwrap().why.unwrap();
    let whose = Whose::Group("acme".parse().unwrap());
    assert_eq!((why.gates, why.forecast), (vec![Gate::Paused { whose, pause: paused }, Gate::NoLiveNode], None));
    let resume = |settings: &mut turnwise::settings::Settings| {
        settings.groups.values_mut().for_each(|group| group.paused = None);
    };
    let comparison = turnwise.simulate(Some(1), resume).await.unwrap();
    assert_eq!((comparison.before.all.starts, comparison.after.all.starts), (0, 2));
    assert_eq!((comparison.before.slots, comparison.after.slots), (0, 1));
    assert!(turnwise.settings().await.unwrap().groups.values().all(|group| group.paused.is_some()), "only imagined");
    assert_eq!(turnwise.jobs(Filter::default()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_limit_of_nothing_is_refused_and_leaves_what_was_set() {
    let turnwise = turnwise::Turnwise::open("memory:").await.unwrap();
    turnwise.set_queue("mail", |queue| queue.per_node = Some(2)).await.unwrap();
    let message = |refused: turnwise::Error| refused.to_string();
    let queue = turnwise.set_queue("mail", |queue| queue.per_node = Some(0)).await.unwrap_err();
    assert_eq!(message(queue), "per_node: must be a whole number from 1, or none");
    assert_eq!(turnwise.settings().await.unwrap().queues.values().next().unwrap().per_node, Some(2));
    let group = turnwise.set_group("acme", |group| group.max_waiting = Some(0)).await.unwrap_err();
    assert_eq!(message(group), "max_waiting: must be a whole number from 1, or none");
    let task = turnwise.set_task("send", |task| task.concurrency = Some(0)).await.unwrap_err();
    assert_eq!(message(task), "concurrency: must be a whole number from 1, or none");
    let lines = turnwise.set_installation(|installation| installation.log_lines = Some(0)).await.unwrap_err();
    assert_eq!(message(lines), "log_lines: must be a whole number from 1, or none");
}
