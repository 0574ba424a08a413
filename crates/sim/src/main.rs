//! `turnwise-sim`: runs seeds, or checks the record of a run that was made elsewhere.

use std::{
    env, fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use turnwise_sim::{
    History, Report, check,
    seeds::{self, Corpus, Totals, Verdict},
};

const HELP: &str = "\
usage: turnwise-sim --seeds N | --for SECONDS [--from SEED] [--threads N] [--trace FILE] [--corpus FILE]
       turnwise-sim check FILE…

Runs seeds: each stands for a fleet, its settings, its jobs, what people do and what goes wrong (nodes killed, stopped and
cut off, lost and doubled messages and wake-ups, outages, a clock that jumps, failovers that take back commits). The real
executor runs it in virtual time, on the memory store and on SQLite in memory, and both runs must be the same, call by call.
Then everything is mended and every job must end; every promise is checked on the way.

  --seeds N      number of seeds
  --for SECONDS  as many seeds as begin in that time; with --seeds, whichever comes first
  --from SEED    the first seed [default: 1]
  --threads N    seeds that run at a time [default: the number of cores]
  --trace FILE   with --seeds: write the record of the last seed to FILE, and every call of its store to FILE.log
  --corpus FILE  add failed seeds to FILE [default, when run by cargo: crates/sim/corpus/seeds.txt]

  check FILE…    check whether every promise was kept in the record of these files (nodes write theirs with --trace)

A failed seed prints what was broken and the command that runs it again. The exit code is 1 if anything was broken, 2 if the
arguments are wrong.
";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("check") if args.len() > 1 => match History::read(&args[1..]) {
            Ok(history) => print_report(&check(&history)),
            Err(error) => say(&format!("{error}\n"), 2),
        },
        Some("--help" | "-h" | "help") => say(HELP, 0),
        _ => match Options::parse(&args) {
            Ok(options) => options.run(),
            Err(problem) => say(&format!("{problem}\n\n{HELP}"), 2),
        },
    }
}

struct Options {
    /// If both are given, whichever is reached first.
    seeds: Option<u64>,
    time: Option<Duration>,
    from: u64,
    threads: usize,
    trace: Option<PathBuf>,
    corpus: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let (mut seeds, mut time, mut from, mut threads, mut trace, mut corpus) = (None, None, 1, None, None, None);
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| format!("{option} needs a value"));
            let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{option}: {text:?} is not a number"));
            match option.as_str() {
                "--seeds" => seeds = Some(number(value?)?),
                "--for" => time = Some(Duration::from_secs(number(value?)?)),
                "--from" => from = number(value?)?,
                "--threads" => threads = Some(number(value?)?),
                "--trace" => trace = Some(PathBuf::from(value?)),
                "--corpus" => corpus = Some(PathBuf::from(value?)),
                other => return Err(format!("{other:?} is not an option")),
            }
        }
        if seeds.is_none() && time.is_none() {
            return Err("give --seeds N or --for SECONDS".to_owned());
        }
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        let threads = threads.and_then(|threads| usize::try_from(threads).ok()).unwrap_or(cores).max(1);
        let here = || env::var_os("CARGO_MANIFEST_DIR").map(|here| PathBuf::from(here).join("corpus/seeds.txt"));
        Ok(Self { seeds, time, from, threads, trace, corpus: corpus.or_else(here) })
    }

    fn run(&self) -> ExitCode {
        let begun = Instant::now();
        let next = AtomicU64::new(self.from);
        let end = self.seeds.map_or(u64::MAX, |seeds| self.from.saturating_add(seeds));
        let is_over = || self.time.is_some_and(|time| begun.elapsed() >= time);
        let totals = Mutex::new(Totals::default());
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end || is_over() {
                            return;
                        }
                        let verdict = seeds::try_seed(seed);
                        if seed + 1 == end {
                            self.keep_trace(&verdict);
                        }
                        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
                        totals.add(&verdict);
                        if !verdict.violations.is_empty() {
                            say(&verdict.to_string(), 1);
                            self.keep_seed(&verdict);
                        }
                    }
                });
            }
        });
        let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
        let seconds = begun.elapsed().as_secs_f64();
        say(&format!("{totals} in {seconds:.1} s\n"), u8::from(totals.failed > 0))
    }

    fn keep_trace(&self, verdict: &Verdict) {
        let Some(path) = &self.trace else { return };
        let log = path.with_added_extension("log");
        let written = fs::write(path, &verdict.run.trace).and_then(|()| fs::write(log, &verdict.run.log));
        if let Err(error) = written {
            say(&format!("{}: {error}\n", path.display()), 2);
        }
    }

    fn keep_seed(&self, verdict: &Verdict) {
        let Some(path) = &self.corpus else { return };
        if let Err(error) = Corpus::add(path, verdict) {
            say(&format!("{}: {error}\n", path.display()), 2);
        }
    }
}

fn print_report(report: &Report) -> ExitCode {
    say(&report.to_string(), u8::from(!report.violations.is_empty()))
}

fn say(text: &str, code: u8) -> ExitCode {
    // A closed stdout does not change what was found.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}
