//! What holds of every page, whatever it shows: what browsers are told about it, and who may have it change something. The pages come from their
//! own table, so a new one is tried too.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    http::{Request, Response, StatusCode},
};
use tower::ServiceExt;
use turnwise::{
    JobRequest, Turnwise,
    access::{Grant, NewAccess},
};
use turnwise_store::{
    MemoryStore, OperatorStore, Result, Store,
    delegate::{Call, Delegate, DelegateOperators},
};

use super::pages;
use crate::{Origins, Service, routes::Verb};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const EMBEDDERS: &str = "https://app.example http://localhost:3000";

/// Notes the verbs that were called.
#[derive(Debug, Default)]
struct Noted {
    store: MemoryStore,
    verbs: Mutex<BTreeSet<&'static str>>,
}

#[async_trait]
impl Delegate for Noted {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        _asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        self.verbs.lock().unwrap().insert(verb);
        call.await
    }
}

impl DelegateOperators for Noted {
    fn operators(&self) -> Arc<dyn OperatorStore> {
        Arc::new(self.store.clone())
    }
}

struct Scene {
    noted: Arc<Noted>,
    turnwise: Turnwise,
    router: Router,
    /// A job that waits.
    job: String,
}

impl Scene {
    async fn new() -> Self {
        let noted = Arc::new(Noted::default());
        let turnwise = Turnwise::on(noted.clone()).with_operators(noted.clone());
        let job = turnwise.submit(JobRequest::new("mail", &1).group("acme")).await.unwrap().to_string();
        let service = Service::new(turnwise.clone());
        let mut origins = Origins::default();
        EMBEDDERS.split(' ').for_each(|origin| origins.embed(origin).unwrap());
        service.may_be_embedded_by(origins);
        let router = service.router();
        Self { noted, turnwise, router, job }
    }

    fn path(&self, path: &str) -> String {
        path.replace("{id}", &self.job).replace("{name}", "acme").replace("{number}", "1")
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let form = request.header("content-type", "application/x-www-form-urlencoded").body(Body::from("a=b")).unwrap();
        self.router.clone().oneshot(form).await.unwrap()
    }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_answer_tells_browsers_that_it_is_alone_and_pulls_in_nothing() {
    let scene = Scene::new().await;
    let others = ["/api/v1/jobs", "/api/v1/nonsense", "/docs", "/livez", "/nonsense", "/jobs/nonsense"];
    let pages = pages();
    let paths = pages.iter().map(|page| page.path).chain(others);
    let mut tried = 0;
    for path in paths.filter(|path| *path != "/embed") {
        for method in ["GET", "POST"] {
            let response = scene.send(method, &scene.path(path), &[]).await;
            let told = format!("{method} {path}: {}", response.status());
            assert_eq!(header(&response, "content-security-policy"), POLICY, "{told}");
            assert_eq!(header(&response, "x-frame-options"), "DENY", "{told}");
            assert_eq!(header(&response, "x-content-type-options"), "nosniff", "{told}");
            assert_eq!(header(&response, "referrer-policy"), "no-referrer", "{told}");
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

#[tokio::test]
async fn the_shell_alone_may_be_embedded_and_by_pages_of_these_origins_alone() {
    let scene = Scene::new().await;
    for (query, origins) in [
        ("", EMBEDDERS),
        ("?origin=https://app.example", "https://app.example"),
        (
            "?origin=http%3A%2F%2Flocalhost%3A3000&origin=https://app.example",
            "http://localhost:3000 https://app.example",
        ),
    ] {
        let shell = scene.send("GET", &format!("/embed{query}"), &[]).await;
        assert_eq!(shell.status(), StatusCode::OK, "{query}");
        let policy = POLICY.replace("'none'; require", &format!("{origins}; require"));
        assert_eq!(header(&shell, "content-security-policy"), policy);
        assert_eq!(header(&shell, "x-frame-options"), "", "it knows no origins");
        assert_eq!(header(&shell, "x-content-type-options"), "nosniff");
        assert_eq!(header(&shell, "referrer-policy"), "no-referrer");
        assert_eq!(header(&shell, "set-cookie"), "");
    }
    for query in
        ["?origin=https://evil.example", "?origin=https://app.example&origin=*", "?origin=https://app.example;"]
    {
        let refused = scene.send("GET", &format!("/embed{query}"), &[]).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{query}");
        assert_eq!(header(&refused, "content-security-policy"), POLICY, "{query}");
    }
    let alone = Service::new(scene.turnwise.clone()).router();
    let scene = Scene { router: alone, ..scene };
    let none = scene.send("GET", "/embed", &[]).await;
    assert_eq!((none.status(), header(&none, "content-security-policy")), (StatusCode::NOT_FOUND, POLICY));
}

/// What a browser says of a form, and whether it is one of this server's own.
const SENT: [(&[(&str, &str)], bool); 9] = [
    (&[], false),
    (&[("origin", "https://evil.example")], false),
    (&[("origin", "http://127.0.0.1:9999")], false),
    (&[("origin", "null")], false),
    (&[("sec-fetch-site", "cross-site")], false),
    (&[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:8080")], false),
    (&[("sec-fetch-site", "none")], false),
    (&[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8080")], true),
    // As browsers send the forms of these pages, whose Referrer-Policy is no-referrer.
    (&[("sec-fetch-site", "same-origin"), ("origin", "null")], true),
];

#[tokio::test]
async fn a_form_counts_if_a_page_of_this_server_sent_it_with_a_token_and_without_any() {
    let scene = Scene::new().await;
    let forms: Vec<_> = pages().into_iter().filter(|page| page.verb == Verb::Post).map(|page| page.path).collect();
    assert!(forms.len() > 15, "{forms:?}");
    let mut bearer = None;
    for with_token in [false, true] {
        if with_token {
            let access = NewAccess::new("admin", Grant::unlimited()).unwrap();
            bearer = Some(format!("Bearer {}", scene.turnwise.create_token(access).await.unwrap().secret.reveal()));
        }
        for path in &forms {
            for (headers, own) in SENT {
                let bearer = bearer.as_deref().map(|bearer| ("authorization", bearer));
                let all: Vec<_> = headers.iter().copied().chain(bearer).collect();
                let status = scene.send("POST", &scene.path(path), &all).await.status();
                assert_eq!(status != StatusCode::FORBIDDEN, own, "POST {path} {all:?}: {status}");
            }
        }
    }
}

/// Verbs that change what people see. (That totals are asked for, and when a token was last used, is written by looks, too.)
const CHANGES: [&str; 12] = [
    "enqueue",
    "submit_once",
    "control",
    "remember",
    "prune",
    "prune_audited",
    "create_token",
    "revoke_token",
    "log_in",
    "log_out",
    "make_ticket",
    "redeem_ticket",
];

#[tokio::test]
async fn no_look_at_a_page_changes_anything() {
    let scene = Scene::new().await;
    scene.noted.verbs.lock().unwrap().clear();
    for page in pages() {
        for query in ["", "?do=cancel&weight=3&done=cancelJob&next=jobs&name=x&priority=1"] {
            // Paths that only forms are sent to, too.
            scene.send("GET", &format!("{}{query}", scene.path(page.path)), &[]).await;
        }
    }
    let verbs = scene.noted.verbs.lock().unwrap().clone();
    assert!(verbs.contains("list_jobs"), "the pages were not asked: {verbs:?}");
    let changes: Vec<_> = CHANGES.iter().filter(|verb| verbs.contains(*verb)).collect();
    assert!(changes.is_empty(), "{changes:?}");
}
