//! Values that no honest caller sends, on every place that the table of routes and the description have, on every store: each is answered in
//! time, none with a failure of the server, and afterwards the server goes on.

mod support;

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, header},
};
use serde_json::Value;
use support::{PATIENCE, Server, request};
use turnwise::access::{Grant, Limits, NewAccess, Scope};
use turnwise_server::{Parameter, Route, routes};

/// A job that nobody has.
const NO_JOB: &str = "01890163-d869-7739-8aea-5966c26f8ad9";

static DOCUMENT: LazyLock<Value> = LazyLock::new(turnwise_server::document);

/// Texts that are hostile as a name, a number, a time, a span, an id, a cursor, or anything that is quoted, counted or shown.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let short = [
        "",
        " ",
        "\0",
        "a\0b",
        "\n\r\t\u{1b}[2J",
        "'; drop table turnwise_job; --",
        "\"\\",
        "\u{202e}\u{2066}live\u{2069}",
        "e\u{301}\u{fffd}\u{10ffff}",
        "../../etc/passwd",
        "%ff%00%s%n",
        "null",
        "NaN",
        "-1",
        "0",
        "1e309",
        "1.5",
        "18446744073709551616",
        "-9223372036854775808",
        "9223372036854775807",
        "0000-00-00T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
        "+292277026596-12-04T15:30:07Z",
        "-1s",
        "99999999999999999999d",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-7fff-bfff-ffffffffffff",
        "AQAAAAAAAAAAAAAAAAAAAAA",
        "Af____________________8",
        "9223372036854775807.9223372036854775807",
        "59 23 31 2 *",
        "Mon-Sun 25:61-99:99 Mars/Phobos",
        "0/0s",
        "4294967296/1us",
        ",,,",
        "*",
        "success=99999999999d,failed=0",
        "exponential:0s,4294967295",
        "00-00000000000000000000000000000000-0000000000000000-ff",
    ];
    let long = ["x".repeat(5_000), "9".repeat(400), "\u{202e}".repeat(300), "((((".repeat(250)];
    short.into_iter().map(str::to_owned).chain(long).collect()
});

/// JSON that is no text.
static VALUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let short = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "-0.0",
        "1e308",
        "1e400",
        "9007199254740993",
        "4294967296",
        "-9223372036854775808",
        "18446744073709551616",
        "[]",
        "{}",
        "[null]",
        r#"{"a":1,"a":2}"#,
        r#""\ud800""#,
        r#"{"":""}"#,
    ];
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    short.into_iter().map(str::to_owned).chain([nested(63), nested(70), nested(10_000)]).collect()
});

/// Parts of an address as they are, not encoded once more.
const RAW: [&str; 12] = [
    "%ff",
    "%00",
    "%",
    "%zz",
    "%c0%80",
    "%ed%a0%80",
    "a%2fb",
    "..%2f..",
    "+",
    "a=b=c",
    "%0d%0aset-cookie:%20a=b",
    "%f0%9f%92%a5",
];

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Hostile parts of an address.
fn parts() -> Vec<String> {
    TEXTS.iter().map(|text| encoded(text)).chain(RAW.map(str::to_owned)).collect()
}

/// Whether a caller finds the place that an error names: a value of the body that the description has, a parameter, a header, the name in the
/// path; or what it has made up itself.
fn is_a_place(route: &Route, path: &str, message: &str) -> bool {
    if message.contains("unknown name") || message.contains("unknown parameter") {
        return true;
    }
    match path.strip_prefix('/') {
        Some(pointer) => route.input.is_some_and(|input| {
            let names: Vec<_> = pointer.split('/').collect();
            describes(&DOCUMENT["components"]["schemas"][input.schema], &names)
        }),
        None => {
            let of_route = route.parameters.iter().any(|parameter| parameter.name == path);
            of_route || ["", "name", "Idempotency-Key"].contains(&path)
        }
    }
}

fn describes(schema: &Value, names: &[&str]) -> bool {
    let Some((name, rest)) = names.split_first() else { return true };
    if let Some(reference) = schema["$ref"].as_str() {
        return describes(&DOCUMENT["components"]["schemas"][reference.rsplit('/').next().unwrap()], names);
    }
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    schema["properties"].get(name).is_some_and(|schema| describes(schema, rest))
        || name.parse::<usize>().is_ok() && schema.get("items").is_some_and(|items| describes(items, rest))
        || schema.get("additionalProperties").is_some_and(|any| any.is_object() && describes(any, rest))
        || choices.into_iter().any(|choice| describes(choice, names))
}

/// A body that the route takes, but for what is put into it.
fn fields(schema: &str) -> Vec<(&'static str, &'static str)> {
    match schema {
        "Request" => vec![("task", r#""t""#)],
        "CancelChoice" | "RetryChoice" | "FailChoice" => vec![("dry_run", "true")],
        "NewSchedule" => vec![("task", r#""t""#), ("every", r#""1h""#)],
        "NewToken" => vec![("name", r#""made""#), ("scopes", r#"["read"]"#)],
        "LogIn" => vec![("token", r#""tw_x""#)],
        _ => Vec::new(),
    }
}

fn object(fields: &[(&str, &str)]) -> String {
    let members: Vec<_> = fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(*name))).collect();
    format!("{{{}}}", members.join(","))
}

/// As many forms of the body as there are hostile values for each of its names.
fn bodies(schema: &str) -> Vec<String> {
    let whole = ["", "null", "[]", "\"\"", "{", "{\"a\"", "\u{feff}{}", "{}{}", "{\"\\u0000\":1}"].map(str::to_owned);
    if schema == "Batch" {
        let jobs = bodies("Request").into_iter().map(|job| format!(r#"{{"jobs":[{{"task":"t"}},{job}]}}"#));
        return whole.into_iter().chain(jobs).collect();
    }
    let (mut all, base) = (Vec::from(whole), fields(schema));
    let properties = DOCUMENT["components"]["schemas"][schema]["properties"].as_object();
    for (name, property) in properties.unwrap_or_else(|| panic!("{schema} has no names")) {
        let (shape, others) = (property.to_string(), base.iter().filter(|(other, _)| *other != name.as_str()));
        let others: Vec<(&str, &str)> = others.copied().collect();
        let texts = TEXTS.iter().map(|text| Value::from(text.as_str()).to_string());
        let mut values: Vec<String> = texts.chain(VALUES.iter().cloned()).collect();
        if shape.contains("\"array\"") {
            values.extend(values.clone().iter().map(|value| format!("[{value}]")));
        }
        if shape.contains("additionalProperties") {
            values.extend(values.clone().iter().map(|value| format!(r#"{{"x":{value}}}"#)));
            values.extend(TEXTS.iter().map(|text| format!("{{{}:1}}", Value::from(text.as_str()))));
        }
        for value in values {
            all.push(object(&others.iter().copied().chain([(name.as_str(), value.as_str())]).collect::<Vec<_>>()));
        }
    }
    all
}

/// Headers that the server or a part of it reads.
const HEADERS: [&str; 18] = [
    "last-event-id",
    "traceparent",
    "tracestate",
    "cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-prefix",
    "forwarded",
    "host",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "content-type",
    "content-length",
    "accept",
    "accept-encoding",
    "authorization",
];

/// Those that come as far as a store.
const STORED: [&str; 6] = ["last-event-id", "traceparent", "tracestate", "cookie", "idempotency-key", "authorization"];

fn header_values() -> Vec<HeaderValue> {
    let long = "x".repeat(5_000);
    let texts: [&[u8]; 14] = [
        b"",
        b"\xff\xfe\x80",
        "\u{202e}live".as_bytes(),
        b"\"'; drop table turnwise_job; --",
        b"-1",
        b"18446744073709551616",
        b"9223372036854775807/9223372036854775807/9223372036854775807.9223372036854775807",
        b"0/0/0.0:-1:99999999999999999999",
        b"00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff",
        b"=;=;,,,a=b;a=b;__Host-turnwise=;turnwise=\x80",
        b"https,http",
        b"//evil.example/%0d%0a",
        b"Bearer \xff",
        long.as_bytes(),
    ];
    texts.into_iter().map(|text| HeaderValue::from_bytes(text).unwrap()).collect()
}

struct Attack<'a> {
    server: &'a Server,
    secret: String,
    asked: usize,
}

impl Attack<'_> {
    fn request(&self, route: &Route, path: &str, body: Option<String>) -> Option<Request<Body>> {
        let builder = Request::builder().method(route.verb.method()).uri(path).header(header::HOST, "127.0.0.1:8080");
        let builder = builder.header(header::AUTHORIZATION, format!("Bearer {}", self.secret));
        // What cannot be an address at all does not reach a server.
        match body {
            None => builder.body(Body::empty()).ok(),
            Some(body) => builder.header(header::CONTENT_TYPE, "application/json").body(Body::from(body)).ok(),
        }
    }

    async fn ask(&mut self, route: &Route, request: Option<Request<Body>>, what: &str) {
        let Some(request) = request else { return };
        let uri = request.uri().clone();
        let told = || format!("{}: {route:?} {uri:.300} {what:.300}", self.server.store);
        let answer = tokio::time::timeout(PATIENCE, self.server.send(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer: {}", told()));
        assert!(answer.status < 500, "{}: {}: {}", answer.status, told(), answer.text);
        let problem: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        for error in problem["errors"].as_array().into_iter().flatten() {
            let of = |name: &str| error[name].as_str().unwrap_or_default();
            assert!(is_a_place(route, of("path"), of("message")), "{}: {}", told(), answer.text);
        }
        self.asked += 1;
    }

    async fn everything(&mut self) {
        let (parts, headers) = (parts(), header_values());
        for route in &routes() {
            let base = route.path.replace("{id}", NO_JOB).replace("{name}", "x");
            let body = || {
                route.input.map(|input| match input.schema {
                    "Batch" => r#"{"jobs":[{"task":"t"}]}"#.to_owned(),
                    schema => object(&fields(schema)),
                })
            };
            if route.path.contains('{') {
                for part in &parts {
                    let path = route.path.replace("{id}", part).replace("{name}", part);
                    self.ask(route, self.request(route, &path, body()), "").await;
                }
            }
            for Parameter { name, .. } in route.parameters {
                for part in &parts {
                    self.ask(route, self.request(route, &format!("{base}?{name}={part}"), body()), "").await;
                }
            }
            for part in &parts {
                self.ask(route, self.request(route, &format!("{base}?{part}"), body()), "").await;
            }
            for body in route.input.iter().flat_map(|input| bodies(input.schema)) {
                let request = self.request(route, &base, Some(body.clone()));
                self.ask(route, request, &body).await;
            }
            // What no store ever sees is sent to each route once.
            let reach_stores = route.once || route.streams || route.path == "/api/v1/session";
            let names: &[&'static str] = match self.server.store {
                "memory" => &HEADERS,
                _ if reach_stores => &STORED,
                _ => &[],
            };
            for (name, value) in names.iter().flat_map(|name| headers.iter().map(move |value| (*name, value))) {
                let mut request = self.request(route, &base, body());
                let headers = request.as_mut().expect("an honest address").headers_mut();
                headers.insert(HeaderName::from_static(name), value.clone());
                self.ask(route, request, &format!("{name}: {value:?}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_values_are_answered_and_break_nothing() {
    let servers = Server::on_all().await;
    let attacks = servers.iter().map(async |server| {
        let grant = Grant::new(Scope::ALL, Limits::default()).unwrap();
        let token = server.turnwise.create_token(NewAccess::new("attacker", grant).unwrap()).await.unwrap();
        let mut attack = Attack { server, secret: token.secret.reveal().to_owned(), asked: 0 };
        attack.everything().await;
        assert!(attack.asked > 10_000, "{} requests", attack.asked);
        // What could be stored is there, and all lists and the next submit go on.
        let signed = |method: &str, path: &str, body: Option<&Value>| {
            let mut request = request(method, path, body);
            let bearer = format!("Bearer {}", token.secret.reveal());
            request.headers_mut().insert(header::AUTHORIZATION, bearer.parse().unwrap());
            request
        };
        for path in ["jobs", "queues", "groups", "tasks", "keys", "schedules", "audit", "tokens", "overview", "nodes"] {
            server.send(signed("GET", &format!("/api/v1/{path}"), None)).await.expect(200);
        }
        let job = serde_json::json!({"task": "honest"});
        server.send(signed("POST", "/api/v1/jobs", Some(&job))).await.expect(201);
    });
    futures_util::future::join_all(attacks).await;
}
