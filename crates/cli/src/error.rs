//! What went wrong, as one line for a person and a number for a script: 2 = the input is bad and nothing was done,
//! 3 = rejected because another job holds the unique key, 4 = the job that was waited for failed, 5 = it was cancelled,
//! 130 = stopped by a signal, 1 = anything else. The numbers are an interface: docs/guides/exit-codes.md.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use turnwise::{Error, Invalid, JobState, StartError, StoreError};

use crate::view::Job;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The text names the field.
    Input(String),
    Other(String),
    /// Another job holds the unique key.
    Duplicate(String),
    /// Every line about it is printed already.
    AlreadyPrinted,
    /// A job that was waited for has failed; the line about it is printed already.
    JobFailed,
    /// A job that was waited for was cancelled, and none failed; the line about it is printed already.
    JobCancelled,
    /// A signal stopped the command before it was finished.
    Interrupted,
    /// The reader of the output has gone, as with `| head`: it has what it wanted.
    OutputClosed,
}

impl Failure {
    /// The same, with the name of the field that it is about.
    pub(crate) fn about(self, field: &str) -> Self {
        match self {
            Self::Input(text) => Self::Input(format!("{field}: {text}")),
            Self::Other(text) => Self::Other(format!("{field}: {text}")),
            other => other,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Input(text) | Self::Other(text) | Self::Duplicate(text) => Some(text),
            Self::AlreadyPrinted | Self::JobFailed | Self::JobCancelled | Self::Interrupted | Self::OutputClosed => {
                None
            }
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Input(_) => ExitCode::from(2),
            Self::Duplicate(_) => ExitCode::from(3),
            Self::JobFailed => ExitCode::from(4),
            Self::JobCancelled => ExitCode::from(5),
            Self::Other(_) | Self::AlreadyPrinted => ExitCode::from(1),
            // The exit code that a shell reports for an interrupted process.
            Self::Interrupted => ExitCode::from(130),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

/// How jobs that were waited for have ended: a line for each that did not end well, and the exit code for all of them.
pub(crate) fn judge<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Result<(), Failure> {
    let mut verdict = Ok(());
    for job in jobs {
        let failure = match job.state {
            JobState::Failed => Failure::JobFailed,
            JobState::Cancelled => Failure::JobCancelled,
            _ => continue,
        };
        let error = job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
        let word = if matches!(failure, Failure::JobFailed) { "failed" } else { "was cancelled" };
        complain(&format!("job {} {word}{error}", job.id));
        if !matches!(verdict, Err(Failure::JobFailed)) {
            verdict = Err(failure);
        }
    }
    verdict
}

/// Writes one line to stderr, whatever line breaks the text has.
pub(crate) fn complain(text: &str) {
    remark(&format!("error: {text}"));
}

/// A line for the person; what a script reads is on stdout.
pub(crate) fn remark(text: &str) {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // If stderr is closed the line is lost; the exit code still reports the failure.
    let _ = writeln!(io::stderr(), "{}", line.trim_end());
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::Input(invalid.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::Store(StoreError::Duplicate { text, .. }) => Self::Duplicate(text),
            other => Self::Other(other.to_string()),
        }
    }
}

/// The same exit code as without a server: 2 where the input is wrong, 3 for a held unique key.
impl From<turnwise_client::Error> for Failure {
    fn from(error: turnwise_client::Error) -> Self {
        let turnwise_client::Error::Problem(problem) = error else { return Self::Other(error.to_string()) };
        match problem.word() {
            "invalid" | "malformed" => Self::Input(problem.detail),
            "conflict" if problem.job.is_some() => Self::Duplicate(problem.detail),
            "unauthorized" => Self::Other(format!("{}; give one with --token or TURNWISE_TOKEN", problem.detail)),
            _ => Self::Other(problem.detail),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Invalid(invalid) => invalid.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

/// From writing to stdout; all other reading and writing has a `map_err` of its own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Other(format!("writing to stdout: {error}")),
        }
    }
}
