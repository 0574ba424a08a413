//! Whom a request comes from, and what that caller may do: the one place where a request gets its grant.
//!
//! While no token has ever been created, the server answers on loopback only, and every program of this machine may do everything. A
//! web page of elsewhere must not become such a program: a browser sends its requests for it. So a request is refused that names
//! another host (a name that was made to point here), that comes from a page of another origin, or that a proxy has passed on (it
//! would open the server to the world). From the first token on, every request needs one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::time::{Instant, timeout};
use turnwise::{
    Timestamp, Turnwise,
    access::{Grant, Secret, Token, TokenHash, TokenId, TokenState},
    audit::Actor,
};

use crate::{
    limits::{KNOWN_FOR, KNOWN_TOKENS, LOGINS, NOTE_TIME},
    login,
    problem::Problem,
};

/// The audit log's name for a program of this machine, while there are no tokens.
const WITHOUT_TOKEN: &str = "http:without-token";

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) grant: Arc<Grant>,
    /// `None`: a program of this machine, while there are no tokens.
    bearer: Option<Bearer>,
}

/// What a caller presented.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    by: By,
    hash: TokenHash,
    pub(crate) token: Arc<Token>,
    /// When a log-in is over.
    pub(crate) until: Option<Timestamp>,
}

/// How a caller shows which token it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum By {
    /// With the token itself.
    Token,
    /// With the cookie of a log-in.
    Login,
}

impl Caller {
    /// A program of this machine, while there are no tokens; and whoever asks for what needs none.
    pub(crate) fn anybody() -> Self {
        Self { grant: Arc::new(Grant::unlimited()), bearer: None }
    }

    /// The token that it came with.
    pub(crate) fn token(&self) -> Option<TokenId> {
        self.bearer.as_ref().map(|bearer| bearer.token.id)
    }

    pub(crate) fn bearer(&self) -> Option<&Bearer> {
        self.bearer.as_ref()
    }

    /// As the audit log names it.
    pub(crate) fn actor(&self) -> Actor {
        match &self.bearer {
            Some(bearer) => Actor::token(&bearer.token),
            None => Actor::named(WITHOUT_TOKEN).expect("a good name"),
        }
    }
}

/// What the server remembers of tokens for a moment: not every request is to ask the database.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Whether any token was ever created: once it is so, it stays so. Before, when the database was asked.
    any: Option<(bool, Instant)>,
    /// By the hash of the secret.
    tokens: HashMap<(By, [u8; 32]), Known>,
    /// How many log-ins may be tried at once, and when that was written.
    knocks: Option<(f64, Instant)>,
    /// What is left of each token's submits, and when that was written.
    left: HashMap<TokenId, (f64, Instant)>,
}

#[derive(Debug, Clone)]
struct Known {
    token: Option<Arc<Token>>,
    grant: Arc<Grant>,
    /// When a log-in is over.
    until: Option<Timestamp>,
    /// The database's time then, and ours.
    seen: (turnwise::Timestamp, Instant),
}

impl Known {
    fn now(&self) -> turnwise::Timestamp {
        self.seen.0.plus(self.seen.1.elapsed())
    }
}

impl Door {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this request may do.
    pub(crate) async fn admit(
        &self,
        turnwise: &Turnwise,
        method: &Method,
        headers: &HeaderMap,
        secure: bool,
    ) -> Result<Caller, Problem> {
        let cookie = login::cookie(headers, secure);
        let authorized = headers.contains_key(header::AUTHORIZATION);
        let presents = authorized || cookie.is_some();
        // Whoever presents a token gets no more than it grants, though it was the first and created a moment ago.
        let any = self.any(turnwise).await? || presents && self.ask(turnwise).await?;
        if !any {
            from_this_machine(headers, secure)?;
            return Ok(Caller::anybody());
        }
        match cookie.filter(|_| !authorized) {
            Some(secret) => {
                login::check(method, headers)?;
                self.caller(turnwise, By::Login, secret.hash()).await
            }
            None => self.caller(turnwise, By::Token, bearer(headers)?.hash()).await,
        }
    }

    /// Who has this token.
    pub(crate) async fn bearer_of(&self, turnwise: &Turnwise, secret: &Secret) -> Result<Caller, Problem> {
        self.caller(turnwise, By::Token, secret.hash()).await
    }

    /// Takes one of the few log-ins a second: each asks the database.
    pub(crate) fn knock(&self) -> Result<(), Problem> {
        let now = Instant::now();
        let mut remembered = self.remembered();
        let (left, since) = remembered.knocks.unwrap_or((LOGINS, now));
        let left = (left + now.duration_since(since).as_secs_f64() * LOGINS).min(LOGINS);
        if left < 1.0 {
            return Err(Problem::busy("too many people log in at once"));
        }
        remembered.knocks = Some((left - 1.0, now));
        Ok(())
    }

    /// A log-in has ended.
    pub(crate) fn forget(&self, hash: TokenHash) {
        self.remembered().tokens.remove(&(By::Login, hash.0));
    }

    /// Whether the caller is still admitted: its token may have been revoked meanwhile.
    pub(crate) async fn again(&self, turnwise: &Turnwise, caller: &Caller) -> Result<(), Problem> {
        match &caller.bearer {
            Some(bearer) => self.caller(turnwise, bearer.by, bearer.hash).await.map(drop),
            None if self.any(turnwise).await? => {
                Err(Problem::unauthorized("a token was created, and from then on every caller needs one"))
            }
            None => Ok(()),
        }
    }

    /// Takes so many submits from what the token may submit a second. A batch that is larger than a second's worth is let through if
    /// nothing was taken before it, and paid for afterwards.
    pub(crate) fn take(&self, caller: &Caller, submits: usize) -> Result<(), Problem> {
        let Some((id, Some(rate))) = caller.bearer().map(|bearer| (bearer.token.id, bearer.token.rate)) else {
            return Ok(());
        };
        let (now, most) = (Instant::now(), f64::from(rate.get()));
        let mut remembered = self.remembered();
        let (left, since) = remembered.left.get(&id).copied().unwrap_or((most, now));
        let left = (left + now.duration_since(since).as_secs_f64() * most).min(most);
        #[allow(clippy::cast_precision_loss)] // at most 10,000
        let wanted = submits as f64;
        if left < wanted.min(most) {
            return Err(Problem::busy(format!("this token may submit {rate} jobs a second")));
        }
        remembered.left.insert(id, (left - wanted, now));
        Ok(())
    }

    /// Whether any token was ever created.
    pub(crate) async fn any(&self, turnwise: &Turnwise) -> Result<bool, turnwise::Error> {
        match self.remembered().any {
            Some((true, _)) => return Ok(true),
            Some((false, asked)) if asked.elapsed() < KNOWN_FOR => return Ok(false),
            _ => {}
        }
        self.ask(turnwise).await
    }

    async fn ask(&self, turnwise: &Turnwise) -> Result<bool, turnwise::Error> {
        // A store of its owner's own may have no tokens at all.
        let Ok(operators) = turnwise.operators() else { return Ok(false) };
        let any = operators.find_token(TokenHash([0; 32])).await?.any;
        self.remembered().any = Some((any, Instant::now()));
        Ok(any)
    }

    async fn caller(&self, turnwise: &Turnwise, by: By, hash: TokenHash) -> Result<Caller, Problem> {
        let fresh = |known: &&Known| known.seen.1.elapsed() < KNOWN_FOR;
        let known = self.remembered().tokens.get(&(by, hash.0)).filter(fresh).cloned();
        let known = match known {
            Some(known) => known,
            None => self.look(turnwise, by, hash).await?,
        };
        let now = known.now();
        let over = known.until.is_some_and(|until| until <= now);
        let Some(token) = known.token.filter(|_| !over) else {
            return Err(Problem::unauthorized(match by {
                By::Token => "there is no such token",
                By::Login => "the log-in is over; log in again",
            }));
        };
        match token.state(now) {
            TokenState::Active => {}
            TokenState::Expired => return Err(Problem::unauthorized("the token has expired")),
            TokenState::Revoked => return Err(Problem::unauthorized("the token was revoked")),
        }
        Ok(Caller { grant: known.grant, bearer: Some(Bearer { by, hash, token, until: known.until }) })
    }

    async fn look(&self, turnwise: &Turnwise, by: By, hash: TokenHash) -> Result<Known, Problem> {
        let operators = turnwise.operators()?;
        let (token, until, now) = match by {
            By::Token => {
                let found = operators.find_token(hash).await.map_err(turnwise::Error::from)?;
                (found.token, None, found.now)
            }
            By::Login => match operators.find_login(hash).await.map_err(turnwise::Error::from)? {
                Some(found) => (Some(found.token), Some(found.until), found.now),
                None => (None, None, Timestamp::MIN),
            },
        };
        let used = token.as_ref().filter(|token| token.state(now) == TokenState::Active);
        if let Some(token) = used.filter(|token| token.notes_use(now)) {
            // When it was last used is for people; no request fails for it.
            let _ = timeout(NOTE_TIME, operators.note_token_uses(vec![token.id])).await;
        }
        let grant = token.as_ref().map_or_else(Grant::unlimited, |token| token.grant.clone());
        let (token, grant) = (token.map(Arc::new), Arc::new(grant));
        let known = Known { token, grant, until, seen: (now, Instant::now()) };
        let mut remembered = self.remembered();
        if remembered.tokens.len() >= KNOWN_TOKENS {
            remembered.tokens.retain(|_, known| known.seen.1.elapsed() < KNOWN_FOR);
        }
        // What does not fit is asked for again.
        if remembered.tokens.len() < KNOWN_TOKENS {
            remembered.tokens.insert((by, hash.0), known.clone());
        }
        Ok(known)
    }
}

/// The secret in `Authorization: Bearer …`.
fn bearer(headers: &HeaderMap) -> Result<Secret, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else {
        return Err(Problem::unauthorized("send the header Authorization: Bearer and a token"));
    };
    let text = given.to_str().unwrap_or_default();
    let secret = match text.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => Secret::parse(secret.trim()),
        _ => None,
    };
    secret.ok_or_else(|| Problem::unauthorized("what the header Authorization has is not a token"))
}

fn from_this_machine(headers: &HeaderMap, secure: bool) -> Result<(), Problem> {
    let says = "no token has been created yet, so only programs of this machine are served";
    if let Some(name) = headers.keys().find(|name| passed_on(name)) {
        return Err(Problem::forbidden(format!("{says}; the header {name} shows that a proxy passed the request on")));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    if !matches!((hosts.next().map(HeaderValue::to_str), hosts.next()), (Some(Ok(host)), None) if names_loopback(host))
    {
        return Err(Problem::forbidden(format!("{says}; the header Host must be localhost or a loopback address")));
    }
    // Pages of this server have its own scheme: no proxy stands between.
    let scheme = if secure { "https://" } else { "http://" };
    let own = |origin: &HeaderValue| origin.as_bytes().starts_with(scheme.as_bytes());
    if !headers.get_all(header::ORIGIN).iter().all(own) || !same_origin(headers) {
        return Err(Problem::forbidden(format!("{says}; a web page of another origin sent this request")));
    }
    let site = headers.get_all("sec-fetch-site").iter();
    if site.into_iter().any(|site| site != "same-origin" && site != "none") {
        return Err(Problem::forbidden(format!("{says}; a web page of another site sent this request")));
    }
    Ok(())
}

/// Whether only a proxy sends this header.
fn passed_on(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "forwarded" || name == "via" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// `localhost`, `127.0.0.1:8080`, `[::1]:8080`.
fn names_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let loopback = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback && (port.is_empty() || port.parse::<u16>().is_ok())
}

/// Whether every page that sent the request is of this server: its origin is the host that was asked.
pub(crate) fn same_origin(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let place = |origin: &'_ HeaderValue| {
        let text = origin.to_str().ok()?;
        text.strip_prefix("http://").or(text.strip_prefix("https://")).map(str::to_owned)
    };
    headers
        .get_all(header::ORIGIN)
        .iter()
        .all(|origin| place(origin).is_some_and(|place| place.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn admitted(pairs: &[(&'static str, &'static str)]) -> bool {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        from_this_machine(&pairs.collect(), false).is_ok()
    }

    #[test]
    fn programs_of_this_machine_are_served() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]:8080", "[::1]"] {
            assert!(admitted(&[("host", host)]), "{host}");
        }
        let same = [("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")];
        assert!(admitted(&same));
    }

    #[test]
    fn a_foreign_host_origin_or_proxy_is_refused() {
        for host in ["example.com", "localhost.example.com", "10.0.0.1", "127.0.0.1.nip.io", "", "localhost:x", "[::2]"]
        {
            assert!(!admitted(&[("host", host)]), "{host}");
        }
        assert!(!admitted(&[]), "a request without a host");
        let here = ("host", "127.0.0.1:8080");
        for other in [
            ("origin", "http://example.com"),
            ("origin", "http://127.0.0.1:3000"),
            ("origin", "https://127.0.0.1:8080"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-host", "localhost"),
            ("x-real-ip", "10.0.0.1"),
            ("via", "1.1 proxy"),
        ] {
            assert!(!admitted(&[here, other]), "{other:?}");
        }
    }
}
