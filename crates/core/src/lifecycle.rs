//! What follows: (state, event) → [`Transition`]. The only place where retry, give-up, snooze and cancel are decided.
//!
//! `event` is what can happen, `moves` the whole table of moves, `transition` a decision as a value, `edit` what a person may
//! change of a job at rest. [`decide`] adds the numbers to the table ([`MOVES`]; counts and due times) and refuses every pair that
//! is not in it. `docs/states.md` is printed from the same table.

mod edit;
mod event;
mod moves;
mod transition;

pub use edit::{Edit, EditRequest, OtherQueue, edit};
pub use event::{Event, Outcome, Trigger};
pub use moves::{Illegal, MOVES, Move, allows};
pub use transition::{Clears, End, Ending, JobFacts, Target, Transition};

use std::time::Duration;

use self::moves::reason;
use crate::{
    after::Verdict,
    failure::Failure,
    job::{Counts, JobHead, JobState, Step},
    retry::{RetryPolicy, Wait},
    terms::Terms,
    time::{Timestamp, print_span},
};

/// A node died under a job this often: it is not bad luck any more.
pub const POISON_CRASHES: u32 = 3;
/// After this many crashes `running` is written before the start, so that a job that had not begun is not blamed.
pub const WATCHED_CRASHES: u32 = 1;
/// After this many crashes a job runs alone on its node, so that its neighbours are not blamed.
pub const ALONE_CRASHES: u32 = 2;

/// Runs of a job that may have come to nothing without spending an attempt, before a lost connection spends one: a task that
/// always loses its own must come to an end.
pub const FREE_RUNS: i64 = 5;
/// How long a run waits to be done again that ended through no fault of its task.
pub const AGAIN: Duration = Duration::from_secs(1);

/// What a run comes to that lost the connection its transaction was on, before it could be committed: nothing of it is there,
/// and whose fault it was is not known. Every run has a fence of its own, so the fence shows how many spent no attempt.
pub fn after_cut(job: &JobFacts<'_>, failure: Failure) -> Outcome {
    if job.fence.assignments() - 1 - i64::from(job.counts.attempt) < FREE_RUNS {
        Outcome::Snooze { wait: AGAIN }
    } else {
        Outcome::Error(failure)
    }
}

/// What follows for a job that something ends before it has begun: its time is over, or a job that it waits for did not end well.
/// `None`: nothing ends it, or it has begun. `now` is the database's time.
pub fn end_unrun(head: &JobHead, now: Timestamp) -> Option<Transition> {
    let event = ends_unrun(head, now)?;
    // No run has ended, so neither the policy nor the terms have a say in what follows; and a cancel is only requested of a job that a
    // node has, where neither event is allowed.
    let (retry, terms) = (RetryPolicy::None, Terms::default());
    let counts = Counts { crashes: head.crashes, ..Counts::default() };
    let JobHead { state, fence, .. } = *head;
    let (cancel_requested, begun) = (false, false);
    let job = JobFacts { state, counts, retry: &retry, terms: &terms, cancel_requested, fence, begun };
    decide(&job, &event, now, 0.0).ok()
}

fn ends_unrun(head: &JobHead, now: Timestamp) -> Option<Event> {
    if head.expires.is_some_and(|expires| expires <= now) {
        return Some(Event::Expire);
    }
    match head.awaits.as_ref()?.verdict() {
        Verdict::End(event) => Some(event),
        Verdict::Run | Verdict::Wait => None,
    }
}

/// Decides what follows `event`. `now` is the database's time, `jitter` (0 ≤ jitter < 1) chance.
pub fn decide(job: &JobFacts<'_>, event: &Event, now: Timestamp, jitter: f64) -> Result<Transition, Illegal> {
    let kind = event.kind();
    if !allows(job.state, kind) {
        return Err(Illegal { state: job.state, action: kind.action(), reason: reason(job.state, kind) });
    }
    let follows = follow(job, event, now, jitter);
    let transition = Transition { clears: Clears::by(job.state, &follows.to, job.begun), ..follows };
    let to = transition.state(job.state);
    assert!(
        MOVES.iter().any(|row| row.state == job.state && row.event == kind && row.to == to),
        "{kind:?} led from {} to {to}, which the table does not have",
        job.state
    );
    Ok(transition)
}

fn follow(job: &JobFacts<'_>, event: &Event, now: Timestamp, jitter: f64) -> Transition {
    let counts = job.counts;
    let go = |to| plain(to, counts);
    match event {
        Event::Assign => go(Target::Scheduled),
        Event::Start => go(Target::Running),
        Event::Cancel if job.state.assigned() => go(Target::CancelRequested),
        Event::Cancel => cancelled(counts),
        Event::Retry | Event::Rerun => {
            Transition { counts: Counts { retry: 0, crashes: 0, ..counts }, ..go(Target::Waiting { due: now }) }
        }
        Event::GiveUp => go(Target::Finish { end: End::Failed, result: None }),
        Event::Edit(edit) => go(Target::Edited(edit.clone())),
        Event::Expire => failed(counts, Failure::new("expired: it had not begun in time"), None),
        Event::AwaitedFailed { job, state, cancel } => {
            let what = if *state == JobState::Cancelled { "was cancelled" } else { "failed" };
            let reason = Failure::new(format!("job {job}, which it waited for, {what}"));
            if *cancel { Transition { error: Some(reason), ..cancelled(counts) } } else { failed(counts, reason, None) }
        }
        // Whatever the run came to: once a cancel was confirmed, no caller may read `success` afterwards.
        Event::NodeLost if job.cancel_requested => cancelled(counts),
        Event::NodeLost => after_node_loss(job, now),
        Event::Ended(outcome) => after_run(job, outcome, now, jitter),
    }
}

fn after_run(job: &JobFacts<'_>, outcome: &Outcome, now: Timestamp, jitter: f64) -> Transition {
    let counts = job.counts;
    let spent = Counts { attempt: counts.attempt + 1, ..counts };
    let wait = |counts, due| plain(Target::Waiting { due }, counts);
    match (outcome, failure(outcome)) {
        (Outcome::Interrupted, _) if job.cancel_requested => cancelled(counts),
        (_, Some((ending, failure))) if job.cancel_requested => {
            Transition { error: Some(failure), ending: Some(ending), ..cancelled(spent) }
        }
        (Outcome::Cancelled, _) => cancelled(spent),
        (_, None) if job.cancel_requested => cancelled(spent),
        (Outcome::Fail(_), Some((ending, failure))) => failed(spent, failure, Some(ending)),
        (_, Some((ending, failure))) => retry_or_end(job, spent, ending, failure, now, jitter),
        (Outcome::Next { step, due }, _) => next(job, spent, step, due.unwrap_or(now), Ending::Next, None),
        (Outcome::Snooze { wait: span }, _) => wait(counts, now.plus(*span)),
        (Outcome::Interrupted, _) => wait(counts, now),
        (Outcome::Done { result }, _) => {
            let to = Target::Finish { end: End::Success, result: result.clone() };
            plain(to, spent)
        }
        (Outcome::Error(_) | Outcome::Panic(_) | Outcome::TimedOut { .. } | Outcome::Fail(_), None) => {
            unreachable!("these are failures")
        }
    }
}

/// What went wrong, if something did.
fn failure(outcome: &Outcome) -> Option<(Ending, Failure)> {
    Some(match outcome {
        Outcome::Error(failure) => (Ending::Error, failure.clone()),
        Outcome::Panic(failure) => (Ending::Panic, failure.clone()),
        Outcome::Fail(failure) => (Ending::Fail, failure.clone()),
        Outcome::TimedOut { limit } => {
            (Ending::TimedOut, Failure::new(format!("timed out: it took longer than {}", print_span(*limit))))
        }
        Outcome::Done { .. }
        | Outcome::Next { .. }
        | Outcome::Snooze { .. }
        | Outcome::Cancelled
        | Outcome::Interrupted => return None,
    })
}

/// A move without an error or an attempt to record. What it clears follows from where it comes from: [`decide`] adds that.
fn plain(to: Target, counts: Counts) -> Transition {
    Transition { to, counts, error: None, ending: None, clears: Clears::default() }
}

fn cancelled(counts: Counts) -> Transition {
    plain(Target::Finish { end: End::Cancelled, result: None }, counts)
}

fn failed(counts: Counts, error: Failure, ending: Option<Ending>) -> Transition {
    let to = Target::Finish { end: End::Failed, result: None };
    Transition { error: Some(error), ending, ..plain(to, counts) }
}

/// The next step begins afresh: nothing is held against it yet.
fn next(
    job: &JobFacts<'_>,
    spent: Counts,
    step: &Step,
    due: Timestamp,
    ending: Ending,
    error: Option<Failure>,
) -> Transition {
    let counts = Counts { retry: 0, crashes: 0, ..spent };
    let mut step = Box::new(step.clone());
    step.terms.in_trace_of(job.terms);
    let to = Target::Next { step, due };
    Transition { error, ending: Some(ending), ..plain(to, counts) }
}

fn retry_or_end(
    job: &JobFacts<'_>,
    spent: Counts,
    ending: Ending,
    error: Failure,
    now: Timestamp,
    jitter: f64,
) -> Transition {
    let due = match (job.retry.wait(spent.retry, jitter), job.terms.on_exhausted()) {
        (Wait::For(wait), _) => Some(now.plus(wait)),
        (Wait::ForAPerson, _) => None,
        (Wait::NoMore, Some(step)) => return next(job, spent, step, now, ending, Some(error)),
        (Wait::NoMore, None) => return failed(spent, error, Some(ending)),
    };
    let counts = Counts { retry: spent.retry + 1, ..spent };
    Transition { error: Some(error), ending: Some(ending), ..plain(Target::Stuck { due }, counts) }
}

/// A job that had certainly not begun is not blamed; one that has been blamed often enough is quarantined.
fn after_node_loss(job: &JobFacts<'_>, now: Timestamp) -> Transition {
    let innocent = job.state == JobState::Scheduled && job.counts.crashes >= WATCHED_CRASHES;
    let crashes = job.counts.crashes + u32::from(!innocent);
    let counts = Counts { crashes, ..job.counts };
    let ending = (job.state == JobState::Running).then_some(Ending::NodeLost);
    if crashes >= POISON_CRASHES {
        return failed(counts, Failure::new(format!("poison: its node died {crashes} times while it ran")), ending);
    }
    Transition { ending, ..plain(Target::Waiting { due: now }, counts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Fence, JobId},
        json::Json,
        retry::RetryPolicy,
        terms::Terms,
    };
    use std::fmt::Write as _;

    #[test]
    fn a_lost_connection_spends_no_attempt_until_there_were_too_many_such_runs() {
        let (retry, terms) = (RetryPolicy::None, Terms::default());
        let outcome = |fence, attempt| {
            let counts = Counts { attempt, ..Counts::default() };
            let (state, cancel_requested, begun) = (JobState::Running, false, true);
            let fence = Fence(fence);
            let job = JobFacts { state, counts, retry: &retry, terms: &terms, cancel_requested, fence, begun };
            after_cut(&job, "cut".into())
        };
        let (free, spent) = (Outcome::Snooze { wait: AGAIN }, Outcome::Error("cut".into()));
        let edited = Fence(1).edited().edited().0;
        for (fence, attempt) in [(1, 0), (5, 0), (10, 5), (edited, 0)] {
            assert_eq!(outcome(fence, attempt), free, "{fence} {attempt}");
        }
        for (fence, attempt) in [(6, 0), (7, 1), (100, 3)] {
            assert_eq!(outcome(fence, attempt), spent, "{fence} {attempt}");
        }
    }

    const NOW: Timestamp = Timestamp::MIN;

    fn events() -> Vec<Event> {
        let ended = [
            Outcome::Done { result: None },
            Outcome::Next { step: Box::new(step()), due: None },
            Outcome::Panic("p".into()),
            Outcome::TimedOut { limit: Duration::from_secs(1) },
            Outcome::Error("e".into()),
            Outcome::Fail("f".into()),
            Outcome::Snooze { wait: Duration::from_secs(1) },
            Outcome::Cancelled,
            Outcome::Interrupted,
        ];
        let mut events = vec![Event::Assign, Event::Start];
        events.extend(ended.map(Event::Ended));
        events.extend([false, true].map(|cancel| Event::AwaitedFailed {
            job: JobId::from_uuid(uuid::Uuid::nil()),
            state: JobState::Failed,
            cancel,
        }));
        events.extend([Event::NodeLost, Event::Expire, Event::Cancel, Event::Retry, Event::Rerun, Event::GiveUp]);
        events.push(Event::Edit(Box::default()));
        events
    }

    fn step() -> Step {
        Step {
            task: crate::name::TaskName::new("onward").unwrap(),
            args: Json::null(),
            retry: Some(RetryPolicy::Manual),
            terms: Terms::default(),
        }
    }

    fn terms_that_go_on() -> Terms {
        let mut terms = Terms::default();
        terms.set_on_exhausted(step()).unwrap();
        terms
    }

    static NO_TERMS: std::sync::LazyLock<Terms> = std::sync::LazyLock::new(Terms::default);

    fn facts(state: JobState, retry: &RetryPolicy, crashes: u32, cancel_requested: bool) -> JobFacts<'_> {
        let counts = Counts { crashes, ..Counts::default() };
        let begun = state == JobState::Running;
        JobFacts { state, counts, retry, terms: &NO_TERMS, cancel_requested, fence: Fence(1), begun }
    }

    #[test]
    fn every_pair_is_either_in_the_table_or_refused() {
        for state in JobState::ALL {
            for event in events() {
                let legal = allows(state, event.kind());
                let decided = decide(&facts(state, &RetryPolicy::Manual, 0, false), &event, NOW, 0.0);
                assert_eq!(decided.is_ok(), legal, "{state} {event:?}");
            }
        }
    }

    #[test]
    fn every_row_of_the_table_is_reached() {
        let mut reached = vec![false; MOVES.len()];
        let (no_terms, onward) = (Terms::default(), terms_that_go_on());
        for state in JobState::ALL {
            for event in events() {
                for policy in [RetryPolicy::Manual, RetryPolicy::None, RetryPolicy::default()] {
                    for crashes in [0, 2] {
                        for (cancel, terms) in [(false, &no_terms), (true, &no_terms), (false, &onward)] {
                            let job = JobFacts { terms, ..facts(state, &policy, crashes, cancel) };
                            let Ok(to) = decide(&job, &event, NOW, 0.0) else { continue };
                            for (row, reached) in MOVES.iter().zip(&mut reached) {
                                *reached |=
                                    row.state == state && row.event == event.kind() && row.to == to.state(state);
                            }
                        }
                    }
                }
            }
        }
        let missed: Vec<_> = MOVES.iter().zip(reached).filter(|(_, reached)| !reached).map(|(row, _)| row).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn retries_are_counted_until_they_are_used_up() {
        let policy: RetryPolicy = "durations:10s".parse().unwrap();
        let mut job = facts(JobState::Running, &policy, 0, false);
        let first = decide(&job, &Event::Ended(Outcome::Error("boom".into())), NOW, 0.0).unwrap();
        assert_eq!(first.to, Target::Stuck { due: Some(NOW.plus(Duration::from_secs(10))) });
        assert_eq!(first.counts, Counts { attempt: 1, retry: 1, crashes: 0 });
        job.counts = first.counts;
        let second = decide(&job, &Event::Ended(Outcome::Error("boom".into())), NOW, 0.0).unwrap();
        assert_eq!(second.state(JobState::Running), JobState::Failed);
        assert_eq!(second.error.unwrap().text(), "boom");
    }

    #[test]
    fn shutdown_snooze_and_node_loss_spend_no_attempt() {
        let policy = RetryPolicy::None;
        let job = facts(JobState::Running, &policy, 0, false);
        for event in [
            Event::Ended(Outcome::Interrupted),
            Event::Ended(Outcome::Snooze { wait: Duration::ZERO }),
            Event::NodeLost,
        ] {
            let to = decide(&job, &event, NOW, 0.0).unwrap();
            assert_eq!(
                (to.state(JobState::Running), to.counts.attempt, to.counts.retry),
                (JobState::Waiting, 0, 0),
                "{event:?}"
            );
        }
    }

    #[test]
    fn nobody_reads_success_after_a_confirmed_cancel() {
        let policy = RetryPolicy::default();
        for event in events() {
            let job = facts(JobState::Running, &policy, 0, true);
            let Ok(to) = decide(&job, &event, NOW, 0.0) else { continue };
            let after = to.state(JobState::Running);
            assert!(
                after == JobState::Cancelled || event == Event::Cancel && after == JobState::Running,
                "{event:?} → {after}"
            );
        }
    }

    #[test]
    fn a_job_that_had_not_begun_is_not_blamed_for_its_node() {
        let policy = RetryPolicy::default();
        let innocent = decide(&facts(JobState::Scheduled, &policy, 2, false), &Event::NodeLost, NOW, 0.0).unwrap();
        assert_eq!(innocent.counts.crashes, 2);
        let poison = decide(&facts(JobState::Running, &policy, 2, false), &Event::NodeLost, NOW, 0.0).unwrap();
        assert_eq!(poison.state(JobState::Running), JobState::Failed);
        assert!(poison.error.unwrap().text().starts_with("poison"));
    }

    #[test]
    fn a_job_that_has_begun_has_no_time_any_more_by_which_it_must_begin() {
        let policy = RetryPolicy::Manual;
        let clears = |state, begun, event: &Event| {
            let job = JobFacts { begun, ..facts(state, &policy, 0, false) };
            decide(&job, event, NOW, 0.0).unwrap().clears.expiry
        };
        assert!(clears(JobState::Scheduled, false, &Event::Start));
        for event in events().iter().filter(|event| matches!(event, Event::Ended(_))) {
            for state in [JobState::Scheduled, JobState::Running] {
                assert!(clears(state, true, event), "{event:?}");
            }
            assert!(!clears(JobState::Scheduled, false, event), "handed back, or settled without a run: {event:?}");
        }
        assert!(clears(JobState::Running, true, &Event::NodeLost));
        assert!(!clears(JobState::Scheduled, false, &Event::NodeLost));
        assert!(!clears(JobState::Waiting, false, &Event::Assign) && !clears(JobState::Stuck, false, &Event::Retry));
        assert!(clears(JobState::Failed, false, &Event::Retry), "a person runs it again, whatever that time was");
    }

    #[test]
    fn a_next_step_begins_with_fresh_retries_and_keeps_count_of_the_runs() {
        let policy = RetryPolicy::default();
        let mut job = facts(JobState::Running, &policy, 1, false);
        job.counts = Counts { attempt: 3, retry: 2, crashes: 1 };
        let event = Event::Ended(Outcome::Next { step: Box::new(step()), due: None });
        let to = decide(&job, &event, NOW, 0.0).unwrap();
        assert_eq!(to.to, Target::Next { step: Box::new(step()), due: NOW });
        assert_eq!(to.counts, Counts { attempt: 4, retry: 0, crashes: 0 });
        assert_eq!(to.ending, Some(Ending::Next));
    }

    #[test]
    fn when_retries_run_out_the_job_goes_on_if_it_is_to() {
        let (policy, terms) = (RetryPolicy::None, terms_that_go_on());
        let job = JobFacts { terms: &terms, ..facts(JobState::Running, &policy, 0, false) };
        for outcome in [Outcome::Error("boom".into()), Outcome::TimedOut { limit: Duration::from_secs(90) }] {
            let to = decide(&job, &Event::Ended(outcome), NOW, 0.0).unwrap();
            assert_eq!(to.to, Target::Next { step: Box::new(step()), due: NOW });
            assert!(to.error.is_some() && to.ending.is_some());
        }
        let for_good = decide(&job, &Event::Ended(Outcome::Fail("no".into())), NOW, 0.0).unwrap();
        assert_eq!(for_good.state(JobState::Running), JobState::Failed);
    }

    #[test]
    fn what_went_wrong_is_kept_with_the_attempt() {
        let policy = RetryPolicy::default();
        let job = facts(JobState::Running, &policy, 0, false);
        let timed_out = Event::Ended(Outcome::TimedOut { limit: Duration::from_secs(90) });
        let to = decide(&job, &timed_out, NOW, 0.0).unwrap();
        assert_eq!(
            (to.ending, to.error.unwrap().text()),
            (Some(Ending::TimedOut), "timed out: it took longer than 90s".into())
        );
        let panic = decide(&job, &Event::Ended(Outcome::Panic("panic: x".into())), NOW, 0.0).unwrap();
        assert_eq!(panic.ending, Some(Ending::Panic));
        for ending in Ending::ALL {
            assert_eq!(Ending::from_code(ending.code()), Some(ending));
        }
    }

    /// `docs/states.md` is this table in words. Run with `TURNWISE_BLESS=1` to write it anew.
    #[test]
    fn the_state_diagram_in_the_docs_is_printed_from_the_table() {
        let mut page = String::from(
            "# States of a job\n\nPrinted from `turnwise_core::lifecycle::MOVES` by a test; change the table, then run\n\
             `TURNWISE_BLESS=1 cargo test -p turnwise-core the_state_diagram`.\n\n```mermaid\nstateDiagram-v2\n    [*] --> waiting: submit\n",
        );
        let mut arrows: Vec<(JobState, JobState, Vec<&str>)> = Vec::new();
        for row in MOVES.iter().filter(|row| row.state != row.to) {
            match arrows.iter_mut().find(|(from, to, _)| (*from, *to) == (row.state, row.to)) {
                Some((_, _, labels)) => labels.push(row.event.label()),
                None => arrows.push((row.state, row.to, vec![row.event.label()])),
            }
        }
        for (from, to, labels) in &arrows {
            writeln!(page, "    {from} --> {to}: {}", labels.join(", ")).unwrap();
        }
        for end in JobState::ALL.into_iter().filter(|state| state.finished()) {
            writeln!(page, "    {end} --> [*]").unwrap();
        }
        page.push_str("```\n\n| state | event | becomes | when |\n|---|---|---|---|\n");
        for row in MOVES {
            writeln!(page, "| {} | {} | {} | {} |", row.state, row.event.label(), row.to, row.when).unwrap();
        }
        page.push_str("\nEvery other pair is refused with an error.\n");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md");
        if std::env::var_os("TURNWISE_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "docs/states.md is out of date");
    }
}
