//! Why a job does not run yet, in plain words.

use serde::Serialize;
use turnwise::{
    JobId, JobState,
    view::{Answer, Forecast, Gate},
};

use crate::{
    args::OneJob,
    error::Failure,
    print::{self, about, shown},
    serve::block_on,
    settings::Settings,
};

#[derive(Debug, Serialize)]
struct WhyView {
    id: JobId,
    state: JobState,
    /// Everything that is closed, each as a sentence.
    gates: Vec<String>,
    /// How many jobs are expected to start before it; `null` where that cannot be said.
    before: Option<usize>,
    starts_in_ms: Option<u128>,
    /// The whole answer, a sentence each.
    words: Vec<String>,
}

pub(crate) fn why(settings: &Settings, wish: &OneJob) -> Result<(), Failure> {
    let id: JobId = wish.id.parse()?;
    let answer = block_on(async { Ok(settings.open().await?.why(id).await?) })?;
    let why = answer.why.as_ref();
    let forecast = why.and_then(|why| why.forecast);
    let view = WhyView {
        id,
        state: answer.job.state,
        gates: why.map(|why| why.gates.iter().map(ToString::to_string).collect()).unwrap_or_default(),
        before: forecast.map(|forecast| forecast.before),
        starts_in_ms: forecast.map(|forecast| forecast.starts_in.as_millis()),
        words: words(&answer),
    };
    if wish.json {
        print::object(&view)?;
    } else {
        print::lines(view.words)?;
    }
    Ok(())
}

fn words(answer: &Answer) -> Vec<String> {
    let job = &answer.job;
    let Some(why) = &answer.why else {
        return vec![format!("it has ended: {} at {}", job.state, shown(job.finished_at))];
    };
    match job.state {
        JobState::Running => {
            return vec![format!("it runs on {} since {}", shown(job.node.as_ref()), shown(job.started_at))];
        }
        JobState::Scheduled => return vec![format!("it is with {} and starts in a moment", shown(job.node.as_ref()))],
        _ => {}
    }
    let limits = |gate: &Gate| matches!(gate, Gate::AtLimit { .. } | Gate::FullOnNodes { .. } | Gate::SlotsBusy { .. });
    let sentence = |gate: &Gate| match why.forecast {
        Some(forecast) if limits(gate) => format!("{gate}; about {}", about(forecast.starts_in)),
        _ => gate.to_string(),
    };
    let mut words: Vec<String> = why.gates.iter().map(sentence).collect();
    words.push(match why.forecast {
        Some(forecast) => forecast_words(forecast),
        None if why.gates.is_empty() => "nothing holds it up, but it lies too far ahead to say when".to_owned(),
        None => "it does not start by itself as things are, or too far ahead to say when".to_owned(),
    });
    words
}

fn forecast_words(forecast: Forecast) -> String {
    let before = match forecast.before {
        0 => "it is next".to_owned(),
        1 => "1 job before it".to_owned(),
        before => format!("{before} jobs before it"),
    };
    if forecast.starts_in.is_zero() {
        format!("{before}; it starts now")
    } else {
        format!("{before}; starts in about {}", about(forecast.starts_in))
    }
}
