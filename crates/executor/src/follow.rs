//! A node that does not lead: it looks whether the leading node is still there, and takes the lead if not.
//!
//! Which node is lost is another question, and waits for its lease. Taking the lead early is safe: every assignment checks the epoch.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;
use turnwise_core::{
    Incarnation, Node, Timestamp,
    lead::{self, By, Sight, Watch},
};
use turnwise_store::{Beat, BeatReply, Leader, Term};

use crate::{life::Life, logs::Kind};

/// What a node knows of the leading node.
#[derive(Debug, Default)]
pub(crate) struct Following {
    leader: Option<Leader>,
    watch: Watch<Term>,
    busy: Option<Instant>,
    /// Nodes of the process whose lead was taken before its lease was over, and when their leases end: they get nothing until
    /// they beat.
    deposed: HashMap<Incarnation, Timestamp>,
}

impl Following {
    /// Takes in what the last beat, or look, returned. `over`: the lead that this node declared over with it.
    pub(crate) fn hear(&mut self, life: &Life, over: Option<Term>, reply: &BeatReply) {
        if let Some(leader) = &reply.leader {
            let sight = if life.node.process.is_gone(&leader.host) { Sight::Gone } else { leader.sight };
            self.watch.see(leader.term, sight, life.node.clock.monotonic());
            self.leader = Some(leader.clone());
            return;
        }
        if let (Some(_), Some(Leader { host, term, .. })) = (reply.epoch, self.leader.take()) {
            let gone = over == Some(term);
            if life.node.logs.may(Kind::Lead) {
                let what = if gone { "is gone" } else { "has given up the lead" };
                tracing::warn!(host = host.name, pid = host.pid, "the dispatcher {what}; this node dispatches now");
            }
            if gone {
                let its = reply.nodes.iter().filter(|node| node.host == host);
                self.deposed = its.map(|node| (node.incarnation, node.lease_until)).collect();
            }
        }
        self.watch.forget();
    }

    /// The lead that is over, as far as this node knows.
    pub(crate) fn over(&self, life: &Life) -> Option<Term> {
        let lease = self.leader.as_ref()?.lease;
        self.watch.over(lease, life.contact.steady_since(&life.node.clock), life.node.clock.monotonic()).copied()
    }

    /// Waits until it is time to beat: at `beat_at`, or when the lead is found to be over. A node without work that looks for the
    /// dispatcher's session beats instead of looking: that costs no statement more.
    pub(crate) async fn look_out(&mut self, life: &Life, beat_at: Instant) {
        loop {
            let look_at = Instant::now().checked_add(self.look_in(life)).unwrap_or(beat_at);
            // In short naps, which cost no statement: work may come.
            let nap = Instant::now() + lead::BUSY_LOOK;
            tokio::time::sleep_until(look_at.min(beat_at).min(nap)).await;
            if nap < look_at.min(beat_at) {
                continue;
            }
            let beats_instead = self.by(life) == By::Session && self.idle_for(life) >= lead::BUSY;
            if look_at >= beat_at || self.leader.is_none() || beats_instead {
                return;
            }
            self.look(life).await;
            if self.over(life).is_some() {
                return;
            }
        }
    }

    /// A look: at the process table, if that shows the leader; else at its session, if that can be seen.
    async fn look(&mut self, life: &Life) {
        let Some(leader) = &self.leader else { return };
        self.watch.looked(life.node.clock.monotonic());
        match self.by(life) {
            By::Lease => return,
            By::Process => {
                if life.node.process.is_gone(&leader.host) {
                    self.watch.see(leader.term, Sight::Gone, life.node.clock.monotonic());
                }
                return;
            }
            By::Session => {}
        }
        let look = Beat { only_look: true, ..Beat::new(life.incarnation, life.node.config.lease, 0, true) };
        match life.store.beat(look).await {
            Ok(reply) if reply.leader.is_some() => self.hear(life, None, &reply),
            // No node leads: the next beat takes the lead.
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "could not look for the dispatcher"),
        }
    }

    /// By what the leader can be seen.
    fn by(&self, life: &Life) -> By {
        match &self.leader {
            Some(leader) if life.node.process.host.shares_process_table_with(&leader.host) => By::Process,
            Some(leader) if leader.sight != Sight::Unseen => By::Session,
            _ => By::Lease,
        }
    }

    fn look_in(&mut self, life: &Life) -> Duration {
        let Some(leader) = &self.leader else { return Duration::MAX };
        let (lease, by) = (leader.lease, self.by(life));
        let idle_for = self.idle_for(life);
        self.watch.look_in(
            lease,
            life.contact.steady_since(&life.node.clock),
            life.node.clock.monotonic(),
            by,
            idle_for,
        )
    }

    /// How long this node has had no job.
    fn idle_for(&mut self, life: &Life) -> Duration {
        self.busy = if life.desk.count() > 0 { Some(Instant::now()) } else { self.busy.max(life.desk.last_job()) };
        self.busy.map_or(Duration::MAX, |busy| busy.elapsed())
    }

    /// The nodes as the dispatcher should see them: one whose process is gone gets nothing, though its lease runs on.
    pub(crate) fn living(&self, life: &Life, nodes: Vec<Node>) -> Vec<Node> {
        let deposed = |node: &Node| self.deposed.get(&node.incarnation) == Some(&node.lease_until);
        let seen = |node: Node| {
            if life.node.process.is_gone(&node.host) || deposed(&node) {
                Node { slots: 0, queue_capacity: 0, ..node }
            } else {
                node
            }
        };
        nodes.into_iter().map(seen).collect()
    }
}
