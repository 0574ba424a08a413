//! A decision about all jobs of a filter: first a preview, which fixes the newest of them; then the decision, carried out by the server in
//! parts, also when the browser has gone. A restart of the server ends it where it is; the audit log says which jobs were decided about.

use std::{
    borrow::Borrow,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};
use turnwise::access::TokenId;

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
        route: "cancelJobs",
        title: "Cancel jobs",
        deed: "Cancel",
        past: "cancelled",
        would: "be cancelled",
        every: "state:waiting,scheduled,running,stuck",
    },
    Kind {
        name: "retry",
        route: "retryJobs",
        title: "Run jobs again",
        deed: "Run again",
        past: "will run again",
        would: "run again",
        every: "state:failed",
    },
    Kind {
        name: "fail",
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
    filter: String,
    progress: Mutex<Progress>,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    decided: u64,
    requested: u64,
    left: u64,
    over: bool,
    wrong: Option<String>,
}

impl Work {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decisions of this server, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Works(Mutex<(u64, VecDeque<Arc<Work>>)>);

impl Works {
    fn all(&self) -> MutexGuard<'_, (u64, VecDeque<Arc<Work>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, by: Option<TokenId>, kind: &'static Kind, filter: &str) -> Result<Arc<Work>, Problem> {
        let mut all = self.all();
        let under_way = all.1.iter().filter(|work| !work.progress().over).count();
        if under_way >= DECISIONS {
            return Err(Problem::busy(
                "other decisions about many jobs are being carried out; try again when they are done",
            ));
        }
        all.0 += 1;
        let work = Work { number: all.0, by, kind, filter: filter.to_owned(), progress: Mutex::default() };
        let work = Arc::new(work);
        all.1.push_back(Arc::clone(&work));
        // What is over is kept for its caller to see, until there is too much of it.
        while all.1.len() > 10 * DECISIONS {
            let Some(over) = all.1.iter().position(|work| work.progress().over) else { break };
            all.1.remove(over);
        }
        Ok(work)
    }

    fn find(&self, number: u64, by: Option<TokenId>) -> Option<Arc<Work>> {
        self.all().1.iter().find(|work| work.number == number && work.by == by).cloned()
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
    // What is wrong with it is said at once: the first part is done here.
    let first: Decided = visit.send(kind.route, "", Some(&asked)).await?;
    let work = visit.service.works().begin(visit.asker.caller.token(), kind, &filter)?;
    let to = format!("decide/{}", work.number);
    let next = note(&work, &first);
    if let Some(next) = next {
        tokio::spawn(carry_out(visit.service.clone(), visit.asker.clone(), work, asked, next));
    }
    Ok(visit.go(&to))
}

/// Adds what was done; returns where to go on.
fn note(work: &Work, done: &Decided) -> Option<String> {
    let mut progress = work.progress();
    progress.decided += done.decided;
    progress.requested += done.requested;
    progress.left += done.left.len() as u64;
    progress.over = done.next.is_none();
    done.next.clone()
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
            Ok(done) => match note(&work, &done) {
                Some(more) => next = more,
                None => return,
            },
            Err(problem) => {
                let mut progress = work.progress();
                (progress.over, progress.wrong) = (true, Some(problem.detail().to_owned()));
                return;
            }
        }
    }
    let mut progress = work.progress();
    (progress.over, progress.wrong) = (true, Some("the server stops".to_owned()));
}

#[derive(Template)]
#[template(path = "decided.html")]
struct Going {
    frame: Frame,
    kind: &'static Kind,
    filter: String,
    progress: Progress,
    list: String,
}

impl Going {
    fn count(&self, number: impl Borrow<u64>) -> Count {
        Count::exact(*number.borrow())
    }
}

/// How far it is.
pub(crate) async fn progress(visit: Visit) -> Result<Reply, Problem> {
    let number = visit.name.parse().ok();
    let work = number.and_then(|number| visit.service.works().find(number, visit.asker.caller.token()));
    let gone = "this server carries out no such decision; a restart ends them, and the audit log says what was done";
    let work = work.ok_or_else(|| Problem::not_found(gone))?;
    let frame = Frame::of(&visit, "jobs", work.kind.title);
    let list = format!("{}jobs{}", frame.root, parameters([("filter", work.filter.as_str())]));
    let progress = work.progress().clone();
    render(&Going { frame, kind: work.kind, filter: work.filter.clone(), progress, list })
}
