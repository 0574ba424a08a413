//! The description for programs, and the page that shows it to people. Both are in the binary.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::{
    call::{Call, ONCE_HEADER, Reply},
    problem::Problem,
    routes::{Input, Parameter, Route, routes},
    streams::LAST_EVENT,
};

/// What comes in and goes out, by name. The paths are made from the table of routes.
const SCHEMAS: &str = include_str!("schemas.json");
const INTRODUCTION: &str = "Durable jobs in a database, where every group gets its turn. \
    Errors are `application/problem+json` and name the value that they are about. Unknown names in a request are refused; \
    answers may grow. Times are RFC 3339 in UTC; no number is beyond 2^53.";

/// The whole description, as OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in &routes() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.method().as_str().to_lowercase()] = operation(route);
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Turnwise",
            "version": turnwise::VERSION,
            "description": INTRODUCTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "Not needed until the first token has been created." },
            },
        },
    })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split_once('{').and_then(|(_, rest)| rest.split('}').next()).map(|name| {
        let schema = if name == "id" { "JobId" } else { "Name" };
        json!({ "name": name, "in": "path", "required": true, "schema": reference(schema) })
    });
    let in_query = route.parameters.iter().map(|Parameter { name, schema, many, text }| {
        let mut parameter = json!({ "name": name, "in": "query", "schema": reference(schema), "description": text });
        if *many {
            parameter["explode"] = json!(false);
        }
        parameter
    });
    let key = route.once.then(|| {
        let text = "Of the caller's choice, one for each request. Repeated within 24 hours with the same key, the request is not done \
                    again: its first answer is given, with the header `idempotent-replayed`. Another body with the same key is 422, and 409 \
                    is the answer while the first request is worked on.";
        json!({ "name": ONCE_HEADER, "in": "header", "schema": reference("Name"), "description": text })
    });
    let last = route.streams.then(|| {
        let text = "The id of the last event that the listener got, on whichever server: the stream goes on after it. Browsers send it by themselves.";
        json!({ "name": LAST_EVENT, "in": "header", "schema": reference("Text"), "description": text })
    });
    let mut described = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": [tag(route)],
        "parameters": in_path.into_iter().chain(in_query).chain(key).chain(last).collect::<Vec<_>>(),
        "responses": responses(route),
    });
    match route.action {
        Some(action) => {
            described["security"] = json!([{}, { "token": [] }]);
            described["x-scope"] = json!(action.scope().to_string());
        }
        None => described["security"] = json!([]),
    }
    if let Some(Input { schema, optional, .. }) = route.input {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        described["requestBody"] = json!({ "required": !optional, "content": content });
    }
    described
}

fn tag(route: &Route) -> &str {
    route.path.strip_prefix("/api/v1/").and_then(|rest| rest.split('/').next()).unwrap_or("service")
}

fn responses(route: &Route) -> Value {
    let (status, schema) = route.output;
    let kind = match schema {
        "Html" => "text/html",
        "Metrics" => "application/openmetrics-text",
        "Script" => "text/javascript",
        "Style" => "text/css",
        _ if route.streams => "text/event-stream",
        _ => "application/json",
    };
    let success = json!({ "description": "Done.", "content": { kind: { "schema": reference(schema) } } });
    let mut responses = Map::from_iter([(status.to_string(), success.clone())]);
    if matches!(route.id, "submitJob") {
        responses.insert("200".to_owned(), success.clone());
    }
    if route.id == "isReady" {
        responses.insert("503".to_owned(), success);
        return responses.into();
    }
    let everywhere: &[u16] =
        if route.action.is_some() { &[400, 401, 403, 422, 429, 500, 503] } else { &[400, 422, 500, 503] };
    let with_body: &[u16] = if route.input.is_some() { &[408, 413, 415] } else { &[] };
    for status in everywhere.iter().chain(with_body).chain(route.refusals) {
        let content = json!({ "application/problem+json": { "schema": reference("Problem") } });
        let mut response = json!({ "description": meaning(*status), "content": content });
        if matches!(status, 429 | 503) {
            response["headers"] =
                json!({ "Retry-After": { "schema": { "type": "integer" }, "description": "Seconds." } });
        }
        responses.insert(status.to_string(), response);
    }
    responses.into()
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is no HTTP, no JSON or no UTF-8.",
        401 => "A token is needed.",
        403 => "The token may not do this, or the request comes from elsewhere.",
        404 => "There is no such thing, or the token may not see it.",
        408 => "The body took too long to arrive.",
        409 => "What is there does not allow it.",
        413 => "The body is too large.",
        415 => "The body must be application/json.",
        422 => "A value is not allowed, or its name is unknown.",
        429 => "Too much is asked at a time.",
        503 => "The database is out of reach, or there was no answer in time.",
        _ => "Something is broken.",
    }
}

pub(crate) async fn serve(_: Call) -> Result<Reply, Problem> {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    Ok(Reply::of("application/json", TEXT.as_str()))
}

pub(crate) async fn page(_: Call) -> Result<Reply, Problem> {
    Ok(Reply::of("text/html; charset=utf-8", include_str!("docs/docs.html")))
}

pub(crate) async fn script(_: Call) -> Result<Reply, Problem> {
    Ok(Reply::of("text/javascript; charset=utf-8", include_str!("docs/docs.js")))
}

pub(crate) async fn style(_: Call) -> Result<Reply, Problem> {
    Ok(Reply::of("text/css; charset=utf-8", include_str!("docs/docs.css")))
}
