//! The service: what all requests share, and the way of a request from its bytes to its answer.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{RawPathParams, Request, rejection::RawPathParamsRejection},
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
    response::{IntoResponse, Response},
    routing::on,
};
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use turnwise::Turnwise;
use turnwise_core::access::{Reach, Refusal};

use crate::{
    access::{Caller, Door},
    call::{Call, Query, Reply},
    limits::{ANSWER_TIME, BODIES_MIB, BODY_TIME, HEAVY, LONGEST_WAIT, REQUESTS, TURN_TIME},
    problem::Problem,
    routes::{Route, routes},
    waits::Waits,
};

const MIB: usize = 1024 * 1024;

/// Answers HTTP requests about the jobs of one database; clones share it.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    turnwise: Turnwise,
    door: Door,
    waits: Waits,
    /// Whether the process is about to end.
    stopping: watch::Sender<bool>,
    requests: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    /// Mebibytes.
    bodies: Arc<Semaphore>,
}

impl Service {
    /// On this database.
    pub fn new(turnwise: Turnwise) -> Self {
        Self(Arc::new(Shared {
            turnwise,
            door: Door::default(),
            waits: Waits::default(),
            stopping: watch::Sender::new(false),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            heavy: Arc::new(Semaphore::new(HEAVY)),
            bodies: Arc::new(Semaphore::new(BODIES_MIB as usize)),
        }))
    }

    pub(crate) fn turnwise(&self) -> &Turnwise {
        &self.0.turnwise
    }

    pub(crate) fn door(&self) -> &Door {
        &self.0.door
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.0.waits
    }

    /// Whether any token was ever created; from then on every request needs one.
    pub async fn has_tokens(&self) -> Result<bool, turnwise::Error> {
        self.0.door.any(&self.0.turnwise).await
    }

    /// From now on `/readyz` answers 503, and long polls are answered at once. Everything else goes on until the listener stops.
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

    /// A turn of the few requests that look at the whole backlog.
    pub(crate) async fn heavy(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = || Problem::busy("other requests look at the whole backlog; only one does at a time");
        turn(&self.0.heavy, 1).await.ok_or_else(busy)
    }

    /// All routes, to be served by a listener or asked by a test.
    pub fn router(&self) -> Router {
        static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(routes);
        let mut router = Router::new();
        for route in ROUTES.iter() {
            let service = self.clone();
            let handler = move |params: Result<RawPathParams, RawPathParamsRejection>, request: Request| {
                let service = service.clone();
                async move { with_headers(service.answer(route, params, request).await) }
            };
            router = router.route(route.path, on(route.verb.filter(), handler));
        }
        let nothing = || async { with_headers(Err(Problem::not_found("nothing is served at this path; see /docs"))) };
        let wrong_method = || async { with_headers(Err(Problem::wrong_method("see /docs"))) };
        router.fallback(nothing).method_not_allowed_fallback(wrong_method)
    }

    async fn answer(
        &self,
        route: &'static Route,
        params: Result<RawPathParams, RawPathParamsRejection>,
        request: Request,
    ) -> Result<Reply, Problem> {
        let (parts, body) = request.into_parts();
        let caller = self.caller(route, &parts).await?;
        let params = params.map_err(|_| Problem::malformed("the path is not UTF-8"))?;
        let name = params.iter().next().map(|(_, value)| value.to_owned()).unwrap_or_default();
        let known: Vec<_> = route.parameters.iter().map(|parameter| parameter.name).collect();
        let many: Vec<_> = route.parameters.iter().filter(|parameter| parameter.many).map(|one| one.name).collect();
        let query = Query::read(parts.uri.query().unwrap_or_default(), &known, &many)?;
        let (body, _memory) = self.body(route, &parts.headers, body).await?;
        let _turn = if route.waits {
            // It waits for a job, not for the database.
            None
        } else {
            let busy = || Problem::busy("too many requests are being worked on");
            Some(turn(&self.0.requests, 1).await.ok_or_else(busy)?)
        };
        let grant = Arc::clone(&caller.grant);
        let call = Call { service: self.clone(), action: route.action, caller, grant, name, query, body };
        let most = ANSWER_TIME + if route.waits { LONGEST_WAIT } else { Duration::ZERO };
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        timeout(most, (route.handler)(call)).await.map_err(late)?
    }

    /// Who asks; a route that the caller may not use at all ends here.
    async fn caller(&self, route: &Route, parts: &Parts) -> Result<Caller, Problem> {
        let Some(action) = route.action else { return Ok(Caller::anybody()) };
        let late = |_| Problem::away("there was no answer in time; the database may be out of reach");
        let admitted = timeout(ANSWER_TIME, self.0.door.admit(&self.0.turnwise, &parts.headers)).await;
        let caller = admitted.map_err(late)??;
        let grant = &caller.grant;
        if !grant.may(action.scope()) {
            return Err(Refusal::Scope(action.scope()).into());
        }
        if grant.is_limited() && action.reach() == Reach::Installation {
            return Err(Refusal::Limited.into());
        }
        Ok(caller)
    }

    /// The body, and the room that it takes.
    async fn body(
        &self,
        route: &Route,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
        let Some(input) = &route.input else {
            // Not read: a caller that sends one all the same gets its answer, and the connection is closed.
            return Ok((Bytes::new(), None));
        };
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let too_large = || Problem::too_large(format!("the body may have {} bytes here", input.most));
        if length.is_some_and(|length| length > input.most) {
            return Err(too_large());
        }
        let mib = length.unwrap_or(input.most).div_ceil(MIB).max(1);
        let busy = || Problem::busy("too many large requests are in memory");
        let memory = turn(&self.0.bodies, u32::try_from(mib).unwrap_or(BODIES_MIB)).await.ok_or_else(busy)?;
        let late = |_| Problem::too_slow(format!("the body must arrive within {} s", BODY_TIME.as_secs()));
        let bytes = timeout(BODY_TIME, to_bytes(body, input.most)).await.map_err(late)?.map_err(|error| {
            let mut causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            if causes.any(|cause| cause.to_string().contains("length limit")) {
                too_large()
            } else {
                Problem::malformed("the body could not be read to its end")
            }
        })?;
        if bytes.is_empty() && !input.optional {
            return Err(Problem::malformed("the body is missing"));
        }
        if !bytes.is_empty() && !is_json(headers) {
            return Err(Problem::not_json("send the header content-type: application/json"));
        }
        Ok((bytes, Some(memory)))
    }
}

async fn turn(semaphore: &Arc<Semaphore>, count: u32) -> Option<OwnedSemaphorePermit> {
    timeout(TURN_TIME, Arc::clone(semaphore).acquire_many_owned(count)).await.ok()?.ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// What every answer says to browsers and caches.
fn with_headers(answer: Result<Reply, Problem>) -> Response {
    let mut response = match answer {
        Ok(reply) => reply.into_response(),
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value| drop(headers.insert(name, HeaderValue::from_static(value)));
    put(header::CACHE_CONTROL, "no-store");
    put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(header::X_FRAME_OPTIONS, "DENY");
    // Scripts and styles of the page itself, nothing from elsewhere.
    let policy = "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    put(header::CONTENT_SECURITY_POLICY, policy);
    put(header::REFERRER_POLICY, "no-referrer");
    response
}
