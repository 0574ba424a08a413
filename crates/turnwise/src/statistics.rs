//! Statistics: what happened, by the minute, hour and day.
//!
//! The dispatcher counts what begins and ends, and writes it every ten seconds. [`Turnwise::statistics`] reads it,
//! [`Turnwise::error_statistics`] which errors there were how often, [`Turnwise::totals`] what has happened since the beginning.
//!
//! ```
//! use turnwise::{Turnwise, statistics::{AskStatistics, By, Step}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnwise::Error> {
//! let turnwise = Turnwise::open("memory:").await?;
//! for point in turnwise.statistics(&AskStatistics::by(By::Queue, Step::Minute)).await? {
//!     println!("{} {}: {} ended", point.at, point.row.queue, point.row.sums.ended());
//! }
//! # Ok(()) }
//! ```

use std::collections::{BTreeMap, BTreeSet};

pub use turnwise_core::{
    Fingerprint,
    statistics::{BOUNDS, BUCKETS, Counted, ErrorRow, Histogram, Of, Row, Span as Step, Sums},
};
use turnwise_core::{
    GroupName, Invalid, QueueName, TaskName, Timestamp, access::Limits, statistics::choice::merge_errors,
};
use turnwise_store::{
    AskErrors as ReadErrors, AskOf, AskStatistics as ReadRows, OperatorStore, TimedError, TimedRow,
    operators::READ_ROWS,
};

use crate::{Error, Turnwise};

/// Points that one answer has, at most.
pub const MOST_POINTS: usize = 20_000;
/// Reads for one answer, of each span; one more for each further queue of a caller that is limited to several.
const READS: usize = 8;

/// How the numbers are broken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// All tasks of a queue together. Such points are [`Of::OtherTasks`].
    Queue,
    /// Each task of each queue.
    Task,
    /// Each group of one queue that has numbers of its own, and the others together.
    Group,
}

/// Which statistics to read.
#[derive(Debug, Clone)]
pub struct AskStatistics {
    /// How the numbers are broken down.
    pub by: By,
    /// The time that each point is about.
    pub step: Step,
    /// Start of the range; `None`: the last hour for minutes, two days for hours, thirty days for days.
    pub since: Option<Timestamp>,
    /// Up to then; `None`: up to now.
    pub until: Option<Timestamp>,
    /// Only of this queue; [`By::Group`] needs one.
    pub queue: Option<QueueName>,
    /// Only of this task, with [`By::Task`].
    pub task: Option<TaskName>,
    /// Only of this group, with [`By::Group`].
    pub group: Option<GroupName>,
}

impl AskStatistics {
    /// Of all queues and times.
    pub fn by(by: By, step: Step) -> Self {
        Self { by, step, since: None, until: None, queue: None, task: None, group: None }
    }
}

/// What happened at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// When the time began.
    pub at: Timestamp,
    /// How long it lasted: longer than was asked for where nothing finer is kept any more.
    pub step: Step,
    /// Whose numbers these are, and the numbers.
    pub row: Row,
}

/// Which errors to read.
#[derive(Debug, Clone, Default)]
pub struct AskErrors {
    /// Seen from then on; `None`: in the last day.
    pub since: Option<Timestamp>,
    /// Seen up to then; `None`: up to now.
    pub until: Option<Timestamp>,
    /// Also how often by the minute, hour or day; `None`: only how often in all.
    pub step: Option<Step>,
}

/// How often an error was seen, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCounts {
    /// In the whole time that was asked for.
    pub row: ErrorRow,
    /// In each step of it in which it was seen, in the order of time; empty unless steps were asked for.
    pub counts: Vec<ErrorCount>,
}

/// How often an error was seen at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCount {
    /// When the time began.
    pub at: Timestamp,
    /// How long it lasted: longer than was asked for where nothing finer is kept any more.
    pub step: Step,
    /// How many runs ended with the error.
    pub count: u64,
}

impl Turnwise {
    /// What happened, in the order of time. Minutes are kept for six hours, hours for two weeks, days for 400 days; what is older than that of
    /// the step that was asked for comes in longer steps.
    ///
    /// [`Error::Invalid`] if it is more than one answer holds, and on a store without a [side for operators](Turnwise::operators).
    pub async fn statistics(&self, ask: &AskStatistics) -> Result<Vec<Point>, Error> {
        self.statistics_within(ask, &Limits::default()).await
    }

    /// The same, of jobs within these limits: others are not read, so their number decides nothing. What is counted by task is nothing
    /// to limits on groups, and the other way round.
    #[doc(hidden)]
    pub async fn statistics_within(&self, ask: &AskStatistics, limits: &Limits) -> Result<Vec<Point>, Error> {
        let operators = self.operators()?;
        let asked = ask.of(limits)?;
        let (since, until) = self.times(ask.since, ask.until, default_time(ask.step)).await?;
        let mut points: BTreeMap<(Timestamp, Step, QueueName, Of), Sums> = BTreeMap::new();
        for span in Step::ALL {
            let step = span.max(ask.step);
            // A point is whole: it begins where its time does.
            let since = step.begin(since);
            for timed in read(&*operators, (span, since, until), &asked).await? {
                let Row { queue, of, sums } = timed.row;
                let of = if ask.by == By::Queue { Of::OtherTasks } else { of };
                points.entry((step.begin(timed.at), step, queue, of)).or_default().add(&sums);
            }
            if points.len() > MOST_POINTS {
                return Err(too_much());
            }
        }
        let point = |((at, step, queue, of), sums)| Point { at, step, row: Row { queue, of, sums } };
        Ok(points.into_iter().map(point).collect())
    }

    /// The errors of runs, retried ones among them, the most frequent first: at most 200. Jobs with one of them are listed by its
    /// fingerprint.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn error_statistics(&self, ask: &AskErrors) -> Result<Vec<ErrorCounts>, Error> {
        self.error_statistics_where(ask, |_| true).await
    }

    /// The same, of those that are wanted; fails as it does.
    #[doc(hidden)]
    pub async fn error_statistics_where(
        &self,
        ask: &AskErrors,
        wanted: impl Fn(&ErrorRow) -> bool,
    ) -> Result<Vec<ErrorCounts>, Error> {
        let operators = self.operators()?;
        let (since, until) = self.times(ask.since, ask.until, Step::Day.length()).await?;
        let (mut rows, mut counts) = (Vec::new(), BTreeMap::<_, BTreeMap<(Timestamp, Step), u64>>::new());
        for span in Step::ALL {
            let found = operators.error_statistics(ReadErrors { span, since: span.begin(since), until }).await?;
            for TimedError { at, error } in found.into_iter().filter(|timed| wanted(&timed.error)) {
                if let Some(step) = ask.step.map(|step| step.max(span)) {
                    let count = counts.entry(key(&error)).or_default().entry((step.begin(at), step)).or_default();
                    *count = count.saturating_add(error.count);
                }
                rows.push(error);
            }
        }
        let counted = |row: ErrorRow| {
            let counts = counts.remove(&key(&row)).unwrap_or_default().into_iter();
            let counts = counts.map(|((at, step), count)| ErrorCount { at, step, count }).collect();
            ErrorCounts { row, counts }
        };
        Ok(merge_errors(rows).into_iter().map(counted).collect())
    }

    /// What has happened since the beginning of the installation, by queue and task. These numbers never fall.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn totals(&self) -> Result<Vec<Row>, Error> {
        Ok(self.operators()?.statistics_totals().await?)
    }

    async fn times(
        &self,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        last: std::time::Duration,
    ) -> Result<(Timestamp, Timestamp), Error> {
        let until = match until {
            Some(until) => until,
            // The minute that is not over yet is part of it.
            None => self.now().await?.plus(Step::Minute.length()),
        };
        Ok((since.unwrap_or_else(|| until.minus(last)), until))
    }
}

impl AskStatistics {
    /// What to read for it, one after the other.
    fn of(&self, limits: &Limits) -> Result<Vec<AskOf>, Error> {
        let queues = narrowed(&self.queue, &limits.queues);
        if self.by == By::Group {
            let Some(queues) = queues.filter(|_| self.queue.is_some()) else {
                return Err(Invalid::new("queue", "statistics by group are those of one queue; name it").into());
            };
            let groups = narrowed(&self.group, &limits.groups);
            let queues = queues.into_iter().filter(|_| limits.tasks.is_none());
            return Ok(queues.map(|queue| AskOf::Groups { queue, groups: groups.clone() }).collect());
        }
        if limits.groups.is_some() {
            return Ok(Vec::new());
        }
        let tasks = narrowed(&self.task, &limits.tasks);
        Ok(match queues {
            None => vec![AskOf::Tasks { queue: None, tasks }],
            Some(queues) => {
                queues.into_iter().map(|queue| AskOf::Tasks { queue: Some(queue), tasks: tasks.clone() }).collect()
            }
        })
    }
}

/// The names that are asked for and within the limit; `None`: all.
fn narrowed<N: Ord + Clone>(asked: &Option<N>, limit: &Option<BTreeSet<N>>) -> Option<BTreeSet<N>> {
    match (asked, limit) {
        (None, limit) => limit.clone(),
        (Some(name), None) => Some(BTreeSet::from([name.clone()])),
        (Some(name), Some(limit)) => Some(limit.get(name).cloned().into_iter().collect()),
    }
}

/// What errors are told apart by.
fn key(error: &ErrorRow) -> (QueueName, TaskName, Fingerprint) {
    (error.queue.clone(), error.task.clone(), error.fingerprint)
}

/// All rows, in several reads where one does not bring them all.
async fn read(
    operators: &dyn OperatorStore,
    (span, since, until): (Step, Timestamp, Timestamp),
    asked: &[AskOf],
) -> Result<Vec<TimedRow>, Error> {
    let mut all = Vec::new();
    let mut rest = asked.iter();
    let Some(mut of) = rest.next() else { return Ok(all) };
    let mut begin = since;
    for _ in 1..READS + asked.len() {
        let rows = operators.statistics(ReadRows { span, since: begin, until, of: of.clone() }).await?;
        let Some(last) = rows.last().map(|row| row.at).filter(|_| rows.len() >= READ_ROWS as usize) else {
            all.extend(rows);
            match rest.next() {
                Some(next) => (of, begin) = (next, since),
                None => return Ok(all),
            }
            continue;
        };
        if last == begin {
            break;
        }
        // Of the last time there may be more.
        all.extend(rows.into_iter().filter(|row| row.at < last));
        begin = last;
    }
    Err(too_much())
}

fn default_time(step: Step) -> std::time::Duration {
    match step {
        Step::Minute => Step::Hour.length(),
        Step::Hour => Step::Day.length() * 2,
        Step::Day => Step::Day.length() * 30,
    }
}

fn too_much() -> Error {
    let problem = "these are more numbers than one answer holds; ask for a shorter time, a longer step or one name";
    Invalid::new("since", problem).into()
}
