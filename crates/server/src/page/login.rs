//! Logging in to the pages, with a token, and out; and whether they are dark or light.

use askama::Template;
use serde_json::json;

use crate::{
    call::Reply,
    page::{
        Visit,
        frame::Frame,
        visit::{encoded, render},
    },
    problem::Problem,
};

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    frame: Frame,
    next: String,
    wrong: Option<String>,
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    form(&visit, visit.query.get("next").unwrap_or_default(), None)
}

fn form(visit: &Visit, next: &str, wrong: Option<String>) -> Result<Reply, Problem> {
    render(&Login { frame: Frame::outside(visit, "Log in"), next: next.to_owned(), wrong })
}

pub(crate) async fn log_in(visit: Visit) -> Result<Reply, Problem> {
    let next = visit.form.get("next").unwrap_or_default().trim_start_matches('/').to_owned();
    let body = json!({ "token": visit.form.get("token").unwrap_or_default().trim() });
    match visit.reply("logIn", "", Vec::new(), body.to_string().into()).await {
        Ok(mut logged_in) => {
            let go = visit.go(&next);
            Ok(match logged_in.take_cookie() {
                Some(cookie) => go.cookie(cookie),
                None => go,
            })
        }
        Err(problem) if (400..500).contains(&problem.status()) => {
            let status = problem.status_code();
            Ok(form(&visit, &next, Some(problem.detail().to_owned()))?.status(status))
        }
        Err(problem) => Err(problem),
    }
}

pub(crate) async fn log_out(visit: Visit) -> Result<Reply, Problem> {
    let mut logged_out = visit.reply("logOut", "", Vec::new(), bytes::Bytes::new()).await?;
    let go = visit.go("login");
    Ok(match logged_out.take_cookie() {
        Some(cookie) => go.cookie(cookie),
        None => go,
    })
}

/// The cookie with a person's choice.
pub(crate) const THEME: &str = "turnwise-theme";

pub(crate) async fn theme(visit: Visit) -> Result<Reply, Problem> {
    let chosen = match visit.form.get("theme") {
        Some("dark") => "dark",
        Some("light") => "light",
        _ => "",
    };
    let seconds = if chosen.is_empty() { 0 } else { 31_536_000 };
    let cookie = format!("{THEME}={chosen}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    let back = visit.form.get("back").unwrap_or_default().trim_start_matches('/');
    Ok(visit.go(back).cookie(cookie))
}

/// Where a person logs in before it sees what it asked for.
pub(crate) fn way(here: &str) -> String {
    if here.is_empty() { "login".to_owned() } else { format!("login?next={}", encoded(here)) }
}
