//! Web pages of other origins: those that were allowed may ask, with a token; others learn nothing.

mod support;

use serde_json::json;
use support::{Answer, Server, request};
use turnwise::access::{Grant, Limits, NewAccess, Scope};
use turnwise_server::{Origins, Service};

async fn server() -> (Server, String) {
    let mut server = Server::on_memory().await;
    let mut origins = Origins::default();
    origins.allow("https://app.example.com").unwrap();
    server.serve(Service::for_pages_of(origins, server.turnwise.clone()));
    let grant = Grant::new([Scope::Submit], Limits::default()).unwrap();
    let created = server.turnwise.create_token(NewAccess::new("page", grant).unwrap()).await.unwrap();
    (server, format!("Bearer {}", created.secret.reveal()))
}

async fn from(server: &Server, origin: &str, method: &str, bearer: Option<&str>) -> Answer {
    let mut request = request(method, "/api/v1/jobs", (method == "POST").then_some(&json!({"task": "t"})));
    let headers = request.headers_mut();
    headers.insert("origin", origin.parse().unwrap());
    headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
    if let Some(bearer) = bearer {
        headers.insert("authorization", bearer.parse().unwrap());
    }
    server.send(request).await
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_submits_with_a_token() {
    let (server, bearer) = server().await;
    let asked = from(&server, "https://app.example.com", "OPTIONS", None).await;
    assert_eq!(asked.status, 204, "{asked:?}");
    assert_eq!(asked.header("access-control-allow-origin"), "https://app.example.com");
    assert!(asked.header("access-control-allow-headers").contains("authorization"));
    assert!(asked.header("access-control-allow-headers").contains("idempotency-key"));
    // A browser sends the headers of a trace only if the page may.
    let allowed: Vec<_> = asked.header("access-control-allow-headers").split(", ").collect();
    assert!(allowed.contains(&"traceparent") && allowed.contains(&"tracestate"), "{allowed:?}");
    assert_eq!(asked.header("access-control-allow-credentials"), "", "cookies are never sent along");
    let done = from(&server, "https://app.example.com", "POST", Some(&bearer)).await;
    done.expect(201);
    assert_eq!(done.header("access-control-allow-origin"), "https://app.example.com");
    assert_eq!(done.header("vary"), "origin");
    // Errors are read by pages, too.
    let refused = from(&server, "https://app.example.com", "POST", None).await;
    refused.refused(401, None);
    assert_eq!(refused.header("access-control-allow-origin"), "https://app.example.com");
}

#[tokio::test]
async fn pages_of_other_origins_are_told_nothing() {
    let (server, bearer) = server().await;
    for origin in ["https://evil.example.com", "http://app.example.com", "https://app.example.com.evil.org", "null"] {
        let asked = from(&server, origin, "OPTIONS", None).await;
        assert_eq!((asked.status, asked.header("access-control-allow-origin")), (405, ""), "{origin}");
        let answer = from(&server, origin, "POST", Some(&bearer)).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{origin}");
    }
}

#[tokio::test]
async fn without_an_allowed_origin_nothing_is_said_about_origins() {
    let server = Server::on_memory().await;
    let answer = server.get("/livez").await;
    assert_eq!((answer.header("vary"), answer.header("access-control-allow-origin")), ("", ""));
}
