//! Promises of `job`, `jobs` and `prune`.

use turnwise_core::{
    GroupName, JobState, NewJob, QueueName, Timestamp, Unique, UniqueKey,
    lifecycle::Event,
    unique::{Hold, Scope},
};

use super::{Harness, scene::*};
use crate::store::*;

fn numbers(jobs: &[turnwise_core::Job], of: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let of: Vec<_> = of.into_iter().collect();
    jobs.iter().map(|job| *of.iter().find(|n| id(**n) == job.id).expect("a job of this test")).collect()
}

pub async fn an_unknown_job_is_none(h: &impl Harness) {
    let scene = Scene::led(h).await;
    assert_eq!(scene.find(1).await, None);
    assert_eq!(scene.store.jobs(Filter::default()).await.expect("jobs"), []);
}

pub async fn jobs_come_newest_first_and_finished_ones_are_among_them(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([3, 1, 4, 2]).await;
    scene.intervene(3, Event::Cancel).await;
    let jobs = scene.store.jobs(Filter::default()).await.expect("jobs");
    assert_eq!(numbers(&jobs, 1..=4), [4, 3, 2, 1]);
    for (n, listed) in [4, 3, 2, 1].into_iter().zip(&jobs) {
        assert_eq!(&scene.job(n).await, listed);
    }
}

pub async fn all_given_conditions_must_hold(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let queue = QueueName::new("bulk").expect("a good name");
    let group = GroupName::new("g").expect("a good name");
    scene
        .submit(vec![
            job(1),
            NewJob { queue: queue.clone(), ..job(2) },
            NewJob { group: group.clone(), ..job(3) },
            NewJob { queue: queue.clone(), group: group.clone(), ..job(4) },
            NewJob { task: task("extract"), queue, group, ..job(5) },
        ])
        .await;
    scene.give(1, &[2], BETA).await;
    scene.intervene(4, Event::Cancel).await;
    let some = |text: &str| Some(text.to_owned());
    let cases = [
        (Filter { queue: some("bulk"), ..Filter::default() }, vec![5, 4, 2]),
        (Filter { group: some("g"), ..Filter::default() }, vec![5, 4, 3]),
        (Filter { task: some("extract"), ..Filter::default() }, vec![5]),
        (Filter { queue: some("bulk"), group: some("g"), ..Filter::default() }, vec![5, 4]),
        (Filter { states: vec![JobState::Cancelled], ..Filter::default() }, vec![4]),
        (Filter { states: vec![JobState::Cancelled, JobState::Scheduled], ..Filter::default() }, vec![4, 2]),
        (Filter { states: vec![JobState::Waiting], queue: some("bulk"), ..Filter::default() }, vec![5]),
        (Filter { queue: some("nowhere"), ..Filter::default() }, vec![]),
    ];
    for (filter, expected) in cases {
        let jobs = scene.store.jobs(filter.clone()).await.expect("jobs");
        assert_eq!(numbers(&jobs, 1..=5), expected, "{filter:?}");
    }
}

pub async fn jobs_are_found_by_the_time_of_their_submit(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let mut times = Vec::new();
    for n in 1..=3 {
        scene.enqueue([n]).await;
        times.push(scene.job(n).await.submitted_at);
        h.advance(SECOND).await;
    }
    scene.intervene(1, Event::Cancel).await;
    scene.intervene(2, Event::Cancel).await;
    let find = async |since: Option<Timestamp>, until: Option<Timestamp>| {
        let jobs = scene.store.jobs(Filter { since, until, ..Filter::default() }).await.expect("jobs");
        numbers(&jobs, 1..=3)
    };
    assert_eq!(find(Some(times[1]), None).await, [3, 2]);
    assert_eq!(find(None, Some(times[1])).await, [1]);
    assert_eq!(find(Some(times[1]), Some(times[2])).await, [2]);
    assert_eq!(find(Some(times[2].plus(SECOND)), None).await, [0; 0]);
}

pub async fn jobs_are_found_by_a_range_of_ids(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=5).await;
    scene.intervene(3, Event::Cancel).await;
    let find = async |first: u64, last: u64| {
        let ids = Some((id(first), id(last)));
        numbers(&scene.store.jobs(Filter { ids, ..Filter::default() }).await.expect("jobs"), 1..=5)
    };
    assert_eq!(find(2, 4).await, [4, 3, 2]);
    assert_eq!(find(3, 3).await, [3]);
    assert_eq!(find(4, 2).await, [0; 0]);
}

pub async fn the_job_that_holds_a_unique_key_is_found_by_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let keyed = |n: u64, key: &str, scope: Scope, hold: Hold| {
        let key = UniqueKey::new(key).expect("a good key");
        NewJob { unique: Some(Box::new(Unique { scope, hold, ..Unique::new(key) })), ..job(n) }
    };
    scene
        .submit(vec![
            keyed(1, "k", Scope::Task, Hold::UntilEnded),
            keyed(2, "k", Scope::Queue, Hold::UntilEnded),
            keyed(3, "other", Scope::Task, Hold::UntilEnded),
            keyed(4, "hour", Scope::Group, Hold::For(2 * SECOND)),
        ])
        .await;
    let find = async |key: &str, states: Vec<JobState>| {
        let filter = Filter { unique: Some(key.to_owned()), states, ..Filter::default() };
        numbers(&scene.store.jobs(filter).await.expect("jobs"), 1..=4)
    };
    assert_eq!(find("k", Vec::new()).await, [2, 1]);
    assert_eq!(find("k", vec![JobState::Success]).await, [0; 0]);
    assert_eq!(find("nothing", Vec::new()).await, [0; 0]);
    scene.intervene(1, Event::Cancel).await;
    scene.intervene(4, Event::Cancel).await;
    assert_eq!(find("k", Vec::new()).await, [2], "it has ended");
    assert_eq!(find("hour", Vec::new()).await, [4], "its time is not over");
    h.advance(3 * SECOND).await;
    assert_eq!(find("hour", Vec::new()).await, [0; 0]);
}

pub async fn every_state_can_be_asked_for(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene
        .submit(vec![job(1), job(2), job(3), job_with_retry(4, "manual"), job(5), job_with_retry(6, "none"), job(7)])
        .await;
    scene.give(1, &[2, 3, 4, 5, 6], BETA).await;
    scene.start(BETA, 3).await;
    scene.end(BETA, 4, failed("x")).await;
    scene.end(BETA, 5, done()).await;
    scene.end(BETA, 6, failed("x")).await;
    scene.intervene(7, Event::Cancel).await;
    for (n, state) in (1..).zip(JobState::ALL) {
        let jobs = scene.store.jobs(Filter { states: vec![state], ..Filter::default() }).await.expect("jobs");
        assert_eq!(numbers(&jobs, 1..=7), [n], "{state}");
    }
}

pub async fn what_nodes_have_can_be_asked_for_alone(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let queue = QueueName::new("bulk").expect("a good name");
    let jobs = (1..=7).map(|n| if n % 2 == 0 { NewJob { queue: queue.clone(), ..job(n) } } else { job(n) });
    scene.submit(jobs.collect()).await;
    scene.give(1, &[2, 3, 4], BETA).await;
    scene.give(2, &[5], ALPHA).await;
    scene.start(BETA, 3).await;
    scene.end(BETA, 4, done()).await;
    scene.intervene(7, Event::Cancel).await;
    let ask = async |filter: Filter| {
        let jobs = scene.store.jobs(Filter { in_hands: true, ..filter }).await.expect("jobs");
        for job in &jobs {
            assert_eq!(Some(job), scene.store.job(job.id).await.expect("job").as_ref(), "as it is shown alone");
        }
        numbers(&jobs, 1..=7)
    };
    assert_eq!(ask(Filter::default()).await, [5, 3, 2]);
    assert_eq!(ask(Filter { limit: Some(2), ..Filter::default() }).await, [5, 3]);
    assert_eq!(ask(Filter { states: vec![JobState::Running], ..Filter::default() }).await, [3]);
    assert_eq!(ask(Filter { states: vec![JobState::Waiting, JobState::Success], ..Filter::default() }).await, [0; 0]);
    assert_eq!(ask(Filter { queue: Some("bulk".to_owned()), ..Filter::default() }).await, [2]);
    assert_eq!(ask(Filter { ids: Some((id(1), id(4))), ..Filter::default() }).await, [3, 2]);
    scene.end(BETA, 3, failed("x")).await;
    assert_eq!(ask(Filter::default()).await, [5, 2]);
}

pub async fn a_listing_has_a_limit(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let count = u64::from(Filter::DEFAULT_LIMIT) + 5;
    scene.enqueue(1..=count).await;
    scene.intervene(count, Event::Cancel).await;
    scene.intervene(1, Event::Cancel).await;
    let jobs = scene.store.jobs(Filter { limit: Some(3), ..Filter::default() }).await.expect("jobs");
    assert_eq!(numbers(&jobs, 1..=count), [count, count - 1, count - 2]);
    let jobs = scene.store.jobs(Filter::default()).await.expect("jobs");
    assert_eq!((jobs.len(), jobs.last().map(|job| job.id)), (100, Some(id(6))));
    assert_eq!(scene.store.jobs(Filter { limit: Some(0), ..Filter::default() }).await.expect("jobs"), []);
    let all = Filter { limit: Some(u32::MAX), ..Filter::default() };
    assert_eq!(scene.store.jobs(all).await.expect("jobs").len() as u64, count);
}

pub async fn what_one_process_wrote_another_reads_at_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let other = Scene { store: h.open().await, epoch: scene.epoch };
    for n in 1..=20 {
        scene.enqueue([n]).await;
        assert_eq!(other.state(n).await, JobState::Waiting);
        other.intervene(n, Event::Cancel).await;
        assert_eq!(scene.state(n).await, JobState::Cancelled);
    }
}

pub async fn history_is_pruned_by_days_after_its_retention_and_not_before(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3]).await;
    // A second before midnight, and a second after.
    let now = scene.store.nodes().await.expect("nodes").now;
    let midnight = Timestamp::from_micros((now.micros() / 86_400_000_000 + 1) * 86_400_000_000);
    h.advance(midnight.minus(SECOND).since(now)).await;
    scene.intervene(1, Event::Cancel).await;
    h.advance(SECOND * 2).await;
    scene.intervene(2, Event::Cancel).await;
    h.advance(RETENTION - SECOND * 2).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    h.advance(SECOND).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    assert_eq!(
        (scene.find(1).await, scene.state(2).await, scene.state(3).await),
        (None, JobState::Cancelled, JobState::Waiting)
    );
    h.advance(DAY - SECOND).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    h.advance(SECOND).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    assert_eq!(scene.state(3).await, JobState::Waiting, "an unfinished job is never pruned");
}

pub async fn a_redriven_job_is_kept_from_its_last_end(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.intervene(1, Event::Cancel).await;
    h.advance(RETENTION).await;
    scene.intervene(1, Event::Retry).await;
    scene.intervene(1, Event::Cancel).await;
    h.advance(SECOND).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 0);
    assert_eq!(scene.state(1).await, JobState::Cancelled);
}

pub async fn pruning_has_a_limit(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(1..=5).await;
    for n in 1..=5 {
        scene.intervene(n, Event::Cancel).await;
    }
    h.advance(RETENTION + DAY).await;
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(scene.store.prune(None, 2).await.expect("prune"));
    }
    assert_eq!(gone, [2, 2, 1, 0]);
    assert_eq!(scene.store.jobs(Filter::default()).await.expect("jobs"), []);
}

pub async fn pruning_seen_changes_hides_none_that_were_not_seen(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    let begin = scene.news(None).await.cursor;
    scene.end(BETA, 1, done()).await;
    let seen = scene.news(Some(begin)).await;
    assert_eq!(seen.changes.len(), 1);
    scene.end(BETA, 2, done()).await;
    let gone = scene.store.prune(Some(seen.cursor.clone()), ALL).await.expect("prune");
    assert!(gone <= 1, "only what was seen may go");
    let news = scene.news(Some(seen.cursor)).await;
    assert_eq!(news.changes.iter().map(|change| change.id).collect::<Vec<_>>(), [id(2)]);
}

pub async fn a_pruned_id_is_new_again(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.intervene(1, Event::Cancel).await;
    h.advance(RETENTION + DAY).await;
    assert_eq!(scene.store.prune(None, ALL).await.expect("prune"), 1);
    scene.enqueue([1]).await;
    assert_eq!((scene.state(1).await, scene.job(1).await.fence.0), (JobState::Waiting, 0));
}
