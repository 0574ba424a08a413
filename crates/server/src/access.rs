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
    limits::{KNOWN_FOR, KNOWN_TOKENS, LOGINS, NOTE_TIME, STRANGERS, STRANGERS_OF_ONE, SWEEP_EVERY, UNKNOWN_TOKENS},
    login,
    problem::Problem,
    tries::{Address, Tries},
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
    from: Address,
    pub(crate) token: Arc<Token>,
    /// When a log-in is over, or a ticket's bearer.
    pub(crate) until: Option<Timestamp>,
}

/// How a caller shows which token it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum By {
    /// With the token itself.
    Token,
    /// With the cookie of a log-in.
    Login,
    /// With the bearer that a ticket was redeemed for.
    Ticket,
}

impl Caller {
    /// A program of this machine, while there are no tokens; and a caller of a route that needs none.
    pub(crate) fn anybody() -> Self {
        Self { grant: Arc::new(Grant::unlimited()), bearer: None }
    }

    /// The token that it came with.
    pub(crate) fn token(&self) -> Option<TokenId> {
        self.bearer.as_ref().map(|bearer| bearer.token.id)
    }

    /// Whether a submit of it is looked at before the store sees it.
    pub(crate) fn is_held_back(&self) -> bool {
        self.grant.is_limited() || self.bearer.as_ref().is_some_and(|bearer| bearer.token.rate.is_some())
    }

    pub(crate) fn bearer(&self) -> Option<&Bearer> {
        self.bearer.as_ref()
    }

    /// The token of a person or a program that has it, by itself or by a log-in: a ticket's bearer knows nothing of the token behind it.
    pub(crate) fn own_token(&self) -> Option<&Token> {
        self.bearer.as_ref().filter(|bearer| bearer.by != By::Ticket).map(|bearer| &*bearer.token)
    }

    /// As the audit log names it.
    pub(crate) fn actor(&self) -> Actor {
        match &self.bearer {
            Some(bearer) if bearer.by == By::Ticket => Actor::ticket_of(&bearer.token),
            Some(bearer) => Actor::token(&bearer.token),
            None => Actor::named(WITHOUT_TOKEN).expect("a good name"),
        }
    }
}

/// What a caller presented, by the hash of its secret.
type Key = (By, [u8; 32]);

/// What the server remembers of tokens for a moment: not every request is to ask the database.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Remembered>);

#[derive(Debug)]
struct Remembered {
    /// Whether any token was ever created: once it is so, it stays so. Before, when the database was asked.
    any: Option<(bool, Instant)>,
    /// What was found, also after [`KNOWN_FOR`]: who was found before is no stranger.
    tokens: HashMap<Key, Known>,
    /// When those that were not asked for lately were last forgotten.
    swept: Instant,
    /// What was looked for and is not there, and when.
    unknown: HashMap<Key, Instant>,
    /// What is being looked for. Requests that come with the same wait for one look.
    looks: HashMap<Key, Arc<tokio::sync::Mutex<()>>>,
    /// Looks for what is unknown.
    strangers: Tries,
    /// The same, from all addresses: each counts as the same one.
    all_strangers: Tries,
    knocks: Tries,
    /// What is left of each token's submits, and when that was written.
    left: HashMap<TokenId, (f64, Instant)>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            any: None,
            tokens: HashMap::new(),
            swept: Instant::now(),
            unknown: HashMap::new(),
            looks: HashMap::new(),
            strangers: Tries::new(STRANGERS_OF_ONE.into()),
            all_strangers: Tries::new(STRANGERS.into()),
            knocks: Tries::new(LOGINS),
            left: HashMap::new(),
        }
    }
}

impl Remembered {
    /// What is known and was asked not long ago; `Some(None)`: there is no such token.
    fn fresh(&self, key: &Key) -> Option<Option<Known>> {
        if let Some(known) = self.tokens.get(key).filter(|known| known.seen.1.elapsed() < KNOWN_FOR) {
            return Some(Some(known.clone()));
        }
        self.unknown.get(key).filter(|seen| seen.elapsed() < KNOWN_FOR).map(|_| None)
    }

    /// Whether this may be looked for: as often as wished what was found before, and so often a second what may be a guess.
    fn may_look(&mut self, key: &Key, from: Address) -> bool {
        if self.tokens.contains_key(key) {
            return true;
        }
        if !self.strangers.take(from) {
            return false;
        }
        let may = self.all_strangers.take(Address::default());
        if !may {
            self.strangers.give_back(from);
        }
        may
    }

    fn found(&mut self, key: Key, known: Known, from: Address) {
        if !self.tokens.contains_key(&key) {
            self.strangers.give_back(from);
            self.all_strangers.give_back(Address::default());
        }
        self.unknown.remove(&key);
        if self.tokens.len() >= KNOWN_TOKENS && self.swept.elapsed() >= SWEEP_EVERY {
            self.swept = Instant::now();
            self.tokens.retain(|_, known| known.seen.1.elapsed() < SWEEP_EVERY);
        }
        // What does not fit is asked for again.
        if self.tokens.len() < KNOWN_TOKENS || self.tokens.contains_key(&key) {
            self.tokens.insert(key, known);
        }
    }

    fn not_found(&mut self, key: Key) {
        self.tokens.remove(&key);
        if self.unknown.len() >= UNKNOWN_TOKENS {
            self.unknown.retain(|_, seen| seen.elapsed() < KNOWN_FOR);
        }
        if self.unknown.len() < UNKNOWN_TOKENS {
            self.unknown.insert(key, Instant::now());
        }
    }
}

/// The one look for what several requests may have come with; the others wait for it.
struct Look<'a> {
    door: &'a Door,
    key: Key,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut remembered = self.door.remembered();
        // The table has one, and this the other.
        if Arc::strong_count(&self.turn) <= 2 {
            remembered.looks.remove(&self.key);
        }
    }
}

#[derive(Debug, Clone)]
struct Known {
    token: Arc<Token>,
    grant: Arc<Grant>,
    /// When a log-in is over, or a ticket's bearer.
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
        from: Address,
    ) -> Result<Caller, Problem> {
        let cookie = login::cookie(headers, secure);
        let authorized = headers.contains_key(header::AUTHORIZATION);
        let presents = authorized || cookie.is_some();
        // A caller that presents a token gets no more than it grants, though it was the first and created a moment ago.
        let any = self.any(turnwise).await? || presents && self.ask(turnwise).await?;
        if !any {
            from_this_machine(headers, secure)?;
            return Ok(Caller::anybody());
        }
        match cookie.filter(|_| !authorized) {
            Some(secret) => {
                login::check(method, headers, secure)?;
                self.caller(turnwise, By::Login, secret.hash(), from).await
            }
            None => {
                let (by, secret) = bearer(headers)?;
                self.caller(turnwise, by, secret.hash(), from).await
            }
        }
    }

    /// Who has this token.
    pub(crate) async fn bearer_of(
        &self,
        turnwise: &Turnwise,
        secret: &Secret,
        from: Address,
    ) -> Result<Caller, Problem> {
        self.caller(turnwise, By::Token, secret.hash(), from).await
    }

    /// Takes one of the few log-ins a second of this address.
    pub(crate) fn knock(&self, from: Address) -> Result<(), Problem> {
        if !self.remembered().knocks.take(from) {
            return Err(Problem::busy("too many log-ins are tried from this address"));
        }
        Ok(())
    }

    /// A log-in has ended.
    pub(crate) fn forget(&self, hash: TokenHash) {
        self.remembered().tokens.remove(&(By::Login, hash.0));
    }

    /// Whether the caller is still admitted: its token may have been revoked meanwhile.
    pub(crate) async fn again(&self, turnwise: &Turnwise, caller: &Caller) -> Result<(), Problem> {
        match &caller.bearer {
            Some(bearer) => self.caller(turnwise, bearer.by, bearer.hash, bearer.from).await.map(drop),
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

    async fn caller(&self, turnwise: &Turnwise, by: By, hash: TokenHash, from: Address) -> Result<Caller, Problem> {
        let fresh = self.remembered().fresh(&(by, hash.0));
        let known = match fresh {
            Some(known) => known,
            None => self.look_once(turnwise, by, hash, from).await?,
        };
        let unknown = || {
            Problem::unauthorized(match by {
                By::Token => "there is no such token",
                By::Login => "the log-in is over; log in again",
                By::Ticket => "the time of this view is over; it needs another ticket",
            })
        };
        let known = known.ok_or_else(unknown)?;
        let now = known.now();
        if known.until.is_some_and(|until| until <= now) {
            return Err(unknown());
        }
        match known.token.state(now) {
            TokenState::Active => {}
            TokenState::Expired => return Err(Problem::unauthorized("the token has expired")),
            TokenState::Revoked => return Err(Problem::unauthorized("the token was revoked")),
        }
        let bearer = Bearer { by, hash, from, token: known.token, until: known.until };
        Ok(Caller { grant: known.grant, bearer: Some(bearer) })
    }

    /// Asks the database, unless another request has just done so.
    async fn look_once(
        &self,
        turnwise: &Turnwise,
        by: By,
        hash: TokenHash,
        from: Address,
    ) -> Result<Option<Known>, Problem> {
        let key = (by, hash.0);
        let turn = Arc::clone(self.remembered().looks.entry(key).or_default());
        let look = Look { door: self, key, turn };
        let _turn = look.turn.lock().await;
        {
            let mut remembered = self.remembered();
            if let Some(known) = remembered.fresh(&key) {
                return Ok(known);
            }
            if !remembered.may_look(&key, from) {
                return Err(Problem::busy("too many unknown tokens are presented"));
            }
        }
        let known = look_for(turnwise, by, hash).await?;
        let mut remembered = self.remembered();
        match &known {
            Some(known) => remembered.found(key, known.clone(), from),
            None => remembered.not_found(key),
        }
        Ok(known)
    }
}

async fn look_for(turnwise: &Turnwise, by: By, hash: TokenHash) -> Result<Option<Known>, Problem> {
    let operators = turnwise.operators()?;
    let found = match by {
        By::Token => {
            let found = operators.find_token(hash).await.map_err(turnwise::Error::from)?;
            found.token.map(|token| (token, None, None, found.now))
        }
        By::Login => {
            let found = operators.find_login(hash).await.map_err(turnwise::Error::from)?;
            found.map(|found| (found.token, None, Some(found.until), found.now))
        }
        By::Ticket => {
            let found = operators.find_bearer(hash).await.map_err(turnwise::Error::from)?;
            found.map(|found| (found.token, Some(found.grant), Some(found.until), found.now))
        }
    };
    let Some((token, given, until, now)) = found else { return Ok(None) };
    if token.state(now) == TokenState::Active && token.notes_use(now) {
        // When it was last used is for people; no request fails for it.
        let _ = timeout(NOTE_TIME, operators.note_token_uses(vec![token.id])).await;
    }
    let grant = Arc::new(given.unwrap_or_else(|| token.grant.clone()));
    Ok(Some(Known { token: Arc::new(token), grant, until, seen: (now, Instant::now()) }))
}

/// The secret in `Authorization: Bearer …`, and what it is of.
fn bearer(headers: &HeaderMap) -> Result<(By, Secret), Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else {
        return Err(Problem::unauthorized("send the header Authorization: Bearer and a token"));
    };
    let text = given.to_str().unwrap_or_default();
    let presented = match text.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => {
            let of_ticket = Secret::parse_bearer(secret.trim()).map(|secret| (By::Ticket, secret));
            of_ticket.or_else(|| Some((By::Token, Secret::parse(secret.trim())?)))
        }
        _ => None,
    };
    presented.ok_or_else(|| Problem::unauthorized("what the header Authorization has is not a token"))
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
    let own = |origin: &HeaderValue| origin == HIDDEN || origin.as_bytes().starts_with(scheme.as_bytes());
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

/// What browsers write for the origin of a form whose page has the policy `no-referrer`, as the pages of this server have. Pages of any
/// site can make them write it.
const HIDDEN: &str = "null";

/// Whether every page that sent the request is of this server: its origin is the host that was asked. Of a hidden one, the browser's word
/// about the site must say so.
pub(crate) fn same_origin(headers: &HeaderMap) -> bool {
    let own_site = headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let place = |origin: &'_ HeaderValue| {
        let text = origin.to_str().ok()?;
        text.strip_prefix("http://").or(text.strip_prefix("https://")).map(str::to_owned)
    };
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        (own_site && origin == HIDDEN) || place(origin).is_some_and(|place| place.eq_ignore_ascii_case(host))
    })
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
        assert!(admitted(&[("host", "127.0.0.1:8080"), ("origin", "null"), ("sec-fetch-site", "same-origin")]));
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
