//! Changes of what is set, coming in, and what is set then, going out. A setting that is left out stays as it is; `null` takes it
//! back to its default.

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{
    Invalid, QueueName, Retention, Timestamp,
    calendar::{Schedule, Window, Zone},
    settings::{
        Concurrency, Fairness, GroupSettings, InstallationSettings, LimitSettings, OnError, Pause, QueueSettings, Rate,
        Weight, parse_count,
    },
    story::LOG_LINES,
    turn::Scheme,
};

use super::{
    Unreadable,
    object::{self, number, plain, text, texts},
};

/// `None`: it stays; `Some(None)`: its default.
type Change<T> = Option<Option<T>>;

fn read_one<T>(value: &RawValue, read: impl FnOnce(&RawValue) -> Result<T, Invalid>) -> Result<Change<T>, Invalid> {
    if value.get() == "null" { Ok(Some(None)) } else { read(value).map(|value| Some(Some(value))) }
}

fn put<T: Clone + Default>(place: &mut T, change: &Change<T>) {
    if let Some(value) = change {
        *place = value.clone().unwrap_or_default();
    }
}

fn put_option<T: Clone>(place: &mut Option<T>, change: &Change<T>) {
    if let Some(value) = change {
        place.clone_from(value);
    }
}

/// What is to be changed of a queue's settings.
#[derive(Debug, Clone, Default)]
pub struct QueueChange {
    weight: Change<Weight>,
    fairness: Change<Fairness>,
    concurrency: Change<Concurrency>,
    per_node: Change<u32>,
    rate: Change<Rate>,
    scheme: Change<Scheme>,
    on_error: Change<OnError>,
    after: Change<Vec<QueueName>>,
    schedule: Change<Schedule>,
    block: Change<Vec<Window>>,
}

impl QueueChange {
    /// Reads one JSON object. `schedule` is a cron pattern, by the clock of `zone` or UTC.
    /// [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        const NAMES: [&str; 11] = [
            "weight",
            "fairness",
            "concurrency",
            "per_node",
            "rate",
            "scheme",
            "on_error",
            "after",
            "schedule",
            "zone",
            "block",
        ];
        let (mut change, mut pattern, mut zone) = (Self::default(), None, None);
        object::read_with_nulls(json, NAMES, |name, value| match name {
            "schedule" => {
                pattern = read_one(value, |value| text(name, value).map(|text| text.into_owned()))?;
                Ok(())
            }
            "zone" => {
                zone = read_one(value, |value| text(name, value)?.parse::<Zone>())?.flatten();
                Ok(())
            }
            _ => change.put(name, value),
        })?;
        if zone.is_some() && !matches!(pattern, Some(Some(_))) {
            return Err(Invalid::new("zone", "has no effect without schedule").into());
        }
        let schedule = |pattern: String| Schedule::new(&pattern, zone.unwrap_or(Zone::UTC));
        change.schedule = pattern.map(|pattern| pattern.map(schedule).transpose()).transpose()?;
        Ok(change)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        match name {
            "weight" => self.weight = read_one(value, |value| number(name, value)?.parse())?,
            "fairness" => self.fairness = read_one(value, |value| text(name, value)?.parse())?,
            "concurrency" => self.concurrency = read_one(value, |value| plain(name, value)?.parse())?,
            "per_node" => self.per_node = read_one(value, |value| parse_count(name, number(name, value)?))?,
            "rate" => self.rate = read_one(value, |value| text(name, value)?.parse())?,
            "scheme" => self.scheme = read_one(value, |value| text(name, value)?.parse())?,
            "on_error" => self.on_error = read_one(value, |value| text(name, value)?.parse())?,
            "after" => {
                let named = |invalid: Invalid| Invalid::new(name, invalid.problem);
                let queue = |queue: &String| QueueName::new(queue).map_err(named);
                self.after = read_one(value, |value| texts(name, value)?.iter().map(queue).collect())?;
            }
            _ => {
                let windows = |value: &RawValue| texts(name, value)?.iter().map(|window| window.parse()).collect();
                self.block = read_one(value, windows)?;
            }
        }
        Ok(())
    }

    /// The queues that it names.
    pub fn names(&self) -> impl Iterator<Item = &QueueName> {
        self.after.iter().flatten().flatten()
    }

    /// Makes the change.
    pub fn apply(&self, queue: &mut QueueSettings) {
        put(&mut queue.weight, &self.weight);
        put(&mut queue.fairness, &self.fairness);
        put(&mut queue.concurrency, &self.concurrency);
        put_option(&mut queue.per_node, &self.per_node);
        put_option(&mut queue.rate, &self.rate);
        put_option(&mut queue.scheme, &self.scheme);
        put(&mut queue.on_error, &self.on_error);
        put(&mut queue.after, &self.after);
        put_option(&mut queue.schedule, &self.schedule);
        put(&mut queue.block, &self.block);
    }
}

/// What is to be changed of a group's settings.
#[derive(Debug, Clone, Default)]
pub struct GroupChange {
    weight: Change<Weight>,
    concurrency: Change<u32>,
    rate: Change<Rate>,
    scheme: Change<Scheme>,
    max_waiting: Change<u32>,
}

impl GroupChange {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut change = Self::default();
        let names = ["weight", "concurrency", "rate", "scheme", "max_waiting"];
        object::read_with_nulls(json, names, |name, value| change.put(name, value))?;
        Ok(change)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        let count = |value: &RawValue| parse_count(name, number(name, value)?);
        match name {
            "weight" => self.weight = read_one(value, |value| number(name, value)?.parse())?,
            "concurrency" => self.concurrency = read_one(value, count)?,
            "rate" => self.rate = read_one(value, |value| text(name, value)?.parse())?,
            "scheme" => self.scheme = read_one(value, |value| text(name, value)?.parse())?,
            _ => self.max_waiting = read_one(value, count)?,
        }
        Ok(())
    }

    /// Makes the change.
    pub fn apply(&self, group: &mut GroupSettings) {
        put(&mut group.weight, &self.weight);
        put_option(&mut group.concurrency, &self.concurrency);
        put_option(&mut group.rate, &self.rate);
        put_option(&mut group.scheme, &self.scheme);
        put_option(&mut group.max_waiting, &self.max_waiting);
    }
}

/// What is to be changed of the limits of a task or a key.
#[derive(Debug, Clone, Default)]
pub struct LimitChange {
    concurrency: Change<u32>,
    rate: Change<Rate>,
}

impl LimitChange {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut change = Self::default();
        object::read_with_nulls(json, ["concurrency", "rate"], |name, value| {
            match name {
                "concurrency" => {
                    change.concurrency = read_one(value, |value| parse_count(name, number(name, value)?))?;
                }
                _ => change.rate = read_one(value, |value| text(name, value)?.parse())?,
            }
            Ok(())
        })?;
        Ok(change)
    }

    /// Makes the change.
    pub fn apply(&self, limits: &mut LimitSettings) {
        put_option(&mut limits.concurrency, &self.concurrency);
        put_option(&mut limits.rate, &self.rate);
    }
}

/// What is to be changed of the installation's settings.
#[derive(Debug, Clone, Default)]
pub struct InstallationChange {
    scheme: Change<Scheme>,
    retention: Change<Retention>,
    log_lines: Change<u32>,
}

impl InstallationChange {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut change = Self::default();
        object::read_with_nulls(json, ["scheme", "retention", "log_lines"], |name, value| {
            match name {
                "scheme" => change.scheme = read_one(value, |value| text(name, value)?.parse())?,
                "retention" => change.retention = read_one(value, |value| text(name, value)?.parse())?,
                _ => change.log_lines = read_one(value, |value| parse_count(name, number(name, value)?))?,
            }
            Ok(())
        })?;
        Ok(change)
    }

    /// Makes the change.
    pub fn apply(&self, installation: &mut InstallationSettings) {
        put(&mut installation.scheme, &self.scheme);
        put_option(&mut installation.retention, &self.retention);
        put_option(&mut installation.log_lines, &self.log_lines);
    }
}

/// Why something is paused, as a person gives it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PauseReason {
    /// Shown by `why` and the listings; `None`: not given.
    pub reason: Option<String>,
}

impl PauseReason {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut reason = None;
        object::read(json, ["reason"], |name, value| {
            reason = Some(text(name, value)?.into_owned());
            Ok(())
        })?;
        Ok(Self { reason })
    }
}

/// What is set for a queue.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct QueueSet<'a> {
    /// The queue.
    pub name: &'a str,
    /// Its share beside other queues.
    pub weight: Weight,
    /// What a turn costs a group: `time` or `turns`.
    pub fairness: Fairness,
    /// How many of its jobs nodes have at a time, at most: a number, `serial` or `unlimited`.
    pub concurrency: Concurrency,
    /// How many of them one node has, at most; `null`: no limit.
    pub per_node: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
    /// How high and low priority take turns; `null`: as set for the group or the installation.
    pub scheme: Option<Scheme>,
    /// What a failed job does to the queue: `block`, `skip` or `pause`.
    pub on_error: OnError,
    /// The queues that must be finished before it starts anything.
    pub after: &'a [QueueName],
    /// When jobs are due that name no time of their own.
    pub schedule: Option<&'a Schedule>,
    /// Windows of time in which nothing of it is started.
    pub block: &'a [Window],
    /// Since when no more jobs are to come.
    pub sealed: Option<Timestamp>,
    /// Since when it is paused, and why; `null`: it is not.
    pub paused: Option<&'a Pause>,
}

impl<'a> QueueSet<'a> {
    /// As it is set.
    pub fn new(name: &'a str, set: &'a QueueSettings) -> Self {
        // The cursor of a seal is the dispatcher's own.
        let QueueSettings {
            weight,
            fairness,
            concurrency,
            per_node,
            rate,
            scheme,
            on_error,
            paused,
            sealed,
            quiet: _,
            after,
            schedule,
            block,
        } = set;
        Self {
            name,
            weight: *weight,
            fairness: *fairness,
            concurrency: *concurrency,
            per_node: *per_node,
            rate: *rate,
            scheme: *scheme,
            on_error: *on_error,
            after,
            schedule: schedule.as_ref(),
            block,
            sealed: *sealed,
            paused: paused.as_ref(),
        }
    }
}

/// What is set for a group.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct GroupSet<'a> {
    /// The group.
    pub name: &'a str,
    /// Its share beside other groups of a queue.
    pub weight: Weight,
    /// How many of its jobs nodes have at a time, at most; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
    /// How high and low priority take turns; `null`: as set for the queue or the installation.
    pub scheme: Option<Scheme>,
    /// A submit is refused while so many of its jobs wait; `null`: none is.
    pub max_waiting: Option<u32>,
    /// Since when it is paused, and why; `null`: it is not.
    pub paused: Option<&'a Pause>,
}

impl<'a> GroupSet<'a> {
    /// As it is set.
    pub fn new(name: &'a str, set: &'a GroupSettings) -> Self {
        let GroupSettings { weight, concurrency, rate, scheme, max_waiting, paused } = set;
        Self {
            name,
            weight: *weight,
            concurrency: *concurrency,
            rate: *rate,
            scheme: *scheme,
            max_waiting: *max_waiting,
            paused: paused.as_ref(),
        }
    }
}

/// The limits of a task or a key.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct LimitSet<'a> {
    /// The task or the key.
    pub name: &'a str,
    /// How many of its jobs nodes have at a time, at most; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
}

impl<'a> LimitSet<'a> {
    /// As they are set.
    pub fn new(name: &'a str, set: LimitSettings) -> Self {
        let LimitSettings { concurrency, rate } = set;
        Self { name, concurrency, rate }
    }
}

/// What is set for the installation, defaults included.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct InstallationSet {
    /// How high and low priority take turns where neither the queue nor the group says.
    pub scheme: Scheme,
    /// How long finished jobs are kept.
    pub retention: Retention,
    /// How many lines of a job's log are kept.
    pub log_lines: u32,
}

impl InstallationSet {
    /// As it is set.
    pub fn new(set: InstallationSettings) -> Self {
        let InstallationSettings { scheme, retention, log_lines } = set;
        let (retention, log_lines) = (retention.unwrap_or_default(), log_lines.unwrap_or(LOG_LINES));
        Self { scheme, retention, log_lines }
    }
}

/// Whether anything was set that is taken away now.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Reset {
    /// `false`: there was nothing.
    pub was_set: bool,
}

impl Reset {
    /// What was found.
    pub fn new(was_set: bool) -> Self {
        Self { was_set }
    }
}
