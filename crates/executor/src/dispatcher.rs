//! Giving jobs to nodes: reads the store into the scheduler, and writes what the scheduler picks.
//!
//! The scheduler is a cache. A lost lease throws it away; a lost reply is read again by its ids.
//!
//! `rounds` of the loop, and when the next one begins → `backlog` reading what waits → `news` reading what is new → `give` giving out
//! what is picked → `ends` of jobs that never begin, `lost` nodes, `pauses` after errors, `strays` that no node has, `unknown` tasks, `schedules` of periodic jobs →
//! `memos` writing down what the next dispatcher should know, `prune` deleting what is kept no longer, `statistics` of what happened,
//! `totals` writing job counts while a caller asks for them.

mod backlog;
mod charges;
mod ends;
mod give;
mod lost;
mod memos;
mod news;
mod pauses;
mod prune;
mod ringing;
mod rounds;
mod schedules;
mod stale_reads;
mod strays;
mod totals;
mod statistics;
mod unknown;

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use turnwise_core::{
    Fence, Incarnation, JobId, Node, QueueName,
    scheduler::{Input, Output, Pick, Scheduler},
};
use turnwise_store::{Epoch, Load, StoreError};

pub(crate) use self::backlog::PAGE;
use self::{
    backlog::Backlog, ends::Ends, lost::Lost, memos::Memos, news::Hearing, pauses::ErrorsSeen, prune::Pruning,
    rounds::Rounds, schedules::Schedules, stale_reads::StaleReads, statistics::Statistics, strays::Strays,
    totals::Telling, unknown::Unknown,
};
use crate::{
    backoff::Backoff,
    beat::Lead,
    contain::{self, caught},
    life::Life,
    logs::Kind,
    trace::Record,
};

/// Jobs per assignment, to all nodes together, unless one of them takes more at once.
const ASSIGN: usize = 2_000;

/// Dispatches whenever this node leads, until the life is over.
pub(crate) async fn dispatch(life: Arc<Life>, mut lead: watch::Receiver<Option<Lead>>) {
    let mut backoff = Backoff::default();
    let mut open = Open::default();
    // Terms of one epoch begin and end again and again while the database does not answer: each epoch is two lines.
    let (mut begun, mut over) = (None, None);
    loop {
        // After a panic the lead stands until a beat has given it up.
        let term = lead.borrow_and_update().clone().filter(|_| !life.node.hold_off.holds());
        if let Some(term) = term {
            let epoch = term.epoch;
            if begun.replace(epoch) != Some(epoch) {
                tracing::info!(epoch = epoch.0, "dispatching");
            }
            life.trace(|| Record::Lead { epoch: term.epoch.0 });
            life.term.begin(term.epoch);
            open.keep_of(term.epoch);
            let (schedules, rounds) = schedules::schedules();
            let (statistics, counts) = statistics::statistics();
            let mut dispatcher = Dispatcher::new(&life, term, std::mem::take(&mut open), schedules, statistics);
            let ended = caught(async {
                tokio::select! {
                    biased;
                    ended = dispatcher.run(&mut lead) => ended,
                    never = schedules::submit(&life, rounds) => match never {},
                    never = statistics::write(&life, epoch, counts) => match never {},
                }
            });
            let ended = ended.await;
            // The state of a term that panicked is not trusted. Its epoch is given up, so nothing comes of what it left open.
            open = if ended.is_ok() { dispatcher.open } else { Open::default() };
            life.term.end();
            let ended = match ended {
                Ok(ended) => ended,
                Err(panic) => {
                    contain::panicked(&life, "dispatch", &*panic);
                    continue;
                }
            };
            match ended {
                Ok(()) if over.replace(epoch) != Some(epoch) => say_that_it_is_over(&life),
                Ok(()) => {}
                Err(StoreError::NotLeading) => {
                    if over.replace(epoch) != Some(epoch) {
                        say_that_it_is_over(&life);
                    }
                    // The next beat reports which node leads; it is sent at once.
                    life.bell.ring_lead();
                }
                Err(error) if error.is_transient() => life.node.logs.no_answer("dispatching was interrupted", &error),
                Err(error) => tracing::warn!(%error, "dispatching was interrupted; reading everything again"),
            }
            if life.draining.is_up() {
                return;
            }
            // If the lead was not lost, the next round begins anew with an empty scheduler.
            backoff.wait(&life.node.chance).await;
            continue;
        }
        tokio::select! {
            biased;
            () = life.draining.wait() => return,
            changed = lead.changed() => if changed.is_err() { return },
        }
    }
}

/// Another node has the lead, or none has; not worth a warning where this node stops.
fn say_that_it_is_over(life: &Life) {
    if life.draining.is_up() {
        tracing::info!("no longer dispatching");
    } else if life.node.logs.may(Kind::Lead) {
        tracing::warn!("no longer dispatching: another node may lead now");
    }
}

/// What a term leaves to the next one of the same epoch, should it be interrupted.
#[derive(Debug, Default)]
struct Open {
    epoch: Epoch,
    /// Assignments without a reply. Each may have happened, not have happened, or be still in flight; so its picks are sent
    /// again until they are answered. Only then is it certain that nothing more comes of it: to read the rows
    /// instead would miss the one that arrives after the look, and a limit would be broken by it.
    doubts: Vec<Vec<Pick>>,
    /// Jobs that failed while the scheduler did not know them yet: it could not name the queue that is to be paused for them.
    early_failures: Vec<JobId>,
    /// Queues that are set to pause on an error and had one.
    pauses: Vec<(QueueName, JobId)>,
}

impl Open {
    /// What another epoch left can do nothing any more.
    fn keep_of(&mut self, epoch: Epoch) {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::default() };
        }
    }

    /// Whether it is in doubt what became of a pick of this job, at this fence or a later one.
    fn doubts(&self, job: JobId, fence: Fence) -> bool {
        self.doubts.iter().flatten().any(|pick| pick.job == job && pick.fence >= fence)
    }
}

struct Dispatcher<'a> {
    life: &'a Life,
    epoch: Epoch,
    scheduler: Scheduler,
    rounds: Rounds,
    backlog: Backlog,
    hearing: Hearing,
    stale_reads: StaleReads,
    ends: Ends,
    lost: Lost,
    strays: Strays,
    memos: Memos,
    /// How far errors have been seen to.
    seen: ErrorsSeen,
    /// What is submitted again and again.
    schedules: Schedules,
    pruning: Pruning,
    telling: Telling,
    unknown: Unknown,
    statistics: Statistics,
    open: Open,
}

impl<'a> Dispatcher<'a> {
    fn new(life: &'a Life, term: Lead, open: Open, schedules: Schedules, statistics: Statistics) -> Self {
        let mut scheduler = Scheduler::new(ASSIGN);
        scheduler.keep_statistics(life.node.clock.now());
        let lost = Lost::new(&term.nodes);
        scheduler.handle(life.node.clock.now(), Input::Loading(true));
        scheduler.handle(life.node.clock.now(), Input::Nodes(term.nodes));
        Self {
            life,
            epoch: term.epoch,
            scheduler,
            rounds: Rounds::default(),
            backlog: Backlog::unread(),
            hearing: Hearing::new(),
            stale_reads: StaleReads::default(),
            ends: Ends::default(),
            lost,
            strays: Strays::new(),
            memos: Memos::new(),
            seen: ErrorsSeen::default(),
            schedules,
            pruning: Pruning::new(),
            telling: Telling::new(),
            unknown: Unknown::new(),
            statistics,
            open,
        }
    }

    async fn run(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Result<(), StoreError> {
        let bell = &self.life.bell;
        // What an earlier term of this epoch left in doubt could still happen after the backlog was read.
        while !self.open.doubts.is_empty() {
            if self.still_leading(lead).is_none() || self.life.draining.is_up() {
                return Ok(());
            }
            self.repeat_doubtful().await?;
        }
        self.begin_to_hear().await?;
        self.recall().await?;
        // What counts against limits comes before anything may be picked.
        self.count_in_hands().await?;
        let mut rung = false;
        loop {
            match self.still_leading(lead) {
                Some(Some(nodes)) => self.see_nodes(nodes).await?,
                Some(None) => {}
                None => return Ok(()),
            }
            if self.life.draining.is_up() {
                // The next dispatcher goes on where this one stops.
                self.write_pauses().await?;
                self.write_last_statistics().await;
                return self.save().await;
            }
            self.repeat_doubtful().await?;
            self.write_pauses().await?;
            self.stale_reads.nothing_is_read(self.hearing.unseen_since());
            // While the backlog is read, pages come first.
            if self.backlog.is_read() {
                self.see_reports().await?;
            }
            self.read_on().await?;
            self.hear_or_look(&mut rung).await?;
            self.read_stale_again().await?;
            self.end_unrun().await?;
            self.fire().await?;
            self.see_lost_nodes().await?;
            self.look_for_strays_if_due().await?;
            self.prune_if_due().await?;
            self.save_if_due().await?;
            self.write_statistics_if_due();
            self.act(Input::Tick).await?;
            self.tell_totals_if_asked().await?;
            self.log_unknown_tasks();
            self.rounds.begin();
            if self.has_more_to_do() {
                continue;
            }
            if !self.hearing.is_asleep() {
                self.fall_asleep().await?;
                continue;
            }
            if !self.say_if_idle().await? {
                continue;
            }
            let pause = self.pause();
            tokio::select! {
                biased;
                () = self.life.term.woken() => {}
                () = bell.news.notified() => {
                    rung = true;
                    self.life.node.counters.rings.fetch_add(1, Ordering::Relaxed);
                }
                changed = lead.changed() => match changed {
                    // `changed` marks the new value as seen, so that is noted here.
                    Ok(()) => self.rounds.fleet_changed(true),
                    Err(_) => return Ok(()),
                },
                () = tokio::time::sleep(pause) => {}
                () = self.life.draining.wait() => {}
            }
            self.rounds.rested(pause);
        }
    }

    fn has_more_to_do(&self) -> bool {
        let unread = self.backlog.is_open() || self.hearing.has_unseen() || self.stale_reads.has_unsure();
        unread || self.rounds.is_unasked() || self.ends.any_due() || self.life.term.has_reports()
    }

    /// `None`: this node does not lead any more. `Some(Some(nodes))`: the fleet may have changed.
    fn still_leading(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Option<Option<Vec<Node>>> {
        if !self.life.contact.holds() || self.life.node.hold_off.holds() {
            return None;
        }
        self.rounds.fleet_changed(lead.has_changed().ok()?);
        let current = lead.borrow_and_update();
        let current = current.as_ref().filter(|current| current.epoch == self.epoch)?;
        Some(self.rounds.take_fleet_changed().then(|| current.nodes.clone()))
    }

    /// Reports that nothing is left for this process, if that is so. `false`: it had to look first, and may have found something.
    async fn say_if_idle(&mut self) -> Result<bool, StoreError> {
        let (idle, hub) = (&self.life.node.idle, &self.life.node.hub);
        if idle.said() || !hub.listened_to() {
            return Ok(true);
        }
        let Some(empty) = idle.empty().filter(|empty| !self.has_work_for(&empty.pools)) else { return Ok(true) };
        // The run that ended last may have left a job that no bell announced.
        if !self.rounds.has_looked(&empty) {
            self.rounds.looked(None);
            let answered = self.see_news(self.hearing.is_asleep()).await?;
            self.rounds.looked(answered.then_some(empty));
            return Ok(!answered);
        }
        idle.say(hub, &empty);
        Ok(true)
    }

    fn has_work_for(&self, pools: &[Incarnation]) -> bool {
        let unsettled = !self.open.doubts.is_empty() || self.ends.any() || self.stale_reads.has_unsure();
        unsettled || !self.backlog.is_read() || self.scheduler.has_work_for(self.life.node.clock.now(), pools)
    }

    fn pause(&self) -> Duration {
        let now = Instant::now();
        let news = self.hearing.next_look(self.rounds.given());
        let looks = [news, self.lost.next_look(), self.strays.next_look(), self.pruning.next_time()];
        let timers = looks
            .into_iter()
            .chain(self.ends.next_try())
            .chain(self.telling.next_time())
            .chain(self.next_count())
            .map(|at| at.saturating_duration_since(now));
        let due =
            self.rounds.wake_at().into_iter().chain(self.schedules.next()).map(|at| self.life.node.clock.until(at));
        timers.chain(due).min().unwrap_or_default()
    }

    /// Passes the input to the scheduler, notes its outputs, and returns the picks that are to be given out.
    fn tell(&mut self, input: Input) -> Vec<Pick> {
        let mut picks = Vec::new();
        self.rounds.ask();
        for output in self.scheduler.handle(self.life.node.clock.now(), input) {
            match output {
                Output::Assign(batch) => picks = batch,
                Output::WakeAt(at) => self.rounds.set_wake(at),
                Output::Pause { queue, job } => self.open.pauses.push((queue, job)),
                Output::Expire(jobs) | Output::Review(jobs) => self.ends.add(jobs),
                // As at the beginning: what is known already is recognised.
                Output::ReadAgain => self.backlog.begin_anew(),
            }
        }
        picks
    }

    async fn read_again(&mut self, ids: Vec<JobId>) -> Result<(), StoreError> {
        let page = self.life.store.load(Load::These(ids.clone())).await?;
        let there: HashSet<_> = page.jobs.iter().map(|head| head.id).collect();
        let gone = ids.into_iter().filter(|id| !there.contains(id)).collect();
        self.act(Input::Jobs(page.jobs)).await?;
        self.act(Input::Gone(gone)).await
    }
}
