//! A view that is kept between questions, for a server: built once, and brought up to date before each answer.
//!
//! It follows the dispatcher: what a watcher reads about jobs, what nodes have in their hands, the living nodes and the settings go into
//! its scheduler as they come. Only where what happened is not known any more is it built anew.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as Lock, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex, MutexGuard, watch},
    task::JoinHandle,
    time::Instant,
};
use turnwise_core::{
    Fence, Job, JobHead, JobId, JobState, Node, Timestamp,
    scheduler::{Future, Input, Output, Pick, Rest, Scheduler, Settled},
    settings::Settings,
    why::{Forecast, Gate, Why},
};
use turnwise_store::{AskWatch, Change, Filter, HeldJob, Load, MemoKind, OperatorStore, WatchCursor, Watched, memo};

use super::{Answer, IN_HAND, Inputs, LOOK_AGAIN, RUNS, STARTS, began, is_held_by_a_rate, opened};
use crate::{Error, Turnwise, overview::each_page};

/// Jobs and changes in one look of a watcher; if more came since the last question, the view is built anew.
const MOST_NEWS: u32 = 100_000;
/// Jobs up to which each question has a forecast of its own: a few milliseconds.
const FEW_JOBS: usize = 10_000;
/// With more, what is expected to start is worked out for all jobs at once, and used for so long: it takes up to a second.
const FORECAST_FOR: Duration = Duration::from_secs(10);
/// Without a question for so long, the view is dropped: it takes about 190 bytes for each unfinished job.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// A scheduler that knows what the dispatcher's knows, kept for the next question.
///
/// The first question builds it, which takes seconds if there are millions of jobs; then a question costs what came since the last one,
/// and the forecast. It is dropped after a minute without a question.
#[derive(Debug)]
pub struct KeptView {
    shared: Arc<Shared>,
    /// Drops the view after a minute without a question.
    keeper: Lock<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    turnwise: Turnwise,
    view: Mutex<Option<Kept>>,
    /// Whether it is being built.
    building: watch::Sender<bool>,
}

/// What became of a question.
#[derive(Debug)]
#[non_exhaustive]
pub enum Asked {
    /// The answer.
    Answered(Box<Answer>),
    /// Another question has the view built: ask again in some seconds.
    BeingBuilt,
}

impl Drop for KeptView {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
    }
}

impl KeptView {
    /// Of this database; nothing is read before the first question.
    pub fn new(turnwise: Turnwise) -> Self {
        let shared = Shared { turnwise, view: Mutex::default(), building: watch::Sender::new(false) };
        Self { shared: Arc::new(shared), keeper: Lock::default() }
    }

    /// As [`Turnwise::why`], also when it fails. Computes on the calling thread: call it where blocking is allowed.
    pub async fn why(&self, id: JobId) -> Result<Asked, Error> {
        let Some(mut view) = self.turn().await else { return Ok(Asked::BeingBuilt) };
        let turnwise = &self.shared.turnwise;
        for _ in 0..LOOK_AGAIN {
            let job = turnwise.job(id).await?;
            if job.state.finished() {
                let now = turnwise.now().await?;
                return Ok(Asked::Answered(Box::new(Answer { job, now, why: None, guessed: false, lost: false })));
            }
            let kept = self.refreshed(&mut view).await?;
            // Not known there: it ended, or moved, between the two reads.
            if let Some((why, guessed)) = kept.why(id, true) {
                let job = turnwise.job(id).await?;
                let lost = Gate::node_lost(&job, kept.nodes.iter().map(|node| &node.name)).is_some();
                return Ok(Asked::Answered(Box::new(Answer { job, now: kept.now, why: Some(why), guessed, lost })));
            }
        }
        Err(Error::Conflict(id))
    }

    /// As [`Turnwise::gates_of`]; `None`: another question has the view built. Only where the job's queue is serial or waits for another one is
    /// the view asked.
    pub async fn gates_of(&self, job: &Job) -> Result<Option<Vec<Gate>>, Error> {
        let turnwise = &self.shared.turnwise;
        let at_rest = matches!(job.state, JobState::Waiting | JobState::Stuck);
        if !at_rest || !turnwise.depends_on_others(job).await? {
            return turnwise.gates_of(job).await.map(Some);
        }
        let Some(mut view) = self.turn().await else { return Ok(None) };
        let kept = self.refreshed(&mut view).await?;
        // Not known there: it ended, or a node has got it, between the two reads.
        Ok(Some(kept.why(job.id, false).map(|(why, _)| why.gates).unwrap_or_default()))
    }

    /// The turn of one question; `None`: another one has the view built.
    async fn turn(&self) -> Option<MutexGuard<'_, Option<Kept>>> {
        let mut building = self.shared.building.subscribe();
        tokio::select! {
            biased;
            view = self.shared.view.lock() => Some(view),
            _ = building.wait_for(|building| *building) => None,
        }
    }

    /// The view as of now.
    async fn refreshed<'a>(&self, view: &'a mut Option<Kept>) -> Result<&'a mut Kept, Error> {
        let turnwise = &self.shared.turnwise;
        let operators = turnwise.operators()?;
        // A view that could not be brought up to date, by an error or because the caller has gone, is not used again.
        let kept = match view.take() {
            Some(mut kept) => kept.refresh(turnwise, &*operators).await?.then_some(kept),
            None => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => {
                let _building = Building::begin(&self.shared.building);
                Kept::build(turnwise, &*operators).await?
            }
        };
        let kept = view.insert(kept);
        kept.asked = Instant::now();
        self.keep();
        Ok(kept)
    }

    /// Drops the view after a minute without a question.
    fn keep(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.as_ref().is_some_and(|keeper| !keeper.is_finished()) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        *keeper = Some(tokio::spawn(async move {
            loop {
                let mut view = shared.view.lock().await;
                let Some(asked) = view.as_ref().map(|kept| kept.asked) else { return };
                if asked.elapsed() >= KEPT_FOR {
                    *view = None;
                    return;
                }
                drop(view);
                tokio::time::sleep_until(asked + KEPT_FOR).await;
            }
        }));
    }

    /// Whether a question has it built at present.
    pub fn is_being_built(&self) -> bool {
        *self.shared.building.borrow()
    }

    /// Whether it is there at present.
    pub async fn is_kept(&self) -> bool {
        self.shared.view.lock().await.is_some()
    }
}

/// While it lives, other questions are answered that the view is being built.
struct Building<'a>(&'a watch::Sender<bool>);

impl<'a> Building<'a> {
    fn begin(building: &'a watch::Sender<bool>) -> Self {
        building.send_replace(true);
        Self(building)
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

#[derive(Debug)]
struct Kept {
    cursor: WatchCursor,
    now: Timestamp,
    settings: Settings,
    /// Those that live.
    nodes: Vec<Node>,
    /// What they have in their hands.
    held: Vec<HeldJob>,
    /// Knows everything but gives out nothing: its nodes have no slots.
    closed: Scheduler,
    /// What is expected to start, if there are many jobs.
    ahead: Option<Ahead>,
    asked: Instant,
}

/// What was expected to start next, when it was last worked out.
#[derive(Debug)]
struct Ahead {
    made: Instant,
    /// How many start before a job, and when it does.
    starts: HashMap<JobId, (usize, Timestamp)>,
    /// More start than were looked at.
    more: bool,
}

impl Ahead {
    fn of(open: Scheduler, now: Timestamp) -> Self {
        let starts =
            Future::of(open, now).take(STARTS).enumerate().map(|(before, start)| (start.job, (before, start.at)));
        let starts: HashMap<_, _> = starts.collect();
        Self { made: Instant::now(), more: starts.len() >= STARTS, starts }
    }
}

impl Kept {
    async fn build(turnwise: &Turnwise, operators: &dyn OperatorStore) -> Result<Self, Error> {
        let store = turnwise.store();
        // What comes while the backlog is read is seen twice, never missed.
        let cursor = operators.watch(AskWatch { cursor: None, most: 0, ends: false }).await?.cursor;
        let fleet = store.nodes().await?;
        let nodes: Vec<_> = fleet.nodes.into_iter().filter(|node| node.alive(fleet.now)).collect();
        let memos = store.recall(memo::SETTINGS.into_iter().chain([MemoKind::Charge]).collect()).await?;
        let (settings, charges) = (memo::settings(&memos), memo::charges(&memos));
        let finished = Filter {
            states: vec![JobState::Success, JobState::Failed, JobState::Cancelled],
            limit: Some(RUNS),
            ..Filter::default()
        };
        let mut runs = store.jobs(finished).await?;
        runs.extend(store.jobs(Filter { in_hands: true, limit: Some(IN_HAND), ..Filter::default() }).await?);
        runs.sort_by_key(began);
        let in_hands = store.load(Load::InHands(None)).await?;
        let now = in_hands.now;
        let inputs = Inputs { now, nodes, charges, runs, heads: in_hands.jobs };
        // Rates begin empty when a dispatcher begins.
        let dispatches = inputs.nodes.iter().find(|node| node.dispatcher).map_or(now, |node| node.joined_at).min(now);
        let mut closed = inputs.closed(&settings, dispatches);
        let nodes = inputs.nodes;
        // Page by page: the rows of a million jobs take more room than the scheduler does.
        let mut last = now;
        let at_rest = |page: Vec<JobHead>| page.into_iter().filter(|head| !head.state.assigned()).collect();
        let now = each_page(&*store, |page| {
            closed.handle(now, Input::Jobs(at_rest(page)));
        })
        .await?;
        last = last.max(now);
        // A late job under a rate that would start here has not been started there: the rate was set or begun later than the store
        // shows, so it is taken for one that has just begun.
        let (_, picks) = opened(&closed, last, nodes.clone());
        let picked = picks.iter().map(|pick| pick.job).collect();
        let picked = store.load(Load::These(picked)).await?.jobs;
        if dispatches < last && picked.iter().any(|head| is_held_by_a_rate(&settings, head, last)) {
            closed.begin_rates(last);
        }
        let mut kept =
            Self { cursor, now: last, settings, nodes, held: Vec::new(), closed, ahead: None, asked: Instant::now() };
        kept.follow_hands(turnwise, operators).await?;
        Ok(kept)
    }

    /// Takes in what happened since the last question. `false`: that is not known any more.
    async fn refresh(&mut self, turnwise: &Turnwise, operators: &dyn OperatorStore) -> Result<bool, Error> {
        let ask = AskWatch { cursor: Some(self.cursor.clone()), most: MOST_NEWS, ends: false };
        let Watched { now, cursor, reset, jobs, changes, memos, more, .. } = operators.watch(ask).await?;
        if reset || more {
            return Ok(false);
        }
        self.cursor = cursor;
        self.now = self.now.max(now);
        let store = turnwise.store();
        if memos {
            self.settings = memo::settings(&store.recall(memo::SETTINGS.to_vec()).await?);
            let outputs = self.closed.handle(self.now, Input::Settings(self.settings.clone()));
            if outputs.contains(&Output::ReadAgain) {
                return Ok(false);
            }
        }
        let fleet = store.nodes().await?;
        let nodes: Vec<_> = fleet.nodes.into_iter().filter(|node| node.alive(fleet.now)).collect();
        let look = |node: &Node| Node { lease_until: Timestamp::MIN, ..node.clone() };
        if !nodes.iter().map(look).eq(self.nodes.iter().map(look)) {
            let closed = nodes.iter().cloned().map(|node| Node { slots: 0, queue_capacity: 0, ..node });
            self.closed.handle(self.now, Input::Nodes(closed.collect()));
        }
        self.nodes = nodes;
        self.closed.follow_settled(self.now, changes.iter().filter_map(settled).collect());
        let changed = changes.into_iter().filter_map(|change| change.head);
        let at_rest: Vec<JobHead> = jobs.into_iter().chain(changed).filter(|head| !head.state.assigned()).collect();
        self.closed.handle(self.now, Input::Jobs(at_rest));
        self.follow_hands(turnwise, operators).await?;
        Ok(true)
    }

    /// What nodes have in their hands is no news: the dispatcher itself gave it to them.
    async fn follow_hands(&mut self, turnwise: &Turnwise, operators: &dyn OperatorStore) -> Result<(), Error> {
        let store = turnwise.store();
        self.held = operators.in_hands(IN_HAND).await?.jobs;
        let page = store.load(Load::InHands(None)).await?;
        self.now = self.now.max(page.now);
        let ids: Vec<JobId> = page.jobs.iter().map(|head| head.id).collect();
        self.closed.follow_given(self.now, page.jobs);
        // They have left these hands since the watcher looked; what they are now is read once more.
        let left: Vec<JobId> = self.closed.in_hands().into_iter().filter(|id| ids.binary_search(id).is_err()).collect();
        if !left.is_empty() {
            let found = store.load(Load::These(left.clone())).await?.jobs;
            let gone = left.into_iter().filter(|id| !found.iter().any(|head| head.id == *id)).collect();
            self.closed.handle(self.now, Input::Jobs(found));
            self.closed.handle(self.now, Input::Gone(gone));
        }
        self.closed.handle(self.now, Input::Tick);
        Ok(())
    }

    /// Why a job does not run, with or without a forecast, and whether that is guessed; `None`: it is not among the unfinished jobs.
    fn why(&mut self, id: JobId, with_forecast: bool) -> Option<(Why, bool)> {
        let (open, picks): (Scheduler, Vec<Pick>) = opened(&self.closed, self.now, self.nodes.clone());
        if let Some(before) = picks.iter().position(|pick| pick.job == id) {
            return Some((Why::new(Vec::new(), Some(Forecast::new(before, Duration::ZERO))), false));
        }
        let Why { gates, .. } = open.why(self.now, id, 0)?;
        let waits = !self.held.iter().any(|job| job.id == id);
        let forecast = if waits && with_forecast { self.forecast(open, id) } else { None };
        let guessed = forecast.is_some_and(|forecast| !forecast.starts_in.is_zero()) && self.guesses();
        Some((Why::new(gates, forecast), guessed))
    }

    /// When it starts. The copy of the scheduler is used up by it: a second one would be as large.
    fn forecast(&mut self, open: Scheduler, id: JobId) -> Option<Forecast> {
        if self.closed.len() <= FEW_JOBS {
            return Future::of(open, self.now).forecast(self.now, id, STARTS);
        }
        let fits =
            |ahead: &Ahead| ahead.made.elapsed() < FORECAST_FOR && (ahead.more || ahead.starts.contains_key(&id));
        let ahead = match self.ahead.take().filter(fits) {
            Some(ahead) => ahead,
            None => Ahead::of(open, self.now),
        };
        let (before, at) = self.ahead.insert(ahead).starts.get(&id).copied()?;
        Some(Forecast::new(before, at.since(self.now)))
    }

    /// Whether a run is going on whose length is not known, or that has gone on for longer than usual.
    fn guesses(&self) -> bool {
        self.held.iter().any(|job| {
            let usual = self.closed.usual_time(&job.queue, &job.task);
            usual.is_none_or(|usual| job.started_at.is_some_and(|began| self.now.since(began) > usual))
        })
    }
}

/// The end of a run, or of a job. `None`: the row as it stands is enough.
fn settled(change: &Change) -> Option<Settled> {
    let &Change { id, ran, failed, well, error, ref head } = change;
    let Some(head) = head else {
        return Some(Settled { id, fence: Fence(i64::MAX), ran, rest: None, failed, well, error });
    };
    if head.state.assigned() || ran.is_none() {
        return None;
    }
    let stuck = head.state == JobState::Stuck;
    let rest = Some(Rest { stuck, due: head.due, crashes: head.crashes, next: Some(head.task.clone()) });
    Some(Settled { id, fence: head.fence, ran, rest, failed, well: false, error })
}
