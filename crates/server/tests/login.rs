//! People log in to the page with a token, and stay logged in by a cookie.

mod support;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use support::{Answer, PATIENCE, Server, request};
use turnwise::access::{CreatedToken, Grant, Limits, NewAccess, Scope};
use turnwise_server::{Service, limits::KNOWN_FOR};

async fn token(server: &Server, scopes: &[Scope]) -> CreatedToken {
    let grant = Grant::new(scopes.iter().copied(), Limits::default()).unwrap();
    server.turnwise.create_token(NewAccess::new("ann", grant).unwrap()).await.unwrap()
}

/// As a page of this server sends it.
fn by_page(method: &str, path: &str, body: Option<&Value>, cookie: &str) -> Request<Body> {
    let mut request = request(method, path, body);
    let headers = request.headers_mut();
    headers.insert("origin", "http://127.0.0.1:8080".parse().unwrap());
    headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
    if !cookie.is_empty() {
        headers.insert("cookie", cookie.parse().unwrap());
    }
    request
}

/// The cookie that the browser sends from now on.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn log_in(server: &Server, token: &CreatedToken) -> Answer {
    let body = json!({"token": token.secret.reveal()});
    server.send(by_page("POST", "/api/v1/session", Some(&body), "")).await
}

#[tokio::test]
async fn a_person_who_logs_in_may_do_what_the_token_may_on_every_server() {
    for server in Server::on_all().await {
        let token = token(&server, &[Scope::Submit]).await;
        let answer = log_in(&server, &token).await;
        let session = answer.expect(200);
        assert_eq!((&session["name"], &session["scopes"]), (&json!("ann"), &json!(["submit"])));
        let set = answer.header("set-cookie");
        assert!(set.starts_with("turnwise=tw_") && set.contains("; HttpOnly; SameSite=Strict"), "{set}");
        assert!(set.contains("; Path=/; Max-Age=43200"), "{set}");
        let cookie = cookie(&answer);
        assert!(!cookie.contains(token.secret.reveal()), "the browser keeps the token itself");

        let mut other = Server::of(server.store, server.turnwise.clone());
        other.serve(Service::new(server.turnwise.clone()));
        for server in [&server, &other] {
            let job = json!({"task": "t"});
            server.send(by_page("POST", "/api/v1/jobs", Some(&job), &cookie)).await.expect(201);
            server.send(by_page("GET", "/api/v1/jobs", None, &cookie)).await.refused(403, None);
            let who = server.send(by_page("GET", "/api/v1/session", None, &cookie)).await.expect(200);
            assert_eq!(who, session, "{}", server.store);
        }
    }
}

#[tokio::test]
async fn a_change_with_a_cookie_is_done_for_pages_of_this_server_alone() {
    let server = Server::on_memory().await;
    let cookie = cookie(&log_in(&server, &token(&server, &[Scope::Submit, Scope::Read]).await).await);
    let job = json!({"task": "t"});
    for (origin, site) in [
        (Some("https://evil.example.com"), Some("cross-site")),
        (Some("http://127.0.0.1:8080"), Some("same-site")),
        (Some("http://127.0.0.1:9999"), None),
        (Some("null"), None),
        (Some("null"), Some("cross-site")),
        (None, Some("cross-site")),
        (None, Some("none")),
        (None, None),
    ] {
        let mut request = request("POST", "/api/v1/jobs", Some(&job));
        let headers = request.headers_mut();
        headers.insert("cookie", cookie.parse().unwrap());
        origin.map(|origin| headers.insert("origin", origin.parse().unwrap()));
        site.map(|site| headers.insert("sec-fetch-site", site.parse().unwrap()));
        server.send(request).await.refused(403, None);
    }
    // A browser without Sec-Fetch-Site names the origin, one without Origin the site.
    for header in [("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")] {
        let mut request = request("POST", "/api/v1/jobs", Some(&job));
        request.headers_mut().insert("cookie", cookie.parse().unwrap());
        request.headers_mut().insert(header.0, header.1.parse().unwrap());
        server.send(request).await.expect(201);
    }
    // A browser hides the origin of a form on a page that sends no referrer.
    let mut hidden = request("POST", "/api/v1/jobs", Some(&job));
    for (name, value) in [("cookie", cookie.as_str()), ("origin", "null"), ("sec-fetch-site", "same-origin")] {
        hidden.headers_mut().insert(name, value.parse().unwrap());
    }
    server.send(hidden).await.expect(201);
    // A person may open the page from a bookmark.
    let mut read = request("GET", "/api/v1/jobs", None);
    read.headers_mut().insert("cookie", cookie.parse().unwrap());
    assert_eq!(server.send(read).await.expect(200)["jobs"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn after_a_log_out_the_cookie_is_worth_nothing() {
    for server in Server::on_all().await {
        let token = token(&server, &[Scope::Read]).await;
        let [one, two] = [cookie(&log_in(&server, &token).await), cookie(&log_in(&server, &token).await)];
        let out = server.send(by_page("DELETE", "/api/v1/session", None, &one)).await;
        assert_eq!(out.expect(200)["scopes"], json!([]));
        assert!(out.header("set-cookie").starts_with("turnwise=; Path=/; Max-Age=0"), "{out:?}");
        server.send(by_page("GET", "/api/v1/jobs", None, &one)).await.refused(401, None);
        server.send(by_page("GET", "/api/v1/jobs", None, &two)).await.expect(200);
        // A page of another origin cannot log a person out.
        let mut foreign = request("DELETE", "/api/v1/session", None);
        foreign.headers_mut().insert("cookie", two.parse().unwrap());
        foreign.headers_mut().insert("origin", "https://evil.example.com".parse().unwrap());
        server.send(foreign).await.refused(403, None);
        server.send(by_page("GET", "/api/v1/jobs", None, &two)).await.expect(200);
    }
}

#[tokio::test]
async fn a_log_in_ends_with_its_token() {
    for server in Server::on_all().await {
        let token = token(&server, &[Scope::Read]).await;
        let cookie = cookie(&log_in(&server, &token).await);
        server.send(by_page("GET", "/api/v1/jobs", None, &cookie)).await.expect(200);
        server.turnwise.revoke_token(&token.token.id.to_string()).await.unwrap();
        let refused = async {
            while server.send(by_page("GET", "/api/v1/jobs", None, &cookie)).await.status != 401 {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("the log-in goes on without its token");
    }
}

#[tokio::test]
async fn what_is_no_token_does_not_log_in_and_a_cookie_is_no_token() {
    let server = Server::on_memory().await;
    let token = token(&server, &[Scope::Read]).await;
    for secret in ["", "nonsense", &format!("tw_{}", "A".repeat(43))] {
        let answer = server.send(by_page("POST", "/api/v1/session", Some(&json!({"token": secret})), "")).await;
        answer.refused(401, None);
        assert_eq!(answer.header("set-cookie"), "");
    }
    let foreign = json!({"token": token.secret.reveal()});
    let mut evil = request("POST", "/api/v1/session", Some(&foreign));
    evil.headers_mut().insert("origin", "https://evil.example.com".parse().unwrap());
    server.send(evil).await.refused(403, None);
    let cookie = cookie(&log_in(&server, &token).await);
    let mut bearer = request("GET", "/api/v1/jobs", None);
    let value = cookie.strip_prefix("turnwise=").unwrap();
    bearer.headers_mut().insert("authorization", format!("Bearer {value}").parse().unwrap());
    server.send(bearer).await.refused(401, None);
    let as_cookie = format!("turnwise={}", token.secret.reveal());
    server.send(by_page("GET", "/api/v1/jobs", None, &as_cookie)).await.refused(401, None);
}

#[tokio::test]
async fn log_ins_are_slowed_down() {
    let server = Server::on_memory().await;
    token(&server, &[Scope::Read]).await;
    let wrong = json!({"token": format!("tw_{}", "A".repeat(43))});
    let mut last = 401;
    for _ in 0..200 {
        last = server.send(by_page("POST", "/api/v1/session", Some(&wrong), "")).await.status;
        if last == 429 {
            break;
        }
    }
    assert_eq!(last, 429, "200 log-ins at once were tried");
}

#[tokio::test(start_paused = true)]
async fn log_ins_with_one_token_leave_room_for_those_with_others() {
    let server = Server::on_memory().await;
    let (greedy, other) = (token(&server, &[Scope::Read]).await, token(&server, &[Scope::Read]).await);
    let others = cookie(&log_in(&server, &other).await);
    let mut cookies = Vec::new();
    for _ in 0..=100 {
        tokio::time::advance(std::time::Duration::from_millis(200)).await;
        let answer = log_in(&server, &greedy).await;
        answer.expect(200);
        cookies.push(cookie(&answer));
    }
    tokio::time::advance(KNOWN_FOR).await;
    let ask = async |cookie: &str| server.send(by_page("GET", "/api/v1/jobs", None, cookie)).await.status;
    assert_eq!(ask(&cookies[0]).await, 401, "the oldest of 101 has ended");
    assert_eq!((ask(&cookies[1]).await, ask(&cookies[100]).await, ask(&others).await), (200, 200, 200));
}

#[tokio::test]
async fn while_there_are_no_tokens_nobody_needs_to_log_in() {
    let server = Server::on_memory().await;
    let who = server.get("/api/v1/session").await.expect(200);
    assert_eq!((&who["name"], who["scopes"].as_array().unwrap().len()), (&Value::Null, 5));
    token(&server, &[Scope::Read]).await;
    let mut other = Server::of("memory", server.turnwise.clone());
    other.serve(Service::new(server.turnwise.clone()));
    other.get("/api/v1/session").await.refused(401, None);
}

#[tokio::test]
async fn the_page_names_the_command_that_makes_a_token() {
    let server = Server::on_memory().await;
    let page = server.get("/login").await.text;
    assert!(page.contains("<code class=\"cli\">turnwise token create --name NAME --scope read</code>"), "{page}");
}
