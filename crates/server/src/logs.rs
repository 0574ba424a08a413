//! What is logged about requests that fail, bounded in rate: while the database is away, every caller asks again and again.
//!
//! One for the whole process, as its log is. An outage is one line, and one more every ten seconds; the node beside the server says when
//! it is over.

use std::{
    fmt::Display,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::log_bound::{Bound, SPAN};

/// Kinds of lines that may come with every request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Refused,
    Broken,
    Sample,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Refused, Self::Broken, Self::Sample];

    /// What many of them are called.
    fn many(self) -> &'static str {
        match self {
            Self::Refused => "requests were refused by the database",
            Self::Broken => "requests could not be answered",
            Self::Sample => "looks at nodes, queues or jobs in hand failed",
        }
    }
}

#[derive(Debug, Default)]
struct Logs {
    bounds: [Bound; Kind::ALL.len()],
    unanswered: Unanswered,
}

/// Requests that the database did not answer.
#[derive(Debug, Default)]
struct Unanswered {
    /// When the last line was logged about them.
    told: Option<Duration>,
    /// How many there were since.
    requests: u64,
}

impl Unanswered {
    /// One more; `Some` if a line is to be logged: how many there were since the last line, with this one.
    fn one(&mut self, at: Duration) -> Option<u64> {
        self.requests += 1;
        self.take(at)
    }

    /// How many there were since the last line, once that is long enough ago.
    fn take(&mut self, at: Duration) -> Option<u64> {
        let over = self.told.is_none_or(|told| at.saturating_sub(told) >= SPAN);
        (over && self.requests > 0).then(|| {
            self.told = Some(at);
            std::mem::take(&mut self.requests)
        })
    }
}

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
static LOGS: Mutex<Option<Logs>> = Mutex::new(None);

fn logs() -> MutexGuard<'static, Option<Logs>> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a line of this kind may be logged now; one that may not is counted.
pub(crate) fn may(kind: Kind) -> bool {
    let at = BEGUN.elapsed();
    let (left_out, admitted) = {
        let mut logs = logs();
        let bound = &mut logs.get_or_insert_default().bounds[kind as usize];
        (bound.take_left_out(at), bound.admits(at))
    };
    tell(kind, left_out);
    admitted
}

/// A request was not answered, for the database did not answer.
pub(crate) fn no_answer(error: &dyn Display) {
    let line = logs().get_or_insert_default().unanswered.one(BEGUN.elapsed());
    match line {
        Some(1) => tracing::warn!(%error, "a request was not answered: the database does not answer"),
        Some(requests) => tracing::warn!(%error, requests, "requests were not answered: the database does not answer"),
        None => tracing::debug!(%error, "a request was not answered: the database does not answer"),
    }
}

/// Logs how many lines were left out, once their time is over.
pub(crate) fn tell_left_out() {
    tell_all(Bound::take_left_out);
    let requests = logs().get_or_insert_default().unanswered.take(BEGUN.elapsed());
    if let Some(requests) = requests {
        tracing::warn!(requests, "requests were not answered: the database did not answer");
    }
}

/// The same when the server stops, though their time is not over.
pub(crate) fn tell_rest() {
    tell_all(Bound::take_rest);
    let requests = std::mem::take(&mut logs().get_or_insert_default().unanswered.requests);
    if requests > 0 {
        tracing::warn!(requests, "requests were not answered: the database did not answer");
    }
}

fn tell_all(take: fn(&mut Bound, Duration) -> Option<(u64, Duration)>) {
    for kind in Kind::ALL {
        let left_out = take(&mut logs().get_or_insert_default().bounds[kind as usize], BEGUN.elapsed());
        tell(kind, left_out);
    }
}

fn tell(kind: Kind, left_out: Option<(u64, Duration)>) {
    if let Some((lines, over)) = left_out {
        tracing::warn!("and {lines} more in the last {} s: {}", over.as_secs(), kind.many());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_not_answered_are_one_line_and_one_every_ten_seconds() {
        let mut unanswered = Unanswered::default();
        let millis = (0..25_000).filter_map(|at| unanswered.one(Duration::from_millis(at)));
        assert_eq!(millis.collect::<Vec<_>>(), [1, 10_000, 10_000]);
        assert_eq!(unanswered.take(Duration::from_secs(29)), None);
        assert_eq!(unanswered.take(Duration::from_secs(30)), Some(4_999), "those after the last line");
        assert_eq!(unanswered.take(Duration::from_secs(60)), None);
    }
}
