//! Staying in the fleet: joining under a name, beating, taking the lead, leaving.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use turnwise_core::{Fence, Incarnation, JobId, Node};
use turnwise_store::{Beat, Epoch, Join, Joined, Replace, Store, StoreError};

use crate::{
    chance::Chance,
    executor::StartError,
    follow::Following,
    settle,
    shared::{Life, Shared},
    trace::Record,
};

/// Poll intervals between two looks at the mail, while every ring is heard.
const QUIET_MAIL: u32 = 10;
/// Good-byes before a node goes without one. Each finds what was sent since the last, and a node that drains is sent little.
const LEAVE_TRIES: u32 = 20;

/// What the last beat said about dispatching.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    pub(crate) epoch: Epoch,
    pub(crate) nodes: Vec<Node>,
}

/// Waits that double, up to a second, with some chance in them so that a fleet does not knock in step.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    pub(crate) async fn wait(&mut self, chance: &Chance) {
        let least = Duration::from_millis(20).saturating_mul(1 << self.tries.min(6)).min(Duration::from_secs(1));
        self.tries += 1;
        tokio::time::sleep(least.mul_f64(0.5 + chance.random::<f64>())).await;
    }
}

/// Joins the fleet under the configured name. A name that is taken is taken over when its process is certainly gone, or
/// when its lease has run out; if it beats meanwhile, it lives, and this node is refused.
pub(crate) async fn join(shared: &Shared, store: &dyn Store) -> Result<(Incarnation, Instant), StartError> {
    let here = &shared.process;
    let incarnation = Incarnation(uuid::Builder::from_random_bytes(shared.chance.random()).into_uuid());
    let mut replace: Option<Replace> = None;
    let mut seen: Option<Replace> = None;
    loop {
        let sent = Instant::now();
        let join = Join {
            incarnation,
            name: shared.config.name.clone(),
            host: here.host.clone(),
            slots: shared.config.core_pool_size,
            queue_capacity: shared.config.queue_capacity,
            batch_size: shared.config.share(),
            queues: shared.serves.clone(),
            tasks: shared.registry.names().cloned().collect(),
            lease: shared.config.lease,
            replace,
        };
        match store.join(join).await? {
            Joined::In { now } => {
                shared.clock.heard(now);
                return Ok((incarnation, sent));
            }
            Joined::Taken { by, now } => {
                let other = Replace { incarnation: by.incarnation, lease_until: by.lease_until };
                let beats = seen
                    .is_some_and(|seen| seen.incarnation == other.incarnation && seen.lease_until != other.lease_until);
                if here.is_gone(&by.host) || by.lease_until < now {
                    replace = Some(other);
                } else if beats {
                    return Err(StartError::NameTaken { name: by.name, host: by.host.name, pid: by.host.pid });
                } else {
                    seen = Some(other);
                    tracing::info!(name = %by.name, host = by.host.name, pid = by.host.pid, "the name is taken; waiting to see whether its owner lives");
                    // It beats three times a lease; one beat is proof enough.
                    let wait = by.lease_until.since(now).min(shared.config.lease / 2) + Duration::from_millis(10);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// Beats until the life is over or this node is declared lost. Tells the dispatcher loop whether it leads.
pub(crate) async fn beat(life: &Life, lead: &watch::Sender<Option<Lead>>) {
    let bell = &life.bell;
    let config = &life.shared.config;
    let mut backoff = Backoff::default();
    let mut following = Following::default();
    loop {
        if life.over.is_up() {
            lead.send_replace(None);
            return;
        }
        if life.draining.is_up() {
            // The dispatcher of this process writes down what the next one should know, while it still may.
            let _ = tokio::time::timeout(config.beat_interval(), life.term_ended()).await;
        }
        let sent = Instant::now();
        let slots = if life.draining.is_up() { 0 } else { life.slots() };
        let ask = Beat {
            node: life.incarnation,
            lease: config.lease,
            slots,
            // A node that stops hands over, and so does one that is not sound.
            lead: config.dispatch && !life.draining.is_up() && !life.shared.hold_off.holds(),
            over: following.over(life),
            only_look: false,
        };
        let (asks_for_the_lead, over) = (ask.lead, ask.over);
        match life.store.beat(ask).await {
            Ok(pulse) if pulse.alive => {
                backoff = Backoff::default();
                life.shared.clock.heard(pulse.now);
                life.heard(sent);
                life.heard_from(pulse.lineage);
                if !asks_for_the_lead && life.shared.hold_off.stood_down() {
                    // Nothing of the term that panicked can be written any more: now it shows what it gave to this node.
                    life.bell.ring_mail();
                }
                following.hear(life, over, &pulse);
                lead.send_replace(pulse.epoch.map(|epoch| Lead { epoch, nodes: following.living(life, pulse.nodes) }));
            }
            Ok(_) => {
                // A good-bye may be written before the beat that was sent first.
                if !life.leaving.is_up() {
                    tracing::warn!("this node was declared lost: its jobs are in other hands by now");
                }
                life.lost.store(true, Ordering::Release);
                lead.send_replace(None);
                life.draining.raise();
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "could not beat");
                if !life.in_contact() {
                    lead.send_replace(None);
                }
                backoff.wait(&life.shared.chance).await;
                continue;
            }
        }
        let beat_at = Instant::now() + next_beat(life, asks_for_the_lead);
        tokio::select! {
            biased;
            () = life.over.wait() => {}
            () = life.draining.wait(), if slots > 0 => {}
            () = bell.lead.notified(), if config.dispatch => {}
            () = life.resized.notified() => {}
            () = following.look_out(life, beat_at) => {}
        }
    }
}

/// How long until the next beat; sooner where it may ask for the lead again.
fn next_beat(life: &Life, asked_for_the_lead: bool) -> Duration {
    let config = &life.shared.config;
    let left = life.shared.hold_off.left();
    match config.dispatch && !asked_for_the_lead && !left.is_zero() {
        true => left.min(config.beat_interval()),
        false => config.beat_interval(),
    }
}

/// Stops what a limit counts while this node cannot be sure any more that others think it alive. The rest goes on: its
/// end is taken if it was not given away meanwhile.
pub(crate) async fn doubt(life: Arc<Life>) {
    let moment = life.shared.config.lease / 20;
    loop {
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = tokio::time::sleep_until(life.doubt_at()) => {}
        }
        if life.doubt_at() > Instant::now() {
            continue;
        }
        let stopped = life.stop_limited();
        if stopped > 0 {
            tracing::warn!(jobs = stopped, "no contact with the database; runs that a limit counts are stopped");
        }
        // What comes meanwhile does not begin.
        tokio::time::sleep(moment).await;
    }
}

/// Says good-bye, so that the others need not wait for the lease. What another node's dispatcher sent before it saw that
/// this one takes no more is handed back first; the loops must still run, to beat and to write that.
pub(crate) async fn leave(life: &Life) -> bool {
    life.leaving.raise();
    let left = tokio::time::timeout(life.shared.config.lease, try_to_leave(life)).await.unwrap_or(false);
    life.trace(|| Record::Leave { held: life.held() });
    if !left {
        tracing::warn!(jobs = life.held(), "could not say good-bye; the fleet will notice when the lease runs out");
    }
    left
}

/// A task that took its time to stop may have been all that was in the way. If not, nothing is left to be done about it.
pub(crate) async fn leave_at_last(life: &Life) {
    let _ = tokio::time::timeout(life.shared.config.lease, life.store.leave(life.incarnation)).await;
}

async fn try_to_leave(life: &Life) -> bool {
    let mut backoff = Backoff::default();
    for _ in 0..LEAVE_TRIES {
        let mail = read_mail(life).await.unwrap_or(false);
        life.nothing_held().await;
        match life.store.leave(life.incarnation).await {
            Ok(true) => return true,
            Ok(false) if mail => {}
            // It is not there to be read, or somebody else has to write it first.
            Ok(false) => backoff.wait(&life.shared.chance).await,
            Err(error) => {
                tracing::warn!(%error, "could not say good-bye; trying again");
                backoff.wait(&life.shared.chance).await;
            }
        }
        if life.lost.load(Ordering::Acquire) {
            // Gone, by its own wish or another's.
            return true;
        }
    }
    false
}

/// Whether there was any; `None`: it could not be read.
pub(crate) async fn read_mail(life: &Life) -> Option<bool> {
    let (_look, known) = life.look();
    match life.store.assignments(life.incarnation, known).await {
        Ok(deliveries) => {
            let any = !deliveries.is_empty();
            life.take_deliveries(deliveries);
            Some(any)
        }
        Err(error) => {
            tracing::warn!(%error, "could not read the mail");
            None
        }
    }
}

/// Brings in what others have assigned to this node, and who of its jobs shall stop.
pub(crate) async fn mail(life: Arc<Life>) {
    let bell = &life.bell;
    let mut missing = BTreeSet::new();
    let mut next_check = Instant::now() + check_interval(&life);
    loop {
        let read = read_mail(&life).await.is_some();
        // Before the look: what makes it unsure again meanwhile is looked at again.
        let unsure = life.unsure.swap(false, Ordering::AcqRel);
        if unsure || Instant::now() >= next_check {
            next_check = Instant::now() + check_interval(&life);
            match check(&life, unsure, &mut missing).await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, "could not look at what is said to be here; trying again");
                    life.unsure.fetch_or(unsure, Ordering::AcqRel);
                }
            }
        }
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = bell.mail.notified() => {}
            () = tokio::time::sleep(look_again(&life, read)) => {}
            () = tokio::time::sleep_until(next_check) => {}
        }
    }
}

/// How often a node compares what the database says is in its hands with what is. Twelve beats: what is missing twice was
/// given to it long ago, and is not on its way.
fn check_interval(life: &Life) -> Duration {
    life.shared.config.lease * 4
}

/// Gives back what is said to be here and is not: twice in a row, or once if the database is not what it was.
async fn check(life: &Life, unsure: bool, missing: &mut BTreeSet<(JobId, Fence)>) -> Result<(), StoreError> {
    let now = settle::unknown(life, unsure).await?;
    let (back, rest): (BTreeSet<_>, BTreeSet<_>) = now.into_iter().partition(|job| unsure || missing.contains(job));
    settle::give_back(life, &back).await?;
    *missing = rest;
    Ok(())
}

/// Whoever gives this node something rings for it. The look without a ring is for a bell that is cut and does not know it yet.
fn look_again(life: &Life, read: bool) -> Duration {
    let poll = life.shared.config.poll_interval;
    let quiet = read && life.bell.hears() && !life.unsure.load(Ordering::Acquire);
    if quiet { poll.saturating_mul(QUIET_MAIL) } else { poll }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_closed_door_is_knocked_at_twice_a_second_at_most() {
        let (chance, begun) = (Chance::seeded(7), Instant::now());
        let mut backoff = Backoff::default();
        for _ in 0..6 {
            backoff.wait(&chance).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "a door that opens soon is found open soon");
        let begun = Instant::now();
        for _ in 0..100 {
            backoff.wait(&chance).await;
        }
        assert!(begun.elapsed() >= Duration::from_secs(50), "{:?}", begun.elapsed());
    }
}
