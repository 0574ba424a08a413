//! Nodes that have fallen silent, and what they had in their hands.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId, JobState, Node,
    lead::Leases,
    lifecycle::{self, Event, JobFacts},
    scheduler::{self, Input},
    statistics::Counted,
};
use turnwise_store::{
    AskLost, Author, Expire, Load, LostJob, LostNode, Replace, Settle, Settled, Settlement, StoreError,
};

use super::Dispatcher;
use crate::{backoff::Backoff, logs::Kind, trace::Record};

/// Jobs of lost nodes per step.
const LOST: u32 = 1_000;
/// How often to look for lost nodes while the beats report the same living ones. A look is five statements: every minute, an idle
/// dispatcher would send more than one statement a second.
const QUIET_LOST: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Lost {
    living: BTreeSet<Incarnation>,
    /// The same nodes as the last beat reported them, and when they renewed their leases.
    nodes: Vec<Node>,
    leases: Leases,
    /// Nodes that have jobs in their hands and are not among the living.
    strangers: BTreeSet<Incarnation>,
    /// Jobs that were in the hands of nodes that are in no table, when this was last looked at.
    orphans: BTreeSet<(JobId, Fence)>,
    next: Instant,
}

impl Lost {
    pub(super) fn new(living: &[Node]) -> Self {
        Self {
            living: living.iter().map(|node| node.incarnation).collect(),
            nodes: Vec::new(),
            leases: Leases::default(),
            strangers: BTreeSet::new(),
            orphans: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    pub(super) fn next_look(&self) -> Instant {
        self.next
    }

    pub(super) fn living(&self) -> &BTreeSet<Incarnation> {
        &self.living
    }
}

impl Dispatcher<'_> {
    pub(super) async fn see_nodes(&mut self, nodes: Vec<Node>) -> Result<(), StoreError> {
        let clock = &self.life.node.clock;
        let steady = self.life.contact.steady_since(clock);
        self.lost.leases.see(&nodes, clock.monotonic());
        if !self.lost.leases.silent(&nodes, steady, clock.monotonic()).is_empty() {
            // By the database's clock its lease may last for hours yet.
            self.lost.next = Instant::now();
        }
        self.lost.nodes.clone_from(&nodes);
        let living = nodes.iter().map(|node| node.incarnation).collect();
        if std::mem::replace(&mut self.lost.living, living) != self.lost.living {
            // A node that is there no more has left, or is lost.
            self.lost.next = Instant::now();
        }
        if !self.lost.strangers.is_disjoint(&self.lost.living) {
            // It takes nothing more until what it has is counted.
            let full = |node: &Node| {
                if self.lost.strangers.contains(&node.incarnation) {
                    Node { slots: 0, queue_capacity: 0, ..node.clone() }
                } else {
                    node.clone()
                }
            };
            let nodes = nodes.iter().map(full).collect();
            self.act(Input::Nodes(nodes)).await?;
            self.count_in_hands().await?;
        }
        self.act(Input::Nodes(nodes)).await
    }

    /// What nodes have in their hands. Nodes whose lease is over and that were not declared lost yet are not known to the
    /// scheduler: should they be back, it must count what they have.
    pub(super) async fn count_in_hands(&mut self) -> Result<(), StoreError> {
        let jobs = self.life.store.load(Load::InHands(None)).await?.jobs;
        let holders: BTreeSet<Incarnation> = jobs.iter().filter_map(|head| head.node).collect();
        self.lost.strangers = holders.difference(&self.lost.living).copied().collect();
        self.act(Input::Jobs(jobs)).await
    }

    /// A node that has fallen silent: its jobs go back, through the same decision as every other end.
    pub(super) async fn see_lost_nodes(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.lost.next {
            return Ok(());
        }
        self.lost.next = Instant::now() + self.life.node.config.lease / 4;
        let clock = &self.life.node.clock;
        let steady = self.life.contact.steady_since(clock);
        // After an outage every node looks silent; nodes that were replaced by name are lost all the same.
        let expire = if self.life.contact.is_long(clock) {
            let silent = self.lost.leases.silent(&self.lost.nodes, steady, clock.monotonic());
            let seen = |(incarnation, lease_until)| Replace { incarnation, lease_until };
            Expire::Over { by: clock.now(), silent: silent.into_iter().map(seen).collect() }
        } else {
            Expire::NoNode
        };
        let ask = AskLost { holder: self.life.incarnation, epoch: self.epoch, expire, limit: LOST };
        let lost = match self.life.store.lost_nodes(ask).await {
            Ok(lost) => lost,
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error),
        };
        let quiet = lost.is_empty() && self.life.contact.is_long(clock) && self.lost.strangers.is_empty();
        for LostNode { node, jobs, complete } in lost {
            if self.life.node.logs.may(Kind::NodeLost) {
                tracing::warn!(node = %node.name, jobs = jobs.len(), "a node is lost; its jobs go back");
            }
            self.take_from(node.incarnation, jobs, &Event::NodeLost, complete).await?;
            if !complete {
                self.lost.next = Instant::now();
            }
        }
        if !self.see_orphans().await? && quiet {
            self.lost.next = Instant::now() + QUIET_LOST.max(self.life.node.config.lease / 4);
        }
        Ok(())
    }

    /// Takes jobs from nodes that are in no table, not even as lost: otherwise they would stay there for ever. Each must be seen
    /// twice: between two reads, a node may join and a job end. Returns whether there may be any.
    async fn see_orphans(&mut self) -> Result<bool, StoreError> {
        let last = std::mem::take(&mut self.lost.orphans);
        let ids = self.scheduler.orphans(LOST as usize);
        if ids.is_empty() {
            return Ok(false);
        }
        let read = async {
            let heads = self.life.store.load(Load::These(ids)).await?.jobs;
            Ok((heads, self.life.store.nodes().await?.nodes))
        };
        let (heads, nodes) = match read.await {
            Ok(read) => read,
            Err(StoreError::Transient { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        let known: BTreeSet<Incarnation> = nodes.into_iter().map(|node| node.incarnation).collect();
        let stray = |head: &JobHead| {
            let node = head.node.filter(|node| head.state.assigned() && !known.contains(node))?;
            Some((node, (head.id, head.fence)))
        };
        let mut stray_jobs: BTreeMap<Incarnation, Vec<LostJob>> = BTreeMap::new();
        for (node, (id, fence)) in heads.iter().filter_map(stray) {
            self.lost.orphans.insert((id, fence));
            if !last.contains(&(id, fence)) {
                continue;
            }
            if let Some(job) = self.held_at(id, fence).await? {
                stray_jobs.entry(node).or_default().push(job);
            }
        }
        for (node, jobs) in stray_jobs {
            tracing::warn!(jobs = jobs.len(), "jobs are in the hands of a node that is not there; they go back");
            self.take_from(node, jobs, &Event::NodeLost, false).await?;
        }
        Ok(!self.lost.orphans.is_empty())
    }

    /// `event`: what has befallen the jobs; `complete`: these are all that is left in its hands.
    pub(super) async fn take_from(
        &mut self,
        from: Incarnation,
        jobs: Vec<LostJob>,
        event: &Event,
        complete: bool,
    ) -> Result<(), StoreError> {
        let life = self.life;
        let now = life.node.clock.now();
        let settlements: Vec<Settlement> = jobs
            .iter()
            .map(|held| {
                let to = lifecycle::decide(&JobFacts::from(held), event, now, 0.0)
                    .expect("an assigned job may lose its node or be interrupted");
                Settlement {
                    job: held.id,
                    fence: held.fence,
                    saw_cancel: held.cancel_requested,
                    to,
                    noted: true,
                    started_at: None,
                    finished_at: None,
                }
            })
            .collect();
        let author = Author::Dispatcher { holder: life.incarnation, epoch: self.epoch, lost: from, bury: complete };
        let ids: Vec<JobId> = jobs.iter().map(|held| held.id).collect();
        let states: Vec<_> = jobs.iter().zip(&settlements).map(|(held, to)| to.to.state(held.state)).collect();
        let errors: Vec<_> = settlements.iter().map(|settlement| settlement.to.fingerprint()).collect();
        let mut poison = Vec::new();
        let settle = Settle { author, settlements, done: Vec::new() };
        let mut backoff = Backoff::default();
        let mut again = false;
        // Until it is answered: jobs that were taken without an answer are in no node's hands, and no news would report them.
        let replies = loop {
            match life.store.settle(settle.clone()).await {
                Ok(replies) => break replies,
                Err(error) if error.is_transient() && life.contact.holds() && !life.draining.is_up() => {
                    life.node.logs.no_answer("could not take a lost node's jobs", &error);
                    again = true;
                    backoff.wait(&life.node.chance).await;
                }
                Err(error) => return Err(error),
            }
        };
        for (((held, state), reply), error) in jobs.iter().zip(states).zip(replies).zip(errors) {
            // A first try that was written makes the second one late.
            let applied =
                reply == Settled::Applied || (again && self.is_now(held.id, held.fence.next(), state).await?);
            if !applied {
                continue;
            }
            if state == JobState::Failed {
                self.log_poison(held).await;
                let fence = held.fence.next();
                let well = false;
                poison.push(scheduler::Settled {
                    id: held.id,
                    fence,
                    ran: None,
                    rest: None,
                    failed: true,
                    well,
                    error,
                });
            } else {
                let counted = match (state, held.state) {
                    (JobState::Cancelled, _) => Counted::Cancelled,
                    (_, JobState::Running) => Counted::Retried,
                    // As far as the store knows, it had not begun.
                    _ => Counted::Again,
                };
                self.scheduler.count_lost(life.node.clock.now(), held.id, counted, error);
            }
            life.trace(|| Record::NodeLost { job: held.id, fence: held.fence.0, lost: from, state });
        }
        if ids.is_empty() {
            return Ok(());
        }
        self.stale_reads.see_taken(&ids);
        self.act(Input::Settled(poison)).await?;
        self.read_again(ids).await
    }

    /// A job that failed because its nodes died while it ran. Its task and group are in its row, which is read for the few that are logged.
    async fn log_poison(&self, held: &LostJob) {
        if !tracing::enabled!(tracing::Level::WARN) || !self.life.node.logs.may(Kind::Failed) {
            return;
        }
        match self.life.store.job(held.id).await {
            Ok(Some(Job { id, task, group, counts, error, .. })) => {
                let error = error.unwrap_or_default();
                tracing::warn!(job = %id, %task, %group, attempt = counts.attempt, error, "a job failed for good: its nodes died while it ran");
            }
            // It is not kept, or cannot be read now.
            _ => {
                tracing::warn!(job = %held.id, attempt = held.counts.attempt, "a job failed for good: its nodes died while it ran")
            }
        }
    }

    async fn is_now(&self, id: JobId, fence: Fence, state: JobState) -> Result<bool, StoreError> {
        let job = self.life.store.job(id).await?;
        Ok(job.is_some_and(|job| (job.fence, job.state) == (fence, state)))
    }
}
