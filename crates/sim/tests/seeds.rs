//! Seeds, as many as fit into a quick test; `TURNWISE_FULL=1` runs more.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use turnwise_sim::seeds::{Corpus, try_seed};

/// Tries seeds on every core, and fails with what was broken.
fn try_all(seeds: &[u64]) {
    let next = AtomicU64::new(0);
    let found = Mutex::new(String::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cores| cores.get()) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap()) {
                    let verdict = try_seed(seed);
                    if !verdict.violations.is_empty() {
                        found.lock().unwrap().push_str(&verdict.to_string());
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn every_promise_is_kept_whatever_goes_wrong() {
    let count = if std::env::var_os("TURNWISE_FULL").is_some() { 1_000 } else { 24 };
    try_all(&(1..=count).collect::<Vec<_>>());
}

#[test]
fn seeds_that_once_found_something_find_nothing_any_more() {
    let corpus = Corpus::parse(include_str!("../corpus/seeds.txt")).unwrap();
    assert!(!corpus.seeds.is_empty());
    try_all(&corpus.seeds);
}
