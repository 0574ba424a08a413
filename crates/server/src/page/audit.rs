//! The audit log: who changed what, and how it was before.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use turnwise::Timestamp;
use turnwise_core::time::parse_span;

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        recipe::{Command, Recipe},
        shown::Shown,
        visit::{parameters, render},
    },
    problem::Problem,
};

/// A [`turnwise::wire::AuditLine`].
#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    at: Timestamp,
    actor: String,
    actor_name: Option<String>,
    verb: String,
    target: String,
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
}

/// One field, before and after; without a name it is the whole.
#[derive(Debug, PartialEq)]
struct Change {
    field: String,
    before: Option<String>,
    after: Option<String>,
}

impl Line {
    /// Whether it was there before and after: then what has no other value afterwards has stayed, and says which one it is about.
    fn stays(&self) -> bool {
        self.before.is_some() && self.after.is_some()
    }

    fn changes(&self) -> Vec<Change> {
        type Fields<'a> = BTreeMap<String, &'a RawValue>;
        let fields = |json: &Option<Box<RawValue>>| -> Option<BTreeMap<String, String>> {
            let Some(json) = json else { return Some(BTreeMap::new()) };
            let fields: Fields<'_> = serde_json::from_str(json.get()).ok()?;
            Some(fields.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect())
        };
        let whole = |json: &Option<Box<RawValue>>| json.as_ref().map(|json| json.get().to_owned());
        let (Some(mut before), Some(mut after)) = (fields(&self.before), fields(&self.after)) else {
            return vec![Change { field: String::new(), before: whole(&self.before), after: whole(&self.after) }];
        };
        let names: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
        let mut changes: Vec<Change> = Vec::new();
        for field in names {
            let value = |fields: &mut BTreeMap<String, String>| fields.remove(&field);
            // A field that is on both sides comes twice.
            match (value(&mut before), value(&mut after)) {
                (None, None) => {}
                (before, after) => changes.push(Change { field, before, after }),
            }
        }
        changes
    }
}

/// A value as people read it: the JSON itself is one click away.
pub(crate) fn plain(json: impl AsRef<str>) -> String {
    fn say(value: &Value) -> String {
        match value {
            Value::Null => "–".to_owned(),
            // A hash says which one it is by its beginning.
            Value::String(text) if text.starts_with("sha256:") => match text.get(..HASH) {
                Some(begin) if begin.len() < text.len() => format!("{begin}…"),
                _ => text.clone(),
            },
            Value::String(text) => text.clone(),
            Value::Array(values) => values.iter().map(say).collect::<Vec<_>>().join(", "),
            Value::Object(fields) => {
                // Since when is what the line itself says.
                let fields = fields.iter().filter(|(name, value)| *name != "since" && !value.is_null());
                let told: Vec<_> = fields.map(|(name, value)| format!("{name} {}", say(value))).collect();
                if told.is_empty() { "yes".to_owned() } else { told.join(", ") }
            }
            value => value.to_string(),
        }
    }
    let json = json.as_ref();
    match serde_json::from_str(json) {
        // As it is written: 1.50 stays 1.50.
        Ok(Value::Number(_)) | Err(_) => json.to_owned(),
        Ok(value) => say(&value),
    }
}

/// Characters of a hash.
const HASH: usize = 19;

#[derive(Debug, Deserialize)]
struct Lines {
    lines: Vec<Line>,
    next: Option<String>,
}

/// What a person looks for.
struct Search {
    actor: String,
    target: String,
    since: String,
    until: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    search: Search,
    page: Lines,
    /// The page that follows.
    older: Option<String>,
    /// Whether this is not the first page.
    later: bool,
    /// The same without the cursor.
    newest: String,
    /// Whether what is looked for could not be read, and why.
    wrong: Option<String>,
    recipe: Recipe,
    example: Recipe,
}

impl Page {
    fn is_everything(&self) -> bool {
        let Search { actor, target, since, until } = &self.search;
        [actor, target, since, until].iter().all(|text| text.is_empty())
    }

    /// The lines of one actor, or about one thing.
    fn narrowed(&self, name: &'static str, value: &str) -> String {
        format!("{}audit{}", self.frame.root, parameters([(name, value)]))
    }

    /// Where there is more about what was changed.
    fn way(&self, line: &Line) -> Option<String> {
        let frame = &self.frame;
        Some(match line.target.split_once(':')? {
            ("job", id) => frame.job(id),
            ("queue", name) => frame.named("queues", name),
            ("group", name) => frame.named("groups", name),
            ("task", name) => frame.named("tasks", name),
            ("schedule", name) => frame.named("schedules", name),
            ("token", _) => format!("{}tokens", frame.root),
            _ => return None,
        })
    }
}

/// A time as the API takes it: a duration is one before now.
fn moment(text: &str, now: Timestamp) -> String {
    parse_span("since", text).map_or_else(|_| text.to_owned(), |span| now.minus(span).to_string())
}

/// Lines of a page.
const LISTED: &str = "50";

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let text = |name| visit.query.get(name).unwrap_or_default().trim().to_owned();
    let search = Search { actor: text("actor"), target: text("target"), since: text("since"), until: text("until") };
    let cursor = visit.query.get("cursor");
    let frame = Frame::of(&visit, "audit", "Audit log");
    let times = [&search.since, &search.until].map(|text| moment(text, frame.now));
    let looked_for = [("actor", &search.actor), ("target", &search.target), ("since", &times[0]), ("until", &times[1])];
    let looked_for: Vec<(&str, &str)> = looked_for
        .into_iter()
        .map(|(name, value)| (name, value.as_str()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let asked: Vec<_> = [("limit", LISTED)]
        .into_iter()
        .chain(looked_for.iter().copied())
        .chain(cursor.map(|cursor| ("cursor", cursor)))
        .collect();
    let (page, wrong) = match visit.get::<Lines>("listAudit", "", &asked).await {
        Ok(page) => (page, None),
        Err(problem) if problem.status() == 422 => {
            (Lines { lines: Vec::new(), next: None }, Some(problem.detail().to_owned()))
        }
        Err(problem) => return Err(problem),
    };
    // A link keeps the times that a duration meant: its pages go together.
    let link = |cursor: Option<&str>| {
        let pairs = looked_for.iter().copied().chain(cursor.map(|cursor| ("cursor", cursor)));
        format!("{}audit{}", frame.root, parameters(pairs))
    };
    let command = Command::new("audit").option("--limit", LISTED);
    let options = [("actor", "--actor"), ("target", "--target"), ("since", "--since"), ("until", "--until")];
    let command = looked_for.iter().fold(command, |command, (name, value)| {
        let option = options.iter().find(|(known, _)| known == name).map_or("", |(_, option)| option);
        command.option(option, *value)
    });
    let pause = Command::new("queue pause").value("default").option("--reason", "maintenance");
    let older = page.next.as_deref().map(|next| link(Some(next)));
    let newest = link(None);
    render(&Page {
        older,
        newest,
        later: cursor.is_some(),
        recipe: visit.table("listAudit", "", &asked, Some(command)),
        example: visit.action("pauseQueue", "default", None, Some(pause)),
        frame: frame.json(format!("audit{}", parameters(asked.iter().copied()))),
        search,
        page,
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(before: Option<&str>, after: Option<&str>) -> Line {
        let json = |text: Option<&str>| text.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        Line {
            id: String::new(),
            at: Timestamp::from_micros(0),
            actor: String::new(),
            actor_name: None,
            verb: String::new(),
            target: String::new(),
            before: json(before),
            after: json(after),
        }
    }

    #[test]
    fn each_field_that_was_changed_is_shown_before_and_after() {
        let shown = |before, after| {
            let changes = line(before, after).changes();
            let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            changes.into_iter().map(|one| [one.field, text(one.before), text(one.after)].join("|")).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Some(r#"{"a":1.50,"b":2}"#), Some(r#"{"a":2,"c":{"d":[]}}"#)),
            ["a|1.50|2", "b|2|-", r#"c|-|{"d":[]}"#]
        );
        assert_eq!(shown(None, Some(r#"{"a":1}"#)), ["a|-|1"]);
        assert_eq!(shown(Some("7"), None), ["|7|-"]);
        assert_eq!(shown(None, None), Vec::<String>::new());
    }

    #[test]
    fn values_are_shown_as_people_read_them() {
        let hash = format!("\"sha256:{}\"", "7".repeat(64));
        for (json, told) in [
            ("null", "–"),
            ("1.50", "1.50"),
            (r#""10m""#, "10m"),
            (r#"["a","b"]"#, "a, b"),
            (r#"{"reason":"holidays","since":"2030-01-31T08:00:00Z"}"#, "reason holidays"),
            (r#"{"reason":null,"since":"2030-01-31T08:00:00Z"}"#, "yes"),
            (hash.as_str(), "sha256:777777777777…"),
        ] {
            assert_eq!(plain(json), told, "{json}");
        }
    }

    #[test]
    fn a_duration_is_a_time_before_now() {
        let now: Timestamp = "2030-01-31T08:00:00Z".parse().unwrap();
        assert_eq!(moment("1h", now), "2030-01-31T07:00:00.000000Z");
        assert_eq!((moment("soon", now), moment("", now)), ("soon".to_owned(), String::new()));
    }
}
