//! Writing how runs ended: whatever has ended since the last write goes into the next one.
//!
//! `decide` what follows an end → `write` the ends → `notes` what runs have said → `sweep` what no event announces.

pub(crate) mod decide;
pub(crate) mod notes;
mod sweep;
pub(crate) mod write;

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    StreamExt,
    stream::{FuturesOrdered, FuturesUnordered},
};
use tokio::time::Instant;

use self::{
    notes::{part_steps, write_last_notes, write_notes_so_far},
    sweep::{SWEEP, sweep},
    write::{Unwritten, give_up_put_off, write},
};
use crate::life::Life;

/// Writes on their way at once. The first goes as soon as something has ended; one beside it only if it is full: what ends
/// meanwhile would otherwise travel in many small batches.
const AHEAD: usize = 2;

/// Between two tries of an end that cannot be written now, while its neighbours' can.
const PUT_OFF: Duration = Duration::from_millis(500);

/// Runs until the life is over and everything is written. Should it panic, what it had taken to be written is there to be
/// written again when it is run again.
pub(crate) async fn settle(life: Arc<Life>) {
    life.term.no_write_is_under_way();
    let mut sweeps = tokio::time::interval(SWEEP);
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut handed_back = Instant::now();
    // In the order they began in: when one is over, all before it have been reported.
    let mut writes = FuturesOrdered::new();
    // What running jobs say, one write at a time; ends go on beside it.
    let mut notes = NoteWrites::new();
    let mut steps = Vec::new();
    loop {
        if writes.is_empty() || (writes.len() < AHEAD && life.outbox.has_a_full_batch()) {
            let batch = life.outbox.take();
            if !batch.is_empty() {
                life.term.write_begins();
                let mut unwritten = Unwritten::new(&life, part_steps(&life, batch, &mut steps));
                // Before any later end is on its way: it might be that of a run that has just said something.
                beside(&life, &mut writes, &mut notes, write_last_notes(&life, &unwritten.batch)).await;
                unwritten.done = life.desk.take_done();
                writes.push_back(write(&life, unwritten));
                continue;
            }
        }
        if notes.is_empty() && !steps.is_empty() {
            notes.push(write_notes_so_far(&life, std::mem::take(&mut steps)));
        }
        if writes.is_empty() && life.over.is_up() {
            while notes.next().await.is_some() {}
            let put_off = part_steps(&life, life.outbox.take_all_put_off(), &mut steps);
            let mut unwritten = Unwritten::new(&life, put_off);
            write_last_notes(&life, &unwritten.batch).await;
            unwritten.done = life.desk.take_done();
            write(&life, unwritten).await;
            return give_up_put_off(&life);
        }
        tokio::select! {
            // The sweep first: it is rare, and a busy outbox must not keep it off.
            biased;
            _ = sweeps.tick() => {
                if notes.is_empty() {
                    notes.push(write_notes_so_far(&life, std::mem::take(&mut steps)));
                }
                let alone = writes.is_empty();
                let put_off = part_steps(&life, life.outbox.take_put_off(PUT_OFF), &mut steps);
                let put_off = Unwritten::new(&life, put_off);
                beside(&life, &mut writes, &mut notes, sweep(&life, put_off, alone, &mut handed_back)).await;
            }
            Some(()) = writes.next() => life.term.write_is_over(),
            Some(()) = notes.next() => {}
            () = life.outbox.woken() => {}
            () = life.over.wait(), if writes.is_empty() => {}
        }
    }
}

/// Writes of what running jobs say, at most one.
type NoteWrites<F> = FuturesUnordered<F>;

/// Does this while writes go on: they hold connections, and it may need one.
async fn beside<T>(
    life: &Life,
    writes: &mut FuturesOrdered<impl Future<Output = ()>>,
    notes: &mut NoteWrites<impl Future<Output = ()>>,
    what: impl Future<Output = T>,
) -> T {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return done,
            Some(()) = writes.next() => life.term.write_is_over(),
            Some(()) = notes.next() => {}
        }
    }
}
