//! How a task ends, as its author writes it: plain values, `Result`s with any error, or an [`Outcome`].

use std::{panic::Location, time::Duration};

use serde::Serialize;
use turnwise_core::{
    Failure, Invalid, Json, RetryPolicy, Step, TaskName, Terms, Timestamp, lifecycle, worker::TaskLookup,
};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a task ends, when it chooses that itself. Plain values and `Result`s convert to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome(Said);

#[derive(Debug, Clone, PartialEq)]
enum Said {
    Plain(lifecycle::Outcome),
    Next(Box<Next>),
}

impl Outcome {
    /// The task did what it should; no result is kept with the job.
    pub fn done() -> Self {
        lifecycle::Outcome::Done { result: None }.into()
    }

    /// Done, with a value that is kept with the job. The job fails if that cannot be written as JSON.
    pub fn done_with(result: &impl Serialize) -> Self {
        match Json::encode("result", result) {
            Ok(json) if json == Json::null() => Self::done(),
            Ok(json) => lifecycle::Outcome::Done { result: Some(json) }.into(),
            Err(error) => lifecycle::Outcome::Fail(Failure::new(error.to_string())).into(),
        }
    }

    /// The same job goes on as another task: `Outcome::next(Next::to("send", &args))`, or with a job request of a task of
    /// this program, whose arguments, time, retries and timeout it takes: `Outcome::next(send.job(args))`.
    pub fn next(next: impl Into<Next>) -> Self {
        Self(Said::Next(Box::new(next.into())))
    }

    /// It failed and may be tried again, by the job's policy.
    #[track_caller]
    pub fn error(error: impl Into<BoxError>) -> Self {
        lifecycle::Outcome::Error(failure(error.into(), Location::caller())).into()
    }

    /// It failed for good.
    #[track_caller]
    pub fn fail(error: impl Into<BoxError>) -> Self {
        lifecycle::Outcome::Fail(failure(error.into(), Location::caller())).into()
    }

    /// Again after this long; spends no attempt.
    pub fn snooze(wait: Duration) -> Self {
        lifecycle::Outcome::Snooze { wait }.into()
    }

    /// The job ends as `cancelled`, whether or not a cancel was requested.
    pub fn cancelled() -> Self {
        lifecycle::Outcome::Cancelled.into()
    }

    pub(crate) fn interrupted() -> Self {
        lifecycle::Outcome::Interrupted.into()
    }

    /// How it ends, if it does not go on as another task.
    #[cfg(unix)]
    pub(crate) fn plain(&self) -> Option<&lifecycle::Outcome> {
        match &self.0 {
            Said::Plain(outcome) => Some(outcome),
            Said::Next(_) => None,
        }
    }

    /// As [`Outcome::plain`], by value; the error is what it goes on with.
    #[cfg(unix)]
    pub(crate) fn into_plain(self) -> Result<lifecycle::Outcome, Box<Next>> {
        match self.0 {
            Said::Plain(outcome) => Ok(outcome),
            Said::Next(next) => Err(next),
        }
    }

    /// As core decides about it. What a next step leaves open is taken from its task's own facts.
    pub(crate) fn resolve(self, tasks: &impl TaskLookup, now: Timestamp) -> lifecycle::Outcome {
        match self.0 {
            Said::Plain(outcome) => outcome,
            Said::Next(next) => next
                .resolve(tasks, now)
                .unwrap_or_else(|invalid| lifecycle::Outcome::Fail(Failure::new(format!("the next step: {invalid}")))),
        }
    }
}

impl From<lifecycle::Outcome> for Outcome {
    fn from(outcome: lifecycle::Outcome) -> Self {
        Self(Said::Plain(outcome))
    }
}

/// What a job goes on with.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "return it: Outcome::next(…)"]
pub struct Next {
    /// Invalid values fail the job when its run ends, naming the first of them.
    pub step: Result<(TaskName, Json, Terms), Invalid>,
    /// `None`: as the task sets it, else [`RetryPolicy::default`].
    pub retry: Option<RetryPolicy>,
    /// Not before this moment; `None`: at once.
    pub due: Option<Timestamp>,
    /// Not before this long after the run, by the database's clock; comes before `due`.
    pub delay: Option<Duration>,
}

impl Next {
    /// Goes on as this task, at once. A name or arguments that cannot be used fail the job when its run ends.
    pub fn to(task: impl AsRef<str>, args: &impl Serialize) -> Self {
        let step = TaskName::new(task).and_then(|task| Ok((task, Json::encode("args", args)?, Terms::default())));
        Self { step, retry: None, due: None, delay: None }
    }

    /// How often and when this step runs again after a failed run. Default: its task's policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Not before this moment, by the database's clock.
    pub fn at(mut self, due: Timestamp) -> Self {
        self.due = Some(due);
        self
    }

    /// Not before this much time has passed, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    fn resolve(self, tasks: &impl TaskLookup, now: Timestamp) -> Result<lifecycle::Outcome, Invalid> {
        let (task, args, terms) = self.step?;
        let own = || tasks.retry(&task).cloned();
        let retry = self.retry.or_else(own);
        let due = self.delay.map(|delay| now.plus(delay)).or(self.due);
        Ok(lifecycle::Outcome::Next { step: Box::new(Step { task, args, retry, terms }), due })
    }
}

/// What a task may return: an [`Outcome`], any serialisable value, or a `Result` of these with any error.
pub trait IntoOutcome {
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: Serialize> IntoOutcome for T {
    fn into_outcome(self) -> Outcome {
        Outcome::done_with(&self)
    }
}

/// Used by `#[task]` for functions that return a `Result`.
#[track_caller]
pub fn from_result<T: IntoOutcome, E: Into<BoxError>>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(value) => value.into_outcome(),
        Err(error) => lifecycle::Outcome::Error(failure(error.into(), Location::caller())).into(),
    }
}

/// An error that knows where it was met: every `?` that makes one notes its place.
///
/// ```
/// # use turnwise_executor::TaskError;
/// fn read(path: &str) -> Result<String, TaskError> {
///     Ok(std::fs::read_to_string(path)?) // the job's attempts name this line
/// }
/// # assert!(read("/none").unwrap_err().to_string().contains("No such file"));
/// ```
pub struct TaskError {
    error: BoxError,
    place: &'static Location<'static>,
}

impl TaskError {
    #[track_caller]
    pub(crate) fn boxed(error: BoxError) -> Self {
        match error.downcast::<CtxError>() {
            Ok(placed) => placed.0,
            Err(error) => Self { error, place: Location::caller() },
        }
    }

    /// An error with a text of your own.
    #[track_caller]
    pub fn new(text: impl Into<String>) -> Self {
        Self { error: text.into().into(), place: Location::caller() }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for TaskError {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::boxed(error.into())
    }
}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.error, f)
    }
}

impl std::fmt::Debug for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {}", self.error, self.place)
    }
}

impl From<TaskError> for BoxError {
    fn from(error: TaskError) -> Self {
        Box::new(CtxError(error))
    }
}

/// What a [`Ctx`](crate::Ctx) could not do, or the error that a step of it ended with; it knows where it was met.
///
/// It implements [`std::error::Error`], so `?` works in functions that return a [`TaskError`], a boxed error or an error type that
/// takes any other. (A [`TaskError`] cannot implement it: `?` makes one of every error.)
pub struct CtxError(TaskError);

impl From<TaskError> for CtxError {
    fn from(error: TaskError) -> Self {
        Self(error)
    }
}

impl std::fmt::Debug for CtxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

impl std::fmt::Display for CtxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for CtxError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.error.source()
    }
}

/// All that is known of an error: its text, its causes, and where it was met, or else where it became an outcome.
pub(crate) fn failure(error: BoxError, otherwise: &Location<'_>) -> Failure {
    match error.downcast_ref::<CtxError>() {
        Some(CtxError(inner)) => Failure::of(&*inner.error).at(inner.place),
        None => Failure::of(&*error).at(otherwise),
    }
}

/// As [`failure`], of an error that no line of the task's own made an outcome.
pub(crate) fn met_somewhere(error: BoxError) -> Failure {
    match error.downcast_ref::<CtxError>() {
        Some(CtxError(inner)) => Failure::of(&*inner.error).at(inner.place),
        None => Failure::of(&*error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn met() -> Result<(), TaskError> {
        Err(std::io::Error::other("disk on fire"))?;
        Ok(())
    }

    #[test]
    fn a_question_mark_notes_its_place() {
        let line = line!() - 6;
        let lifecycle::Outcome::Error(failure) = from_result(met()).resolve(&Registry::new(), Timestamp::MIN) else {
            panic!("it failed")
        };
        assert_eq!(failure.chain, ["disk on fire"]);
        assert!(
            failure.place.as_ref().is_some_and(|place| place.contains(&format!("outcome.rs:{line}:"))),
            "{failure:?}"
        );
    }

    /// What is kept of a failed step, whatever the task's function returns.
    #[test]
    fn a_failed_step_keeps_its_place_through_every_kind_of_error() {
        let failed = || -> Result<(), CtxError> { Err(TaskError::from(std::io::Error::other("disk on fire")).into()) };
        let line = line!() - 1;
        let plainly = || -> Result<(), TaskError> { Ok(failed()?) };
        let boxed = || -> Result<(), BoxError> { Ok(failed()?) };
        for outcome in [from_result(failed()), from_result(plainly()), from_result(boxed())] {
            let lifecycle::Outcome::Error(failure) = outcome.resolve(&Registry::new(), Timestamp::MIN) else {
                panic!("it failed")
            };
            assert_eq!(failure.chain, ["disk on fire"]);
            assert!(
                failure.place.as_ref().is_some_and(|place| place.contains(&format!("outcome.rs:{line}:"))),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn an_outcome_that_fails_names_the_line_that_said_so() {
        let outcome = Outcome::fail("no such customer");
        let lifecycle::Outcome::Fail(failure) = outcome.resolve(&Registry::new(), Timestamp::MIN) else {
            panic!("it failed")
        };
        assert!(failure.place.unwrap().contains(&format!("outcome.rs:{}:", line!() - 4)));
    }

    #[test]
    fn a_next_step_that_cannot_be_is_a_failure_that_says_so() {
        let outcome = Outcome::next(Next::to("", &())).resolve(&Registry::new(), Timestamp::MIN);
        assert!(
            matches!(&outcome, lifecycle::Outcome::Fail(failure) if failure.text().contains("next step: ")),
            "{outcome:?}"
        );
    }
}
