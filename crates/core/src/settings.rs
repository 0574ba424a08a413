//! What people set: weights, limits, pauses; by queue, group, task and key.
//!
//! Settings are values: the store keeps each as one piece of JSON under its name and never looks inside.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    calendar::{GivenTime, Schedule, Window, check_windows},
    name::{GroupName, Invalid, KeyName, QueueName, TaskName},
    retention::Retention,
    time::{Timestamp, parse_span, print_span},
    turn::Scheme,
    words::words,
};

/// A share: 0.001 to 1000, kept in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Weight(u32);

impl Weight {
    /// 1000 for the default weight of 1; never 0.
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1_000)
    }
}

impl TryFrom<f64> for Weight {
    type Error = Invalid;
    fn try_from(weight: f64) -> Result<Self, Invalid> {
        if !(0.001..=1000.0).contains(&weight) {
            return Err(Invalid::new("weight", format!("must be 0.001 to 1000, not {weight}")));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most a million, and positive
        Ok(Self((weight * 1_000.0).round() as u32))
    }
}

impl From<Weight> for f64 {
    fn from(weight: Weight) -> f64 {
        f64::from(weight.0) / 1_000.0
    }
}

impl FromStr for Weight {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let weight: f64 = text.parse().map_err(|_| Invalid::new("weight", format!("{text:?} is not a number")))?;
        Self::try_from(weight)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&f64::from(*self), f)
    }
}

/// So many starts in so much time, with so many at once. Written `10/1m` or `10/1m,20`: twenty at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    /// Starts in each `per`, over a long time.
    pub count: u32,
    /// The time that `count` is counted in.
    pub per: Duration,
    /// Starts that may come at once after a rest.
    pub burst: u32,
}

impl FromStr for Rate {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bad = || Invalid::new("rate", format!("{text:?} is not a rate; write 10/1m, or 10/1m,20 with a burst"));
        let (rate, burst) = match text.split_once(',') {
            Some((rate, burst)) => (rate, Some(burst.trim().parse::<u32>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let (count, per) = rate.split_once('/').ok_or_else(bad)?;
        let count = count.trim().parse::<u32>().map_err(|_| bad())?;
        let per = parse_span("rate", per.trim())?;
        let burst = burst.unwrap_or(count);
        if count == 0 || burst == 0 || per.is_zero() {
            return Err(bad());
        }
        Ok(Self { count, per, burst })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{},{}", self.count, print_span(self.per), self.burst)
    }
}

impl TryFrom<String> for Rate {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

/// What a turn costs: the time a slot was really used, or one per job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fairness {
    /// The time its runs took, at least a millisecond each.
    #[default]
    Time,
    /// The same for each job, however long it runs.
    Turns,
}

words!(Fairness, "fairness", "time" => Time, "turns" => Turns);

/// What a failed job does to its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// In a serial queue the stuck job holds the line; elsewhere nothing happens.
    #[default]
    Block,
    /// The line goes on without it.
    Skip,
    /// The queue is paused until a person resumes it.
    Pause,
}

words!(OnError, "on_error", "block" => Block, "skip" => Skip, "pause" => Pause);

/// How many jobs of a queue may be in nodes' hands at a time, in the whole fleet. Written `unlimited`, `serial` (or 0), or
/// a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Concurrency {
    /// Only the slots of the nodes are a limit.
    #[default]
    Unlimited,
    /// So many at a time, of all groups together. Zero is refused when it is set.
    AtMost(u32),
    /// One at a time, in the order of submission, whatever the group.
    Serial,
}

impl FromStr for Concurrency {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "unlimited" => Ok(Self::Unlimited),
            "serial" | "0" => Ok(Self::Serial),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| Invalid::new("concurrency", format!("{text:?} is not a number, serial or unlimited"))),
        }
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::AtMost(count) => fmt::Display::fmt(count, f),
            Self::Serial => f.write_str("serial"),
        }
    }
}

impl TryFrom<String> for Concurrency {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Concurrency> for String {
    fn from(concurrency: Concurrency) -> String {
        concurrency.to_string()
    }
}

/// Stopped by a person, or by the dispatcher after a failure in a queue that is set to pause then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// When it began, by the database's clock.
    pub since: Timestamp,
    /// Why, in the words of the person who paused it, or which job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is set for one queue. A queue that nothing is set for has the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Its share of the slots, compared with other queues that have something to run.
    pub weight: Weight,
    /// What a turn costs its groups, and the queue itself.
    pub fairness: Fairness,
    /// How many of its jobs may be in nodes' hands at a time.
    pub concurrency: Concurrency,
    /// At most so many on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
    /// How many of its jobs may start in a time, in the whole fleet; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How its groups choose between high and low priority; a group's own comes first. `None`: as the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// What a failed job does to the queue.
    pub on_error: OnError,
    /// Set: it starts nothing until a person resumes it; what runs goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// When a person declared that nothing more will be submitted: once the queue is quiet and empty, it is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Timestamp>,
    /// When the dispatcher had seen every transaction end that was open when the queue was sealed, with the jobs they stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Timestamp>,
    /// It waits until these queues are finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<QueueName>,
    /// When jobs are due that name no time of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// In these windows nothing of it is started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block: Vec<Window>,
}

impl QueueSettings {
    /// Whether no job can still appear that was submitted before the seal. If the seal was removed and set again, the dispatcher
    /// must find the queue quiet again.
    pub fn closed(&self) -> bool {
        self.sealed.is_some_and(|sealed| self.quiet.is_some_and(|quiet| quiet >= sealed))
    }

    /// When a job is due by the schedule, if that is another time than its own.
    pub fn due_by_schedule(&self, job: impl Into<GivenTime>) -> Option<Timestamp> {
        job.into().due_by(self.schedule.as_ref()?)
    }
}

/// What is set for one group, in all queues. A group that nothing is set for has the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupSettings {
    /// Its share of each queue that it has jobs in, compared with the other groups there.
    pub weight: Weight,
    /// How many of its jobs may be in nodes' hands at a time, in all queues together; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its jobs may start in a time, in the whole fleet; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How it chooses between high and low priority; `None`: as its queue, else as the installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Most waiting jobs: while the dispatcher counts that many, submits are refused. It counts once a second, so what is submitted
    /// within a second, or in one submit, may go beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u32>,
    /// Set: it starts nothing until a person resumes it; what runs goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// Of a task, or of a key that the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// How many such jobs may be in nodes' hands at a time, in the whole fleet; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many such jobs may start in a time, in the whole fleet; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// Of the whole installation: all nodes go by it, whichever of them dispatches or settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstallationSettings {
    /// High and low in turn within a group, where neither the group nor its queue has a scheme of its own.
    pub scheme: Scheme,
    /// How long finished jobs are kept; `None`: a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// How many lines of a job's log are kept, the oldest go first; `None`: [`LOG_LINES`](crate::story::LOG_LINES).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u32>,
}

/// What may be set: checked before it is written.
pub trait Checked {
    /// The first thing that is wrong with it.
    fn check(&self) -> Result<(), Invalid>;
}

/// A limit of zero is refused: to start nothing at all, there is the pause.
fn check_count(field: &'static str, count: Option<u32>) -> Result<(), Invalid> {
    if count == Some(0) {
        return Err(Invalid::new(field, "must be a whole number from 1, or none"));
    }
    Ok(())
}

/// Reads a count that a person wrote.
pub fn parse_count(field: &'static str, text: &str) -> Result<u32, Invalid> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(Invalid::new(field, format!("must be a whole number from 1, or none, not {text:?}"))),
    }
}

impl Checked for QueueSettings {
    fn check(&self) -> Result<(), Invalid> {
        if self.concurrency == Concurrency::AtMost(0) {
            return Err(Invalid::new("concurrency", "must be a whole number from 1, serial or unlimited"));
        }
        check_count("per_node", self.per_node)?;
        check_windows(&self.block)
    }
}

impl Checked for GroupSettings {
    fn check(&self) -> Result<(), Invalid> {
        check_count("concurrency", self.concurrency)?;
        check_count("max_waiting", self.max_waiting)
    }
}

impl Checked for LimitSettings {
    fn check(&self) -> Result<(), Invalid> {
        check_count("concurrency", self.concurrency)
    }
}

impl Checked for InstallationSettings {
    fn check(&self) -> Result<(), Invalid> {
        check_count("log_lines", self.log_lines)
    }
}

/// All that is set; what is not named here has its defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// What holds for all nodes on the database.
    pub installation: InstallationSettings,
    /// By queue.
    pub queues: BTreeMap<QueueName, QueueSettings>,
    /// By group, for all its queues.
    pub groups: BTreeMap<GroupName, GroupSettings>,
    /// Limits by task.
    pub tasks: BTreeMap<TaskName, LimitSettings>,
    /// Limits by limit key.
    pub keys: BTreeMap<KeyName, LimitSettings>,
}

impl Settings {
    /// Refuses queues that wait for each other, naming the round.
    pub fn check_order(&self) -> Result<(), Invalid> {
        for start in self.queues.keys() {
            let mut path = vec![start];
            if self.comes_back(start, &mut path) {
                let names: Vec<_> = path.iter().map(|name| name.as_str()).collect();
                return Err(Invalid::new("after", format!("queues would wait for each other: {}", names.join(" → "))));
            }
        }
        Ok(())
    }

    /// Whether following `after` from the end of `path` leads to its start; `path` is then the round. Bounded: a queue is
    /// not passed twice.
    fn comes_back<'a>(&'a self, start: &QueueName, path: &mut Vec<&'a QueueName>) -> bool {
        let Some(settings) = path.last().and_then(|last| self.queues.get(*last)) else { return false };
        for next in &settings.after {
            if next == start {
                path.push(next);
                return true;
            }
            if path.contains(&next) {
                continue;
            }
            path.push(next);
            if self.comes_back(start, path) {
                return true;
            }
            path.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_as_written() {
        let queue = QueueSettings {
            weight: "2.5".parse().unwrap(),
            concurrency: "3".parse().unwrap(),
            rate: Some("10/1m,20".parse().unwrap()),
            scheme: Some(Scheme::Strict),
            paused: Some(Pause { since: Timestamp::from_micros(1), reason: Some("why not".into()) }),
            ..QueueSettings::default()
        };
        let text = serde_json::to_string(&queue).unwrap();
        assert_eq!(serde_json::from_str::<QueueSettings>(&text).unwrap(), queue, "{text}");
        assert_eq!(serde_json::from_str::<QueueSettings>("{}").unwrap(), QueueSettings::default());
        assert!(serde_json::from_str::<GroupSettings>(r#"{"wait": 1}"#).is_err(), "a misspelt setting is an error");
    }

    #[test]
    fn queues_that_wait_for_each_other_are_refused_with_the_round() {
        let mut settings = Settings::default();
        let name = |name: &str| QueueName::new(name).unwrap();
        for (queue, after) in [("a", "b"), ("b", "c"), ("c", "d"), ("x", "a")] {
            settings.queues.entry(name(queue)).or_default().after.push(name(after));
        }
        assert_eq!(settings.check_order(), Ok(()));
        settings.queues.entry(name("d")).or_default().after.push(name("b"));
        let error = settings.check_order().unwrap_err().to_string();
        assert_eq!(error, "after: queues would wait for each other: b → c → d → b");
    }

    #[test]
    fn bad_settings_are_refused_with_their_field() {
        for text in ["0", "0.0001", "1001", "x", "NaN"] {
            assert!(text.parse::<Weight>().unwrap_err().to_string().starts_with("weight: "), "{text}");
        }
        for text in ["", "10", "10/", "0/1s", "10/0s", "10/1s,0", "x/1s"] {
            assert!(text.parse::<Rate>().unwrap_err().to_string().starts_with("rate: "), "{text}");
        }
        assert!("many".parse::<Concurrency>().is_err());
        assert_eq!("0".parse::<Concurrency>().unwrap(), Concurrency::Serial);
    }
}
