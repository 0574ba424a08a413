//! Statistics: what the dispatcher has counted, as it is written, merged as it ages, and read.

use std::collections::BTreeSet;

use turnwise_core::{
    GroupName, QueueName, TaskName, Timestamp,
    statistics::{ErrorRow, Of, Row, Span, Sums},
};

use crate::StoreError;

/// Rows that one read returns, at most.
pub const READ_ROWS: u32 = 50_000;

/// A dispatcher's term of counting. One epoch may have several: each begins with nothing counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CountingTerm(pub i64);

impl CountingTerm {
    /// Of rows that were merged.
    pub const MERGED: CountingTerm = CountingTerm(0);
}

/// What a dispatcher begins to count with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunStatistics {
    pub term: CountingTerm,
    /// The running totals so far.
    pub totals: Vec<Row>,
}

/// What happened in a minute, or has happened so far.
#[derive(Debug, Clone)]
pub struct WriteStatistics {
    /// Whose counts these are. What was counted in one minute in different terms is added when it is read.
    pub term: CountingTerm,
    /// When the minute began.
    pub at: Timestamp,
    /// Whether this replaces all that was written of this minute in this term. `false`: it is one more batch of it, and replaces only
    /// rows of the same names.
    pub first: bool,
    pub rows: Vec<Row>,
    pub errors: Vec<ErrorRow>,
    /// Running totals, with this minute; they replace those of the same names.
    pub totals: Vec<Row>,
}

/// Which statistics to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskStatistics {
    pub span: Span,
    /// Rows that begin from then on, and before then.
    pub since: Timestamp,
    pub until: Timestamp,
    pub of: AskOf,
}

/// Of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskOf {
    /// The tasks of one queue, or of all; `None`: all, and the sum of those without rows of their own.
    Tasks { queue: Option<QueueName>, tasks: Option<BTreeSet<TaskName>> },
    /// The groups of a queue; `None`: as for tasks.
    Groups { queue: QueueName, groups: Option<BTreeSet<GroupName>> },
}

impl AskOf {
    pub fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::Tasks { queue, .. } => queue.as_ref(),
            Self::Groups { queue, .. } => Some(queue),
        }
    }

    /// The names that are asked for; `None`: all.
    pub fn names(&self) -> Option<Vec<&str>> {
        match self {
            Self::Tasks { tasks, .. } => Some(tasks.as_ref()?.iter().map(TaskName::as_str).collect()),
            Self::Groups { groups, .. } => Some(groups.as_ref()?.iter().map(GroupName::as_str).collect()),
        }
    }

    /// The kinds of rows, by their numbers in the database.
    pub fn kinds(&self) -> &'static [i16] {
        match self {
            Self::Tasks { tasks: None, .. } => &[TASK, OTHER_TASKS],
            Self::Tasks { .. } => &[TASK],
            Self::Groups { groups: None, .. } => &[GROUP, OTHER_GROUPS],
            Self::Groups { .. } => &[GROUP],
        }
    }

    /// Whether rows of this are asked for.
    pub fn wants(&self, of: &Of) -> bool {
        match (self, of) {
            (Self::Tasks { tasks, .. }, Of::Task(task)) => tasks.as_ref().is_none_or(|names| names.contains(task)),
            (Self::Tasks { tasks, .. }, Of::OtherTasks) => tasks.is_none(),
            (Self::Groups { groups, .. }, Of::Group(group)) => {
                groups.as_ref().is_none_or(|names| names.contains(group))
            }
            (Self::Groups { groups, .. }, Of::OtherGroups) => groups.is_none(),
            (Self::Tasks { .. }, Of::Group(_) | Of::OtherGroups)
            | (Self::Groups { .. }, Of::Task(_) | Of::OtherTasks) => false,
        }
    }
}

/// A row with the time that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedRow {
    pub at: Timestamp,
    pub row: Row,
}

/// How often an error was seen in the time that begins then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedError {
    pub at: Timestamp,
    pub error: ErrorRow,
}

/// Which errors to read: those of rows of a span that begin from then on, and before then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskErrors {
    pub span: Span,
    pub since: Timestamp,
    pub until: Timestamp,
}

// Numbers in the database; never reuse one.
const TASK: i16 = 0;
const OTHER_TASKS: i16 = 1;
const GROUP: i16 = 2;
const OTHER_GROUPS: i16 = 3;

/// All kinds of rows, by their numbers in the database.
pub const ROW_KINDS: [i16; 4] = [TASK, OTHER_TASKS, GROUP, OTHER_GROUPS];

/// Rows that were read kind by kind, each at most [`READ_ROWS`] in the order of time: the first of all of them.
pub fn in_order(mut rows: Vec<TimedRow>) -> Vec<TimedRow> {
    // Rows of one name are in the order of their terms already, and stay so.
    rows.sort_by(|a, b| (a.at, &a.row.queue, &a.row.of).cmp(&(b.at, &b.row.queue, &b.row.of)));
    rows.truncate(READ_ROWS as usize);
    rows
}

/// Of what a row is, as two columns.
pub fn of_columns(of: &Of) -> (i16, &str) {
    match of {
        Of::Task(task) => (TASK, task.as_str()),
        Of::OtherTasks => (OTHER_TASKS, ""),
        Of::Group(group) => (GROUP, group.as_str()),
        Of::OtherGroups => (OTHER_GROUPS, ""),
    }
}

/// A row, read back. What cannot be read is refused, and never guessed: a newer program may have written it.
pub fn read_row(queue: &str, kind: i16, name: &str, sums: &[u8]) -> crate::store::Result<Row> {
    let newer = || StoreError::Refused("statistics are not of this version; use a newer turnwise".to_owned());
    let of = match kind {
        TASK => Of::Task(TaskName::stored(name.into())),
        OTHER_TASKS => Of::OtherTasks,
        GROUP => Of::Group(GroupName::stored(name.into())),
        OTHER_GROUPS => Of::OtherGroups,
        _ => return Err(newer()),
    };
    let sums = Sums::from_bytes(sums).ok_or_else(newer)?;
    Ok(Row { queue: QueueName::stored(queue.into()), of, sums })
}
