//! The log of a job, and its progress while it runs.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use turnwise::{
    JobId, Turnwise,
    story::{Line, LineAt, Progress},
    wire,
};

use crate::{
    args,
    error::{Failure, judge},
    look, print,
    serve::block_on,
    settings::Settings,
};

/// How often `--follow` and `--watch` read again.
const EVERY: Duration = Duration::from_millis(300);
/// Lines read at a time.
const PAGE: u32 = 1_000;
/// Cells of a progress bar.
const BAR: usize = 40;

pub(crate) fn logs(settings: &Settings, call: &args::Logs) -> Result<(), Failure> {
    let id = look::id(settings, &call.id)?;
    block_on(async {
        let turnwise = settings.open().await?;
        turnwise.job(id).await?;
        let last = match call.lines.as_deref() {
            Some(lines) => look::limit("lines", lines)?,
            None => 1_000_000,
        };
        let story = turnwise.story(id, last).await?;
        if story.dropped > 0 && call.lines.is_none() {
            print::lines([format!("({} earlier lines are not kept)", story.dropped)])?;
        }
        print::lines(story.lines.iter().map(|line| written(line, call.json)))?;
        if call.follow {
            follow(&turnwise, id, story.lines.last().map(|line| line.at), call.json).await?;
        }
        Ok(())
    })
}

/// Goes on until the job ends or the reader has gone.
async fn follow(turnwise: &Turnwise, id: JobId, mut after: Option<LineAt>, json: bool) -> Result<(), Failure> {
    loop {
        // The state is read before the log: if the job has ended, the log then has all of its lines.
        let ended = turnwise.job(id).await?.state.finished();
        after = print_new_lines(turnwise, id, after, json).await?;
        if ended {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            Ok(()) = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
        }
    }
}

async fn print_new_lines(
    turnwise: &Turnwise,
    id: JobId,
    mut after: Option<LineAt>,
    json: bool,
) -> Result<Option<LineAt>, Failure> {
    loop {
        let story = turnwise.log_after(id, after, PAGE).await?;
        print::lines(story.lines.iter().map(|line| written(line, json)))?;
        after = story.lines.last().map(|line| line.at).or(after);
        if story.lines.len() < PAGE as usize {
            return Ok(after);
        }
    }
}

fn written(line: &Line, json: bool) -> String {
    let Line { time, level, text, .. } = line;
    if json {
        serde_json::json!(wire::LogLine::new(line)).to_string()
    } else {
        format!("{time} {:<5} {}", level.name(), print::clean(text))
    }
}

/// Shows the job's state and progress until it ends, then everything that is recorded about it, and ends as the job did.
pub(crate) fn watch(settings: &Settings, id: JobId) -> Result<(), Failure> {
    let live = io::stdout().is_terminal();
    let job = block_on(async {
        let turnwise = settings.open().await?;
        let mut shown = String::new();
        loop {
            let job = turnwise.job(id).await?;
            let progress = turnwise.story(id, 0).await?.progress;
            let line = format!("{:<9} {}", job.state.name(), progress.as_ref().map(bar).unwrap_or_default());
            if line != shown {
                // In a terminal the line is drawn over the last one.
                let drawn = if live && !shown.is_empty() { format!("\u{1b}[1A\u{1b}[2K{line}") } else { line.clone() };
                print::lines([drawn.trim_end()])?;
                shown = line;
            }
            if job.state.finished() {
                return Ok(job);
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                Ok(()) = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
            }
        }
    })?;
    look::job_in_full(settings, id)?;
    judge([&job])
}

/// `[######----] 60 % 6 of 10 pages`
pub(crate) fn bar(progress: &Progress) -> String {
    let Progress { done, total, text } = progress;
    let text = print::brief(text);
    match progress.share() {
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
        assert_eq!(bar(&Progress::new(0, 0, "")), "0");
        assert_eq!(bar(&Progress::new(3, 0, "pages")), "3 pages");
        let half = bar(&Progress::new(1, 2, "pages\u{1b}[2J"));
        assert_eq!(half, format!("[{}{}] 50 % 1 of 2 pages\u{fffd}[2J", "#".repeat(20), "-".repeat(20)));
        assert!(bar(&Progress::new(9, 2, "")).contains("] 100 %"));
    }
}
