//! The page of a tenant: its own jobs, all of them, and of others' nothing but numbers.

mod support;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use support::{Answer, PATIENCE, Server, request, with};
use turnwise::{
    Config, Ctx, GroupName, JobRequest, NodeName, Registry,
    access::{Grant, Limits, NewAccess, Scope},
    task,
};
use turnwise_store::operators::LOOKS;

/// The secret of a token for these groups.
async fn tenant(server: &Server, scopes: &[Scope], groups: &[&str]) -> String {
    let groups = groups.iter().map(|group| GroupName::new(group).unwrap()).collect();
    let limits = Limits { groups: Some(groups), ..Limits::default() };
    let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
    let created = server.turnwise.create_token(NewAccess::new("tenant", grant).unwrap()).await.unwrap();
    created.secret.reveal().to_owned()
}

/// As a browser that is logged in with this cookie asks for a page.
async fn open(server: &Server, path: &str, cookie: &str) -> Answer {
    let mut request = request("GET", path, None);
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    server.send(request).await
}

/// As a form of a page of this server is sent.
fn form(path: &str, text: &str) -> Request<Body> {
    let mut request = request("POST", path, None);
    let headers = request.headers_mut();
    headers.insert("origin", "http://127.0.0.1:8080".parse().unwrap());
    headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
    headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    *request.body_mut() = Body::from(text.to_owned());
    request
}

async fn page(server: &Server, path: &str, secret: &str) -> String {
    let answer = server.send(with(request("GET", path, None), secret)).await;
    assert_eq!(answer.status, 200, "{}: {}", server.store, answer.text);
    answer.text
}

/// The part of a page under this heading.
fn card<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}"));
    &page[from..from + page[from..].find("</section>").unwrap()]
}

#[task("tell", register = false)]
async fn tell(until: Value, ctx: Ctx) -> String {
    ctx.progress(3, 10, "pages");
    ctx.log("page 3 is read");
    // Until the test has looked.
    ctx.cancelled().await;
    until.to_string()
}

#[tokio::test]
async fn a_tenant_lands_on_its_jobs_and_is_offered_what_it_may_see() {
    let server = Server::on_memory().await;
    let secret = tenant(&server, &[Scope::Read], &["acme"]).await;
    let logged_in = server.send(form("/login", &format!("token={secret}&next="))).await;
    assert_eq!((logged_in.status, logged_in.header("location")), (303, "./"), "{}", logged_in.text);
    let cookie = logged_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let first = open(&server, "/", &cookie).await;
    assert_eq!((first.status, first.header("location")), (303, "./mine"));
    let mine = open(&server, "/mine", &cookie).await;
    assert_eq!(mine.status, 200);
    let nav = &mine.text[mine.text.find("<nav").unwrap()..mine.text.find("</nav>").unwrap()];
    assert!(nav.contains(r#"href="./mine" aria-current="page""#), "{nav}");
    for page in ["nodes", "audit", "tokens"] {
        assert!(!nav.contains(&format!("\"./{page}\"")), "{nav}");
    }
    assert!(!nav.contains(r#"href="./""#), "{nav}");
    // The page of the installation is there for a token without limits, and its own is not.
    let grant = Grant::new([Scope::Read], Limits::default()).unwrap();
    let reader = server.turnwise.create_token(NewAccess::new("ann", grant).unwrap()).await.unwrap();
    let overview = page(&server, "/", reader.secret.reveal()).await;
    assert!(overview.contains("What needs attention") && !overview.contains("My jobs"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_tenant_sees_all_its_jobs_however_loud_another_is() {
    for server in Server::on_all().await {
        let submit = async |task: &str, group: &str| {
            server.turnwise.submit(JobRequest::new(task, &0).group(group)).await.unwrap().to_string()
        };
        let (ended, waiting) = (submit("invoice", "quiet").await, submit("report", "quiet").await);
        server.turnwise.cancel(ended.parse().unwrap()).await.unwrap();
        // More than one look of a list sees, of both tables.
        let loud = (0..LOOKS + 100).map(|n| JobRequest::new("flood", &n).group("loud"));
        server.turnwise.submit_all(loud).await.unwrap();
        let secret = tenant(&server, &[Scope::Read], &["quiet"]).await;
        let shown = page(&server, "/mine", &secret).await;
        let of = |id| card(&shown, id);
        assert!(of("waiting").contains(&waiting) && of("waiting").contains(r#"class="count">1<"#), "{}", server.store);
        assert!(of("ended").contains(&ended) && of("ended").contains("cancelled"), "{}", of("ended"));
        assert!(!shown.contains("Looked back"), "{}: the lists by group were not served by an index", server.store);
        for other in ["flood", "loud"] {
            assert!(!shown.contains(other), "{}: {other} is not this tenant's to know", server.store);
        }
        // A token of several groups sees whose each job is; an address can name one of them, and no other.
        let both = tenant(&server, &[Scope::Read], &["quiet", "loud"]).await;
        let shown = page(&server, "/mine", &both).await;
        assert!(card(&shown, "waiting").contains(r#"class="count">20+<"#), "{}", card(&shown, "waiting"));
        let one = page(&server, "/mine?group=quiet", &both).await;
        assert!(one.contains(&waiting) && !one.contains("flood"), "{}", server.store);
        let none = page(&server, "/mine?group=loud", &secret).await;
        assert!(none.contains("There are no jobs of yours yet") && !none.contains("flood"), "{}", server.store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_is_shown_with_its_progress_and_log_and_is_cancelled_from_there() {
    for server in Server::on_all().await {
        let mut registry = Registry::new();
        registry.register(tell).unwrap();
        let config = Config { core_pool_size: 1, ..Config::new(NodeName::new("node").unwrap()) };
        let node = server.turnwise.executor_with(config).registry(registry).build().unwrap();
        node.start().await.unwrap();
        let secret = tenant(&server, &[Scope::Operate], &["acme"]).await;
        let submit = async |n: u8| server.turnwise.submit(JobRequest::new("tell", &n).group("acme")).await.unwrap();
        let running = submit(1).await.to_string();
        let shown = async {
            loop {
                let shown = page(&server, "/mine", &secret).await;
                if shown.contains("page 3 is read") && shown.contains("<progress") {
                    return shown;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let shown = tokio::time::timeout(PATIENCE, shown).await.expect("its log and its progress are shown");
        let card_of = card(&shown, "running");
        assert!(card_of.contains(r#"<progress value="3" max="10""#) && card_of.contains("pages"), "{card_of}");
        let waiting = submit(2).await.to_string();
        let act = async |path: &str, text: &str| {
            let answer = server.send(with(form(path, &format!("back=mine&{text}")), &secret)).await;
            assert_eq!(answer.status, 303, "{}: {path}: {}", server.store, answer.text);
            let to = answer.header("location").rsplit('/').next().unwrap().to_owned();
            page(&server, &format!("/{to}"), &secret).await
        };
        let changed = act(&format!("/jobs/{waiting}/change"), "priority=1").await;
        assert!(changed.contains("The job is changed."), "{changed}");
        assert_eq!(server.turnwise.job(waiting.parse().unwrap()).await.unwrap().priority.get(), 1);
        act(&format!("/jobs/{running}/cancel"), "").await;
        let ended = server.turnwise.wait(running.parse().unwrap()).await.unwrap();
        assert_eq!(ended.state.to_string(), "cancelled", "{}", server.store);
        // One that may only look is offered nothing to do, and what it sends all the same is refused.
        let reader = tenant(&server, &[Scope::Read], &["acme"]).await;
        let shown = page(&server, "/mine", &reader).await;
        assert!(shown.contains(&waiting) && !shown.contains("class=\"errand\""), "{shown}");
        let refused = server.send(with(form(&format!("/jobs/{waiting}/cancel"), ""), &reader)).await;
        assert_eq!(refused.status, 403);
        // What is another group's is not there.
        let other = tenant(&server, &[Scope::Operate], &["other"]).await;
        assert!(!page(&server, "/mine", &other).await.contains(&waiting));
        assert_eq!(server.send(with(form(&format!("/jobs/{waiting}/cancel"), ""), &other)).await.status, 404);
        server.turnwise.cancel(waiting.parse().unwrap()).await.unwrap();
        node.stop().await;
    }
}

#[tokio::test]
async fn what_waits_says_for_what_and_names_no_job_of_others() {
    let server = Server::on_memory().await;
    let before = server.submit(json!({"task": "secret-task", "group": "other", "in": "1h"})).await;
    let id = before.parse().unwrap();
    let after = JobRequest::new("mine-task", &0).group("acme").after_jobs([id]);
    server.turnwise.submit(after).await.unwrap();
    let secret = tenant(&server, &[Scope::Read], &["acme"]).await;
    let shown = page(&server, "/mine", &secret).await;
    let waiting = card(&shown, "waiting");
    assert!(
        waiting.contains("mine-task") && waiting.contains("waits for 1 of the jobs that it comes after"),
        "{waiting}"
    );
    assert!(!shown.contains(&before) && !shown.contains("secret-task"), "{shown}");
}
