//! The pages of operators: queues, schedules, the audit log, tokens. A page says what the API says, and a form does what the API does.

mod support;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use support::{Answer, Server, request, with};
use turnwise::{
    GroupName,
    access::{Grant, Limits, NewAccess, Scope},
    secret::{Pointer, Secrets},
};

/// A person with a token, or without one where none is needed.
struct Person<'a> {
    server: &'a Server,
    secret: Option<String>,
}

impl<'a> Person<'a> {
    fn of(server: &'a Server) -> Self {
        Self { server, secret: None }
    }

    async fn with(server: &'a Server, scopes: &[Scope], limits: Limits) -> Self {
        let grant = Grant::new(scopes.iter().copied(), limits).unwrap();
        let created = server.turnwise.create_token(NewAccess::new("ann", grant).unwrap()).await.unwrap();
        Self { server, secret: Some(created.secret.reveal().to_owned()) }
    }

    async fn ask(&self, request: Request<Body>) -> Answer {
        self.server
            .send(match &self.secret {
                Some(secret) => with(request, secret),
                None => request,
            })
            .await
    }

    /// The page, which must be there.
    async fn open(&self, path: &str) -> String {
        let answer = self.ask(request("GET", path, None)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.text
    }

    /// What a person reads on it.
    async fn read(&self, path: &str) -> String {
        words(&self.open(path).await)
    }

    /// Sends a form, as a page of this server does.
    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut request = request("POST", path, None);
        let headers = request.headers_mut();
        headers.insert("origin", "http://127.0.0.1:8080".parse().unwrap());
        headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
        headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        *request.body_mut() = Body::from(pairs.join("&"));
        self.ask(request).await
    }

    /// Sends a form that is taken, and reads the page that it leads to: that page says what was done.
    async fn does(&self, path: &str, fields: &[(&str, &str)], said: &str) -> String {
        let answer = self.send(path, fields).await;
        assert_eq!(answer.status, 303, "{path}: {}", answer.text);
        let to = answer.header("location");
        let page = self.read(&format!("/{}", to.trim_start_matches("../").trim_start_matches("./"))).await;
        assert!(page.contains(said), "{path} leads to {to}: {page}");
        page
    }

    async fn json(&self, path: &str) -> Value {
        self.ask(request("GET", &format!("/api/v1/{path}"), None)).await.expect(200)
    }
}

/// The text of a page without its head, in one line.
fn words(html: &str) -> String {
    let body = html.split_once("<main").map_or(html, |(_, main)| main);
    let mut text = String::new();
    for part in body.split('<') {
        let part = part.split_once('>').map_or("", |(_, text)| text);
        text.push_str(part);
        text.push(' ');
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    [
        ("&#38;", "&"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(text, |text, (code, sign)| text.replace(code, sign))
}

/// The element of a page that begins with this, to its end.
#[track_caller]
fn part<'a>(page: &'a str, begins: &str, ends: &str) -> &'a str {
    let from = page.find(begins).unwrap_or_else(|| panic!("no {begins} in {page}"));
    let to = page[from..].find(ends).unwrap_or_else(|| panic!("no {ends} after {begins}"));
    &page[from..from + to]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_shown_with_what_it_does_and_why_on_every_store() {
    for server in Server::on_all().await {
        let person = Person::of(&server);
        let empty = person.read("/queues").await;
        assert!(empty.contains("No queue has jobs or settings"), "{empty}");
        assert!(empty.contains("turnwise enqueue noop --queue mail --server http://127.0.0.1:8080"), "{empty}");
        for _ in 0..3 {
            server.submit(json!({"task": "send", "queue": "mail"})).await;
        }
        server.submit(json!({"task": "send", "queue": "mail", "in": "1h"})).await;
        person.does("/queues/mail/pause", &[("reason", "lunch"), ("back", "queues/mail")], "The queue is paused").await;
        assert_eq!(person.json("queues/mail").await["paused"]["reason"], "lunch");
        let list = person.open("/queues").await;
        let row = part(&list, "data-key=\"queue mail\"", "</tr>");
        assert!(row.contains(r#"<span class="state paused">paused</span>"#), "{row}");
        assert!(words(row).contains("paused now: lunch") || words(row).contains("ago: lunch"), "{row}");
        let page = person.open("/queues/mail").await;
        let read = words(&page);
        assert!(read.contains("Queue mail paused") && read.contains(": lunch"), "{read}");
        assert!(read.contains("4 waiting 0 scheduled 0 running 0 stuck"), "{read}");
        assert!(read.contains("Throughput Jobs that ended") && read.contains("How long jobs waited"), "{read}");
        assert!(!read.contains("– oldest wait"), "three of them are due: {read}");
        assert!(page.contains(r#"href="../api/v1/queues/mail""#), "the same as JSON");
        person.does("/queues/mail/resume", &[("back", "queues/mail")], "The queue goes on").await;
        assert_eq!(person.json("queues/mail").await["state"], "active");
        // What never was is not there, and says how it would be.
        let none = person.ask(request("GET", "/queues/mial", None)).await;
        assert_eq!(none.status, 404);
        assert!(words(&none.text).contains("queue \"mial\" has no jobs and no settings"), "{}", none.text);
    }
}

#[tokio::test]
async fn the_settings_of_a_queue_are_changed_in_its_line_and_on_its_page() {
    let server = Server::on_memory().await;
    let person = Person::of(&server);
    server.submit(json!({"task": "send", "queue": "a/b c"})).await;
    let list = person.open("/queues").await;
    assert!(list.contains(r#"action="./queues/a%2Fb%20c/set""#), "{list}");
    person.does("/queues/a%2Fb%20c/set", &[("concurrency", "4"), ("back", "queues")], "settings are changed").await;
    assert_eq!(person.json("queues/a%2Fb%20c").await["concurrency"], "4");
    let all = [
        ("concurrency", "serial"),
        ("per_node", "1"),
        ("rate", "10/1m"),
        ("weight", "2.5"),
        ("scheme", "2,1"),
        ("fairness", "turns"),
        ("on_error", "skip"),
        ("schedule", "0 2 * * *"),
        ("zone", "Europe/Berlin"),
        ("after", "first\r\nsecond, third\r\n"),
        ("block", "Mon-Fri 09:00-17:00 Europe/Berlin\r\n"),
        ("back", "queues/a%2Fb%20c"),
    ];
    let page = person.does("/queues/a%2Fb%20c/set", &all, "settings are changed").await;
    let set = person.json("queues/a%2Fb%20c").await;
    assert_eq!(
        (&set["concurrency"], &set["per_node"], &set["rate"]),
        (&json!("serial"), &json!(1), &json!("10/1m,10"))
    );
    assert_eq!((&set["weight"], &set["scheme"], &set["fairness"]), (&json!(2.5), &json!("2,1"), &json!("turns")));
    assert_eq!((&set["on_error"], &set["after"]), (&json!("skip"), &json!(["first", "second, third"])));
    assert_eq!(set["schedule"], json!({"cron": "0 2 * * *", "zone": "Europe/Berlin"}));
    assert_eq!(set["block"], json!(["Mon-Fri 09:00-17:00 Europe/Berlin"]));
    assert!(page.contains("is due at 02:00 every day, by the clock of Europe/Berlin ( 0 2 * * * )"), "{page}");
    assert!(page.contains(" at 02:00:00 Europe/Berlin"), "its next times: {page}");
    assert!(page.contains("It starts nothing until these queues are finished: first , second, third"), "{page}");
    // A field that is emptied is back to its default, and one that is wrong changes nothing.
    person.does("/queues/a%2Fb%20c/set", &[("after", " "), ("rate", ""), ("schedule", "")], "are changed").await;
    let set = person.json("queues/a%2Fb%20c").await;
    assert_eq!((&set["after"], &set["rate"], &set["schedule"]), (&json!([]), &Value::Null, &Value::Null));
    let refused = person.send("/queues/a%2Fb%20c/set", &[("rate", "fast"), ("concurrency", "7")]).await;
    assert_eq!(refused.status, 422);
    assert!(words(&refused.text).contains("rate"), "{}", refused.text);
    assert_eq!(person.json("queues/a%2Fb%20c").await["concurrency"], "serial");
    person.does("/queues/a%2Fb%20c/seal", &[("back", "queues/a%2Fb%20c")], "sealed").await;
    assert!(person.json("queues/a%2Fb%20c").await["sealed"].is_string());
    person.does("/queues/a%2Fb%20c/unseal", &[("back", "queues/a%2Fb%20c")], "is open again").await;
    assert_eq!(person.json("queues/a%2Fb%20c").await["sealed"], Value::Null);
    person.does("/queues/a%2Fb%20c/reset", &[("back", "queues/a%2Fb%20c")], "default settings again").await;
    assert_eq!(person.json("queues/a%2Fb%20c").await["concurrency"], "unlimited");
}

#[tokio::test]
async fn queues_that_wait_for_one_another_are_a_picture_with_a_list() {
    let server = Server::on_memory().await;
    let person = Person::of(&server);
    for name in ["import", "index", "mail", "other", "<b>"] {
        server.submit(json!({"task": "t", "queue": name})).await;
    }
    assert!(person.read("/queues").await.contains("None waits for another"));
    for (name, after) in [("index", "import"), ("mail", "index"), ("<b>", "gone")] {
        let path = format!("/queues/{}/set", name.replace('<', "%3C").replace('>', "%3E"));
        person.does(&path, &[("after", after)], "are changed").await;
    }
    let list = person.open("/queues").await;
    let picture = part(&list, "Which queues wait for which", "</figure>");
    assert_eq!(picture.matches(r#"<path class="edge""#).count(), 9, "three arrows in each of three widths: {picture}");
    assert!(picture.contains("&lt;b&gt;") && !picture.contains("<b>"), "{picture}");
    let table = words(part(picture, "As a table", "</table>"));
    assert!(table.contains("index waiting, 1 unfinished import"), "{table}");
    assert!(table.contains("gone not listed here"), "{table}");
    // On its own page a queue has those that it is tied to, and no others.
    let page = person.open("/queues/index").await;
    let ties = part(&page, "What it waits for, and what waits for it", "</section>");
    assert!(ties.contains("node state-waiting here"), "{ties}");
    let table = words(part(ties, "As a table", "</table>"));
    assert!(table.contains("import active") && table.contains("mail waiting"), "{table}");
    assert!(!table.contains("gone") && !table.contains("other"), "{table}");
    assert!(words(ties).contains("Waits for import Awaited by mail"), "{}", words(ties));
    let alone = person.read("/queues/other").await;
    assert!(alone.contains("It waits for no queue, and none waits for it."), "{alone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_set_seen_run_paused_and_deleted_on_every_store() {
    for server in Server::on_all().await {
        let person = Person::of(&server);
        let empty = person.read("/schedules").await;
        assert!(empty.contains("There is no schedule"), "{empty}");
        assert!(
            empty.contains("turnwise schedule add nightly noop --cron '0 2 * * *' --zone Europe/Berlin"),
            "{empty}"
        );
        let new = [
            ("name", "nightly report"),
            ("task", "report"),
            ("cron", "30 2 * * Mon-Fri"),
            ("zone", "Europe/Berlin"),
            ("group", "acme"),
            ("queue", "slow"),
            ("priority", "2"),
            ("args", r#"{"pages": 12345678901234567890, "price": 1.50}"#),
        ];
        let page = person.does("/schedules", &new, "The schedule is set.").await;
        assert!(page.contains("at 02:30 from Monday to Friday , by the clock of Europe/Berlin"), "{page}");
        assert!(page.contains(" at 02:30:00 Europe/Berlin") && page.contains(":30:00 UTC"), "both clocks: {page}");
        assert!(page.contains(r#""pages": 12345678901234567890, "price": 1.50"#), "to the letter: {page}");
        assert!(page.contains("It has submitted no job that is kept."), "{page}");
        let set = person.json("schedules/nightly%20report").await;
        assert_eq!((&set["when"], &set["priority"]), (&json!("30 2 * * Mon-Fri Europe/Berlin"), &json!(2)));
        assert_eq!((&set["queue"], &set["group"]), (&json!("slow"), &json!("acme")));
        // One that is there is not overwritten by a new one, and what is wrong is said beside what was written.
        let refused = person.send("/schedules", &new).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(words(&refused.text).contains("there is a schedule \"nightly report\" already"), "{}", refused.text);
        for (field, value, about) in
            [("cron", "never", "never"), ("args", "{", "args: is not JSON"), ("task", "", "task")]
        {
            let mut wrong = new;
            wrong.iter_mut().filter(|(name, _)| *name == field).for_each(|pair| pair.1 = value);
            wrong[0].1 = "other";
            let refused = person.send("/schedules", &wrong).await;
            assert!((400..500).contains(&refused.status), "{field}: {}", refused.text);
            assert!(words(&refused.text).contains(about), "{field}: {}", refused.text);
            assert!(
                refused.text.contains(r#"name="queue" value="slow""#),
                "what was written is kept: {}",
                refused.text
            );
        }
        // It runs now, and its history has that job and no other of its task.
        server.submit(json!({"task": "report", "group": "acme", "queue": "slow"})).await;
        person.does("/schedules/nightly%20report/run", &[("back", "schedules")], "Its job is submitted once").await;
        let page = person.open("/schedules/nightly%20report").await;
        let runs = part(&page, "Its runs", "</section>");
        assert_eq!(runs.matches("<tr data-key=").count(), 1, "{}: {runs}", server.store);
        assert!(runs.contains(r#"<span class="state waiting">waiting</span>"#), "{runs}");
        let filter = "filter=schedule%3A%22nightly%20report%22%20task%3Areport%20group%3Aacme";
        assert!(page.contains(&format!("<h2><a href=\"../jobs?{filter}\">Its runs")), "{page}");
        let listed = person.json(&format!("jobs?{filter}")).await;
        assert_eq!(listed["jobs"][0]["schedule"], "nightly report", "{}", server.store);
        assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
        // It is paused, for a reason that people see, and goes on.
        let paused = [("reason", "year's end"), ("back", "schedules/nightly%20report")];
        let page = person.does("/schedules/nightly%20report/pause", &paused, "The schedule is paused.").await;
        assert!(page.contains(": year's end. Times that pass meanwhile are not made up for."), "{page}");
        let list = person.open("/schedules").await;
        let row = part(&list, "data-key=\"schedule nightly report\"", "</tr>");
        assert!(
            row.contains(r#"<span class="state paused">paused</span>"#) && words(row).contains("year's end"),
            "{row}"
        );
        let back = [("back", "schedules/nightly%20report")];
        person.does("/schedules/nightly%20report/resume", &back, "The schedule goes on.").await;
        assert_eq!(person.json("schedules/nightly%20report").await["paused"], false);
        // It is changed: its name stays.
        let mut change = new.to_vec();
        change.retain(|(name, _)| !matches!(*name, "cron" | "zone"));
        change.extend([("exists", "yes"), ("every", "10m"), ("overlap", "allow")]);
        let page = person.does("/schedules", &change, "The schedule is set.").await;
        assert!(page.contains("every 10m, at its multiples"), "{page}");
        assert_eq!(person.json("schedules/nightly%20report").await["overlap"], "allow");
        // The queue names it.
        let queue = person.read("/queues/slow").await;
        assert!(
            queue.contains("Schedules that submit to it") && queue.contains("nightly report active every 10m"),
            "{queue}"
        );
        person.does("/schedules/nightly%20report/remove", &[("back", "schedules")], "There is no schedule").await;
        assert_eq!(person.json("schedules").await["schedules"], json!([]));
    }
}

#[tokio::test]
async fn a_secret_of_a_schedule_is_not_sent_to_the_browser_and_its_mark_is_not_stored() {
    let server = Server::on_memory().await;
    let mut secrets = Secrets::default();
    secrets.add("report".parse().unwrap(), Pointer::new("/password").unwrap());
    server.turnwise.operators().unwrap().note_secrets(secrets).await.unwrap();
    let person = Person::of(&server);
    let new = [("name", "nightly"), ("task", "report"), ("every", "1d"), ("args", r#"{"password":"hunter2","n":1}"#)];
    person.does("/schedules", &new, "The schedule is set.").await;
    let page = person.open("/schedules/nightly").await;
    assert!(page.contains("[secret]") && !page.contains("hunter2"), "{page}");
    let shown = [
        ("name", "nightly"),
        ("exists", "yes"),
        ("task", "report"),
        ("every", "2d"),
        ("args", r#"{"password": "[secret]"}"#),
    ];
    let refused = person.send("/schedules", &shown).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(words(&refused.text).contains("write the value in its place"), "{}", refused.text);
    assert_eq!(person.json("schedules/nightly").await["when"], "every 1d");
    let stored = server.turnwise.schedules().await.unwrap().into_values().next().unwrap();
    assert!(stored.args.as_str().contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_is_read_in_pages_and_by_what_it_is_about_on_every_store() {
    for server in Server::on_all().await {
        let person = Person::of(&server);
        let empty = person.read("/audit").await;
        assert!(empty.contains("No operator has changed anything yet"), "{empty}");
        server.submit(json!({"task": "t", "queue": "mail"})).await;
        for number in 1..=60 {
            let number = number.to_string();
            let fields = [("concurrency", number.as_str()), ("back", "queues")];
            assert_eq!(person.send("/queues/mail/set", &fields).await.status, 303);
        }
        person.send("/queues/mail/pause", &[("reason", "<b>lunch</b>")]).await;
        let first = person.open("/audit").await;
        assert_eq!(first.matches("<tr data-key=").count(), 50);
        let read = words(&first);
        assert!(read.contains("pause queue:mail all paused: – → reason") && read.contains("<b>lunch</b>"), "{read}");
        assert!(!first.contains("<b>lunch"), "a text stays a text");
        assert!(read.contains("set queue:mail all concurrency: 59 → 60"), "{read}");
        let older = part(&first, "audit?cursor=", "\"");
        let second = person.open(&format!("/{older}")).await;
        assert_eq!(second.matches("<tr data-key=").count(), 11, "{second}");
        assert!(words(&second).contains("Newest"), "{second}");
        // By what, by whom, and when.
        let about = person.open("/audit?target=queue%3Amail&since=1h").await;
        assert_eq!(about.matches("<tr data-key=").count(), 50);
        for nothing in ["target=queue%3Aother", "until=1h", "actor=cli%3Abob"] {
            let read = person.read(&format!("/audit?{nothing}")).await;
            assert!(read.contains("No change is like this."), "{nothing}: {read}");
        }
        let wrong = person.read("/audit?target=nonsense").await;
        assert!(wrong.contains("must be job:ID, queue:NAME"), "{wrong}");
        let cli = person.read("/audit?target=queue%3Amail").await;
        assert!(cli.contains("turnwise audit --limit 50 --target queue:mail --server http://127.0.0.1:8080"), "{cli}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_created_shown_once_and_revoked_on_every_store() {
    for server in Server::on_all().await {
        let mut person = Person::of(&server);
        let empty = person.read("/tokens").await;
        assert!(empty.contains("There is no token") && empty.contains("turnwise token create --name"), "{empty}");
        let first = person.send("/tokens", &[("name", "ann"), ("scopes", "admin")]).await;
        assert_eq!((first.status, first.header("location"), first.header("set-cookie")), (200, "", ""));
        assert_eq!(first.header("cache-control"), "no-store");
        assert!(words(&first.text).contains("It is the first token that works here"), "{}", first.text);
        assert!(first.text.contains("data-still"), "the page that is read again would not have it");
        let secret = |answer: &Answer| part(&answer.text, "tw_", "<").to_owned();
        let admin = secret(&first);
        person.secret = Some(admin.clone());
        let new = [
            ("name", "tenant"),
            ("scopes", "read"),
            ("scopes", "submit"),
            ("groups", "acme\r\nbeta, inc\r\n"),
            ("expires", "30d"),
            ("rate", "7"),
        ];
        let created = person.send("/tokens", &new).await;
        assert_eq!(created.status, 200, "{}", created.text);
        let tenant = secret(&created);
        assert!(tenant.len() > 40 && tenant != admin);
        assert!(words(&created.text).contains("groups acme, beta, inc"), "{}", created.text);
        let works = server.send(with(request("GET", "/api/v1/jobs", None), &tenant)).await;
        works.expect(200);
        // Nowhere else.
        let (list, audit) = (person.open("/tokens").await, person.open("/audit").await);
        for page in [&list, &audit] {
            assert!(!page.contains(&tenant) && !page.contains(&admin), "{page}");
        }
        assert!(words(&audit).contains("create token:"), "{audit}");
        let row = words(part(&list, ">tenant", "</tr>"));
        assert!(row.contains("active tw_") && row.contains("submit, read groups acme, beta, inc"), "{row}");
        assert!(row.contains("7 submits a second") && row.contains("in 29 d"), "{row}");
        assert!(words(&list).contains("ann (yours)"), "{list}");
        // What is wrong is said beside what was written.
        let wrong = person.send("/tokens", &[("name", "x"), ("queues", "mail")]).await;
        assert_eq!(wrong.status, 422, "{}", wrong.text);
        assert!(words(&wrong.text).contains("scopes: must name at least one"), "{}", wrong.text);
        assert!(wrong.text.contains(">mail</textarea>") && wrong.text.contains("data-still"), "{}", wrong.text);
        // Taken back.
        let tokens = person.json("tokens").await;
        let id =
            tokens["tokens"].as_array().unwrap().iter().find(|token| token["name"] == "tenant").unwrap()["id"].clone();
        let id = id.as_str().unwrap();
        let page = person.does(&format!("/tokens/{id}/revoke"), &[("back", "tokens")], "The token is revoked").await;
        assert!(page.contains("tenant revoked"), "{page}");
        let state = person.json("tokens").await["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["id"] == id)
            .unwrap()["state"]
            .clone();
        assert_eq!(state, "revoked");
    }
}

#[tokio::test]
async fn a_page_offers_and_does_no_more_than_the_token_may() {
    let server = Server::on_memory().await;
    for queue in ["mail", "other"] {
        server
            .submit(json!({"task": "t", "queue": queue, "group": if queue == "mail" { "acme" } else { "beta" }}))
            .await;
    }
    let setup = Person::of(&server);
    for (name, group) in [("hers", "acme"), ("another's", "beta")] {
        let new = [("name", name), ("task", "t"), ("every", "1h"), ("group", group), ("queue", "mail")];
        setup.does("/schedules", &new, "is set").await;
    }
    let reader = Person::with(&server, &[Scope::Read], Limits::default()).await;
    for path in ["/queues", "/queues/mail", "/schedules", "/schedules/hers"] {
        let page = reader.open(path).await;
        let main = part(&page, "<main", "</main>");
        assert!(!main.contains("<form method=\"post\""), "{path} has a form: {main}");
        let nav = part(&page, "<nav", "</nav>");
        assert!(nav.contains("Queues") && nav.contains("Schedules"), "{nav}");
        assert!(!nav.contains("Audit") && !nav.contains("Tokens"), "{nav}");
        assert!(page.contains("Log out"), "{path}");
    }
    for (path, scope) in [("/audit", "admin"), ("/tokens", "admin")] {
        let refused = reader.ask(request("GET", path, None)).await;
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.text.contains("Log out") && part(&refused.text, "<nav", "</nav>").contains("Queues"), "{path}");
        assert!(
            words(&refused.text).contains(&format!("this needs a token with the scope {scope}")),
            "{}",
            refused.text
        );
    }
    for (path, fields) in [
        ("/queues/mail/pause", &[][..]),
        ("/queues/mail/set", &[("concurrency", "1")]),
        ("/schedules", &[("name", "x"), ("task", "t"), ("every", "1h")]),
        ("/schedules/hers/run", &[]),
        ("/schedules/hers/remove", &[]),
        ("/tokens", &[("name", "x"), ("scopes", "read")]),
    ] {
        assert_eq!(reader.send(path, fields).await.status, 403, "{path}");
    }
    let operator = Person::with(&server, &[Scope::Operate], Limits::default()).await;
    let page = operator.open("/queues/mail").await;
    assert!(page.contains("/pause\"") && page.contains("/seal\""), "{page}");
    assert!(!page.contains("/set\"") && !page.contains("/reset\""), "an operator pauses, an admin sets: {page}");
    let admin = Person::with(&server, &[Scope::Admin], Limits::default()).await;
    assert!(admin.open("/queues/mail").await.contains("/reset\""));
    // An administrator of one group has its own and may not stop what is others', too.
    let groups = Some([GroupName::new("acme").unwrap()].into());
    let tenant = Person::with(&server, &[Scope::Admin], Limits { groups, ..Limits::default() }).await;
    let list = tenant.open("/queues").await;
    assert!(list.contains("data-key=\"queue mail\"") && !list.contains("data-key=\"queue other\""), "{list}");
    assert_eq!(tenant.ask(request("GET", "/queues/other", None)).await.status, 404);
    let page = tenant.open("/queues/mail").await;
    assert!(!part(&page, "<main", "</main>").contains("<form method=\"post\""), "{page}");
    assert!(words(&page).contains("1 waiting"), "{page}");
    let schedules = tenant.read("/schedules").await;
    assert!(schedules.contains("hers") && !schedules.contains("another's"), "{schedules}");
    assert_eq!(tenant.ask(request("GET", "/schedules/another's", None)).await.status, 404);
    for path in ["/audit", "/tokens"] {
        let refused = tenant.ask(request("GET", path, None)).await;
        assert_eq!(refused.status, 403, "{path}");
        assert!(words(&refused.text).contains("not limited to queues, groups or tasks"), "{}", refused.text);
    }
}

#[tokio::test]
async fn no_form_is_taken_from_another_site() {
    let server = Server::on_memory().await;
    server.submit(json!({"task": "t", "queue": "mail"})).await;
    for path in ["/queues/mail/pause", "/queues/mail/set", "/schedules", "/tokens"] {
        let mut request = request("POST", path, None);
        let headers = request.headers_mut();
        headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
        headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
        *request.body_mut() = Body::from("name=x&scopes=admin&task=t&every=1h&concurrency=1");
        assert_eq!(server.send(request).await.status, 403, "{path}");
    }
    let person = Person::of(&server);
    assert_eq!(person.json("queues/mail").await["state"], "active");
    assert_eq!(person.json("schedules").await["schedules"], json!([]));
    assert_eq!(person.json("tokens").await["tokens"], json!([]));
}
