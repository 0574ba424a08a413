//! Promises of `enqueue`.

use std::time::Duration;

use turnwise_core::{
    Fence, GroupName, JobId, JobState, KeyName, NewJob, Priority, QueueName, RetryPolicy, Step, Timestamp, Unique,
    UniqueKey,
    calendar::GivenTime,
    job::Counts,
    json::MAX_JSON_BYTES,
    lifecycle::{Event, Outcome},
    name::MAX_NAME_BYTES,
};

use super::{Harness, scene::*};
use crate::store::*;

pub async fn a_new_job_waits_and_is_due_at_once(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let (seen, now) = (scene.job(1).await, scene.now().await);
    assert_eq!((seen.state, seen.counts, seen.fence), (JobState::Waiting, Counts::default(), Fence(0)));
    assert_eq!((seen.submitted_at, seen.due_at), (now, Some(now)));
    assert_eq!((seen.assigned_at, seen.started_at, seen.finished_at), (None, None, None));
    assert_eq!((seen.node, seen.result, seen.error, seen.cancel_requested), (None, None, None, false));
}

pub async fn every_field_of_a_job_is_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let due = scene.now().await.plus(Duration::from_micros(90_000_001));
    let asked = NewJob {
        queue: QueueName::new("bulk").expect("a good name"),
        group: GroupName::new("tenant 7").expect("a good name"),
        priority: Priority::new(9).expect("a good priority"),
        due: Some(due),
        ..job_with_retry(1, "durations:10s,250ms,1us")
    };
    scene.submit(vec![asked.clone()]).await;
    let seen = scene.job(1).await;
    assert_eq!((&seen.task, &seen.args, &seen.queue), (&asked.task, &asked.args, &asked.queue));
    assert_eq!((&seen.group, seen.priority, &seen.retry), (&asked.group, asked.priority, &asked.retry));
    assert_eq!(seen.due_at, Some(due));
    let head = scene.head(1).await.expect("it is unfinished");
    assert_eq!((&head.task, &head.queue, &head.group), (&asked.task, &asked.queue, &asked.group));
    assert_eq!((head.priority, head.due, head.node, head.crashes), (asked.priority, Some(due), None, 0));
}

pub async fn a_limit_key_stays_with_its_job_all_its_life(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let begin = scene.news(None).await.cursor;
    let longest = "ß".repeat(MAX_NAME_BYTES / 2);
    let keys = [Some("db-1"), None, Some(longest.as_str())].map(|key| key.map(|key| KeyName::new(key).expect("good")));
    scene.submit((1..).zip(&keys).map(|(n, key)| NewJob { key: key.clone(), ..job(n) }).collect()).await;
    let news: Vec<_> = scene.news(Some(begin)).await.jobs.into_iter().map(|head| head.key).collect();
    assert_eq!(news, keys);
    for (n, key) in (1..).zip(&keys) {
        let head = || async { scene.head(n).await.expect("it is unfinished").key };
        assert_eq!((&scene.job(n).await.key, &head().await), (key, key));
        scene.give(u128::from(n), &[n], BETA).await;
        scene.end(BETA, n, Outcome::Interrupted).await;
        let begin = scene.news(None).await.cursor;
        scene.intervene(n, Event::Cancel).await;
        assert_eq!(&scene.job(n).await.key, key, "in history, by a person");
        scene.intervene(n, Event::Retry).await;
        assert_eq!((&scene.job(n).await.key, &head().await), (key, key), "back again");
        assert_eq!(&scene.news(Some(begin)).await.jobs[0].key, key);
        scene.give(u128::from(10 + n), &[n], BETA).await;
        scene.end(BETA, n, done()).await;
        assert_eq!(&scene.job(n).await.key, key, "in history, by its node");
    }
    let pages = scene.store.jobs(Filter::default()).await.expect("jobs");
    assert_eq!(pages.into_iter().rev().map(|job| job.key).collect::<Vec<_>>(), keys);
}

pub async fn every_retry_policy_is_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let policies = ["exponential:10s,5", "exponential:0s,0", "durations:1us,2d", "manual", "none"];
    scene.submit((1..).zip(policies).map(|(n, policy)| job_with_retry(n, policy)).collect()).await;
    for (n, policy) in (1..).zip(policies) {
        assert_eq!(scene.job(n).await.retry.map(|retry| retry.to_string()).as_deref(), Some(policy));
    }
}

pub async fn a_job_that_names_no_retry_policy_is_told_from_one_that_names_the_default(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let default = || Some(RetryPolicy::default());
    // Alone, and in a list that is long enough for every way in which a store writes many.
    scene.submit(vec![job(1), NewJob { retry: default(), ..job(2) }]).await;
    let retry_of = |n: u64| if n.is_multiple_of(2) { default() } else { None };
    scene.submit((3..=400).map(|n| NewJob { retry: retry_of(n), ..job(n) }).collect()).await;
    for n in [3, 4, 399, 400] {
        assert_eq!(scene.job(n).await.retry, retry_of(n), "{n}");
    }
    for n in [1, 2] {
        assert_eq!(scene.job(n).await.retry, retry_of(n));
        assert_eq!(scene.give_mine(n.into(), n).await.retry, retry_of(n), "in the hands of its node");
        scene.end(ALPHA, n, failed("once")).await;
        assert_eq!((scene.job(n).await.state, scene.job(n).await.retry), (JobState::Stuck, retry_of(n)));
        scene.give((10 + n).into(), &[n], BETA).await;
        assert_eq!(
            scene.mail(BETA).await.pop().and_then(|delivery| delivery.jobs.into_iter().next()).map(|job| job.retry),
            Some(retry_of(n)),
            "by mail"
        );
        scene.end(BETA, n, Outcome::Fail("for good".into())).await;
        assert_eq!((scene.job(n).await.state, scene.job(n).await.retry), (JobState::Failed, retry_of(n)), "in history");
        scene.intervene(n, Event::Retry).await;
        assert_eq!(
            (scene.job(n).await.state, scene.job(n).await.retry),
            (JobState::Waiting, retry_of(n)),
            "back again"
        );
        scene.give((20 + n).into(), &[n], ALPHA).await;
        let next = Step { retry: retry_of(n + 1), ..step("sign") };
        scene.end(ALPHA, n, Outcome::Next { step: Box::new(next), due: None }).await;
        assert_eq!(scene.job(n).await.retry, retry_of(n + 1), "that of its next step");
        scene.give((30 + n).into(), &[n], BETA).await;
    }
    let lost = scene.lose_beta(h).await;
    let kept: Vec<_> = [1, 2].map(|n| lost.jobs.iter().find(|job| job.id == id(n)).map(|job| job.retry.clone())).into();
    assert_eq!(kept, [Some(retry_of(2)), Some(retry_of(3))], "lost with its node");
}

pub async fn a_time_that_is_named_is_told_from_none(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let now = scene.now().await;
    let second = Duration::from_secs(1);
    let given = [None, Some(now), Some(now.minus(second)), Some(now.plus(second))];
    scene.submit((1..).zip(given).map(|(n, due)| NewJob { due, ..job(n) }).collect()).await;
    for (n, given) in (1..).zip(given) {
        let (job, head) = (scene.job(n).await, scene.head(n).await.expect("unfinished"));
        assert_eq!((head.due, head.submitted_at), (job.due_at, now));
        assert_eq!(GivenTime::from(&head).follows_from(), given.is_none().then_some(now), "{given:?}");
        let due = job.due_at.expect("a time");
        assert!(given.unwrap_or(now).since(due) <= Duration::from_micros(1), "{given:?} is kept as {due}");
    }
}

pub async fn the_first_and_the_last_moment_are_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let ends = [Timestamp::MIN, Timestamp::from_micros(-1), Timestamp::from_micros(0), Timestamp::MAX];
    scene.submit((1..).zip(ends).map(|(n, due)| NewJob { due: Some(due), ..job(n) }).collect()).await;
    for (n, due) in (1..).zip(ends) {
        assert_eq!(scene.job(n).await.due_at, Some(due));
        assert_eq!(scene.head(n).await.and_then(|head| head.due), Some(due));
    }
}

pub async fn jobs_of_one_call_are_in_the_order_they_were_given(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([5, 2, 9, 1, 7]).await;
    scene.enqueue([3]).await;
    let mut heads = scene.heads().await;
    heads.sort_by_key(|head| head.seq);
    let order: Vec<_> = heads.iter().map(|head| head.id).collect();
    assert_eq!(order, [5, 2, 9, 1, 7, 3].map(id));
}

pub async fn replies_are_in_the_order_of_the_jobs(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([4, 2]).await;
    let replies = scene.store.enqueue([5, 4, 3, 2, 1].map(job).to_vec()).await.expect("enqueue");
    let expected =
        [(5, true), (4, false), (3, true), (2, false), (1, true)].map(|(n, new)| Submitted::itself(id(n), new));
    assert_eq!(replies, expected);
}

pub async fn an_empty_call_is_answered_with_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    assert_eq!(scene.store.enqueue(vec![]).await.expect("enqueue"), []);
    assert_eq!(scene.heads().await, []);
}

pub async fn an_id_twice_in_one_call_is_one_job(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let replies = scene.store.enqueue(vec![job(1), job(2), job(1)]).await.expect("enqueue");
    assert_eq!(replies.iter().map(|reply| reply.new).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(scene.heads().await.len(), 2);
}

pub async fn a_repeated_job_leaves_the_first_as_it_is(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    let before = scene.job(1).await;
    h.advance(SECOND).await;
    let other = NewJob { args: json("[]"), priority: Priority::LOW, ..job(1) };
    assert_eq!(scene.store.enqueue(vec![other]).await.expect("enqueue"), [Submitted::itself(id(1), false)]);
    assert_eq!(scene.job(1).await, before);
}

pub async fn a_repeated_job_is_recognised_while_it_runs(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.start(BETA, 1).await;
    assert!(!scene.store.enqueue(vec![job(1)]).await.expect("enqueue")[0].new);
    assert_eq!(scene.state(1).await, JobState::Running);
}

pub async fn a_repeated_job_is_recognised_after_its_end(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1], BETA).await;
    assert_eq!(scene.end(BETA, 1, done()).await, Settled::Applied);
    assert_eq!(scene.intervene(2, Event::Cancel).await, Settled::Applied);
    let replies = scene.store.enqueue(vec![job(1), job(2), job(3)]).await.expect("enqueue");
    assert_eq!(replies.iter().map(|reply| reply.new).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((scene.state(1).await, scene.state(2).await), (JobState::Success, JobState::Cancelled));
    assert_eq!(scene.heads().await.len(), 1);
}

pub async fn of_sixteen_submitters_of_one_id_one_is_told_new(h: &impl Harness) {
    let mut callers = Vec::new();
    for n in 0..16 {
        let store = h.open().await;
        let jobs = vec![job(1), job(100 + n), job(2)];
        callers.push(tokio::spawn(async move { until_answered(|| store.enqueue(jobs.clone())).await }));
    }
    let mut new = [0, 0, 0];
    for caller in callers {
        let replies = caller.await.expect("no caller panics");
        for (count, reply) in new.iter_mut().zip(replies) {
            *count += u32::from(reply.new);
        }
    }
    assert_eq!(new, [1, 16, 1]);
    let page = h.open().await.load(Load::After { id: None, limit: ALL }).await.expect("load");
    assert_eq!(page.jobs.len(), 18);
}

pub async fn arguments_are_kept_to_the_letter(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let texts = [
        r#"{"b":1.50,"a":12345678901234567890, "c" : "\u00e9","b":2}"#,
        "null",
        "1e2",
        r#""\"\\\/\b\f\n\r\t'; drop table job; --""#,
        r#"["😀","é","日本語","\u2028"]"#,
        "{ }",
        r"[0.10000000000000000001,-0]",
    ];
    scene.submit((1..).zip(texts).map(|(n, text)| NewJob { args: json(text), ..job(n) }).collect()).await;
    for (n, text) in (1..).zip(texts) {
        assert_eq!(scene.job(n).await.args.as_str(), text);
        assert_eq!(scene.give_mine(u128::from(n), n).await.args.as_str(), text);
        let result = Outcome::Done { result: Some(json(text)) };
        assert_eq!(scene.end(ALPHA, n, result).await, Settled::Applied);
        let ended = scene.job(n).await;
        assert_eq!((ended.args.as_str(), ended.result.as_ref().map(|json| json.as_str())), (text, Some(text)));
    }
}

pub async fn the_largest_arguments_and_results_pass(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let large = json(&format!("\"{}\"", "x".repeat(MAX_JSON_BYTES - 2)));
    scene.submit(vec![NewJob { args: large.clone(), ..job(1) }]).await;
    scene.give(1, &[1], BETA).await;
    assert!(scene.mail(BETA).await[0].jobs[0].args == large, "the delivery carries other arguments");
    assert_eq!(scene.end(BETA, 1, Outcome::Done { result: Some(large.clone()) }).await, Settled::Applied);
    let ended = scene.job(1).await;
    assert!(ended.args == large && ended.result == Some(large), "other arguments or another result were kept");
}

pub async fn names_of_all_scripts_are_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let longest = "ß".repeat(MAX_NAME_BYTES / 2);
    let names =
        ["Küche & Söhne", "日本語", "a'b\"c\\d%_", "😀 {}", "\u{feff}x", "e\u{301}", "é", "A", "a", longest.as_str()];
    let jobs = (1..).zip(names).map(|(n, name)| NewJob {
        task: task(name),
        queue: QueueName::new(name).expect("a good name"),
        group: GroupName::new(name).expect("a good name"),
        ..job(n)
    });
    scene.submit(jobs.collect()).await;
    for (n, name) in (1..).zip(names) {
        let seen = scene.job(n).await;
        assert_eq!((seen.task.as_str(), seen.queue.as_str(), seen.group.as_str()), (name, name, name));
        // Two spellings of one letter, or its upper and lower case, make two names.
        let filter = Filter { group: Some(name.to_owned()), ..Filter::default() };
        let found = scene.store.jobs(filter).await.expect("jobs");
        assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), [id(n)]);
    }
}

pub async fn a_thousand_jobs_in_one_call_are_all_there(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue(0..1_000).await;
    let heads = scene.heads().await;
    assert_eq!(heads.iter().map(|head| head.id).collect::<Vec<_>>(), (0..1_000).map(id).collect::<Vec<_>>());
}

pub async fn a_submit_rings_the_sleeping_dispatcher(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let bell = scene.store.bell();
    let begin = scene.news(None).await.cursor;
    let ask = AskNews { cursor: Some(begin.clone()), epoch: scene.epoch, asleep: true, new_jobs: u32::MAX };
    let asleep = scene.store.news(ask).await.expect("news");
    scene.enqueue([1]).await;
    rung(&bell.news).await;
    assert_eq!(scene.news(Some(asleep.cursor)).await.jobs.len(), 1);
}

/// More jobs than in most calls: a store may store so many in another way.
const LONG: u64 = 600;

pub async fn a_long_list_is_stored_in_its_order_with_all_its_jobs_have(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let expires = scene.now().await.plus(Duration::from_micros(90_000_001));
    let asked = |n: u64| NewJob {
        group: GroupName::new(format!("tenant {}", n % 7)).expect("a good name"),
        priority: Priority::new(i64::try_from(n % 10).expect("less than ten") + 1).expect("a good priority"),
        key: n.is_multiple_of(3).then(|| KeyName::new("db-1").expect("good")),
        expires: n.is_multiple_of(5).then_some(expires),
        ..job_with_retry(n, if n.is_multiple_of(2) { "durations:10s,250ms,1us" } else { "exponential:10s,5" })
    };
    let begin = scene.news(None).await.cursor;
    // Not in the order of their ids.
    let order: Vec<u64> = (1..=LONG).rev().collect();
    let replies = scene.store.enqueue(order.iter().map(|n| asked(*n)).collect()).await.expect("enqueue");
    assert_eq!(replies, order.iter().map(|n| Submitted::itself(id(*n), true)).collect::<Vec<_>>());
    let mut heads = scene.heads().await;
    heads.sort_by_key(|head| head.seq);
    assert_eq!(heads.iter().map(|head| head.id).collect::<Vec<_>>(), order.iter().map(|n| id(*n)).collect::<Vec<_>>());
    let now = scene.now().await;
    for n in [1, 2, 3, 5, 30, LONG] {
        let (seen, asked) = (scene.job(n).await, asked(n));
        assert_eq!((&seen.task, &seen.args, &seen.queue), (&asked.task, &asked.args, &asked.queue));
        assert_eq!((&seen.group, seen.priority, &seen.retry), (&asked.group, asked.priority, &asked.retry));
        assert_eq!((&seen.key, seen.expires_at), (&asked.key, asked.expires));
        assert_eq!((seen.submitted_at, seen.due_at, seen.state), (now, Some(now), JobState::Waiting));
    }
    assert_eq!(scene.news(Some(begin)).await.jobs.len(), heads.len());
}

pub async fn what_is_there_or_has_ended_is_left_out_of_a_long_list(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([7, 9]).await;
    scene.give(1, &[7], BETA).await;
    scene.end(BETA, 7, done()).await;
    for twice in [300, 301] {
        // The second time, all of them are there.
        let replies = scene.store.enqueue((1..=LONG).chain([twice]).map(job).collect()).await.expect("enqueue");
        let new: Vec<_> = replies.iter().filter(|reply| reply.new).map(|reply| reply.id).collect();
        let expected = (1..=LONG).filter(|n| twice == 300 && ![7, 9].contains(n)).map(id);
        assert_eq!(new, expected.collect::<Vec<_>>());
        assert_eq!(replies.len() as u64, LONG + 1);
    }
    assert_eq!(scene.job(7).await.state, JobState::Success);
    assert_eq!(scene.heads().await.len() as u64, LONG - 1);
}

pub async fn one_that_waits_or_comes_twice_is_one_job_of_a_long_list(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([9]).await;
    let new = |replies: Vec<Submitted>| replies.into_iter().filter(|reply| reply.new).map(|reply| reply.id);
    let first = scene.store.enqueue((1..=LONG).map(job).collect()).await.expect("enqueue");
    assert!(new(first).eq((1..=LONG).filter(|n| *n != 9).map(id)));
    let list = (LONG + 1..=2 * LONG).flat_map(|n| std::iter::repeat_n(job(n), if n == LONG + 7 { 2 } else { 1 }));
    let second = scene.store.enqueue(list.collect()).await.expect("enqueue");
    assert!(new(second).eq((LONG + 1..=2 * LONG).map(id)));
    for n in [9, LONG + 7, 2 * LONG] {
        assert_eq!(scene.job(n).await.state, JobState::Waiting);
    }
}

pub async fn an_id_that_is_no_uuid_of_version_seven_is_refused(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let others =
        [uuid::Uuid::nil(), uuid::Uuid::max(), uuid::Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef)];
    for other in others {
        let odd = NewJob { id: JobId::from_uuid(other), ..job(2) };
        let refused = scene.store.enqueue(vec![job(1), odd]).await.expect_err("it is no UUIDv7").to_string();
        assert_eq!(
            refused,
            format!("id: {other} is not a UUIDv7; make ids of that version, or let Turnwise make them")
        );
    }
    assert_eq!(scene.heads().await, [], "nothing of the call is stored");
}

/// The job with an id of this moment.
fn of_moment(n: u8, at: Timestamp) -> NewJob {
    NewJob { id: JobId::from_parts(u64::try_from(at.micros() / 1_000).expect("after 1970"), [n; 10]), ..job(1) }
}

pub async fn an_id_of_the_future_is_refused_and_one_of_a_minute_ahead_is_not(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let now = scene.now().await;
    let late = of_moment(1, now.plus(JobId::MAX_AHEAD + SECOND));
    let unique = Unique::new(UniqueKey::new("k").expect("a good key"));
    let keyed = NewJob { unique: Some(Box::new(unique)), ..late.clone() };
    let mut long: Vec<_> = (1..=LONG).map(job).collect();
    long.push(late.clone());
    for jobs in [vec![late.clone()], vec![job(1), late.clone(), job(2)], vec![keyed], long] {
        let refused = scene.store.enqueue(jobs).await.expect_err("it is of the future");
        assert!(matches!(&refused, crate::StoreError::Refused(text) if text == crate::ids::AHEAD), "{refused:?}");
    }
    assert_eq!(scene.heads().await, [], "nothing of the calls is stored");
    // A millisecond less than a minute: an id knows no microseconds.
    let close = of_moment(2, now.plus(JobId::MAX_AHEAD));
    scene.submit(vec![close]).await;
    h.advance(2 * SECOND).await;
    scene.submit(vec![late]).await;
}

pub async fn a_job_that_is_there_is_recognised_though_its_id_is_of_the_future_by_now(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let now = scene.now().await;
    // The clock of a still database only goes forward: the other way round, a job of the far future is there by other means.
    let close = of_moment(1, now.plus(JobId::MAX_AHEAD));
    scene.submit(vec![close.clone()]).await;
    let later = of_moment(2, now.plus(JobId::MAX_AHEAD * 2));
    let replies = scene.store.enqueue(vec![close.clone(), job(3)]).await.expect("enqueue");
    assert_eq!(replies.iter().map(|reply| reply.new).collect::<Vec<_>>(), [false, true]);
    assert!(scene.store.enqueue(vec![close.clone(), later]).await.is_err());
    assert!(!scene.store.enqueue(vec![close]).await.expect("enqueue")[0].new);
}
