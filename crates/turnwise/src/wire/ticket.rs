//! A ticket for the page that other pages embed.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Serialize;
use turnwise_core::{
    GroupName, Invalid, QueueName, TaskName, Timestamp,
    access::{Grant, Scope},
};

use super::{Unreadable, object, token};
use crate::access::{FoundTicket, Secret};

/// A ticket to make, as its caller wrote it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewTicket {
    /// The groups whose jobs the page shows.
    pub groups: Vec<String>,
    /// What can be done there: `read`, unless given, or `operate` too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Only jobs of these queues; empty: of all that the token may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Only jobs of these tasks; empty: of all that the token may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Whose pages may embed it, as browsers write it: `https://app.example`.
    pub origins: Vec<String>,
}

impl NewTicket {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or of another kind. Values are checked by
    /// [`NewTicket::to_grant`], origins by the server.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let (mut ticket, mut groups, mut origins) = (Self::default(), None, None);
        object::read(json, ["groups", "scopes", "queues", "tasks", "origins"], |field, value| {
            match field {
                "groups" => groups = Some(token::limit(field, value)?),
                "scopes" => ticket.scopes = object::texts(field, value)?,
                "queues" => ticket.queues = token::limit(field, value)?,
                "tasks" => ticket.tasks = token::limit(field, value)?,
                _ => origins = Some(object::texts(field, value)?),
            }
            Ok(())
        })?;
        ticket.groups = groups.ok_or_else(|| Invalid::new("groups", "is missing"))?;
        ticket.origins = origins.ok_or_else(|| Invalid::new("origins", "is missing"))?;
        Ok(ticket)
    }

    /// What its bearer is to be allowed, or the first value that is invalid.
    pub fn to_grant(&self) -> Result<Grant, Invalid> {
        let scopes = if self.scopes.is_empty() { vec![Scope::Read] } else { token::scopes(&self.scopes)? };
        let limits = token::limits(&self.queues, &self.groups, &self.tasks)?;
        Grant::of_ticket(scopes, limits).map_err(token::plural)
    }
}

/// A ticket that was just made, with its secret: it is shown once.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CreatedTicket<'a> {
    /// Its secret.
    pub ticket: &'a str,
    /// Until when it can be redeemed.
    pub until: Timestamp,
    /// What the frame shows, below the address of the server: the ticket is in its fragment, which browsers send to no server.
    pub path: String,
}

impl<'a> CreatedTicket<'a> {
    /// For pages of these origins.
    pub fn new(secret: &'a Secret, until: Timestamp, origins: &[String]) -> Self {
        let named: Vec<_> = origins.iter().map(|origin| format!("origin={origin}")).collect();
        let path = format!("/embed?{}#{}", named.join("&"), secret.reveal());
        Self { ticket: secret.reveal(), until, path }
    }
}

/// A ticket to redeem.
#[derive(Debug)]
#[non_exhaustive]
pub struct Redeem<'a> {
    /// Its secret.
    pub ticket: Cow<'a, str>,
    /// Whose pages may embed the page that redeems it, as the server told that page.
    pub origins: Vec<String>,
}

impl<'a> Redeem<'a> {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or of another kind.
    pub fn read(json: &'a str) -> Result<Self, Unreadable> {
        let (mut ticket, mut origins) = (None, None);
        object::read(json, ["ticket", "origins"], |field, value| {
            match field {
                "ticket" => ticket = Some(object::text(field, value)?),
                _ => origins = Some(object::texts(field, value)?),
            }
            Ok(())
        })?;
        let ticket = ticket.ok_or_else(|| Invalid::new("ticket", "is missing"))?;
        Ok(Self { ticket, origins: origins.ok_or_else(|| Invalid::new("origins", "is missing"))? })
    }
}

/// What a ticket was redeemed for.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Redeemed<'a> {
    /// What is sent as `Authorization: Bearer` from now on.
    pub bearer: &'a str,
    /// Until when it is accepted.
    pub until: Timestamp,
    /// What it may do.
    pub scopes: &'a BTreeSet<Scope>,
    /// The queues it is limited to; `null`: it is not.
    pub queues: Option<&'a BTreeSet<QueueName>>,
    /// The groups it is limited to.
    pub groups: Option<&'a BTreeSet<GroupName>>,
    /// The tasks it is limited to; `null`: it is not.
    pub tasks: Option<&'a BTreeSet<TaskName>>,
}

impl<'a> Redeemed<'a> {
    /// The bearer with its secret.
    pub fn new(bearer: &'a Secret, found: &'a FoundTicket) -> Self {
        let limits = found.grant.limits();
        Self {
            bearer: bearer.reveal(),
            until: found.until,
            scopes: found.grant.scopes(),
            queues: limits.queues.as_ref(),
            groups: limits.groups.as_ref(),
            tasks: limits.tasks.as_ref(),
        }
    }
}
