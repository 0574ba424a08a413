//! A job again, with changes: a form with what it was, which submits another job.
//!
//! Secret fields do not come here: the API gives the arguments with a marker for each, and puts the stored values back in.

use askama::Template;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use turnwise::{JobRequest, Json, OnceKey, Priority};

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        indent::indent,
        jobs::short,
        recipe::{Command, Recipe},
        visit::{encoded, parameters, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::ToEdit`].
#[derive(Debug, Deserialize)]
struct Was {
    task: String,
    args: Box<RawValue>,
    queue: String,
    group: String,
    priority: u8,
}

/// What the form has in it.
#[derive(Debug, Default)]
struct Typed {
    task: String,
    args: String,
    queue: String,
    group: String,
    priority: String,
    r#in: String,
    at: String,
}

impl Typed {
    fn of(was: &Was) -> Self {
        Self {
            task: was.task.clone(),
            args: indent(was.args.get()),
            queue: was.queue.clone(),
            group: was.group.clone(),
            priority: was.priority.to_string(),
            ..Self::default()
        }
    }

    fn sent(visit: &Visit) -> Self {
        // Browsers send line breaks as two characters.
        let text = |name| visit.form.get(name).unwrap_or_default().replace("\r\n", "\n");
        let word = |name| text(name).trim().to_owned();
        Self {
            task: word("task"),
            args: text("args"),
            queue: word("queue"),
            group: word("group"),
            priority: word("priority"),
            r#in: word("in"),
            at: word("at"),
        }
    }

    /// What of it is different, as the API reads it. Arguments that were left alone are not sent: they stay to the letter.
    fn changes(&self, was: &Was) -> Result<String, Problem> {
        let shown = Self::of(was);
        let args = (self.args.trim() != shown.args.trim()).then(|| Json::parse("args", &self.args)).transpose();
        let args = args.map_err(|invalid| Problem::invalid("/args", invalid.to_string()))?;
        let other = |typed: &str, shown: &str| (typed != shown).then(|| typed.to_owned());
        let given = |typed: &str| (!typed.is_empty()).then(|| typed.to_owned());
        let priority = other(&self.priority, &shown.priority).map(|text| text.parse::<Priority>());
        let priority = priority.transpose().map_err(|invalid| Problem::invalid("/priority", invalid.to_string()))?;
        let changes = Changes {
            task: other(&self.task, &shown.task),
            args,
            queue: other(&self.queue, &shown.queue),
            group: other(&self.group, &shown.group),
            priority: priority.map(Priority::get),
            r#in: given(&self.r#in),
            at: given(&self.at),
        };
        serde_json::to_string(&changes).map_err(|_| Problem::invalid("/args", "args: cannot be written"))
    }
}

/// A [`turnwise::wire::Resubmission`]. The arguments are written as they were typed.
#[derive(Serialize)]
struct Changes {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#in: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

#[derive(Template)]
#[template(path = "resubmit.html")]
struct Page {
    frame: Frame,
    id: String,
    typed: Typed,
    /// The form's own: sent twice, it is one job.
    key: String,
    wrong: Option<String>,
    /// Whether a value is hidden behind a marker.
    hides: bool,
    recipe: Recipe,
}

fn form(visit: &Visit, was: &Was, typed: Typed, wrong: Option<String>) -> Result<Reply, Problem> {
    let id = visit.name.clone();
    let frame = Frame::of(visit, "jobs", format!("Edit and submit {} {} again", was.task, short(&id)));
    let frame = frame.json(format!("jobs/{}/request", encoded(&id)));
    let example = json!({ "args": { "to": "ann" }, "priority": 1 });
    let command = Command::new("resubmit").value(&id).option("--args", r#"{"to":"ann"}"#).option("--priority", "1");
    let recipe = visit.action("resubmitJob", &id, Some(&example), Some(command));
    let key = match visit.form.get("key") {
        Some(key) => key.to_owned(),
        None => fresh()?,
    };
    let hides = was.args.get().contains("\"[secret");
    render(&Page { frame, id, typed, key, wrong, hides, recipe })
}

/// A key that no other form has.
fn fresh() -> Result<String, Problem> {
    // The id of a job that is never submitted: no other thing has it.
    let id = JobRequest::from_json("form", "null").job_id();
    Ok(format!("form-{}", id.map_err(|invalid| Problem::in_body(&invalid))?))
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    if !visit.may("resubmitJob") {
        return Err(Problem::forbidden("this token may not submit jobs"));
    }
    let was: Was = visit.get("getJobRequest", &visit.name, &[]).await?;
    form(&visit, &was, Typed::of(&was), None)
}

/// A [`turnwise::wire::Submitted`].
#[derive(Deserialize)]
struct Submitted {
    id: String,
}

pub(crate) async fn send(visit: Visit) -> Result<Reply, Problem> {
    let was: Was = visit.get("getJobRequest", &visit.name, &[]).await?;
    let typed = Typed::sent(&visit);
    let sent = async {
        let changes = typed.changes(&was)?;
        let key = visit.form.get("key").unwrap_or_default();
        let key = OnceKey::new(key).map_err(|_| Problem::malformed("the form has no key; load its page again"))?;
        visit.send_once::<Submitted>("resubmitJob", &visit.name, changes, key).await
    };
    match sent.await {
        Ok(Submitted { id }) => {
            Ok(visit.go(&format!("jobs/{}{}", encoded(&id), parameters([("done", "resubmitJob")]))))
        }
        Err(problem) if problem.status() == 422 => {
            let (wrong, status) = (problem.detail().to_owned(), problem.status_code());
            Ok(form(&visit, &was, typed, Some(wrong))?.status(status))
        }
        Err(problem) => Err(problem),
    }
}
