//! Queues: what each does and what is set for it, and which waits for which.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use askama::Template;
use serde::Deserialize;
use serde_json::json;
use turnwise::{QueueName, Timestamp};
use turnwise_chart::{Graph, Kind, Node, QueueState};
use turnwise_core::{
    access::Target,
    calendar::{Schedule, Zone},
};

use crate::{
    call::Reply,
    page::{
        Visit,
        figure::Figure,
        frame::Frame,
        overview::{HeldBy, Pause},
        recipe::{Command, Recipe},
        shown::{Count, Shown},
        visit::{parameters, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Queue`].
#[derive(Debug, Deserialize)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) held_by: Option<HeldBy>,
    pub(crate) waiting: u64,
    pub(crate) scheduled: u64,
    pub(crate) running: u64,
    pub(crate) stuck: u64,
    at_least: bool,
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) weight: f64,
    pub(crate) fairness: String,
    pub(crate) concurrency: String,
    pub(crate) per_node: Option<u32>,
    pub(crate) rate: Option<String>,
    pub(crate) scheme: Option<String>,
    pub(crate) on_error: String,
    pub(crate) after: Vec<String>,
    pub(crate) schedule: Option<Due>,
    pub(crate) block: Vec<String>,
    pub(crate) blocked_until: Option<Timestamp>,
    pub(crate) sealed: Option<Timestamp>,
    pub(crate) paused: Option<Pause>,
}

/// When jobs are due that name no time of their own.
#[derive(Debug, Deserialize)]
pub(crate) struct Due {
    pub(crate) cron: String,
    pub(crate) zone: String,
}

impl Due {
    /// `None`: this server cannot read what another one has set.
    pub(crate) fn schedule(&self) -> Option<Schedule> {
        Schedule::new(&self.cron, self.zone.parse::<Zone>().ok()?).ok()
    }

    pub(crate) fn words(&self) -> String {
        self.schedule().map_or_else(|| format!("by the pattern {}", self.cron), |schedule| schedule.words())
    }
}

impl Queue {
    pub(crate) fn count(&self, number: impl Borrow<u64>) -> Count {
        Count { number: *number.borrow(), at_least: self.at_least }
    }

    /// Whether it waits for another one, or is as it is because of its own settings: what its line says beside the numbers.
    fn notes(&self, now: impl Borrow<Timestamp>) -> Vec<String> {
        let now = *now.borrow();
        let paused = self.paused.as_ref().map(|pause| {
            let reason = pause.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            format!("paused {}{reason}", pause.since.relative(now))
        });
        let held = self.held_by.as_ref().map(|held| format!("held up by a job of {}, which no node knows", held.task));
        let waits = (self.state == "waiting").then(|| format!("waits for {}", self.after.join(", ")));
        let closed = self.blocked_until.map(|until| format!("closed by its windows, opens {}", until.relative(now)));
        let sealed = self.sealed.filter(|_| self.state != "finished").map(|at| format!("sealed {}", at.relative(now)));
        [paused, held, waits, closed, sealed].into_iter().flatten().collect()
    }
}

/// A [`turnwise::wire::Queues`].
#[derive(Debug, Deserialize)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<Queue>,
    counted_at: Timestamp,
    next: Option<String>,
}

/// Queues of a page of the list.
const LISTED: &str = "200";

#[derive(Template)]
#[template(path = "queues.html")]
struct List {
    frame: Frame,
    rows: Vec<Row>,
    graph: Option<Figure>,
    /// When the jobs were counted.
    counted: Timestamp,
    /// The page that follows.
    more: Option<String>,
    /// Whether this is not the first page.
    later: bool,
    recipe: Recipe,
    submit: Recipe,
    set: Recipe,
    /// Whether concurrency is set in any of the rows.
    sets: bool,
}

struct Row {
    queue: Queue,
    /// Whether the caller may change what is set for it.
    sets: bool,
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let after = visit.query.get("after");
    let asked: Vec<_> = [("limit", LISTED)].into_iter().chain(after.map(|after| ("after", after))).collect();
    let page: Queues = visit.get("listQueues", "", &asked).await?;
    let frame = Frame::of(&visit, "queues", "Queues").json(format!("queues{}", parameters(asked.iter().copied())));
    let graph = ties(&page.queues, None, &frame).map(|graph| Figure::of(&graph));
    let more = page.next.map(|next| format!("{}queues{}", frame.root, parameters([("after", next.as_str())])));
    let rows: Vec<_> =
        page.queues.into_iter().map(|queue| Row { sets: may(&visit, "setQueue", &queue.name), queue }).collect();
    let job = json!({ "task": "noop", "queue": "mail" });
    let submit = visit.action(
        "submitJob",
        "",
        Some(&job),
        Some(Command::new("enqueue").value("noop").option("--queue", "mail")),
    );
    let first = rows.first().map_or("mail", |row| row.queue.name.as_str());
    let command = Command::new("queue set").value(first).option("--concurrency", "4");
    let set = visit.action("setQueue", first, Some(&json!({ "concurrency": 4 })), Some(command));
    render(&List {
        graph,
        counted: page.counted_at,
        more,
        later: after.is_some(),
        recipe: visit.table("listQueues", "", &asked, Some(Command::new("queues"))),
        submit,
        set,
        sets: rows.iter().any(|row| row.sets),
        rows,
        frame,
    })
}

/// Whether the caller may do this to a queue.
pub(crate) fn may(visit: &Visit, route: &'static str, name: &str) -> bool {
    // What is no name for this version, the API judges.
    QueueName::new(name).map_or_else(|_| visit.may(route), |name| visit.may_to(route, Target::Queue(&name)))
}

/// Which queues wait for which: of all of these, or of those that are tied to one of them, directly or by others. `None`: none is.
pub(crate) fn ties(queues: &[Queue], here: Option<&str>, frame: &Frame) -> Option<Graph> {
    let known: BTreeMap<&str, &Queue> = queues.iter().map(|queue| (queue.name.as_str(), queue)).collect();
    let pairs: Vec<(&str, &str)> =
        queues.iter().flat_map(|queue| queue.after.iter().map(|other| (queue.name.as_str(), other.as_str()))).collect();
    let mut shown: BTreeSet<&str> = match here {
        Some(here) => [here].into(),
        None => pairs.iter().flat_map(|(one, other)| [*one, *other]).collect(),
    };
    // Until nothing is added: each round goes one step further.
    loop {
        let near = pairs.iter().filter(|(one, other)| shown.contains(one) != shown.contains(other));
        let near: Vec<_> = near.flat_map(|(one, other)| [*one, *other]).collect();
        if near.is_empty() {
            break;
        }
        shown.extend(near);
    }
    if shown.len() < 2 {
        return None;
    }
    let names: Vec<&str> = shown.into_iter().collect();
    let nodes = names.iter().map(|&name| {
        let queue = known.get(name);
        let state = queue.and_then(|queue| QueueState::from_name(&queue.state));
        let left = queue.map(|queue| queue.waiting + queue.scheduled + queue.running + queue.stuck);
        let note = match (queue, left) {
            (Some(queue), Some(left)) => format!("{}, {} unfinished", queue.state, queue.count(left)),
            // It may be on another page of the list, too.
            _ => "not listed here".to_owned(),
        };
        Node {
            name: name.to_owned(),
            hint: format!("{name}: {note}"),
            note,
            kind: state.map_or(Kind::Plain, Kind::Queue),
            href: Some(frame.named("queues", name)),
            here: here == Some(name),
            after: queue
                .iter()
                .flat_map(|queue| &queue.after)
                .filter_map(|other| names.iter().position(|name| name == other))
                .collect(),
        }
    });
    let nodes: Vec<_> = nodes.collect();
    Some(Graph { title: "Which queues wait for which".to_owned(), heading: String::new(), nodes })
}
