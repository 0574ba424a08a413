//! Writing what runs have said (log, progress) and the results of their steps.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use turnwise_core::{job::AssignedJob, story::Finished};
use turnwise_store::{Note, Settled};

use crate::{
    backoff::Backoff,
    desk::Desk,
    life::Life,
    lock::locked,
    logs::Kind,
    outbox::{Ended, Outgoing, StepAnswer},
};

/// How long ends wait for what their runs have said to be written before them.
pub(crate) const LAST_NOTES: Duration = Duration::from_secs(1);
/// What runs have said, in one statement, about.
const NOTE_BYTES: usize = 4 * 1024 * 1024;
/// For so long ends do not wait for what their runs have said, after it could not be written in time.
const STUCK: Duration = Duration::from_secs(5);

/// Whether notes are being written, and whether ends may wait for that.
#[derive(Debug, Default)]
pub(crate) struct Noting {
    /// Held while it is written what runs have said so far.
    writing: tokio::sync::Mutex<()>,
    /// When ends could not wait any longer for what their runs had said.
    stuck: Mutex<Option<Instant>>,
}

impl Noting {
    /// What running jobs have said since the last time; the guard is to be held until that is written.
    async fn take(&self, desk: &Desk) -> (tokio::sync::MutexGuard<'_, ()>, Vec<Note>) {
        let writing = self.writing.lock().await;
        (writing, desk.take_notes())
    }

    /// Waits for what was taken from runs while they ran: after their ends it would be refused.
    pub(crate) async fn is_through(&self) {
        drop(self.writing.lock().await);
    }

    /// Whether ends may wait for notes: not for a while after that took too long.
    fn may_be_waited_for(&self) -> bool {
        locked(&self.stuck).is_none_or(|since| since.elapsed() >= STUCK)
    }

    fn is_stuck(&self) {
        *locked(&self.stuck) = Some(Instant::now());
    }
}

/// A step that is finished, and the run that waits for its result to be written. If a panic drops it before the run has its
/// answer, it is written again.
pub(super) struct FinishedStep<'a> {
    life: &'a Life,
    job: Arc<AssignedJob>,
    step: Finished,
    answer: Option<oneshot::Sender<StepAnswer>>,
}

impl FinishedStep<'_> {
    fn tell(mut self, what: StepAnswer) {
        if let Some(answer) = self.answer.take() {
            // An error means that the run is gone.
            let _ = answer.send(what);
        }
    }

    fn back(&mut self) -> Option<Outgoing> {
        let answer = self.answer.take()?;
        Some(Outgoing::Step { job: self.job.clone(), step: self.step.clone(), answer })
    }
}

impl Drop for FinishedStep<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.back() {
            self.life.outbox.send(step);
        }
    }
}

/// Ends are one thing, results of steps another. Returns the ends.
pub(super) fn part_steps<'a>(life: &'a Life, batch: Vec<Outgoing>, steps: &mut Vec<FinishedStep<'a>>) -> Vec<Outgoing> {
    let mut ends = Vec::with_capacity(batch.len());
    for outgoing in batch {
        match outgoing {
            Outgoing::Step { job, step, answer } => steps.push(FinishedStep { life, job, step, answer: Some(answer) }),
            end => ends.push(end),
        }
    }
    ends
}

/// Writes what runs have said before it is written how they ended. With a limit of time: where notes cannot be written, jobs end
/// all the same.
pub(super) async fn write_last_notes(life: &Life, ends: &[Outgoing]) {
    let said = |outgoing: &Outgoing| match outgoing {
        Outgoing::Ended(Ended { job, run: Some(run), .. }) => run.take_note(job.id, job.fence),
        _ => None,
    };
    let notes: Vec<Note> = ends.iter().filter_map(said).collect();
    let any_said = ends.iter().any(|end| matches!(end, Outgoing::Ended(Ended { run: Some(run), .. }) if run.noted()));
    if !any_said {
        return;
    }
    let lines: usize = notes.iter().map(|note| note.lines.len()).sum();
    let write = async {
        // What was taken from them while they ran.
        life.noting.is_through().await;
        write_notes(life, notes, Vec::new()).await;
    };
    let waited = life.noting.may_be_waited_for();
    if !waited || tokio::time::timeout(LAST_NOTES, write).await.is_err() {
        if waited {
            life.noting.is_stuck();
        }
        if life.node.logs.may(Kind::NotNoted) {
            tracing::warn!(
                lines,
                "what jobs have said last could not be written in time and is dropped; their ends go on"
            );
        }
    }
}

/// Writes what running jobs have said, and results of steps.
pub(super) async fn write_notes_so_far(life: &Life, steps: Vec<FinishedStep<'_>>) {
    let (writing, mut notes) = life.noting.take(&life.desk).await;
    let mut waiting = Vec::with_capacity(steps.len());
    for step in steps {
        let (job, fence, finished) = (step.job.id, step.job.fence, vec![step.step.clone()]);
        waiting.push((notes.len(), step));
        notes.push(Note { job, fence, progress: None, lines: Vec::new(), trim: false, steps: finished });
    }
    write_notes(life, notes, waiting).await;
    drop(writing);
}

/// Where to cut the notes, so that no statement has more than about [`NOTE_BYTES`].
fn cuts(notes: &[Note]) -> Vec<(usize, usize)> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, note) in notes.iter().enumerate() {
        let lines: usize = note.lines.iter().map(|line| line.text.len()).sum();
        let steps: usize = note.steps.iter().map(|step| step.result.as_str().len()).sum();
        if bytes > 0 && bytes + lines + steps > NOTE_BYTES {
            parts.push((from, at));
            (from, bytes) = (at, 0);
        }
        bytes += lines + steps;
    }
    parts.push((from, notes.len()));
    parts.reverse();
    parts
}

/// Writes notes, and answers the runs that wait for theirs whether they may go on.
async fn write_notes(life: &Life, notes: Vec<Note>, waiting: Vec<(usize, FinishedStep<'_>)>) {
    if notes.is_empty() {
        return;
    }
    let mut backoff = Backoff::default();
    let mut replies = vec![Settled::Superseded; notes.len()];
    let mut broken: Vec<(usize, String)> = Vec::new();
    // As many as fit in one call; one by one if the store cannot take one of them as it is.
    let mut parts = cuts(&notes);
    while let Some((from, to)) = parts.pop() {
        match life.store.note(life.incarnation, notes[from..to].to_vec()).await {
            Ok(told) => replies[from..to].copy_from_slice(&told),
            Err(error) if error.is_transient() => {
                if life.is_hopeless() {
                    break;
                }
                life.node.logs.no_answer("could not write what jobs have said", &error);
                parts.push((from, to));
                backoff.wait(&life.node.chance).await;
            }
            Err(_) if to - from > 1 => parts.extend((from..to).rev().map(|at| (at, at + 1))),
            Err(error) => {
                if life.node.logs.may(Kind::NotNoted) {
                    tracing::error!(%error, job = %notes[from].job, "a note cannot be stored and is lost");
                }
                broken.push((from, error.to_string()));
            }
        }
    }
    let mut said: Vec<Option<Note>> = notes.into_iter().map(Some).collect();
    for (at, mut step) in waiting {
        said[at] = None;
        if replies[at] == Settled::Locked {
            life.outbox.put_off(step.back().into_iter().collect());
            continue;
        }
        let reason = broken.iter().find(|(note, _)| *note == at);
        step.tell(match (reason, replies[at]) {
            (Some((_, error)), _) => StepAnswer::Broken(error.clone()),
            (None, Settled::Applied) => StepAnswer::Written,
            (None, _) => StepAnswer::Superseded,
        });
    }
    // An open transaction of another session holds the job: its note is written with the next one.
    let locked = said.into_iter().zip(&replies).filter(|(_, reply)| **reply == Settled::Locked);
    locked.filter_map(|(note, _)| note).for_each(|note| life.desk.take_back(note));
}
