//! Jobs that are said to be in a node's hands and are in none.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use tokio::time::Instant;
use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId,
    lifecycle::Event,
    strays::{self, Holder},
};
use turnwise_store::{Load, LostJob, StoreError};

use super::Dispatcher;

/// Jobs per look. The dispatcher waits for it, so it is a small part of what it reads at a time while it begins.
const PAGE: u32 = 1_000;
/// Jobs that go back per look: each is read by itself. The others are looked at again.
const BACK: usize = 100;

#[derive(Debug)]
pub(super) struct Strays {
    next: Instant,
    /// The last job of the last page; `None`: the next page is the first.
    after: Option<JobId>,
    /// In a node's hands, as the last page had it.
    suspected: BTreeSet<(JobId, Fence)>,
    /// Jobs that had been given out at the last look.
    given_before: u64,
}

impl Strays {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), after: None, suspected: BTreeSet::new(), given_before: 0 }
    }

    pub(super) fn next_look(&self) -> Instant {
        self.next
    }
}

impl Dispatcher<'_> {
    /// Looks at a page of all unfinished jobs, or once more at those of the last page that are in nodes' hands: what is there twice, and is not
    /// there in truth, goes back.
    pub(super) async fn look_for_strays_if_due(&mut self) -> Result<(), StoreError> {
        if Instant::now() < self.strays.next || !self.backlog.is_read() {
            return Ok(());
        }
        let suspected = mem::take(&mut self.strays.suspected);
        let looked =
            if suspected.is_empty() { self.see_next_page().await } else { self.see_suspected(suspected).await };
        let given = self.rounds.given();
        let busy = mem::replace(&mut self.strays.given_before, given) != given;
        let pause = strays::next_look(self.life.node.config.lease, busy, !self.strays.suspected.is_empty());
        self.strays.next = Instant::now() + pause;
        looked
    }

    async fn see_next_page(&mut self) -> Result<(), StoreError> {
        let load = Load::After { id: self.strays.after, limit: PAGE.min(self.life.node.page) };
        let Some(page) = answered(self.life.store.load(load).await)? else { return Ok(()) };
        self.strays.after = page.next;
        let held = page.jobs.iter().filter(|head| head.state.assigned());
        self.strays.suspected = held.map(|head| (head.id, head.fence)).collect();
        Ok(())
    }

    async fn see_suspected(&mut self, suspected: BTreeSet<(JobId, Fence)>) -> Result<(), StoreError> {
        let store = &self.life.store;
        let ids = suspected.iter().map(|(id, _)| *id).collect();
        let Some(page) = answered(store.load(Load::These(ids)).await)? else { return Ok(()) };
        let mut still = page.jobs;
        still.retain(|head| head.state.assigned() && suspected.contains(&(head.id, head.fence)));
        if still.is_empty() {
            return Ok(());
        }
        // After the jobs: a batch stands until all of its jobs are settled, so what is not named now was not named then.
        let Some(page) = answered(store.load(Load::InHands(None)).await)? else { return Ok(()) };
        let named: BTreeSet<_> = page.jobs.iter().map(|head| (head.id, head.fence)).collect();
        let living = self.lost.living();
        still.retain(|head| {
            !named.contains(&(head.id, head.fence)) || head.node.is_none_or(|node| !living.contains(&node))
        });
        if still.is_empty() {
            return Ok(());
        }
        let Some(fleet) = answered(store.nodes().await)? else { return Ok(()) };
        let holders: BTreeMap<_, _> = fleet
            .nodes
            .iter()
            .map(|node| (node.incarnation, if node.alive(fleet.now) { Holder::Living } else { Holder::Silent }))
            .collect();
        let mut back = 0;
        let mut strays: BTreeMap<Incarnation, (Event, Vec<LostJob>)> = BTreeMap::new();
        for JobHead { id, fence, node, .. } in still {
            let Some(node) = node else { continue };
            let holder = holders.get(&node).copied().unwrap_or(Holder::Unknown);
            let Some(event) = strays::decide(holder, named.contains(&(id, fence))) else { continue };
            back += 1;
            if back > BACK {
                self.strays.suspected.insert((id, fence));
            } else if let Some(job) = self.held_at(id, fence).await? {
                strays.entry(node).or_insert_with(|| (event, Vec::new())).1.push(job);
            }
        }
        for (node, (event, jobs)) in strays {
            tracing::warn!(jobs = jobs.len(), "jobs are said to be in a node's hands and are not; they go back");
            self.take_from(node, jobs, &event, false).await?;
        }
        Ok(())
    }

    /// The job, if it is in a node's hands at this fence.
    pub(super) async fn held_at(&self, id: JobId, fence: Fence) -> Result<Option<LostJob>, StoreError> {
        let Some(job) = answered(self.life.store.job(id).await)?.flatten() else { return Ok(None) };
        let Job { state, counts, retry, terms, cancel_requested, .. } = job;
        let held = job.fence == fence && state.assigned();
        Ok(held.then_some(LostJob { id, fence, state, counts, retry, terms, cancel_requested }))
    }
}

/// `None`: there is no answer now, and the next look comes.
fn answered<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_transient() => Ok(None),
        Err(error) => Err(error),
    }
}
