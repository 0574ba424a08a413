//! The HTTP API of `turnwise serve`.
//!
//! [`limits`] every bound, with its reason → `routes` the table of all routes: path, what the caller must be allowed to
//! do, what comes in and goes out → `service` the way of a request: `access` gives it its grant (`login` for people on
//! the page; `tries` bounds guesses, `portions` what one token takes, `connections` those that are open, `unread` bodies that were refused), `call` is what a handler gets and answers,
//! `problem` what goes wrong, with its `logs` → the handlers: `jobs`, with `form` for those of a body, `bulk` decisions by a filter, `names` of queues,
//! groups, tasks and keys, `schedules`, `fleet` for what concerns the whole installation, `doctor` what is wrong with it,
//! `health` → `page` the same for people, as HTML → `spans` of submits, `waits` long polls → `events` for listeners: `hub` is the one reader, `telling` makes
//! events of what it reads, `streams` sends them; `live_log` → `openapi` the description, made from the table →
//! `listen` connections, with `tls` or without; `origins` whose web pages may ask, `proxies` which may say where a
//! request comes from.
//!
//! It stands on the library `turnwise` alone: no SQL, no decision of its own but who may ask for what.

mod access;
mod audit;
mod bulk;
mod call;
mod connections;
mod doctor;
mod events;
mod fleet;
mod form;
mod health;
mod hub;
mod jobs;
pub mod limits;
mod listen;
mod live_log;
mod login;
mod logs;
mod metrics;
mod names;
mod openapi;
mod origins;
mod page;
mod portions;
mod problem;
mod proxies;
mod routes;
mod schedules;
mod service;
mod spans;
mod streams;
mod telling;
mod statistics;
mod tickets;
mod tls;
mod tokens;
mod tries;
mod unread;
mod waits;
mod workers;

pub use listen::Listening;
pub use openapi::document;
pub use origins::Origins;
pub use page::{Page, pages};
pub use proxies::Proxies;
pub use routes::{Input, Parameter, Route, Verb, routes};
pub use service::Service;
pub use spans::{Spans, SubmitSpan};
pub use tls::Certificate;
