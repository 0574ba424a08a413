//! What forms do. Each is sent to a route of the page, which asks one of the API: with the rights and the audit of its caller.

use serde_json::{Map, Value};

use crate::{call::Reply, page::Visit, problem::Problem};

/// How a form's text becomes a value of the API's body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field {
    /// As it is; left out if it is empty.
    Text(&'static str),
    /// As it is; `null` if it is empty, which takes a setting back.
    TextOrNull(&'static str),
    /// A number; left out if it is empty.
    Number(&'static str),
    /// A number; `null` if it is empty.
    NumberOrNull(&'static str),
    /// A list with a line for each; `null` if there is none.
    LinesOrNull(&'static str),
}

/// What a form does.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Where the form is sent; a name in braces is the one in the API's path.
    pub(crate) path: &'static str,
    /// The route of the API.
    pub(crate) route: &'static str,
    pub(crate) fields: &'static [Field],
    /// What is said when it is done.
    pub(crate) said: &'static str,
    /// Where the browser goes on if the form does not say it.
    pub(crate) then: &'static str,
}

/// All of them.
pub(crate) static ERRANDS: &[Errand] = {
    use Field::*;
    const fn errand(path: &'static str, route: &'static str, said: &'static str, then: &'static str) -> Errand {
        Errand { path, route, fields: &[], said, then }
    }
    const fn with(fields: &'static [Field], errand: Errand) -> Errand {
        Errand { fields, ..errand }
    }
    const GROUP: &[Field] = &[
        NumberOrNull("weight"),
        NumberOrNull("concurrency"),
        TextOrNull("rate"),
        TextOrNull("scheme"),
        NumberOrNull("max_waiting"),
    ];
    const QUEUE: &[Field] = &[
        NumberOrNull("weight"),
        TextOrNull("fairness"),
        TextOrNull("concurrency"),
        NumberOrNull("per_node"),
        TextOrNull("rate"),
        TextOrNull("scheme"),
        TextOrNull("on_error"),
        LinesOrNull("after"),
        TextOrNull("schedule"),
        Text("zone"),
        LinesOrNull("block"),
    ];
    const LIMITS: &[Field] = &[NumberOrNull("concurrency"), TextOrNull("rate")];
    &[
        errand("/jobs/{id}/cancel", "cancelJob", "The job is cancelled, or its node was asked to stop it.", "jobs"),
        errand("/jobs/{id}/retry", "retryJob", "The job runs again as soon as it is its turn.", "jobs"),
        errand("/jobs/{id}/rerun", "rerunJob", "The job runs once more as soon as it is its turn.", "jobs"),
        errand("/jobs/{id}/fail", "failJob", "The job is marked as failed.", "jobs"),
        with(
            &[Number("priority"), Text("queue"), Text("in"), Text("at")],
            errand("/jobs/{id}/change", "changeJob", "The job is changed.", "jobs"),
        ),
        with(
            &[Text("reason")],
            errand("/queues/{name}/pause", "pauseQueue", "The queue is paused: none of its jobs starts.", "queues"),
        ),
        with(QUEUE, errand("/queues/{name}/set", "setQueue", "The queue's settings are changed.", "queues")),
        errand("/queues/{name}/reset", "resetQueue", "The queue has default settings again.", "queues"),
        errand("/queues/{name}/resume", "resumeQueue", "The queue goes on.", "queues"),
        errand("/queues/{name}/seal", "sealQueue", "The queue is sealed: it is finished once it is empty.", "queues"),
        errand("/queues/{name}/unseal", "unsealQueue", "The queue is open again.", "queues"),
        with(
            &[Text("reason")],
            errand("/groups/{name}/pause", "pauseGroup", "The group is paused: none of its jobs starts.", "fairness"),
        ),
        errand("/groups/{name}/resume", "resumeGroup", "The group goes on.", "fairness"),
        with(GROUP, errand("/groups/{name}/set", "setGroup", "The group's settings are changed.", "fairness")),
        errand("/groups/{name}/reset", "resetGroup", "The group has default settings again.", "fairness"),
        with(LIMITS, errand("/tasks/{name}/set", "setTask", "The task's limits are changed.", "tasks")),
        errand("/tasks/{name}/reset", "resetTask", "The task has no limits any more.", "tasks"),
        with(
            &[Text("reason")],
            errand("/schedules/{name}/pause", "pauseSchedule", "The schedule is paused.", "schedules"),
        ),
        errand("/schedules/{name}/resume", "resumeSchedule", "The schedule goes on.", "schedules"),
        errand("/schedules/{name}/remove", "removeSchedule", "The schedule is deleted; its jobs stay.", "schedules"),
        errand("/schedules/{name}/run", "runSchedule", "Its job is submitted once, beside its times.", "schedules"),
        errand(
            "/nodes/{name}/drain",
            "drainNode",
            "The node takes no more jobs from its next beat on; those in its hands go on.",
            "nodes",
        ),
        errand("/nodes/{name}/resume", "resumeNode", "The node takes jobs again from its next beat on.", "nodes"),
        errand("/tokens/{name}/revoke", "revokeToken", "The token is revoked, for good.", "tokens"),
    ]
};

/// What is said of a form that was sent before, by the name of its route.
pub(crate) fn said(done: &str, _count: Option<&str>) -> Option<String> {
    if done == "resubmitJob" {
        return Some("This is the new job. The one that it was made of stays as it is.".to_owned());
    }
    let errand = ERRANDS.iter().find(|errand| errand.route == done).map(|errand| errand.said);
    errand.or((done == "setSchedule").then_some("The schedule is set.")).map(str::to_owned)
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Text(name)
            | Self::TextOrNull(name)
            | Self::Number(name)
            | Self::NumberOrNull(name)
            | Self::LinesOrNull(name) => name,
        }
    }
}

/// The lines of a field with one value a line.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn body(fields: &[Field], visit: &Visit) -> Result<Map<String, Value>, Problem> {
    let mut body = Map::new();
    for field in fields {
        let name = field.name();
        let Some(text) = visit.form.get(name).map(str::trim) else { continue };
        let value = match field {
            Field::TextOrNull(_) | Field::NumberOrNull(_) | Field::LinesOrNull(_) if text.is_empty() => Value::Null,
            _ if text.is_empty() => continue,
            Field::Text(_) | Field::TextOrNull(_) => Value::from(text),
            Field::LinesOrNull(_) => lines(text).collect(),
            Field::Number(_) | Field::NumberOrNull(_) => match serde_json::from_str(text) {
                Ok(number @ Value::Number(_)) => number,
                _ => return Err(Problem::invalid(name, format!("{name}: {text:?} is not a number"))),
            },
        };
        body.insert(name.to_owned(), value);
    }
    Ok(body)
}

/// Does what a form asks for, and goes on to the page that it names.
pub(crate) async fn run(visit: Visit) -> Result<Reply, Problem> {
    let Some(errand) = visit.errand else { return Err(Problem::not_found("nothing is done here")) };
    let body = body(errand.fields, &visit)?;
    let body = (!errand.fields.is_empty()).then_some(Value::Object(body));
    visit.send::<serde::de::IgnoredAny>(errand.route, &visit.name, body.as_ref()).await?;
    Ok(visit.go(&done(visit.form.get("back").unwrap_or(errand.then), errand.route)))
}

/// Where the browser goes on, with what is said there. `back` comes from a form; it stands behind the way to `/`, so it cannot lead
/// elsewhere.
pub(crate) fn done(back: &str, route: &str) -> String {
    let (path, query) = back.split_once('?').unwrap_or((back, ""));
    let rest =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("done=") && !pair.starts_with("count="));
    let mut to = path.split('#').next().unwrap_or_default().trim_start_matches('/').to_owned();
    for (at, pair) in rest.chain([format!("done={route}").as_str()]).enumerate() {
        to.push(if at == 0 { '?' } else { '&' });
        to.push_str(pair);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::routes;

    #[test]
    fn every_errand_is_a_route_of_the_api() {
        let routes = routes();
        for errand in ERRANDS {
            let route = routes.iter().find(|route| route.id == errand.route);
            let route = route.unwrap_or_else(|| panic!("{}", errand.route));
            assert_eq!(route.path.contains('{'), errand.path.contains('{'), "{}", errand.route);
            assert_eq!(errand.fields.is_empty(), route.input.is_none(), "{}", errand.route);
        }
    }

    #[test]
    fn a_form_leads_back_to_where_it_was_sent_from() {
        assert_eq!(done("jobs?filter=a&done=x&count=3", "cancelJob"), "jobs?filter=a&done=cancelJob");
        assert_eq!(done("//evil.example/", "cancelJob"), "evil.example/?done=cancelJob");
        assert_eq!(done("jobs/1#log", "retryJob"), "jobs/1?done=retryJob");
    }
}
