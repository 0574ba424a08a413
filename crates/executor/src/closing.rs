//! The end of a run that leaves a transaction open: what follows is decided as for every run, and written in that transaction.

use std::time::Duration;

use turnwise_core::{
    Failure,
    job::AssignedJob,
    lifecycle::{self, AGAIN, JobFacts, Outcome},
};
use turnwise_store::{Closed, Closing, Last, Settled, Undone};

use crate::{
    life::Life,
    logs::Kind,
    outbox::{Ended, Outgoing},
    outcome::met_somewhere,
    run::Run,
    settle::{
        decide::{Item, decide},
        notes::LAST_NOTES,
        write::finish,
    },
    trace::Record,
    worker::{hidden, panicked},
};

/// How often to check whether it still makes sense to wait for the reply to a commit.
const LOOK: Duration = Duration::from_millis(200);

/// Commits what the run has done together with its end, if it ended well; else rolls all of it back.
pub(crate) async fn close(life: &Life, closing: Box<dyn Closing>, ended: Ended) {
    if !ended_well(&ended) || !life.desk.end(&ended.job, ended.run.as_deref()) {
        let undone = closing.roll_back().await;
        return life.ended(match (undone, &ended.outcome) {
            // The connection was lost: the task's statements failed from then on, whatever error it made of that.
            (Undone::Cut, Outcome::Error(failure)) => {
                let outcome = after_cut(life, &ended.job, failure.clone());
                Ended { outcome, ..ended }
            }
            _ => ended,
        });
    }
    // With a limit of time: where notes cannot be written, jobs end all the same.
    let _ = tokio::time::timeout(LAST_NOTES, life.noting.is_through()).await;
    let (job, run) = (ended.job.clone(), ended.run.clone());
    let told = life.term.epoch();
    let (item, settlement) = decide(life, ended);
    // As the decision has seen it: a cancel may arrive between two reads.
    if settlement.saw_cancel {
        closing.roll_back().await;
        return life.outbox.send(item.back());
    }
    let note = run.as_ref().and_then(|run| run.take_note(settlement.job, settlement.fence));
    let last = Last { node: life.incarnation, told, settlement: settlement.clone(), note: note.clone() };
    let closed = tokio::select! {
        biased;
        closed = closing.settle(last) => closed,
        () = hopeless(life) => {
            tracing::error!(job = %settlement.job, "giving up; whether its transaction was committed is not known here");
            life.trace(|| Record::GiveUp { job: settlement.job, fence: settlement.fence.0 });
            return life.desk.give_up(std::iter::once((settlement.job, settlement.fence)));
        }
    };
    let outcome = match closed {
        Closed::Committed => {
            finish(life, told, vec![item], vec![settlement], vec![Settled::Applied], false);
            // Jobs may have been submitted with it; and the batch it was the last of may be removed.
            life.store.bell().ring_news();
            return life.outbox.wake();
        }
        Closed::Refused(reply) => {
            if let (Settled::CancelRequested, Some(run), Some(note)) = (reply, run, note) {
                run.put_back(note);
            }
            return finish(life, told, vec![item], vec![settlement], vec![reply], false);
        }
        Closed::Failed(error) => Outcome::Error(shown(run.as_deref(), met_somewhere(error))),
        Closed::NotNow(error) => {
            if life.node.logs.may(Kind::Refused) {
                let error = shown(run.as_deref(), Failure::new(error.to_string()));
                tracing::warn!(%error, job = %settlement.job, "its end could not be committed; it runs again");
            }
            Outcome::Snooze { wait: AGAIN }
        }
        Closed::Cut(error) => after_cut(life, &job, shown(run.as_deref(), met_somewhere(error))),
        Closed::TimedOut { limit } => Outcome::TimedOut { limit },
        Closed::Panicked(panic) => {
            let outcome = panicked(&*panic);
            run.as_ref().map_or_else(|| outcome.clone(), |run| hidden(run.mask(), outcome.clone()))
        }
    };
    if let (Some(run), Some(note)) = (run, note) {
        run.put_back(note);
    }
    if let Item::Ended { ended, .. } = item {
        life.outbox.send(Outgoing::Ended(Ended { outcome, ..ended }));
    }
}

/// What went wrong, without the job's secrets: the database's texts may repeat values.
fn shown(run: Option<&Run>, failure: Failure) -> Failure {
    match run.and_then(Run::mask) {
        Some(mask) => mask.failure(failure),
        None => failure,
    }
}

fn after_cut(life: &Life, job: &AssignedJob, failure: Failure) -> Outcome {
    if life.node.logs.may(Kind::Cut) {
        tracing::warn!(error = %failure.text(), job = %job.id, "it lost its connection before its end could be committed");
    }
    lifecycle::after_cut(&JobFacts::from(job), failure)
}

fn ended_well(ended: &Ended) -> bool {
    match ended.outcome {
        Outcome::Done { .. } | Outcome::Next { .. } => true,
        // A run that only sleeps begins anew, and does all of it once more.
        Outcome::Snooze { .. } => ended.run.as_ref().is_none_or(|run| run.suspended().is_none()),
        _ => false,
    }
}

async fn hopeless(life: &Life) {
    while !life.is_hopeless() {
        tokio::time::sleep(LOOK).await;
    }
}
