//! What a person may change of a job that is at rest: its priority, its due time, its queue.

use super::{Event, Illegal, JobFacts, Transition, decide};
use crate::{
    calendar::{GivenTime, stored_due},
    job::{Job, Priority},
    name::QueueName,
    settings::{Concurrency, QueueSettings},
    time::Timestamp,
    unique::Scope,
};

/// What a person asks for. `None`: that stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditRequest {
    pub priority: Option<Priority>,
    pub queue: Option<QueueName>,
    /// Past or not, it counts as a time that the submitter named.
    pub due: Option<Timestamp>,
}

/// What is written. `None`: that stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    pub priority: Option<Priority>,
    pub due: Option<Timestamp>,
    pub queue: Option<OtherQueue>,
}

/// The queue that a job moves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherQueue {
    pub name: QueueName,
    /// The [scope](Scope::of) of unique keys that the job leaves. If it holds a key there, nothing is written.
    pub leaves: String,
}

/// Decides what an edit writes, or why there can be none. `target`: what is set for the queue that the job moves to; `now`: the
/// database's time.
///
/// A job that names no time of its own and has never been assigned follows its queue's schedule. If it moves to a queue with a
/// schedule, it becomes due at the schedule's next time from now on, as if it were submitted there now: the next time after its
/// submit may be over, and it would begin at once, at an hour that the queue is not meant for. If it moves to a queue without one,
/// it is due.
///
/// A job that has been assigned before does not move to a serial queue: a job that has begun holds the line there, and another one may
/// hold it already.
pub fn edit(job: &Job, asked: &EditRequest, target: &QueueSettings, now: Timestamp) -> Result<Transition, Illegal> {
    let queue = asked.queue.as_ref().filter(|queue| **queue != job.queue);
    let queue = queue.map(|name| OtherQueue { name: name.clone(), leaves: Scope::in_queue(&job.queue) });
    let serial = target.concurrency == Concurrency::Serial;
    let begun_elsewhere = queue.is_some() && serial && job.fence.was_assigned();
    let follows = queue.is_some() && GivenTime::from(job).follows_from().is_some();
    let schedule = target.schedule.as_ref().filter(|_| follows);
    let by_schedule = || schedule.map(|schedule| schedule.next(now).unwrap_or(Timestamp::MAX));
    // Due at the very moment of its submit would mean that it names no time.
    let given = asked.due.map(|due| stored_due(Some(due), job.submitted_at));
    let edit = Edit { priority: asked.priority, due: given.or_else(by_schedule), queue };
    let decided = decide(&JobFacts::from(job), &Event::Edit(Box::new(edit)), now, 0.0)?;
    if begun_elsewhere { Err(Illegal::begun_elsewhere(job.state)) } else { Ok(decided) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        calendar::{Schedule, Zone},
        job::{Counts, Fence, JobId, JobState},
        json::Json,
        lifecycle::Target,
        name::{GroupName, TaskName},
        terms::Terms,
    };

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    /// Submitted on Monday at noon, without a time.
    fn job() -> Job {
        let submitted_at = at("2030-01-07T12:00:00Z");
        Job {
            id: JobId::from_parts(1, [0; 10]),
            task: TaskName::new("t").unwrap(),
            args: Json::null(),
            queue: queue("a"),
            group: GroupName::default(),
            priority: Priority::default(),
            retry: None,
            key: None,
            terms: Terms::default(),
            state: JobState::Waiting,
            counts: Counts::default(),
            fence: Fence(0),
            cancel_requested: false,
            node: None,
            result: None,
            error: None,
            fingerprint: None,
            expires_at: None,
            submitted_at,
            due_at: Some(submitted_at),
            assigned_at: None,
            started_at: None,
            finished_at: None,
            unique: None,
        }
    }

    fn edited(job: &Job, asked: &EditRequest, schedule: Option<&Schedule>) -> Edit {
        let target = QueueSettings { schedule: schedule.cloned(), ..QueueSettings::default() };
        match edit(job, asked, &target, at("2030-01-09T12:00:00Z")).unwrap().to {
            Target::Edited(edit) => *edit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_asked_for_is_written() {
        let asked = EditRequest { priority: Some(Priority::HIGH), ..EditRequest::default() };
        assert_eq!(edited(&job(), &asked, None), Edit { priority: Some(Priority::HIGH), ..Edit::default() });
        let stays = EditRequest { queue: Some(queue("a")), ..EditRequest::default() };
        assert_eq!(edited(&job(), &stays, None), Edit::default(), "it is there already");
        let moves = EditRequest { queue: Some(queue("b")), ..EditRequest::default() };
        let other = OtherQueue { name: queue("b"), leaves: "queue:a".into() };
        assert_eq!(edited(&job(), &moves, None), Edit { queue: Some(other), ..Edit::default() });
    }

    #[test]
    fn a_job_that_moves_to_a_queue_with_a_schedule_waits_for_its_next_time_from_now_on() {
        let nightly = Schedule::new("0 2 * * *", Zone::UTC).unwrap();
        let moves = EditRequest { queue: Some(queue("b")), ..EditRequest::default() };
        assert_eq!(edited(&job(), &moves, Some(&nightly)).due, Some(at("2030-01-10T02:00:00Z")), "not on Tuesday");
        let named = Job { due_at: Some(at("2030-01-20T08:00:00Z")), ..job() };
        let begun = Job { fence: Fence(1), ..job() };
        for keeps in [named, begun] {
            assert_eq!(edited(&keeps, &moves, Some(&nightly)).due, None, "{keeps:?}");
        }
        let stays = EditRequest { priority: Some(Priority::LOW), ..EditRequest::default() };
        assert_eq!(edited(&job(), &stays, Some(&nightly)).due, None, "it follows the schedule already");
        let moved_before = Job { fence: Fence(0).edited(), ..job() };
        assert_eq!(edited(&moved_before, &moves, Some(&nightly)).due, Some(at("2030-01-10T02:00:00Z")));
    }

    #[test]
    fn a_time_that_is_given_counts_whatever_the_schedule_says() {
        let nightly = Schedule::new("0 2 * * *", Zone::UTC).unwrap();
        let (job, now) = (job(), at("2030-01-09T12:00:00Z"));
        for due in [now, at("2030-01-01T00:00:00Z"), at("2030-02-01T00:00:00Z"), job.submitted_at] {
            let asked = EditRequest { due: Some(due), queue: Some(queue("b")), ..EditRequest::default() };
            let written = edited(&job, &asked, Some(&nightly)).due.unwrap();
            let after = GivenTime { due: Some(written), submitted_at: job.submitted_at, fence: job.fence.edited() };
            assert_eq!(after.due_by(&nightly), None, "{due}");
            assert!(due.since(written).as_micros() <= 1, "{due}");
        }
    }

    #[test]
    fn a_job_in_a_nodes_hands_or_at_its_end_cannot_be_changed() {
        let asked = EditRequest { priority: Some(Priority::HIGH), ..EditRequest::default() };
        let decide = |state| edit(&Job { state, ..job() }, &asked, &QueueSettings::default(), Timestamp::MIN);
        for state in JobState::ALL {
            match decide(state) {
                Ok(to) => assert_eq!((to.state(state), to.counts), (state, Counts::default())),
                Err(illegal) => assert!(illegal.to_string().starts_with("the job cannot be changed: it "), "{illegal}"),
            }
            assert_eq!(decide(state).is_ok(), state.at_rest(), "{state}");
        }
        let text =
            "the job cannot be changed: it is in a node's hands; only a job that is waiting or stuck can be changed";
        assert_eq!(decide(JobState::Running).unwrap_err().to_string(), text);
    }

    #[test]
    fn a_job_that_has_begun_does_not_move_to_a_serial_queue() {
        let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
        let moves = EditRequest { queue: Some(queue("b")), ..EditRequest::default() };
        let stays = EditRequest { queue: Some(queue("a")), ..EditRequest::default() };
        let begun = Job { fence: Fence(1), ..job() };
        let decide =
            |job: &Job, asked, set| edit(job, asked, set, Timestamp::MIN).map(drop).map_err(|no| no.to_string());
        let refusal = "the job cannot be moved to another queue: it has begun, and that queue is serial";
        assert_eq!(decide(&begun, &moves, &serial), Err(refusal.to_owned()));
        let edited = Job { fence: Fence(0).edited(), ..job() };
        for (job, asked, set) in
            [(&begun, &stays, &serial), (&begun, &moves, &QueueSettings::default()), (&edited, &moves, &serial)]
        {
            assert_eq!(decide(job, asked, set), Ok(()), "{:?}", job.fence);
        }
    }
}
