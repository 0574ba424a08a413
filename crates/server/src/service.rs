//! The service: what all requests share, and the way of a request from its bytes to its answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts},
    response::{IntoResponse, Response},
    routing::on,
};
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use turnwise::{Executor, OnceKey, Turnwise, access::TokenId, view::KeptView, workers::Workers};
use turnwise_core::access::{Reach, Refusal};

use crate::{
    access::{Caller, Door},
    call::{Call, Query, Reply, once_key},
    connections::Connection,
    hub::Hub,
    limits::{
        ANSWER_KIB, ANSWER_TIME, ANSWERS_KIB, ANSWERS_KIB_OF_ONE, BATCH_BYTES, BODIES_MIB, BODIES_MIB_OF_ONE,
        BODY_TIME, CATCH_UPS, COUNTS, FORM_BYTES, HEAVY, LIVE_LOGS, LONGEST_WAIT, REQUESTS, REQUESTS_OF_ONE,
        SMALL_ANSWER, STATISTICS, TURN_TIME, WHYS,
    },
    metrics::Metrics,
    origins::Origins,
    page::{self, Page, Place as SharedAnswer, SharedAnswers, WATCHED_HEADER, decide::Works, errors::Examples, pages},
    portions::{Portion, Portions},
    problem::Problem,
    proxies::{Forwarded, Peer, Proxies},
    routes::{Route, Verb, routes},
    spans::Spans,
    streams::Streams,
    tries::Address,
    waits::{Waits, WorkerWait, WorkerWaits},
};

const MIB: usize = 1024 * 1024;

/// What takes a processor for a while, and so has a bound of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// Looks at the whole backlog.
    Heavy,
    /// Asks the view that is kept.
    Why,
    /// Counts jobs.
    Count,
    /// Reads what happened.
    Statistics,
}

/// A place among the requests that are worked on; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_token: Option<PlaceOfToken>,
}

/// A place among those that one token may take.
#[derive(Debug)]
struct PlaceOfToken {
    _permit: OwnedSemaphorePermit,
    portion: Portion,
}

/// Answers HTTP requests about the jobs of one database; clones share it.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    turnwise: Turnwise,
    origins: Origins,
    /// Whose pages may embed a tenant's view.
    embedders: OnceLock<Origins>,
    proxies: Proxies,
    /// Whether it is reached by TLS.
    secure: AtomicBool,
    door: Door,
    waits: Waits,
    hub: Hub,
    streams: Streams,
    catch_ups: Arc<Semaphore>,
    live_logs: Arc<Semaphore>,
    /// Made when the first worker comes: it listens to the database.
    workers: OnceLock<Arc<Workers>>,
    worker_waits: WorkerWaits,
    /// Whether the process is about to end.
    stopping: watch::Sender<bool>,
    requests: Arc<Semaphore>,
    portions: Portions,
    /// What `why` is answered from.
    view: Arc<KeptView>,
    heavy: Arc<Semaphore>,
    whys: Arc<Semaphore>,
    counts: Arc<Semaphore>,
    statistics: Arc<Semaphore>,
    /// Mebibytes.
    bodies: Arc<Semaphore>,
    /// Kibibytes of answers that their callers have not read yet.
    answers: Arc<Semaphore>,
    metrics: Metrics,
    spans: OnceLock<Arc<dyn Spans>>,
    kept: Kept,
    shared: SharedAnswers,
    works: Works,
    /// When the last page could be made.
    answered: Mutex<Instant>,
    /// What pages get instead of the API's answers.
    #[cfg(test)]
    instead: OnceLock<page::Instead>,
    examples: Examples,
}

/// What pages share for a while: answers of the API, by route, with when they were read.
pub(crate) type Kept = std::sync::Mutex<HashMap<String, Arc<SharedAnswer>>>;

impl Service {
    /// On this database, for programs and for web pages of its own.
    pub fn new(turnwise: Turnwise) -> Self {
        Self::for_pages_of(Origins::default(), turnwise)
    }

    /// Also for web pages of these origins.
    pub fn for_pages_of(origins: Origins, turnwise: Turnwise) -> Self {
        Self::behind(Proxies::default(), origins, turnwise)
    }

    /// Also behind these proxies.
    pub fn behind(proxies: Proxies, origins: Origins, turnwise: Turnwise) -> Self {
        Self(Arc::new(Shared {
            view: Arc::new(KeptView::new(turnwise.clone())),
            turnwise,
            origins,
            embedders: OnceLock::new(),
            proxies,
            secure: AtomicBool::new(false),
            door: Door::default(),
            waits: Waits::default(),
            hub: Hub::default(),
            streams: Streams::default(),
            catch_ups: Arc::new(Semaphore::new(CATCH_UPS)),
            live_logs: Arc::new(Semaphore::new(LIVE_LOGS)),
            workers: OnceLock::new(),
            worker_waits: WorkerWaits::default(),
            stopping: watch::Sender::new(false),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            portions: Portions::default(),
            heavy: Arc::new(Semaphore::new(HEAVY)),
            whys: Arc::new(Semaphore::new(WHYS)),
            counts: Arc::new(Semaphore::new(COUNTS)),
            statistics: Arc::new(Semaphore::new(STATISTICS)),
            bodies: Arc::new(Semaphore::new(BODIES_MIB as usize)),
            answers: Arc::new(Semaphore::new(ANSWERS_KIB as usize)),
            metrics: Metrics::default(),
            spans: OnceLock::new(),
            kept: Kept::default(),
            shared: SharedAnswers::default(),
            works: Works::default(),
            answered: Mutex::new(Instant::now()),
            #[cfg(test)]
            instead: OnceLock::new(),
            examples: Examples::default(),
        }))
    }

    pub(crate) fn turnwise(&self) -> &Turnwise {
        &self.0.turnwise
    }

    /// Whether callers reach it by TLS: then cookies are never sent otherwise.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.secure.load(Ordering::Relaxed)
    }

    pub(crate) fn set_secure(&self) {
        self.0.secure.store(true, Ordering::Relaxed);
    }

    pub(crate) fn door(&self) -> &Door {
        &self.0.door
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.0.waits
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// Whether events are being read: only while there is a listener.
    pub fn reads_events(&self) -> bool {
        self.0.hub.reads()
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    /// A turn of the few listeners that read what they have missed.
    pub(crate) async fn catch_up(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = || Problem::busy("other listeners read what they have missed; only a few do at a time");
        turn(&self.0.catch_ups, 1).await.ok_or_else(busy)
    }

    /// The place of a log that is followed.
    pub(crate) fn live_log(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |_| Problem::busy(format!("{LIVE_LOGS} logs are followed, and no more are at a time"));
        Arc::clone(&self.0.live_logs).try_acquire_owned().map_err(busy)
    }

    /// The foreign workers that this server answers.
    pub(crate) fn workers(&self) -> Result<Arc<Workers>, Problem> {
        if let Some(workers) = self.0.workers.get() {
            return Ok(Arc::clone(workers));
        }
        let workers = Arc::new(self.0.turnwise.workers()?);
        Ok(Arc::clone(self.0.workers.get_or_init(|| workers)))
    }

    /// The place of a take that waits.
    pub(crate) fn worker_waits(&self, token: Option<TokenId>) -> Result<WorkerWait, Problem> {
        let busy = || Problem::busy("too many workers wait for jobs on this server; try again, or ask another one");
        self.0.worker_waits.begin(token).ok_or_else(busy)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The node of this process, whose numbers `/metrics` shows beside those of the installation.
    pub fn watch(&self, node: Executor) {
        self.0.metrics.set_node(node);
    }

    /// From now on submits have spans, and their jobs belong to these. Said once; what is said later has no effect.
    pub fn send_spans_to(&self, spans: Arc<dyn Spans>) {
        let _ = self.0.spans.set(spans);
    }

    pub(crate) fn spans(&self) -> Option<&dyn Spans> {
        self.0.spans.get().map(|spans| &**spans)
    }

    /// From now on pages of these origins may embed a tenant's view. Said once; what is said later has no effect.
    pub fn may_be_embedded_by(&self, origins: Origins) {
        let _ = self.0.embedders.set(origins);
    }

    /// Whose pages may embed a tenant's view, as browsers write them.
    pub(crate) fn embedders(&self) -> impl Iterator<Item = &str> {
        self.0.embedders.get().into_iter().flat_map(Origins::names)
    }

    pub(crate) fn may_embed(&self, origin: &str) -> bool {
        self.embedders().any(|known| known == origin)
    }

    /// Whether any token was ever created; from then on every request needs one.
    pub async fn has_tokens(&self) -> Result<bool, turnwise::Error> {
        self.0.door.any(&self.0.turnwise).await
    }

    /// From now on `/readyz` answers 503, long polls are answered at once, and streams end. Everything else goes on until the listener stops.
    pub fn stop_soon(&self) {
        self.0.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }

    pub(crate) async fn stops(&self) {
        // The sender lives as long as the service.
        let _ = self.0.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Decisions that are carried out.
    pub(crate) fn works(&self) -> &Works {
        &self.0.works
    }

    #[cfg(test)]
    pub(crate) fn answer_instead(&self, instead: page::Instead) {
        assert!(self.0.instead.set(instead).is_ok(), "said once");
    }

    #[cfg(test)]
    pub(crate) fn answers_instead(&self) -> bool {
        self.0.instead.get().is_some()
    }

    /// The database has just answered.
    pub(crate) fn note_answer(&self) {
        *self.0.answered.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long ago the database is known to have answered: a page, or the node of this process.
    pub(crate) fn silence(&self) -> Duration {
        let page = self.0.answered.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        self.0.metrics.node_heard().map_or(page, |node| node.min(page))
    }

    pub(crate) fn shared(&self) -> &SharedAnswers {
        &self.0.shared
    }

    /// Jobs that stand for their errors.
    pub(crate) fn examples(&self) -> &Examples {
        &self.0.examples
    }

    pub(crate) fn kept(&self) -> &Kept {
        &self.0.kept
    }

    pub(crate) fn view(&self) -> &Arc<KeptView> {
        &self.0.view
    }

    /// A turn of the few requests that take a processor for a while.
    pub(crate) async fn turn(&self, of: Turn) -> Result<OwnedSemaphorePermit, Problem> {
        let (turns, detail) = match of {
            Turn::Heavy => (&self.0.heavy, "other requests look at the whole backlog; only one does at a time"),
            Turn::Why => (&self.0.whys, "other requests ask why a job waits; they are answered one after the other"),
            Turn::Count => (&self.0.counts, "other requests count jobs; only a few do at a time"),
            Turn::Statistics => (&self.0.statistics, "other requests read statistics; only a few do at a time"),
        };
        turn(turns, 1).await.ok_or_else(|| Problem::busy(detail))
    }

    /// All routes, to be served by a listener or asked by a test.
    pub fn router(&self) -> Router {
        static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(routes);
        static PAGES: LazyLock<Vec<Page>> = LazyLock::new(pages);
        let mut router = Router::new();
        self.0.metrics.set_routes(&ROUTES);
        for (number, route) in ROUTES.iter().enumerate() {
            let service = self.clone();
            let handler = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let service = service.clone();
                async move {
                    let origin = request.headers().get(header::ORIGIN).cloned();
                    let begun = Instant::now();
                    let answer = service.answer(route, params, request).await;
                    let response = service.with_headers(origin, answer);
                    service.0.metrics.answered(number, response.status(), begun.elapsed());
                    response
                }
            };
            router = router.route(route.path, on(route.verb.filter(), handler));
        }
        for page in PAGES.iter() {
            let service = self.clone();
            let handler = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let service = service.clone();
                async move {
                    let answer = page::answer(&service, page, params, request).await;
                    service.with_headers(None, Ok(answer))
                }
            };
            router = router.route(page.path, on(page.verb.filter(), handler));
        }
        let (service, other) = (self.clone(), self.clone());
        let nothing = async move |headers: HeaderMap| {
            let problem = Problem::not_found("nothing is served at this path; see /docs");
            service.with_headers(headers.get(header::ORIGIN).cloned(), Err(problem))
        };
        let wrong_method = async move |method: Method, headers: HeaderMap| {
            let origin = headers.get(header::ORIGIN).cloned();
            match other.0.origins.preflight(origin.as_ref()).filter(|_| method == Method::OPTIONS) {
                Some(preflight) => preflight,
                None => other.with_headers(origin, Err(Problem::wrong_method("see /docs"))),
            }
        };
        router.fallback(nothing).method_not_allowed_fallback(wrong_method)
    }

    async fn answer(
        &self,
        route: &'static Route,
        params: Result<RawPathParams, RawPathParamsRejection>,
        request: Request,
    ) -> Result<Reply, Problem> {
        let (mut parts, body) = request.into_parts();
        let forwarded = self.forwarded(&mut parts);
        let secure = forwarded.secure.unwrap_or_else(|| self.is_secure());
        let caller = self.caller(route, &parts, secure, forwarded.from).await?;
        let params = params.map_err(|_| Problem::malformed("the path is not UTF-8"))?;
        let name = params.iter().next().map(|(_, value)| value.to_owned()).unwrap_or_default();
        let known: Vec<_> = route.parameters.iter().map(|parameter| parameter.name).collect();
        let many: Vec<_> = route.parameters.iter().filter(|parameter| parameter.many).map(|one| one.name).collect();
        let query = Query::read(parts.uri.query().unwrap_or_default(), &known, &many)?;
        let once = if route.once { once_key(&parts.headers)? } else { None };
        let (token, changes) = (caller.token(), route.verb != Verb::Get);
        if route.input.as_ref().is_some_and(|input| input.most >= BATCH_BYTES) {
            self.room_for_an_answer(token)?;
        }
        // Before the body: a token whose bodies come slowly takes its own places.
        let place = self.place_of_token(&caller).await?;
        let (body, memory) = self.body(route, &parts.headers, body, place.as_ref()).await?;
        // A request that waits gives up its body first.
        let _memory = (!route.polls).then_some(memory);
        let place = Some(self.place_of_all(place).await?);
        let waits = route.polls || query.get("wait").is_some();
        let grant = Arc::clone(&caller.grant);
        let call = Call {
            service: self.clone(),
            action: route.action,
            caller,
            grant,
            name,
            query,
            once,
            headers: parts.headers,
            secure,
            from: forwarded.from,
            watched: false,
            body,
            place,
        };
        let most = ANSWER_TIME + if waits { LONGEST_WAIT } else { Duration::ZERO };
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        let reply = timeout(most, (route.handler)(call)).await.map_err(late)??;
        // What anybody may read is in memory once for all.
        let reply = if route.action.is_some() { self.holding(reply, token, changes)? } else { reply };
        Ok(reply.below(&forwarded.prefix))
    }

    /// Refuses a caller that has not read the answers before: that to a submit of many jobs is long.
    fn room_for_an_answer(&self, token: Option<TokenId>) -> Result<(), Problem> {
        let own = token.is_none_or(|token| self.0.portions.of(token).answers().available_permits() >= ANSWER_KIB);
        if own && self.0.answers.available_permits() >= ANSWER_KIB { Ok(()) } else { Err(unread()) }
    }

    /// An answer takes room in memory until its caller has read it. One that says what was changed is sent in any case.
    pub(crate) fn holding(&self, reply: Reply, token: Option<TokenId>, changes: bool) -> Result<Reply, Problem> {
        let Some(bytes) = reply.length().filter(|bytes| *bytes > SMALL_ANSWER) else { return Ok(reply) };
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let take = |room: &Arc<Semaphore>, most: u32| {
            let some = |kib: u32| Arc::clone(room).try_acquire_many_owned(kib).ok();
            match some(kib.min(most)) {
                // All that is left: then the next request that changes something is refused.
                None if changes => Ok(some(u32::try_from(room.available_permits()).unwrap_or(most))),
                None => Err(unread()),
                taken => Ok(taken),
            }
        };
        let of_token = match token.map(|token| self.0.portions.of(token)) {
            Some(portion) => Some((take(portion.answers(), ANSWERS_KIB_OF_ONE)?, portion)),
            None => None,
        };
        Ok(reply.holding((take(&self.0.answers, ANSWERS_KIB)?, of_token)))
    }

    /// What a form has sent, the room that it takes, and a place to work on it.
    pub(crate) async fn form(
        &self,
        asker: &Asker,
        body: Body,
    ) -> Result<(Bytes, Vec<OwnedSemaphorePermit>, Place), Problem> {
        let place = self.place_of_token(&asker.caller).await?;
        let (bytes, memory) = self.whole(FORM_BYTES, &asker.headers, body, place.as_ref()).await?;
        if !bytes.is_empty() && !is_of(&asker.headers, "application/x-www-form-urlencoded") {
            return Err(Problem::not_json("a form is sent as application/x-www-form-urlencoded"));
        }
        Ok((bytes, memory, self.place_of_all(place).await?))
    }

    /// A place for a request that has given its own away while it waited.
    pub(crate) async fn place(&self, caller: &Caller) -> Result<Place, Problem> {
        let place = self.place_of_token(caller).await?;
        self.place_of_all(place).await
    }

    async fn place_of_token(&self, caller: &Caller) -> Result<Option<PlaceOfToken>, Problem> {
        let Some(token) = caller.token() else { return Ok(None) };
        let portion = self.0.portions.of(token);
        let busy = || Problem::busy(format!("{REQUESTS_OF_ONE} requests with this token are being worked on"));
        let permit = turn(portion.requests(), 1).await.ok_or_else(busy)?;
        Ok(Some(PlaceOfToken { _permit: permit, portion }))
    }

    async fn place_of_all(&self, of_token: Option<PlaceOfToken>) -> Result<Place, Problem> {
        let busy = || Problem::busy("too many requests are being worked on");
        let of_all = turn(&self.0.requests, 1).await.ok_or_else(busy)?;
        Ok(Place { _of_all: of_all, _of_token: of_token })
    }

    /// Who asks; a route that the caller may not use at all ends here.
    async fn caller(&self, route: &Route, parts: &Parts, secure: bool, from: Address) -> Result<Caller, Problem> {
        if route.action.is_none() {
            return Ok(Caller::anybody());
        }
        let caller = self.admit(&parts.method, &parts.headers, secure, from).await?;
        may_use(&caller, route)?;
        seated(&parts.extensions, &caller)?;
        Ok(caller)
    }

    /// Who asks, by what its request presents.
    pub(crate) async fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        secure: bool,
        from: Address,
    ) -> Result<Caller, Problem> {
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        let admitted = self.0.door.admit(&self.0.turnwise, method, headers, secure, from);
        timeout(ANSWER_TIME, admitted).await.map_err(late)?
    }

    /// What a trusted proxy says about a request.
    pub(crate) fn forwarded(&self, parts: &mut Parts) -> Forwarded {
        // A request that names a host in its address is for that one, whatever its header says (RFC 9112, 3.2.2).
        let host = parts.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        if let Some(host) = host.filter(|host| parts.headers.get(header::HOST) != Some(host)) {
            // What the header says stays beside it: for two hosts no program of this machine asks.
            if let Some(other) = parts.headers.insert(header::HOST, host) {
                parts.headers.append(header::HOST, other);
            }
        }
        self.0.proxies.read(parts.extensions.get::<Peer>(), &mut parts.headers)
    }

    /// A route of the API as this caller gets it, asked by a page of this server: with the same rights, bounds and audit.
    pub(crate) async fn ask_within(
        &self,
        route: &'static Route,
        asker: &Asker,
        name: &str,
        parameters: Vec<(String, String)>,
        body: Bytes,
        once: Option<OnceKey>,
    ) -> Result<Reply, Problem> {
        if route.action.is_some() {
            may_use(&asker.caller, route)?;
        }
        #[cfg(test)]
        if let Some(instead) = self.0.instead.get() {
            return Reply::json(&instead(route, asker));
        }
        let call = Call {
            service: self.clone(),
            action: route.action,
            caller: asker.caller.clone(),
            grant: Arc::clone(&asker.caller.grant),
            name: name.to_owned(),
            query: Query::of(parameters),
            once,
            headers: asker.headers.clone(),
            secure: asker.secure,
            from: asker.from,
            watched: asker.headers.contains_key(WATCHED_HEADER),
            body,
            // The page has one.
            place: None,
        };
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        timeout(ANSWER_TIME, (route.handler)(call)).await.map_err(late)?
    }

    /// The body, and the room that it takes.
    async fn body(
        &self,
        route: &Route,
        headers: &HeaderMap,
        body: Body,
        place: Option<&PlaceOfToken>,
    ) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
        let Some(input) = &route.input else {
            // Not read: a caller that sends one all the same gets its answer.
            return Ok((Bytes::new(), Vec::new()));
        };
        let (bytes, memory) = self.whole(input.most, headers, body, place).await?;
        if bytes.is_empty() && !input.optional {
            return Err(Problem::malformed("the body is missing"));
        }
        if !bytes.is_empty() && !is_json(headers) {
            return Err(Problem::not_json("send the header content-type: application/json"));
        }
        Ok((bytes, memory))
    }

    /// A body of at most so many bytes.
    async fn whole(
        &self,
        most: usize,
        headers: &HeaderMap,
        body: Body,
        place: Option<&PlaceOfToken>,
    ) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), Problem> {
        // Nothing is unpacked: some kilobytes could become gigabytes.
        if headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(Problem::not_json("send the body as it is, without content-encoding"));
        }
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let too_large = || Problem::too_large(format!("the body may have {most} bytes here"));
        if length.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let mib = length.unwrap_or(most).div_ceil(MIB).max(1);
        let mib = u32::try_from(mib).unwrap_or(BODIES_MIB);
        let mut memory = Vec::new();
        if let Some(place) = place {
            let busy = || Problem::busy("too many large requests with this token are in memory");
            memory.push(turn(place.portion.bodies(), mib.min(BODIES_MIB_OF_ONE)).await.ok_or_else(busy)?);
        }
        let busy = || Problem::busy("too many large requests are in memory");
        memory.push(turn(&self.0.bodies, mib).await.ok_or_else(busy)?);
        let late = |_| Problem::too_slow(format!("the body must arrive within {} s", BODY_TIME.as_secs()));
        let bytes = timeout(BODY_TIME, to_bytes(body, most)).await.map_err(late)?.map_err(|error| {
            let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            if causes.any(|cause| cause.to_string().contains("length limit")) {
                too_large()
            } else {
                Problem::malformed("the body could not be read to its end")
            }
        })?;
        Ok((bytes, memory))
    }

    /// What every answer says to browsers and caches.
    fn with_headers(&self, origin: Option<HeaderValue>, answer: Result<Reply, Problem>) -> Response {
        let (framed_by, mut response) = match answer {
            Ok(mut reply) => (reply.take_framed_by(), reply.into_response()),
            Err(problem) => (None, problem.into_response()),
        };
        let headers = response.headers_mut();
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        let mut put = |name: HeaderName, value| drop(headers.insert(name, HeaderValue::from_static(value)));
        put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        put(header::REFERRER_POLICY, "no-referrer");
        // Of the two that say who may embed a page, the older one knows no origins.
        let policy = framed_by.and_then(|origins| {
            HeaderValue::try_from(POLICY.replace(NOBODY, &format!("frame-ancestors {origins}"))).ok()
        });
        if policy.is_none() {
            put(header::X_FRAME_OPTIONS, "DENY");
        }
        headers.insert(header::CONTENT_SECURITY_POLICY, policy.unwrap_or(HeaderValue::from_static(POLICY)));
        self.0.origins.answer(origin.as_ref(), headers);
        response
    }
}

/// Scripts, styles and pictures of the page itself, nothing from elsewhere; and no text becomes a script or an element.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// What of it says who may embed the page.
const NOBODY: &str = "frame-ancestors 'none'";

/// Whether the caller may use this route at all.
pub(crate) fn may_use(caller: &Caller, route: &Route) -> Result<(), Problem> {
    let Some(action) = route.action else { return Ok(()) };
    if !caller.grant.may(action.scope()) {
        return Err(Refusal::Scope(action.scope()).into());
    }
    if caller.grant.is_limited() && action.reach() == Reach::Installation {
        return Err(Refusal::Limited.into());
    }
    Ok(())
}

/// Who asks by way of a page.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) secure: bool,
    pub(crate) from: Address,
}

/// The connection that a request came on counts as its token's.
pub(crate) fn seated(of: &Extensions, caller: &Caller) -> Result<(), Problem> {
    match (of.get::<Connection>(), caller.token()) {
        (Some(connection), Some(token)) => connection.belongs_to(token),
        _ => Ok(()),
    }
}

fn unread() -> Problem {
    Problem::busy("too many long answers have not been read by their callers")
}

async fn turn(semaphore: &Arc<Semaphore>, count: u32) -> Option<OwnedSemaphorePermit> {
    timeout(TURN_TIME, Arc::clone(semaphore).acquire_many_owned(count)).await.ok()?.ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    is_of(headers, "application/json")
}

fn is_of(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}
