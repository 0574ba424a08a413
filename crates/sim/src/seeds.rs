//! Trying seeds: each on both stores, with the same calls on both; and the corpus of those that once found something.

use std::{fmt, fs, io, panic, path::Path, time::Duration};

use crate::{
    check::Counts,
    run::{Report, run, stores},
};

/// The result of a seed.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub seed: u64,
    pub violations: Vec<String>,
    /// On the memory store.
    pub run: Report,
}

/// Runs `seed` twice, on the memory store and on SQLite (or on memory again where SQLite cannot do what the seed asks for),
/// and compares the two: whatever differs is chance that does not come from the seed, or a store that behaves differently.
pub fn try_seed(seed: u64) -> Verdict {
    let once = |kept| {
        panic::catch_unwind(|| run(seed, kept)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Report {
                violations: vec![format!("the simulator panicked: {text}")],
                counts: Counts::default(),
                trace: String::new(),
                log: String::new(),
                took: Duration::ZERO,
            }
        })
    };
    let kept = stores(seed);
    let [first, second] = kept.map(once);
    let mut violations = first.violations.clone();
    violations.extend(second.violations.iter().filter(|violation| !first.violations.contains(violation)).cloned());
    if let Some(difference) = first_difference(&first.log, &second.log) {
        violations.push(format!("the runs of the same seed differ, on {} and on {}: {difference}", kept[0], kept[1]));
    } else if first.trace != second.trace {
        violations.push("the runs of the same seed have the same calls and different records".to_owned());
    }
    Verdict { seed, violations, run: first }
}

fn first_difference(one: &str, other: &str) -> Option<String> {
    let mut lines = (1..).zip(one.lines().zip(other.lines()));
    match lines.find(|(_, (one, other))| one != other) {
        Some((line, (one, other))) => Some(format!("line {line} of the log\n    {one}\n    {other}")),
        None if one.len() != other.len() => Some("one of the two logs is longer".to_owned()),
        None => None,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed;
        writeln!(f, "seed {seed}:")?;
        const SHOWN: usize = 8;
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "  {violation}")?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, "  and {} more", self.violations.len() - SHOWN)?;
        }
        writeln!(f, "  again: cargo run -p turnwise-sim -- --seeds 1 --from {seed} --trace seed-{seed}.jsonl")
    }
}

/// Over many seeds.
#[derive(Debug, Default)]
pub struct Totals {
    pub seeds: u64,
    pub failed: u64,
    took: Duration,
    counts: Counts,
}

impl Totals {
    pub fn add(&mut self, verdict: &Verdict) {
        self.seeds += 1;
        self.failed += u64::from(!verdict.violations.is_empty());
        self.took += verdict.run.took;
        let (sum, one) = (&mut self.counts, &verdict.run.counts);
        for (sum, one) in [
            (&mut sum.submitted, one.submitted),
            (&mut sum.success, one.success),
            (&mut sum.failed, one.failed),
            (&mut sum.cancelled, one.cancelled),
            (&mut sum.incarnations, one.incarnations),
            (&mut sum.starts, one.starts),
            (&mut sum.effects, one.effects),
            (&mut sum.settles, one.settles),
            (&mut sum.stale, one.stale),
            (&mut sum.node_lost, one.node_lost),
            (&mut sum.ran_twice, one.ran_twice),
            (&mut sum.effects_twice, one.effects_twice),
            (&mut sum.untraced_assigns, one.untraced_assigns),
        ] {
            *sum += one;
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.counts)?;
        let virtual_hours = self.took.as_secs_f64() / 3_600.0;
        write!(
            f,
            "{} seeds, {} failed, {virtual_hours:.1} hours of virtual time on each store",
            self.seeds, self.failed
        )
    }
}

/// Seeds that once found something: a number a line, and after it what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corpus {
    pub seeds: Vec<u64>,
}

impl Corpus {
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let seed = |line: &str| {
            let number = line.split_ascii_whitespace().next().unwrap_or_default();
            number.parse().map_err(|_| format!("{line:?} does not begin with a seed"))
        };
        Ok(Self { seeds: lines.map(seed).collect::<Result<_, _>>()? })
    }

    /// Adds a failed seed, unless it is there.
    pub fn add(path: &Path, verdict: &Verdict) -> io::Result<()> {
        let mut text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let corpus = Self::parse(&text).map_err(io::Error::other)?;
        if !corpus.seeds.contains(&verdict.seed) {
            let first = verdict.violations.first().and_then(|violation| violation.lines().next()).unwrap_or_default();
            text.push_str(&format!("{} {first}\n", verdict.seed));
            fs::write(path, text)?;
        }
        Ok(())
    }
}
