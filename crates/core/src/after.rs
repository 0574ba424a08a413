//! Jobs that wait for jobs: which ones a job waits for, what follows when one of them ends badly, and what is refused.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
};

use crate::{
    job::{JobId, JobState},
    lifecycle::Event,
    name::Invalid,
};

/// Most jobs that one job may wait for.
pub const MAX_AFTER: usize = 10_000;

/// What becomes of a job when one it waits for has failed or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// It fails too, at once.
    #[default]
    Fail,
    /// It runs all the same, once all have ended.
    Run,
    /// It is cancelled, at once.
    Cancel,
}

impl OnFailure {
    /// Every policy.
    pub const ALL: [OnFailure; 3] = [Self::Fail, Self::Run, Self::Cancel];

    /// The word for it, as it is printed and parsed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Run => "run",
            Self::Cancel => "cancel",
        }
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OnFailure {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or_else(|| Invalid::new("on_failure", format!("must be fail, run or cancel, not {text:?}")))
    }
}

/// The jobs that a job waits for. Most wait for none, and take no room for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct After(Option<Box<Inner>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    ids: Vec<JobId>,
    on_failure: OnFailure,
}

impl After {
    /// An id that is given twice counts once. An empty list waits for none. Refuses more than [`MAX_AFTER`].
    pub fn new(ids: impl IntoIterator<Item = JobId>, on_failure: OnFailure) -> Result<Self, Invalid> {
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() > MAX_AFTER {
            return Err(Invalid::new(
                "after",
                format!("a job may wait for at most {MAX_AFTER} jobs, not {}", ids.len()),
            ));
        }
        Ok(Self((!ids.is_empty()).then(|| Box::new(Inner { ids, on_failure }))))
    }

    /// Whether the job waits for no other.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// In ascending order.
    pub fn ids(&self) -> &[JobId] {
        self.0.as_ref().map_or(&[], |inner| &inner.ids)
    }

    /// `None`: it waits for no job.
    pub fn on_failure(&self) -> Option<OnFailure> {
        Some(self.0.as_ref()?.on_failure)
    }
}

/// The state of the jobs that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaits {
    pub on_failure: OnFailure,
    /// Those that have not ended, in ascending order.
    pub open: Vec<JobId>,
    /// The first, by id, that failed or was cancelled.
    pub ended_badly: Option<(JobId, JobState)>,
}

/// What follows for the job that waits.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Wait,
    Run,
    /// It ends without having run.
    End(Event),
}

impl Awaits {
    pub fn verdict(&self) -> Verdict {
        match (self.on_failure, self.ended_badly) {
            (OnFailure::Fail, Some((job, state))) => Verdict::End(Event::AwaitedFailed { job, state, cancel: false }),
            (OnFailure::Cancel, Some((job, state))) => Verdict::End(Event::AwaitedFailed { job, state, cancel: true }),
            _ if self.open.is_empty() => Verdict::Run,
            _ => Verdict::Wait,
        }
    }
}

/// Refuses new jobs of one call, each given with the jobs it waits for, if some of them wait for one another in a circle. (A job
/// that is submitted later can only wait for jobs that are there already, so there is no other way to make a circle.)
pub fn check<'a>(new: impl IntoIterator<Item = (JobId, &'a [JobId])>) -> Result<(), Invalid> {
    let after: HashMap<JobId, &[JobId]> = new.into_iter().collect();
    match circle(&after) {
        None => Ok(()),
        Some(circle) if circle.len() == 1 => Err(Invalid::new("after", format!("job {} waits for itself", circle[0]))),
        Some(circle) => Err(Invalid::new("after", format!("jobs wait for one another: {}", print(&circle)))),
    }
}

/// Most jobs of a circle that the message names.
const NAMED: usize = 8;

fn print(circle: &[JobId]) -> String {
    let named: Vec<_> = circle.iter().take(NAMED).map(JobId::to_string).collect();
    let rest = circle.len() - named.len();
    let more = if rest > 0 { format!(" → ({rest} more)") } else { String::new() };
    format!("{}{more} → {}", named.join(" → "), circle[0])
}

/// Walks down from each job once, with a list of its own for a stack: a chain may be as long as a batch.
fn circle(after: &HashMap<JobId, &[JobId]>) -> Option<Vec<JobId>> {
    let mut starts: Vec<_> = after.keys().copied().collect();
    starts.sort_unstable();
    let mut done: HashSet<JobId> = HashSet::new();
    for start in starts {
        let mut path: Vec<(JobId, usize)> = vec![(start, 0)];
        let mut on_path = HashSet::from([start]);
        while let Some((job, next)) = path.last_mut() {
            let awaited = after.get(job).and_then(|ids| ids.get(*next)).copied();
            *next += 1;
            match awaited {
                Some(id) if on_path.contains(&id) => {
                    return Some(path.iter().map(|(job, _)| *job).skip_while(|job| *job != id).collect());
                }
                Some(id) if after.contains_key(&id) && !done.contains(&id) => {
                    on_path.insert(id);
                    path.push((id, 0));
                }
                Some(_) => {}
                None => {
                    on_path.remove(job);
                    done.insert(*job);
                    path.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> JobId {
        JobId::from_uuid(Uuid::from_u128(n))
    }

    fn job(n: u128, after: &[u128]) -> (JobId, Vec<JobId>) {
        (id(n), after.iter().map(|&n| id(n)).collect())
    }

    fn check(jobs: &[(JobId, Vec<JobId>)]) -> Result<(), Invalid> {
        super::check(jobs.iter().map(|(id, after)| (*id, after.as_slice())))
    }

    #[test]
    fn each_awaited_job_counts_once_and_there_is_a_bound() {
        let after = After::new([id(2), id(1), id(2)], OnFailure::Run).unwrap();
        assert_eq!((after.ids(), after.on_failure()), (&[id(1), id(2)][..], Some(OnFailure::Run)));
        assert_eq!(After::new([], OnFailure::Run).unwrap(), After::default());
        let many = After::new((0..=MAX_AFTER as u128).map(id), OnFailure::Fail).unwrap_err();
        assert_eq!(many.to_string(), "after: a job may wait for at most 10000 jobs, not 10001");
        for policy in OnFailure::ALL {
            assert_eq!(policy.name().parse::<OnFailure>().unwrap(), policy);
        }
        let wrong = "ignore".parse::<OnFailure>().unwrap_err();
        assert_eq!(wrong.to_string(), r#"on_failure: must be fail, run or cancel, not "ignore""#);
    }

    #[test]
    fn a_circle_is_named_and_a_job_outside_of_it_is_not() {
        let myself = check(&[job(1, &[1])]).unwrap_err().to_string();
        assert_eq!(myself, format!("after: job {} waits for itself", id(1)));
        let circle = check(&[job(9, &[1]), job(1, &[2]), job(2, &[3, 7]), job(3, &[1])]).unwrap_err().to_string();
        assert_eq!(circle, format!("after: jobs wait for one another: {} → {} → {} → {}", id(1), id(2), id(3), id(1)));
        assert!(check(&[job(4, &[1, 2, 3]), job(3, &[1, 2]), job(2, &[1]), job(1, &[])]).is_ok());
    }

    #[test]
    fn a_circle_of_a_hundred_thousand_is_found_and_not_printed_whole() {
        let last = 100_000;
        let mut jobs: Vec<_> = (1..=last).map(|n| job(n, &[n + 1])).collect();
        assert!(check(&jobs).is_ok());
        jobs.push(job(last + 1, &[1]));
        let circle = check(&jobs).unwrap_err().to_string();
        assert!(circle.contains("(99993 more)") && circle.len() < 1_000, "{circle}");
    }

    #[test]
    fn the_verdict_waits_for_all_and_ends_at_the_first_bad_end() {
        let awaits = |on_failure, open: &[u128], ended_badly| Awaits {
            on_failure,
            open: open.iter().map(|&n| id(n)).collect(),
            ended_badly,
        };
        let bad = Some((id(7), JobState::Failed));
        let end = |cancel| Verdict::End(Event::AwaitedFailed { job: id(7), state: JobState::Failed, cancel });
        for policy in OnFailure::ALL {
            assert_eq!(awaits(policy, &[1], None).verdict(), Verdict::Wait);
            assert_eq!(awaits(policy, &[], None).verdict(), Verdict::Run);
        }
        assert_eq!(awaits(OnFailure::Fail, &[1], bad).verdict(), end(false));
        assert_eq!(awaits(OnFailure::Cancel, &[1], bad).verdict(), end(true));
        assert_eq!(awaits(OnFailure::Run, &[1], bad).verdict(), Verdict::Wait);
        assert_eq!(awaits(OnFailure::Run, &[], bad).verdict(), Verdict::Run);
    }

    proptest! {
        /// A job that waits only for smaller numbers cannot be in a circle; one step back closes one exactly if it is met.
        #[test]
        fn a_circle_is_found_exactly_if_there_is_one(
            edges in proptest::collection::vec((1u128..30, 1u128..30), 0..60),
        ) {
            let jobs: Vec<_> = (1..30).map(|n| {
                let after: Vec<_> = edges.iter().filter(|(from, _)| *from == n).map(|(_, to)| *to).collect();
                job(n, &after)
            }).collect();
            // Takes out every job that can end, one after the other; what is left over are circles.
            let mut left: HashSet<u128> = (1..30).collect();
            while let Some(next) = left.iter().copied()
                .find(|n| edges.iter().all(|(from, to)| from != n || !left.contains(to)))
            {
                left.remove(&next);
            }
            prop_assert_eq!(check(&jobs).is_err(), !left.is_empty());
        }
    }
}
