//! Giving jobs to nodes: reads the store into the scheduler, and writes what the scheduler picks.
//!
//! The scheduler is a cache. A lost lease throws it away; a lost reply is read again by its ids.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use turnwise_core::{
    Fence, GroupName, JobId, QueueName, RetryPolicy, State, Timestamp,
    lifecycle::{self, Event, Standing},
    scheduler::{self, Input, Output, Pick, Reply, Rest, Scheduler},
    settings::{Pause, Settings},
};
use turnwise_store::{
    AskLost, AskNews, Assign, AssignReply, Author, BatchId, Change, Cursor, Epoch, Load, LostNode, MemoKind, NewMemo,
    News, Page, Settle, Settled, Settlement, StoreError,
};

use crate::{
    pulse::{Backoff, Lead},
    settings::{self, SETTINGS, WrittenCharges},
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
/// How often charges are written down, and how many at a time.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
const SAVE_MEMOS: usize = 10_000;
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
            if life.draining.is_up() {
                return;
            }
            // If the lead was not lost, the next round begins anew with an empty scheduler.
            backoff.wait(&life.shared.chance).await;
            continue;
        }
        tokio::select! {
            biased;
            () = life.draining.wait() => return,
            changed = lead.changed() => if changed.is_err() { return },
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
    /// Whether all news from now on are of what happened after the backlog was read.
    caught_up: bool,
    /// Picks whose assignment got no reply.
    doubtful: Vec<Pick>,
    wake_at: Option<Timestamp>,
    settings: Settings,
    /// Queues that are set to pause on an error and had one.
    pauses: Vec<(QueueName, JobId)>,
    /// Charges as they are written in the store, and how much had been dispatched then.
    charges: WrittenCharges,
    dispatched: u64,
    dispatched_at_save: u64,
    /// Groups that are told to be full.
    full: BTreeSet<GroupName>,
    fleet_changed: bool,
    asleep: bool,
    busy_rounds: u32,
    next_poll: Instant,
    next_lost: Instant,
    next_prune: Instant,
    next_save: Instant,
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
            caught_up: false,
            doubtful: Vec::new(),
            wake_at: None,
            settings: Settings::default(),
            pauses: Vec::new(),
            charges: WrittenCharges::default(),
            dispatched: 0,
            dispatched_at_save: 0,
            full: BTreeSet::new(),
            fleet_changed: false,
            asleep: false,
            busy_rounds: 0,
            next_poll: now,
            next_lost: now,
            next_prune: now + PRUNE_INTERVAL,
            next_save: now + SAVE_INTERVAL,
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
        self.recall().await?;
        let mut rung = false;
        loop {
            match self.still_leading(lead) {
                Some(Some(nodes)) => self.act(Input::Nodes(nodes)).await?,
                Some(None) => {}
                None => return Ok(()),
            }
            if self.life.draining.is_up() {
                // The next dispatcher goes on where this one stops.
                return self.save().await;
            }
            self.recheck_doubtful().await?;
            self.write_pauses().await?;
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
            if Instant::now() >= self.next_save {
                self.save().await?;
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
                () = self.life.draining.wait() => {}
            }
            if pause > Duration::from_millis(1) {
                self.busy_rounds = 0;
            }
        }
    }

    /// `None`: not any more. `Some(Some(nodes))`: the fleet may have changed.
    fn still_leading(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Option<Option<Vec<turnwise_core::Node>>> {
        if !self.life.in_contact() {
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
                    Output::Pause { queue, job } => self.pauses.push((queue, job)),
                }
            }
            if picks.is_empty() {
                return Ok(());
            }
            self.dispatched += picks.len() as u64;
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
    async fn assign(&mut self, picks: Vec<Pick>) -> Result<Option<Vec<(JobId, Reply)>>, StoreError> {
        let life = self.life;
        let batch = BatchId::in_order(life.shared.clock.now(), life.shared.chance.random());
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
        let all_is_read = self.loading.is_none();
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
        if news.memos {
            let settings = settings::read(&*self.life.store).await?;
            self.see_settings(settings).await?;
        }
        let mut heads = news.jobs;
        let mut settled = Vec::new();
        for change in news.changes {
            match self.settled_elsewhere(&change) {
                Some(end) => settled.push(end),
                None => heads.extend(change.head),
            }
        }
        self.caught_up = all_is_read;
        // Ends first: a queue that pauses for one of them should not begin with what is new.
        if !settled.is_empty() {
            self.act(Input::Settled(settled)).await?;
            self.write_pauses().await?;
        }
        if !heads.is_empty() {
            self.act(Input::Jobs(heads)).await?;
        }
        Ok(())
    }

    /// The end of a run on another node, as the scheduler is told of its own node's: only so does it see trouble. `None`:
    /// the row as it stands says all.
    fn settled_elsewhere(&self, change: &Change) -> Option<scheduler::Settled> {
        let &Change { id, ran, failed, ref head } = change;
        let Some(head) = head else {
            return Some(scheduler::Settled { id, fence: Fence(i64::MAX), ran, rest: None, failed });
        };
        if head.state != State::Stuck || ran.is_none() {
            return None;
        }
        // What was read with the backlog, or is picked again for all that is known, is at rest already: to put it there
        // twice would be one time too many.
        if !self.caught_up || self.doubtful.iter().any(|pick| pick.job == id) {
            return None;
        }
        let rest = Some(Rest { stuck: true, due: head.due, crashes: head.crashes });
        Some(scheduler::Settled { id, fence: head.fence, ran, rest, failed })
    }

    /// What people have set, and what the last dispatcher remembered.
    async fn recall(&mut self) -> Result<(), StoreError> {
        let kinds = SETTINGS.into_iter().chain([MemoKind::Charge, MemoKind::Full]).collect();
        let memos = self.life.store.recall(kinds).await?;
        let named = |kind| memos.iter().filter(move |memo| memo.kind == kind);
        self.full = named(MemoKind::Full).filter_map(|memo| GroupName::new(&memo.name).ok()).collect();
        let charges = settings::charges(&memos);
        self.charges = WrittenCharges::new(&charges);
        self.see_settings(settings::parse(&memos)).await?;
        self.act(Input::Charges(charges)).await
    }

    async fn see_settings(&mut self, settings: Settings) -> Result<(), StoreError> {
        self.settings = settings.clone();
        self.act(Input::Settings(settings)).await
    }

    /// Writes down charges that have changed and groups that have become full or are so no more.
    async fn save(&mut self) -> Result<(), StoreError> {
        self.next_save = Instant::now() + SAVE_INTERVAL;
        let mut memos = match self.dispatched == self.dispatched_at_save {
            true => Vec::new(),
            false => self.charges.changed(self.scheduler.charges(), SAVE_MEMOS),
        };
        self.dispatched_at_save = self.dispatched;
        let mut open = std::mem::take(&mut self.full);
        for (group, waiting, limit) in self.scheduler.admissions() {
            if waiting < limit {
                continue;
            }
            if !open.remove(&group) {
                let sentence = format!("group: {:?} has {waiting} waiting jobs; its limit is {limit}", group.as_str());
                memos.push(NewMemo {
                    kind: MemoKind::Full,
                    name: group.to_string(),
                    value: Some(sentence),
                    seen: None,
                });
            }
            self.full.insert(group);
        }
        for group in open {
            memos.push(NewMemo { kind: MemoKind::Full, name: group.to_string(), value: None, seen: None });
        }
        self.remember(memos).await
    }

    /// A queue that is set to pause on an error has had one: that is a setting from now on, for a person to undo. What a
    /// person has set meanwhile stays: the setting is read again, and written only if nobody was quicker.
    async fn write_pauses(&mut self) -> Result<(), StoreError> {
        if self.pauses.is_empty() {
            return Ok(());
        }
        let memos = match self.life.store.recall(SETTINGS.to_vec()).await {
            Ok(memos) => memos,
            // Not forgotten: the scheduler holds the queue, and the next round tries again.
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut settings = settings::parse(&memos);
        let mut writes = Vec::new();
        for (queue, job) in &self.pauses {
            let set = settings.queues.entry(queue.clone()).or_default();
            if set.paused.is_some() {
                continue;
            }
            set.paused = Some(Pause { since: self.life.shared.clock.now(), reason: Some(format!("job {job} failed")) });
            let value = serde_json::to_string(set).map_err(|error| StoreError::broken("write a setting", error))?;
            let known = memos.iter().find(|memo| memo.kind == MemoKind::Queue && memo.name == queue.as_str());
            let seen = Some(known.map_or(0, |memo| memo.version));
            writes.push(NewMemo { kind: MemoKind::Queue, name: queue.to_string(), value: Some(value), seen });
        }
        let lead = Some((self.life.incarnation, self.epoch));
        let written = match writes.is_empty() {
            true => true,
            false => match self.life.store.remember(lead, writes).await {
                Ok(written) => written.iter().all(|written| *written),
                Err(error) if error.is_transient() => false,
                Err(error) => return Err(error),
            },
        };
        if !written {
            return Ok(());
        }
        self.pauses.clear();
        self.see_settings(settings).await
    }

    async fn remember(&self, memos: Vec<NewMemo>) -> Result<(), StoreError> {
        if memos.is_empty() {
            return Ok(());
        }
        match self.life.store.remember(Some((self.life.incarnation, self.epoch)), memos).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "could not write down charges");
                Ok(())
            }
            Err(error) => Err(error),
        }
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
        let mut poison = Vec::new();
        match life.store.settle(Settle { author, settlements, done: Vec::new() }).await {
            Ok(replies) => {
                for ((held, state), reply) in lost.jobs.iter().zip(states).zip(replies) {
                    if reply == Settled::Applied && state == State::Failed {
                        let fence = held.fence.next();
                        poison.push(scheduler::Settled { id: held.id, fence, ran: None, rest: None, failed: true });
                    }
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
        self.act(Input::Settled(poison)).await?;
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
