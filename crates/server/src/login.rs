//! People log in to the page with a token: their browser keeps a cookie, which says nothing about the token and ends after twelve hours.
//!
//! A cookie is sent by the browser, also with a request that another site's page made. So one counts only with what shows that a page of this server
//! did: `SameSite=Strict`, and for every change the headers that browsers alone write.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use turnwise::{
    access::{LOGIN_FOR, Secret},
    wire,
};

use crate::{
    access::same_origin,
    call::{Call, Reply},
    problem::Problem,
};

/// The browser sends this one back only by TLS, and only to this very host.
const SECURE: &str = "__Host-turnwise";
const PLAIN: &str = "turnwise";

/// The secret in a request's cookie.
pub(crate) fn cookie(headers: &HeaderMap, secure: bool) -> Option<Secret> {
    let name = if secure { SECURE } else { PLAIN };
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut values = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    values.find(|(known, _)| *known == name).and_then(|(_, value)| Secret::parse(value))
}

/// Refuses a change that a page of another origin may have sent. A page that came without TLS is one where this server speaks TLS:
/// anyone on the way may have written it. Elsewhere a proxy may speak TLS for it.
pub(crate) fn check(method: &Method, headers: &HeaderMap, secure: bool) -> Result<(), Problem> {
    if *method == Method::GET || *method == Method::HEAD {
        return Ok(());
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let own = match (headers.get(header::ORIGIN), site) {
        (_, Some(site)) if site != b"same-origin" => false,
        (Some(_), _) => same_origin(headers) && (!secure || by_tls(headers)),
        (None, site) => site.is_some(),
    };
    if own {
        Ok(())
    } else {
        Err(Problem::forbidden("this change was not sent by a page of this server; send a token instead"))
    }
}

/// Whether no page that sent the request came without TLS. For a page that hides its origin the browser vouches, by scheme as well.
fn by_tls(headers: &HeaderMap) -> bool {
    !headers.get_all(header::ORIGIN).iter().any(|origin| origin.as_bytes().starts_with(b"http://"))
}

fn set_cookie(secure: bool, secret: &str, seconds: u64) -> String {
    let (name, and) = if secure { (SECURE, "; Secure") } else { (PLAIN, "") };
    format!("{name}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{and}")
}

/// Refuses what a browser sends for a page of another origin; a program sends no header that says so.
pub(crate) fn check_page(headers: &HeaderMap, secure: bool) -> Result<(), Problem> {
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        check(&Method::POST, headers, secure)?;
    }
    Ok(())
}

pub(crate) async fn log_in(call: Call) -> Result<Reply, Problem> {
    check_page(&call.headers, call.secure)?;
    let service = &call.service;
    let body = call.read(wire::LogIn::read)?;
    let secret = Secret::parse(&body.token).ok_or_else(|| Problem::unauthorized("this is not a token"))?;
    service.door().knock(call.from)?;
    let caller = service.door().bearer_of(call.turnwise(), &secret, call.from).await?;
    let Some(bearer) = caller.bearer() else { return Err(Problem::unauthorized("there is no such token")) };
    let (secret, until) = call.turnwise().log_in(&bearer.token).await?;
    let cookie = set_cookie(call.secure, secret.reveal(), LOGIN_FOR.as_secs());
    Ok(Reply::json(&wire::LoggedIn::with(&bearer.token, Some(until)))?.cookie(cookie))
}

pub(crate) async fn log_out(call: Call) -> Result<Reply, Problem> {
    let secure = call.secure;
    if let Some(secret) = cookie(&call.headers, secure) {
        check(&Method::DELETE, &call.headers, secure)?;
        call.turnwise().operators()?.log_out(secret.hash()).await.map_err(turnwise::Error::from)?;
        call.service.door().forget(secret.hash());
    }
    Ok(Reply::json(&wire::LoggedIn::logged_out())?.cookie(set_cookie(secure, "", 0)))
}

pub(crate) async fn who(call: Call) -> Result<Reply, Problem> {
    let service = &call.service;
    let caller = service.door().admit(call.turnwise(), &Method::GET, &call.headers, call.secure, call.from).await?;
    match caller.bearer() {
        Some(bearer) => Reply::json(&match caller.own_token() {
            Some(token) => wire::LoggedIn::with(token, bearer.until),
            None => wire::LoggedIn::by_ticket(&caller.grant, bearer.until),
        }),
        None => Reply::json(&wire::LoggedIn::unlimited()),
    }
}
