//! What a worker's runs say: lines, progress, finished steps; without what their arguments have to hide.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{
    Incarnation,
    access::TokenId,
    job::AssignedJob,
    secret::{Mask, Secrets},
    story::{Finished, Line, LineAt, MAX_STEPS, line},
};
use turnwise_store::{Note, Settled, StoreError};

use super::{NoteAnswer, Said, WorkerError, Workers, known::Known};
use crate::{lock::locked, run::TRIM_EVERY};

/// How long a server goes by the secret fields that it has read. Those of a worker's own tasks count at once.
const SECRETS_FOR: Duration = Duration::from_secs(10);

/// The secret fields of all tasks of the installation.
#[derive(Debug, Default)]
pub(super) struct KnownSecrets(Mutex<Option<(Instant, Arc<Secrets>)>>);

impl Workers {
    /// Writes what runs say, each answered by itself. Repeated, it changes nothing.
    pub async fn note(
        &self,
        node: Incarnation,
        token: Option<TokenId>,
        said: Vec<Said>,
    ) -> Result<Vec<NoteAnswer>, WorkerError> {
        let known = self.known(node, token).await?;
        self.read_unknown(&known, said.iter().map(|one| one.job)).await?;
        let mut answers = vec![NoteAnswer::Stale; said.len()];
        let (mut places, mut notes) = (Vec::new(), Vec::new());
        for (at, one) in said.into_iter().enumerate() {
            let Some((job, steps)) = known.hands().at(one.job).map(|here| (Arc::clone(&here.job), here.steps)) else {
                continue;
            };
            if steps + one.steps.len() > MAX_STEPS {
                let problem = format!("a job has at most {MAX_STEPS} steps");
                return Err(turnwise_core::Invalid::new("steps", problem).into());
            }
            let mask = self.mask(&known, &job).await?;
            places.push((at, one.job, one.steps.len()));
            notes.push(self.note_of(&job, one, mask.as_ref()));
        }
        if notes.is_empty() {
            return Ok(answers);
        }
        let replies = self.store.note(node, notes).await?;
        for ((at, job, steps), reply) in places.into_iter().zip(replies) {
            answers[at] = match reply {
                Settled::Applied => {
                    known.hands().at(job).into_iter().for_each(|one| one.steps += steps);
                    NoteAnswer::Applied
                }
                Settled::Locked => NoteAnswer::Locked,
                _ => NoteAnswer::Stale,
            };
        }
        Ok(answers)
    }

    fn note_of(&self, job: &AssignedJob, said: Said, mask: Option<&Mask>) -> Note {
        let now = self.clock.now();
        let shown = |text: String| match mask {
            Some(mask) => mask.text(&text).into_owned(),
            None => text,
        };
        let lines: Vec<Line> = said
            .lines
            .into_iter()
            .map(|one| Line {
                at: LineAt { fence: job.fence, number: one.number },
                time: one.time.unwrap_or(now),
                level: one.level,
                text: line(&shown(one.text)),
            })
            .collect();
        // Earlier runs may have left a full log behind.
        let trim = lines.iter().any(|line| {
            line.at.number % TRIM_EVERY == TRIM_EVERY - 1 || (job.fence.assignments() > 1 && line.at.number == 0)
        });
        Note {
            job: job.id,
            fence: job.fence,
            progress: said.progress.map(|progress| match mask {
                Some(mask) => mask.progress(progress),
                None => progress,
            }),
            lines,
            trim,
            steps: said.steps.into_iter().map(|(name, result)| Finished { name, result }).collect(),
        }
    }

    /// What hides the secrets of a job, by the worker's own facts and by what every other node has noted; `None`: there is nothing to hide.
    pub(super) async fn mask(&self, known: &Known, job: &AssignedJob) -> Result<Option<Mask>, StoreError> {
        let all = self.all_secrets().await?;
        let own = known.worker.tasks.get(&job.task).map(|facts| &facts.secret);
        let mut pointers = all.of(&job.task).cloned().unwrap_or_default();
        pointers.extend(own.into_iter().flatten().cloned());
        if pointers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Mask::new(&pointers, &job.args)).filter(|mask| !mask.is_empty()))
    }

    async fn all_secrets(&self) -> Result<Arc<Secrets>, StoreError> {
        let fresh = locked(&self.secrets.0).clone().filter(|(read, _)| read.elapsed() < SECRETS_FOR);
        if let Some((_, secrets)) = fresh {
            return Ok(secrets);
        }
        let secrets = Arc::new(self.operators.secrets().await?);
        *locked(&self.secrets.0) = Some((Instant::now(), Arc::clone(&secrets)));
        Ok(secrets)
    }
}
