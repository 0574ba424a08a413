//! The threads that tasks run on: their own runtime, named as it is set, so that no other pool waits for them.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::runtime::{Builder, Runtime};

use crate::config::Config;

/// Threads for blocking tasks beyond one per slot: name look-ups and the like need some too.
const SPARE: usize = 64;

pub(crate) fn start(config: &Config, prefix: &str) -> io::Result<Runtime> {
    let most = usize::try_from(config.max_pool_size()).unwrap_or(usize::MAX);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (prefix, number) = (prefix.to_owned(), AtomicU64::new(1));
    Builder::new_multi_thread()
        .enable_all()
        // What never waits runs no sooner with more threads than there are cores.
        .worker_threads(cores.min(most))
        .max_blocking_threads(most.saturating_add(SPARE))
        .thread_name_fn(move || format!("{prefix}{}", number.fetch_add(1, Ordering::Relaxed)))
        .build()
}
