//! Statistics: every ten seconds what the scheduler has counted is written, and what is old is merged.
//!
//! This is done beside the dispatching, one round at a time: no job waits for it. What could not be written is written with the next
//! round. At a hand-over the last round is waited for.

use std::{convert::Infallible, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use turnwise_core::{
    Timestamp,
    statistics::{BATCH_ROWS, Minute, Totals},
};
use turnwise_store::{CountingTerm, Epoch, OperatorStore, StoreError, WriteStatistics};

use super::Dispatcher;
use crate::{
    contain::{self, caught},
    life::Life,
    logs::Kind,
};

/// How its panics are reported.
const PART: &str = "statistics";

/// How often what was counted is written. So much is lost at most when a dispatcher dies.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a hand-over waits for the last round.
const LAST_ROUND: Duration = Duration::from_secs(2);
/// Minutes that could not be written yet; of more than these the oldest are given up.
const UNWRITTEN: usize = 10;
/// How often old rows are looked for, and how many queues' rows are merged then.
const MERGE_INTERVAL: Duration = Duration::from_secs(60);
const MERGES: u32 = 100;

/// The dispatcher's side.
#[derive(Debug)]
pub(super) struct Statistics {
    asks: mpsc::Sender<Vec<Minute>>,
    answers: mpsc::Receiver<()>,
    /// A round is on its way.
    asked: bool,
    next: Instant,
}

/// The side that writes.
#[derive(Debug)]
pub(super) struct Rounds {
    asks: mpsc::Receiver<Vec<Minute>>,
    answers: mpsc::Sender<()>,
}

pub(super) fn statistics() -> (Statistics, Rounds) {
    // One round is on its way, and one answer.
    let ((asks, asked), (answers, answered)) = (mpsc::channel(1), mpsc::channel(1));
    let next = Instant::now() + INTERVAL;
    (Statistics { asks, answers: answered, asked: false, next }, Rounds { asks: asked, answers })
}

impl Statistics {
    /// Whether a round may be sent: the last one is answered, or never will be.
    fn is_free(&self) -> bool {
        !self.asked || !self.answers.is_empty() || self.answers.is_closed()
    }
}

impl Dispatcher<'_> {
    /// When to write next, if there is something to write and the last round is over.
    pub(super) fn next_count(&self) -> Option<Instant> {
        (self.scheduler.has_counted() && self.statistics.is_free()).then_some(self.statistics.next)
    }

    pub(super) fn write_statistics_if_due(&mut self) {
        if self.next_count().is_some_and(|next| next <= Instant::now()) {
            let _ = self.statistics.answers.try_recv();
            self.send_statistics();
        }
    }

    fn send_statistics(&mut self) {
        self.statistics.next = Instant::now() + INTERVAL;
        let minutes = self.scheduler.statistics(self.life.node.clock.now());
        // An error means that the term is over.
        self.statistics.asked = self.statistics.asks.try_send(minutes).is_ok();
    }

    /// The dispatcher hands over: what it has counted is written now.
    pub(super) async fn write_last_statistics(&mut self) {
        let last = async {
            for _ in 0..2 {
                if self.statistics.asked {
                    self.statistics.answers.recv().await;
                    self.statistics.asked = false;
                }
                if self.scheduler.has_counted() {
                    self.send_statistics();
                }
            }
        };
        if tokio::time::timeout(LAST_ROUND, last).await.is_err() {
            tracing::warn!("the statistics of the last seconds could not be written");
        }
    }
}

/// Writes what comes, for as long as the term lasts.
pub(super) async fn write(life: &Life, epoch: Epoch, mut rounds: Rounds) -> Infallible {
    // A store without a side for operators keeps none: what was counted is dropped.
    let Some(store) = life.operators.clone() else {
        drop(rounds);
        return std::future::pending().await;
    };
    let mut unwritten = Unwritten { begun: None, minutes: Vec::new() };
    let mut next_merge = Instant::now() + MERGE_INTERVAL;
    while let Some(minutes) = rounds.asks.recv().await {
        let written = caught(async {
            unwritten.take_in(minutes);
            unwritten.write(&*store, epoch).await
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.is_transient() => life.node.logs.no_answer("could not write statistics", &error),
            // Another dispatcher counts now.
            Ok(Err(StoreError::NotLeading)) => break,
            Ok(Err(error)) if life.node.logs.may(Kind::Refused) => tracing::warn!(%error, "could not write statistics"),
            Ok(Err(_)) => {}
            // Perhaps because of the sums that are stored. No dispatcher may stop for that.
            Err(panic) => {
                contain::panicked_aside(&life.node, PART, &*panic);
                unwritten.forget();
            }
        }
        // The dispatcher's side may be gone.
        let _ = rounds.answers.try_send(());
        if Instant::now() >= next_merge {
            next_merge = Instant::now() + MERGE_INTERVAL;
            if let Err(panic) = caught(merge(life, &*store)).await {
                contain::panicked_aside(&life.node, PART, &*panic);
            }
        }
    }
    // The dispatcher does not wait for answers any more.
    drop(rounds);
    std::future::pending().await
}

async fn merge(life: &Life, store: &dyn OperatorStore) {
    for _ in 0..MERGES {
        match store.merge_statistics().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) if error.is_transient() => {
                return life.node.logs.no_answer("could not merge statistics", &error);
            }
            Err(error) if life.node.logs.may(Kind::Refused) => {
                return tracing::warn!(%error, "could not merge statistics");
            }
            Err(_) => return,
        }
    }
}

struct Unwritten {
    begun: Option<(CountingTerm, Totals)>,
    /// In their order. All but the last are over; the last one comes again with more in it.
    minutes: Vec<Minute>,
}

impl Unwritten {
    /// Nothing of it is trusted: the next round begins with what is stored.
    fn forget(&mut self) {
        *self = Self { begun: None, minutes: Vec::new() };
    }

    fn take_in(&mut self, minutes: Vec<Minute>) {
        let known = |at: Timestamp| minutes.iter().any(|minute| minute.at == at);
        self.minutes.retain(|minute| !known(minute.at));
        self.minutes.extend(minutes);
        let over = self.minutes.len().saturating_sub(UNWRITTEN);
        self.minutes.drain(..over);
    }

    async fn write(&mut self, store: &dyn OperatorStore, epoch: Epoch) -> Result<(), StoreError> {
        let (term, totals) = match &mut self.begun {
            Some((term, totals)) => (*term, totals),
            begun => {
                let first = store.begin_statistics(epoch).await?;
                let (term, totals) = begun.insert((first.term, Totals::read(first.totals)));
                (*term, totals)
            }
        };
        while let Some(minute) = self.minutes.first() {
            for batch in batches(term, minute, totals) {
                store.write_statistics(batch).await?;
            }
            if self.minutes.len() > 1 {
                let over = self.minutes.remove(0);
                totals.take_in(&over);
            } else {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A minute in parts that are not too large. The totals are written with the last one.
fn batches(term: CountingTerm, minute: &Minute, totals: &mut Totals) -> Vec<WriteStatistics> {
    let empty = |first| WriteStatistics {
        term,
        at: minute.at,
        first,
        rows: Vec::new(),
        errors: Vec::new(),
        totals: Vec::new(),
    };
    let mut batches = vec![WriteStatistics { errors: minute.errors.clone(), ..empty(true) }];
    let room = |batch: &WriteStatistics| BATCH_ROWS - batch.rows.len() - batch.errors.len() - batch.totals.len();
    for row in &minute.rows {
        if batches.last().is_none_or(|batch| room(batch) == 0) {
            batches.push(empty(false));
        }
        batches.last_mut().expect("there is one").rows.push(row.clone());
    }
    for row in totals.with(minute) {
        if batches.last().is_none_or(|batch| room(batch) == 0) {
            batches.push(empty(false));
        }
        batches.last_mut().expect("there is one").totals.push(row);
    }
    batches
}
