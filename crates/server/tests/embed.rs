//! A tenant's view inside a page of a host: the host's backend makes a ticket with its token, and the page in the frame redeems it.

mod support;

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use support::{Answer, EMBEDDER, PATIENCE, Server, request, with};
use turnwise::{
    GroupName, JobRequest, Options, QueueName, Timestamp, Turnwise,
    access::{CreatedToken, Grant, Limits, NewAccess, Scope},
};
use turnwise_server::Service;
use turnwise_store::memory::{Clock, MemoryStore};

async fn token(server: &Server, scopes: &[Scope], groups: &[&str]) -> CreatedToken {
    let names = || groups.iter().map(|group| GroupName::new(group).unwrap()).collect();
    let limits = Limits { groups: (!groups.is_empty()).then(names), ..Limits::default() };
    let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
    server.turnwise.create_token(NewAccess::new("host", grant).unwrap()).await.unwrap()
}

/// A host that asks with its token.
struct Host<'a> {
    server: &'a Server,
    token: CreatedToken,
}

impl<'a> Host<'a> {
    async fn new(server: &'a Server, scopes: &[Scope], groups: &[&str]) -> Self {
        Self { server, token: token(server, scopes, groups).await }
    }

    async fn make(&self, ticket: &Value) -> Answer {
        let asked = request("POST", "/api/v1/tickets", Some(ticket));
        self.server.send(with(asked, self.token.secret.reveal())).await
    }

    /// The secret of a ticket for this group.
    async fn ticket(&self, group: &str, scopes: &[&str]) -> String {
        let ticket = json!({"groups": [group], "scopes": scopes, "origins": [EMBEDDER]});
        self.make(&ticket).await.expect(201)["ticket"].as_str().unwrap().to_owned()
    }

    /// A bearer that is good for this group.
    async fn bearer(&self, group: &str, scopes: &[&str]) -> String {
        let ticket = self.ticket(group, scopes).await;
        let redeemed = self.server.send(redeem(&ticket, &[EMBEDDER])).await.expect(200);
        redeemed["bearer"].as_str().unwrap().to_owned()
    }
}

/// As the shell redeems a ticket, from a frame in pages of these origins.
fn redeem(ticket: &str, origins: &[&str]) -> Request<Body> {
    let body = json!({"ticket": ticket, "origins": origins});
    by_page(request("POST", "/api/v1/tickets/redeem", Some(&body)))
}

/// As a page of this server sends it.
fn by_page(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("origin", "http://127.0.0.1:8080".parse().unwrap());
    request.headers_mut().insert("sec-fetch-site", "same-origin".parse().unwrap());
    request
}

async fn get(server: &Server, path: &str, bearer: &str) -> Answer {
    server.send(with(request("GET", path, None), bearer)).await
}

#[tokio::test]
async fn a_ticket_opens_the_view_of_its_group_and_of_no_other_on_every_server() {
    for server in Server::on_all().await {
        let submit = async |group: &str| {
            server.turnwise.submit(JobRequest::new("mail", &1).group(group)).await.unwrap().to_string()
        };
        let (own, foreign) = (submit("acme").await, submit("rival").await);
        let host = Host::new(&server, &[Scope::Operate], &[]).await;
        let asked = json!({"groups": "acme", "scopes": ["operate"], "origins": [EMBEDDER]});
        let made = host.make(&asked).await.expect(201);
        let ticket = made["ticket"].as_str().unwrap();
        assert!(ticket.starts_with("twt_") && ticket.len() == 47, "{made}");
        assert_eq!(made["path"], format!("/embed?origin={EMBEDDER}#{ticket}"));
        // Another server redeems it, once.
        let other = Server::of(server.store, server.turnwise.clone());
        let redeemed = other.send(redeem(ticket, &[EMBEDDER])).await.expect(200);
        assert_eq!((&redeemed["groups"], &redeemed["scopes"]), (&json!(["acme"]), &json!(["operate"])));
        server.send(redeem(ticket, &[EMBEDDER])).await.refused(401, None);
        let bearer = redeemed["bearer"].as_str().unwrap();
        assert!(bearer.starts_with("twb_"), "{redeemed}");
        let lasts = |value: &Value| value["until"].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert_eq!(lasts(&redeemed).since(lasts(&made)).as_secs() / 60, 14, "a minute, and a quarter of an hour");
        for server in [&server, &other] {
            let view = get(server, "/mine", bearer).await;
            assert_eq!(view.status, 200);
            assert!(view.text.contains(&own) && !view.text.contains(&foreign), "{}", view.text);
            // Nothing is told of the token behind it.
            assert!(!view.text.contains("host") && !view.text.contains(&host.token.token.prefix), "{}", view.text);
            let who = get(server, "/api/v1/session", bearer).await.expect(200);
            assert_eq!((&who["name"], &who["prefix"], &who["groups"]), (&Value::Null, &Value::Null, &json!(["acme"])));
            get(server, &format!("/api/v1/jobs/{foreign}"), bearer).await.refused(404, None);
            for path in ["/api/v1/nodes", "/api/v1/tokens", "/api/v1/audit", "/metrics"] {
                get(server, path, bearer).await.refused(403, None);
            }
        }
        // What it changes is the token's doing, by a ticket.
        let mut form = by_page(request("POST", &format!("/jobs/{own}/cancel"), None));
        *form.body_mut() = Body::from("back=mine");
        form.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
        assert_eq!(server.send(with(form, bearer)).await.status, 303);
        let admin = token(&server, &[Scope::Admin], &[]).await;
        let lines = get(&server, &format!("/api/v1/audit?target=job:{own}"), admin.secret.reveal()).await.expect(200);
        let line = &lines["lines"][0];
        assert_eq!(
            (&line["verb"], &line["actor"]),
            (&json!("cancel"), &json!(format!("token:{}", host.token.token.id)))
        );
        let name = format!("host ({}…), by a ticket", host.token.token.prefix);
        assert_eq!(line["actor_name"], name, "{}", server.store);
    }
}

#[tokio::test]
async fn a_ticket_gives_no_more_than_the_token_that_makes_it() {
    for server in Server::on_all().await {
        let ask = |groups: Value, scopes: Value, origins: Value| {
            let mut ticket = json!({"groups": groups, "origins": origins});
            if !scopes.is_null() {
                ticket["scopes"] = scopes;
            }
            ticket
        };
        let of = |groups: &[&str]| ask(json!(groups), Value::Null, json!([EMBEDDER]));
        // While there are no tokens there is none that it could be made with.
        server.post("/api/v1/tickets", &of(&["acme"])).await.refused(403, None);
        let reader = Host::new(&server, &[Scope::Read], &["acme", "beta"]).await;
        for (asked, status, path) in [
            (of(&["acme"]), 201, None),
            (of(&["beta", "acme"]), 201, None),
            (of(&["acme", "rival"]), 403, None),
            (ask(json!(["acme"]), json!(["operate"]), json!([EMBEDDER])), 403, None),
            (ask(json!(["acme"]), json!(["admin"]), json!([EMBEDDER])), 422, Some("/scopes")),
            (ask(json!(["acme"]), json!(["submit"]), json!([EMBEDDER])), 422, Some("/scopes")),
            (of(&[]), 422, Some("/groups")),
            (ask(json!(["acme"]), Value::Null, json!(["https://evil.example"])), 422, Some("/origins")),
            (ask(json!(["acme"]), Value::Null, json!([EMBEDDER, "*"])), 422, Some("/origins")),
            (ask(json!(["acme"]), Value::Null, json!([])), 422, Some("/origins")),
            (json!({"groups": ["acme"], "queues": [], "origins": [EMBEDDER]}), 422, Some("/queues")),
            (json!({"groups": ["acme"], "tasks": [], "origins": [EMBEDDER]}), 422, Some("/tasks")),
            (json!({"groups": ["acme"]}), 422, Some("/origins")),
            (json!({"origins": [EMBEDDER]}), 422, Some("/groups")),
        ] {
            let answer = reader.make(&asked).await;
            match status {
                201 => drop(answer.expect(201)),
                status => drop(answer.refused(status, path)),
            }
        }
        // A limit of the token that the ticket does not name is the ticket's, too.
        let narrow = Limits { queues: Some([QueueName::new("mail").unwrap()].into()), ..Limits::default() };
        let narrow = Grant::new([Scope::Read], narrow).unwrap();
        let token = server.turnwise.create_token(NewAccess::new("mail", narrow).unwrap()).await.unwrap();
        let narrow = Host { server: &server, token };
        let made = narrow.make(&of(&["acme"])).await.expect(201);
        let redeemed = server.send(redeem(made["ticket"].as_str().unwrap(), &[EMBEDDER])).await.expect(200);
        assert_eq!((&redeemed["queues"], &redeemed["groups"]), (&json!(["mail"]), &json!(["acme"])));
        // A token that may not look gives none; and neither does a ticket's bearer, which would never end.
        Host::new(&server, &[Scope::Submit], &[]).await.make(&of(&["acme"])).await.refused(403, None);
        let bearer = reader.bearer("acme", &["read"]).await;
        let again = request("POST", "/api/v1/tickets", Some(&of(&["acme"])));
        server.send(with(again, &bearer)).await.refused(403, None);
        // Nor is a ticket a bearer, a bearer a token, or either of them a log-in.
        let ticket = reader.ticket("acme", &["read"]).await;
        get(&server, "/api/v1/jobs", &ticket).await.refused(401, None);
        for secret in [&ticket, &bearer] {
            let log_in = request("POST", "/api/v1/session", Some(&json!({"token": secret})));
            server.send(by_page(log_in)).await.refused(401, None);
            let mut cookie = by_page(request("GET", "/api/v1/jobs", None));
            cookie.headers_mut().insert("cookie", format!("turnwise={secret}").parse().unwrap());
            server.send(cookie).await.refused(401, None);
        }
    }
}

#[tokio::test]
async fn a_ticket_is_redeemed_for_pages_of_its_origins_by_this_servers_own_page() {
    for server in Server::on_all().await {
        let host = Host::new(&server, &[Scope::Read], &[]).await;
        let ticket = host.ticket("acme", &["read"]).await;
        // A page of another origin that has got hold of it cannot ask.
        for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let mut foreign = redeem(&ticket, &[EMBEDDER]);
            foreign.headers_mut().insert(name, value.parse().unwrap());
            server.send(foreign).await.refused(403, None);
        }
        // The shell in a frame of another page that may embed it: this ticket is not for that one, and is used up.
        server.send(redeem(&ticket, &["http://localhost:3000"])).await.refused(403, None);
        server.send(redeem(&ticket, &[EMBEDDER])).await.refused(401, None);
        for origins in [&[][..], &[EMBEDDER, "http://localhost:3000"]] {
            let ticket = host.ticket("acme", &["read"]).await;
            server.send(redeem(&ticket, origins)).await.refused(403, None);
        }
        for nonsense in ["", "twt_", &ticket.replace("twt_", "tw_"), host.token.secret.reveal()] {
            server.send(redeem(nonsense, &[EMBEDDER])).await.refused(401, None);
        }
    }
}

#[tokio::test]
async fn a_bearer_and_its_stream_end_within_five_seconds_after_the_token_was_revoked() {
    for server in Server::on_all().await {
        let host = Host::new(&server, &[Scope::Read], &[]).await;
        let bearer = host.bearer("acme", &["read"]).await;
        let unused = host.ticket("acme", &["read"]).await;
        get(&server, "/mine", &bearer).await;
        let mut stream = server.stream(with(request("GET", "/api/v1/events", None), &bearer)).await;
        server.turnwise.revoke_token(&host.token.token.prefix).await.unwrap();
        let ended = async {
            let closed = stream.heard("closed").await;
            assert!(closed["reason"].as_str().unwrap().contains("revoked"), "{closed}");
            while get(&server, "/mine", &bearer).await.status != 401 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(5), ended).await;
        in_time.unwrap_or_else(|_| panic!("{}: it goes on without its token", server.store));
        // No page for a person who could log in: a script asked.
        assert_eq!(get(&server, "/mine", &bearer).await.header("location"), "");
        server.send(redeem(&unused, &[EMBEDDER])).await.refused(401, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_over_after_a_minute_and_a_bearer_after_a_quarter_of_an_hour() {
    let (begun, real) = (tokio::time::Instant::now(), Clock::system().now());
    let store = MemoryStore::new(Options::default(), Clock::new(move || real.plus(begun.elapsed())));
    let operators = Arc::new(store.clone());
    let server = Server::of("memory", Turnwise::on(Arc::new(store)).with_operators(operators));
    let host = Host::new(&server, &[Scope::Read], &[]).await;
    let minute = Duration::from_secs(60);
    let late = host.ticket("acme", &["read"]).await;
    tokio::time::advance(minute).await;
    server.send(redeem(&late, &[EMBEDDER])).await.refused(401, None);
    let bearer = host.bearer("acme", &["read"]).await;
    tokio::time::advance(minute * 14).await;
    get(&server, "/api/v1/jobs", &bearer).await.expect(200);
    tokio::time::advance(minute).await;
    get(&server, "/api/v1/jobs", &bearer).await.refused(401, None);
    // The page around it gives another one, and the host decides again.
    let next = host.bearer("acme", &["read"]).await;
    get(&server, "/api/v1/jobs", &next).await.expect(200);
}

#[tokio::test]
async fn the_shell_is_the_same_for_everyone_and_needs_no_cookie() {
    let server = Server::on_memory().await;
    let host = Host::new(&server, &[Scope::Read], &[]).await;
    server.turnwise.submit(JobRequest::new("mail", &1).group("acme")).await.unwrap();
    let shell = server.get("/embed").await;
    assert_eq!(shell.status, 200, "it is read before there is a bearer");
    let bearer = host.bearer("acme", &["read"]).await;
    assert_eq!(get(&server, "/embed", &bearer).await.text, shell.text);
    assert!(
        !shell.text.contains("mail")
            && shell.text.contains(r#"data-origins="https://app.example http://localhost:3000""#)
    );
    // Its script keeps nothing, and tells the page around it nothing.
    let script = shell.text.split('"').find(|part| part.contains("embed.js")).unwrap().trim_start_matches('.');
    let script = server.get(script).await;
    assert_eq!((script.status, script.header("content-type")), (200, "text/javascript; charset=utf-8"));
    for word in
        ["cookie", "localStorage", "sessionStorage", "indexedDB", "postMessage(", "innerHTML", "parent.", "opener"]
    {
        let code = script.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        assert!(code.clone().all(|line| !line.contains(word)), "{word}");
    }
    let mut alone = Server::of(server.store, server.turnwise.clone());
    alone.serve(Service::new(server.turnwise.clone()));
    assert_eq!(alone.get("/embed").await.status, 404, "no origin was allowed");
}

#[tokio::test]
async fn tickets_are_redeemed_so_often_a_second_from_one_address() {
    let server = Server::on_memory().await;
    token(&server, &[Scope::Read], &[]).await;
    let guess = format!("twt_{}", "A".repeat(43));
    let tried = async { while server.send(redeem(&guess, &[EMBEDDER])).await.status != 429 {} };
    tokio::time::timeout(PATIENCE, tried).await.expect("guesses go on and on");
}
