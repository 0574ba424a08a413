//! What is well with an installation and what is not, and what to do about it.
//!
//! A store reports what it knows of its database ([`Vitals`]), a caller adds what it has seen of nodes and jobs ([`Picture`]); here it
//! is decided what that means.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    name::{NodeName, TaskName},
    time::{Timestamp, print_span},
    words::words,
};

/// Open transactions that are listed, the oldest first.
pub const MAX_OPEN: usize = 10;
/// A transaction that has been open for so long holds up more than it should.
const LONG: Duration = Duration::from_secs(5 * 60);
/// Until a transaction that has been open for so long ends, tables grow that should not.
const TOO_LONG: Duration = Duration::from_secs(60 * 60);
/// Clocks that differ by less are as good as the same.
const CLOCKS: Duration = Duration::from_secs(1);
/// From here on ids that submitters choose by their own clock are refused.
const CLOCKS_APART: Duration = Duration::from_secs(30);
/// Connections that should be left for people and for one more node.
const FEW_CONNECTIONS: u32 = 10;
/// A log of a SQLite file that is larger was not cut for long: a reader holds it.
const LARGE_LOG: u64 = 256 * 1024 * 1024;
/// Tasks that are listed by name.
const MAX_TASKS: usize = 10;

/// How it is about one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// A person should look at it.
    Look,
    /// Something does not work, or may be lost, until a person acts.
    Bad,
}

words!(Verdict, "verdict", "fine" => Fine, "look" => Look, "bad" => Bad);

/// What is found about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// What was seen.
    pub text: String,
    /// What to do; `None`: nothing.
    pub advice: Option<String>,
}

impl Finding {
    /// All is well with it.
    pub fn fine(subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Fine, text: text.into(), advice: None }
    }

    /// A person should look at it, and do this.
    pub fn look(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { subject, verdict: Verdict::Look, text: text.into(), advice: Some(advice.into()) }
    }

    /// It does not work until a person does this.
    pub fn bad(subject: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::look(subject, text, advice) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)?;
        self.advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

/// What a store knows of its database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vitals {
    /// The number of the last step of its schema that was done; `None`: it has no schema.
    pub schema: Option<u32>,
    /// The database's settings that matter, by their own names; none of a store in memory.
    pub settings: BTreeMap<String, String>,
    /// Transactions of other programs that are open, the oldest first, at most [`MAX_OPEN`]; `None`: they cannot be seen.
    pub open: Option<Vec<OpenTransaction>>,
    /// Connections whose transactions this role may not see.
    pub hidden: u32,
    /// Connections to the server; `None`: there is no server.
    pub connections: Option<Connections>,
    /// Bytes in the log of a SQLite file that are not in the file yet.
    pub log_bytes: Option<u64>,
    /// What callers are told who would change the database: a move has closed it. `None`: it is open.
    pub closed: Option<String>,
}

/// A transaction that keeps old rows from being removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Whose it is, and how it can be found.
    pub who: String,
    /// The number of its process, if it is one that can be ended.
    pub pid: Option<i32>,
    /// For how long; `None`: that is not known.
    pub open_for: Option<Duration>,
    /// How many transactions have begun since.
    pub behind: i64,
}

/// How many connections a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Those that are open.
    pub used: u32,
    /// As many as ordinary roles may have.
    pub most: u32,
}

/// A node that was lost in the last day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub name: NodeName,
    /// When.
    pub at: Timestamp,
    /// How many jobs it held.
    pub held: u64,
}

/// Since when a node has dispatched: a person is told when that changes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Led {
    /// The node's name.
    pub node: String,
    /// When its term began.
    pub at: Timestamp,
}

impl Led {
    /// So many are kept, the last ones.
    const KEPT: usize = 20;
    /// Changes are told for so long.
    const TOLD: Duration = Duration::from_secs(60 * 60);

    /// What is to be kept once this node begins to dispatch; `None`: it has dispatched before, and no other node since.
    pub fn next(mut known: Vec<Self>, node: &NodeName, at: Timestamp) -> Option<Vec<Self>> {
        if known.last().is_some_and(|last| last.node == node.as_str()) {
            return None;
        }
        known.push(Self { node: node.to_string(), at });
        known.drain(..known.len().saturating_sub(Self::KEPT));
        Some(known)
    }
}

/// Another node has taken over the lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadChange {
    /// The node that dispatched before.
    pub from: String,
    /// The one that has dispatched since.
    pub to: String,
    /// When it began to.
    pub at: Timestamp,
}

/// The changes of the last hour, the last one first.
pub fn lead_changes(led: &[Led], now: Timestamp) -> Vec<LeadChange> {
    let change = |pair: &[Led]| LeadChange { from: pair[0].node.clone(), to: pair[1].node.clone(), at: pair[1].at };
    led.windows(2).rev().map(change).take_while(|change| change.at.plus(Led::TOLD) > now).collect()
}

/// All that is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// The schema's version, and the one that this program knows; `None`: there is no schema.
    pub schema: Option<(u32, u32)>,
    /// What the store knows.
    pub vitals: Vitals,
    /// The machine that looks. Not the one of a person who asks a server: that machine's clock decides nothing.
    pub machine: String,
    /// How far the database's clock is ahead of that machine's, in microseconds, and within which bounds; `None`: it is the same clock.
    pub clock: Option<(i64, Duration)>,
    /// Nodes that live.
    pub nodes: usize,
    /// The node that dispatches.
    pub dispatcher: Option<NodeName>,
    /// The last one first.
    pub lead_changes: Vec<LeadChange>,
    /// The last ones first.
    pub lost: Vec<Lost>,
    /// Tasks of waiting jobs that no living node knows, and how many jobs those are.
    pub unknown: Vec<(TaskName, usize)>,
    /// Jobs that are said to be in nodes' hands and are in none ([`crate::strays`]).
    pub strays: usize,
    /// Whether not all jobs were looked at.
    pub more: bool,
}

/// What is to be said, one finding a subject; several where there is something to do.
pub fn diagnose(picture: &Picture) -> Vec<Finding> {
    let mut findings = vec![schema(picture.schema)];
    findings.extend(durability(&picture.vitals.settings));
    findings.extend(settings(&picture.vitals.settings));
    findings.push(clock(&picture.machine, picture.clock));
    findings.extend(transactions(&picture.vitals));
    findings.extend(picture.vitals.connections.map(connections));
    findings.extend(picture.vitals.log_bytes.map(log));
    if let Some(closed) = &picture.vitals.closed {
        // No node can be here, and no job waits for one.
        let advice = "name the other database; a move that is not finished goes on when `turnwise move` is begun again";
        findings.push(Finding::bad("move", closed, advice));
        return findings;
    }
    findings.push(nodes(picture));
    findings.push(dispatcher(picture));
    findings.extend(changes(&picture.lead_changes));
    findings.push(lost(&picture.lost));
    findings.push(strays(picture.strays));
    findings.extend(tasks(picture));
    findings
}

fn schema(versions: Option<(u32, u32)>) -> Finding {
    match versions {
        None => Finding::fine("schema", "there is none in memory"),
        Some((found, known)) if found < known => Finding::bad(
            "schema",
            format!("the database has version {found}, this program needs {known}"),
            "run `turnwise migrate`",
        ),
        Some((found, known)) if found > known => Finding::fine(
            "schema",
            format!("version {found}, newer than {known}, which this program knows and works with"),
        ),
        Some((found, _)) => Finding::fine("schema", format!("version {found}")),
    }
}

/// What an acknowledgement of a submit means here.
fn durability(settings: &BTreeMap<String, String>) -> Vec<Finding> {
    let get = |name: &str| settings.get(name).map(String::as_str);
    let subject = "acknowledged";
    let lost = "a crash of the machine may lose acknowledged jobs";
    let mut findings = Vec::new();
    for name in ["fsync", "full_page_writes"] {
        if get(name) == Some("off") {
            let what = if name == "fsync" { lost } else { "a crash of the machine may damage the database" };
            findings.push(Finding::bad(subject, format!("{name} is off: {what}"), format!("set {name} = on")));
        }
    }
    if !findings.is_empty() {
        return findings;
    }
    let standby = get("synchronous_standby_names").is_some_and(|names| !names.is_empty());
    findings.push(match (get("synchronous_commit"), get("synchronous")) {
        (Some("off"), _) => {
            let text = "synchronous_commit is off: a crash of the server may lose the last acknowledged jobs, of less than a second";
            Finding::look(subject, text, "set synchronous_commit = on for the roles that submit, if no job may be lost")
        }
        (Some("local"), _) if standby => {
            let text = "synchronous_commit is local: jobs are on the server's disk, and a failover may lose the last ones";
            Finding::look(subject, text, "set synchronous_commit = on if no job may be lost by a failover")
        }
        (Some(_), _) if standby => Finding::fine(subject, "jobs are on the server's disk and on a standby"),
        (Some(_), _) => Finding::fine(subject, "jobs are on the server's disk; a failover may lose the last ones"),
        (None, Some("full" | "extra")) => Finding::fine(subject, "jobs are on this machine's disk"),
        (None, Some(other)) => {
            let text = format!("synchronous is {other}: a loss of power may lose the last acknowledged jobs");
            Finding::bad(subject, text, "see which program has opened the file with another setting")
        }
        (None, None) => Finding::fine(subject, "jobs are in the memory of one process, and end with it"),
    });
    findings
}

fn settings(settings: &BTreeMap<String, String>) -> Vec<Finding> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|is| is == value);
    let mut findings = Vec::new();
    if is("in_recovery", "on") {
        let text = "this server is a standby, and nothing can be written to it";
        findings.push(Finding::bad(
            "settings",
            text,
            "name the primary server, or several with target_session_attrs=read-write",
        ));
    }
    if is("autovacuum", "off") {
        let text = "autovacuum is off: tables of jobs that come and go grow for ever";
        findings.push(Finding::bad("settings", text, "set autovacuum = on"));
    }
    if settings.get("journal_mode").is_some_and(|mode| mode != "wal") {
        let text = "the file's journal is not a write-ahead log: readers and the writer wait for each other";
        findings.push(Finding::look("settings", text, "see which program has changed journal_mode"));
    }
    if findings.is_empty() && !settings.is_empty() {
        findings.push(Finding::fine("settings", "as they should be"));
    }
    findings
}

fn clock(machine: &str, clock: Option<(i64, Duration)>) -> Finding {
    let Some((ahead, within)) = clock else {
        return Finding::fine("clock", format!("the database has the clock of {machine}"));
    };
    let apart = Duration::from_micros(ahead.unsigned_abs()).saturating_sub(within);
    let way = if ahead > 0 { "behind" } else { "ahead of" };
    let advice = "set both by NTP";
    let shown = |span: Duration| print_span(Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)));
    match apart {
        _ if apart < CLOCKS => {
            let text = format!("the one of {machine} differs from the database's by less than {}", shown(CLOCKS));
            Finding::fine("clock", text)
        }
        _ if apart < CLOCKS_APART => {
            Finding::look("clock", format!("the one of {machine} is {} {way} the database's", shown(apart)), advice)
        }
        _ => {
            let text = format!(
                "the one of {machine} is {} {way} the database's: ids that callers choose may be refused",
                shown(apart)
            );
            Finding::bad("clock", text, advice)
        }
    }
}

fn transactions(vitals: &Vitals) -> Vec<Finding> {
    let subject = "transactions";
    let Some(open) = &vitals.open else { return Vec::new() };
    let mut findings: Vec<_> = open.iter().filter_map(held).collect();
    if vitals.hidden > 0 {
        let text = format!("this role may not see those of {} connections", vitals.hidden);
        findings.push(Finding::look(subject, text, "grant pg_read_all_stats to it"));
    }
    if findings.is_empty() {
        findings.push(Finding::fine(subject, format!("none is open for longer than {}", print_span(LONG))));
    }
    findings
}

/// Transactions that have been open for long. A slot has no time: it is as old as the transactions since.
fn held(transaction: &OpenTransaction) -> Option<Finding> {
    let OpenTransaction { who, pid, open_for, behind } = transaction;
    let old = match open_for {
        Some(span) if *span < LONG => return None,
        Some(span) => format!("open for {}", print_span(Duration::from_secs(span.as_secs()))),
        None if *behind < 1_000_000 => return None,
        None => format!("{behind} transactions old"),
    };
    let text = format!(
        "{who} is {old}: rows of ended jobs cannot be removed until it ends, and every look for jobs takes longer"
    );
    let advice = pid.map_or_else(
        || "remove it if no program needs it".to_owned(),
        |pid| format!("end it: select pg_terminate_backend({pid})"),
    );
    let too_long = open_for.is_none_or(|span| span >= TOO_LONG);
    Some(if too_long {
        Finding::bad("transactions", text, advice)
    } else {
        Finding::look("transactions", text, advice)
    })
}

fn connections(Connections { used, most }: Connections) -> Finding {
    let left = most.saturating_sub(used);
    let text = format!("{used} of {most} are used, {left} are left");
    let advice = "lower `connections` of nodes and services, put a pooler between, or raise max_connections";
    match left {
        0..3 => Finding::bad("connections", text, advice),
        left if left < FEW_CONNECTIONS => Finding::look("connections", text, advice),
        _ => Finding::fine("connections", text),
    }
}

fn log(bytes: u64) -> Finding {
    let text = format!("{} MiB are in the log beside the file", bytes / (1024 * 1024));
    if bytes < LARGE_LOG {
        return Finding::fine("log", text);
    }
    Finding::look(
        "log",
        text + ": a reader keeps it from being cut",
        "end programs that hold a transaction open on the file",
    )
}

fn nodes(picture: &Picture) -> Finding {
    match picture.nodes {
        0 => Finding::bad("nodes", "none is alive: no job runs", "start one with `turnwise serve`"),
        1 => Finding::fine("nodes", "1 is alive"),
        nodes => Finding::fine("nodes", format!("{nodes} are alive")),
    }
}

fn dispatcher(picture: &Picture) -> Finding {
    match &picture.dispatcher {
        Some(name) => Finding::fine("dispatcher", format!("node {name}")),
        None if picture.nodes == 0 => Finding::bad("dispatcher", "there is none", "start a node with `turnwise serve`"),
        None => {
            let advice = "a node takes over within a lease; if none does, see the nodes' logs";
            Finding::bad("dispatcher", "no node dispatches", advice)
        }
    }
}

fn changes(changes: &[LeadChange]) -> Option<Finding> {
    let LeadChange { from, to, at } = changes.first()?;
    let times = if changes.len() == 1 { "once".to_owned() } else { format!("{} times", changes.len()) };
    let text = format!("it has changed {times} in the last hour: {to} took over from {from} at {at}");
    Some(Finding::look("dispatcher", text, "nothing after a deploy; else see the logs of the node that lost it"))
}

fn lost(lost: &[Lost]) -> Finding {
    let Some(last) = lost.first() else { return Finding::fine("lost nodes", "none in the last day") };
    let held = if last.held == 1 { "1 job".to_owned() } else { format!("{} jobs", last.held) };
    let text = format!("{} in the last day, the last one {} at {}, with {held}", lost.len(), last.name, last.at);
    Finding::look("lost nodes", text, "see the logs of its machine from that time; its jobs run again elsewhere")
}

fn strays(strays: usize) -> Finding {
    let said = match strays {
        0 => return Finding::fine("jobs in hand", "each is with the node that is said to have it"),
        1 => "1 job is said to be in a node's hands, and is in none".to_owned(),
        _ => format!("{strays} jobs are said to be in nodes' hands, and are in none"),
    };
    let advice = "the dispatcher puts such jobs back, a page of all jobs at a time; if it stays so, see its log";
    Finding::look("jobs in hand", said, advice)
}

fn tasks(picture: &Picture) -> Vec<Finding> {
    let unknown = picture.unknown.iter().take(MAX_TASKS).map(|(task, jobs)| {
        let jobs = if *jobs == 1 { "1 job waits".to_owned() } else { format!("{jobs} jobs wait") };
        let text = format!("{jobs} for {:?}, which no living node knows", task.as_str());
        Finding::bad("tasks", text, "start a node that knows it, or cancel the jobs")
    });
    let mut findings: Vec<_> = unknown.collect();
    if picture.unknown.len() > MAX_TASKS {
        let text = format!(
            "{} more tasks of waiting jobs are not known to any living node",
            picture.unknown.len() - MAX_TASKS
        );
        findings.push(Finding::bad("tasks", text, "see `turnwise tasks`"));
    }
    if findings.is_empty() {
        let of = if picture.more { " (the oldest were looked at)" } else { "" };
        findings.push(Finding::fine("tasks", format!("every waiting job's task is known to a living node{of}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(pairs: &[(&str, &str)]) -> Vitals {
        let settings = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Vitals { settings, ..Vitals::default() }
    }

    fn healthy() -> Picture {
        let vitals = settings_of(&[
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("synchronous_standby_names", ""),
            ("autovacuum", "on"),
            ("in_recovery", "off"),
        ]);
        let connections = Some(Connections { used: 12, most: 97 });
        Picture {
            schema: Some((30, 30)),
            vitals: Vitals { open: Some(Vec::new()), connections, ..vitals },
            machine: "web-1".to_owned(),
            clock: Some((-200_000, Duration::from_millis(3))),
            nodes: 2,
            dispatcher: Some(NodeName::new("a").unwrap()),
            ..Picture::default()
        }
    }

    /// What is not fine.
    fn ills(picture: &Picture) -> Vec<(Verdict, String)> {
        let all = diagnose(picture).into_iter();
        all.filter(|found| found.verdict != Verdict::Fine).map(|found| (found.verdict, found.to_string())).collect()
    }

    #[track_caller]
    fn one_ill(picture: &Picture, verdict: Verdict, parts: &[&str]) {
        let found = ills(picture);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, verdict, "{found:?}");
        assert!(parts.iter().all(|part| found[0].1.contains(part)), "{found:?}");
    }

    #[test]
    fn where_all_is_well_nothing_is_to_be_done() {
        assert_eq!(ills(&healthy()), []);
        let subjects: Vec<_> = diagnose(&healthy()).iter().map(|found| found.subject).collect();
        let all = [
            "schema",
            "acknowledged",
            "settings",
            "clock",
            "transactions",
            "connections",
            "nodes",
            "dispatcher",
            "lost nodes",
            "jobs in hand",
            "tasks",
        ];
        assert_eq!(subjects, all);
    }

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        let with = |change: fn(&mut Picture)| {
            let mut picture = healthy();
            change(&mut picture);
            picture
        };
        let set = |name: &str, value: &str| {
            let mut picture = healthy();
            picture.vitals.settings.insert(name.to_owned(), value.to_owned());
            picture
        };
        one_ill(&with(|it| it.schema = Some((29, 30))), Verdict::Bad, &["version 29", "needs 30", "turnwise migrate"]);
        one_ill(&set("fsync", "off"), Verdict::Bad, &["fsync is off", "set fsync = on"]);
        one_ill(&set("full_page_writes", "off"), Verdict::Bad, &["full_page_writes"]);
        one_ill(&set("synchronous_commit", "off"), Verdict::Look, &["may lose the last acknowledged jobs"]);
        one_ill(&set("autovacuum", "off"), Verdict::Bad, &["autovacuum = on"]);
        one_ill(&set("in_recovery", "on"), Verdict::Bad, &["standby"]);
        one_ill(
            &with(|it| it.clock = Some((2_500_000, Duration::ZERO))),
            Verdict::Look,
            &["web-1 is 2500ms behind", "NTP"],
        );
        one_ill(&with(|it| it.clock = Some((-90_000_000, Duration::ZERO))), Verdict::Bad, &["ahead of", "refused"]);
        one_ill(
            &with(|it| it.vitals.connections = Some(Connections { used: 91, most: 97 })),
            Verdict::Look,
            &["6 are left"],
        );
        one_ill(
            &with(|it| it.vitals.connections = Some(Connections { used: 97, most: 97 })),
            Verdict::Bad,
            &["0 are left"],
        );
        one_ill(&with(|it| it.vitals.log_bytes = Some(LARGE_LOG)), Verdict::Look, &["256 MiB"]);
        one_ill(&with(|it| it.dispatcher = None), Verdict::Bad, &["no node dispatches"]);
        one_ill(
            &with(|it| it.unknown = vec![(TaskName::new("mial").unwrap(), 3)]),
            Verdict::Bad,
            &["3 jobs wait for \"mial\""],
        );
        one_ill(&with(|it| it.vitals.hidden = 4), Verdict::Look, &["4 connections", "pg_read_all_stats"]);
        let lost = Lost { name: NodeName::new("b").unwrap(), at: Timestamp::from_micros(0), held: 1 };
        one_ill(&Picture { lost: vec![lost], ..healthy() }, Verdict::Look, &["1 in the last day", "with 1 job"]);
        one_ill(&with(|it| it.strays = 2), Verdict::Look, &["2 jobs are said", "puts such jobs back"]);
        let none = Picture { nodes: 0, dispatcher: None, ..healthy() };
        assert_eq!(ills(&none).iter().map(|(verdict, _)| *verdict).collect::<Vec<_>>(), [Verdict::Bad, Verdict::Bad]);
    }

    #[test]
    fn that_another_node_dispatches_is_told_for_an_hour() {
        let at = |minutes: u64| Timestamp::from_micros(0).plus(Duration::from_secs(minutes * 60));
        let [a, b] = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let begun = Led::next(Vec::new(), &a, at(0)).unwrap();
        assert_eq!(lead_changes(&begun, at(0)), []);
        // A term more of the same node is no change.
        assert_eq!(Led::next(begun.clone(), &a, at(5)), None);
        let led = Led::next(begun, &b, at(10)).unwrap();
        let change = LeadChange { from: "a".to_owned(), to: "b".to_owned(), at: at(10) };
        assert_eq!(lead_changes(&led, at(69)), [change]);
        assert_eq!(lead_changes(&led, at(70)), []);
        let led = Led::next(led, &a, at(60)).unwrap();
        let picture = Picture { lead_changes: lead_changes(&led, at(65)), ..healthy() };
        one_ill(&picture, Verdict::Look, &["dispatcher: it has changed 2 times", "a took over from b", "deploy"]);
        let many = (0..100).fold(led, |led, n| Led::next(led, if n % 2 == 0 { &b } else { &a }, at(61)).unwrap());
        assert_eq!(many.len(), Led::KEPT);
    }

    #[test]
    fn a_transaction_is_told_by_its_age() {
        let open = |seconds: Option<u64>, behind, pid| {
            let open_for = seconds.map(Duration::from_secs);
            let mut picture = healthy();
            picture.vitals.open = Some(vec![OpenTransaction { who: "psql of ann".into(), pid, open_for, behind }]);
            picture
        };
        assert_eq!(ills(&open(Some(299), 9_000_000, Some(7))), []);
        one_ill(
            &open(Some(301), 5, Some(7)),
            Verdict::Look,
            &["psql of ann is open for 301s", "pg_terminate_backend(7)"],
        );
        one_ill(&open(Some(3_600), 5, Some(7)), Verdict::Bad, &["open for 1h"]);
        assert_eq!(ills(&open(None, 999_999, None)), []);
        one_ill(&open(None, 1_000_000, None), Verdict::Bad, &["1000000 transactions old", "remove it"]);
    }

    #[test]
    fn a_database_that_a_move_has_closed_needs_no_node() {
        let closed = Some("the jobs of this database were moved to x; use that one".to_owned());
        let findings = diagnose(&Picture { vitals: Vitals { closed, ..Vitals::default() }, ..Picture::default() });
        let bad: Vec<_> = findings.iter().filter(|found| found.verdict == Verdict::Bad).collect();
        assert_eq!(bad.iter().map(|found| found.subject).collect::<Vec<_>>(), ["move"], "{findings:?}");
        assert!(bad[0].text.contains("moved to x"), "{findings:?}");
    }

    #[test]
    fn what_an_acknowledgement_means_is_told_of_every_database() {
        let told = |pairs: &[(&str, &str)]| durability(&settings_of(pairs).settings)[0].to_string();
        assert!(
            told(&[("synchronous_commit", "on"), ("synchronous_standby_names", "a")]).ends_with("and on a standby")
        );
        assert!(told(&[("synchronous", "full"), ("journal_mode", "wal")]).ends_with("this machine's disk"));
        assert!(told(&[]).contains("memory"));
        assert_eq!(durability(&settings_of(&[("synchronous", "normal")]).settings)[0].verdict, Verdict::Bad);
    }
}
