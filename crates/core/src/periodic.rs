//! Periodic jobs: which times of a schedule are to be fired now, and as which job.
//!
//! A schedule's times are its *slots*. Each is fired at most once: by one job, with an id and a unique key that follow from
//! the schedule and the slot, so that a dispatcher that fires it again finds that job.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    calendar::{Schedule, Zone},
    job::{JobId, NewJob, Priority},
    json::Json,
    name::{GroupName, Invalid, KeyName, QueueName, ScheduleName, ScopeName, TaskName, UniqueKey},
    retry::RetryPolicy,
    settings::Pause,
    terms::Terms,
    time::{MAX_SPAN, Timestamp, parse_span, print_span},
    unique::{Hold, OnDuplicate, Scope, Unique},
    words::words,
};

/// Most slots that are made up for after a time without a dispatcher; older ones are dropped.
pub const MOST_MISSED: usize = 100;
/// A slot that was not fired for longer than this counts as missed; until then it is merely late.
const LATE: Duration = Duration::from_secs(60);
/// How far back missed slots are looked for, in growing steps: so a schedule of seconds is not walked through for a whole year.
const BACK: [Duration; 6] = [
    Duration::from_secs(200),
    Duration::from_secs(3_600),
    Duration::from_secs(86_400),
    Duration::from_secs(30 * 86_400),
    Duration::from_secs(366 * 86_400),
    MAX_SPAN,
];

/// What is submitted again and again, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct Periodic {
    /// At which times a job is submitted.
    pub when: When,
    /// The code that each job runs.
    pub task: TaskName,
    /// What each job gets, as JSON.
    pub args: Json,
    /// The queue of each job.
    pub queue: QueueName,
    /// The group of each job.
    pub group: GroupName,
    /// The priority of each job.
    pub priority: Priority,
    /// What follows when a run of one of the jobs fails. `None`: as their task sets it.
    pub retry: Option<RetryPolicy>,
    /// The limit key that each job counts against.
    pub key: Option<KeyName>,
    /// Time limit and last step of each job; both optional.
    pub terms: Terms,
    /// What becomes of a time that comes while an earlier job has not ended.
    pub overlap: Overlap,
    /// What becomes of times that passed while no node dispatched.
    pub catch_up: CatchUp,
    /// Set: nothing is submitted, and what is missed meanwhile is not made up for.
    pub paused: Option<Pause>,
    /// When the schedule was set, changed or resumed: slots up to this moment do not count.
    pub since: Timestamp,
}

/// The times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// By a cron pattern, on the clock of a zone.
    Cron(Schedule),
    /// At the multiples of this since the beginning of 1970, UTC: `10m` is at :00, :10, :20 and so on.
    Every(Duration),
}

impl When {
    /// Reads an interval such as `10m`. Refuses less than a second and fractions of one.
    pub fn every(text: &str) -> Result<Self, Invalid> {
        let every = parse_span("every", text)?;
        match every {
            every if every < Duration::from_secs(1) => Err(Invalid::new("every", "must be a second or more")),
            every if every.subsec_nanos() > 0 => Err(Invalid::new("every", "must be whole seconds")),
            every => Ok(Self::Every(every)),
        }
    }

    /// The first slot after this moment.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(schedule) => schedule.next(after),
            Self::Every(every) => {
                let every = i64::try_from(every.as_micros()).ok()?;
                let slot = after.micros().div_euclid(every).checked_add(1)?.checked_mul(every)?;
                Some(Timestamp::from_micros(slot))
            }
        }
    }

    /// The zone whose clock it goes by.
    pub fn zone(&self) -> Zone {
        match self {
            Self::Cron(schedule) => schedule.zone().clone(),
            Self::Every(_) => Zone::UTC,
        }
    }

    /// When that is, for people: `at 02:00 every day`, `every 1h 30m`.
    pub fn words(&self) -> String {
        match self {
            Self::Cron(schedule) => schedule.words(),
            Self::Every(every) => format!("every {}, at its multiples", print_span(*every)),
        }
    }

    /// All slots after this moment, in order; for most schedules there is no last one.
    pub fn following(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next(after), |slot| self.next(*slot))
    }

    /// The last slots after `base` and up to `now`, at most [`MOST_MISSED`] of them.
    fn last(&self, base: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        for back in BACK {
            let from = base.max(now.minus(back));
            let mut slots: Vec<_> = self.following(from).take_while(|slot| *slot <= now).collect();
            if slots.len() >= MOST_MISSED || from == base {
                return slots.split_off(slots.len().saturating_sub(MOST_MISSED));
            }
        }
        // Less than a hundred in ten years.
        self.following(base).take_while(|slot| *slot <= now).take(MOST_MISSED).collect()
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(schedule) => write!(f, "{schedule}"),
            Self::Every(every) => write!(f, "every {}", print_span(*every)),
        }
    }
}

/// What becomes of a slot if the job of an earlier slot has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// It is dropped.
    #[default]
    Skip,
    /// It waits until that job has ended. However many wait, one is fired then, unless all are to be made up for.
    Wait,
    /// It is fired all the same.
    Allow,
}

/// What becomes of slots that passed while no node dispatched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CatchUp {
    /// They are dropped.
    Skip,
    /// One job for all of them.
    #[default]
    One,
    /// A job for each, [at most](MOST_MISSED).
    All,
}

words!(Overlap, "overlap", "skip" => Skip, "wait" => Wait, "allow" => Allow);
words!(CatchUp, "catch_up", "skip" => Skip, "one" => One, "all" => All);

/// What is to be done about a schedule now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Firing {
    /// The slots to fire, in order.
    pub slots: Vec<Timestamp>,
    /// All slots up to this one are over then, fired or dropped.
    pub over: Option<Timestamp>,
    /// When to ask again. `None`: with the next look for old jobs, or never.
    pub next: Option<Timestamp>,
}

impl Periodic {
    /// With the defaults for everything else; slots up to `since` do not count.
    pub fn new(when: When, task: TaskName, args: Json, since: Timestamp) -> Self {
        Self {
            when,
            task,
            args,
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            retry: None,
            key: None,
            terms: Terms::default(),
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            paused: None,
            since,
        }
    }

    /// Whether any slot is due, so that it is worth asking whether its last job has ended.
    pub fn is_due(&self, over: Option<Timestamp>, now: Timestamp) -> bool {
        self.paused.is_none() && self.when.next(self.base(over)).is_some_and(|slot| slot <= now)
    }

    /// The jobs of the slots that are due, as far as they were submitted: as long as one of them has not ended, the
    /// next would overlap it.
    pub fn due_jobs(&self, name: &ScheduleName, over: Option<Timestamp>, now: Timestamp) -> Vec<JobId> {
        self.when.last(self.base(over), now).into_iter().map(|slot| slot_id(name, slot)).collect()
    }

    /// What to fire. `over`: slots up to this one are over. `busy`: a job of an earlier slot has not ended. `held`: the
    /// slots that are due have waited for such a job, so they were not missed.
    pub fn firing(&self, over: Option<Timestamp>, busy: bool, held: bool, now: Timestamp) -> Firing {
        if self.paused.is_some() {
            return Firing::default();
        }
        let base = self.base(over);
        let due = self.when.last(base, now);
        let next = self.when.next(now.max(base));
        let Some(&last) = due.last() else { return Firing { slots: Vec::new(), over: None, next } };
        let missed = if held { 0 } else { due.partition_point(|slot| now.since(*slot) > LATE) };
        let wanted = match self.catch_up {
            CatchUp::Skip => &due[missed..],
            CatchUp::One if missed == due.len() => &due[missed - 1..],
            CatchUp::One => &due[missed..],
            CatchUp::All => &due[..],
        };
        let (slots, over) = match self.overlap {
            Overlap::Allow => (wanted, Some(last)),
            Overlap::Skip if busy => (&[][..], Some(last)),
            // Two at once would overlap each other.
            Overlap::Skip => (&wanted[wanted.len().saturating_sub(1)..], Some(last)),
            Overlap::Wait if busy && !wanted.is_empty() => return Firing { next: None, ..Firing::default() },
            Overlap::Wait if self.catch_up == CatchUp::All => (&wanted[..1], wanted.first().copied()),
            Overlap::Wait => (&wanted[wanted.len().saturating_sub(1)..], Some(last)),
        };
        // One after another: the next of them is due already.
        let next = if over < Some(last) { None } else { next };
        Firing { slots: slots.to_vec(), over, next }
    }

    fn base(&self, over: Option<Timestamp>) -> Timestamp {
        over.map_or(self.since, |over| over.max(self.since))
    }

    /// The job of a slot. Its key is held until so many slots have passed that this one is never fired again.
    pub fn job(&self, name: &ScheduleName, slot: Timestamp, now: Timestamp) -> NewJob {
        let forgotten = self.when.following(slot).nth(MOST_MISSED).unwrap_or(slot.plus(MAX_SPAN));
        let hold = forgotten.since(now).max(2 * LATE).min(MAX_SPAN);
        let unique = Unique {
            key: UniqueKey::stored(slot.to_string().into()),
            scope: Scope::Named(ScopeName::stored(format!("turnwise schedule {name}").into())),
            hold: Hold::For(hold),
            on_duplicate: OnDuplicate::Keep,
        };
        let mut job = self.job_now(slot_id(name, slot));
        (job.due, job.unique) = (Some(slot), Some(Box::new(unique)));
        job
    }

    /// The same job outside of the schedule, to be run now.
    pub fn job_now(&self, id: JobId) -> NewJob {
        let mut job = NewJob::new(id, self.task.clone(), self.args.clone());
        (job.queue, job.group) = (self.queue.clone(), self.group.clone());
        (job.priority, job.retry) = (self.priority, self.retry.clone());
        (job.key, job.terms) = (self.key.clone(), self.terms.clone());
        job
    }
}

/// Which of these schedules a job is of: one that was submitted at one of its times has an id that follows from the schedule's name and
/// the time, one that a person has run beside the plan has a [`run_id`].
pub fn schedule_of<'n>(names: impl IntoIterator<Item = &'n ScheduleName>, job: JobId) -> Option<&'n ScheduleName> {
    let bytes = job.uuid().into_bytes();
    let (own, marks) = bytes.split_at(RUN_OWN);
    if marks[..2] == run_mark::<2>(own, None) {
        return names.into_iter().find(|name| marks[2..] == run_mark::<3>(own, Some(name)));
    }
    let millis = job.uuid().get_timestamp().map(|at| at.to_unix()).map(|(seconds, nanos)| (seconds, nanos / 1_000_000));
    // The times of a schedule are whole seconds.
    let (seconds, 0) = millis? else { return None };
    let slot = Timestamp::from_micros(i64::try_from(seconds).ok()?.checked_mul(1_000_000)?);
    names.into_iter().find(|name| slot_id(name, slot) == job)
}

/// The id of a job that a person runs beside the plan. Its last five bytes follow from the others: two say that it is such a job, three
/// which schedule's. So a job of another kind is taken for one of a schedule once in 10^12 times, and no row has to say so.
pub fn run_id(name: &ScheduleName, unix_millis: u64, random: [u8; 5]) -> JobId {
    let mut rest = [0; 10];
    rest[..5].copy_from_slice(&random);
    let mut bytes = JobId::from_parts(unix_millis, rest).uuid().into_bytes();
    let (own, marks) = bytes.split_at_mut(RUN_OWN);
    marks[..2].copy_from_slice(&run_mark::<2>(own, None));
    marks[2..].copy_from_slice(&run_mark::<3>(own, Some(name)));
    JobId::from_uuid(Uuid::from_bytes(bytes))
}

/// How many bytes of a [`run_id`] are time and chance.
const RUN_OWN: usize = 11;

fn run_mark<const N: usize>(own: &[u8], name: Option<&ScheduleName>) -> [u8; N] {
    let text = name.map(ScheduleName::as_str).unwrap_or_default();
    let hash = Uuid::new_v5(&OURS, &[own, b"run\n", text.as_bytes()].concat());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

const OURS: Uuid = Uuid::from_u128(0x6d0e_91b4_5a3c_4f27_9b81_c2d7_e604_3fa5);

/// The same for the same slot of the same schedule, always.
fn slot_id(name: &ScheduleName, slot: Timestamp) -> JobId {
    let hash = Uuid::new_v5(&OURS, format!("{}\n{name}", slot.micros()).as_bytes());
    let mut random = [0; 10];
    random.copy_from_slice(&hash.as_bytes()[..10]);
    JobId::from_parts(u64::try_from(slot.micros() / 1_000).unwrap_or(0), random)
}

/// As it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<Schedule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    task: String,
    args: Box<serde_json::value::RawValue>,
    queue: String,
    group: String,
    priority: u8,
    /// Left out: as the task sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terms: Option<String>,
    overlap: String,
    catch_up: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused: Option<Pause>,
    since: i64,
}

impl TryFrom<Text> for Periodic {
    type Error = Invalid;
    fn try_from(text: Text) -> Result<Self, Invalid> {
        let when = match (text.cron, text.every) {
            (Some(schedule), None) => When::Cron(schedule),
            (None, Some(every)) => When::every(&every)?,
            _ => return Err(Invalid::new("schedule", "needs either a cron pattern or an interval")),
        };
        Ok(Self {
            when,
            task: TaskName::new(text.task)?,
            args: Json::parse("args", text.args.get())?,
            queue: QueueName::new(text.queue)?,
            group: GroupName::new(text.group)?,
            priority: Priority::new(text.priority.into())?,
            retry: text.retry.as_deref().map(str::parse).transpose()?,
            key: text.key.map(KeyName::new).transpose()?,
            terms: text.terms.as_deref().map_or_else(|| Ok(Terms::default()), Terms::from_text)?,
            overlap: text.overlap.parse()?,
            catch_up: text.catch_up.parse()?,
            paused: text.paused,
            since: Timestamp::from_micros(text.since),
        })
    }
}

impl From<Periodic> for Text {
    fn from(periodic: Periodic) -> Self {
        let (cron, every) = match periodic.when {
            When::Cron(schedule) => (Some(schedule), None),
            When::Every(every) => (None, Some(print_span(every))),
        };
        let null = || Box::<serde_json::value::RawValue>::default();
        Self {
            cron,
            every,
            task: periodic.task.to_string(),
            args: serde_json::value::RawValue::from_string(periodic.args.to_string()).unwrap_or_else(|_| null()),
            queue: periodic.queue.to_string(),
            group: periodic.group.to_string(),
            priority: periodic.priority.get(),
            retry: periodic.retry.as_ref().map(ToString::to_string),
            key: periodic.key.map(|key| key.to_string()),
            terms: periodic.terms.to_text(),
            overlap: periodic.overlap.to_string(),
            catch_up: periodic.catch_up.to_string(),
            paused: periodic.paused,
            since: periodic.since.micros(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn minutely(catch_up: CatchUp, overlap: Overlap) -> Periodic {
        let since = at("2030-01-01T00:00:00Z");
        let new = Periodic::new(When::every("1m").unwrap(), TaskName::new("t").unwrap(), Json::null(), since);
        Periodic { catch_up, overlap, ..new }
    }

    fn minutes(firing: &Firing) -> Vec<String> {
        firing.slots.iter().map(|slot| slot.to_string()[11..16].to_owned()).collect()
    }

    #[test]
    fn a_slot_is_fired_when_it_comes_and_not_again() {
        let periodic = minutely(CatchUp::One, Overlap::Allow);
        let before = periodic.firing(None, false, false, at("2030-01-01T00:00:59Z"));
        assert_eq!(before, Firing { slots: vec![], over: None, next: Some(at("2030-01-01T00:01:00Z")) });
        let now = periodic.firing(None, false, false, at("2030-01-01T00:01:00Z"));
        assert_eq!((minutes(&now), now.over), (vec!["00:01".to_owned()], Some(at("2030-01-01T00:01:00Z"))));
        assert_eq!(now.next, Some(at("2030-01-01T00:02:00Z")));
        assert_eq!(periodic.firing(now.over, false, false, at("2030-01-01T00:01:30Z")).slots, []);
        // Nor when the clock is put back.
        assert_eq!(periodic.firing(now.over, false, false, at("2030-01-01T00:00:00Z")).slots, []);
        assert_eq!(periodic.firing(now.over, false, false, at("2030-01-01T00:01:00Z")).next, now.next);
    }

    #[test]
    fn what_was_missed_is_let_go_or_made_up_for() {
        let now = at("2030-01-01T03:00:30Z");
        let fired = |catch_up| minutes(&minutely(catch_up, Overlap::Allow).firing(None, false, false, now));
        assert_eq!(fired(CatchUp::Skip), ["03:00"], "the last one is merely late");
        assert_eq!(fired(CatchUp::One), ["03:00"]);
        let all = fired(CatchUp::All);
        assert_eq!((all.len(), &*all[0], &*all[99]), (MOST_MISSED, "01:21", "03:00"));
        let hourly = |catch_up| Periodic {
            when: When::Cron(Schedule::new("0 * * * *", Zone::UTC).unwrap()),
            ..minutely(catch_up, Overlap::Allow)
        };
        let now = at("2030-01-01T03:30:00Z");
        assert_eq!(minutes(&hourly(CatchUp::Skip).firing(None, false, false, now)), [""; 0]);
        assert_eq!(hourly(CatchUp::Skip).firing(None, false, false, now).over, Some(at("2030-01-01T03:00:00Z")));
        assert_eq!(minutes(&hourly(CatchUp::One).firing(None, false, false, now)), ["03:00"]);
        assert_eq!(minutes(&hourly(CatchUp::All).firing(None, false, false, now)), ["01:00", "02:00", "03:00"]);
    }

    #[test]
    fn jobs_of_one_schedule_overlap_only_where_they_may() {
        let now = at("2030-01-01T00:03:10Z");
        let fire = |overlap, busy| minutely(CatchUp::All, overlap).firing(None, busy, false, now);
        assert_eq!(minutes(&fire(Overlap::Allow, true)), ["00:01", "00:02", "00:03"]);
        let skipped = fire(Overlap::Skip, true);
        assert_eq!((minutes(&skipped).len(), skipped.over), (0, Some(at("2030-01-01T00:03:00Z"))));
        assert_eq!(minutes(&fire(Overlap::Skip, false)), ["00:03"]);
        assert_eq!(fire(Overlap::Wait, true), Firing::default(), "asked again later");
        let first = fire(Overlap::Wait, false);
        assert_eq!((minutes(&first), first.next), (vec!["00:01".to_owned()], None));
        let one = minutely(CatchUp::One, Overlap::Wait).firing(None, false, false, now);
        assert_eq!((minutes(&one), one.over), (vec!["00:03".to_owned()], Some(at("2030-01-01T00:03:00Z"))));
    }

    #[test]
    fn a_slot_that_waited_for_the_last_job_was_not_missed() {
        let periodic = minutely(CatchUp::Skip, Overlap::Wait);
        let periodic = Periodic { when: When::every("10m").unwrap(), ..periodic };
        let (late, later) = (at("2030-01-01T00:10:30Z"), at("2030-01-01T00:12:00Z"));
        assert_eq!(periodic.firing(None, true, false, late), Firing::default(), "held");
        assert_eq!(minutes(&periodic.firing(None, false, true, later)), ["00:10"]);
        assert_eq!(minutes(&periodic.firing(None, false, false, later)), [""; 0], "no dispatcher was there to hold it");
        assert_eq!(periodic.due_jobs(&ScheduleName::new("s").unwrap(), None, later).len(), 1);
    }

    #[test]
    fn a_pause_fires_nothing_and_is_not_made_up_for() {
        let mut periodic = minutely(CatchUp::All, Overlap::Allow);
        periodic.paused = Some(Pause { since: periodic.since, reason: None });
        let now = at("2030-01-01T03:00:30Z");
        assert_eq!(periodic.firing(None, false, false, now), Firing::default());
        (periodic.paused, periodic.since) = (None, now);
        assert_eq!(periodic.firing(None, false, false, now).slots, []);
    }

    #[test]
    fn a_schedule_reads_back_as_it_was_written() {
        let mut periodic = minutely(CatchUp::All, Overlap::Wait);
        periodic.args = Json::parse("args", r#"{"a":[1,2.50]}"#).unwrap();
        for when in [
            When::every("90s").unwrap(),
            When::Cron(Schedule::new("5 4 * * Mon", "Asia/Tokyo".parse().unwrap()).unwrap()),
        ] {
            let written = Periodic { when, ..periodic.clone() };
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<Periodic>(&text).unwrap(), written, "{text}");
        }
        for text in ["", "0s", "500ms", "1", "-1s", "1500ms", "x"] {
            assert!(When::every(text).unwrap_err().to_string().starts_with("every: "), "{text}");
        }
    }

    #[test]
    fn the_job_of_a_slot_is_the_same_for_every_dispatcher_and_another_for_every_slot() {
        let periodic = minutely(CatchUp::One, Overlap::Skip);
        let (name, other) = (ScheduleName::new("report").unwrap(), ScheduleName::new("other").unwrap());
        let (slot, next) = (at("2030-01-01T00:01:00Z"), at("2030-01-01T00:02:00Z"));
        let job = periodic.job(&name, slot, slot);
        assert_eq!(job.id, periodic.job(&name, slot, next).id);
        assert_ne!(job.id, periodic.job(&name, next, next).id);
        assert_ne!(job.id, periodic.job(&other, slot, slot).id);
        assert_eq!(job.due, Some(slot));
    }

    proptest! {
        /// Asked at random moments, by dispatchers of which some forget what was over: no slot is fired under a key that may
        /// be free again, and none is left out that should have been fired.
        #[test]
        fn every_slot_is_fired_once(
            every in 1_u64..400,
            steps in prop::collection::vec((0_u64..2_000, any::<bool>()), 1..40),
        ) {
            let when = When::Every(Duration::from_secs(every));
            let periodic = Periodic { when, ..minutely(CatchUp::All, Overlap::Allow) };
            let name = ScheduleName::new("s").unwrap();
            let mut now = periodic.since;
            let mut over = None;
            let mut held: std::collections::BTreeMap<Timestamp, Timestamp> = Default::default();
            let mut last_seen = periodic.since;
            for (step, forgets) in steps {
                now = now.plus(Duration::from_secs(step));
                let firing = periodic.firing(over, false, false, now);
                for &slot in &firing.slots {
                    if let Some(until) = held.get(&slot) {
                        prop_assert!(*until > now, "{slot} would be fired again");
                        continue;
                    }
                    let Hold::For(hold) = periodic.job(&name, slot, now).unique.unwrap().hold else { panic!() };
                    held.insert(slot, now.plus(hold));
                }
                let due: Vec<_> = periodic.when.following(last_seen).take_while(|slot| *slot <= now).collect();
                for slot in due.iter().rev().take(MOST_MISSED) {
                    prop_assert!(held.contains_key(slot), "{slot} was left out");
                }
                last_seen = now;
                if !forgets {
                    over = firing.over.or(over);
                }
            }
        }
    }
}
