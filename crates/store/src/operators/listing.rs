//! Lists of jobs for operators: pages in a stable order, each after a bounded look.

use std::{cmp::Reverse, collections::BTreeSet, fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use turnwise_core::{GroupName, Invalid, Job, JobId, JobState, NodeName, QueueName, TaskName, Timestamp, UniqueKey};
use uuid::Uuid;

/// Most jobs of one page.
pub const MAX_PAGE: u32 = 1_000;

/// Rows that one call looks at in each of the two tables, unfinished and finished jobs, where no index leads to the ones that are asked
/// for: 20,000 in all.
pub const LOOKS: u32 = 10_000;

/// Most groups of a list whose jobs are found by their index: each is looked through by itself, down to a full page.
pub const GROUPS_BY_INDEX: usize = 16;

/// Which jobs to list: all given conditions must hold. `docs/lists.md` says which index serves which.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    /// One of these; empty: any.
    pub states: BTreeSet<JobState>,
    /// One of these; `None`: any.
    pub queues: Option<BTreeSet<QueueName>>,
    /// One of these; `None`: any.
    pub groups: Option<BTreeSet<GroupName>>,
    /// One of these; `None`: any.
    pub tasks: Option<BTreeSet<TaskName>>,
    /// In the hands of this node, or run by it last.
    pub node: Option<NodeName>,
    /// Submitted at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
    /// Failed, or waiting for a retry, with an error of this kind ([`Job::fingerprint`]).
    pub fingerprint: Option<String>,
    /// A job that holds this unique key now, in whatever scope.
    pub unique: Option<UniqueKey>,
    /// With this text in its arguments, to the letter.
    pub args: Option<String>,
    /// Tasks with secret fields: whatever the text, their jobs are found, so that neither a page nor its cursor shows whether a secret has
    /// the text in it. The caller looks at what may be shown of their arguments.
    pub masked: BTreeSet<TaskName>,
}

impl ListFilter {
    /// Whether a job meets all conditions; whether it holds the unique key is for the store to find out.
    pub fn admits(&self, job: &Job) -> bool {
        fn one_of<N: Ord>(wanted: &Option<BTreeSet<N>>, name: &N) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted.contains(name))
        }
        self.wants_state(job.state)
            && one_of(&self.queues, &job.queue)
            && one_of(&self.groups, &job.group)
            && one_of(&self.tasks, &job.task)
            && self.node.as_ref().is_none_or(|node| job.node.as_ref() == Some(node))
            && self.since.is_none_or(|since| job.submitted_at >= since)
            && self.until.is_none_or(|until| job.submitted_at < until)
            && self.fingerprint.as_ref().is_none_or(|wanted| job.fingerprint.as_ref() == Some(wanted))
            && self.args_admit(&job.task, job.args.as_str())
    }

    /// Whether a job of this task with these arguments meets the condition about them.
    pub fn args_admit(&self, task: &TaskName, args: &str) -> bool {
        let found = |text: &String| args.contains(text.as_str()) || self.masked.contains(task);
        self.args.as_ref().is_none_or(found)
    }

    /// Whether a job in this state may be asked for: with a kind of error, none that got over it.
    pub fn wants_state(&self, state: JobState) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && (self.fingerprint.is_none() || !matches!(state, JobState::Success | JobState::Cancelled))
    }

    /// Whether any finished job, or any unfinished one, may be asked for: the others' table need not be looked at.
    pub fn wants(&self, finished: bool) -> bool {
        JobState::ALL.into_iter().any(|state| state.finished() == finished && self.wants_state(state))
    }

    /// What leads to the jobs: the first of these that is given.
    pub fn found_by(&self) -> FoundBy<'_> {
        match self {
            Self { unique: Some(key), .. } => FoundBy::UniqueKey(key),
            Self { groups: Some(groups), .. } if groups.len() <= GROUPS_BY_INDEX => FoundBy::Groups(groups),
            Self { fingerprint: Some(kind), .. } => FoundBy::Fingerprint(kind),
            _ => FoundBy::Id,
        }
    }

    /// Whether rows are looked at one by one in some store: a page may then cost as many as [`LOOKS`] allows.
    pub fn checks_rows(&self) -> bool {
        let Self { states, queues, groups, tasks, node, since, args, until: _, fingerprint, unique: _, masked: _ } =
            self;
        let by_groups = matches!(self.found_by(), FoundBy::Groups(_));
        !states.is_empty()
            || queues.is_some()
            || (groups.is_some() && !by_groups)
            || (fingerprint.is_some() && by_groups)
            || tasks.is_some()
            || node.is_some()
            || since.is_some()
            || args.is_some()
    }

    /// Whether every job is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// No job with a later id can have been submitted before `until`: an id is at most a minute ahead of its submit.
    fn newest(&self) -> JobId {
        let last = |until: Timestamp| {
            let millis = until.plus(JobId::MAX_AHEAD).micros() / 1_000 + 1;
            JobId::from_uuid(Uuid::from_u128((u128::try_from(millis).unwrap_or(0) << 80) | (u128::MAX >> 48)))
        };
        self.until.map_or(JobId::from_uuid(Uuid::max()), last)
    }
}

/// What leads a list to its jobs; its other conditions are checked row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy<'a> {
    /// The jobs that hold this key.
    UniqueKey(&'a UniqueKey),
    /// The jobs of each of these groups, [`GROUPS_BY_INDEX`] at most.
    Groups(&'a BTreeSet<GroupName>),
    /// The jobs with an error of this kind.
    Fingerprint(&'a str),
    /// All jobs.
    Id,
}

impl FoundBy<'_> {
    /// How many rows one look sees at most: together, those of a table see [`LOOKS`].
    pub fn looks(&self) -> u32 {
        let looks = match self {
            Self::Groups(groups) => u32::try_from(groups.len()).unwrap_or(LOOKS).max(1),
            Self::UniqueKey(_) | Self::Fingerprint(_) | Self::Id => 1,
        };
        LOOKS / looks
    }
}

/// Where the next page begins; opaque to callers. The smaller of two begins later in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor(JobId);

impl ListCursor {
    /// The page that follows a job, whether that job is there or not.
    pub fn after(id: JobId) -> Self {
        Self(id)
    }

    /// The page that begins with a job, if that is there. One from the very last id on leaves that out: no job has it.
    pub fn beginning_with(id: JobId) -> Self {
        Self(JobId::from_uuid(Uuid::from_u128(id.uuid().as_u128().saturating_add(1))))
    }

    /// All jobs whose ids are of this time or later come before it.
    pub fn reached(self) -> Timestamp {
        time_of(self.0)
    }
}

/// Of the text of a cursor: another form of it would have another number.
const FORM: u8 = 1;

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = [FORM].into_iter().chain(*self.0.as_bytes()).collect();
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for ListCursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || match URL_SAFE_NO_PAD.decode(text).ok()?.split_first()? {
            (&FORM, id) => Some(Self(JobId::from_uuid(Uuid::from_slice(id).ok()?))),
            _ => None,
        };
        read().ok_or_else(|| Invalid::new("cursor", "is none of a list; take it from the page before, or leave it out"))
    }
}

/// One page.
#[derive(Debug, Clone, Default)]
pub struct AskJobs {
    /// Which jobs.
    pub filter: ListFilter,
    /// From where on; `None`: from the newest.
    pub cursor: Option<ListCursor>,
    /// At most so many; more than [`MAX_PAGE`] counts as that.
    pub limit: u32,
    /// Rows of each table to look at in this call; `None`: [`LOOKS`], which more counts as. A caller that looks closer at the jobs
    /// itself bounds by it what all of its calls cost together.
    pub looks: Option<u32>,
}

impl AskJobs {
    /// The limit that counts.
    pub fn limit(&self) -> u32 {
        self.limit.min(MAX_PAGE)
    }

    /// Rows that one look sees at most. A full page is never beyond them: fewer than the limit count as that.
    pub fn looks(&self) -> u32 {
        let most = self.filter.found_by().looks();
        // What is looked at for several groups is looked at for each of them.
        let each = self.looks.unwrap_or(LOOKS) / (LOOKS / most);
        each.clamp(self.limit().clamp(1, most), most)
    }

    /// The first id to look at, going down; `None`: nothing is left.
    pub fn first(&self) -> Option<JobId> {
        let newest = self.filter.newest();
        match self.cursor {
            None => Some(newest),
            Some(ListCursor(last)) => {
                let next = last.uuid().as_u128().checked_sub(1)?;
                Some(JobId::from_uuid(Uuid::from_u128(next)).min(newest))
            }
        }
    }
}

/// A page of jobs, newest id first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPage {
    /// At most as many as were asked for.
    pub jobs: Vec<Job>,
    /// Where the next page begins; `None`: this was the last one.
    pub next: Option<ListCursor>,
    /// Set if the page is not full because enough rows were looked at: all jobs whose ids are of this time or later were looked at.
    pub reached: Option<Timestamp>,
}

/// What a look has found: through one table, or through the jobs of a group in it.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// Those that are asked for.
    pub jobs: Vec<Job>,
    /// All down to this id were looked at, itself included; `None`: all there are.
    pub down_to: Option<JobId>,
}

impl JobPage {
    /// The page that follows from several looks.
    pub fn of(looked: impl IntoIterator<Item = Looked>, limit: u32) -> Self {
        let (mut jobs, mut edge) = (Vec::new(), None);
        for look in looked {
            jobs.extend(look.jobs);
            edge = edge.max(look.down_to);
        }
        // What lies below the edge comes with a later page: other tables may have more there.
        jobs.retain(|job: &Job| edge.is_none_or(|edge| job.id >= edge));
        jobs.sort_unstable_by_key(|job| Reverse(job.id));
        let limit = limit as usize;
        if jobs.len() > limit {
            jobs.truncate(limit);
            let next = jobs.last().map(|job| ListCursor(job.id));
            return Self { jobs, next, reached: None };
        }
        let reached = edge.filter(|_| jobs.len() < limit).map(time_of);
        Self { jobs, next: edge.map(ListCursor), reached }
    }
}

fn time_of(id: JobId) -> Timestamp {
    Timestamp::from_micros(i64::try_from(id.unix_millis()).unwrap_or(i64::MAX / 1_000).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let cursor = ListCursor(JobId::from_parts(7, [9; 10]));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        let text = cursor.to_string();
        for other in ["", "x", &text[1..], &format!("{text}A"), &text.replacen('A', "B", 1)] {
            assert!(other.parse::<ListCursor>().unwrap_err().to_string().starts_with("cursor: "), "{other}");
        }
    }

    #[test]
    fn a_call_looks_at_as_many_rows_as_it_may_and_never_at_fewer_than_a_page_has() {
        let looks = |limit, looks| AskJobs { limit, looks, ..AskJobs::default() }.looks();
        assert_eq!([looks(10, None), looks(10, Some(500)), looks(10, Some(u32::MAX))], [LOOKS, 500, LOOKS]);
        assert_eq!([looks(10, Some(3)), looks(u32::MAX, Some(3)), looks(0, Some(0))], [10, MAX_PAGE, 1]);
    }

    #[test]
    fn a_group_leads_to_its_jobs_whatever_else_is_asked_of_them() {
        let groups = |count: usize| Some((0..count).map(|n| GroupName::stored(format!("g{n}").into())).collect());
        let kind = Some("f00d".to_owned());
        let one = ListFilter { groups: groups(1), fingerprint: kind.clone(), ..ListFilter::default() };
        assert!(matches!(one.found_by(), FoundBy::Groups(names) if names.len() == 1), "{one:?}");
        assert!(one.checks_rows() && !ListFilter { fingerprint: None, ..one.clone() }.checks_rows());
        let many = ListFilter { groups: groups(GROUPS_BY_INDEX + 1), ..one.clone() };
        assert_eq!((many.found_by(), many.checks_rows()), (FoundBy::Fingerprint("f00d"), true));
        assert_eq!(ListFilter { fingerprint: None, ..many }.found_by(), FoundBy::Id);
        let key = UniqueKey::new("k").unwrap();
        assert_eq!(ListFilter { unique: Some(key.clone()), ..one.clone() }.found_by(), FoundBy::UniqueKey(&key));
        let looks = [1, 4, GROUPS_BY_INDEX].map(|count| ListFilter { groups: groups(count), ..one.clone() });
        assert_eq!(looks.map(|filter| filter.found_by().looks()), [LOOKS, LOOKS / 4, LOOKS / 16]);
        assert_eq!(ListFilter { groups: groups(0), ..one }.found_by().looks(), LOOKS);
    }

    #[test]
    fn a_page_begins_below_its_cursor_and_not_above_what_can_match() {
        let at = |millis: u64| JobId::from_parts(millis, [0; 10]);
        let ask = AskJobs { limit: 5_000, ..AskJobs::default() };
        assert_eq!((ask.limit(), ask.first()), (MAX_PAGE, Some(JobId::from_uuid(Uuid::max()))));
        let cursor = Some(ListCursor(at(1_000)));
        assert!(AskJobs { cursor, ..ask.clone() }.first().is_some_and(|first| first < at(1_000) && first > at(999)));
        let filter = ListFilter { until: Some(Timestamp::from_micros(5_000_000)), ..ListFilter::default() };
        let newest = AskJobs { filter, ..ask.clone() }.first().unwrap();
        assert!(newest > at(65_000) && newest < at(65_002), "{newest}");
        let end = Some(ListCursor(JobId::from_uuid(Uuid::nil())));
        assert_eq!(AskJobs { cursor: end, ..ask }.first(), None);
    }
}
