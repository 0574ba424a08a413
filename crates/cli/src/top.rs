//! Live: which groups use the slots, and which share each is entitled to by its weight.

use std::{
    collections::{BTreeMap, HashSet},
    io::{self, IsTerminal},
    time::Duration,
};

use turnwise::{
    Filter, Fleet, GroupName, Job, JobState, Timestamp, Turnwise,
    overview::{GroupOverview, Overview},
};

use crate::{
    args::Top,
    error::Failure,
    overview::COUNTED,
    print,
    serve::block_on,
    settings::Settings,
    terminal::{self, Keys},
};

/// The time that shares and throughput are computed over, and how often they are shown again.
const WINDOW: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);
/// Most runs that are read; if a window has more, the newest stand for all.
const RUNS: u32 = 20_000;
/// Groups that are shown, those with the largest shares first.
const ROWS: usize = 20;
/// Moves the cursor home and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) fn top(settings: &Settings, call: &Top) -> Result<(), Failure> {
    block_on(async {
        let turnwise = settings.open().await?;
        if call.once {
            return Ok(print::lines(frame(&turnwise).await?)?);
        }
        let before = if io::stdout().is_terminal() { CLEAR } else { "" };
        let mut ticks = tokio::time::interval(EVERY);
        let mut keys = Keys::listen();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // If no handler could be installed, the signal ends the process by itself.
                Ok(()) = tokio::signal::ctrl_c() => return Ok(()),
                () = quit(&mut keys) => return Ok(()),
            }
            let mut lines = frame(&turnwise).await?;
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
    })
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

async fn frame(turnwise: &Turnwise) -> Result<Vec<String>, Failure> {
    let fleet = turnwise.nodes().await?;
    let overview = turnwise.overview_within(COUNTED).await?;
    // Two reads, because neither of them looks at what waits: a frame takes no longer however much that is.
    let ended = vec![JobState::Success, JobState::Failed, JobState::Cancelled];
    let mut runs = turnwise.jobs(Filter { states: ended, limit: Some(RUNS), ..Filter::default() }).await?;
    let running = Filter { states: vec![JobState::Running], in_hands: true, limit: Some(RUNS), ..Filter::default() };
    let running = turnwise.jobs(running).await?;
    // A job that ended between the two reads is in one of them or in none; one that was retried meanwhile may be in both.
    let ids: HashSet<_> = running.iter().map(|job| job.id).collect();
    runs.retain(|job| !ids.contains(&job.id));
    runs.extend(running);
    Ok(drawn(&fleet, &overview, &runs))
}

/// What a group had in the window.
#[derive(Debug, Default)]
struct Part {
    /// Slot time in the window.
    used: Duration,
    finished: usize,
}

fn drawn(fleet: &Fleet, overview: &Overview, runs: &[Job]) -> Vec<String> {
    let now = overview.now;
    let nodes: Vec<_> = fleet.nodes.iter().filter(|node| node.alive(fleet.now)).collect();
    let slots: u32 = nodes.iter().map(|node| node.slots).sum();
    let mut parts: BTreeMap<&GroupName, Part> = BTreeMap::new();
    for job in runs {
        let part = parts.entry(&job.group).or_default();
        part.used += used(job, now);
        part.finished += usize::from(job.state.finished() && job.finished_at.is_some_and(|at| now.since(at) < WINDOW));
    }
    let nothing = GroupOverview::default();
    let group = |name: &GroupName| overview.groups.get(name).unwrap_or(&nothing);
    let unfinished = |name: &GroupName| {
        let jobs = group(name).jobs;
        jobs.waiting + jobs.scheduled + jobs.running + jobs.stuck
    };
    for name in overview.groups.keys() {
        parts.entry(name).or_default();
    }
    // A group that used nothing and has no unfinished jobs is left out.
    parts.retain(|name, part| !part.used.is_zero() || part.finished > 0 || unfinished(name) > 0);
    let used: f64 = parts.values().map(|part| part.used.as_secs_f64()).sum();
    // A group that has nothing to run, or is paused, is entitled to nothing: a share of none would look like neglect.
    let competes = |name: &GroupName| {
        let GroupOverview { settings, jobs, .. } = group(name);
        settings.paused.is_none() && jobs.waiting + jobs.scheduled + jobs.running > 0
    };
    let competing = parts.keys().filter(|name| competes(name));
    let weights: f64 = competing.map(|name| f64::from(group(name).settings.weight)).sum();
    let finished: usize = parts.values().map(|part| part.finished).sum();
    let running: usize = overview.groups.values().map(|group| group.jobs.running + group.jobs.scheduled).sum();
    let more = if overview.more { "+" } else { "" };
    let waiting: usize = overview.groups.values().map(|group| group.jobs.waiting + group.jobs.stuck).sum();

    let count = parts.len();
    let mut sorted: Vec<_> = parts.into_iter().collect();
    sorted.sort_by_key(|(name, part)| (std::cmp::Reverse(part.used), *name));
    let rows = sorted.into_iter().take(ROWS).map(|(name, part)| {
        let GroupOverview { settings, jobs, .. } = group(name);
        [
            name.to_string(),
            percent(part.used.as_secs_f64(), used),
            if competes(name) { percent(f64::from(settings.weight), weights) } else { "-".to_owned() },
            settings.weight.to_string(),
            (jobs.scheduled + jobs.running).to_string(),
            format!("{}{more}", jobs.waiting + jobs.stuck),
            part.finished.to_string(),
            match () {
                () if settings.paused.is_some() => "paused",
                () if competes(name) => "active",
                () => "idle",
            }
            .to_owned(),
        ]
    });
    #[allow(clippy::cast_precision_loss)] // for people
    let throughput = finished as f64 / WINDOW.as_secs_f64();
    let mut lines = vec![format!(
        "{now}  nodes {}  slots {slots}  in hand {running}  waiting {waiting}{more}  {throughput:.1} jobs/s in the last {} s",
        nodes.len(),
        WINDOW.as_secs(),
    )];
    lines.push(String::new());
    lines.extend(print::columns(
        ["GROUP", "SHARE", "ENTITLED", "WEIGHT", "IN HAND", "WAITING", "FINISHED", "STATE"],
        rows,
    ));
    if count > ROWS {
        lines.push(format!("and {} groups more", count - ROWS));
    }
    if overview.more {
        lines.push(format!(
            "counted: the oldest {COUNTED} jobs and all that nodes have; a group whose jobs are all younger is missing"
        ));
    }
    lines
}

/// How long the job held a slot within the window.
fn used(job: &Job, now: Timestamp) -> Duration {
    let Some(started) = job.started_at else { return Duration::ZERO };
    let end = job.finished_at.filter(|_| job.state.finished()).unwrap_or(now).min(now);
    end.since(started.max(now.minus(WINDOW)))
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1} %", 100.0 * part / whole) } else { "-".to_owned() }
}
