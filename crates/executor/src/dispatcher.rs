//! Giving jobs to nodes: reads the store into the scheduler, and writes what the scheduler picks.
//!
//! The scheduler is a cache. A lost lease throws it away; a lost reply is read again by its ids.

mod after;
mod give;
mod held;
mod overtaken;
mod quiet;
mod schedules;
mod trouble;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use turnwise_core::{
    Fence, GroupName, Incarnation, Job, JobHead, JobId, Node, QueueName, RetryPolicy, State, Terms, Timestamp,
    job::Counts,
    lead::Leases,
    lifecycle::{self, Event, Standing},
    scheduler::{self, Input, Output, Pick, Rest, Scheduler},
    settings::{QueueSettings, Settings},
};
use turnwise_store::{
    AskLost, AskNews, Author, Change, Cursor, Epoch, Expire, Held, Intervention, Load, LostNode, MemoKind, NewMemo,
    News, Page, Replace, Settle, Settled, Settlement, StoreError,
};

use self::{
    overtaken::{Mark, Overtaken},
    quiet::Quiet,
    schedules::Schedules,
    trouble::Seen,
};
use crate::{
    contain::{self, caught},
    idle::Empty,
    pulse::{Backoff, Lead},
    seal::Seals,
    settings::{self, SETTINGS, WrittenCharges},
    shared::{Life, fence_number},
    trace::Record,
};

/// Jobs per page while the backlog is read.
pub(crate) const PAGE: u32 = 10_000;
/// New jobs in one look; if more came in one transaction, the backlog is read again.
const NEWS: u32 = 100_000;
/// The first page: work can begin when it is read.
const FIRST_PAGE: u32 = 1_000;
/// Jobs per assignment, to all nodes together, unless one of them takes more at once.
const ASSIGN: usize = 2_000;
/// Jobs of lost nodes per step.
const LOST: u32 = 1_000;
/// How often what nobody needs is deleted, and how many rows at a time.
const PRUNE_INTERVAL: Duration = Duration::from_secs(30);
/// Where nothing was given out since.
const QUIET_PRUNE: Duration = Duration::from_secs(300);
/// How often to look for lost nodes while the beats tell of the same living ones.
const QUIET_LOST: Duration = Duration::from_secs(60);
const PRUNE_ROWS: u32 = 10_000;
/// How often charges are written down, and how many at a time.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
const SAVE_MEMOS: usize = 10_000;
/// Rounds without a pause after which submitters need not ring: the dispatcher will look anyway.
const BUSY_ROUNDS: u32 = 8;
/// How often a busy dispatcher looks for what is new: nobody rings for one that is awake.
const BUSY_NEWS: Duration = Duration::from_millis(20);
/// Poll intervals between two looks for news, while everybody rings and every ring is heard.
const QUIET_NEWS: u32 = 5;
/// Before the next look after one that failed, at most.
const NEWS_PAUSE: Duration = Duration::from_secs(1);

/// Dispatches whenever this node leads, until the life is over.
pub(crate) async fn dispatch(life: Arc<Life>, mut lead: watch::Receiver<Option<Lead>>) {
    let mut backoff = Backoff::default();
    let mut open = Open::default();
    loop {
        // After a panic the lead stands until a beat has given it up.
        let term = lead.borrow_and_update().clone().filter(|_| !life.shared.hold_off.holds());
        if let Some(term) = term {
            tracing::info!(epoch = term.epoch.0, "dispatching");
            life.trace(|| Record::Lead { epoch: term.epoch.0 });
            life.begin_term(term.epoch);
            open.keep_of(term.epoch);
            let (schedules, rounds) = schedules::schedules();
            let mut dispatcher = Dispatcher::new(&life, term, std::mem::take(&mut open), schedules);
            let ended = caught(async {
                tokio::select! {
                    biased;
                    ended = dispatcher.run(&mut lead) => ended,
                    never = schedules::submit(&life, rounds) => match never {},
                }
            });
            let ended = ended.await;
            // Of a term that panicked nothing is believed. Its epoch is given up, so nothing comes of what it left open.
            open = if ended.is_ok() { dispatcher.open } else { Open::default() };
            life.end_term();
            let ended = match ended {
                Ok(ended) => ended,
                Err(panic) => {
                    contain::panicked(&life, "dispatch", &*panic);
                    continue;
                }
            };
            match ended {
                Ok(()) => tracing::info!("no longer dispatching"),
                Err(StoreError::NotLeading) => {
                    tracing::info!("no longer dispatching");
                    // The next beat says who does; it need not wait for its time.
                    life.bell.ring_lead();
                }
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

/// What a term leaves to the next one of the same epoch, should it be interrupted.
#[derive(Debug, Default)]
struct Open {
    epoch: Epoch,
    /// Assignments without a reply. Each may have happened, not have happened, or be on its way still; so its picks are sent
    /// again until they are answered. Only then is it certain that nothing more comes of it: to read the rows
    /// instead would miss the one that arrives after the look, and a limit would be broken by it.
    doubts: Vec<Vec<Pick>>,
    /// Jobs that failed while the scheduler did not know them yet, nor which queue is to be paused for them.
    trouble: Vec<JobId>,
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

/// How things were when the news were asked for.
#[derive(Debug, Clone, Copy)]
struct AskedAt {
    asleep: bool,
    /// All of the backlog had been read.
    all_is_read: bool,
    ends: Mark,
}

struct Dispatcher<'a> {
    life: &'a Life,
    epoch: Epoch,
    scheduler: Scheduler,
    cursor: Option<Cursor>,
    /// Where the next page of the backlog begins; `None` when all is read.
    loading: Option<Option<JobId>>,
    /// Jobs that were read so far.
    read: u64,
    /// All is read, and the scheduler is to be told so.
    all_read: bool,
    /// It is to be read once more when it is read: more came than the news could tell.
    again: bool,
    /// News that came while batches were on their way, and are to be looked at.
    heard: Option<(AskedAt, Result<News, StoreError>)>,
    overtaken: Overtaken,
    /// Whether all news from now on are of what happened after the backlog was read.
    caught_up: bool,
    open: Open,
    wake_at: Option<Timestamp>,
    /// The scheduler has been told something, and was not asked yet what to do.
    unasked: bool,
    settings: Settings,
    /// What is submitted again and again.
    schedules: Schedules,
    /// How far errors have been seen to.
    seen: Seen,
    /// Sealed queues that more may come to yet.
    seals: Seals,
    /// Charges as they are written in the store, and how much had been dispatched then.
    charges: WrittenCharges,
    dispatched: u64,
    dispatched_at_load: u64,
    dispatched_at_save: u64,
    dispatched_at_news: u64,
    dispatched_at_prune: u64,
    /// Jobs that have not begun in time and are to end.
    expired: Vec<JobId>,
    /// Those of them, and of the reviews, that cannot end just now.
    held: held::Held,
    /// Jobs that wait for one that did not end well, for all that is known.
    reviews: Vec<JobId>,
    /// Groups that are told to be full.
    full: BTreeSet<GroupName>,
    living: BTreeSet<Incarnation>,
    /// The same as the last beat told of them, and when they renewed their leases.
    nodes: Vec<Node>,
    leases: Leases,
    /// Nodes that have jobs in their hands and are not among the living.
    strangers: BTreeSet<Incarnation>,
    /// Jobs that were in the hands of nodes that are in no table, when this was last looked at.
    orphans: BTreeSet<(JobId, Fence)>,
    fleet_changed: bool,
    /// When nothing was in this process's hands, and the news have been looked at since.
    looked: Option<Empty>,
    asleep: bool,
    /// Who rings for a dispatcher that sleeps.
    quiet: Quiet,
    busy_rounds: u32,
    next_poll: Instant,
    next_busy_news: Instant,
    next_lost: Instant,
    next_prune: Instant,
    /// Till then there is hardly anything to delete, unless something is given out.
    pruned_until: Instant,
    next_save: Instant,
}

impl<'a> Dispatcher<'a> {
    fn new(life: &'a Life, term: Lead, open: Open, schedules: Schedules) -> Self {
        let config = &life.shared.config;
        let now = Instant::now();
        let mut dispatcher = Self {
            life,
            epoch: term.epoch,
            scheduler: Scheduler::new(config.scheme, ASSIGN),
            cursor: None,
            loading: Some(None),
            read: 0,
            all_read: false,
            again: false,
            heard: None,
            overtaken: Overtaken::default(),
            caught_up: false,
            open,
            wake_at: None,
            unasked: false,
            settings: Settings::default(),
            schedules,
            seen: Seen::default(),
            seals: Seals::default(),
            charges: WrittenCharges::default(),
            dispatched: 0,
            dispatched_at_load: 0,
            dispatched_at_save: 0,
            dispatched_at_news: 0,
            dispatched_at_prune: 0,
            expired: Vec::new(),
            held: held::Held::default(),
            reviews: Vec::new(),
            full: BTreeSet::new(),
            living: term.nodes.iter().map(|node| node.incarnation).collect(),
            nodes: Vec::new(),
            leases: Leases::default(),
            strangers: BTreeSet::new(),
            orphans: BTreeSet::new(),
            fleet_changed: false,
            looked: None,
            asleep: false,
            quiet: Quiet::default(),
            busy_rounds: 0,
            next_poll: now,
            next_busy_news: now,
            next_lost: now,
            next_prune: now + PRUNE_INTERVAL,
            pruned_until: now + QUIET_PRUNE,
            next_save: now,
        };
        dispatcher.scheduler.handle(life.shared.clock.now(), Input::Loading(true));
        dispatcher.scheduler.handle(life.shared.clock.now(), Input::Nodes(term.nodes));
        dispatcher
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
        // The cursor first, then the backlog: what comes in between is seen twice, never missed.
        let begin = self.ask_news(None).await?;
        self.cursor = Some(begin.cursor);
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
                return self.save().await;
            }
            self.repeat_doubtful().await?;
            self.write_pauses().await?;
            self.overtaken.nothing_is_read(self.heard.as_ref().map(|(asked, _)| asked.ends));
            // While the backlog is read, pages come first.
            if self.loading.is_none() {
                self.see_told().await?;
            }
            self.load_pages().await?;
            if let Some((asked, told)) = self.heard.take() {
                self.hear_news(asked, told).await?;
            } else if rung || Instant::now() >= self.next_poll || self.news_are_due() {
                rung = false;
                self.see_news(self.busy_rounds < BUSY_ROUNDS && self.asleep).await?;
            }
            self.read_unsure().await?;
            self.try_held_again();
            self.end_expired().await?;
            let answered = self.review().await?;
            self.fire().await?;
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
            let unread = self.loading.is_some() || self.all_read || self.heard.is_some() || self.overtaken.has_unsure();
            if unread || self.unasked || self.life.has_told() || (answered && !self.reviews.is_empty()) {
                continue;
            }
            if !self.asleep {
                // One more look after saying so: a submit in between was not asked to ring.
                self.asleep = true;
                self.see_news(true).await?;
                continue;
            }
            if !self.say_if_idle().await? {
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

    async fn see_nodes(&mut self, nodes: Vec<Node>) -> Result<(), StoreError> {
        let (clock, steady) = (&self.life.shared.clock, self.life.steady_since());
        self.leases.see(&nodes, clock.monotonic());
        if !self.leases.silent(&nodes, steady, clock.monotonic()).is_empty() {
            // By the database's clock it may live for hours yet.
            self.next_lost = Instant::now();
        }
        self.nodes.clone_from(&nodes);
        let living = nodes.iter().map(|node| node.incarnation).collect();
        if std::mem::replace(&mut self.living, living) != self.living {
            // One that is there no more has left, or is lost.
            self.next_lost = Instant::now();
        }
        if !self.strangers.is_disjoint(&self.living) {
            // It takes nothing more until what it has is counted.
            let full = |node: &Node| match self.strangers.contains(&node.incarnation) {
                true => Node { slots: 0, queue_capacity: 0, ..node.clone() },
                false => node.clone(),
            };
            let nodes = nodes.iter().map(full).collect();
            self.act(Input::Nodes(nodes)).await?;
            self.count_in_hands().await?;
        }
        self.act(Input::Nodes(nodes)).await
    }

    /// What nodes have in their hands. Those whose lease is over, and who were not called lost yet, are strangers to the
    /// scheduler: should they be back, it must count what they have.
    async fn count_in_hands(&mut self) -> Result<(), StoreError> {
        let jobs = self.life.store.load(Load::InHands(None)).await?.jobs;
        let holders: BTreeSet<Incarnation> = jobs.iter().filter_map(|head| head.node).collect();
        self.strangers = holders.difference(&self.living).copied().collect();
        self.act(Input::Jobs(jobs)).await
    }

    /// `None`: not any more. `Some(Some(nodes))`: the fleet may have changed.
    fn still_leading(&mut self, lead: &mut watch::Receiver<Option<Lead>>) -> Option<Option<Vec<Node>>> {
        if !self.life.in_contact() || self.life.shared.hold_off.holds() {
            return None;
        }
        self.fleet_changed |= lead.has_changed().ok()?;
        let current = lead.borrow_and_update();
        let current = current.as_ref().filter(|current| current.epoch == self.epoch)?;
        Some(std::mem::take(&mut self.fleet_changed).then(|| current.nodes.clone()))
    }

    /// Says that nothing is left for this process, if that is so. `false`: it had to look first, and may have found something.
    async fn say_if_idle(&mut self) -> Result<bool, StoreError> {
        let (idle, hub) = (&self.life.shared.idle, &self.life.shared.hub);
        if idle.said() || !hub.listened_to() {
            return Ok(true);
        }
        let Some(empty) = idle.empty().filter(|empty| !self.has_left_for(&empty.pools)) else { return Ok(true) };
        // What ended last may have left a job that no bell told of.
        if self.looked.as_ref() != Some(&empty) {
            self.looked = None;
            if self.see_news(self.asleep).await? {
                self.looked = Some(empty);
            }
            return Ok(self.looked.is_none());
        }
        idle.say(hub, &empty);
        Ok(true)
    }

    fn has_left_for(&self, pools: &[Incarnation]) -> bool {
        let unsettled = !self.open.doubts.is_empty()
            || !self.reviews.is_empty()
            || !self.expired.is_empty()
            || self.overtaken.has_unsure();
        unsettled || self.loading.is_some() || self.scheduler.has_left_for(self.life.shared.clock.now(), pools)
    }

    fn pause(&self) -> Duration {
        let now = Instant::now();
        // What was given out may be all there is: then is the time to look for what no bell told of.
        let look = (self.dispatched != self.dispatched_at_news).then_some(self.next_busy_news);
        let timers = [self.next_poll, self.next_lost, self.next_prune].into_iter().chain(look).chain(self.held.until());
        let timers = timers.map(|at| at.saturating_duration_since(now));
        let due = self.wake_at.into_iter().chain(self.schedules.next()).map(|at| self.life.shared.clock.until(at));
        timers.chain(due).min().unwrap_or_default()
    }

    /// Tells the scheduler, notes all that it says, and returns what it wants to be given out.
    fn tell(&mut self, input: Input) -> Vec<Pick> {
        let mut picks = Vec::new();
        (self.wake_at, self.unasked) = (None, false);
        for output in self.scheduler.handle(self.life.shared.clock.now(), input) {
            match output {
                Output::Assign(batch) => picks = batch,
                Output::WakeAt(at) => self.wake_at = Some(at),
                Output::Pause { queue, job } => self.open.pauses.push((queue, job)),
                Output::Expire(jobs) => self.expired.extend(jobs),
                Output::Review(jobs) => self.reviews.extend(jobs),
                // As at the beginning: what is known already is recognised.
                Output::ReadAgain => self.loading = Some(None),
            }
        }
        picks
    }

    /// Reads some more of the backlog.
    async fn load_pages(&mut self) -> Result<(), StoreError> {
        if let Some(after) = self.loading {
            let page = self.page(after).await?;
            let picks = self.take_in(after, page);
            self.give(picks).await?;
        }
        if !self.all_read {
            return Ok(());
        }
        // Nobody is to think a queue finished for a job that is read once more.
        self.read_unsure().await?;
        self.all_read = false;
        self.act(Input::Loading(false)).await
    }

    /// How many ends may make room for others. While the backlog is read, turns are taken among those that are known: it is to be
    /// read quicker than they run.
    fn ends_wanted(&self) -> usize {
        if self.loading.is_none() {
            return usize::MAX;
        }
        let given = self.dispatched - self.dispatched_at_load;
        usize::try_from((self.read * 2 / 5).saturating_sub(given)).unwrap_or(usize::MAX)
    }

    async fn read_unsure(&mut self) -> Result<(), StoreError> {
        match self.overtaken.take_unsure() {
            unsure if unsure.is_empty() => Ok(()),
            unsure => self.read_again(unsure).await,
        }
    }

    /// A page of the backlog, the one after `after`.
    fn take_in(&mut self, after: Option<JobId>, mut page: Page) -> Vec<Pick> {
        self.life.shared.clock.heard(page.now);
        // Unless the backlog is to be read again meanwhile.
        if self.loading == Some(after) {
            self.loading = page.next.map(Some);
            if self.loading.is_none() && std::mem::take(&mut self.again) {
                self.loading = Some(None);
            }
            self.all_read = self.loading.is_none();
        }
        if after.is_none() {
            (self.read, self.dispatched_at_load) = (0, self.dispatched);
        }
        self.read += page.jobs.len() as u64;
        self.overtaken.sift(&mut page.jobs);
        self.tell(Input::Jobs(page.jobs))
    }

    /// As at the beginning: what is known already is recognised. What is being read is read to its end first, so that there is one.
    async fn read_backlog(&mut self) -> Result<(), StoreError> {
        match self.loading {
            Some(_) => self.again = true,
            None => (self.loading, self.all_read) = (Some(None), false),
        }
        self.act(Input::Loading(true)).await
    }

    fn page(&self, after: Option<JobId>) -> impl Future<Output = Result<Page, StoreError>> + Send + use<'a> {
        let limit = after.map_or(FIRST_PAGE, |_| PAGE).min(self.life.shared.page);
        let store = &self.life.store;
        async move { store.load(Load::After { id: after, limit }).await }
    }

    async fn ask_news(&mut self, cursor: Option<Cursor>) -> Result<News, StoreError> {
        let news = self.news(cursor).await?;
        self.life.shared.clock.heard(news.now);
        Ok(news)
    }

    fn news(&self, cursor: Option<Cursor>) -> impl Future<Output = Result<News, StoreError>> + Send + use<'a> {
        let ask = AskNews { cursor, epoch: self.epoch, asleep: self.asleep, new_jobs: NEWS.min(self.life.shared.page) };
        let store = &self.life.store;
        async move { store.news(ask).await }
    }

    /// Whether enough has been dispatched since the last look to look again.
    fn news_are_due(&self) -> bool {
        self.dispatched - self.dispatched_at_news >= u64::from(self.life.shared.config.look_every)
            || (self.dispatched != self.dispatched_at_news && Instant::now() >= self.next_busy_news)
    }

    /// Whether the store answered.
    async fn see_news(&mut self, asleep: bool) -> Result<bool, StoreError> {
        let (asked, news) = self.ask_for_news(asleep);
        let news = news.await;
        self.hear_news(asked, news).await
    }

    fn ask_for_news(
        &mut self,
        asleep: bool,
    ) -> (AskedAt, impl Future<Output = Result<News, StoreError>> + Send + use<'a>) {
        self.next_poll = Instant::now() + self.life.shared.config.poll_interval;
        self.next_busy_news = Instant::now() + BUSY_NEWS;
        self.dispatched_at_news = self.dispatched;
        self.asleep = asleep;
        if !asleep {
            // Whether or not the news arrive: from now on there are some who do not ring.
            self.quiet = Quiet::default();
        }
        let asked = AskedAt { asleep, all_is_read: self.loading.is_none(), ends: self.overtaken.mark() };
        (asked, self.news(self.cursor.clone()))
    }

    /// Whether these news need nobody's attention: then they are heard.
    fn brings_nothing(&mut self, asked: &AskedAt, told: &Result<News, StoreError>) -> bool {
        let Ok(news) = told else { return false };
        let nothing = news.jobs.is_empty() && news.changes.is_empty() && !news.memos && self.seals.are_quiet();
        if nothing && !asked.asleep {
            self.life.shared.clock.heard(news.now);
            self.cursor = Some(news.cursor.clone());
            self.caught_up = asked.all_is_read;
        }
        nothing && !asked.asleep
    }

    /// Whether the store answered.
    async fn hear_news(&mut self, asked: AskedAt, told: Result<News, StoreError>) -> Result<bool, StoreError> {
        let AskedAt { asleep, all_is_read, .. } = asked;
        let news = match told {
            Ok(news) => news,
            // The cursor stays where it is: nothing is missed.
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "could not read the news");
                // What was to be found is there still.
                self.next_poll = Instant::now() + self.life.shared.config.poll_interval.min(NEWS_PAUSE);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.life.shared.clock.heard(news.now);
        self.cursor = Some(news.cursor);
        self.quiet.hear(asleep, news.writers);
        if self.life.bell.hears() && self.quiet.all_ring() && self.seals.are_quiet() {
            self.next_poll = Instant::now() + self.life.shared.config.poll_interval.saturating_mul(QUIET_NEWS);
        }
        if let Some(soon) = self.quiet.look_again() {
            self.next_poll = self.next_poll.min(Instant::now() + soon);
        }
        let quiet = self.seals.hear(news.writers);
        if news.memos {
            let kinds = SETTINGS.into_iter().chain([MemoKind::Schedule]).collect();
            let memos = self.life.store.recall(kinds).await?;
            self.see_settings(settings::parse(&memos)).await?;
            self.schedules.see(&memos);
        }
        if news.more {
            tracing::debug!(told = news.jobs.len(), "more jobs came than one look tells: the backlog is read again");
            self.read_backlog().await?;
        }
        self.see_changes(&news.changes);
        let mut heads = news.jobs;
        let mut settled = Vec::new();
        for change in news.changes {
            match self.settled_elsewhere(&change) {
                Some(end) => settled.push(end),
                None => heads.extend(change.head),
            }
        }
        self.caught_up = all_is_read && !news.more;
        // Ends first: a queue that pauses for one of them should not begin with what is new.
        if !settled.is_empty() {
            self.act(Input::Settled(settled)).await?;
            self.write_pauses().await?;
        }
        self.overtaken.sift(&mut heads);
        if !heads.is_empty() {
            self.act(Input::Jobs(heads)).await?;
        }
        self.read_unsure().await?;
        self.write_quiet(quiet).await?;
        Ok(true)
    }

    /// What has ended in this process since the last look.
    async fn see_told(&mut self) -> Result<(), StoreError> {
        let told = self.life.take_told(usize::MAX);
        if told.is_empty() {
            return Ok(());
        }
        self.see_ends(&told);
        self.act(Input::Settled(told)).await
    }

    /// The end of a run on another node, as the scheduler is told of its own node's: only so does it see trouble. `None`:
    /// the row as it stands says all.
    fn settled_elsewhere(&self, change: &Change) -> Option<scheduler::Settled> {
        let &Change { id, ran, failed, well, ref head } = change;
        let Some(head) = head else {
            return Some(scheduler::Settled { id, fence: Fence(i64::MAX), ran, rest: None, failed, well });
        };
        if head.state.assigned() || ran.is_none() {
            return None;
        }
        // What was read with the backlog, or is picked again for all that is known, is at rest already: to put it there
        // twice would be one time too many.
        if !self.caught_up || self.open.doubts(id, head.fence) {
            return None;
        }
        let stuck = head.state == State::Stuck;
        let rest = Some(Rest { stuck, due: head.due, crashes: head.crashes, next: Some(head.task.clone()) });
        Some(scheduler::Settled { id, fence: head.fence, ran, rest, failed, well: false })
    }

    /// What people have set, and what the last dispatcher remembered.
    async fn recall(&mut self) -> Result<(), StoreError> {
        let kinds = SETTINGS
            .into_iter()
            .chain([MemoKind::Charge, MemoKind::Full, MemoKind::Seen, MemoKind::Schedule, MemoKind::Fired])
            .collect();
        let memos = self.life.store.recall(kinds).await?;
        let named = |kind| memos.iter().filter(move |memo| memo.kind == kind);
        self.full = named(MemoKind::Full).filter_map(|memo| GroupName::new(&memo.name).ok()).collect();
        let charges = settings::charges(&memos);
        self.charges = WrittenCharges::new(&charges);
        self.see_settings(settings::parse(&memos)).await?;
        self.look_back(&memos).await?;
        self.schedules.recall(&memos);
        self.act(Input::Charges(charges)).await
    }

    async fn see_settings(&mut self, settings: Settings) -> Result<(), StoreError> {
        if self.seals.see(&settings) {
            // Whoever waits for a sealed queue need not wait for the next poll.
            self.next_poll = Instant::now();
        }
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
        let seen = self.seen_memo();
        memos.extend(seen.clone());
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
        if self.remember(memos).await?
            && let Some(seen) = seen
        {
            self.seen_written(seen.value);
        }
        Ok(())
    }

    /// Sealed queues that nothing more can come to: that is a setting too, so that everybody agrees on who is finished.
    async fn write_quiet(&mut self, quiet: Vec<(QueueName, Timestamp)>) -> Result<(), StoreError> {
        if quiet.is_empty() {
            return Ok(());
        }
        let now = self.life.shared.clock.now();
        let wishes = quiet.into_iter().map(|(queue, sealed)| {
            (queue, move |set: &mut QueueSettings| {
                let wanted = set.sealed == Some(sealed) && !set.closed();
                if wanted {
                    set.quiet = Some(now.max(sealed));
                }
                wanted
            })
        });
        match self.amend(wishes.collect()).await? {
            Some(settings) => self.see_settings(settings).await,
            None => Ok(()),
        }
    }

    async fn amend(
        &self,
        wishes: Vec<(QueueName, impl FnOnce(&mut QueueSettings) -> bool)>,
    ) -> Result<Option<Settings>, StoreError> {
        settings::amend(&*self.life.store, (self.life.incarnation, self.epoch), wishes).await
    }

    /// Whether it is written.
    async fn remember(&self, memos: Vec<NewMemo>) -> Result<bool, StoreError> {
        if memos.is_empty() {
            return Ok(true);
        }
        match self.life.store.remember(Some((self.life.incarnation, self.epoch)), memos).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "could not write down charges");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// A node that has fallen silent: its jobs go back, through the same decision as every other end.
    async fn see_lost_nodes(&mut self) -> Result<(), StoreError> {
        self.next_lost = Instant::now() + self.life.shared.config.lease / 4;
        let (clock, steady) = (&self.life.shared.clock, self.life.steady_since());
        // After an outage everybody looks silent; those that were replaced by name are lost all the same.
        let expire = match self.life.long_in_contact() {
            false => Expire::Nobody,
            true => {
                let silent = self.leases.silent(&self.nodes, steady, clock.monotonic());
                let seen = |(incarnation, lease_until)| Replace { incarnation, lease_until };
                Expire::Over { by: clock.now(), silent: silent.into_iter().map(seen).collect() }
            }
        };
        let ask = AskLost { holder: self.life.incarnation, epoch: self.epoch, expire, limit: LOST };
        let lost = match self.life.store.lost_nodes(ask).await {
            Ok(lost) => lost,
            Err(error) if error.is_transient() => return Ok(()),
            Err(error) => return Err(error),
        };
        let quiet = lost.is_empty() && self.life.long_in_contact() && self.strangers.is_empty();
        for LostNode { node, jobs, complete } in lost {
            tracing::warn!(node = %node.name, jobs = jobs.len(), "a node is lost; its jobs go back");
            self.take_from(node.incarnation, jobs, complete).await?;
            if !complete {
                self.next_lost = Instant::now();
            }
        }
        if !self.see_orphans().await? && quiet {
            self.next_lost = Instant::now() + QUIET_LOST.max(self.life.shared.config.lease / 4);
        }
        Ok(())
    }

    /// Jobs in the hands of nodes that are in no table, not even as lost: nobody would ever see to them. Whether there may be
    /// any. Seen twice: between two reads, a node may come and a job end.
    async fn see_orphans(&mut self) -> Result<bool, StoreError> {
        let last = std::mem::take(&mut self.orphans);
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
        let mut stray_jobs: BTreeMap<Incarnation, Vec<Held>> = BTreeMap::new();
        for (node, (id, fence)) in heads.iter().filter_map(stray) {
            self.orphans.insert((id, fence));
            if !last.contains(&(id, fence)) {
                continue;
            }
            if let Some(job) = self.life.store.job(id).await?.filter(|job| job.fence == fence && job.state.assigned()) {
                let Job { state, counts, cancel_requested, .. } = job;
                stray_jobs.entry(node).or_default().push(Held { id, fence, state, counts, cancel_requested });
            }
        }
        for (node, jobs) in stray_jobs {
            tracing::warn!(jobs = jobs.len(), "jobs are in the hands of a node that is not there; they go back");
            self.take_from(node, jobs, false).await?;
        }
        Ok(!self.orphans.is_empty())
    }

    /// `complete`: these are all that is left in its hands.
    async fn take_from(&mut self, from: Incarnation, jobs: Vec<Held>, complete: bool) -> Result<(), StoreError> {
        let life = self.life;
        let now = life.shared.clock.now();
        let terms = Terms::default();
        let settlements: Vec<Settlement> = jobs
            .iter()
            .map(|held| {
                let standing = Standing {
                    state: held.state,
                    counts: held.counts,
                    retry: &RetryPolicy::None,
                    terms: &terms,
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
                    noted: true,
                    started_at: None,
                    finished_at: None,
                }
            })
            .collect();
        let author = Author::Dispatcher { holder: life.incarnation, epoch: self.epoch, lost: from, bury: complete };
        let ids: Vec<JobId> = jobs.iter().map(|held| held.id).collect();
        let states: Vec<_> = jobs.iter().zip(&settlements).map(|(held, to)| to.to.state(held.state)).collect();
        let mut poison = Vec::new();
        let settle = Settle { author, settlements, done: Vec::new() };
        let mut backoff = Backoff::default();
        let mut again = false;
        // Until it is answered: what was written without an answer is in nobody's hands and would be told to nobody.
        let replies = loop {
            match life.store.settle(settle.clone()).await {
                Ok(replies) => break replies,
                Err(error) if error.is_transient() && life.in_contact() && !life.draining.is_up() => {
                    tracing::warn!(%error, "could not take a lost node's jobs; trying again");
                    again = true;
                    backoff.wait(&life.shared.chance).await;
                }
                Err(error) => return Err(error),
            }
        };
        for ((held, state), reply) in jobs.iter().zip(states).zip(replies) {
            // A first try that was written makes the second one late.
            let applied =
                reply == Settled::Applied || (again && self.is_now(held.id, held.fence.next(), state).await?);
            if !applied {
                continue;
            }
            if state == State::Failed {
                let fence = held.fence.next();
                let well = false;
                poison.push(scheduler::Settled { id: held.id, fence, ran: None, rest: None, failed: true, well });
            }
            life.trace(|| Record::NodeLost { job: held.id, fence: fence_number(held.fence), lost: from, state });
        }
        if ids.is_empty() {
            return Ok(());
        }
        self.overtaken.see_taken(&ids);
        self.act(Input::Settled(poison)).await?;
        self.read_again(ids).await
    }

    async fn is_now(&self, id: JobId, fence: Fence, state: State) -> Result<bool, StoreError> {
        let job = self.life.store.job(id).await?;
        Ok(job.is_some_and(|job| (job.fence, job.state) == (fence, state)))
    }

    /// Ends jobs that have not begun in time. What somebody has decided about meanwhile is read again.
    async fn end_expired(&mut self) -> Result<(), StoreError> {
        let batch = self.life.shared.config.batch_size;
        // Once each: what is not over yet by the database's clock comes again with a later round.
        for _ in 0..self.expired.len().div_ceil(batch) {
            let ids: Vec<JobId> = self.expired.drain(..self.expired.len().min(batch)).collect();
            let page = match self.life.store.load(Load::These(ids.clone())).await {
                Ok(page) => page,
                Err(error) if error.is_transient() => {
                    self.hold_back(ids, Vec::new());
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.life.shared.clock.heard(page.now);
            let over = |head: &&JobHead| head.expires.is_some_and(|expires| expires <= page.now);
            let decided = page.jobs.iter().filter(over);
            let decided: Vec<_> = decided.filter_map(|head| end_of(head, &Event::Expire, page.now)).collect();
            self.trace_ends(&decided);
            match self.life.store.control(decided.clone()).await {
                // Whatever else was said: the rows tell.
                Ok(replies) => {
                    let locked = held::locked(&decided, &replies);
                    let (locked, told): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| locked.contains(id));
                    self.hold_back(locked, Vec::new());
                    self.read_again(told).await?;
                }
                Err(error) if error.is_transient() => {
                    self.hold_back(ids, Vec::new());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Before they are written: whoever dies meanwhile has said what it was about to do.
    fn trace_ends(&self, decided: &[Intervention]) {
        for Intervention { job, fence, state, to } in decided {
            let state = to.state(*state);
            self.life.trace(|| Record::Unrun { job: *job, fence: fence_number(*fence), state });
        }
    }

    async fn read_again(&mut self, ids: Vec<JobId>) -> Result<(), StoreError> {
        let page = self.life.store.load(Load::These(ids.clone())).await?;
        let there: std::collections::HashSet<_> = page.jobs.iter().map(|head| head.id).collect();
        let gone = ids.into_iter().filter(|id| !there.contains(id)).collect();
        self.act(Input::Jobs(page.jobs)).await?;
        self.act(Input::Gone(gone)).await
    }

    async fn prune(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        self.next_prune = now + PRUNE_INTERVAL;
        if self.dispatched == self.dispatched_at_prune && now < self.pruned_until {
            return Ok(());
        }
        (self.pruned_until, self.dispatched_at_prune) = (now + QUIET_PRUNE, self.dispatched);
        match self.life.store.prune(self.seen_to(), PRUNE_ROWS).await {
            Ok(rows) => {
                if rows >= u64::from(PRUNE_ROWS) {
                    (self.pruned_until, self.next_prune) = (now, now);
                }
                Ok(())
            }
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What ends a job that has never begun, as long as it is what was read. `None`: it has begun.
fn end_of(head: &JobHead, event: &Event, now: Timestamp) -> Option<Intervention> {
    let (retry, terms) = (RetryPolicy::None, Terms::default());
    let counts = Counts { crashes: head.crashes, ..Counts::default() };
    let JobHead { state, fence, .. } = *head;
    let standing = Standing { state, counts, retry: &retry, terms: &terms, cancel_requested: false, fence };
    let to = lifecycle::decide(&standing, event, now, 0.0).ok()?;
    Some(Intervention { job: head.id, state, fence, to })
}
