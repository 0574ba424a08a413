//! The demo while it runs: bars that are redrawn in place, or a line a second where there is no terminal.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};

use super::{
    FLOOD, Row, Story,
    ledger::{Ledger, Tally},
    percent, span,
};

pub(super) const REDRAW: Duration = Duration::from_millis(200);
/// The share is computed over this many redraws: about a second.
const RECENT: usize = 5;
/// With the other columns it makes a line of 60.
const BAR: usize = 16;

/// Runs until it is dropped; returns by itself only if writing to stdout fails.
pub(super) async fn show(story: &Story, ledger: &Ledger, page: Option<&str>) -> io::Error {
    let heading = heading(story, page);
    if io::stdout().is_terminal() { draw(story, ledger, &heading).await } else { report(ledger, heading).await }
}

fn heading(story: &Story, page: Option<&str>) -> String {
    let order = if story.fifo { "first come, first served" } else { "groups take turns" };
    let late = story.groups - 1;
    let page = page.map_or_else(String::new, |page| format!("\nIn a browser while it runs: {page}"));
    format!(
        "{} slots, {order}:\nthe flood submits {} jobs at once,\n{late} collectives come later with a few each{page}",
        story.slots, story.flood
    )
}

async fn draw(story: &Story, ledger: &Ledger, heading: &str) -> io::Error {
    let rows = story.rows();
    let mut before: VecDeque<Vec<Tally>> = VecDeque::new();
    let mut ticks = interval(REDRAW);
    // After a terminal was held up, missed redraws are not made up for in a rush.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen = format!("{heading}\n");
    loop {
        ticks.tick().await;
        let (now, tallies) = ledger.tallies();
        let long_ago = before.front().unwrap_or(&tallies);
        screen += &frame(&rows, now, long_ago, &tallies);
        if let Err(error) = io::stdout().write_all(screen.as_bytes()).and_then(|()| io::stdout().flush()) {
            return error;
        }
        before.push_back(tallies);
        if before.len() > RECENT {
            before.pop_front();
        }
        // Up again, to draw over it.
        screen = format!("\x1b[{}A", rows.len() + 2);
    }
}

fn frame(rows: &[Row], now: f64, before: &[Tally], tallies: &[Tally]) -> String {
    // Each line is cleared first: the one it replaces may be longer.
    let mut text = format!("\r\x1b[K\n\x1b[2K{now:>6.1} s{:>31} {:>8} {:>10}\n", "done", "share", "mean wait");
    let all = recent(before, tallies, 0..tallies.len());
    for row in rows {
        let sum = total(tallies, row.groups.clone());
        let full = sum.ended * BAR / sum.jobs.max(1);
        let colour = if row.groups.contains(&FLOOD) { 33 } else { 36 };
        let share = if all > 0.0 { percent(recent(before, tallies, row.groups.clone()) / all) } else { "-".to_owned() };
        let wait = mean_wait(&sum);
        text += &format!(
            "\x1b[2K{:<11} \x1b[{colour}m{}\x1b[2m{}\x1b[0m {:>11} {share:>8} {wait:>10}\n",
            row.name,
            "█".repeat(full),
            "░".repeat(BAR - full),
            format!("{}/{}", sum.ended, sum.jobs),
        );
    }
    text
}

async fn report(ledger: &Ledger, heading: String) -> io::Error {
    let mut before: Option<Vec<Tally>> = None;
    let mut ticks = interval(Duration::from_secs(1));
    let mut text = heading;
    loop {
        ticks.tick().await;
        let (now, tallies) = ledger.tallies();
        let part = |groups: std::ops::Range<usize>| {
            let before = before.as_ref().unwrap_or(&tallies);
            let all = recent(before, &tallies, 0..tallies.len());
            let share = if all > 0.0 { recent(before, &tallies, groups.clone()) / all } else { 0.0 };
            let sum = total(&tallies, groups);
            format!("{}/{} {:.0} %", sum.ended, sum.jobs, share * 100.0)
        };
        let late = total(&tallies, 1..tallies.len());
        if before.is_some() {
            let (flood, others) = (part(FLOOD..FLOOD + 1), part(FLOOD + 1..tallies.len()));
            text = format!("{now:>4.0} s  flood {flood}, others {others}, wait {}", mean_wait(&late));
        }
        if let Err(error) = writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()) {
            return error;
        }
        before = Some(tallies);
    }
}

fn mean_wait(tally: &Tally) -> String {
    #[allow(clippy::cast_precision_loss)] // for people
    match tally.started {
        0 => "-".to_owned(),
        started => span(tally.waited / started as f64),
    }
}

/// Slot-seconds of some groups since then.
fn recent(before: &[Tally], now: &[Tally], groups: std::ops::Range<usize>) -> f64 {
    total(now, groups.clone()).served - total(before, groups).served
}

fn total(tallies: &[Tally], groups: std::ops::Range<usize>) -> Tally {
    tallies[groups].iter().fold(Tally::default(), |sum, tally| Tally {
        jobs: sum.jobs + tally.jobs,
        ended: sum.ended + tally.ended,
        started: sum.started + tally.started,
        waited: sum.waited + tally.waited,
        served: sum.served + tally.served,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heading_fits_sixty_columns_whatever_port_was_free() {
        let length = Duration::from_secs(20);
        let story = Story { groups: 10_000, slots: 1_000, length, flood: 1_000_000, fifo: true, svg: None };
        let heading = heading(&story, Some("http://127.0.0.1:65535"));
        assert_eq!(heading.lines().find(|line| line.chars().count() > 60), None);
        assert!(heading.ends_with("http://127.0.0.1:65535"), "{heading}");
    }
}
