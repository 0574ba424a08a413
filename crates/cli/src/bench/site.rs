//! The database that is measured: refused if it is used otherwise, and left as it was found.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use turnwise::{
    Config, Executor, Filter, Invalid, JobState, NodeName, Options, Registry, Schema, StartError, Turnwise,
    overview::Tally, settings::Fairness,
};
use turnwise_sqlite::SqliteStore;
use turnwise_store::{AskNews, Epoch, MemoKind, NewMemo, memo::charges};

use super::{
    meter::Bar,
    plan::{History, Plan, lasting, nothing_kept},
    work::{self, NAME, Notes},
};
use crate::{error::Failure, settings::Settings};

/// Jobs that are deleted in one transaction.
const ROWS: u32 = 10_000;
/// Finished jobs that are read to see whether all are the benchmark's own: few at first, for one other job is enough.
const FINISHED: [u32; 2] = [1_000, Filter::MAX_LIMIT];
/// Between two checks whether a node has released its jobs.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Whether the benchmark is to stop.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(super) fn new(stopped: watch::Receiver<bool>) -> Self {
        Self(stopped)
    }

    /// Waits for the signal to stop.
    pub(super) async fn raised(&self) -> Failure {
        let mut stopped = self.0.clone();
        match stopped.wait_for(|stopped| *stopped).await {
            Ok(_) => Failure::Interrupted,
            // The sender is gone: no signal can come any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// Asked between steps, so that none is left half done.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if *self.0.borrow() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

pub(super) struct Site<'a> {
    settings: &'a Settings,
    plan: &'a Plan,
    turnwise: Turnwise,
    stop: Stop,
    /// Whether all the jobs in it are the benchmark's.
    alone: bool,
    /// A file that was not there before.
    made: Option<PathBuf>,
    nodes: Mutex<Vec<Arc<Executor>>>,
}

impl<'a> Site<'a> {
    /// Opens the database and deletes what a killed benchmark has left.
    pub(super) async fn open(settings: &'a Settings, plan: &'a Plan, stop: Stop) -> Result<Self, Failure> {
        let file = file_of(settings.database())?;
        // A file that is not there is made, and deleted again; a server's database stays as it is.
        let schema = if file.as_ref().is_some_and(|file| !file.exists()) { Schema::Create } else { Schema::Existing };
        let made = file.filter(|file| !file.exists());
        settings.check_named()?;
        let turnwise = settings.open_with(Options { schema, ..plan.options() }).await?;
        let mut site = Self { settings, plan, turnwise, stop, alone: true, made, nodes: Mutex::default() };
        if let Some(others) = site.others().await? {
            site.alone = false;
            if !plan.force {
                let problem = format!("{others}; name an empty database, or measure all the same with --force");
                return Err(Invalid::new("database", problem).into());
            }
            if plan.history == History::Keep {
                let problem = format!(
                    "cannot be kept: {others}, and finished jobs can only be deleted all together; use --history delete"
                );
                return Err(Invalid::new("history", problem).into());
            }
        }
        site.clear().await?;
        // Jobs that do nothing have no length to be fair about: by time, the noise of the machine would decide.
        site.turnwise.set_queue(NAME, |queue| queue.fairness = Fairness::Turns).await?;
        Ok(site)
    }

    pub(super) fn turnwise(&self) -> &Turnwise {
        &self.turnwise
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// What else uses this database, as the first half of a sentence.
    async fn others(&self) -> Result<Option<String>, Failure> {
        let fleet = self.turnwise.nodes().await?;
        let mut alive = fleet.nodes.iter().filter(|node| node.alive(fleet.now));
        if alive.clone().any(|node| node.name.as_str().starts_with(NAME)) {
            let problem = "another benchmark runs on it, or was killed a moment ago; try again in a few seconds";
            return Err(Invalid::new("database", problem).into());
        }
        if let Some(node) = alive.next() {
            return Ok(Some(format!("node {} uses it", node.name)));
        }
        if let Some(schedule) = self.turnwise.schedules().await?.keys().next() {
            return Ok(Some(format!("schedule {schedule} submits jobs to it")));
        }
        for (name, queue) in self.turnwise.overview().await?.queues {
            if queue.jobs != Tally::default() && name.as_str() != NAME {
                return Ok(Some(format!("it holds jobs of queue {name}")));
            }
        }
        let states: Vec<_> = JobState::ALL.into_iter().filter(|state| state.finished()).collect();
        for limit in FINISHED {
            let some = Filter { states: states.clone(), limit: Some(limit), ..Filter::default() };
            let finished = self.turnwise.jobs(some).await?;
            if finished.iter().any(|job| job.queue.as_str() != NAME) {
                break;
            }
            if finished.len() < limit as usize {
                return Ok(None);
            }
        }
        Ok(Some("it holds finished jobs".to_owned()))
    }

    /// A node that runs the benchmark's jobs, started; it is stopped with the site.
    pub(super) async fn node(&self, notes: Arc<Notes>) -> Result<Arc<Executor>, Failure> {
        self.start(&self.turnwise, self.plan.node.clone(), Some(notes)).await
    }

    /// As [`Site::node`], with another node that dispatches for it; the nodes share no handle with each other nor with the site.
    pub(super) async fn nodes_apart(&self, notes: Arc<Notes>) -> Result<(), Failure> {
        let dispatcher = Config { name: NodeName::new(format!("{NAME}-dispatcher"))?, ..self.plan.node.clone() };
        let worker = Config { dispatch: false, ..self.plan.node.clone() };
        for (config, notes) in [(dispatcher, None), (worker, Some(notes))] {
            let apart = self.settings.open_with(self.plan.options()).await?;
            self.start(&apart, config, notes).await?;
        }
        Ok(())
    }

    async fn start(
        &self,
        turnwise: &Turnwise,
        config: Config,
        notes: Option<Arc<Notes>>,
    ) -> Result<Arc<Executor>, Failure> {
        let mut builder = turnwise.executor_with(config);
        if let Some(notes) = notes {
            let mut registry = Registry::new();
            registry.register(work::work).map_err(StartError::from)?;
            builder = builder.registry(registry).shared(notes);
        }
        let node = Arc::new(builder.build()?);
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&node));
        node.start().await?;
        Ok(node)
    }

    async fn stop_nodes(&self) {
        let nodes = std::mem::take(&mut *self.nodes.lock().unwrap_or_else(PoisonError::into_inner));
        for node in nodes {
            node.stop().await;
        }
    }

    /// Stops what was started and deletes what was stored.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        self.stop_nodes().await;
        self.clear().await?;
        // Other nodes or jobs may have come in the meantime.
        let empty = self.made.is_some() && matches!(self.others().await, Ok(None));
        let Self { made, turnwise, .. } = self;
        // The last connection that closes tidies up the file.
        drop(turnwise);
        match made {
            Some(file) if empty => remove(&file),
            _ => Ok(()),
        }
    }

    /// Leaves no job of the benchmark, nor what its queue has set and its groups have used.
    async fn clear(&self) -> Result<(), Failure> {
        // With a retention of zero: a job that is cancelled is deleted at once.
        let cleaner = match self.plan.history {
            History::Keep if lasting(self.settings.database()) => self.settings.open_with(nothing_kept()).await?,
            _ => self.turnwise.clone(),
        };
        self.cancel(&cleaner).await?;
        let store = cleaner.store();
        let memos = store.recall(vec![MemoKind::Charge, MemoKind::Queue]).await?;
        let ours: Vec<_> = memos
            .into_iter()
            .filter(|memo| match memo.kind {
                MemoKind::Queue => memo.name == NAME,
                _ => charges(std::slice::from_ref(memo)).iter().any(|charge| charge.queue.as_str() == NAME),
            })
            .map(|memo| NewMemo { kind: memo.kind, name: memo.name, value: None, seen: None, line: None })
            .collect();
        for some in ours.chunks(ROWS as usize) {
            store.remember(None, some.to_vec()).await?;
        }
        if self.alone {
            // The epoch of no term, so that no dispatcher is marked as awake by this.
            let ask = AskNews { cursor: None, epoch: Epoch(-1), asleep: false, new_jobs: 0 };
            let seen = store.news(ask).await?.cursor;
            while store.prune(Some(seen.clone()), ROWS).await? >= u64::from(ROWS) {}
        }
        Ok(())
    }

    /// Cancels the benchmark's jobs. A new node takes over those that are in the hands of a killed node.
    async fn cancel(&self, cleaner: &Turnwise) -> Result<(), Failure> {
        let all = Filter { queue: Some(NAME.to_owned()), limit: Some(ROWS), ..Filter::default() };
        let (mut gone, mut bar) = (0, Bar::new(0, "jobs deleted"));
        loop {
            let stopped = cleaner.cancel_all(all.clone()).await?;
            gone += stopped.at_once as u64;
            bar.at(gone);
            match (stopped.at_once, stopped.requested + stopped.left.len()) {
                (0, 0) => break,
                (0, _) if self.nodes.lock().unwrap_or_else(PoisonError::into_inner).is_empty() => {
                    self.node(Notes::none()).await?;
                }
                (0, _) => sleep(LOOK_AGAIN).await,
                _ => {}
            }
        }
        self.stop_nodes().await;
        Ok(())
    }
}

/// The file, if opening the database creates it.
fn file_of(database: &str) -> Result<Option<PathBuf>, Failure> {
    if database.starts_with("sqlite:") { Ok(SqliteStore::file(database)?) } else { Ok(None) }
}

fn remove(file: &Path) -> Result<(), Failure> {
    for behind in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(behind);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::Other(format!("removing {}: {error}", name.display())));
            }
            _ => {}
        }
    }
    Ok(())
}
