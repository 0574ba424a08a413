//! Giving jobs to nodes: reads the store into the scheduler, and writes what the scheduler picks.
//!
//! The scheduler is a cache. A lost lease throws it away; a lost reply is read again by its ids.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use turnwise_core::{
    JobId, RetryPolicy, Timestamp,
    lifecycle::{self, Event, Standing},
    scheduler::{Input, Output, Pick, Reply, Scheduler},
};
use turnwise_store::{
    AskLost, AskNews, Assign, AssignReply, Author, BatchId, Cursor, Epoch, Load, LostNode, News, Page, Settle, Settled,
    Settlement, StoreError,
};

use crate::{
    pulse::{Backoff, Lead},
    shared::{Life, fence_number},
    trace::Record,
};

/// Jobs per page while the backlog is read.
const PAGE: u32 = 10_000;
/// Jobs of lost nodes per step.
const LOST: u32 = 1_000;
/// How often what nobody needs is deleted, and how many rows at a time.
const PRUNE_INTERVAL: Duration = Duration::from_secs(30);
const PRUNE_ROWS: u32 = 10_000;
/// Rounds without a pause after which submitters need not ring: the dispatcher will look anyway.
const BUSY_ROUNDS: u32 = 8;

/// Dispatches whenever this node leads, until the life is over.
pub(crate) async fn dispatch(life: Arc<Life>, mut lead: watch::Receiver<Option<Lead>>) {
    let mut backoff = Backoff::default();
    loop {
        let term = lead.borrow_and_update().clone();
        if let Some(term) = term {
            tracing::info!(epoch = term.epoch.0, "dispatching");
            life.trace(|| Record::Lead { epoch: term.epoch.0 });
            life.begin_term(term.epoch);
            let ended = Dispatcher::new(&life, term).run(&mut lead).await;
            life.end_term();
            match ended {
                Ok(()) | Err(StoreError::NotLeading) => tracing::info!("no longer dispatching"),
                Err(error) => tracing::warn!(%error, "dispatching was interrupted; reading everything again"),
            }
            // If the lead was not lost, the next round begins anew with an empty scheduler.
            backoff.wait().await;
            if life.over.is_up() {
                return;
            }
            continue;
        }
        tokio::select! {
            changed = lead.changed() => if changed.is_err() { return },
            () = life.over.wait() => return,
        }
    }
}

struct Dispatcher<'a> {
    life: &'a Life,
    epoch: Epoch,
    scheduler: Scheduler,
    cursor: Option<Cursor>,
    /// Where the next page of the backlog begins; `None` when all is read.
    loading: Option<Option<JobId>>,
    /// Picks whose assignment got no reply.
    doubtful: Vec<Pick>,
    wake_at: Option<Timestamp>,
    fleet_changed: bool,
    asleep: bool,
    busy_rounds: u32,
    next_poll: Instant,
    next_lost: Instant,
    next_prune: Instant,
}

impl<'a> Dispatcher<'a> {
    fn new(life: &'a Life, term: Lead) -> Self {
        let config = &life.shared.config;
        let now = Instant::now();
        let mut dispatcher = Self {
            life,
            epoch: term.epoch,
            scheduler: Scheduler::new(config.scheme, config.batch_size),
            cursor: None,
            loading: Some(None),
            doubtful: Vec::new(),
            wake_at: None,
            fleet_changed: false,
            asleep: false,
            busy_rounds: 0,
            next_poll: now,
            next_lost: now,
            next_prune: now + PRUNE_INTERVAL,
        };
        dispatcher.scheduler.handle(life.shared.clock.now(), Input::Loading(true));
        dispatcher.scheduler.handle(life.shared.clock.now(), Input::Nodes(term.nodes));
        dispatcher
    }

    async fn run(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Result<(), StoreError> {
        let bell = self.life.store.bell();
        // The cursor first, then the backlog: what comes in between is seen twice, never missed.
        let begin = self.ask_news(None).await?;
        self.cursor = Some(begin.cursor);
        let mut rung = false;
        loop {
            match self.still_leading(lead) {
                Some(Some(nodes)) => self.act(Input::Nodes(nodes)).await?,
                Some(None) => {}
                None => return Ok(()),
            }
            self.recheck_doubtful().await?;
            let told = self.life.take_told();
            if !told.is_empty() {
                self.act(Input::Settled(told)).await?;
            }
            if let Some(after) = self.loading {
                self.load_page(after).await?;
            }
            if rung || Instant::now() >= self.next_poll {
                rung = false;
                self.see_news(self.busy_rounds < BUSY_ROUNDS && self.asleep).await?;
            }
            if Instant::now() >= self.next_lost {
                self.see_lost_nodes().await?;
            }
            if Instant::now() >= self.next_prune {
                self.prune().await?;
            }
            self.act(Input::Tick).await?;
            self.busy_rounds = self.busy_rounds.saturating_add(1);
            if self.loading.is_some() || self.life.has_told() {
                continue;
            }
            if !self.asleep {
                // One more look after saying so: a submit in between was not asked to ring.
                self.asleep = true;
                self.see_news(true).await?;
                continue;
            }
            let pause = self.pause();
            tokio::select! {
                biased;
                () = self.life.told.notified() => {}
                () = bell.news.notified() => rung = true,
                changed = lead.changed() => match changed {
                    // Waiting for it counts as having seen it.
                    Ok(()) => self.fleet_changed = true,
                    Err(_) => return Ok(()),
                },
                () = tokio::time::sleep(pause) => {}
                () = self.life.over.wait() => return Ok(()),
            }
            if pause > Duration::from_millis(1) {
                self.busy_rounds = 0;
            }
        }
    }

    /// `None`: not any more. `Some(Some(nodes))`: the fleet may have changed.
    fn still_leading(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Option<Option<Vec<turnwise_core::Node>>> {
        if self.life.over.is_up() || !self.life.in_contact() {
            return None;
        }
        self.fleet_changed |= lead.has_changed().ok()?;
        let current = lead.borrow_and_update();
        let current = current.as_ref().filter(|current| current.epoch == self.epoch)?;
        Some(std::mem::take(&mut self.fleet_changed).then(|| current.nodes.clone()))
    }

    fn pause(&self) -> Duration {
        let now = Instant::now();
        let timers =
            [self.next_poll, self.next_lost, self.next_prune].into_iter().map(|at| at.saturating_duration_since(now));
        let due = self.wake_at.map(|at| self.life.shared.clock.until(at));
        timers.chain(due).min().unwrap_or_default()
    }

    /// Tells the scheduler, and does what it says until it says no more.
    async fn act(&mut self, input: Input) -> Result<(), StoreError> {
        let mut outputs = self.scheduler.handle(self.life.shared.clock.now(), input);
        loop {
            let mut picks = Vec::new();
            self.wake_at = None;
            for output in outputs {
                match output {
                    Output::Assign(batch) => picks = batch,
                    Output::WakeAt(at) => self.wake_at = Some(at),
                }
            }
            if picks.is_empty() {
                return Ok(());
            }
            let Some(replies) = self.assign(picks).await? else { return Ok(()) };
            outputs = self.scheduler.handle(self.life.shared.clock.now(), Input::Replied(replies));
            // What ended meanwhile makes room for the next batch.
            let told = self.life.take_told();
            if !told.is_empty() && !outputs.iter().any(|output| matches!(output, Output::Assign(_))) {
                outputs = self.scheduler.handle(self.life.shared.clock.now(), Input::Settled(told));
            } else if !told.is_empty() {
                self.life.tell(Some(self.epoch), told);
            }
        }
    }

    /// `None`: no reply; the picks are in doubt.
    async fn assign(&mut self, mut picks: Vec<Pick>) -> Result<Option<Vec<(JobId, Reply)>>, StoreError> {
        let life = self.life;
        picks.sort_unstable_by_key(|pick| pick.job);
        let batch = BatchId::from_random(rand::random());
        life.expect(batch);
        let assign = Assign { holder: life.incarnation, epoch: self.epoch, batch, picks: picks.clone() };
        let replies = match life.store.assign(assign).await {
            Ok(replies) => replies,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, jobs = picks.len(), "an assignment got no reply; reading the jobs again");
                life.unexpect(batch);
                self.doubtful.extend(picks);
                return Ok(None);
            }
            Err(error) => {
                life.unexpect(batch);
                return Err(error);
            }
        };
        let to: HashMap<JobId, turnwise_core::Incarnation> = match life.shared.trace.is_on() {
            true => picks.iter().map(|pick| (pick.job, pick.node)).collect(),
            false => HashMap::new(),
        };
        let mut mine = Vec::with_capacity(replies.len());
        let mut answers = Vec::with_capacity(replies.len());
        for (id, reply) in replies {
            let reply = match reply {
                AssignReply::Mine(job) => {
                    let fence = job.fence;
                    mine.push(*job);
                    Reply::Assigned(fence)
                }
                AssignReply::Theirs(fence) => Reply::Assigned(fence),
                AssignReply::Locked => Reply::Locked,
                AssignReply::Changed(head) => Reply::Changed(head),
                AssignReply::Gone => Reply::Gone,
            };
            if let (Reply::Assigned(fence), Some(&to)) = (&reply, to.get(&id)) {
                life.trace(|| Record::Assign { job: id, fence: fence_number(*fence), to });
            }
            answers.push((id, reply));
        }
        if mine.is_empty() {
            life.unexpect(batch);
        } else {
            life.take_assigned(batch, mine);
        }
        Ok(Some(answers))
    }

    /// Did it happen? The rows know.
    async fn recheck_doubtful(&mut self) -> Result<(), StoreError> {
        if self.doubtful.is_empty() {
            return Ok(());
        }
        let ids = self.doubtful.iter().map(|pick| pick.job).collect();
        let page = match self.life.store.load(Load::These(ids)).await {
            Ok(page) => page,
            Err(error) if error.is_transient() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut heads: HashMap<_, _> = page.jobs.into_iter().map(|head| (head.id, head)).collect();
        let replies = self
            .doubtful
            .drain(..)
            .map(|pick| {
                let reply = match heads.remove(&pick.job) {
                    None => Reply::Gone,
                    Some(head)
                        if head.fence == pick.fence.next() && head.node == Some(pick.node) && head.state.assigned() =>
                    {
                        let fence = fence_number(head.fence);
                        self.life.trace(|| Record::Assign { job: pick.job, fence, to: pick.node });
                        Reply::Assigned(head.fence)
                    }
                    // Untouched so far; the lost statement may still arrive, and its fence decides then.
                    Some(head) if head.fence == pick.fence && !head.state.assigned() => Reply::Locked,
                    Some(head) => Reply::Changed(head),
                };
                (pick.job, reply)
            })
            .collect();
        self.life.store.bell().ring_mail();
        self.act(Input::Replied(replies)).await
    }

    async fn load_page(&mut self, after: Option<JobId>) -> Result<(), StoreError> {
        let Page { now, jobs, next } = self.life.store.load(Load::After { id: after, limit: PAGE }).await?;
        self.life.shared.clock.heard(now);
        self.loading = next.map(Some);
        self.act(Input::Jobs(jobs)).await?;
        if self.loading.is_none() {
            self.act(Input::Loading(false)).await?;
        }
        Ok(())
    }

    async fn ask_news(&mut self, cursor: Option<Cursor>) -> Result<News, StoreError> {
        let news = self.life.store.news(AskNews { cursor, epoch: self.epoch, asleep: self.asleep }).await?;
        self.life.shared.clock.heard(news.now);
        Ok(news)
    }

    async fn see_news(&mut self, asleep: bool) -> Result<(), StoreError> {
        self.next_poll = Instant::now() + self.life.shared.config.poll_interval;
        self.asleep = asleep;
        let news = match self.ask_news(self.cursor.clone()).await {
            Ok(news) => news,
            // The cursor stays where it is: nothing is missed.
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "could not read the news");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.cursor = Some(news.cursor);
        let mut heads = news.jobs;
        let mut gone = Vec::new();
        for change in news.changes {
            match change.head {
                Some(head) => heads.push(head),
                None => gone.push(turnwise_core::scheduler::Settled {
                    id: change.id,
                    fence: turnwise_core::Fence(i64::MAX),
                    ran: change.ran,
                    rest: None,
                }),
            }
        }
        if !heads.is_empty() {
            self.act(Input::Jobs(heads)).await?;
        }
        if !gone.is_empty() {
            self.act(Input::Settled(gone)).await?;
        }
        Ok(())
    }

    /// A node that has fallen silent: its jobs go back, through the same decision as every other end.
    async fn see_lost_nodes(&mut self) -> Result<(), StoreError> {
        self.next_lost = Instant::now() + self.life.shared.config.lease / 4;
        let ask = AskLost {
            holder: self.life.incarnation,
            epoch: self.epoch,
            // After an outage everybody looks silent; those that were replaced by name are lost all the same.
            expire: self.life.long_in_contact(),
            limit: LOST,
        };
        let lost = match self.life.store.lost_nodes(ask).await {
            Ok(lost) => lost,
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error),
        };
        for node in lost {
            self.take_from(node).await?;
        }
        Ok(())
    }

    async fn take_from(&mut self, lost: LostNode) -> Result<(), StoreError> {
        let life = self.life;
        let from = lost.node.incarnation;
        tracing::warn!(node = %lost.node.name, jobs = lost.jobs.len(), "a node is lost; its jobs go back");
        let now = life.shared.clock.now();
        let settlements: Vec<Settlement> = lost
            .jobs
            .iter()
            .map(|held| {
                let standing = Standing {
                    state: held.state,
                    counts: held.counts,
                    retry: &RetryPolicy::None,
                    cancel_requested: held.cancel_requested,
                    fence: held.fence,
                };
                let to = lifecycle::decide(&standing, &Event::NodeLost, now, 0.0)
                    .expect("an assigned job may lose its node");
                Settlement {
                    job: held.id,
                    fence: held.fence,
                    saw_cancel: held.cancel_requested,
                    to,
                    started_at: None,
                    finished_at: None,
                }
            })
            .collect();
        let author =
            Author::Dispatcher { holder: life.incarnation, epoch: self.epoch, lost: from, bury: lost.complete };
        let ids: Vec<JobId> = lost.jobs.iter().map(|held| held.id).collect();
        let states: Vec<_> = lost.jobs.iter().zip(&settlements).map(|(held, to)| to.to.state(held.state)).collect();
        match life.store.settle(Settle { author, settlements, done: Vec::new() }).await {
            Ok(replies) => {
                for ((held, state), reply) in lost.jobs.iter().zip(states).zip(replies) {
                    if reply == Settled::Applied {
                        life.trace(|| Record::NodeLost {
                            job: held.id,
                            fence: fence_number(held.fence),
                            lost: from,
                            state,
                        });
                    }
                }
            }
            // Whatever of it was written: the next look finds what is left.
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error),
        }
        if !lost.complete {
            self.next_lost = Instant::now();
        }
        if ids.is_empty() {
            return Ok(());
        }
        self.read_again(ids).await
    }

    async fn read_again(&mut self, ids: Vec<JobId>) -> Result<(), StoreError> {
        let page = self.life.store.load(Load::These(ids.clone())).await?;
        let there: std::collections::HashSet<_> = page.jobs.iter().map(|head| head.id).collect();
        let gone = ids.into_iter().filter(|id| !there.contains(id)).collect();
        self.act(Input::Jobs(page.jobs)).await?;
        self.act(Input::Gone(gone)).await
    }

    async fn prune(&mut self) -> Result<(), StoreError> {
        self.next_prune = Instant::now() + PRUNE_INTERVAL;
        match self.life.store.prune(self.cursor.clone(), PRUNE_ROWS).await {
            Ok(rows) => {
                if rows >= u64::from(PRUNE_ROWS) {
                    self.next_prune = Instant::now();
                }
                Ok(())
            }
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
