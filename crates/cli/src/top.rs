//! Live: which groups use the slots, and which share each is entitled to by its weight.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, IsTerminal},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use turnwise::{Filter, JobState, Timestamp, settings::Weight};
use turnwise_client::Ask;

use crate::{
    args::Top,
    error::Failure,
    look,
    overview::{COUNTED, Group, Named, named},
    place::{Place, read},
    print,
    serve::{block_on, until_interrupted},
    settings::Settings,
    terminal::{self, Keys},
    view::Node,
};

/// The time that shares and throughput are computed over, and how often they are shown again.
const WINDOW: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);
/// Most runs that are read; if a window has more, the newest stand for all.
const RUNS: u32 = 20_000;
/// The same at a server: one page, once a second.
const RUNS_SERVED: u32 = 1_000;
/// Groups that are shown, those with the largest shares first.
const ROWS: usize = 20;
/// Moves the cursor home and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) fn top(settings: &Settings, call: &Top) -> Result<(), Failure> {
    let shown = block_on(until_interrupted(async {
        let place = Place::find(settings).await?;
        if call.once {
            let frame = frame(&place).await?;
            return Ok(print::lines(if call.json { vec![json(&frame)?] } else { drawn(&frame) })?);
        }
        let before = if io::stdout().is_terminal() { CLEAR } else { "" };
        let mut ticks = tokio::time::interval(EVERY);
        let mut keys = if call.json { None } else { Keys::listen() };
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = quit(&mut keys) => return Ok(()),
            }
            let frame = frame(&place).await?;
            if call.json {
                print::lines([json(&frame)?])?;
                continue;
            }
            let mut lines = drawn(&frame);
            if keys.is_some() {
                lines.push("q quits".to_owned());
            }
            let width = terminal::width();
            let mut lines: Vec<_> = lines.into_iter().map(|line| print::cut(line, width)).collect();
            lines[0].insert_str(0, before);
            // An empty line between two frames, where the screen is not cleared; the prompt gets a line of its own.
            lines.push(String::new());
            print::lines(lines)?;
        }
    }));
    match shown {
        Err(Failure::Interrupted) => Ok(()),
        other => other,
    }
}

fn json(frame: &Frame) -> Result<String, Failure> {
    Ok(serde_json::to_string(frame).map_err(io::Error::from)?)
}

/// Waits for the key that ends it; for ever, if there are no keys.
async fn quit(keys: &mut Option<Keys>) {
    while let Some(pressed) = keys {
        match pressed.next().await {
            Some(b'q' | b'Q') => return,
            Some(_) => {}
            None => *keys = None,
        }
    }
    std::future::pending().await
}

async fn frame(place: &Place) -> Result<Frame, Failure> {
    let nodes = look::living(place).await?;
    let groups = named(place, Named::Groups, COUNTED).await?;
    let groups = groups.iter().map(|group| read(group)).collect::<Result<Vec<Group>, _>>()?;
    let now = place.now().await?;
    // Two reads, because neither of them looks at what waits: a frame takes no longer however much that is.
    let mut runs = runs(place, &[JobState::Success, JobState::Failed, JobState::Cancelled]).await?;
    let newest_runs = not_all(&runs, now, most_runs(place));
    let running = self::runs(place, &[JobState::Running]).await?;
    // A job that ended between the two reads is in one of them or in none; one that was retried meanwhile may be in both.
    let ids: HashSet<_> = running.iter().map(|run| run.id.clone()).collect();
    runs.retain(|run| !ids.contains(&run.id));
    runs.extend(running);
    Ok(Frame { newest_runs, ..frame_of(now, &nodes, groups, &runs) })
}

/// A job that runs or has run.
#[derive(Debug, Deserialize)]
struct Run {
    id: String,
    group: String,
    state: JobState,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

fn most_runs(place: &Place) -> u32 {
    match place {
        Place::Database(_) => RUNS,
        Place::Server(_) => RUNS_SERVED,
    }
}

/// As many runs as were looked at, where the window has more: that of the oldest job is in it as well.
fn not_all(runs: &[Run], now: Timestamp, most: u32) -> Option<u32> {
    let in_window = |run: &Run| run.finished_at.is_some_and(|at| now.since(at) < WINDOW);
    (runs.len() >= most as usize && runs.last().is_some_and(in_window)).then_some(most)
}

async fn runs(place: &Place, states: &[JobState]) -> Result<Vec<Run>, Failure> {
    match place {
        Place::Database(turnwise) => {
            let in_hands = states == [JobState::Running];
            let filter =
                Filter { states: states.to_vec(), in_hands, limit: Some(most_runs(place)), ..Filter::default() };
            let run = |job: turnwise::Job| Run {
                id: job.id.to_string(),
                group: job.group.to_string(),
                state: job.state,
                started_at: job.started_at,
                finished_at: job.finished_at,
            };
            Ok(turnwise.jobs(filter).await?.into_iter().map(run).collect())
        }
        Place::Server(server) => {
            let words: Vec<_> = states.iter().map(ToString::to_string).collect();
            let ask = Ask::get("/jobs").with("state", words.join(","));
            let listed = server.by_cursor(&ask, "jobs", most_runs(place)).await?;
            listed.items.iter().map(|job| read(job)).collect()
        }
    }
}

/// What a group had in the window.
#[derive(Debug, Default)]
struct GroupRuns {
    /// Slot time in the window.
    used: Duration,
    finished: usize,
}

/// What is shown of a moment.
#[derive(Debug, Serialize)]
struct Frame {
    now: Timestamp,
    nodes: usize,
    slots: u32,
    in_hand: usize,
    waiting: usize,
    /// Not all jobs were counted: at least so many wait.
    at_least: bool,
    /// The time that shares and throughput are of.
    window_seconds: u64,
    finished_per_second: f64,
    /// Only so many runs of the window were looked at, those of the newest jobs: the shares are of these, and more jobs have ended.
    /// `null`: all were.
    newest_runs: Option<u32>,
    /// The largest shares first.
    groups: Vec<GroupShare>,
}

/// A group: what it had in the window, and what it is entitled to.
#[derive(Debug, Serialize)]
struct GroupShare {
    name: String,
    /// `active`, `paused`, or `idle`: nothing of it could start.
    state: &'static str,
    /// Of the slot time that all used, from 0 to 1; `null`: no group used any.
    share: Option<f64>,
    /// By its weight, beside the other active groups; `null`: it is not one of these.
    entitled: Option<f64>,
    weight: Weight,
    in_hand: usize,
    waiting: usize,
    finished: usize,
}

fn frame_of(now: Timestamp, nodes: &[Node], groups: Vec<Group>, runs: &[Run]) -> Frame {
    let at_least = groups.iter().any(|group| group.jobs.at_least);
    let groups: BTreeMap<String, Group> = groups.into_iter().map(|group| (group.name.clone(), group)).collect();
    let mut parts: BTreeMap<&str, GroupRuns> =
        groups.keys().map(|name| (name.as_str(), GroupRuns::default())).collect();
    for run in runs {
        let part = parts.entry(&run.group).or_default();
        part.used += used(run, now);
        part.finished += usize::from(run.state.finished() && run.finished_at.is_some_and(|at| now.since(at) < WINDOW));
    }
    let sum = |name: &str, of: fn(&Group) -> usize| groups.get(name).map_or(0, of);
    let in_hand = |name: &str| sum(name, |group| group.jobs.scheduled + group.jobs.running);
    let at_rest = |name: &str| sum(name, |group| group.jobs.waiting + group.jobs.stuck);
    let could_start = |name: &str| sum(name, |group| group.jobs.waiting.saturating_sub(group.jobs.later));
    let weight = |name: &str| groups.get(name).map_or_else(Weight::default, |group| group.weight);
    let paused = |name: &str| groups.get(name).is_some_and(|group| group.paused.is_some());
    // A group that used nothing and has no unfinished jobs is left out.
    parts.retain(|name, part| !part.used.is_zero() || part.finished > 0 || in_hand(name) + at_rest(name) > 0);
    let used: f64 = parts.values().map(|part| part.used.as_secs_f64()).sum();
    // A group that has nothing to run, or is paused, is entitled to nothing: a share of none would look like neglect.
    let competes = |name: &str| !paused(name) && could_start(name) + in_hand(name) > 0;
    let weights: f64 = parts.keys().filter(|name| competes(name)).map(|name| f64::from(weight(name))).sum();
    let finished: usize = parts.values().map(|part| part.finished).sum();
    let mut sorted: Vec<_> = parts.into_iter().collect();
    sorted.sort_by_key(|(name, part)| (std::cmp::Reverse(part.used), *name));
    let line = |(name, part): (&str, GroupRuns)| GroupShare {
        name: name.to_owned(),
        state: match () {
            () if paused(name) => "paused",
            () if competes(name) => "active",
            () => "idle",
        },
        share: of(part.used.as_secs_f64(), used),
        entitled: of(f64::from(weight(name)), weights).filter(|_| competes(name)),
        weight: weight(name),
        in_hand: in_hand(name),
        waiting: at_rest(name),
        finished: part.finished,
    };
    #[allow(clippy::cast_precision_loss)] // for people
    let finished_per_second = finished as f64 / WINDOW.as_secs_f64();
    Frame {
        now,
        nodes: nodes.len(),
        slots: nodes.iter().map(|node| node.slots).sum(),
        in_hand: groups.keys().map(|name| in_hand(name)).sum(),
        waiting: groups.keys().map(|name| at_rest(name)).sum(),
        at_least,
        window_seconds: WINDOW.as_secs(),
        finished_per_second,
        newest_runs: None,
        groups: sorted.into_iter().map(line).collect(),
    }
}

fn drawn(frame: &Frame) -> Vec<String> {
    let Frame {
        now,
        nodes,
        slots,
        in_hand,
        waiting,
        at_least,
        window_seconds,
        finished_per_second,
        newest_runs,
        groups,
    } = frame;
    let more = if *at_least { "+" } else { "" };
    let faster = if newest_runs.is_some() { "+" } else { "" };
    let mut lines = vec![format!(
        "{now}  nodes {nodes}  slots {slots}  in hand {in_hand}  waiting {waiting}{more}  {finished_per_second:.1}{faster} jobs/s in the last \
         {window_seconds} s"
    )];
    lines.push(String::new());
    let row = |line: &GroupShare| {
        [
            line.name.clone(),
            percent(line.share),
            percent(line.entitled),
            line.weight.to_string(),
            line.in_hand.to_string(),
            format!("{}{more}", line.waiting),
            line.finished.to_string(),
            line.state.to_owned(),
        ]
    };
    lines.extend(print::columns(
        ["GROUP", "SHARE", "ENTITLED", "WEIGHT", "IN HAND", "WAITING", "FINISHED", "STATE"],
        groups.iter().take(ROWS).map(row),
    ));
    if groups.len() > ROWS {
        lines.push(format!("and {} groups more", groups.len() - ROWS));
    }
    if let Some(most) = newest_runs {
        lines.push(format!("shares: of the last runs of the newest {most} jobs; more have ended in this time"));
    }
    if *at_least {
        lines.push(format!(
            "counted: the oldest {COUNTED} jobs and all that nodes have; a group whose jobs are all younger is missing"
        ));
    }
    lines
}

/// How long the job held a slot within the window.
fn used(run: &Run, now: Timestamp) -> Duration {
    let Some(started) = run.started_at else { return Duration::ZERO };
    let end = run.finished_at.filter(|_| run.state.finished()).unwrap_or(now).min(now);
    end.since(started.max(now.minus(WINDOW)))
}

fn of(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", 100.0 * part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_more_runs_than_are_read_says_so() {
        let now = Timestamp::from_micros(100_000_000);
        let run = |ended: i64| Run {
            id: ended.to_string(),
            group: "acme".to_owned(),
            state: JobState::Success,
            started_at: Some(Timestamp::from_micros(ended - 1_000)),
            finished_at: Some(Timestamp::from_micros(ended)),
        };
        let (late, early) = (99_000_000, 80_000_000);
        assert_eq!(not_all(&[run(late), run(late)], now, 3), None, "all that there are");
        assert_eq!(not_all(&[run(late), run(early)], now, 2), None, "older jobs ended before the window, as a rule");
        let runs = [run(late), run(late)];
        assert_eq!(not_all(&runs, now, 2), Some(2));
        let frame = Frame { newest_runs: Some(2), ..frame_of(now, &[], Vec::new(), &runs) };
        let lines = drawn(&frame).join("\n");
        assert!(lines.contains(" 0.2+ jobs/s") && lines.contains("of the newest 2 jobs"), "{lines}");
        assert!(drawn(&frame_of(now, &[], Vec::new(), &runs)).join("\n").contains(" 0.2 jobs/s"));
    }
}
