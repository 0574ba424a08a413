//! Why a job does not run yet: for programs, and in plain words.

use serde::Serialize;
use turnwise_core::{JobId, JobState, Timestamp, time::print_about, why};

use crate::view::{Answer, Forecast};

/// Why a job does not run yet, and when it will.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// Which job was asked about.
    pub id: JobId,
    /// Its state when it was asked about.
    pub state: JobState,
    /// Everything that holds it up.
    pub gates: Vec<Gate>,
    /// How many jobs are expected to start before it; `null` where that cannot be said.
    pub before: Option<usize>,
    /// When it is expected to start, in milliseconds from now; `null` where that cannot be said.
    pub starts_in_ms: Option<u128>,
    /// The whole answer, a sentence each.
    pub words: Vec<String>,
}

/// One thing that holds a job up.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Gate {
    /// The word for it, such as `paused` or `at_limit`.
    pub gate: &'static str,
    /// Until when, where that is known.
    pub until: Option<Timestamp>,
    /// A sentence.
    pub text: String,
}

impl Gate {
    /// As the scheduler says it.
    pub fn new(gate: &why::Gate) -> Self {
        Self { gate: gate.name(), until: gate.until(), text: gate.to_string() }
    }
}

impl Why {
    /// The scheduler's answer.
    pub fn new(answer: &Answer) -> Self {
        let why = answer.why.as_ref();
        let forecast = why.and_then(|why| why.forecast);
        Self {
            id: answer.job.id,
            state: answer.job.state,
            gates: why.map(|why| why.gates.iter().map(Gate::new).collect()).unwrap_or_default(),
            before: forecast.map(|forecast| forecast.before),
            starts_in_ms: forecast.filter(|_| !answer.guessed).map(|forecast| forecast.starts_in.as_millis()),
            words: words(answer),
        }
    }
}

fn words(answer: &Answer) -> Vec<String> {
    let job = &answer.job;
    let Some(why) = &answer.why else {
        return vec![format!("it has ended: {} at {}", job.state, shown(job.finished_at.as_ref()))];
    };
    match job.state {
        JobState::Running | JobState::Scheduled if answer.lost => {
            return job.node.iter().map(|node| why::Gate::NodeLost { node: node.clone() }.to_string()).collect();
        }
        JobState::Running => {
            return vec![format!("it runs on {} since {}", shown(job.node.as_ref()), shown(job.started_at.as_ref()))];
        }
        JobState::Scheduled => {
            return vec![format!(
                "node {} has it and starts it when one of its slots is free",
                shown(job.node.as_ref())
            )];
        }
        _ => {}
    }
    let limits = |gate: &why::Gate| {
        matches!(gate, why::Gate::AtLimit { .. } | why::Gate::FullOnNodes { .. } | why::Gate::SlotsBusy { .. })
    };
    let sentence = |gate: &why::Gate| match why.forecast {
        Some(forecast) if limits(gate) && !answer.guessed => {
            format!("{gate}; about {}", print_about(forecast.starts_in))
        }
        _ => gate.to_string(),
    };
    let mut words: Vec<String> = why.gates.iter().map(sentence).collect();
    let mut last = match why.forecast {
        Some(forecast) => forecast_words(forecast, answer.guessed),
        None if why.gates.is_empty() => "nothing holds it up, but it lies too far ahead to say when".to_owned(),
        None => "it will not start unless something changes, or starts too far ahead to say when".to_owned(),
    };
    if let Some(expires) = answer.job.expires_at {
        last += &format!("; if it has not begun by {expires}, it expires");
    }
    words.push(last);
    words
}

fn forecast_words(forecast: Forecast, guessed: bool) -> String {
    let before = match forecast.before {
        0 => "it is next".to_owned(),
        1 => "1 job before it".to_owned(),
        before => format!("{before} jobs before it"),
    };
    if forecast.starts_in.is_zero() {
        format!("{before}; it starts now")
    } else if guessed {
        format!("{before}; when it starts cannot be said: it is not known how long the runs before it take")
    } else {
        format!("{before}; starts in about {}", print_about(forecast.starts_in))
    }
}

fn shown<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}
