//! The record of a run: one JSON object a line.
//!
//! Nodes write theirs with `--trace`; the harness adds what only it knows. Lines of one process stand in the order in
//! which it wrote them. Between processes no order is assumed: a line is written after the fact, and its process may have been
//! stopped in between.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error as _};
use turnwise_core::JobState;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{from}, line {line}: {source}")]
    Line { from: String, line: usize, source: serde_json::Error },
}

/// All lines of all processes of one run.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Written by one incarnation of the node `node`.
    Node {
        node: String,
        incarnation: String,
        event: NodeEvent,
    },
    Harness(HarnessEvent),
}

/// What a node traces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum NodeEvent {
    Join {
        slots: u32,
    },
    Lead {
        epoch: i64,
    },
    Assign {
        job: String,
        fence: i64,
        to: String,
    },
    Start {
        job: String,
        fence: i64,
    },
    Effect {
        job: String,
        fence: i64,
    },
    /// The run was stopped before its task returned.
    Interrupt {
        job: String,
        fence: i64,
    },
    /// The store accepted how a run ended.
    Settle {
        job: String,
        fence: i64,
        #[serde(deserialize_with = "state")]
        state: JobState,
    },
    /// The store refused the end of a run.
    Stale {
        job: String,
        fence: i64,
    },
    /// The node does not know whether the store accepted the end of a run.
    GiveUp {
        job: String,
        fence: i64,
    },
    /// The dispatcher tries to take the job from a lost node. The next fence shows whether it could: the lost node's own last
    /// settle may have come first.
    NodeLost {
        job: String,
        fence: i64,
        lost: String,
        #[serde(deserialize_with = "state")]
        state: JobState,
    },
    /// The dispatcher is about to end a job that has never run.
    Unrun {
        job: String,
        fence: i64,
        #[serde(deserialize_with = "state")]
        state: JobState,
    },
    Leave {
        held: u64,
    },
}

/// What only the harness knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HarnessEvent {
    /// A submit was acknowledged.
    Submit { job: String },
    /// A person cancelled, retried or gave up the job: it may end, and run again, outside its runs.
    Decide { job: String },
    /// This incarnation was killed: its last lines may be missing.
    Kill { killed: String },
    /// The database was cut off: what it did and could not report is in no trace.
    Outage,
    /// A failover took back what was committed of this job last; `gone`: all of it.
    TakenBack { job: String, gone: bool },
    /// What the store lists at the end.
    End {
        job: String,
        #[serde(deserialize_with = "state")]
        state: JobState,
    },
    /// What the store holds at rest: jobs in nodes' hands, and nodes.
    Rest { running: u64, nodes: u64 },
}

impl History {
    /// Reads one text; `from` names it in errors.
    pub fn parse(from: &str, text: &str) -> Result<Self, ReadError> {
        let mut history = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let broken = |source| ReadError::Line { from: from.to_owned(), line: index + 1, source };
            history.lines.push(parse_line(line).map_err(broken)?);
        }
        Ok(history)
    }

    /// Reads the files of one run, each a process or several that append to one file.
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ReadError> {
        let mut history = Self::default();
        for path in paths {
            let path = path.as_ref();
            let text = fs::read_to_string(path).map_err(|source| ReadError::File { path: path.to_owned(), source })?;
            history.add(Self::parse(&path.display().to_string(), &text)?);
        }
        Ok(history)
    }

    pub fn add(&mut self, other: History) {
        self.lines.extend(other.lines);
    }
}

fn parse_line(text: &str) -> Result<Line, serde_json::Error> {
    #[derive(Deserialize)]
    struct Author {
        node: Option<String>,
        incarnation: Option<String>,
    }
    // Twice over the same short text: errors then name the field, which an untagged enum's cannot.
    match serde_json::from_str(text)? {
        Author { node: Some(node), incarnation: Some(incarnation) } => {
            Ok(Line::Node { node, incarnation, event: serde_json::from_str(text)? })
        }
        _ => Ok(Line::Harness(serde_json::from_str(text)?)),
    }
}

fn state<'de, D: Deserializer<'de>>(decoder: D) -> Result<JobState, D::Error> {
    String::deserialize(decoder)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nodes_and_of_the_harness_are_distinguished() {
        let text = r#"{"at":"2030-01-01T00:00:00.000000Z","node":"n","incarnation":"i","event":"settle","job":"a","fence":1,"state":"success"}
{"event":"kill","killed":"i"}"#;
        let event = NodeEvent::Settle { job: "a".into(), fence: 1, state: JobState::Success };
        assert_eq!(
            History::parse("t", text).unwrap().lines,
            [
                Line::Node { node: "n".into(), incarnation: "i".into(), event },
                Line::Harness(HarnessEvent::Kill { killed: "i".into() }),
            ]
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        for (line, part) in [
            (r#"{"event":"submit"}"#, "job"),
            (r#"{"event":"dance","job":"a"}"#, "dance"),
            (r#"{"event":"end","job":"a","state":"lost"}"#, "lost"),
            (r#"{"event":"sub"#, "EOF"),
        ] {
            let text = format!("{{\"event\":\"outage\"}}\n\n{line}\n");
            let error = History::parse("trace", &text).unwrap_err().to_string();
            assert!(error.starts_with("trace, line 3: ") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = History::read(["no/such/trace"]).unwrap_err().to_string();
        assert!(error.starts_with("no/such/trace: "), "{error}");
    }
}
