//! What is left to do for some nodes, the pools of one process say, by what the store tells of a job.
//!
//! A process is *idle* when nothing is left for it now: nothing is in its hands, and no job that is due waits for it, be it
//! for a slot, a limit or a rate. It is *drained* when nothing is left for later either. The dispatcher knows the same
//! of all jobs at once: [`Scheduler::has_left_for`](crate::scheduler::Scheduler::has_left_for).

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
pub enum Left {
    /// Not as things are: none of them can run it, another living node has it, it waits for another job, or for a person to
    /// decide.
    Never,
    /// When its time has come, its queue's window is over, or what holds its queue or group is taken away.
    Later,
    /// It is in their hands, or only waits for its turn.
    Now,
}

/// Of `fleet`, the nodes named in `here` are those that are asked for.
pub fn left(head: &JobHead, fleet: &[Node], here: &[Incarnation], settings: &Settings, now: Timestamp) -> Left {
    let ours = |node: &&Node| here.contains(&node.incarnation);
    let can_run = || fleet.iter().filter(ours).any(|node| node.can_run(&head.queue, &head.task));
    let held = |holder| fleet.iter().any(|node| node.incarnation == holder && node.alive(now));
    match head.state {
        JobState::Scheduled | JobState::Running => match head.node {
            Some(holder) if here.contains(&holder) => Left::Now,
            Some(holder) if held(holder) => Left::Never,
            // Its node is lost, and it goes back.
            _ if can_run() => Left::Now,
            _ => Left::Never,
        },
        // Those it waits for are looked at themselves.
        _ if head.awaits.as_deref().is_some_and(|awaits| awaits.verdict() == Verdict::Wait) => Left::Never,
        _ if !can_run() => Left::Never,
        _ => by_time(head, settings, now),
    }
}

fn by_time(head: &JobHead, settings: &Settings, now: Timestamp) -> Left {
    let queue = settings.queues.get(&head.queue);
    let Some(due) = queue.and_then(|queue| queue.due_by_schedule(head)).or(head.due) else { return Left::Never };
    // What is left in the queues that this one waits for is looked at itself.
    let finished = |name: &QueueName| settings.queues.get(name).is_some_and(|queue| is_finished(queue, false));
    let held = queue.is_some_and(|queue| queue_holds(queue, finished, now))
        || settings.groups.get(&head.group).is_some_and(group_holds);
    if due > now || held { Left::Later } else { Left::Now }
}

/// The gates that the scheduler calls held. All settings are named, so that a new one has to say here whether it is a gate.
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
