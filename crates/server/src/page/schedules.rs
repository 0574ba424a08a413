//! Schedules: jobs that are submitted again and again; the list of them, and the form that sets one.

use askama::Template;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use turnwise::{Timestamp, schedules::Zone};
use turnwise_core::secret::MASKED;

use crate::{
    call::{Query, Reply},
    page::{
        Visit, errands,
        frame::Frame,
        indent::indent,
        overview::Pause,
        queue::Next,
        recipe::{Command, Recipe},
        shown::Shown,
        visit::{encoded, parameters, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::Schedule`].
#[derive(Debug, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) name: String,
    when: String,
    pub(crate) in_words: String,
    pub(crate) zone: String,
    pub(crate) task: String,
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) pause: Option<Pause>,
    next: Vec<Timestamp>,
    args: Box<RawValue>,
    pub(crate) priority: u8,
    pub(crate) key: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) on_exhausted: Option<String>,
    pub(crate) next_task: Option<String>,
    pub(crate) overlap: String,
    pub(crate) catch_up: String,
    pub(crate) last: Option<Timestamp>,
    pub(crate) last_job: Option<String>,
}

impl Schedule {
    pub(crate) fn state(&self) -> &'static str {
        if self.pause.is_some() { "paused" } else { "active" }
    }

    /// Its cron pattern, or else the span between two of its times.
    fn pattern(&self) -> Result<&str, &str> {
        match self.when.strip_prefix("every ") {
            Some(every) => Err(every),
            None => Ok(self.when.strip_suffix(&self.zone).map_or(self.when.as_str(), str::trim_end)),
        }
    }

    /// When, as it was written.
    pub(crate) fn written(&self) -> &str {
        self.pattern().unwrap_or(&self.when)
    }

    /// Whether it goes by the clock of its zone.
    pub(crate) fn has_zone(&self) -> bool {
        self.pattern().is_ok()
    }

    /// Its next times.
    pub(crate) fn times(&self) -> Vec<Next> {
        let zone = self.zone.parse::<Zone>().unwrap_or(Zone::UTC);
        self.next.iter().map(|at| Next { there: zone.words(*at), at: *at }).collect()
    }

    fn next(&self) -> Option<Next> {
        self.times().into_iter().next().filter(|_| self.pause.is_none())
    }

    pub(crate) fn args(&self) -> String {
        indent(self.args.get())
    }
}

#[derive(Debug, Deserialize)]
struct Schedules {
    schedules: Vec<Schedule>,
    next: Option<String>,
}

/// Schedules of a page of the list.
const LISTED: &str = "100";

#[derive(Template)]
#[template(path = "schedules.html")]
struct List {
    frame: Frame,
    schedules: Vec<Schedule>,
    /// The page that follows.
    more: Option<String>,
    /// Whether this is not the first page.
    later: bool,
    /// For callers who may set one.
    form: Option<Form>,
    recipe: Recipe,
    add: Recipe,
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let after = visit.query.get("after");
    let asked: Vec<_> = [("limit", LISTED)].into_iter().chain(after.map(|after| ("after", after))).collect();
    let page: Schedules = visit.get("listSchedules", "", &asked).await?;
    let frame =
        Frame::of(&visit, "schedules", "Schedules").json(format!("schedules{}", parameters(asked.iter().copied())));
    let more = page.next.map(|next| format!("{}schedules{}", frame.root, parameters([("after", next.as_str())])));
    render(&List {
        schedules: page.schedules,
        more,
        later: after.is_some(),
        form: visit.may("setSchedule").then(Form::default),
        recipe: visit.table("listSchedules", "", &asked, Some(Command::new("schedule list"))),
        add: add(&visit),
        frame,
    })
}

/// An example of a schedule.
pub(crate) fn add(visit: &Visit) -> Recipe {
    let body = json!({ "task": "noop", "cron": "0 2 * * *", "zone": "Europe/Berlin" });
    let command = Command::new("schedule add").value("nightly").value("noop");
    let command = command.option("--cron", "0 2 * * *").option("--zone", "Europe/Berlin");
    visit.action("setSchedule", "nightly", Some(&body), Some(command))
}

/// What is set, as people write it.
#[derive(Debug, Default)]
pub(crate) struct Form {
    pub(crate) name: String,
    /// Whether there is such a schedule: its name stays.
    pub(crate) exists: bool,
    pub(crate) task: String,
    pub(crate) args: String,
    pub(crate) cron: String,
    pub(crate) zone: String,
    pub(crate) every: String,
    pub(crate) queue: String,
    pub(crate) group: String,
    pub(crate) key: String,
    pub(crate) priority: String,
    pub(crate) retry: String,
    pub(crate) timeout: String,
    pub(crate) on_exhausted: String,
    pub(crate) next: String,
    pub(crate) overlap: String,
    pub(crate) catch_up: String,
}

impl Form {
    /// To change this one.
    pub(crate) fn of(schedule: &Schedule) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (cron, every) = match schedule.pattern() {
            Ok(cron) => (cron.to_owned(), String::new()),
            Err(every) => (String::new(), every.to_owned()),
        };
        Self {
            name: schedule.name.clone(),
            exists: true,
            task: schedule.task.clone(),
            args: schedule.args(),
            zone: if cron.is_empty() { String::new() } else { schedule.zone.clone() },
            cron,
            every,
            queue: schedule.queue.clone(),
            group: schedule.group.clone(),
            key: text(&schedule.key),
            priority: schedule.priority.to_string(),
            retry: text(&schedule.retry),
            timeout: text(&schedule.timeout),
            on_exhausted: text(&schedule.on_exhausted),
            next: text(&schedule.next_task),
            overlap: schedule.overlap.clone(),
            catch_up: schedule.catch_up.clone(),
        }
    }

    fn sent(form: &Query) -> Self {
        let text = |name| form.get(name).unwrap_or_default().trim().to_owned();
        Self {
            name: text("name"),
            exists: form.get("exists") == Some("yes"),
            task: text("task"),
            args: text("args"),
            cron: text("cron"),
            zone: text("zone"),
            every: text("every"),
            queue: text("queue"),
            group: text("group"),
            key: text("key"),
            priority: text("priority"),
            retry: text("retry"),
            timeout: text("timeout"),
            on_exhausted: text("on_exhausted"),
            next: text("next"),
            overlap: text("overlap"),
            catch_up: text("catch_up"),
        }
    }

    /// The body that the API takes. The arguments are in it to the letter.
    fn body(&self) -> Result<String, Problem> {
        let texts = [
            ("task", &self.task),
            ("cron", &self.cron),
            ("zone", &self.zone),
            ("every", &self.every),
            ("queue", &self.queue),
            ("group", &self.group),
            ("key", &self.key),
            ("retry", &self.retry),
            ("timeout", &self.timeout),
            ("on_exhausted", &self.on_exhausted),
            ("next", &self.next),
            ("overlap", &self.overlap),
            ("catch_up", &self.catch_up),
        ];
        let text = |text: &String| serde_json::value::to_raw_value(text);
        let given = texts.into_iter().filter(|(_, value)| !value.is_empty());
        let mut body = given.map(|(name, value)| text(value).map(|value| (name, value))).collect::<Result<Vec<_>, _>>();
        if let Ok(body) = &mut body {
            if !self.args.is_empty() {
                let args = RawValue::from_string(self.args.clone());
                let args = args.map_err(|error| Problem::invalid("args", format!("args: is not JSON: {error}")))?;
                body.push(("args", args));
            }
            if !self.priority.is_empty() {
                let number = self.priority.parse::<u8>().map(|number| RawValue::from_string(number.to_string()));
                // A word, such as `high`, is a text.
                body.push(("priority", number.unwrap_or_else(|_| text(&self.priority)).unwrap_or_default()));
            }
        }
        let unwritable = |_| Problem::invalid("name", "the form could not be read");
        let body: std::collections::BTreeMap<_, _> = body.map_err(unwritable)?.into_iter().collect();
        serde_json::to_string(&body).map_err(unwritable)
    }
}

/// A form that was refused, as it was sent.
#[derive(Template)]
#[template(path = "schedule-form.html")]
struct Refused {
    frame: Frame,
    form: Form,
    wrong: String,
}

/// Sets a schedule as the form says.
pub(crate) async fn set(visit: Visit) -> Result<Reply, Problem> {
    let form = Form::sent(&visit.form);
    match try_set(&visit, &form).await {
        Ok(()) => Ok(visit.go(&errands::done(&format!("schedules/{}", encoded(&form.name)), "setSchedule"))),
        Err(problem) if (400..500).contains(&problem.status()) && visit.may("setSchedule") => {
            let title = if form.exists { format!("Change schedule {}", form.name) } else { "New schedule".to_owned() };
            let refused =
                Refused { frame: Frame::of(&visit, "schedules", title), form, wrong: problem.detail().to_owned() };
            Ok(render(&refused)?.status(problem.status_code()))
        }
        Err(problem) => Err(problem),
    }
}

async fn try_set(visit: &Visit, form: &Form) -> Result<(), Problem> {
    let body = form.body()?;
    if form.args.contains(&format!("\"{MASKED}\"")) {
        let text = format!("args: {MASKED} stands for a value that is not shown; write the value in its place");
        return Err(Problem::invalid("args", text));
    }
    if form.name.is_empty() {
        return Err(Problem::invalid("name", "name: is missing"));
    }
    if !form.exists && visit.get::<serde::de::IgnoredAny>("getSchedule", &form.name, &[]).await.is_ok() {
        let text = format!("name: there is a schedule {:?} already; change it on its page", form.name);
        return Err(Problem::invalid("name", text));
    }
    visit.reply("setSchedule", &form.name, Vec::new(), Bytes::from(body)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_becomes_what_the_api_takes_with_its_arguments_to_the_letter() {
        let form = Form {
            task: "report".to_owned(),
            args: r#"{"n": 12345678901234567890.10}"#.to_owned(),
            every: "10m".to_owned(),
            priority: "2".to_owned(),
            ..Form::default()
        };
        let body = r#"{"args":{"n": 12345678901234567890.10},"every":"10m","priority":2,"task":"report"}"#;
        assert_eq!(form.body().unwrap(), body);
        let high = Form { priority: "high".to_owned(), ..Form::default() };
        assert_eq!(high.body().unwrap(), r#"{"priority":"high"}"#);
        assert!(Form { args: "{".to_owned(), ..Form::default() }.body().is_err());
    }
}
