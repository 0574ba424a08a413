//! Promises of `note` and `story`: what a run reports is stored once, only by the node that has the job, and any caller can read
//! it.

use turnwise_core::{
    Failure, Fence, JobState, NewJob,
    job::Counts,
    lifecycle::{Ending, Event, Outcome},
    story::{Finished, Level, Line, LineAt, MAX_ATTEMPTS, Progress, Story},
};

use super::{Harness, scene::*};
use crate::store::*;

pub(super) fn line(fence: i64, number: u32, text: &str) -> Line {
    let time = turnwise_core::Timestamp::from_micros(1_893_456_000_123_457 + i64::from(number));
    Line { at: LineAt { fence: Fence(fence), number }, time, level: Level::Info, text: text.to_owned() }
}

pub(super) fn note(n: u64, fence: i64) -> Note {
    Note { job: id(n), fence: Fence(fence), progress: None, lines: vec![], trim: false, steps: vec![] }
}

fn texts(story: &Story) -> Vec<&str> {
    story.lines.iter().map(|line| line.text.as_str()).collect()
}

pub async fn a_job_goes_on_as_another_task_with_that_ones_terms(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![NewJob { terms: terms(), ..job_with_retry(1, "none") }]).await;
    scene.give(1, &[1], BETA).await;
    let due = scene.now().await.plus(SECOND * 7);
    let next = Outcome::Next { step: Box::new(step("extract")), due: Some(due) };
    let cursor = scene.news(None).await.cursor;
    assert_eq!(scene.end(BETA, 1, next).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.due_at, seen.fence, seen.node), (JobState::Waiting, Some(due), Fence(1), None));
    assert_eq!((seen.task, seen.args, seen.retry, seen.terms), {
        let step = step("extract");
        (step.task, step.args, step.retry, step.terms)
    });
    assert_eq!(seen.counts, Counts { attempt: 1, retry: 0, crashes: 0 });
    let news = scene.news(Some(cursor)).await;
    let head = news.changes.iter().find_map(|change| change.head.clone()).expect("it is news that it goes on");
    assert_eq!((head.task, head.due), (task("extract"), Some(due)));
    let assigned = scene.give_mine(2, 1).await;
    assert_eq!((assigned.task, assigned.args, assigned.fence), (task("extract"), step("x").args, Fence(2)));
}

pub async fn every_attempt_is_kept_with_its_task_and_failure(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:1s")]).await;
    scene.give(1, &[1], BETA).await;
    let failure = Failure {
        chain: vec!["could not send".into(), "conn\u{2019}n\n refused".into()],
        place: Some("a.rs:1:2".into()),
    };
    assert_eq!(scene.end(BETA, 1, Outcome::Error(failure.clone())).await, Settled::Applied);
    let first_end = scene.now().await;
    h.advance(SECOND * 2).await;
    scene.give(2, &[1], ALPHA).await;
    scene.end(ALPHA, 1, Outcome::Next { step: Box::new(step("extract")), due: None }).await;
    scene.give(3, &[1], BETA).await;
    scene.end(BETA, 1, Outcome::Panic("panic: no".into())).await;
    h.advance(SECOND * 2).await;
    scene.give(4, &[1], BETA).await;
    assert_eq!(scene.end(BETA, 1, done()).await, Settled::Applied);

    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.error.as_deref()), (JobState::Success, Some("panic: no")));
    assert_eq!(seen.fingerprint, Some(Failure::new("panic: no").fingerprint()));
    let story = scene.story(1).await;
    let attempts: Vec<_> = story
        .attempts
        .iter()
        .map(|a| (a.fence, a.number, a.task.as_str(), a.ending, a.node.as_ref().map(|name| name.as_str())))
        .collect();
    assert_eq!(
        attempts,
        [
            (Fence(1), 1, "mail", Ending::Error, Some("beta")),
            (Fence(2), 2, "mail", Ending::Next, Some("alpha")),
            (Fence(3), 3, "extract", Ending::Panic, Some("beta")),
        ]
    );
    let first = &story.attempts[0];
    assert_eq!(first.failure.as_ref(), Some(&failure));
    assert_eq!((first.started_at, first.finished_at), (Some(first_end.minus(SECOND)), Some(first_end)));
    assert_eq!(story.attempts[1].failure, None);
}

pub async fn a_lost_nodes_run_is_an_attempt(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.start(BETA, 1).await;
    scene.lose_beta(h).await;
    let lost = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), lost).await, Settled::Applied);
    let story = scene.story(1).await;
    assert_eq!(story.attempts.len(), 1);
    let attempt = &story.attempts[0];
    assert_eq!((attempt.fence, attempt.number, attempt.ending), (Fence(1), 1, Ending::NodeLost));
    assert_eq!(attempt.node.as_ref().map(|name| name.as_str()), Some("beta"));
}

pub async fn a_repeated_settle_writes_no_second_attempt(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual")]).await;
    scene.give(1, &[1], BETA).await;
    let settlement = scene.settlement(1, &Event::Ended(failed("once"))).await;
    for _ in 0..2 {
        assert_eq!(scene.settle_one(by(BETA), settlement.clone()).await, Settled::Applied);
    }
    assert_eq!(scene.story(1).await.attempts.len(), 1);
}

pub async fn a_settle_that_is_refused_writes_no_attempt(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "manual")]).await;
    scene.give(1, &[1], BETA).await;
    let old = scene.settlement(1, &Event::Ended(failed("late"))).await;
    scene.end(BETA, 1, Outcome::Interrupted).await;
    scene.give(2, &[1], ALPHA).await;
    assert_eq!(scene.settle_one(by(BETA), old).await, Settled::Superseded);
    assert_eq!(scene.story(1).await.attempts, []);
}

pub async fn attempts_beyond_the_bound_go_oldest_first(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    // More than may be kept; each end is decided as if the job had not failed before.
    let retry = scene.give(1, &[1], BETA).await[0];
    assert_eq!(retry, Fence(1));
    let over = 3;
    for n in 1..=u128::from(MAX_ATTEMPTS) + over {
        if n > 1 {
            scene.give(n, &[1], BETA).await;
        }
        scene.end(BETA, 1, Outcome::Next { step: Box::new(step("mail")), due: None }).await;
    }
    let attempts = scene.story(1).await.attempts;
    assert_eq!(attempts.len(), MAX_ATTEMPTS as usize);
    assert_eq!(attempts[0].number, 4);
    assert_eq!(attempts.last().map(|attempt| attempt.number), Some(MAX_ATTEMPTS + 3));
}

pub async fn a_note_is_there_for_those_who_ask(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], BETA).await;
    assert_eq!(scene.story(1).await, Story::default());
    let steps = vec![
        Finished { name: "fetch".into(), result: json(r#"{"a": 1.0}"#) },
        Finished { name: "übung".into(), result: json("null") },
    ];
    let progress = Some(Progress::new(3, 10, "pages ✓"));
    let mut levels: Vec<_> = Level::ALL
        .iter()
        .zip(0..)
        .map(|(level, number)| Line { level: *level, ..line(1, number, &format!("line {number}")) })
        .collect();
    let written = Note { progress: progress.clone(), lines: levels.clone(), steps: steps.clone(), ..note(1, 1) };
    assert_eq!(scene.note(BETA, written).await, Settled::Applied);
    let story = scene.story(1).await;
    assert_eq!((&story.progress, &story.lines, &story.steps), (&progress, &levels, &steps));
    assert_eq!((story.dropped, story.attempts), (0, vec![]));
    assert_eq!(scene.story(2).await, Story::default());

    // Later notes add lines and steps, and replace the progress.
    levels.push(line(1, 9, "later"));
    let more = Note { progress: Some(Progress::new(4, 10, "")), lines: vec![line(1, 9, "later")], ..note(1, 1) };
    assert_eq!(scene.note(BETA, more).await, Settled::Applied);
    assert_eq!(scene.note(BETA, note(1, 1)).await, Settled::Applied);
    let story = scene.story(1).await;
    assert_eq!((story.progress, story.lines, story.steps), (Some(Progress::new(4, 10, "")), levels, steps));
}

pub async fn a_note_of_one_who_has_not_the_job_is_refused(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1, 2, 3]).await;
    scene.give(1, &[1, 2], BETA).await;
    let said = |n, fence| Note {
        progress: Some(Progress::new(1, 2, "x")),
        lines: vec![line(fence, 0, "x")],
        steps: vec![Finished { name: "s".into(), result: json("1") }],
        ..note(n, fence)
    };
    let notes = vec![said(1, 0), said(1, 2), said(2, 1), said(3, 0), said(4, 1)];
    let replies = scene.store.note(BETA, notes).await.expect("note");
    use Settled::{Applied, Superseded};
    assert_eq!(replies, [Superseded, Superseded, Applied, Superseded, Superseded]);
    assert_eq!(scene.note(ALPHA, said(1, 1)).await, Superseded);
    for n in [1, 3, 4] {
        assert_eq!(scene.story(n).await, Story::default(), "{n}");
    }
    assert_eq!(texts(&scene.story(2).await), ["x"]);
}

pub async fn a_repeated_note_changes_nothing(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let said = Note {
        progress: Some(Progress::new(1, 2, "x")),
        lines: vec![line(1, 0, "a"), line(1, 1, "b")],
        steps: vec![Finished { name: "s".into(), result: json("1") }],
        ..note(1, 1)
    };
    assert_eq!(scene.note(BETA, said.clone()).await, Settled::Applied);
    let before = scene.story(1).await;
    assert_eq!(scene.note(BETA, said).await, Settled::Applied);
    assert_eq!(scene.story(1).await, before);
    let other = Note { steps: vec![Finished { name: "s".into(), result: json("2") }], ..note(1, 1) };
    assert_eq!(scene.note(BETA, other).await, Settled::Applied);
    assert_eq!(scene.story(1).await, before, "the first result of a step stands");
}

pub async fn a_story_goes_on_through_retries_and_to_the_next_node(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:0s")]).await;
    scene.give(1, &[1], BETA).await;
    let step = Finished { name: "fetch".into(), result: json("7") };
    scene.note(BETA, Note { lines: vec![line(1, 5, "one")], steps: vec![step.clone()], ..note(1, 1) }).await;
    scene.end(BETA, 1, failed("x")).await;
    scene.give(2, &[1], ALPHA).await;
    scene.note(ALPHA, Note { lines: vec![line(2, 0, "two")], ..note(1, 2) }).await;
    let story = scene.story(1).await;
    assert_eq!((texts(&story), &story.steps), (vec!["one", "two"], &vec![step.clone()]));
    scene.end(ALPHA, 1, done()).await;
    let story = scene.story(1).await;
    assert_eq!((texts(&story), &story.steps), (vec!["one", "two"], &vec![step]), "it can be read after the end too");
}

pub async fn the_next_step_begins_without_the_results_of_the_last(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let finished = Finished { name: "fetch".into(), result: json("7") };
    scene.note(BETA, Note { lines: vec![line(1, 0, "kept")], steps: vec![finished], ..note(1, 1) }).await;
    scene.end(BETA, 1, Outcome::Next { step: Box::new(step("extract")), due: None }).await;
    let story = scene.story(1).await;
    assert_eq!((texts(&story), story.steps.len()), (vec!["kept"], 0));
}

pub async fn a_log_keeps_its_last_lines_and_says_how_many_went(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let keep = turnwise_core::story::LOG_LINES;
    for from in (0..keep).step_by(2_500) {
        let lines = (from..from + 2_500).map(|number| line(1, number, "x")).collect();
        assert_eq!(scene.note(BETA, Note { lines, ..note(1, 1) }).await, Settled::Applied);
    }
    let lines = (keep..keep + 7).map(|number| line(1, number, "y")).collect();
    assert_eq!(scene.note(BETA, Note { lines, trim: true, ..note(1, 1) }).await, Settled::Applied);
    let ask = AskStory { job: id(1), after: None, lines: keep * 2 };
    let story = scene.store.story(ask).await.expect("story");
    assert_eq!((story.lines.len(), story.dropped), (keep as usize, 7));
    assert_eq!(story.lines.first().map(|line| line.at.number), Some(7));
    assert_eq!(story.lines.last().map(|line| line.at.number), Some(keep + 6));
    assert_eq!(scene.note(BETA, Note { trim: true, ..note(1, 1) }).await, Settled::Applied);
    assert_eq!(scene.story(1).await.dropped, 7);
}

pub async fn a_log_is_read_from_where_one_was(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "durations:0s")]).await;
    scene.give(1, &[1], BETA).await;
    scene.note(BETA, Note { lines: (0..3).map(|n| line(1, n, &format!("1.{n}"))).collect(), ..note(1, 1) }).await;
    scene.end(BETA, 1, failed("x")).await;
    scene.give(2, &[1], BETA).await;
    scene.note(BETA, Note { lines: (0..3).map(|n| line(2, n, &format!("2.{n}"))).collect(), ..note(1, 2) }).await;
    let read = async |after: Option<(i64, u32)>, lines| {
        let after = after.map(|(fence, number)| LineAt { fence: Fence(fence), number });
        let story = scene.store.story(AskStory { job: id(1), after, lines }).await.expect("story");
        (texts(&story).join(" "), story.attempts.len())
    };
    assert_eq!(read(None, 100).await, ("1.0 1.1 1.2 2.0 2.1 2.2".into(), 1));
    assert_eq!(read(None, 2).await, ("2.1 2.2".into(), 1), "the last ones, if no earlier line is named");
    assert_eq!(read(Some((1, 1)), 2).await, ("1.2 2.0".into(), 0), "the first after");
    assert_eq!(read(Some((2, 2)), 2).await, (String::new(), 0));
}

pub async fn what_a_pruned_job_told_goes_with_it(h: &impl Harness) {
    let scene = Scene::led(h).await;
    scene.submit(vec![job_with_retry(1, "none"), job(2)]).await;
    scene.give(1, &[1, 2], BETA).await;
    for n in [1, 2] {
        let steps = vec![Finished { name: "s".into(), result: json("1") }];
        let progress = Some(Progress::new(1, 1, ""));
        scene.note(BETA, Note { lines: vec![line(1, 0, "x")], steps, progress, ..note(n, 1) }).await;
    }
    scene.end(BETA, 1, failed("x")).await;
    h.advance(RETENTION + DAY).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(scene.find(1).await, None);
    assert_eq!(scene.story(1).await, Story::default());
    assert_eq!(texts(&scene.story(2).await), ["x"], "the other is still there");
}

pub async fn terms_and_the_time_to_begin_are_kept(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let expires = scene.now().await.plus(SECOND * 60);
    scene.submit(vec![NewJob { terms: terms(), expires: Some(expires), ..job_with_retry(1, "durations:0s") }]).await;
    let seen = scene.job(1).await;
    assert_eq!((&seen.terms, seen.expires_at), (&terms(), Some(expires)));
    assert_eq!(scene.head(1).await.expect("unfinished").expires, Some(expires));
    let assigned = scene.give_mine(1, 1).await;
    assert_eq!(assigned.terms, terms());
    scene.settle_one(by(ALPHA), scene.unrun(1, Outcome::Interrupted).await).await;
    assert_eq!(scene.head(1).await.expect("unfinished").expires, Some(expires), "it has not begun");
    scene.give(2, &[1], BETA).await;
    assert_eq!(scene.mail(BETA).await[0].jobs[0].terms, terms());
    scene.end(BETA, 1, failed("x")).await;
    assert_eq!(scene.head(1).await.expect("unfinished").expires, None, "it has begun");
    scene.give(3, &[1], BETA).await;
    scene.end(BETA, 1, done()).await;
    assert_eq!(scene.job(1).await.terms, terms());
}

pub async fn a_job_that_expires_fails_and_says_so(h: &impl Harness) {
    let scene = Scene::led(h).await;
    let expires = scene.now().await.plus(SECOND);
    scene.submit(vec![NewJob { expires: Some(expires), ..job(1) }]).await;
    h.advance(SECOND * 2).await;
    assert_eq!(scene.intervene(1, Event::Expire).await, Settled::Applied);
    let seen = scene.job(1).await;
    assert_eq!((seen.state, seen.counts.attempt), (JobState::Failed, 0));
    assert!(seen.error.is_some_and(|error| error.starts_with("expired")), "it says why");
    assert!(seen.fingerprint.is_some());
    assert_eq!(scene.intervene(1, Event::Retry).await, Settled::Applied);
    assert_eq!(scene.head(1).await.expect("unfinished").expires, None, "a person who has it run again means it");
}
