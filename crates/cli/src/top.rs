//! Live: who uses the slots, and whose they are by weight.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    time::Duration,
};

use turnwise::{
    Filter, Fleet, GroupName, Job, JobState, Timestamp, Turnwise,
    overview::{GroupOverview, Overview},
};

use crate::{args::Top, error::Failure, print, serve::block_on, settings::Settings};

/// How far back shares and throughput look, and how often they are shown anew.
const WINDOW: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(1);
/// Runs that are looked at; more than that in a window are taken as alike.
const RUNS: u32 = 20_000;
/// Groups that are shown, those with the largest shares first.
const ROWS: usize = 20;
/// Home, and everything below away.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(crate) fn top(settings: &Settings, wish: &Top) -> Result<(), Failure> {
    block_on(async {
        let turnwise = settings.open().await?;
        if wish.once {
            return Ok(print::lines(frame(&turnwise).await?)?);
        }
        let before = if io::stdout().is_terminal() { CLEAR } else { "" };
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // Without a way to be told to stop there is still the signal's own way to stop us.
                Ok(()) = tokio::signal::ctrl_c() => return Ok(()),
            }
            let mut lines = frame(&turnwise).await?;
            lines[0].insert_str(0, before);
            // Between two frames, where nobody clears the screen.
            lines.push(String::new());
            print::lines(lines)?;
        }
    })
}

async fn frame(turnwise: &Turnwise) -> Result<Vec<String>, Failure> {
    let fleet = turnwise.nodes().await?;
    let overview = turnwise.overview().await?;
    let states = vec![JobState::Running, JobState::Success, JobState::Failed, JobState::Cancelled];
    let runs = turnwise.jobs(Filter { states, limit: Some(RUNS), ..Filter::default() }).await?;
    Ok(drawn(&fleet, &overview, &runs))
}

/// What a group had and has.
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
    // Whoever neither used nor wants anything has no part in it.
    parts.retain(|name, part| !part.used.is_zero() || part.finished > 0 || unfinished(name) > 0);
    let used: f64 = parts.values().map(|part| part.used.as_secs_f64()).sum();
    let weights: f64 = parts.keys().map(|name| f64::from(group(name).settings.weight)).sum();
    let finished: usize = parts.values().map(|part| part.finished).sum();
    let running: usize = overview.groups.values().map(|group| group.jobs.running + group.jobs.scheduled).sum();
    let waiting: usize = overview.groups.values().map(|group| group.jobs.waiting + group.jobs.stuck).sum();

    let count = parts.len();
    let mut sorted: Vec<_> = parts.into_iter().collect();
    sorted.sort_by_key(|(name, part)| (std::cmp::Reverse(part.used), *name));
    let rows = sorted.into_iter().take(ROWS).map(|(name, part)| {
        let GroupOverview { settings, jobs, .. } = group(name);
        [
            name.to_string(),
            percent(part.used.as_secs_f64(), used),
            percent(f64::from(settings.weight), weights),
            settings.weight.to_string(),
            (jobs.scheduled + jobs.running).to_string(),
            (jobs.waiting + jobs.stuck).to_string(),
            part.finished.to_string(),
            if settings.paused.is_some() { "paused" } else { "" }.to_owned(),
        ]
    });
    #[allow(clippy::cast_precision_loss)] // for people
    let throughput = finished as f64 / WINDOW.as_secs_f64();
    let mut lines = vec![format!(
        "{now}  nodes {}  slots {slots}  in hand {running}  waiting {waiting}  {throughput:.1} jobs/s in the last {} s",
        nodes.len(),
        WINDOW.as_secs(),
    )];
    lines.push(String::new());
    lines.extend(print::columns(["GROUP", "SHARE", "ENTITLED", "WEIGHT", "IN HAND", "WAITING", "FINISHED", ""], rows));
    if count > ROWS {
        lines.push(format!("and {} groups more", count - ROWS));
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
