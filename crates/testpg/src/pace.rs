//! How late the machine is, for tests of how soon something happens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const STEP: Duration = Duration::from_millis(5);

/// A clock that stands still while the machine has no time for it: time that other processes take away is not counted.
///
/// On a machine with nothing else to do it goes like any other. Where all cores are busy, a thread that asks to be woken is woken
/// late, and so is whatever is tested.
#[derive(Debug)]
pub struct Pace {
    begun: Instant,
    late: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Pace {
    /// Begins to measure.
    pub fn start() -> Self {
        let (late, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let shared = (Arc::clone(&late), Arc::clone(&over));
        thread::spawn(move || {
            while !shared.1.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(STEP);
                let late = asleep.elapsed().saturating_sub(STEP);
                shared.0.fetch_add(u64::try_from(late.as_micros()).unwrap_or(0), Ordering::Relaxed);
            }
        });
        Self { begun: Instant::now(), late, over }
    }

    /// How long it has been, without what the machine was late.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed().saturating_sub(Duration::from_micros(self.late.load(Ordering::Relaxed)))
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
