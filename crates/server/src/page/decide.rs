//! A decision about all jobs of a filter: first a preview, which fixes the newest of them; then the decision, carried out by the server in
//! parts, also when the browser has gone. A restart of the server ends it where it is: that, and how far it came, is in the database, with lines
//! of the audit log for its beginning and its end beside those of its jobs.

use std::{
    borrow::Borrow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use turnwise::{DecidedMany, Decision, Turnwise, access::TokenId};

use crate::{
    call::Reply,
    limits::DECISIONS,
    page::{
        Visit,
        frame::Frame,
        recipe::{Command, Recipe},
        shown::Count,
        visit::{parameters, render},
    },
    problem::Problem,
    service::{Asker, Service},
};

/// What can be decided: as addresses have it, the route, and words for it.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    decision: Decision,
    route: &'static str,
    title: &'static str,
    deed: &'static str,
    past: &'static str,
    /// With *would* before it.
    would: &'static str,
    /// A filter with the jobs that are meant without one, for commands, which need one.
    every: &'static str,
}

static KINDS: [Kind; 3] = [
    Kind {
        name: "cancel",
        decision: Decision::Cancel,
        route: "cancelJobs",
        title: "Cancel jobs",
        deed: "Cancel",
        past: "cancelled",
        would: "be cancelled",
        every: "state:waiting,scheduled,running,stuck",
    },
    Kind {
        name: "retry",
        decision: Decision::Retry,
        route: "retryJobs",
        title: "Run jobs again",
        deed: "Run again",
        past: "will run again",
        would: "run again",
        every: "state:failed",
    },
    Kind {
        name: "fail",
        decision: Decision::Fail,
        route: "failJobs",
        title: "Mark jobs as failed",
        deed: "Mark as failed",
        past: "marked as failed",
        would: "be marked as failed",
        every: "state:stuck",
    },
];

fn kind(visit: &Visit) -> Result<&'static Kind, Problem> {
    let name = visit.query.get("do").or(visit.form.get("do")).unwrap_or_default();
    KINDS
        .iter()
        .find(|kind| kind.name == name)
        .ok_or_else(|| Problem::invalid("do", "do: must be cancel, retry or fail"))
}

/// A [`turnwise::wire::Preview`].
#[derive(Debug, Deserialize)]
struct Preview {
    count: u64,
    more: bool,
    newest: Option<String>,
}

/// A [`turnwise::wire::DecidedAll`].
#[derive(Debug, Deserialize)]
struct Decided {
    decided: u64,
    requested: u64,
    left: Vec<String>,
    next: Option<String>,
}

/// One decision that is, or was, carried out by this server.
#[derive(Debug)]
pub(crate) struct Work {
    number: u64,
    /// Who began it; only that caller sees it.
    by: Option<TokenId>,
    kind: &'static Kind,
    progress: Mutex<DecidedMany>,
}

impl Work {
    fn progress(&self) -> MutexGuard<'_, DecidedMany> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decisions of this server, the latest last. Those of other servers, and from before a restart, are in the database.
#[derive(Debug, Default)]
pub(crate) struct Works(Mutex<VecDeque<Arc<Work>>>);

impl Works {
    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Work>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        self.all().iter().filter(|work| !work.progress().over).count() < DECISIONS
    }

    fn add(&self, work: Work) -> Arc<Work> {
        let (mut all, work) = (self.all(), Arc::new(work));
        all.push_back(Arc::clone(&work));
        // What is over is in the database, too.
        while all.len() > 10 * DECISIONS {
            let Some(over) = all.iter().position(|work| work.progress().over) else { break };
            all.remove(over);
        }
        work
    }

    fn find(&self, number: u64, by: Option<TokenId>) -> Option<DecidedMany> {
        let found = self.all().iter().find(|work| work.number == number && work.by == by).cloned();
        found.map(|work| work.progress().clone())
    }
}

#[derive(Template)]
#[template(path = "decide.html")]
struct Shown {
    frame: Frame,
    kind: &'static Kind,
    filter: String,
    preview: Preview,
    list: String,
    look: Recipe,
    decide: Recipe,
}

fn body(filter: &str) -> Value {
    if filter.is_empty() { json!({}) } else { json!({ "filter": filter }) }
}

/// The preview.
pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let kind = kind(&visit)?;
    let filter = visit.query.get("filter").unwrap_or_default().trim().to_owned();
    let mut asked = body(&filter);
    asked["dry_run"] = json!(true);
    let preview: Preview = visit.send(kind.route, "", Some(&asked)).await?;
    let frame = Frame::of(&visit, "jobs", kind.title);
    let list = if filter.is_empty() { format!("{}jobs", frame.root) } else { frame.jobs(&filter) };
    let filtered =
        |command: Command| command.option("--filter", if filter.is_empty() { kind.every } else { filter.as_str() });
    let look = filtered(Command::new(kind.name).flag("--dry-run"));
    let look = visit.action(kind.route, "", Some(&asked), Some(look));
    let mut decided = body(&filter);
    decided["newest"] = json!(preview.newest);
    let decide = visit.action(kind.route, "", Some(&decided), Some(filtered(Command::new(kind.name))));
    render(&Shown { frame, kind, preview, list, look, decide, filter })
}

impl Shown {
    fn count(&self) -> Count {
        Count { number: self.preview.count, at_least: self.preview.more }
    }
}

/// Begins to carry it out.
pub(crate) async fn begin(visit: Visit) -> Result<Reply, Problem> {
    let kind = kind(&visit)?;
    if !visit.may(kind.route) {
        return Err(Problem::forbidden("this token may not decide about jobs"));
    }
    let filter = visit.form.get("filter").unwrap_or_default().trim().to_owned();
    let newest = visit.form.get("newest").unwrap_or_default().to_owned();
    let mut asked = body(&filter);
    asked["newest"] = json!(newest);
    if !visit.service.works().has_room() {
        return Err(Problem::busy(
            "other decisions about many jobs are being carried out; try again when they are done",
        ));
    }
    let by = visit.asker.caller.token();
    let begun = DecidedMany::new(kind.decision, filter, newest, by);
    let number = acting(&visit).begin_decision(&begun).await?;
    let work = visit.service.works().add(Work { number, by, kind, progress: Mutex::new(begun) });
    // What is wrong with it is said at once: the first part is done here.
    match visit.send(kind.route, "", Some(&asked)).await {
        Ok(first) => {
            if let Some(next) = note(&visit, &work, &first).await {
                tokio::spawn(carry_out(visit.service.clone(), visit.asker.clone(), work, asked, next));
            }
        }
        Err(problem) => {
            end(&visit, &work, problem.detail()).await;
            return Err(problem);
        }
    }
    Ok(visit.go(&format!("decide/{number}")))
}

fn acting(visit: &Visit) -> Turnwise {
    visit.service.turnwise().acting_as(visit.asker.caller.actor())
}

/// Adds what was done; returns where to go on.
async fn note(visit: &Visit, work: &Work, done: &Decided) -> Option<String> {
    {
        let mut progress = work.progress();
        progress.decided += done.decided;
        progress.requested += done.requested;
        progress.left += done.left.len() as u64;
        progress.over = done.next.is_none();
    }
    write_down(visit, work).await;
    done.next.clone()
}

/// It is over before its end.
async fn end(visit: &Visit, work: &Work, why: &str) {
    {
        let mut progress = work.progress();
        (progress.over, progress.wrong) = (true, Some(why.to_owned()));
    }
    write_down(visit, work).await;
}

/// If that fails, the next part writes it, or the next decision finds that this one is over.
async fn write_down(visit: &Visit, work: &Work) {
    let progress = work.progress().clone();
    if let Err(error) = acting(visit).note_decision(work.number, &progress).await {
        tracing::warn!(number = work.number, %error, "how far a decision about many jobs is could not be written down");
    }
}

/// Part after part, until there is no more, its caller is not admitted any more, or the server stops.
async fn carry_out(service: Service, asker: Asker, work: Arc<Work>, mut asked: Value, mut next: String) {
    let visit = Visit::without_page(service, asker);
    while !visit.service.is_stopping() {
        asked["cursor"] = json!(next);
        let done = async {
            visit.service.door().again(visit.service.turnwise(), &visit.asker.caller).await?;
            let _place = visit.service.place(&visit.asker.caller).await?;
            visit.send::<Decided>(work.kind.route, "", Some(&asked)).await
        };
        match done.await {
            Ok(done) => match note(&visit, &work, &done).await {
                Some(more) => next = more,
                None => return,
            },
            Err(problem) => return end(&visit, &work, problem.detail()).await,
        }
    }
    end(&visit, &work, "the server was stopped").await;
}

#[derive(Template)]
#[template(path = "decided.html")]
struct Going {
    frame: Frame,
    kind: &'static Kind,
    filter: String,
    progress: DecidedMany,
    list: String,
}

impl Going {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }
}

/// How far it is; of one of another server, or from before a restart, as the database has it.
pub(crate) async fn progress(visit: Visit) -> Result<Reply, Problem> {
    let (number, by) = (visit.name.parse().ok(), visit.asker.caller.token());
    let here = number.and_then(|number| visit.service.works().find(number, by));
    let progress = match (here, number) {
        (Some(progress), _) => Some(progress),
        (None, Some(number)) => stored(&visit, number).await?,
        (None, None) => None,
    };
    let gone = "there is no decision with this number, or it is none of yours; the audit log says what was done";
    let progress = progress.ok_or_else(|| Problem::not_found(gone))?;
    let kind = KINDS.iter().find(|kind| kind.decision == progress.decision);
    let kind = kind.ok_or_else(|| Problem::not_found(gone))?;
    let (frame, filter) = (Frame::of(&visit, "jobs", kind.title), progress.filter.clone());
    let list = format!("{}jobs{}", frame.root, parameters([("filter", filter.as_str())]));
    render(&Going { frame, kind, filter, progress, list })
}

async fn stored(visit: &Visit, number: u64) -> Result<Option<DecidedMany>, Problem> {
    let by = visit.asker.caller.token().map(|token| token.to_string());
    let (found, now) = visit.service.turnwise().decision(number).await?;
    let found = found.filter(|decision| decision.by == by);
    Ok(found.map(|mut decision| {
        if decision.is_abandoned(now) {
            (decision.over, decision.wrong) = (true, Some("its server was stopped or killed".to_owned()));
        }
        decision
    }))
}
