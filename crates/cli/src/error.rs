//! What went wrong, as one line for a person and a number for a script: 2 = the input is bad and nothing was done,
//! 3 = another job holds the unique key of one that was to be rejected then, 130 = told to stop, 1 = anything else.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use turnwise::{Error, Invalid, StartError, StoreError};

#[derive(Debug)]
pub(crate) enum Failure {
    /// The text names the field.
    Input(String),
    Other(String),
    /// Another job holds the unique key.
    Duplicate(String),
    /// Every line about it is out already.
    Told,
    /// It was told to stop before it was through.
    Interrupted,
    /// The reader of the output has gone, as with `| head`: it has what it wanted.
    NobodyListens,
}

impl Failure {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Input(text) | Self::Other(text) | Self::Duplicate(text) => Some(text),
            Self::Told | Self::Interrupted | Self::NobodyListens => None,
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Input(_) => ExitCode::from(2),
            Self::Duplicate(_) => ExitCode::from(3),
            Self::Other(_) | Self::Told => ExitCode::from(1),
            // As a shell tells of a process that was interrupted.
            Self::Interrupted => ExitCode::from(130),
            Self::NobodyListens => ExitCode::SUCCESS,
        }
    }
}

/// Writes one line to stderr, whatever line breaks the text has.
pub(crate) fn complain(text: &str) {
    remark(&format!("error: {text}"));
}

/// A line for the person; what a script reads is on stdout.
pub(crate) fn remark(text: &str) {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    // Where stderr is closed there is nobody left to tell; the exit code still says it.
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

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Invalid(invalid) => invalid.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Of writing to stdout: the only reading and writing without a `map_err` of its own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyListens,
            _ => Self::Other(format!("writing to stdout: {error}")),
        }
    }
}
