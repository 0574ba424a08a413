//! A request for a page: who asks, for what, and the way from there to the API.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc, LazyLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use askama::Template;
use axum::{body::to_bytes, http::header};
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use turnwise::OnceKey;

use tokio::time::{Duration, Instant, timeout, timeout_at};
use turnwise_core::access::Target;

use crate::{
    call::{Query, Reply},
    limits::{ANSWER_TIME, KEPT_FOR, KEPT_FOR_WATCHERS, SHARED_FOR, WATCHED_WAIT},
    page::{
        errands::Errand,
        shared::{self, Place, Question},
    },
    problem::Problem,
    routes::{Route, routes},
    service::{Asker, Service, may_use},
};

/// A request for a page, whose caller was admitted.
pub(crate) struct Visit {
    pub(crate) service: Service,
    pub(crate) asker: Asker,
    /// The way from this page to `/`, as it stands before every link.
    pub(crate) root: String,
    /// What was asked for, without the first slash, with its parameters.
    pub(crate) here: String,
    /// The one name in the path, decoded; empty where it has none.
    pub(crate) name: String,
    /// What stands behind the question mark; names that a page does not know have no effect.
    pub(crate) query: Query,
    /// What a form has sent.
    pub(crate) form: Query,
    /// `dark` or `light`, if the person has chosen one.
    pub(crate) theme: Option<&'static str>,
    /// What the form that was sent does.
    pub(crate) errand: Option<&'static Errand>,
    /// Set where a live page is read again.
    pub(crate) again: Option<Again>,
}

/// The header with which a page is read again because it is watched.
pub(crate) const WATCHED_HEADER: &str = "x-turnwise-refresh";

/// A page that is read again because it is watched.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// Until then it waits for its turn to read.
    until: Instant,
    /// How long an answer of the API may take.
    patience: Duration,
    /// Whether it was not its turn by then: it shows what was read before, and is to come again.
    pub(crate) late: Arc<AtomicBool>,
}

impl Again {
    pub(crate) fn begin(patience: Duration) -> Self {
        Self { until: Instant::now() + WATCHED_WAIT, patience, late: Arc::default() }
    }
}

static ROUTES: LazyLock<HashMap<&'static str, Route>> =
    LazyLock::new(|| routes().into_iter().map(|route| (route.id, route)).collect());

/// What stands in a path or a parameter as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text as a part of a path or a parameter.
pub(crate) fn encoded(text: &str) -> String {
    // A path that is a dot, or two, would be taken for a way up.
    match text {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(text, PLAIN).to_string(),
    }
}

/// Parameters, as they stand behind a question mark; empty without any.
pub(crate) fn parameters<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let first = if text.is_empty() { '?' } else { '&' };
        // Writing to a string cannot fail.
        let _ = write!(text, "{first}{}={}", encoded(name), encoded(value));
    }
    text
}

impl Visit {
    /// For work that goes on when the page has been answered.
    pub(crate) fn without_page(service: Service, asker: Asker) -> Self {
        Self {
            service,
            asker,
            root: String::new(),
            here: String::new(),
            name: String::new(),
            query: Query::default(),
            form: Query::default(),
            theme: None,
            errand: None,
            again: None,
        }
    }

    /// A route of the API, by the name that the description has for it.
    pub(crate) fn route(id: &'static str) -> Result<&'static Route, Problem> {
        ROUTES.get(id).ok_or_else(|| Problem::not_found(format!("the API has no {id}")))
    }

    /// The address of this server, as a person types it: without the last slash.
    pub(crate) fn address(&self) -> String {
        let host = self.asker.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let scheme = if self.asker.secure { "https" } else { "http" };
        let prefix = self.root.strip_prefix('/').map_or("", |rest| rest.trim_end_matches('/'));
        let slash = if prefix.is_empty() { "" } else { "/" };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
        let host = if host.chars().all(plain) { host } else { "localhost" };
        format!("{scheme}://{host}{slash}{prefix}")
    }

    /// Whether this caller may use the route at all.
    pub(crate) fn may(&self, id: &'static str) -> bool {
        Self::route(id).is_ok_and(|route| may_use(&self.asker.caller, route).is_ok())
    }

    /// Whether this caller may use the route for this.
    pub(crate) fn may_to(&self, id: &'static str, target: Target<'_>) -> bool {
        let action = Self::route(id).ok().and_then(|route| route.action);
        self.may(id) && action.is_none_or(|action| self.asker.caller.grant.check(action, target).is_ok())
    }

    /// The API's answer as it is.
    pub(crate) async fn reply(
        &self,
        id: &'static str,
        name: &str,
        parameters: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<Reply, Problem> {
        self.service.ask_within(Self::route(id)?, &self.asker, name, parameters, body, None).await
    }

    /// What the API answers to a submit that is done once, under this key.
    pub(crate) async fn send_once<T: DeserializeOwned>(
        &self,
        id: &'static str,
        name: &str,
        body: String,
        key: OnceKey,
    ) -> Result<T, Problem> {
        let reply =
            self.service.ask_within(Self::route(id)?, &self.asker, name, Vec::new(), body.into(), Some(key)).await?;
        let json = to_bytes(reply.into_body(), usize::MAX).await;
        self.service.shared().forget().await;
        read(id, &json.map_err(|_| Problem::away("the answer could not be read"))?)
    }

    async fn ask(
        &self,
        id: &'static str,
        name: &str,
        parameters: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<Bytes, Problem> {
        let patience = self.again.as_ref().map_or(ANSWER_TIME, |again| again.patience);
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        let reply = timeout(patience, self.reply(id, name, parameters, body)).await.map_err(late)??;
        to_bytes(reply.into_body(), usize::MAX).await.map_err(|_| Problem::away("the answer could not be read"))
    }

    /// What the API answers. `name` is the one in its path.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        id: &'static str,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<T, Problem> {
        let pairs = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(id, &self.look(id, name, pairs.collect()).await?)
    }

    /// As [`Visit::ask`]; a page that is read again gets what another one has just got.
    async fn look(&self, id: &'static str, name: &str, parameters: Vec<(String, String)>) -> Result<Bytes, Problem> {
        let grant = json!(*self.asker.caller.grant).to_string();
        let question = Question { grant, route: id, name: name.to_owned(), parameters: parameters.clone() };
        let place = self.service.shared().place(question);
        if self.again.is_some() {
            return self.once_for_all(&place, SHARED_FOR, id, name, parameters).await;
        }
        let asked = Instant::now();
        let json = self.ask(id, name, parameters, Bytes::new()).await?;
        place.keep(asked, &json);
        Ok(json)
    }

    /// An answer that is young enough, asked for by one page for all that want it. A page that is read again does not wait for that for longer
    /// than for its turn: then it gets what was answered before.
    async fn once_for_all(
        &self,
        place: &Place,
        most: Duration,
        id: &'static str,
        name: &str,
        parameters: Vec<(String, String)>,
    ) -> Result<Bytes, Problem> {
        if let Some(json) = place.within(most) {
            return Ok(json);
        }
        let late = || {
            self.again.iter().for_each(|again| again.late.store(true, Ordering::Relaxed));
            place.last().ok_or_else(too_many)
        };
        let turn = place.asking.lock();
        let _turn = match &self.again {
            Some(again) => match timeout_at(again.until, turn).await {
                Ok(turn) => turn,
                Err(_) => return late(),
            },
            None => turn.await,
        };
        // Another page may have asked meanwhile.
        if let Some(json) = place.within(most) {
            return Ok(json);
        }
        if let Some(again) = &self.again
            && !self.service.shared().may_read(shared::cost(id), again.until).await
        {
            return late();
        }
        let asked = Instant::now();
        let json = self.ask(id, name, parameters, Bytes::new()).await?;
        place.keep(asked, &json);
        Ok(json)
    }

    /// What the API answered within the last ten seconds, which all pages share: it takes a while to find out. `None`: the caller may not
    /// know it, or has an answer of its own.
    pub(crate) async fn kept<T: DeserializeOwned>(&self, id: &'static str) -> Result<Option<T>, Problem> {
        self.kept_of(id, &[]).await
    }

    /// The same with parameters.
    pub(crate) async fn kept_of<T: DeserializeOwned>(
        &self,
        id: &'static str,
        asked: &[(&str, &str)],
    ) -> Result<Option<T>, Problem> {
        // Only what is the same for every caller that may see it at all.
        if !self.may(id) || self.asker.caller.grant.is_limited() {
            return Ok(None);
        }
        #[cfg(test)]
        if self.service.answers_instead() {
            return self.get(id, "", asked).await.map(Some);
        }
        // What pages ask for is a handful of questions: none of them has a caller's own text in it.
        let question = format!("{id}{}", parameters(asked.iter().copied()));
        let answer = {
            let mut all = self.service.kept().lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(question).or_default())
        };
        let most = if self.again.is_some() { KEPT_FOR_WATCHERS } else { KEPT_FOR };
        let pairs = asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(id, &self.once_for_all(&answer, most, id, "", pairs).await?).map(Some)
    }

    /// What the API answers to a change, or to a question with a body.
    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        id: &'static str,
        name: &str,
        body: Option<&Value>,
    ) -> Result<T, Problem> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let json = self.ask(id, name, Vec::new(), body).await?;
        self.service.shared().forget().await;
        read(id, &json)
    }

    /// The browser goes on to another page; `path` is without the first slash.
    pub(crate) fn go(&self, path: &str) -> Reply {
        Reply::see_other(format!("{}{path}", self.root))
    }
}

/// HTML for a browser.
pub(crate) fn render(template: &impl Template) -> Result<Reply, Problem> {
    let html = template.render().map_err(|error| {
        tracing::error!(%error, "a page could not be rendered");
        Problem::away("the page could not be rendered")
    })?;
    Ok(Reply::of("text/html; charset=utf-8", html))
}

/// For a page that was to be read again, and of which nothing is known from before.
fn too_many() -> Problem {
    Problem::busy("many pages are watched at this server, and take turns to be read again")
}

fn read<T: DeserializeOwned>(id: &str, json: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(json).map_err(|error| {
        tracing::error!(route = id, %error, "an answer of the API could not be read by a page");
        Problem::away("an answer of the API could not be read")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_and_parameters_mean_no_more_than_themselves() {
        assert_eq!(encoded("a/b?c#d&e=f%g h\"<>"), "a%2Fb%3Fc%23d%26e%3Df%25g%20h%22%3C%3E");
        assert_eq!((encoded("."), encoded("..")), ("%2E".to_owned(), "%2E%2E".to_owned()));
        assert_eq!(parameters([("state", "failed"), ("q", "a b")]), "?state=failed&q=a%20b");
        assert_eq!(parameters([]), "");
    }
}
