//! Pools: slots, a buffer and threads for some queues alone, beside the node's own.
//!
//! A pool is a node of its own in the fleet, named `node/pool`, in the same process. It does not dispatch: one per process is
//! enough, and the node's own pool is there as long as the process is.

use std::{collections::BTreeSet, time::Duration};

use turnwise_core::{Invalid, NodeName, QueueName, Serves};

use crate::config::Config;

/// What is set for a pool. What is not set is as in the node's own pool.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    queues: Vec<String>,
    core_pool_size: Option<u32>,
    max_pool_size: Option<u32>,
    queue_capacity: Option<u32>,
    batch_size: Option<usize>,
    poll_interval: Option<Duration>,
    thread_name_prefix: Option<String>,
    wait_for_tasks_on_shutdown: Option<bool>,
    await_termination: Option<Duration>,
}

impl Pool {
    /// The queues bound to it; the node's own pool leaves them to it, unless it names them itself.
    #[must_use]
    pub fn queues(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.queues = names.into_iter().map(Into::into).collect();
        self
    }

    /// Jobs at a time, as a rule; also the most, unless [`Pool::max_pool_size`] is set.
    #[must_use]
    pub fn core_pool_size(mut self, slots: u32) -> Self {
        self.core_pool_size = Some(slots);
        self
    }

    /// Jobs at a time while the buffer is at its bound.
    #[must_use]
    pub fn max_pool_size(mut self, slots: u32) -> Self {
        self.max_pool_size = Some(slots);
        self
    }

    /// Jobs held ready beyond the slots, at most.
    #[must_use]
    pub fn queue_capacity(mut self, jobs: u32) -> Self {
        self.queue_capacity = Some(jobs);
        self
    }

    /// Jobs it is given at once and settles at once, at most.
    #[must_use]
    pub fn batch_size(mut self, jobs: usize) -> Self {
        self.batch_size = Some(jobs);
        self
    }

    /// How often to look for work when no bell has rung.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// What its threads are called, with a number behind it. Default: the pool's name and a hyphen.
    #[must_use]
    pub fn thread_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.thread_name_prefix = Some(prefix.into());
        self
    }

    /// Whether running tasks may finish when the process stops.
    #[must_use]
    pub fn wait_for_tasks_on_shutdown(mut self, wait: bool) -> Self {
        self.wait_for_tasks_on_shutdown = Some(wait);
        self
    }

    /// How long they may take for it.
    #[must_use]
    pub fn await_termination(mut self, time: Duration) -> Self {
        self.await_termination = Some(time);
        self
    }

    /// As a node of its own, beside `node`.
    fn config(&self, name: &str, node: &Config) -> Result<Config, Invalid> {
        if name.is_empty() || name.contains('/') {
            return Err(Invalid::new(
                "pool",
                format!("{name:?} is not a name for a pool; it has no / and is not empty"),
            ));
        }
        let queues: BTreeSet<_> = self.queues.iter().map(QueueName::new).collect::<Result<_, _>>()?;
        if queues.is_empty() {
            return Err(Invalid::new("queues", format!("pool {name:?} must name the queues bound to it")));
        }
        let max_pool_size = match self.core_pool_size {
            None => self.max_pool_size.or(node.max_pool_size),
            // The node's own would be no bound for a size of the pool's.
            Some(_) => self.max_pool_size,
        };
        let config = Config {
            name: NodeName::new(format!("{}/{name}", node.name))?,
            core_pool_size: self.core_pool_size.unwrap_or(node.core_pool_size),
            max_pool_size,
            queue_capacity: self.queue_capacity.unwrap_or(node.queue_capacity),
            batch_size: self.batch_size.unwrap_or(node.batch_size),
            queues: Some(queues),
            poll_interval: self.poll_interval.or(node.poll_interval),
            thread_name_prefix: Some(self.thread_name_prefix.clone().unwrap_or_else(|| format!("{name}-"))),
            wait_for_tasks_on_shutdown: self.wait_for_tasks_on_shutdown.unwrap_or(node.wait_for_tasks_on_shutdown),
            await_termination: self.await_termination.unwrap_or(node.await_termination),
            dispatch: false,
            ..node.clone()
        };
        config
            .validate()
            .map_err(|invalid| Invalid::new(invalid.field, format!("{} (pool {name})", invalid.problem)))?;
        Ok(config)
    }
}

/// The node's own pool and the others, each with the queues it serves.
pub(crate) fn members(node: Config, pools: &[(String, Pool)]) -> Result<Vec<(Config, Serves)>, Invalid> {
    let mut bound: BTreeSet<QueueName> = BTreeSet::new();
    let mut others: Vec<(Config, Serves)> = Vec::with_capacity(pools.len());
    for (name, pool) in pools {
        let config = pool.config(name, &node)?;
        if others.iter().any(|(other, _)| other.name == config.name) {
            return Err(Invalid::new("pool", format!("there are two pools named {name:?}")));
        }
        let queues = config.queues.clone().unwrap_or_default();
        if let Some(queue) = queues.iter().find(|queue| bound.contains(*queue)) {
            let problem = format!("queue {:?} is bound to two pools; name it in one", queue.as_str());
            return Err(Invalid::new("queues", problem));
        }
        bound.extend(queues.iter().cloned());
        others.push((config, Serves::Only(queues)));
    }
    let serves = match &node.queues {
        Some(queues) => Serves::Only(queues.clone()),
        None if bound.is_empty() => Serves::All,
        None => Serves::AllBut(bound),
    };
    Ok(std::iter::once((node, serves)).chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Config {
        Config { core_pool_size: 4, max_pool_size: Some(8), ..Config::new(NodeName::new("n").unwrap()) }
    }

    fn set(pools: &[(&str, Pool)]) -> Result<Vec<(Config, Serves)>, Invalid> {
        let pools: Vec<_> = pools.iter().map(|(name, pool)| ((*name).to_owned(), pool.clone())).collect();
        members(node(), &pools)
    }

    fn names(queues: &[&str]) -> BTreeSet<QueueName> {
        queues.iter().map(|queue| QueueName::new(queue).unwrap()).collect()
    }

    #[test]
    fn queues_bound_to_no_pool_are_the_nodes_own() {
        let all = set(&[("mail", Pool::default().queues(["mail"])), ("pdf", Pool::default().queues(["pdf", "scan"]))]);
        let serves: Vec<_> =
            all.unwrap().into_iter().map(|(config, serves)| (config.name.to_string(), serves)).collect();
        assert_eq!(
            serves,
            [
                ("n".to_owned(), Serves::AllBut(names(&["mail", "pdf", "scan"]))),
                ("n/mail".to_owned(), Serves::Only(names(&["mail"]))),
                ("n/pdf".to_owned(), Serves::Only(names(&["pdf", "scan"]))),
            ]
        );
        assert_eq!(set(&[]).unwrap()[0].1, Serves::All);
    }

    #[test]
    fn a_node_that_names_its_queues_serves_them_even_if_a_pool_does_too() {
        let node = Config { queues: Some(names(&["mail", "default"])), ..node() };
        let all = members(node, &[("mail".to_owned(), Pool::default().queues(["mail"]))]).unwrap();
        assert_eq!(all[0].1, Serves::Only(names(&["mail", "default"])));
    }

    #[test]
    fn what_a_pool_does_not_set_is_as_in_the_nodes_own_pool() {
        let size = |pool: Pool| {
            let all = set(&[("mail", pool.queues(["mail"]))]).unwrap();
            (all[1].0.core_pool_size, all[1].0.max_pool_size())
        };
        assert_eq!(size(Pool::default()), (4, 8));
        assert_eq!(size(Pool::default().core_pool_size(20)), (20, 20));
        assert_eq!(size(Pool::default().core_pool_size(2).max_pool_size(3)), (2, 3));
        assert_eq!(size(Pool::default().max_pool_size(5)), (4, 5));
        let mail = &set(&[("mail", Pool::default().queues(["mail"]))]).unwrap()[1].0;
        assert_eq!((mail.thread_name_prefix.as_deref(), mail.dispatch), (Some("mail-"), false));
    }

    #[test]
    fn a_pool_that_cannot_be_is_refused_with_its_name() {
        let refused = |pools: &[(&str, Pool)]| set(pools).unwrap_err().to_string();
        assert_eq!(refused(&[("mail", Pool::default())]), "queues: pool \"mail\" must name the queues bound to it");
        assert!(refused(&[("a/b", Pool::default().queues(["x"]))]).starts_with("pool: \"a/b\" is not a name"));
        let twice = [("a", Pool::default().queues(["x"])), ("b", Pool::default().queues(["x"]))];
        assert_eq!(refused(&twice), "queues: queue \"x\" is bound to two pools; name it in one");
        let small = Pool::default().queues(["x"]).core_pool_size(5).max_pool_size(4);
        assert_eq!(refused(&[("a", small)]), "max_pool_size: must be core_pool_size to 100000 (pool a)");
    }
}
