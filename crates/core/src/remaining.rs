//! What is left to do for some nodes (the pools of one process, for example), judged by a job's row in the store.
//!
//! A process is *idle* when nothing is left for it now: nothing is in its hands, and no job that is due waits for it, be it
//! for a slot, a limit or a rate. It is *drained* when nothing is left for later either. The dispatcher answers the same
//! for all jobs at once: [`Scheduler::has_work_for`](crate::scheduler::Scheduler::has_work_for).

use crate::{
    after::Verdict,
    calendar::blocked_until,
    job::{JobHead, JobState},
    name::QueueName,
    node::{Incarnation, Node},
    queue_state::{is_finished, waits_for},
    settings::{GroupSettings, QueueSettings, Settings},
    time::Timestamp,
};

/// When a job may come to one of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remaining {
    /// Not unless something changes: none of them can run it, it waits for another job, or for a person to decide.
    Never,
    /// When its due time has come, its queue's window is over, or the pause or other gate of its queue or group is gone; or another
    /// node has it, whose run may fail, or whose process may be dead already, though its lease is not over.
    Later,
    /// It is in their hands, or only waits for its turn.
    Now,
}

/// When `head` may come to one of the nodes named in `here`, which are part of `fleet`.
pub fn remaining(
    head: &JobHead,
    fleet: &[Node],
    here: &[Incarnation],
    settings: &Settings,
    now: Timestamp,
) -> Remaining {
    let ours = |node: &&Node| here.contains(&node.incarnation);
    let can_run = || fleet.iter().filter(ours).any(|node| node.can_run(&head.queue, &head.task));
    let held = |holder| fleet.iter().any(|node| node.incarnation == holder && node.alive(now));
    match head.state {
        JobState::Scheduled | JobState::Running => match head.node {
            Some(holder) if here.contains(&holder) => Remaining::Now,
            _ if !can_run() => Remaining::Never,
            Some(holder) if held(holder) => Remaining::Later,
            // Its node is lost, and it goes back.
            _ => Remaining::Now,
        },
        // Those it waits for are looked at themselves.
        _ if head.awaits.as_deref().is_some_and(|awaits| awaits.verdict() == Verdict::Wait) => Remaining::Never,
        _ if !can_run() => Remaining::Never,
        _ => by_time(head, settings, now),
    }
}

/// Whether a job that no node has cannot start now, whatever is free: it is not due, waits for other jobs or a person, or a gate of its
/// queue or group is shut. It has no part in the competition for slots.
pub fn is_for_later(head: &JobHead, settings: &Settings, now: Timestamp) -> bool {
    head.awaits.as_deref().is_some_and(|awaits| awaits.verdict() == Verdict::Wait)
        || by_time(head, settings, now) != Remaining::Now
}

fn by_time(head: &JobHead, settings: &Settings, now: Timestamp) -> Remaining {
    let queue = settings.queues.get(&head.queue);
    let Some(due) = queue.and_then(|queue| queue.due_by_schedule(head)).or(head.due) else { return Remaining::Never };
    // What is left in the queues that this one waits for is looked at itself.
    let finished = |name: &QueueName| settings.queues.get(name).is_some_and(|queue| is_finished(queue, false));
    let held = queue.is_some_and(|queue| queue_holds(queue, finished, now))
        || settings.groups.get(&head.group).is_some_and(group_holds);
    if due > now || held { Remaining::Later } else { Remaining::Now }
}

/// The gates that the scheduler calls held. All settings are named here, so that a new setting cannot be forgotten.
fn queue_holds(queue: &QueueSettings, finished: impl Fn(&QueueName) -> bool, now: Timestamp) -> bool {
    let QueueSettings {
        paused,
        block,
        after: _,
        weight: _,
        fairness: _,
        concurrency: _,
        per_node: _,
        rate: _,
        scheme: _,
        on_error: _,
        sealed: _,
        quiet: _,
        schedule: _,
    } = queue;
    paused.is_some() || waits_for(queue, finished).is_some() || blocked_until(block, now).is_some()
}

fn group_holds(group: &GroupSettings) -> bool {
    let GroupSettings { paused, weight: _, concurrency: _, rate: _, scheme: _, max_waiting: _ } = group;
    paused.is_some()
}
