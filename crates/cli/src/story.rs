//! `turnwise demo`: a hundred collectives, four slots, one of them floods; the others come later with a few jobs each.
//!
//! Everything is real but the work: a store in memory, a node in this process, its page, and a task that sleeps. [`ledger`] what
//! happened when → [`view`] the terminal while it happens → [`entitlement`] what each group should have had → [`picture`] what
//! the SVG shows.

mod entitlement;
mod ledger;
mod picture;
mod view;

use std::{ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use turnwise::{Config, Ctx, Invalid, JobRequest, NodeName, Outcome, Registry, StartError, Turnwise, task};
use turnwise_chart::standalone;

use self::{
    entitlement::Entitlement,
    ledger::{Ledger, Times, mean},
};
use crate::{
    args,
    error::Failure,
    http::{Http, Listen},
    print,
    serve::{block_on, until_interrupted},
};

/// How long one job holds its slot.
const LENGTH: Duration = Duration::from_millis(20);
/// What is submitted, as parts of what the slots can do in the time: together less than all of it, so that the story has
/// an end also on a busy machine.
const FLOOD_PART: f64 = 0.55;
const LATE_PART: f64 = 0.25;
/// When the others come, as parts of the time.
const LATE: RangeInclusive<f64> = 0.1..=0.5;
/// Where first come is first served, all jobs are of one group.
const ONE_GROUP: &str = "everybody";
const NAMES: [&str; 6] = ["acme", "bakery", "clinic", "dentist", "embassy", "florist"];

/// The group that floods; the numbers after it are the late collectives.
const FLOOD: usize = 0;

/// What was asked for.
struct Story {
    groups: usize,
    slots: u32,
    length: Duration,
    flood: usize,
    fifo: bool,
    svg: Option<PathBuf>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Work {
    /// Its number in the ledger.
    job: usize,
}

/// Holds a slot for a moment and notes when.
#[task("demo", register = false)]
async fn work(Work { job }: Work, ctx: Ctx, ledger: turnwise::State<Arc<Ledger>>) -> Outcome {
    ledger.start(job);
    tokio::select! {
        () = tokio::time::sleep(LENGTH) => {}
        () = ctx.cancelled() => return Outcome::cancelled(),
    }
    ledger.end(job);
    Outcome::done()
}

pub(crate) fn demo(args: &args::Args, call: &args::Demo) -> Result<(), Failure> {
    if args.server.is_some() {
        return Err(Invalid::new("server", "the demo has a database of its own, in memory; leave it out").into());
    }
    let said = [
        ("database", args.database.is_some()),
        ("token", args.token.is_some()),
        ("server-ca", args.server_ca.is_some()),
        ("server-plain-http", args.server_plain_http),
        ("config", args.config.is_some()),
        ("log", args.log.is_some()),
        ("log-format", args.log_format.is_some()),
    ];
    if let Some((flag, _)) = said.into_iter().find(|(_, said)| *said) {
        let problem = "has no effect on the demo, which uses no database and no settings; leave it out";
        return Err(Invalid::new(flag, problem).into());
    }
    let story = Story::read(call)?;
    // A file that cannot be written is reported before the demo runs, not after it.
    if let Some(svg) = &story.svg {
        print::check_picture(svg)?;
    }
    let played = block_on(until_interrupted(play(&story)))?;
    if let Some(svg) = &story.svg {
        print::picture(svg, &standalone(&picture::picture(&played, &story).svg()))?;
    }
    played.print(&story)?;
    Ok(())
}

impl Story {
    fn read(call: &args::Demo) -> Result<Self, Invalid> {
        let seconds = match &call.minutes {
            Some(minutes) => number("minutes", Some(minutes), 1, 1..=60)? * 60,
            None => number("seconds", call.seconds.as_ref(), 20, 1..=3_600)?,
        };
        let slots = number("slots", call.slots.as_ref(), 4, 1..=1_000)?;
        let length = Duration::from_secs(seconds.into());
        let usual = part_of(FLOOD_PART, length, slots);
        let flood = match &call.flood {
            Some(flood) => number("flood", Some(flood), 1, 1..=1_000_000)? as usize,
            None => usual,
        };
        let svg = call.svg.clone();
        let groups = number("groups", call.groups.as_ref(), 100, 2..=10_000)? as usize;
        Ok(Self { groups, slots, length, flood, fifo: call.fifo, svg })
    }

    fn name(&self, group: usize) -> String {
        match group.checked_sub(1) {
            None => "flood".to_owned(),
            Some(late) => NAMES.get(late).map_or_else(|| format!("collective-{group}"), |name| (*name).to_owned()),
        }
    }

    /// Rows for people: the flood, some collectives by name, and all the others together.
    fn rows(&self) -> Vec<Row> {
        let alone =
            (0..self.groups.min(1 + NAMES.len())).map(|group| Row { name: self.name(group), groups: group..group + 1 });
        let rest = 1 + NAMES.len()..self.groups;
        let together = (!rest.is_empty()).then(|| Row { name: format!("{} others", rest.len()), groups: rest });
        alone.chain(together).collect()
    }

    /// When each group comes, and with how many jobs: in turn, with one job at first, then with one to three.
    fn arrivals(&self) -> Vec<Arrival> {
        let late = self.groups - 1;
        let jobs = part_of(LATE_PART, self.length, self.slots).max(late);
        let mut arrivals = Vec::new();
        let mut planned = 0;
        for visit in 0.. {
            if planned >= jobs {
                break;
            }
            let (round, group) = (visit / late, 1 + visit % late);
            let count = if round == 0 { 1 } else { (1 + (round + group) % 3).min(jobs - planned) };
            planned += count;
            arrivals.push(Arrival { at: Duration::ZERO, group, count });
        }
        let step = self.length.mul_f64(LATE.end() - LATE.start()) / u32::try_from(arrivals.len()).unwrap_or(u32::MAX);
        let mut at = self.length.mul_f64(*LATE.start());
        for arrival in &mut arrivals {
            arrival.at = at;
            at += step;
        }
        arrivals
    }
}

struct Row {
    name: String,
    groups: std::ops::Range<usize>,
}

struct Arrival {
    at: Duration,
    group: usize,
    count: usize,
}

/// How many jobs fill this part of the slots' time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and an hour of a thousand slots fits
fn part_of(part: f64, length: Duration, slots: u32) -> usize {
    (part * f64::from(slots) * length.as_secs_f64() / LENGTH.as_secs_f64()).ceil() as usize
}

fn number(field: &'static str, text: Option<&String>, usual: u32, range: RangeInclusive<u32>) -> Result<u32, Invalid> {
    let Some(text) = text else { return Ok(usual) };
    let bad = || Invalid::new(field, format!("must be {} to {}, not {text:?}", range.start(), range.end()));
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(bad)
}

/// Runs the story; returns what is in the ledger at its end.
async fn play(story: &Story) -> Result<Played, Failure> {
    let arrivals = story.arrivals();
    let mut owners = vec![FLOOD; story.flood];
    owners.extend(arrivals.iter().flat_map(|arrival| std::iter::repeat_n(arrival.group, arrival.count)));
    let ledger = Arc::new(Ledger::new(&owners, story.groups));

    let turnwise = Turnwise::open("memory:").await?;
    let mut config = Config::new(NodeName::new("demo")?);
    config.core_pool_size = story.slots;
    let mut registry = Registry::new();
    registry.register(work).map_err(StartError::from)?;
    let executor = turnwise.executor_with(config).registry(registry).state(ledger.clone()).build()?;
    let listen = Listen::default();
    let listener = listen.bind().await?;
    let http = listener.map(|listener| Http::start(&turnwise, listener, listen)).transpose()?;
    let page = http.as_ref().map(Http::url);
    if let Some(http) = &http {
        http.watch(&executor);
    }
    // The flood is there when the node opens: storing a great many jobs is no part of the story.
    submit(&turnwise, story, &ledger, FLOOD, 0..story.flood).await?;
    ledger.begin();
    let begun = Instant::now();
    executor.start().await?;
    let submits = async {
        let mut next = story.flood;
        for arrival in &arrivals {
            sleep_until(begun + arrival.at).await;
            submit(&turnwise, story, &ledger, arrival.group, next..next + arrival.count).await?;
            next += arrival.count;
        }
        ledger.all_ended().await;
        // Time for one more redraw, with full bars.
        sleep(view::REDRAW).await;
        Ok(())
    };
    let shown = tokio::select! {
        // Time is up: jobs that have not ended are reported as they are.
        submitted = timeout_at(begun + story.length, submits) => submitted.unwrap_or(Ok(())),
        closed = view::show(story, &ledger, page.as_deref()) => Err(Failure::from(closed)),
    };
    let (now, jobs) = ledger.close();
    if let Some(http) = &http {
        http.stop_soon();
    }
    executor.stop().await;
    if let Some(http) = http {
        http.stop().await;
    }
    shown.map(|()| Played::new(story, now, jobs))
}

async fn submit(
    turnwise: &Turnwise,
    story: &Story,
    ledger: &Ledger,
    group: usize,
    jobs: std::ops::Range<usize>,
) -> Result<(), Failure> {
    let name = if story.fifo { ONE_GROUP.to_owned() } else { story.name(group) };
    let requests: Vec<JobRequest> = jobs.clone().map(|job| work.job(Work { job }).group(&name)).collect();
    ledger.submit(jobs);
    turnwise.submit_all(requests).await?;
    Ok(())
}

/// What happened, all times in seconds from the beginning.
struct Played {
    end: f64,
    jobs: Vec<Times>,
    /// From the first submit of a late collective to the last: in this time the groups compete for slots.
    contended: RangeInclusive<f64>,
    entitlement: Entitlement,
}

impl Played {
    fn new(story: &Story, now: f64, jobs: Vec<Times>) -> Self {
        let last = jobs.iter().map(|job| job.ended).try_fold(0.0, |last, ended| Some(f64::max(last, ended?)));
        let end = last.unwrap_or(now);
        let late = || jobs.iter().filter(|job| job.group != FLOOD).filter_map(|job| job.submitted);
        let contended = late().fold(end, f64::min)..=late().fold(0.0, f64::max);
        let entitlement = Entitlement::compute(&jobs, story.groups, story.slots, end, &contended);
        Self { end, jobs, contended, entitlement }
    }

    /// How long a job waited; `false`: it still waits.
    fn wait(&self, job: &Times) -> Option<(f64, bool)> {
        Some((job.started.unwrap_or(self.end) - job.submitted?, job.started.is_some()))
    }

    fn print(&self, story: &Story) -> Result<(), Failure> {
        let served = |groups: &std::ops::Range<usize>| -> f64 {
            let jobs = self.jobs.iter().filter(|job| groups.contains(&job.group));
            jobs.map(|job| job.slot_time(&self.contended, self.end)).sum()
        };
        let all = served(&(0..story.groups)).max(f64::MIN_POSITIVE);
        let rows = story.rows().into_iter().map(|row| {
            let jobs: Vec<_> = self.jobs.iter().filter(|job| row.groups.contains(&job.group)).collect();
            let ended = jobs.iter().filter(|job| job.ended.is_some()).count();
            let count = if ended == jobs.len() { ended.to_string() } else { format!("{ended}/{}", jobs.len()) };
            // Jobs of a group are in the ledger in the order they came.
            let firsts = row.groups.clone().filter_map(|group| jobs.iter().find(|job| job.group == group));
            [
                row.name,
                count,
                waited(firsts.filter_map(|job| self.wait(job))),
                waited(jobs.iter().filter_map(|job| self.wait(job))),
                percent(served(&row.groups) / all),
                percent(self.entitlement.share(row.groups)),
            ]
        });
        print::lines([""])?;
        print::table(["GROUP", "JOBS", "FIRST WAIT", "MEAN WAIT", "SHARE", "ENTITLED"], rows, false)?;
        let late: Vec<_> = self.jobs.iter().filter(|job| job.group != FLOOD).filter_map(|job| self.wait(job)).collect();
        let longest = late.iter().copied().max_by(|(one, _), (other, _)| one.total_cmp(other));
        let order = if story.fifo { "first come, first served" } else { "in turn" };
        let mut lines = vec![
            String::new(),
            format!("{order}: the late collectives' jobs waited {}", waited(late.iter().copied())),
            format!("on average, {} at most", waited(longest.into_iter())),
            format!(
                "(share of slot time from {} to {}, while they came;",
                span(*self.contended.start()),
                span(*self.contended.end()),
            ),
            format!(" {} in all; waits of several groups are means)", span(self.end)),
        ];
        lines.extend(story.svg.as_ref().map(|svg| format!("picture: {}", svg.display())));
        Ok(print::lines(lines)?)
    }
}

/// The mean of some waits, with `>` before it if some of them are not over.
fn waited(waits: impl Iterator<Item = (f64, bool)>) -> String {
    let waits: Vec<_> = waits.collect();
    let more = if waits.iter().all(|(_, over)| *over) { "" } else { "> " };
    match mean(waits.iter().map(|(wait, _)| *wait)) {
        Some(wait) => format!("{more}{}", span(wait)),
        None => "-".to_owned(),
    }
}

fn span(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(groups: usize, slots: u32, seconds: u64) -> Story {
        let length = Duration::from_secs(seconds);
        Story { groups, slots, length, flood: 10, fifo: false, svg: None }
    }

    #[test]
    fn every_collective_comes_and_all_come_in_time() {
        for (groups, slots, seconds) in [(2, 1, 1), (10, 2, 2), (100, 4, 20), (10_000, 1, 1)] {
            let arrivals = story(groups, slots, seconds).arrivals();
            for group in 1..groups {
                assert!(
                    arrivals.iter().any(|arrival| arrival.group == group && arrival.count > 0),
                    "{group} of {groups}"
                );
            }
            let last = arrivals.last().expect("at least one group comes").at;
            assert!(last <= Duration::from_secs(seconds).mul_f64(*LATE.end()), "{last:?}");
        }
    }

    #[test]
    fn every_group_is_in_one_row() {
        for groups in [2, 7, 8, 100] {
            let rows = story(groups, 1, 1).rows();
            let in_rows: Vec<usize> = rows.iter().flat_map(|row| row.groups.clone()).collect();
            assert_eq!(in_rows, (0..groups).collect::<Vec<_>>());
        }
    }
}
