//! How a node is set up.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use turnwise_core::{Invalid, NodeName, QueueName, pace, pool::Pool};

/// How one node is set up. [`Config::new`] has the defaults; [`Config::validate`] checks the bounds.
#[derive(Debug, Clone)]
pub struct Config {
    /// Unique in the fleet. Default: the host's name.
    pub name: NodeName,
    /// Jobs at a time, as a rule.
    pub core_pool_size: u32,
    /// Jobs at a time while the buffer is at its bound, at most; `None`: as many as `core_pool_size`.
    pub max_pool_size: Option<u32>,
    /// Jobs held ready beyond the slots, at most. How many really are follows from how long they take.
    pub queue_capacity: u32,
    /// Jobs this node is given at once and settles at once, at most.
    pub batch_size: usize,
    /// Queues this node serves; `None` = all that are not bound to another pool of this process.
    pub queues: Option<BTreeSet<QueueName>>,
    /// How long a silent node, or a silent dispatcher, counts as living.
    pub lease: Duration,
    /// How often to look for work when no bell has rung. `None`: every 5 s where rings arrive (a node's mail every 10 s), every
    /// second elsewhere.
    pub poll_interval: Option<Duration>,
    /// After giving out so many jobs, at the latest, the dispatcher looks for jobs that no bell announced. It also looks when
    /// nothing is left.
    pub look_every: u32,
    /// What the threads are called that run tasks, with a number behind it; `None`: tasks run on the runtime that the node was
    /// started on.
    pub thread_name_prefix: Option<String>,
    /// Whether running tasks may finish when the node stops.
    pub wait_for_tasks_on_shutdown: bool,
    /// How long they may take for it; then they are interrupted, which spends no attempt.
    pub await_termination: Duration,
    /// How long a task may take to stop once it is asked to.
    pub cancel_grace: Duration,
    /// Whether this node may dispatch.
    pub dispatch: bool,
}

impl Config {
    /// The defaults: two slots for each core, all queues, a lease of 5 s; the node may dispatch.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            core_pool_size: std::thread::available_parallelism()
                .map_or(4, |cores| u32::try_from(cores.get()).unwrap_or(4) * 2),
            max_pool_size: None,
            queue_capacity: 8_000,
            batch_size: 2_000,
            queues: None,
            lease: Duration::from_secs(5),
            poll_interval: None,
            look_every: 1_000,
            thread_name_prefix: None,
            wait_for_tasks_on_shutdown: true,
            await_termination: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(10),
            dispatch: true,
        }
    }

    /// A node named after its host. [`Invalid`] if the host's name cannot be a node's.
    pub fn for_this_host() -> Result<Self, Invalid> {
        Ok(Self::new(NodeName::new(crate::host::name())?))
    }

    /// Whether every value is within its bounds; [`Invalid`] names the first one that is not.
    pub fn validate(&self) -> Result<(), Invalid> {
        let check = |field, good: bool, problem: &str| if good { Ok(()) } else { Err(Invalid::new(field, problem)) };
        check("core_pool_size", (1..=100_000).contains(&self.core_pool_size), "must be 1 to 100000 slots")?;
        let most = self.max_pool_size();
        check("max_pool_size", (self.core_pool_size..=100_000).contains(&most), "must be core_pool_size to 100000")?;
        check("queue_capacity", self.queue_capacity <= 1_000_000, "must be at most 1000000")?;
        check("batch_size", (1..=50_000).contains(&self.batch_size), "must be 1 to 50000")?;
        check("lease", self.lease >= Duration::from_millis(500), "must be at least 500ms")?;
        check("look_every", self.look_every > 0, "must be at least 1")?;
        let prefix = self.thread_name_prefix.as_deref().unwrap_or("task-");
        let named = !prefix.is_empty() && prefix.len() <= 100 && !prefix.chars().any(char::is_control);
        check("thread_name_prefix", named, "must be 1 to 100 bytes without control characters")?;
        let poll = self.poll_interval.unwrap_or(pace::POLL);
        check("poll_interval", poll >= Duration::from_millis(10), "must be at least 10ms")
    }

    pub(crate) fn max_pool_size(&self) -> u32 {
        self.max_pool_size.unwrap_or(self.core_pool_size)
    }

    pub(crate) fn pool(&self) -> Pool {
        let Self { core_pool_size: core, queue_capacity, .. } = *self;
        Pool { core, max: self.max_pool_size(), queue_capacity }
    }

    /// `batch_size` in the form in which it is reported to the dispatcher.
    pub(crate) fn share(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(u32::try_from(self.batch_size).unwrap_or(u32::MAX))
    }

    /// Two beats may be lost before the fleet takes this node's jobs over.
    pub(crate) fn beat_interval(&self) -> Duration {
        self.lease / 3
    }
}
