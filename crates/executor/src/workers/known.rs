//! What this server remembers of a worker: a cache, which may be dropped at any moment.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use turnwise_core::{
    Incarnation, JobId, NodeName, Serves, TaskName, access::TokenId, job::AssignedJob, worker::Worker,
};
use turnwise_store::{BatchId, FoundWorker, Lineage, Mail};

use super::{EndAnswer, Held, WorkerError, Workers};
use crate::lock::locked;

/// Workers that are remembered at a time; beyond, those that were not heard of for longest are forgotten.
const MOST: usize = 20_000;
/// Ends are remembered for so long: a repeated settle is answered from here, and a look that began before does not bring the job back.
const ENDS_FOR: Duration = Duration::from_secs(60);
/// Ends after which those that are too old are forgotten.
const SWEEP: usize = 256;
/// Ends of one worker that are remembered.
const ENDS: usize = 10_000;

/// Workers by their incarnation.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Incarnation, Arc<Known>>>);

impl Cache {
    fn get(&self, node: Incarnation) -> Option<Arc<Known>> {
        locked(&self.0).get(&node).cloned()
    }

    pub(super) fn forget(&self, node: Incarnation) {
        locked(&self.0).remove(&node);
    }

    fn remember(&self, known: Arc<Known>) -> Arc<Known> {
        let mut all = locked(&self.0);
        if all.len() >= MOST {
            let mut heard: Vec<Instant> = all.values().map(|known| known.hands().heard).collect();
            heard.sort_unstable();
            let median = heard[heard.len() / 2];
            all.retain(|_, known| known.hands().heard > median);
        }
        all.entry(known.node).or_insert(known).clone()
    }
}

/// A worker.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) node: Incarnation,
    pub(super) name: NodeName,
    pub(super) lease: Duration,
    pub(super) worker: Worker,
    queues: Serves,
    tasks: BTreeSet<TaskName>,
    /// Rung when there may be mail for it. It is listened for as long as the worker is remembered, so a ring between two takes is not lost.
    pub(super) mail: Arc<Notify>,
    /// Which take is the newest: it ends those before it.
    takes: AtomicU64,
    pub(super) newer_take: Notify,
    hands: Mutex<Hands>,
}

/// What is in its hands, as far as this server knows.
#[derive(Debug)]
pub(super) struct Hands {
    /// When the database last said that it is alive.
    pub(super) heard: Instant,
    pub(super) lineage: Lineage,
    /// The last look found nothing at all that is assigned to it, and no ring has come since.
    pub(super) idle: bool,
    /// Jobs of each batch that were in its hands when that was read.
    batches: BTreeMap<BatchId, BTreeSet<Held>>,
    /// Batches of which nothing is left; named in the next settle.
    done: BTreeSet<BatchId>,
    pub(super) jobs: BTreeMap<JobId, InHand>,
    /// Ended by the server, because their time was over.
    pub(super) over: BTreeSet<Held>,
    /// Which stops it was told, and when.
    pub(super) told: BTreeMap<Held, Instant>,
    /// What was answered about ends.
    ended: BTreeMap<Held, (Instant, EndAnswer)>,
}

/// One job.
#[derive(Debug, Clone)]
pub(super) struct InHand {
    pub(super) job: Arc<AssignedJob>,
    /// When this server first saw the worker hold it, or gave it.
    pub(super) since: Option<Instant>,
    /// It is in the store that it runs.
    pub(super) running: bool,
    /// A person wants it stopped.
    pub(super) cancel: bool,
    /// Steps it has, as far as this server knows.
    pub(super) steps: usize,
}

impl InHand {
    fn of(job: AssignedJob) -> Self {
        let (running, cancel) = (job.state == turnwise_core::JobState::Running, job.cancel_requested);
        Self { job: Arc::new(job), since: None, running, cancel, steps: 0 }
    }
}

impl Known {
    fn new(found: FoundWorker, mail: Arc<Notify>) -> Self {
        let FoundWorker { node, worker, lineage, .. } = found;
        Self {
            node: node.incarnation,
            name: node.name,
            lease: node.lease,
            worker,
            queues: node.queues,
            tasks: node.tasks,
            mail,
            takes: AtomicU64::new(0),
            newer_take: Notify::new(),
            hands: Mutex::new(Hands {
                heard: Instant::now(),
                lineage,
                idle: false,
                batches: BTreeMap::new(),
                done: BTreeSet::new(),
                jobs: BTreeMap::new(),
                over: BTreeSet::new(),
                told: BTreeMap::new(),
                ended: BTreeMap::new(),
            }),
        }
    }

    pub(super) fn hands(&self) -> MutexGuard<'_, Hands> {
        locked(&self.hands)
    }

    /// Whether jobs of this queue and task may go to it.
    pub(super) fn can_run(&self, queue: &turnwise_core::QueueName, task: &TaskName) -> bool {
        self.tasks.contains(task) && self.queues.contains(queue)
    }

    /// A take begins; those before it end.
    pub(super) fn take_begins(&self) -> u64 {
        let number = self.takes.fetch_add(1, Ordering::AcqRel) + 1;
        self.newer_take.notify_waiters();
        number
    }

    pub(super) fn is_newest(&self, take: u64) -> bool {
        self.takes.load(Ordering::Acquire) == take
    }

    /// What is in its hands may be more than is known here.
    pub(super) fn is_unsure(&self) {
        self.hands().idle = false;
    }

    /// The database says that it is alive. One of another lineage may have taken back what is remembered.
    pub(super) fn is_alive(&self, lineage: Lineage) {
        let mut hands = self.hands();
        hands.heard = Instant::now();
        if hands.lineage != lineage {
            hands.lineage = lineage;
            hands.idle = false;
            hands.batches.clear();
            hands.done.clear();
            hands.jobs.clear();
            hands.ended.clear();
        }
    }

    /// All that is in its hands, as far as is known here.
    pub(super) fn all_in_hands(&self) -> Vec<Held> {
        self.hands().jobs.values().map(|one| (one.job.id, one.job.fence)).collect()
    }
}

impl Hands {
    /// The batches that need not be read again.
    pub(super) fn known_batches(&self, held: &BTreeSet<Held>) -> Vec<BatchId> {
        let batches = self.batches.iter().map(|(batch, jobs)| (*batch, jobs));
        let known = turnwise_core::worker::known_batches(batches, held);
        known.into_iter().chain(self.done.iter().copied()).collect()
    }

    /// What was read, with the batches that were left out of it. Returns the jobs in these batches, in the order in which they came.
    pub(super) fn read(&mut self, left_out: &[BatchId], mail: Mail) -> Vec<Arc<AssignedJob>> {
        let Mail { batches, stop } = mail;
        let there: BTreeSet<BatchId> =
            left_out.iter().copied().chain(batches.iter().map(|delivery| delivery.batch)).collect();
        self.batches.retain(|batch, _| there.contains(batch));
        self.done.retain(|batch| there.contains(batch));
        let (mut read, mut seen) = (Vec::new(), BTreeSet::new());
        for delivery in batches {
            // What has ended since the look began is not brought back.
            let jobs: Vec<_> =
                delivery.jobs.into_iter().filter(|job| !self.ended.contains_key(&(job.id, job.fence))).collect();
            if jobs.is_empty() {
                self.batches.remove(&delivery.batch);
                self.done.insert(delivery.batch);
                continue;
            }
            self.done.remove(&delivery.batch);
            self.batches.insert(delivery.batch, jobs.iter().map(|job| (job.id, job.fence)).collect());
            for job in jobs {
                let fresh = InHand::of(job);
                let one = match self.jobs.get(&fresh.job.id) {
                    Some(before) if before.job.fence == fresh.job.fence => InHand {
                        since: before.since,
                        running: before.running || fresh.running,
                        cancel: before.cancel || fresh.cancel,
                        steps: before.steps,
                        ..fresh
                    },
                    _ => fresh,
                };
                // A batch that is not called done yet names a job that has come again with a later one.
                if seen.insert(one.job.id) {
                    read.push(Arc::clone(&one.job));
                }
                self.jobs.insert(one.job.id, one);
            }
        }
        let listed: BTreeSet<Held> = self.batches.values().flatten().copied().collect();
        self.jobs.retain(|id, one| listed.contains(&(*id, one.job.fence)));
        for (id, fence) in stop {
            if let Some(one) = self.jobs.get_mut(&id).filter(|one| one.job.fence == fence) {
                one.cancel = true;
            }
        }
        self.idle = self.batches.is_empty() && self.done.is_empty();
        read
    }

    /// Batches that are to be called done, until it is known that they were.
    pub(super) fn done(&self) -> Vec<BatchId> {
        self.done.iter().copied().collect()
    }

    pub(super) fn called_done(&mut self, batches: &[BatchId]) {
        self.done.retain(|batch| !batches.contains(batch));
    }

    pub(super) fn at(&mut self, (id, fence): Held) -> Option<&mut InHand> {
        self.jobs.get_mut(&id).filter(|one| one.job.fence == fence)
    }

    /// The job is out of its hands.
    pub(super) fn ends(&mut self, job: Held, answer: EndAnswer) {
        if self.at(job).is_some() {
            self.jobs.remove(&job.0);
        }
        let mut through = Vec::new();
        for (batch, jobs) in &mut self.batches {
            if jobs.remove(&job) && jobs.is_empty() {
                through.push(*batch);
            }
        }
        through.into_iter().for_each(|batch| {
            self.batches.remove(&batch);
            self.done.insert(batch);
        });
        self.told.remove(&job);
        if self.ended.len() >= ENDS || self.ended.len() % SWEEP == SWEEP - 1 {
            self.ended.retain(|_, (when, _)| when.elapsed() < ENDS_FOR);
            // Still: then the oldest of them are no more likely to be asked for than any.
            while self.ended.len() >= ENDS {
                self.ended.pop_first();
            }
        }
        self.ended.insert(job, (Instant::now(), answer));
    }

    /// What was answered about this end not long ago.
    pub(super) fn answered(&self, job: Held) -> Option<EndAnswer> {
        self.ended.get(&job).filter(|(when, _)| when.elapsed() < ENDS_FOR).map(|(_, answer)| answer.clone())
    }
}

impl Workers {
    /// The worker, if this token registered it. It is read again if nothing was heard of it for a lease: it may be lost by then.
    pub(super) async fn known(&self, node: Incarnation, token: Option<TokenId>) -> Result<Arc<Known>, WorkerError> {
        let remembered = self.cache.get(node).filter(|known| known.hands().heard.elapsed() < known.lease);
        let known = match remembered {
            Some(known) => known,
            None => self.read_known(node, token).await?,
        };
        if known.worker.token == token { Ok(known) } else { Err(WorkerError::NotThere) }
    }

    /// The database says that it is alive.
    pub(super) fn is_alive(&self, node: Incarnation, lineage: Lineage) {
        self.cache.get(node).into_iter().for_each(|known| known.is_alive(lineage));
    }

    /// It is neither lost nor gone.
    pub(super) fn is_heard_of(&self, node: Incarnation) {
        self.cache.get(node).into_iter().for_each(|known| known.hands().heard = Instant::now());
    }

    /// Reads the worker anew.
    pub(super) async fn read_known(
        &self,
        node: Incarnation,
        token: Option<TokenId>,
    ) -> Result<Arc<Known>, WorkerError> {
        let Some(found) = self.operators.worker(node).await? else {
            self.cache.forget(node);
            return Err(WorkerError::Lost);
        };
        if found.worker.token != token {
            return Err(WorkerError::NotThere);
        }
        if found.node.lost {
            self.cache.forget(node);
            return Err(WorkerError::Lost);
        }
        self.clock.heard(found.now);
        let lineage = found.lineage;
        let known = match self.cache.get(node) {
            Some(known) => known,
            None => self.cache.remember(Arc::new(Known::new(found, self.bell.listen_for(node)))),
        };
        known.is_alive(lineage);
        Ok(known)
    }
}
