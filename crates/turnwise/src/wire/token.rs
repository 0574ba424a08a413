//! A token.

use std::{collections::BTreeSet, num::NonZeroU32};

use serde::Serialize;
use turnwise_core::{
    GroupName, QueueName, TaskName, Timestamp, TokenName,
    access::{Scope, TokenId, TokenState},
};

/// A token, without its secret.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Token<'a> {
    /// Its id.
    pub id: TokenId,
    /// What it is for.
    pub name: &'a TokenName,
    /// How its secret begins.
    pub prefix: &'a str,
    /// What it may do.
    pub scopes: &'a BTreeSet<Scope>,
    /// The queues it is limited to; `null`: it is not.
    pub queues: Option<&'a BTreeSet<QueueName>>,
    /// The groups it is limited to; `null`: it is not.
    pub groups: Option<&'a BTreeSet<GroupName>>,
    /// The tasks it is limited to; `null`: it is not.
    pub tasks: Option<&'a BTreeSet<TaskName>>,
    /// Submits a second, at most; `null`: as many as come.
    pub rate: Option<NonZeroU32>,
    /// `active`, `expired` or `revoked`.
    pub state: TokenState,
    /// When it was created.
    pub created_at: Timestamp,
    /// From when on it is refused; `null`: never.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute; `null`: never.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked; `null`: it was not.
    pub revoked_at: Option<Timestamp>,
}

impl<'a> Token<'a> {
    /// The token as it is seen at this time.
    pub fn new(token: &'a crate::access::Token, now: Timestamp) -> Self {
        let limits = token.grant.limits();
        Self {
            id: token.id,
            name: &token.name,
            prefix: &token.prefix,
            scopes: token.grant.scopes(),
            queues: limits.queues.as_ref(),
            groups: limits.groups.as_ref(),
            tasks: limits.tasks.as_ref(),
            rate: token.rate,
            state: token.state(now),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            revoked_at: token.revoked_at,
        }
    }
}

/// A token that was just created, with its secret: it is shown once.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct CreatedToken<'a> {
    /// What its bearer presents.
    pub secret: &'a str,
    /// The token itself.
    #[serde(flatten)]
    pub token: Token<'a>,
}

impl<'a> CreatedToken<'a> {
    /// The token as it was created.
    pub fn new(created: &'a crate::access::CreatedToken) -> Self {
        let token = &created.token;
        Self { secret: created.secret.reveal(), token: Token::new(token, token.created_at) }
    }
}
