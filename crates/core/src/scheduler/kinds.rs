//! Kinds of jobs: a queue and a task. Kinds that are open and closed together form a class, and groups stand in line by class.

use std::{ops, time::Duration};

use super::{
    Scheduler,
    table::{Index, Table},
    totals::JobCount,
};
use crate::{estimate, name::TaskName, time::Timestamp};

/// A queue and a task: what a node must serve and know.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) queue: Index,
    pub(super) task: Index,
    /// What a run of it costs, estimated from earlier runs.
    pub(super) cost: Option<Duration>,
    pub(super) count: JobCount,
    class: Index,
    runnable: bool,
}

impl Kind {
    #[inline]
    pub(super) fn class(&self) -> Index {
        self.class
    }

    /// What its next run is expected to cost.
    #[inline]
    pub(super) fn expected(&self) -> Duration {
        estimate::expected(self.cost)
    }

    /// Whether some node can run it; jobs that none can run are not waited for.
    #[inline]
    pub(super) fn runnable(&self) -> bool {
        self.runnable
    }
}

/// Kinds that the same nodes can run, and that share a task's limit if there is one: they are open or closed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindClass {
    /// Which nodes can run them, by seat.
    able: Vec<bool>,
    limited: Option<Index>,
}

impl KindClass {
    #[inline]
    pub(super) fn able(&self, seat: Index) -> bool {
        self.able.get(seat as usize).copied().unwrap_or(false)
    }

    /// The task whose limit they share.
    #[inline]
    pub(super) fn limited(&self) -> Option<Index> {
        self.limited
    }

    pub(super) fn runnable(&self) -> bool {
        self.able.iter().any(|able| *able)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    kinds: Table<(Index, Index), Kind>,
    classes: Vec<KindClass>,
    /// The kind that was looked up last: jobs that come together are often of one queue and task.
    last: Index,
}

impl Kinds {
    pub(super) fn last(&self) -> Option<&Kind> {
        self.kinds.get(self.last)
    }

    fn find(&mut self, queue: Index, task: Index) -> Option<Index> {
        if self.last().is_some_and(|last| (last.queue, last.task) == (queue, task)) {
            return Some(self.last);
        }
        let known = self.kinds.find(&(queue, task))?;
        self.last = known;
        Some(known)
    }

    fn add(&mut self, queue: Index, task: Index, class: KindClass) -> Index {
        let runnable = class.runnable();
        let class = place(&mut self.classes, class);
        let at = self
            .kinds
            .add((queue, task), Kind { queue, task, cost: None, count: JobCount::default(), class, runnable });
        assert!(at < 1 << 24, "more than sixteen million pairs of queue and task");
        at
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter()
    }

    /// How many jobs of a kind there are.
    #[inline]
    pub(super) fn count(&mut self, at: Index) -> &mut JobCount {
        &mut self.kinds[at].count
    }

    pub(super) fn class(&self, class: Index) -> &KindClass {
        &self.classes[class as usize]
    }

    /// Sorts kinds into classes. Returns whether a kind is in another class than before, or whether one can be run now that could
    /// not, or the other way round.
    fn sort(&mut self, of: Vec<KindClass>) -> bool {
        let mut moved = false;
        self.classes.clear();
        for (kind, class) in self.kinds.iter_mut().zip(of) {
            let runnable = class.runnable();
            let class = place(&mut self.classes, class);
            moved |= (kind.runnable, kind.class) != (runnable, class);
            (kind.runnable, kind.class) = (runnable, class);
        }
        moved
    }
}

fn place(classes: &mut Vec<KindClass>, class: KindClass) -> Index {
    let known = classes.iter().position(|known| *known == class);
    super::table::index(known.unwrap_or_else(|| {
        classes.push(class);
        classes.len() - 1
    }))
}

impl ops::Index<Index> for Kinds {
    type Output = Kind;

    #[inline]
    fn index(&self, at: Index) -> &Kind {
        &self.kinds[at]
    }
}

impl Scheduler {
    pub(super) fn task(&mut self, now: Timestamp, name: &TaskName) -> Index {
        let last = self.kinds.last().map(|kind| kind.task);
        let last = last.filter(|&last| self.tasks[last].name == *name);
        last.or_else(|| self.tasks.find(name)).unwrap_or_else(|| {
            let settings = self.settings.tasks.get(name).copied().unwrap_or_default();
            self.tasks.add(name.clone(), super::rows::Limited::new(name.clone(), settings, now))
        })
    }

    pub(super) fn kind(&mut self, queue: Index, task: Index) -> Index {
        match self.kinds.find(queue, task) {
            Some(known) => known,
            None => {
                let class = self.class_of(queue, task);
                self.kinds.add(queue, task, class)
            }
        }
    }

    fn class_of(&self, queue: Index, task: Index) -> KindClass {
        let (queue, limits) = (&self.queues[queue], &self.tasks[task]);
        let able = |seat: &super::fleet::Seat| seat.is_alive() && seat.node().can_run(&queue.name, &limits.name);
        KindClass {
            able: self.fleet.iter().map(able).collect(),
            limited: (limits.settings.concurrency.is_some() || limits.settings.rate.is_some()).then_some(task),
        }
    }

    /// Sorts kinds into classes again; if that changes any kind, all groups enter their lines anew. A group that waited for a node
    /// that can run its jobs enters without credit, too.
    pub(super) fn classify(&mut self, now: Timestamp) {
        let classes = self.kinds.kinds.iter().map(|kind| self.class_of(kind.queue, kind.task)).collect();
        if self.kinds.sort(classes) {
            for group in self.groups.indexes() {
                self.leave_turns(group);
            }
            for queue in self.queues.iter_mut() {
                queue.turns.clear();
            }
            for group in self.groups.indexes() {
                self.refresh_group(now, group);
            }
        }
        for queue in self.queues.indexes() {
            self.refresh_queue(now, queue);
        }
    }

    /// A run has shown what jobs of this kind cost.
    pub(super) fn learn(&mut self, kind: Index, ran: Duration) {
        let kind = &mut self.kinds.kinds[kind];
        kind.cost = Some(estimate::learn(kind.cost, ran));
    }
}
