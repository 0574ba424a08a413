//! Which errors runs ended with: each kind with how often and when, a job that has it, and the way to run its jobs again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use turnwise::{Timestamp, access::TokenId};
use turnwise_chart::{Colour, Lines, Measure, Series, Spark, State};

use crate::{
    call::Reply,
    limits::{EXAMPLE_FOR, EXAMPLES},
    page::{
        Visit,
        fairness::Tab,
        figure::Figure,
        frame::Frame,
        jobs::{quoted, short},
        numbers::{line, unix},
        overview::ErrorSeen,
        recipe::{Command, Recipe},
        shown::{Count, Shown},
        visit::{parameters, render},
        window::Window,
    },
    problem::Problem,
};

/// A [`turnwise::wire::ErrorSeen`].
#[derive(Debug, Deserialize)]
struct Kind {
    fingerprint: String,
    queue: String,
    task: String,
    count: u64,
    first_seen: Timestamp,
    last_seen: Timestamp,
    counts: Vec<Counted>,
}

#[derive(Debug, Deserialize)]
struct Counted {
    at: Timestamp,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct Kinds {
    errors: Vec<Kind>,
}

impl Kind {
    /// The jobs that have it.
    fn filter(&self) -> String {
        filter(&self.fingerprint, &self.task, &self.queue)
    }

    fn steps(&self, window: &Window, now: Timestamp) -> Vec<u64> {
        window.count(self.counts.iter().map(|counted| (counted.at, counted.count)), now)
    }
}

fn filter(fingerprint: &str, task: &str, queue: &str) -> String {
    format!("fingerprint:{fingerprint} task:{} queue:{}", quoted(task), quoted(queue))
}

/// A job that failed with an error.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Example {
    id: String,
    error: Option<String>,
}

impl Example {
    fn short(&self) -> &str {
        short(&self.id)
    }

    /// What it says, as far as a line of a table holds it.
    fn text(&self) -> String {
        let text = self.error.as_deref().unwrap_or_default();
        let mut short: String = text.chars().take(TEXT).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }
}

/// Characters of an error that are shown.
const TEXT: usize = 240;

#[derive(Debug, Deserialize)]
struct Found {
    jobs: Vec<Example>,
}

/// Jobs that stand for their errors, for each token its own: so a page that is read again and again does not look for them each time.
#[derive(Debug, Default)]
pub(crate) struct Examples(Mutex<Known>);

/// By token and filter; with when they were looked for.
type Known = HashMap<(Option<TokenId>, String), (Instant, Option<Example>)>;

impl Examples {
    fn all(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &(Option<TokenId>, String)) -> Option<Option<Example>> {
        self.all().get(key).filter(|(read, _)| read.elapsed() < EXAMPLE_FOR).map(|(_, example)| example.clone())
    }

    fn keep(&self, key: (Option<TokenId>, String), example: Option<Example>) {
        let mut all = self.all();
        if all.len() >= EXAMPLES {
            all.retain(|_, (read, _)| read.elapsed() < EXAMPLE_FOR);
        }
        if all.len() < EXAMPLES {
            all.insert(key, (Instant::now(), example));
        }
    }
}

/// What an error of this kind says, where a job that failed with it is still there: such jobs have an index.
pub(crate) async fn text_of(visit: &Visit, seen: &ErrorSeen) -> Result<Option<String>, Problem> {
    let of_kind = filter(&seen.fingerprint, &seen.task, &seen.queue);
    let found = example(visit, format!("{of_kind} state:failed")).await?;
    Ok(found.filter(|example| example.error.is_some()).map(|example| example.text()))
}

async fn example(visit: &Visit, filter: String) -> Result<Option<Example>, Problem> {
    let key = (visit.asker.caller.token(), filter.clone());
    if let Some(known) = visit.service.examples().find(&key) {
        return Ok(known);
    }
    let Found { jobs } = visit.get("listJobs", "", &[("filter", &filter), ("limit", "1")]).await?;
    let example = jobs.into_iter().next();
    visit.service.examples().keep(key, example.clone());
    Ok(example)
}

/// A kind of error, as a row.
struct Row {
    kind: Kind,
    example: Option<Example>,
    spark: String,
    jobs: String,
    /// Where its jobs are run again.
    again: Option<String>,
}

impl Row {
    fn count(&self) -> Count {
        Count::exact(self.kind.count)
    }
}

#[derive(Template)]
#[template(path = "errors.html")]
struct Errors {
    frame: Frame,
    window: &'static Window,
    windows: Vec<Tab>,
    /// Of one task alone.
    task: Option<String>,
    /// All tasks again.
    all: String,
    figure: Figure,
    rows: Vec<Row>,
    /// Runs that ended in one of the errors.
    runs: Count,
    kinds: usize,
    /// The page that follows.
    more: Option<String>,
    first: Option<String>,
    /// Whether errors are not counted for what this token may see.
    of_groups: bool,
    decides: bool,
    recipe: Recipe,
    submit: Recipe,
}

/// Kinds of a page.
const LISTED: usize = 25;
/// Kinds with a line of their own.
const LINES: usize = 3;

fn lines(kinds: &[Kind], window: &Window, now: Timestamp) -> Lines {
    let steps: Vec<_> = kinds.iter().map(|kind| kind.steps(window, now)).collect();
    let all = (0..window.steps(now).len()).map(|step| steps.iter().filter_map(|counts| counts.get(step)).sum());
    let mut series: Vec<Series> = vec![line("all", Colour::State(State::Failed), all)];
    if kinds.len() > 1 {
        for (number, (kind, counts)) in kinds.iter().zip(&steps).take(LINES).enumerate() {
            series.push(line(
                &format!("{} {}", kind.task, kind.fingerprint),
                Colour::Series(number),
                counts.iter().copied(),
            ));
        }
    }
    Lines {
        title: format!("Runs that ended in an error, by the {}", window.step),
        times: window.axis(now),
        at: window.steps(now).into_iter().map(unix).collect(),
        measure: Measure::Count,
        series,
    }
}

#[allow(clippy::cast_precision_loss)] // a chart is no more exact
fn spark(kind: &Kind, window: &Window, now: Timestamp) -> String {
    let values = kind.steps(window, now).into_iter().map(|count| Some(count as f64)).collect();
    let title = format!("Runs of {} with this error, by the {}", kind.task, window.step);
    Spark { title, measure: Measure::Count, colour: Colour::State(State::Failed), values }.svg()
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let window = Window::of(&visit);
    let frame = Frame::of(&visit, "errors", "Errors");
    let now = frame.now;
    let since = window.begin(now).to_string();
    let task = visit.query.get("task").filter(|task| !task.is_empty()).map(str::to_owned);
    let of_task: Vec<_> = task.iter().map(|task| ("task", task.as_str())).collect();
    let asked: Vec<_> =
        [("since", since.as_str()), ("step", window.step)].into_iter().chain(of_task.iter().copied()).collect();
    let Kinds { errors: kinds } = visit.get("listErrors", "", &asked).await?;
    let figure = Figure::of(&lines(&kinds, window, now));
    let (runs, count) = (Count::exact(kinds.iter().map(|kind| kind.count).sum()), kinds.len());
    let from = visit.query.get("from").and_then(|from| from.parse().ok()).unwrap_or(0_usize);
    let decides = visit.may("retryJobs");
    let mut rows = Vec::new();
    for kind in kinds.into_iter().skip(from).take(LISTED) {
        let failed = format!("state:failed,stuck {}", kind.filter());
        rows.push(Row {
            example: example(&visit, kind.filter()).await?,
            spark: spark(&kind, window, now),
            jobs: frame.jobs(kind.filter()),
            again: decides
                .then(|| format!("{}decide{}", frame.root, parameters([("do", "retry"), ("filter", &failed)]))),
            kind,
        });
    }
    let here = |from: Option<&str>| {
        let pairs =
            [("window", window.name)].into_iter().chain(of_task.iter().copied()).chain(from.map(|from| ("from", from)));
        format!("{}errors{}", frame.root, parameters(pairs))
    };
    let next = (from + LISTED).to_string();
    let (more, first) = ((from + LISTED < count).then(|| here(Some(&next))), (from > 0).then(|| here(None)));
    let windows = window.tabs(&frame.root, "errors", &of_task);
    let all = format!("{}errors{}", frame.root, parameters([("window", window.name)]));
    let job = json!({ "task": "flaky", "args": { "fail": 1 }, "retry": "none" });
    let submit = Command::new("enqueue").value("flaky").value(r#"{"fail": 1}"#).option("--retry", "none");
    let submit = visit.action("submitJob", "", Some(&job), Some(submit));
    let recipe = visit.table("listErrors", "", &asked, None);
    let of_groups = visit.asker.caller.grant.limits().groups.is_some();
    let frame = frame.json(format!("errors{}", parameters(asked.iter().copied())));
    render(&Errors {
        frame,
        window,
        windows,
        task,
        all,
        figure,
        rows,
        runs,
        kinds: count,
        more,
        first,
        of_groups,
        decides,
        recipe,
        submit,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_example_is_shown_for_a_while_and_only_to_its_token() {
        let examples = Examples::default();
        let example = Example { id: "1".to_owned(), error: Some("é".repeat(TEXT + 1)) };
        assert_eq!(example.text().chars().count(), TEXT + 1, "shortened at a character");
        examples.keep((None, "a".to_owned()), Some(example));
        assert!(examples.find(&(None, "a".to_owned())).is_some());
        assert!(examples.find(&(Some(TokenId(Uuid::from_u128(1))), "a".to_owned())).is_none());
        tokio::time::advance(EXAMPLE_FOR + Duration::from_secs(1)).await;
        assert!(examples.find(&(None, "a".to_owned())).is_none());
        (0..2 * EXAMPLES).for_each(|number| examples.keep((None, number.to_string()), None));
        assert_eq!(examples.all().len(), EXAMPLES);
    }
}
