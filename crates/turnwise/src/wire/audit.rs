//! The audit log.

use serde::Serialize;
use turnwise_core::{Json, Timestamp};

use crate::audit::AuditPage;

/// One change: who made it, what it was.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct AuditLine<'a> {
    /// Its id.
    pub id: String,
    /// When it was written, by the database's clock.
    pub at: Timestamp,
    /// Who made it: `token:` and an id, `cli:` and a user with the host, or a name that a program gave.
    pub actor: &'a str,
    /// Of a token: what it is called, and how its secret begins; `null`: the actor is none.
    pub actor_name: Option<&'a str>,
    /// What was done, such as `cancel`, `set` or `pause`.
    pub verb: &'a str,
    /// What it was done to, such as `job:` and an id, `queue:mail` or `installation`.
    pub target: &'a str,
    /// What it was before, in as far as it was changed; `null`: it was not there.
    pub before: Option<&'a Json>,
    /// What it was then; `null`: it was gone.
    pub after: Option<&'a Json>,
}

impl<'a> AuditLine<'a> {
    /// The line.
    pub fn new(line: &'a crate::audit::AuditLine) -> Self {
        Self {
            id: line.id.0.to_string(),
            at: line.at,
            actor: line.actor.id().as_str(),
            actor_name: line.actor.label(),
            verb: &line.verb,
            target: &line.target,
            before: line.before.as_ref(),
            after: line.after.as_ref(),
        }
    }
}

/// A page of the audit log, newest first.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct AuditLines<'a> {
    /// At most as many as were asked for.
    pub lines: Vec<AuditLine<'a>>,
    /// To be given as `cursor` for the next page; `null`: this is the last one.
    pub next: Option<String>,
}

impl<'a> AuditLines<'a> {
    /// The page.
    pub fn new(page: &'a AuditPage) -> Self {
        Self { lines: page.lines.iter().map(AuditLine::new).collect(), next: page.next.map(|next| next.to_string()) }
    }
}
