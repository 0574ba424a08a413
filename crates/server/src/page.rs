//! The pages for people, at `/`.
//!
//! A page reads through the API's own routes, asked within this process ([`visit`]), and renders what they answer as HTML
//! (`templates/`). What a person changes there is a form, sent to a route of the page, which asks the API in turn
//! ([`errands`]). So a page shows and does no more than its caller's token may, and each change is in the audit log.
//!
//! [`visit`] a request for a page → [`frame`] what every page has around it → the pages: [`overview`], … →
//! [`errands`] what forms do → [`login`] → [`assets`] style and scripts. [`shown`] has what several pages show; [`recipe`] says how to have
//! the same without the page.

mod assets;
mod attention;
mod audit;
pub(crate) mod decide;
mod embed;
mod errands;
pub(crate) mod errors;
mod fairness;
mod figure;
mod frame;
#[cfg(test)]
mod hostile;
mod indent;
mod job;
mod jobs;
mod login;
mod mine;
mod nodes;
mod numbers;
mod overview;
#[cfg(test)]
mod policy;
mod queue;
mod queues;
mod schedule;
mod schedules;
mod recipe;
mod resubmit;
mod shared;
mod shown;
mod suggest;
mod tasks;
mod tokens;
mod visit;
mod window;

use std::{pin::Pin, sync::atomic::Ordering};

use askama::Template;
use axum::{
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{HeaderMap, StatusCode, header},
};
use tokio::time::timeout;
use turnwise::Timestamp;

use crate::{
    access::Caller,
    call::{Query, Reply, text},
    limits::{ANSWER_TIME, PAGE_TIME, WATCHED_WAIT},
    login as logins,
    problem::Problem,
    routes::Verb,
    service::{Asker, Service, seated},
};

use self::{
    errands::{ERRANDS, Errand},
    frame::Frame,
    shown::Shown,
    visit::{Again, render},
};

#[cfg(test)]
pub(crate) use hostile::Instead;
pub(crate) use shared::{Place, Shared as SharedAnswers};
pub(crate) use visit::{Visit, WATCHED_HEADER};

type Answer = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// Something that a person's browser may ask for.
pub struct Page {
    pub verb: Verb,
    /// Where; a name in braces is any text.
    pub path: &'static str,
    /// Whether callers must show who they are.
    pub(crate) open: bool,
    /// Whether it may take longer than people like to wait: it looks at the backlog.
    pub(crate) slow: bool,
    /// What a form that is sent here does.
    pub(crate) errand: Option<&'static Errand>,
    pub(crate) handler: fn(Visit) -> Answer,
}

impl Page {
    /// The route of the API that is asked when a form is sent here, by the name that the description has for it.
    pub fn errand(&self) -> Option<&'static str> {
        self.errand.map(|errand| errand.route)
    }

    /// Whether it looks at all jobs that wait, and so may take longer than others.
    pub fn looks_at_backlog(&self) -> bool {
        self.slow
    }

    fn open(self) -> Self {
        Self { open: true, ..self }
    }

    fn slow(self) -> Self {
        Self { slow: true, ..self }
    }
}

/// All pages, and what their forms are sent to.
pub fn pages() -> Vec<Page> {
    macro_rules! page {
        ($verb:ident $path:literal, $handler:path) => {
            Page {
                verb: Verb::$verb,
                path: $path,
                open: false,
                slow: false,
                errand: None,
                handler: |visit| Box::pin($handler(visit)),
            }
        };
    }
    let forms = ERRANDS.iter().map(|errand| Page {
        verb: Verb::Post,
        path: errand.path,
        open: false,
        slow: false,
        errand: Some(errand),
        handler: |visit| Box::pin(errands::run(visit)),
    });
    let pages = vec![
        page!(Get "/", overview::show),
        page!(Get "/mine", mine::show),
        page!(Get "/embed", embed::show).open(),
        page!(Get "/fairness", fairness::show),
        page!(Get "/group", fairness::find),
        page!(Get "/groups/{name}", fairness::group),
        page!(Get "/groups/{name}/what-if", fairness::what_if).slow(),
        page!(Get "/jobs", jobs::show),
        page!(Get "/jobs/suggest", suggest::show),
        page!(Get "/jobs/{id}", job::show),
        page!(Get "/jobs/{id}/why", job::why).slow(),
        page!(Get "/jobs/{id}/resubmit", resubmit::show),
        page!(Post "/jobs/{id}/resubmit", resubmit::send),
        page!(Get "/queues", queues::show),
        page!(Get "/queues/{name}", queue::show),
        page!(Get "/schedules", schedules::show),
        page!(Post "/schedules", schedules::set),
        page!(Get "/schedules/{name}", schedule::show),
        page!(Get "/audit", audit::show),
        page!(Get "/tokens", tokens::show),
        page!(Post "/tokens", tokens::create),
        page!(Get "/errors", errors::show),
        page!(Get "/tasks", tasks::show),
        page!(Get "/tasks/{name}", tasks::task),
        page!(Get "/nodes", nodes::show),
        page!(Get "/decide", decide::show).slow(),
        page!(Post "/decide", decide::begin).slow(),
        page!(Get "/decide/{number}", decide::progress),
        page!(Get "/login", login::show).open(),
        page!(Post "/login", login::log_in).open(),
        page!(Post "/logout", login::log_out),
        page!(Post "/theme", login::theme).open(),
        page!(Get "/assets/{name}", assets::serve).open(),
    ];
    pages.into_iter().chain(forms).collect()
}

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// What went wrong, as a page.
#[derive(Template)]
#[template(path = "problem.html")]
struct Wrong<'a> {
    frame: Frame,
    problem: &'a Problem,
    /// When the database answered last, if it is what is missing.
    since: Option<Timestamp>,
}

/// Answers a browser.
pub(crate) async fn answer(service: &Service, page: &'static Page, params: Params, request: Request) -> Reply {
    let (mut parts, body) = request.into_parts();
    let forwarded = service.forwarded(&mut parts);
    let path = parts.uri.path();
    let root = if forwarded.prefix.is_empty() { way_up(path) } else { format!("{}/", forwarded.prefix) };
    let query = parts.uri.query().unwrap_or_default();
    let here = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let most = if page.slow { ANSWER_TIME } else { PAGE_TIME };
    let mut visit = Visit {
        service: service.clone(),
        asker: Asker {
            caller: Caller::anybody(),
            secure: forwarded.secure.unwrap_or_else(|| service.is_secure()),
            from: forwarded.from,
            headers: HeaderMap::new(),
        },
        root,
        here: here.trim_start_matches('/').to_owned(),
        name: String::new(),
        query: Query::default(),
        form: Query::default(),
        theme: theme(&parts.headers),
        errand: page.errand,
        again: parts.headers.contains_key(WATCHED_HEADER).then(|| Again::begin(most)),
    };
    let (mut around, again) = (Frame::outside(&visit, ""), visit.again.clone());
    // A script that shows a token, or a ticket's bearer, cannot log in.
    let by_script = parts.headers.contains_key(header::AUTHORIZATION);
    let root = visit.root.clone();
    let late = || Problem::away("there was no answer in time; the database may be out of reach");
    let mut token = None;
    let worked = async {
        if page.slow {
            // It may take long for what it looks at, but not because nobody answers.
            timeout(PAGE_TIME, service.turnwise().now()).await.map_err(|_| late())??;
        }
        let changes = page.verb == Verb::Post;
        if changes {
            logins::check(&parts.method, &parts.headers, visit.asker.secure)?;
        }
        if !page.open {
            let admitted = service.admit(&parts.method, &parts.headers, visit.asker.secure, visit.asker.from);
            visit.asker.caller = timeout(most, admitted).await.map_err(|_| late())??;
            seated(&parts.extensions, &visit.asker.caller)?;
            token = visit.asker.caller.token();
            // Whatever goes wrong from here on, this person can go elsewhere, and log out.
            around = Frame::of(&visit, "problem", "");
        }
        visit.asker.headers = parts.headers;
        let params = params.map_err(|_| Problem::malformed("the path is not UTF-8"))?;
        visit.name = params.iter().next().map(|(_, value)| value.to_owned()).unwrap_or_default();
        visit.query = Query::any(parts.uri.query().unwrap_or_default())?;
        let _place = if changes {
            let (form, memory, place) = service.form(&visit.asker, body).await?;
            visit.form = Query::any(text(&form)?)?;
            (Some(memory), place)
        } else {
            (None, service.place(&visit.asker.caller).await?)
        };
        (page.handler)(visit).await
    };
    // One that is read again may have to wait for its turn, besides.
    let most = again.as_ref().map_or(most, |_| most + WATCHED_WAIT);
    let problem = match timeout(most, worked).await {
        Ok(Ok(reply)) => {
            let late = again.is_some_and(|again| again.late.load(Ordering::Relaxed));
            let reply = if late { reply.come_again() } else { reply };
            if !page.open {
                service.note_answer();
            }
            match service.holding(reply, token, page.verb == Verb::Post) {
                Ok(reply) => return reply,
                Err(problem) => problem,
            }
        }
        Ok(Err(problem)) => problem,
        Err(_) => late(),
    };
    if problem.unauthorized_because().is_some() && page.verb == Verb::Get && !by_script {
        return Reply::see_other(format!("{root}{}", login::way(&around.here)));
    }
    let away = problem.status_code() == StatusCode::SERVICE_UNAVAILABLE;
    let since = away.then(|| around.now.minus(service.silence()));
    wrong(around, &problem, since)
}

/// A page that says what went wrong.
fn wrong(frame: Frame, problem: &Problem, since: Option<Timestamp>) -> Reply {
    let frame = Frame { title: problem.title().to_owned(), ..frame };
    let page = render(&Wrong { frame, problem, since });
    page.unwrap_or_else(|_| Reply::of("text/plain; charset=utf-8", problem.detail().to_owned()))
        .status(problem.status_code())
}

/// The relative way from a path to `/`.
fn way_up(path: &str) -> String {
    match path.matches('/').count() {
        0 | 1 => "./".to_owned(),
        slashes => "../".repeat(slashes - 1),
    }
}

fn theme(headers: &HeaderMap) -> Option<&'static str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut values = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    match values.find(|(name, _)| *name == login::THEME) {
        Some((_, "dark")) => Some("dark"),
        Some((_, "light")) => Some("light"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_knows_its_way_to_the_first() {
        for (path, way) in [("/", "./"), ("/jobs", "./"), ("/jobs/1", "../"), ("/jobs/1/why", "../../")] {
            assert_eq!(way_up(path), way, "{path}");
        }
    }

    #[test]
    fn no_page_is_in_the_way_of_the_api() {
        let mut paths = std::collections::BTreeSet::new();
        for page in pages() {
            assert!(!page.path.starts_with("/api/"), "{}", page.path);
            assert!(paths.insert((page.path, format!("{:?}", page.verb))), "{} is there twice", page.path);
            assert!(matches!(page.verb, Verb::Get | Verb::Post), "{}: a form can send no other", page.path);
        }
        for route in crate::routes::routes() {
            assert!(!paths.contains(&(route.path, format!("{:?}", route.verb))), "{}", route.path);
        }
    }
}
