//! Promises of `list_jobs`.

use std::{collections::BTreeSet, sync::Arc};

use turnwise_core::{
    GroupName, JobId, JobState, NewJob, NodeName, QueueName, Timestamp, Unique, UniqueKey, lifecycle::Event,
};

use super::{OperatorHarness, scene::*};
use crate::{
    OperatorStore,
    operators::{AskJobs, GROUPS_BY_INDEX, JobPage, LOOKS, ListCursor, ListFilter, MAX_PAGE},
};

async fn list(store: &Arc<dyn OperatorStore>, filter: &ListFilter, cursor: Option<ListCursor>, limit: u32) -> JobPage {
    let ask = AskJobs { filter: filter.clone(), cursor, limit, looks: None };
    store.list_jobs(ask).await.expect("list jobs")
}

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

/// All pages, and how many there were.
async fn pages(store: &Arc<dyn OperatorStore>, filter: &ListFilter, limit: u32) -> (Vec<JobId>, usize) {
    let (mut all, mut cursor, mut count) = (Vec::new(), None, 0);
    loop {
        let page = list(store, filter, cursor, limit).await;
        assert!(page.jobs.len() <= limit as usize, "{page:?}");
        all.extend(ids(&page));
        count += 1;
        match page.next {
            Some(next) => cursor = Some(next.to_string().parse().expect("a cursor is read as it is written")),
            None => return (all, count),
        }
    }
}

fn numbers(all: &[JobId], of: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let of: Vec<_> = of.into_iter().collect();
    all.iter().map(|found| *of.iter().find(|n| id(**n) == *found).expect("a job of this test")).collect()
}

async fn find(store: &Arc<dyn OperatorStore>, filter: ListFilter) -> Vec<u64> {
    let (all, _) = pages(store, &filter, 2).await;
    assert_eq!(ids(&list(store, &filter, None, MAX_PAGE).await), all, "the same in one page: {filter:?}");
    numbers(&all, 1..=9)
}

pub async fn pages_hold_every_job_once_newest_first(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    assert_eq!(list(&store, &ListFilter::default(), None, 10).await, JobPage::default());
    scene.enqueue(1..=7).await;
    for n in [2, 3, 6] {
        scene.intervene(n, Event::Cancel).await;
    }
    for limit in [1, 2, 3, 7, 100, u32::MAX] {
        let (all, _) = pages(&store, &ListFilter::default(), limit).await;
        assert_eq!(numbers(&all, 1..=7), [7, 6, 5, 4, 3, 2, 1], "{limit} a page");
    }
    let page = list(&store, &ListFilter::default(), None, 3).await;
    assert_eq!((page.jobs.len(), page.reached), (3, None), "a full page says nothing of how far it came");
    let all = scene.store.jobs(crate::store::Filter::default()).await.expect("jobs");
    assert_eq!(list(&store, &ListFilter::default(), None, 10).await.jobs, all, "with all that is known of them");
}

pub async fn a_list_goes_on_from_its_cursor_whatever_came_or_ended_meanwhile(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue(2..=6).await;
    let first = list(&store, &ListFilter::default(), None, 2).await;
    assert_eq!(numbers(&ids(&first), 1..=9), [6, 5]);
    scene.enqueue([1, 7]).await;
    scene.intervene(3, Event::Cancel).await;
    scene.intervene(5, Event::Cancel).await;
    let second = list(&store, &ListFilter::default(), first.next, 10).await;
    assert_eq!(numbers(&ids(&second), 1..=9), [4, 3, 2, 1]);
    assert_eq!(second.next, None);
}

pub async fn every_condition_of_a_list_must_hold(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let queue = |name: &str| QueueName::new(name).expect("a good name");
    let group = |name: &str| GroupName::new(name).expect("a good name");
    scene
        .submit(vec![
            job(1),
            NewJob { queue: queue("slow"), ..job(2) },
            NewJob { group: group("acme"), ..job(3) },
            NewJob { queue: queue("slow"), group: group("acme"), ..job(4) },
            NewJob { task: task("extract"), queue: queue("fast"), ..job(5) },
            NewJob { args: json(r#"{"to":"Ann 100%_"}"#), ..job(6) },
        ])
        .await;
    scene.give(1, &[2, 5], BETA).await;
    scene.intervene(4, Event::Cancel).await;
    scene.end(BETA, 5, done()).await;
    let queues = |names: &[&str]| Some(names.iter().map(|name| queue(name)).collect::<BTreeSet<_>>());
    let groups = |names: &[&str]| Some(names.iter().map(|name| group(name)).collect::<BTreeSet<_>>());
    let node = |name: &str| Some(NodeName::new(name).expect("a good name"));
    let some = |text: &str| Some(text.to_owned());
    let any = ListFilter::default;
    let cases = [
        (ListFilter { queues: queues(&["slow"]), ..any() }, vec![4, 2]),
        (ListFilter { queues: queues(&["slow", "fast", "none"]), ..any() }, vec![5, 4, 2]),
        (ListFilter { queues: queues(&[]), ..any() }, vec![]),
        (ListFilter { groups: groups(&["acme"]), ..any() }, vec![4, 3]),
        (ListFilter { queues: queues(&["slow"]), groups: groups(&["acme"]), ..any() }, vec![4]),
        (ListFilter { tasks: Some([task("extract")].into()), ..any() }, vec![5]),
        (ListFilter { states: [JobState::Waiting].into(), ..any() }, vec![6, 3, 1]),
        (ListFilter { states: [JobState::Success, JobState::Scheduled].into(), ..any() }, vec![5, 2]),
        (ListFilter { states: [JobState::Cancelled].into(), queues: queues(&["slow"]), ..any() }, vec![4]),
        (ListFilter { node: node("beta"), ..any() }, vec![5, 2]),
        (ListFilter { node: node("beta"), states: [JobState::Success].into(), ..any() }, vec![5]),
        (ListFilter { node: node("alpha"), ..any() }, vec![]),
        (ListFilter { args: some("Ann"), ..any() }, vec![6]),
        (ListFilter { args: some("100%_"), ..any() }, vec![6]),
        (ListFilter { args: some("%"), states: [JobState::Success].into(), ..any() }, vec![]),
        (ListFilter { args: some(r#"{"n":3}"#), ..any() }, vec![3]),
    ];
    for (filter, expected) in cases {
        assert_eq!(find(&store, filter.clone()).await, expected, "{filter:?}");
    }
}

pub async fn jobs_are_listed_by_the_time_of_their_submit(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let mut times: Vec<Timestamp> = Vec::new();
    for n in 1..=3 {
        // Ids of the present, as far ahead as they may be, and one that was made long before its submit.
        let at = scene.now().await;
        let ahead = u64::try_from(at.plus(JobId::MAX_AHEAD).micros() / 1_000).expect("after 1970");
        let fresh = JobId::from_parts(ahead, [u8::try_from(n).expect("small"); 10]);
        scene.submit(vec![NewJob { id: fresh, ..job(n) }, job(n)]).await;
        times.push(at);
        h.advance(SECOND).await;
    }
    let count = async |since: Option<Timestamp>, until: Option<Timestamp>| {
        let filter = ListFilter { since, until, ..ListFilter::default() };
        pages(&store, &filter, 1).await.0.len()
    };
    assert_eq!(count(None, None).await, 6);
    assert_eq!(count(Some(times[1]), None).await, 4);
    assert_eq!(count(None, Some(times[1])).await, 2);
    assert_eq!(count(Some(times[1]), Some(times[2])).await, 2);
    assert_eq!(count(Some(times[2].plus(SECOND)), None).await, 0);
}

pub async fn the_holder_of_a_unique_key_is_listed(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let key = |text: &str| UniqueKey::new(text).expect("a good key");
    let keyed = |n: u64, text: &str| NewJob { unique: Some(Box::new(Unique::new(key(text)))), ..job(n) };
    scene.submit(vec![keyed(1, "a"), keyed(2, "b"), NewJob { task: task("extract"), ..keyed(3, "a") }]).await;
    let holding = |text: &str| ListFilter { unique: Some(key(text)), ..ListFilter::default() };
    assert_eq!(find(&store, holding("a")).await, [3, 1]);
    assert_eq!(find(&store, ListFilter { tasks: Some([task("mail")].into()), ..holding("a") }).await, [1]);
    assert_eq!(find(&store, holding("c")).await, [0; 0]);
    scene.intervene(3, Event::Cancel).await;
    assert_eq!(find(&store, holding("a")).await, [1]);
}

pub async fn failed_jobs_are_listed_by_their_kind_of_error(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.submit((1..=6).map(|n| job_with_retry(n, if n == 2 { "manual" } else { "none" })).collect()).await;
    scene.give(1, &[1, 2, 3, 4], BETA).await;
    scene.end(BETA, 1, failed("the disk is full")).await;
    scene.end(BETA, 2, failed("the disk is full")).await;
    scene.end(BETA, 3, failed("no such host")).await;
    scene.end(BETA, 4, done()).await;
    scene.intervene(1, Event::Retry).await;
    let kind = |job: &turnwise_core::Job| job.fingerprint.clone().expect("it has failed");
    let (full, host) = (kind(&scene.job(2).await), kind(&scene.job(3).await));
    assert_ne!(full, host, "or this shows nothing");
    let of = |kind: &String| ListFilter { fingerprint: Some(kind.clone()), ..ListFilter::default() };
    assert_eq!(find(&store, of(&host)).await, [3]);
    let again = if scene.job(1).await.fingerprint.is_some() { vec![2, 1] } else { vec![2] };
    assert_eq!(find(&store, of(&full)).await, again);
    // An error that a job got over is not what became of it.
    scene.give(2, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(find(&store, of(&full)).await, [2]);
    scene.intervene(2, Event::GiveUp).await;
    assert_eq!(find(&store, of(&full)).await, [2]);
    assert_eq!(find(&store, ListFilter { states: [JobState::Failed].into(), ..of(&full) }).await, [2]);
    assert_eq!(find(&store, ListFilter { states: [JobState::Success].into(), ..of(&full) }).await, [0; 0]);
    assert_eq!(find(&store, of(&"nothing of this kind".to_owned())).await, [0; 0]);
}

pub async fn jobs_of_tasks_with_secrets_are_found_whatever_text_is_looked_for(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let (charge, args) = (task("charge"), |text: &str| json(&format!(r#"{{"to":{text:?}}}"#)));
    scene
        .submit(vec![
            NewJob { args: args("ann"), ..job(1) },
            NewJob { args: args("bob"), ..job(2) },
            NewJob { args: args("ann"), task: charge.clone(), ..job(3) },
            NewJob { args: args("bob"), task: charge.clone(), ..job(4) },
            NewJob {
                args: args("bob"),
                task: charge.clone(),
                queue: QueueName::new("slow").expect("a name"),
                ..job(5)
            },
        ])
        .await;
    scene.intervene(4, Event::Cancel).await;
    let some = |text: &str| Some(text.to_owned());
    let masked = ListFilter { masked: [charge].into(), ..ListFilter::default() };
    assert_eq!(find(&store, ListFilter { args: some("ann"), ..masked.clone() }).await, [5, 4, 3, 1]);
    assert_eq!(find(&store, ListFilter { args: some("no one"), ..masked.clone() }).await, [5, 4, 3]);
    let slow = Some([QueueName::new("slow").expect("a name")].into());
    assert_eq!(find(&store, ListFilter { args: some("ann"), queues: slow, ..masked.clone() }).await, [5]);
    assert_eq!(find(&store, masked).await, [5, 4, 3, 2, 1]);
}

pub async fn a_look_for_one_among_many_is_bounded_and_comes_to_its_end(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let needle = NewJob { task: task("extract"), ..job(1) };
    let many = u64::from(LOOKS) + 500;
    let mut all = vec![needle];
    all.extend((2..=many).map(job));
    scene.submit(all).await;
    let filter = ListFilter { tasks: Some([task("extract")].into()), ..ListFilter::default() };
    let page = list(&store, &filter, None, 10).await;
    assert!(page.jobs.is_empty() && page.next.is_some(), "it is not found at once");
    let reached = page.reached.expect("it says how far it came");
    let time = |n: u64| Timestamp::from_micros(i64::try_from(id(n).unix_millis()).expect("in range") * 1_000);
    assert!(reached > time(1) && reached < time(many), "{reached}");
    let (found, count) = pages(&store, &filter, 10).await;
    assert_eq!(found, [id(1)]);
    assert!((2..=3).contains(&count), "{count} pages");
    let nothing = ListFilter { args: Some("no such text".to_owned()), ..ListFilter::default() };
    let (found, count) = pages(&store, &nothing, 10).await;
    assert!(found.is_empty() && (2..=3).contains(&count), "{count} pages");
}

pub async fn a_caller_that_looks_closer_itself_has_fewer_rows_looked_at(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let needle = NewJob { task: task("extract"), ..job(1) };
    scene.submit([needle].into_iter().chain((2..=9).map(job)).collect()).await;
    scene.intervene(2, Event::Cancel).await;
    let filter = ListFilter { tasks: Some([task("extract")].into()), ..ListFilter::default() };
    let (mut cursor, mut pages) = (None, 0);
    let last = loop {
        let ask = AskJobs { filter: filter.clone(), cursor, limit: 2, looks: Some(3) };
        let page = store.list_jobs(ask).await.expect("list jobs");
        pages += 1;
        match page.next {
            Some(next) => {
                assert!(page.jobs.is_empty() && page.reached == Some(next.reached()), "{page:?}");
                cursor = Some(next);
            }
            None => break page,
        }
    };
    assert_eq!((ids(&last), pages), (vec![id(1)], 3), "three rows a call");
    let every = AskJobs { limit: 4, looks: Some(1), ..AskJobs::default() };
    let page = store.list_jobs(every).await.expect("list jobs");
    assert_eq!((page.jobs.len(), page.next.is_some(), page.reached), (4, true, None), "a full page all the same");
}

pub async fn finished_jobs_are_listed_at_once_however_many_wait(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.submit((1..=u64::from(LOOKS) + 500).map(job).collect()).await;
    scene.intervene(2, Event::Cancel).await;
    let filter = ListFilter { states: [JobState::Cancelled].into(), ..ListFilter::default() };
    let page = list(&store, &filter, None, 10).await;
    assert_eq!(
        (ids(&page), page.next, page.reached),
        (vec![id(2)], None, None),
        "it is older than all that were looked at"
    );
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).expect("a good name")
}

fn of_groups<'a>(names: impl IntoIterator<Item = &'a str>) -> ListFilter {
    ListFilter { groups: Some(names.into_iter().map(group).collect()), ..ListFilter::default() }
}

pub async fn a_quiet_group_is_listed_at_once_however_loud_another_is(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let slow = QueueName::new("slow").expect("a good name");
    let old = |n: u64| NewJob { group: group("quiet"), ..job(n) };
    let mut all: Vec<_> = (1..=28).map(old).collect();
    all.extend([NewJob { queue: slow.clone(), ..old(29) }, NewJob { task: task("extract"), ..old(30) }]);
    all.extend((31..=u64::from(LOOKS) + 531).map(|n| NewJob { group: group("loud"), ..job(n) }));
    scene.submit(all).await;
    for n in 3..=6 {
        scene.intervene(n, Event::Cancel).await;
    }
    let quiet = of_groups(["quiet"]);
    let of = |states: &[JobState]| ListFilter { states: states.iter().copied().collect(), ..quiet.clone() };
    let cases = [
        (quiet.clone(), (1..=30).rev().collect()),
        (of(&[JobState::Waiting]), (7..=30).rev().chain([2, 1]).collect()),
        (of(&[JobState::Cancelled]), vec![6, 5, 4, 3]),
        (of(&[JobState::Success]), vec![]),
        (ListFilter { queues: Some([slow].into()), ..quiet.clone() }, vec![29]),
        (ListFilter { tasks: Some([task("extract")].into()), ..quiet.clone() }, vec![30]),
        (ListFilter { fingerprint: Some("none of this kind".to_owned()), ..quiet.clone() }, vec![]),
    ];
    for (filter, expected) in cases {
        let page = list(&store, &filter, None, 100).await;
        assert_eq!(numbers(&ids(&page), 1..=30), expected, "{filter:?}");
        assert_eq!((page.next, page.reached), (None, None), "nothing is left to look at: {filter:?}");
        let (all, _) = pages(&store, &filter, 7).await;
        assert_eq!(all, ids(&page), "the same in small pages: {filter:?}");
    }
    // A loud group is looked through as far as any list is: the rest comes with a later page.
    let nothing = ListFilter { args: Some("no such text".to_owned()), ..of_groups(["loud"]) };
    let page = list(&store, &nothing, None, 10).await;
    assert!(page.jobs.is_empty() && page.next.is_some() && page.reached.is_some(), "{page:?}");
    let (found, count) = pages(&store, &nothing, 10).await;
    assert!(found.is_empty() && (2..=3).contains(&count), "{count} pages");
    let (both, _) = pages(&store, &of_groups(["quiet", "loud"]), MAX_PAGE).await;
    assert_eq!(both.len(), LOOKS as usize + 531);
    assert!(both.is_sorted_by(|one, next| one > next), "newest first, across the groups");
}

pub async fn groups_are_listed_as_one_however_many_they_are(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let many = GROUPS_BY_INDEX + 1;
    let names: Vec<String> = (0..many).map(|n| format!("g{n}")).collect();
    let name_of = |n: u64| &*names[usize::try_from(n).expect("small") * 7 % many];
    scene.submit((1..=60).map(|n| NewJob { group: group(name_of(n)), ..job(n) }).collect()).await;
    for n in (1..=60).step_by(4) {
        scene.intervene(n, Event::Cancel).await;
    }
    for count in [1, 2, 5, many - 1, many] {
        let names = || names.iter().take(count).map(|name| &**name);
        let expected: Vec<u64> = (1..=60).rev().filter(|n| names().any(|name| name == name_of(*n))).collect();
        for limit in [1, 3, 10, 100] {
            let (all, _) = pages(&store, &of_groups(names()), limit).await;
            assert_eq!(numbers(&all, 1..=60), expected, "{count} groups, {limit} a page");
        }
        let cancelled = ListFilter { states: [JobState::Cancelled].into(), ..of_groups(names()) };
        let (all, _) = pages(&store, &cancelled, 2).await;
        let expected: Vec<u64> = expected.into_iter().filter(|n| n % 4 == 1).collect();
        assert_eq!(numbers(&all, 1..=60), expected, "{count} groups");
    }
}
