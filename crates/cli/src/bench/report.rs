//! The numbers: lines for people, one object for programs.

use serde::Serialize;

use super::{
    meter::{Meter, Times},
    plan::{History, Mode, Plan},
    server::{Counted, Spent},
};
use crate::{error::Failure, print};

/// `None` is what has no meaning in a mode, or cannot be known.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    mode: Mode,
    database: &'static str,
    version: &'static str,
    jobs: u64,
    groups: u64,
    args_bytes: usize,
    slots: u32,
    pub(super) callers: Option<u64>,
    other_node: bool,
    history: History,
    pub(super) seconds: Option<f64>,
    per_second: Option<f64>,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    first_10k_per_second: Option<f64>,
    last_10k_per_second: Option<f64>,
    pub(super) fill_per_second: Option<f64>,
    pub(super) lead_at_half: Option<u64>,
    counted: Option<Counted>,
    calls_per_second: Option<f64>,
    calls_per_job: Option<f64>,
    wal_bytes_per_job: Option<f64>,
    pub(super) rss_mb: Option<f64>,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            mode: plan.mode,
            database: kind(&plan.database),
            version: env!("CARGO_PKG_VERSION"),
            jobs: plan.jobs,
            groups: plan.shape.groups,
            args_bytes: plan.shape.args_bytes,
            slots: plan.node.core_pool_size,
            callers: None,
            other_node: plan.other_node,
            history: plan.history,
            seconds: None,
            per_second: None,
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            max_ms: None,
            first_10k_per_second: None,
            last_10k_per_second: None,
            fill_per_second: None,
            lead_at_half: None,
            counted: None,
            calls_per_second: None,
            calls_per_job: None,
            wal_bytes_per_job: None,
            rss_mb: None,
        }
    }

    pub(super) fn through(&mut self, meter: &Meter) {
        self.seconds = Some(meter.took().as_secs_f64());
        self.per_second = meter.per_second();
    }

    pub(super) fn times(&mut self, times: &Times) {
        self.p50_ms = times.percentile_ms(50.0);
        self.p95_ms = times.percentile_ms(95.0);
        self.p99_ms = times.percentile_ms(99.0);
        self.max_ms = times.max_ms();
    }

    pub(super) fn both_ends(&mut self, meter: &Meter) {
        self.first_10k_per_second = meter.first_per_second();
        self.last_10k_per_second = meter.last_per_second();
    }

    /// What the server did for all jobs together.
    pub(super) fn spent(&mut self, spent: Option<Spent>) {
        let jobs = self.jobs as f64;
        self.counted = spent.map(|spent| spent.counted);
        self.calls_per_job = spent.map(|spent| spent.calls / jobs);
        self.wal_bytes_per_job = spent.and_then(|spent| spent.wal_bytes).map(|bytes| bytes / jobs);
    }

    /// What the server did for an idle node.
    pub(super) fn spent_idle(&mut self, spent: Option<Spent>, seconds: f64) {
        self.counted = spent.map(|spent| spent.counted);
        self.calls_per_second = spent.map(|spent| spent.calls / seconds);
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            print::object(self)?;
            return Ok(());
        }
        let mut lines = vec![("", self.heading())];
        if self.mode == Mode::Idle && self.counted.is_none() {
            lines.push(("server", "no count of statements: only PostgreSQL has one".to_owned()));
        }
        let mut say = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
        let (calls, why) = match self.counted {
            Some(Counted::Transactions) => {
                ("transactions", " (autovacuum's too; install pg_stat_statements to count statements)")
            }
            _ => ("statements", ""),
        };
        say("jobs", self.per_second.map(|rate| format!("{} a second", rounded(rate))));
        say("first 10,000", self.first_10k_per_second.map(|rate| format!("{} a second", rounded(rate))));
        say("last 10,000", self.last_10k_per_second.map(|rate| format!("{} a second", rounded(rate))));
        say("filled with", self.fill_per_second.map(|rate| format!("{} a second", rounded(rate))));
        let times = self.p50_ms.zip(self.p95_ms).zip(self.p99_ms).zip(self.max_ms);
        say(
            self.what_took(),
            times.map(|(((p50, p95), p99), max)| {
                format!("p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms, most {max:.2} ms")
            }),
        );
        say(
            "largest lead",
            self.lead_at_half.map(|jobs| format!("{jobs} jobs more of one group than of another, at half time")),
        );
        say("server", self.calls_per_job.map(|calls_each| format!("{calls_each:.3} {calls} a job{why}")));
        say("server", self.calls_per_second.map(|rate| format!("{rate:.2} {calls} a second{why}")));
        say("WAL", self.wal_bytes_per_job.map(|bytes| format!("{} bytes a job", rounded(bytes))));
        say("memory", self.rss_mb.map(|mebibytes| format!("{mebibytes:.0} MiB at most")));
        Ok(print::lines(lines.into_iter().map(|(name, value)| match name {
            "" => value,
            name => format!("{name:<17} {value}"),
        }))?)
    }

    fn heading(&self) -> String {
        let Self { jobs, groups, args_bytes, slots, database, .. } = self;
        let history = match self.history {
            History::Delete => "finished jobs deleted",
            History::Keep => "finished jobs kept",
        };
        let what = match self.mode {
            Mode::Drain => "drain: a full table, from the start of a node to the last stored end",
            Mode::Pinned => "pinned: a full table, run while another session holds an older snapshot open",
            Mode::Bulk => "bulk: submits of 10,000 jobs at a time",
            Mode::Submit => "submit: one job at a time for each caller, durable when the call returns",
            Mode::Lifecycle => "lifecycle: each caller submits its next job when the end of its last one is stored",
            Mode::Latency if self.other_node => {
                "latency: a job every 50 ms to other nodes, from its commit to its start"
            }
            Mode::Latency => "latency: a job every 50 ms through the node itself, from its commit to its start",
            Mode::Idle => "idle: a node that has nothing to do",
        };
        let callers = self.callers.map(|callers| format!(", {callers} callers")).unwrap_or_default();
        if self.mode == Mode::Idle {
            return format!("{what}\n{database}, {slots} slots");
        }
        format!(
            "{what}\n{database}, {jobs} jobs in {groups} groups, {args_bytes} bytes each, {slots} slots{callers}, {history}"
        )
    }

    fn what_took(&self) -> &'static str {
        match self.mode {
            Mode::Bulk => "a batch",
            Mode::Submit => "a submit",
            Mode::Lifecycle => "to its end",
            Mode::Latency => "to its start",
            Mode::Drain | Mode::Pinned | Mode::Idle => "a job",
        }
    }
}

fn kind(database: &str) -> &'static str {
    match database.split_once(':') {
        Some(("postgres" | "postgresql", _)) => "postgres",
        Some(("memory", _)) => "memory",
        _ => "sqlite",
    }
}

/// With a comma between thousands.
fn rounded(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_read_in_threes() {
        let printed: Vec<_> = [0.4, 999.0, 1_000.0, 71_234.6, 1_234_567.0].into_iter().map(rounded).collect();
        assert_eq!(printed, ["0", "999", "1,000", "71,235", "1,234,567"]);
    }
}
