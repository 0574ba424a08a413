//! The HTTP API of `turnwise serve`.
//!
//! [`limits`] every bound, with its reason → `routes` the table of all routes: path, what the caller must be allowed to do, what comes
//! in and goes out → `service` the way of a request: `access` gives it its grant, `call` is what a handler gets and answers,
//! `problem` what goes wrong → the handlers: `jobs`, `bulk` decisions by a filter, `names` of queues, groups, tasks and keys,
//! `schedules`, `fleet` for what concerns the whole installation, `health` → `waits` long polls → `openapi` the description,
//! made from the table → `listen` connections.
//!
//! It stands on the library `turnwise` alone: no SQL, no decision of its own but who may ask for what.

mod access;
mod bulk;
mod call;
mod fleet;
mod health;
mod jobs;
pub mod limits;
mod listen;
mod names;
mod openapi;
mod problem;
mod routes;
mod schedules;
mod service;
mod waits;

pub use listen::Listening;
pub use openapi::document;
pub use routes::{Input, Parameter, Route, Verb, routes};
pub use service::Service;
