//! The log of a job, and its progress while it runs.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use serde::Deserialize;
use turnwise::{Filter, JobId, JobState, Timestamp, Turnwise, secret::Mask, wire};
use turnwise_client::Ask;

use crate::{
    args,
    error::{Failure, judge},
    look,
    place::{self, Place, Shown, read},
    print,
    serve::{block_on, until_interrupted},
    settings::Settings,
    view::{Job, Progress},
};

/// How often `--follow` and `--watch` read again.
const EVERY: Duration = Duration::from_millis(300);
/// Lines read at a time.
const PAGE: u32 = 1_000;
/// Lines that a server gives at once, at most.
const SERVED: u32 = 10_000;
/// Cells of a progress bar.
const BAR: usize = 40;

/// The part of a line that a person reads.
#[derive(Debug, Deserialize)]
struct LogLine {
    at: Timestamp,
    level: String,
    text: String,
}

/// A part of a log.
#[derive(Debug, Deserialize)]
struct LogPart {
    lines: Vec<Shown>,
    dropped: u64,
    /// Where the next part begins.
    next: Option<String>,
}

/// The last `most` lines, or those after a place.
enum Which {
    Last(u32),
    After(String, u32),
}

/// Before all lines.
const BEGINNING: &str = "0.0";

async fn part(place: &Place, id: JobId, which: Which) -> Result<LogPart, Failure> {
    read(&match (place, which) {
        (Place::Database(turnwise), Which::Last(lines)) => {
            place::shown(&wire::Log::new(&turnwise.story(id, lines).await?, None, &mask(turnwise, id).await?))?
        }
        (Place::Database(turnwise), Which::After(after, lines)) => {
            let after = wire::Log::read_after(&after)?;
            let story = turnwise.log_after(id, Some(after), lines).await?;
            place::shown(&wire::Log::new(&story, Some(after), &mask(turnwise, id).await?))?
        }
        (Place::Server(server), Which::Last(lines)) => {
            server.ask(Ask::get(format!("/jobs/{id}/log")).with("limit", lines)).await?
        }
        (Place::Server(server), Which::After(after, lines)) => {
            server.ask(Ask::get(format!("/jobs/{id}/log")).with("after", after).with("limit", lines)).await?
        }
    })
}

/// What hides the secrets of the job.
async fn mask(turnwise: &Turnwise, id: JobId) -> Result<Mask, Failure> {
    let job = turnwise.job(id).await?;
    Ok(turnwise.secrets().await?.mask(&job.task, &job.args))
}

/// The last `most` lines. What a server does not give at once is read from the beginning on.
async fn last(place: &Place, id: JobId, most: u32) -> Result<LogPart, Failure> {
    if most <= SERVED || matches!(place, Place::Database(_)) {
        return part(place, id, Which::Last(most)).await;
    }
    let mut whole = part(place, id, Which::After(BEGINNING.to_owned(), SERVED)).await?;
    let mut full = whole.lines.len() == SERVED as usize;
    while let (true, Some(after)) = (full, whole.next.clone()) {
        let more = part(place, id, Which::After(after, SERVED)).await?;
        full = more.lines.len() == SERVED as usize;
        whole.lines.extend(more.lines);
        whole.next = more.next;
    }
    let spare = whole.lines.len().saturating_sub(most as usize);
    whole.lines.drain(..spare);
    Ok(whole)
}

pub(crate) fn logs(settings: &Settings, call: &args::Logs) -> Result<(), Failure> {
    block_on(until_interrupted(async {
        let place = Place::find(settings).await?;
        let id = place.find_id(&call.id).await?;
        // There may be a job without a log, but no log without a job.
        if let Place::Database(turnwise) = &place {
            turnwise.job(id).await?;
        }
        let most = match call.lines.as_deref() {
            Some(lines) => look::limit("lines", lines)?,
            None => Filter::MAX_LIMIT,
        };
        let log = last(&place, id, most).await?;
        if log.dropped > 0 && call.lines.is_none() {
            print::lines([format!("({} earlier lines are not kept)", log.dropped)])?;
        }
        print_lines(&log.lines, call.json)?;
        if call.follow {
            follow(&place, id, log.next, call.json).await?;
        }
        Ok(())
    }))
}

/// Goes on until the job ends or the reader has gone.
async fn follow(place: &Place, id: JobId, after: Option<String>, json: bool) -> Result<(), Failure> {
    let mut after = after.unwrap_or_else(|| BEGINNING.to_owned());
    loop {
        // The state is read before the log: if the job has ended, the log then has all of its lines.
        let ended = short(place, id).await?.state.finished();
        loop {
            let part = part(place, id, Which::After(after.clone(), PAGE)).await?;
            print_lines(&part.lines, json)?;
            after = part.next.unwrap_or(after);
            if part.lines.len() < PAGE as usize {
                break;
            }
        }
        if ended {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn print_lines(lines: &[Shown], json: bool) -> Result<(), Failure> {
    if json {
        return Ok(print::lines(lines.iter().map(|line| line.get()))?);
    }
    let line = |line: &Shown| {
        let LogLine { at, level, text } = read(line)?;
        Ok(format!("{at} {level:<5} {}", print::clean(&text)))
    };
    Ok(print::lines(lines.iter().map(line).collect::<Result<Vec<_>, Failure>>()?)?)
}

/// The state of a job, how it ended and how far it has come: what is looked at again and again.
#[derive(Debug, Deserialize)]
struct Short {
    state: JobState,
    progress: Option<Progress>,
}

async fn short(place: &Place, id: JobId) -> Result<Short, Failure> {
    match place {
        Place::Database(turnwise) => {
            let state = turnwise.job(id).await?.state;
            let progress = turnwise.story(id, 0).await?.progress;
            let progress = progress.map(|progress| {
                let turnwise::story::Progress { done, total, text, .. } = progress;
                Progress { done, total, text: text.to_string() }
            });
            Ok(Short { state, progress })
        }
        Place::Server(server) => read(&server.ask(Ask::get(format!("/jobs/{id}"))).await?),
    }
}

/// Shows the job's state and progress until it ends, then everything that is recorded about it, and ends as the job did.
pub(crate) fn watch(settings: &Settings, id: JobId) -> Result<(), Failure> {
    let live = io::stdout().is_terminal();
    let job = block_on(until_interrupted(async {
        let place = Place::find(settings).await?;
        let mut shown = String::new();
        loop {
            let Short { state, progress } = short(&place, id).await?;
            let line = format!("{:<9} {}", state.name(), progress.as_ref().map(bar).unwrap_or_default());
            if line != shown {
                // In a terminal the line is drawn over the last one.
                let drawn = if live && !shown.is_empty() { format!("\u{1b}[1A\u{1b}[2K{line}") } else { line.clone() };
                print::lines([drawn.trim_end()])?;
                shown = line;
            }
            if state.finished() {
                return read::<Job>(&look::in_full(&place, id).await?);
            }
            tokio::time::sleep(EVERY).await;
        }
    }))?;
    look::job_in_full(settings, id)?;
    judge([&job])
}

/// `[######----] 60 % 6 of 10 pages`
pub(crate) fn bar(progress: &Progress) -> String {
    let Progress { done, total, text } = progress;
    let text = print::brief(text);
    #[allow(clippy::cast_precision_loss)] // for people
    let share = (*total > 0).then(|| (*done as f64 / *total as f64).min(1.0));
    match share {
        None => format!("{done} {text}"),
        Some(share) => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // 0 to 40
            let full = (share * BAR as f64).round() as usize;
            let (full, empty) = ("#".repeat(full), "-".repeat(BAR - full));
            format!("[{full}{empty}] {:.0} % {done} of {total} {text}", share * 100.0)
        }
    }
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up() {
        let bar = |done, total, text: &str| bar(&Progress { done, total, text: text.to_owned() });
        assert_eq!(bar(0, 0, ""), "0");
        assert_eq!(bar(3, 0, "pages"), "3 pages");
        let half = bar(1, 2, "pages\u{1b}[2J");
        assert_eq!(half, format!("[{}{}] 50 % 1 of 2 pages\u{fffd}[2J", "#".repeat(20), "-".repeat(20)));
        assert!(bar(9, 2, "").contains("] 100 %"));
    }
}
