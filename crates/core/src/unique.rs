//! Unique jobs: of all that are submitted with one key, one is there at a time.
//!
//! A job holds its key for as long as its submitter asked for. A store keeps which job holds which key ([`Holding`]) and asks
//! [`Holding::claim`] whether another job may take it.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    job::{JobId, JobState, NewJob},
    json::Json,
    name::{Invalid, QueueName, ScopeName, TaskName, UniqueKey},
    time::{MAX_SPAN, Timestamp},
};

/// Makes a job the only one with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The same key in the same scope is held by one job at a time.
    pub key: UniqueKey,
    /// Among which jobs the key is unique.
    pub scope: Scope,
    /// How long the job holds the key.
    pub hold: Hold,
    /// What becomes of this submit if another job holds the key.
    pub on_duplicate: OnDuplicate,
}

impl Unique {
    /// Unique within its task until the job has ended; a duplicate is answered with the job that holds the key.
    pub fn new(key: UniqueKey) -> Self {
        Self { key, scope: Scope::default(), hold: Hold::default(), on_duplicate: OnDuplicate::default() }
    }

    /// The error text for a submit with [`OnDuplicate::Reject`] whose key `holder` has.
    pub fn refusal(&self, job: &NewJob, holder: JobId) -> String {
        format!("unique key \"{}\" in {} is held by job {holder}", self.key, self.scope.of(job))
    }
}

/// What a key is unique within.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Scope {
    /// Jobs that are submitted for the same task.
    #[default]
    Task,
    /// Jobs of the same queue.
    Queue,
    /// Jobs of the same group, in all queues.
    Group,
    /// Whatever has the same name, across tasks, queues and groups.
    Named(ScopeName),
}

impl Scope {
    /// As the database keeps it: the same for all jobs among which a key is unique.
    pub fn of(&self, job: &NewJob) -> String {
        match self {
            Self::Task => format!("task:{}", job.task),
            Self::Queue => Self::in_queue(&job.queue),
            Self::Group => format!("group:{}", job.group),
            Self::Named(name) => format!("scope:{name}"),
        }
    }

    /// As the database keeps [`Scope::Queue`] for jobs of this queue.
    #[doc(hidden)]
    pub fn in_queue(queue: &QueueName) -> String {
        format!("queue:{queue}")
    }
}

impl FromStr for Scope {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Ok(match text {
            "task" => Self::Task,
            "queue" => Self::Queue,
            "group" => Self::Group,
            name => Self::Named(ScopeName::new(name)?),
        })
    }
}

/// How long a job holds its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hold {
    /// Until it has ended, however that was.
    #[default]
    UntilEnded,
    /// For this long from its submit, whether it has ended or not.
    For(Duration),
    /// Until it has ended, and for at least this long from its submit.
    AtLeast(Duration),
}

impl Hold {
    pub fn until_ended(self) -> bool {
        matches!(self, Self::UntilEnded | Self::AtLeast(_))
    }

    pub fn period(self) -> Option<Duration> {
        match self {
            Self::UntilEnded => None,
            Self::For(period) | Self::AtLeast(period) => Some(period),
        }
    }

    pub fn check(self) -> Result<Self, Invalid> {
        match self.period() {
            Some(period) if period < Duration::from_micros(1) => {
                Err(Invalid::new("unique_for", "must be longer than nothing"))
            }
            Some(period) if period > MAX_SPAN => Err(Invalid::new("unique_for", "is longer than ten years")),
            _ => Ok(self),
        }
    }
}

/// What becomes of a submit whose key is held by another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// The other job is the answer.
    #[default]
    Keep,
    /// The submit is refused, with all that was submitted in the same call.
    Reject,
    /// The other job is the answer, and gets these arguments if it [is of the same task and has not begun](replace).
    ReplaceArgs,
}

impl OnDuplicate {
    /// Every policy.
    pub const ALL: [OnDuplicate; 3] = [Self::Keep, Self::Reject, Self::ReplaceArgs];

    /// The word for it, as it is printed and parsed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reject => "reject",
            Self::ReplaceArgs => "replace-args",
        }
    }
}

impl fmt::Display for OnDuplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for OnDuplicate {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let named = Self::ALL.into_iter().find(|policy| policy.name() == text);
        named.ok_or_else(|| Invalid::new("on_duplicate", format!("must be keep, reject or replace-args, not {text:?}")))
    }
}

/// Which job holds a key, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    pub job: JobId,
    pub until_ended: bool,
    pub expires: Option<Timestamp>,
}

/// A unique key that a job holds, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKey {
    /// As it was submitted.
    pub key: UniqueKey,
    /// Among which jobs it is unique, as [`Scope::of`] writes it: `task:mail`, `queue:slow`, `group:acme` or `scope:docs`.
    pub scope: String,
    /// When it is free although its job has not ended; `None`: not before that end.
    pub until: Option<Timestamp>,
}

/// What a submit finds at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// No job has it (any more).
    Free,
    /// The very same job: its submit was repeated.
    Own,
    HeldBy(JobId),
}

impl Holding {
    pub fn new(job: JobId, hold: Hold, now: Timestamp) -> Self {
        Self { job, until_ended: hold.until_ended(), expires: hold.period().map(|period| now.plus(period)) }
    }

    /// What `job` finds. `unfinished`: whether the holder has not ended.
    ///
    /// PostgreSQL decides the same in SQL (`turnwise.claim`), because programs in other languages submit by SQL alone. The
    /// conformance suite checks that both agree.
    pub fn claim(&self, job: JobId, unfinished: bool, now: Timestamp) -> Claim {
        if self.job == job {
            // Also when the job has ended and is kept nowhere: its key proves that it was there.
            Claim::Own
        } else if self.holds(unfinished, now) {
            Claim::HeldBy(self.job)
        } else {
            Claim::Free
        }
    }

    /// Whether its job holds the key now: another one that is submitted with it finds it held.
    pub fn holds(&self, unfinished: bool, now: Timestamp) -> bool {
        (self.until_ended && unfinished) || self.expires.is_some_and(|expires| expires > now)
    }

    /// The key as its job holds it now; `None`: the job holds it no longer.
    pub fn shown(&self, scope: String, key: UniqueKey, unfinished: bool, now: Timestamp) -> Option<HeldKey> {
        let until = self.expires.filter(|_| !(self.until_ended && unfinished));
        self.holds(unfinished, now).then_some(HeldKey { key, scope, until })
    }

    /// Whether it need not be kept: its period is over, and its job is neither unfinished nor in history, from where a
    /// person may bring it back.
    pub fn is_spent(&self, known: bool, now: Timestamp) -> bool {
        !known && self.expires.is_none_or(|expires| expires <= now)
    }
}

/// Whether the arguments of a job may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacing {
    Allowed,
    /// They would be those of another task.
    OtherTask,
    /// It was begun, or is about to be.
    TooLate,
}

/// Whether a submit may replace the arguments of the job that stands for it: only if that job is of the same task, waits, and has
/// never begun. A job that has begun, and waits for another run or for its next step, has already worked with its arguments.
///
/// PostgreSQL decides the same in SQL (`turnwise.replace_args`).
pub fn replace(same_task: bool, state: JobState, begun: bool, crashes: u32) -> Replacing {
    if !same_task {
        Replacing::OtherTask
    } else if state == JobState::Waiting && !begun && crashes == 0 {
        Replacing::Allowed
    } else {
        Replacing::TooLate
    }
}

/// The key of all jobs of this task with these arguments. The order of an object's members, white space and the way a
/// text is escaped do not count; the digits of a number do: `1` and `1.0` make two keys.
pub fn key_of(task: &TaskName, args: &Json) -> UniqueKey {
    let mut text = format!("{task}\n");
    canonical(args.as_str(), &mut text);
    let hash = Uuid::new_v5(&Uuid::from_u128(0x0d4f_6a2e_9c1b_4a57_8e3d_b2f1_7c60_5a94), text.as_bytes());
    UniqueKey::stored(format!("args-{}", hash.simple()).into())
}

/// Members sorted by name, no white space, texts escaped in one way. The recursion is bounded: checked JSON is not deep.
fn canonical(json: &str, out: &mut String) {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
            list(out, ['{', '}'], members, |out, (name, value)| {
                text(&name, out);
                out.push(':');
                canonical(value.get(), out);
            });
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            list(out, ['[', ']'], items, |out, item| canonical(item.get(), out));
        }
        Some(b'"') => text(&serde_json::from_str::<String>(json).unwrap_or_default(), out),
        _ => out.push_str(json),
    }
}

fn list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    put: impl Fn(&mut String, T),
) {
    out.push(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        put(out, item);
    }
    out.push(close);
}

fn text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> JobId {
        JobId::from_parts(n, [1; 10])
    }

    fn key(task: &str, args: &str) -> UniqueKey {
        key_of(&TaskName::new(task).unwrap(), &Json::parse("args", args).unwrap())
    }

    #[test]
    fn a_key_is_held_until_the_job_has_ended_or_the_period_is_over_or_both() {
        let at = |seconds: u64| Timestamp::from_micros(0).plus(Duration::from_secs(seconds));
        let minute = Duration::from_secs(60);
        for (hold, unfinished, seconds, held) in [
            (Hold::UntilEnded, true, 1_000, true),
            (Hold::UntilEnded, false, 0, false),
            (Hold::For(minute), true, 59, true),
            (Hold::For(minute), false, 59, true),
            (Hold::For(minute), true, 60, false),
            (Hold::AtLeast(minute), false, 59, true),
            (Hold::AtLeast(minute), true, 60, true),
            (Hold::AtLeast(minute), false, 60, false),
        ] {
            let holding = Holding::new(id(1), hold, at(0));
            let claim = holding.claim(id(2), unfinished, at(seconds));
            assert_eq!(claim, if held { Claim::HeldBy(id(1)) } else { Claim::Free }, "{hold:?} {unfinished} {seconds}");
            assert_eq!(holding.claim(id(1), unfinished, at(seconds)), Claim::Own);
            let shown = holding.shown("task:mail".to_owned(), key("mail", "null"), unfinished, at(seconds));
            assert_eq!(shown.is_some(), held, "a key is shown while it is held: {hold:?} {unfinished} {seconds}");
            let by_time = shown.and_then(|shown| shown.until);
            let ends_first = held && !(unfinished && hold.until_ended());
            assert_eq!(by_time, hold.period().map(|period| at(0).plus(period)).filter(|_| ends_first), "{hold:?}");
            if held {
                assert!(!holding.is_spent(unfinished, at(seconds)), "what holds is kept: {hold:?} {seconds}");
            }
        }
    }

    #[test]
    fn only_what_is_of_the_same_task_and_was_never_begun_gets_other_arguments() {
        let allowed = |state: &JobState| replace(true, *state, false, 0) == Replacing::Allowed;
        assert_eq!(JobState::ALL.into_iter().filter(allowed).collect::<Vec<_>>(), [JobState::Waiting]);
        assert_eq!(replace(true, JobState::Waiting, true, 0), Replacing::TooLate);
        assert_eq!(replace(true, JobState::Waiting, false, 1), Replacing::TooLate);
        for state in JobState::ALL {
            assert_eq!(replace(false, state, false, 0), Replacing::OtherTask);
        }
    }

    #[test]
    fn arguments_that_mean_the_same_have_the_same_key() {
        let one = r#"{"b":[1.50,{"x":"é\n","y":null}],"a":12345678901234567890123}"#;
        let other = " { \"a\" : 12345678901234567890123 , \"b\":[ 1.50,{\"y\":null,\"x\":\"\\u00e9\\u000a\"} ] } ";
        assert_eq!(key("mail", one), key("mail", other));
        for differs in [
            r#"{"b":[1.50,{"x":"é\n","y":null}],"a":12345678901234567890124}"#,
            r#"{"b":[1.5,{"x":"é\n","y":null}],"a":12345678901234567890123}"#,
            r#"{"b":[{"x":"é\n","y":null},1.50],"a":12345678901234567890123}"#,
            r#"{"b":[1.50,{"x":"é\n"}],"a":12345678901234567890123}"#,
            r#"["b",[1.50,{"x":"é\n","y":null}],"a",12345678901234567890123]"#,
            "null",
        ] {
            assert_ne!(key("mail", one), key("mail", differs), "{differs}");
        }
        assert_ne!(key("mail", one), key("post", one), "another task");
        assert_eq!(key("mail", "null").as_str(), "args-c321a5bb56265bd99be9103a0d319da0", "keys outlive a release");
    }

    #[test]
    fn a_wrong_policy_or_period_is_refused_with_its_field() {
        assert_eq!("reject".parse(), Ok(OnDuplicate::Reject));
        let error = "drop".parse::<OnDuplicate>().unwrap_err().to_string();
        assert_eq!(error, r#"on_duplicate: must be keep, reject or replace-args, not "drop""#);
        assert!(Hold::For(Duration::ZERO).check().unwrap_err().to_string().starts_with("unique_for: "));
        assert!("".parse::<Scope>().unwrap_err().to_string().starts_with("unique_scope: "));
    }
}
