//! What no event announces: runs that take long, tasks that block, jobs that lie in the buffer.

use std::time::Duration;

use tokio::time::Instant;
use turnwise_core::lifecycle::Outcome;
use turnwise_store::{Author, Settle, Settled};

use super::{
    decide::start,
    notes::write_last_notes,
    write::{Unwritten, write},
};
use crate::{
    life::Life,
    outbox::{Ended, Outgoing, PanickedWrites},
};

/// How often to look.
pub(super) const SWEEP: Duration = Duration::from_millis(100);
/// A run that takes longer than this is shown as `running`; a shorter one saves the write.
const MOMENT: Duration = Duration::from_millis(200);
/// A job that lies in the buffer longer is handed back: perhaps another node has a free slot.
const BUFFERED: Duration = Duration::from_secs(1);
/// But not more often than this: if no node has, it comes straight back.
const HAND_BACK_PAUSE: Duration = Duration::from_secs(10);
/// A task that does not react this long after its time is abandoned.
const ABANDON: Duration = Duration::from_secs(2);

/// Handles what no event announces. None of the runs it is about has ended, so nothing is being written about them.
pub(super) async fn sweep(life: &Life, mut put_off: Unwritten<'_>, alone: bool, handed_back: &mut Instant) {
    // Batches that are through travel with the next settlement; only when there is none, alone. So do ends that could not be
    // written with others.
    put_off.done = if alone { life.desk.take_done() } else { Vec::new() };
    write_last_notes(life, &put_off.batch).await;
    write(life, put_off).await;
    write_running(life).await;
    abandon(life);
    life.desk.close_slots();
    if handed_back.elapsed() >= HAND_BACK_PAUSE && life.hand_back(BUFFERED) > 0 {
        *handed_back = Instant::now();
    }
}

async fn write_running(life: &Life) {
    let running = life.desk.still_running(MOMENT);
    if running.is_empty() {
        return;
    }
    let settlements: Vec<_> = running.iter().map(|(job, started_at)| start(life, job, Some(*started_at))).collect();
    let author = Author::Node { node: life.incarnation, told: None };
    match life.store.settle(Settle { author, settlements, done: Vec::new() }).await {
        // Whatever else the answer: it was written, or the job is settled or in other hands, which its end will show.
        Ok(replies) => {
            let told = running.iter().zip(replies).filter(|(_, reply)| *reply != Settled::Locked);
            told.for_each(|((job, _), _)| life.desk.running_written(job.id));
        }
        Err(error) => life.node.logs.no_answer("could not write what is running", &error),
    }
}

/// Abandons runs whose tasks block their threads: they are settled as timed out.
fn abandon(life: &Life) {
    for abandoned in life.desk.abandon(ABANDON) {
        let (job, started_at) = (abandoned.job, abandoned.started_at);
        tracing::error!(job = %job.id, task = %job.task, "a task blocks its thread beyond its time; it is abandoned");
        life.outbox.send(Outgoing::Ended(Ended {
            job,
            run: Some(abandoned.run),
            outcome: Outcome::TimedOut { limit: abandoned.limit },
            started_at: Some(started_at),
            finished_at: Some(life.node.clock.now().max(started_at)),
            panicked: PanickedWrites::default(),
        }));
    }
}
