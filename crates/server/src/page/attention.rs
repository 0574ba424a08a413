//! What needs a person's attention, the worst first, and what to do about it.

use std::time::Duration;

use turnwise::Timestamp;

use crate::page::{
    frame::Frame,
    jobs::quoted,
    overview::{ErrorSeen, Finding, Queue, Totals},
    shown::{Count, Shown},
};

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// What to do.
    pub(crate) advice: Option<String>,
    /// Where to go on: a label and an address.
    pub(crate) way: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Something does not work.
    Wrong,
    /// It may be as somebody wants it.
    Look,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Look => "check",
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Look => "look",
        }
    }
}

/// What the page knows.
pub(crate) struct Seen<'a> {
    pub(crate) findings: &'a [Finding],
    pub(crate) queues: &'a [Queue],
    pub(crate) errors: &'a [ErrorSeen],
    pub(crate) totals: &'a Totals,
    pub(crate) now: Timestamp,
}

/// Kinds of errors that are named.
pub(crate) const ERRORS: usize = 3;
/// A job that is due and waits for so long is worth a look.
const LONG_WAIT: Duration = Duration::from_secs(5 * 60);

pub(crate) fn items(seen: &Seen<'_>, frame: &Frame) -> Vec<Item> {
    let findings = seen.findings.iter().filter(|finding| finding.verdict != "fine").map(|finding| Item {
        kind: if finding.verdict == "bad" { Kind::Wrong } else { Kind::Look },
        text: format!("{}: {}", finding.subject, finding.text),
        advice: finding.advice.clone(),
        way: way(&finding.subject, frame),
    });
    let errors = seen.errors.iter().take(ERRORS).map(|error| Item {
        kind: Kind::Wrong,
        text: format!(
            "task {} in queue {}: {} in the last hour ended with error {}, the last {}",
            error.task,
            error.queue,
            runs(error.count),
            error.text.as_ref().map_or_else(|| error.fingerprint.clone(), |text| format!("“{text}”")),
            error.last_seen.relative(seen.now),
        ),
        advice: None,
        way: Some(("errors".to_owned(), format!("{}errors", frame.root))),
    });
    let paused = seen.queues.iter().filter_map(|queue| {
        let pause = queue.paused.as_ref()?;
        let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        Some(Item {
            kind: Kind::Look,
            text: format!("queue {} was paused {}{reason}", queue.name, pause.since.relative(seen.now)),
            advice: Some(format!("turnwise queue resume {}", queue.name)),
            way: Some(("queue".to_owned(), frame.named("queues", &queue.name))),
        })
    });
    let held = seen.queues.iter().filter_map(|queue| {
        let held = queue.held_by.as_ref()?;
        Some(Item {
            kind: Kind::Wrong,
            text: format!("serial queue {} is held up by a job of task {}, which no node knows", queue.name, held.task),
            advice: Some(format!("start a node that knows {}, or cancel the job", held.task)),
            way: Some(("job".to_owned(), frame.job(&held.job))),
        })
    });
    let oldest = seen.queues.iter().filter(|queue| queue.paused.is_none()).filter_map(|queue| {
        let since = queue.oldest.filter(|since| seen.now.since(*since) >= LONG_WAIT)?;
        Some((since, queue))
    });
    let oldest = oldest.min_by_key(|(since, _)| *since).map(|(since, queue)| Item {
        kind: Kind::Look,
        text: format!("the oldest due job of queue {} has waited for {}", queue.name, since.age(seen.now)),
        advice: Some("see on the page of such a job why it waits".to_owned()),
        way: Some(("waiting jobs".to_owned(), frame.jobs(format!("state:waiting queue:{}", quoted(&queue.name))))),
    });
    let stuck = (seen.totals.stuck > 0).then(|| Item {
        kind: Kind::Look,
        text: format!(
            "{} stuck: they failed and wait for their next try, or for a person",
            match seen.totals.stuck {
                1 => "1 job is".to_owned(),
                _ => format!("{} jobs are", seen.totals.count(seen.totals.stuck)),
            }
        ),
        advice: None,
        way: Some(("stuck jobs".to_owned(), frame.jobs("state:stuck"))),
    });
    let mut items: Vec<_> = findings.chain(held).chain(errors).chain(paused).chain(oldest).chain(stuck).collect();
    items.sort_by_key(|item| item.kind);
    items
}

/// Where a finding leads, if the caller may go there.
fn way(subject: &str, frame: &Frame) -> Option<(String, String)> {
    let path = match subject {
        "tasks" => "tasks",
        "nodes" | "dispatcher" | "lost nodes" | "jobs in hand" => "nodes",
        _ => return None,
    };
    let leads = frame.ways.iter().any(|way| way.path == path);
    leads.then(|| (path.to_owned(), format!("{}{path}", frame.root)))
}

fn runs(count: u64) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{} runs", Count::exact(count)) }
}
