//! Dead letters: jobs by what went wrong with them.

use std::collections::BTreeMap;

use serde::Serialize;
use turnwise::Timestamp;

use crate::{
    args,
    error::Failure,
    place::{Shown, read},
    print,
    view::Job,
};

/// Jobs that failed in the same way.
#[derive(Debug, Serialize)]
struct SameError<'a> {
    fingerprint: &'a str,
    task: &'a str,
    jobs: usize,
    first: Timestamp,
    last: Timestamp,
    /// Of the last one.
    error: &'a str,
    example: &'a str,
}

pub(crate) fn by_error(jobs: &[Shown], call: &args::Table) -> Result<(), Failure> {
    let jobs = jobs.iter().map(|job| read(job)).collect::<Result<Vec<Job>, _>>()?;
    let errors = grouped(&jobs);
    if call.json {
        print::array(errors)?;
    } else {
        let rows = errors.iter().map(|same| {
            [
                same.jobs.to_string(),
                same.fingerprint.to_owned(),
                same.task.to_string(),
                same.first.to_string(),
                same.last.to_string(),
                print::brief(same.error),
            ]
        });
        print::table(["JOBS", "FINGERPRINT", "TASK", "FIRST", "LAST", "ERROR"], rows, call.wide)?;
    }
    Ok(())
}

/// By task and fingerprint, the most frequent first.
fn grouped(jobs: &[Job]) -> Vec<SameError<'_>> {
    let mut errors: BTreeMap<(&str, &str), SameError<'_>> = BTreeMap::new();
    for job in jobs {
        let (Some(fingerprint), Some(error)) = (&job.fingerprint, &job.error) else { continue };
        let at = job.finished_at.unwrap_or(job.submitted_at);
        let same = errors.entry((&job.task, fingerprint)).or_insert(SameError {
            fingerprint,
            task: &job.task,
            jobs: 0,
            first: at,
            last: at,
            error,
            example: &job.id,
        });
        same.jobs += 1;
        same.first = same.first.min(at);
        if at >= same.last {
            (same.last, same.error, same.example) = (at, error, &job.id);
        }
    }
    let mut errors: Vec<_> = errors.into_values().collect();
    errors.sort_by_key(|same| (std::cmp::Reverse(same.jobs), same.fingerprint));
    errors
}
