//! A token.

use std::{borrow::Cow, collections::BTreeSet, num::NonZeroU32, str::FromStr};

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{
    GroupName, Invalid, QueueName, TaskName, Timestamp, TokenName,
    access::{Grant, Limits, Scope, TokenId, TokenState},
    time::parse_span,
};

use super::{Unreadable, object};
use crate::access::NewAccess;

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

/// All tokens, newest first, revoked and expired ones among them.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Tokens<'a> {
    /// The database's time of the answer.
    pub now: Timestamp,
    /// Without their secrets.
    pub tokens: Vec<Token<'a>>,
}

impl<'a> Tokens<'a> {
    /// As they are seen at this time.
    pub fn new(tokens: &'a [crate::access::Token], now: Timestamp) -> Self {
        Self { now, tokens: tokens.iter().map(|token| Token::new(token, now)).collect() }
    }
}

/// A token to create, as its caller wrote it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewToken {
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The queues it is limited to; empty: it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The groups it is limited to; empty: it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The tasks it is limited to; empty: it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// How long it is accepted, such as `30d`. Default: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Submits a second, at most. Default: as many as come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

impl NewToken {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or of another kind. Values
    /// are checked by [`NewToken::to_access`].
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let (mut token, mut name) = (Self::default(), None);
        let names = ["name", "scopes", "queues", "groups", "tasks", "expires", "rate"];
        object::read(json, names, |field, value| {
            match field {
                "name" => name = Some(object::text(field, value)?.into_owned()),
                "scopes" => token.scopes = object::texts(field, value)?,
                "queues" => token.queues = limit(field, value)?,
                "groups" => token.groups = limit(field, value)?,
                "tasks" => token.tasks = limit(field, value)?,
                "expires" => token.expires = Some(object::text(field, value)?.into_owned()),
                _ => token.rate = Some(object::count(field, value)?),
            }
            Ok(())
        })?;
        token.name = name.ok_or_else(|| Invalid::new("name", "is missing"))?;
        Ok(token)
    }

    /// What is to be created, or the first value that is invalid.
    pub fn to_access(&self) -> Result<NewAccess, Invalid> {
        let scopes = scopes(&self.scopes)?;
        let limits = limits(&self.queues, &self.groups, &self.tasks)?;
        let grant = Grant::new(scopes, limits).map_err(plural)?;
        let named = |invalid: Invalid| Invalid::new("name", invalid.problem);
        let mut access = NewAccess::new(&self.name, grant).map_err(named)?;
        if let Some(span) = &self.expires {
            access = access.expires_in(parse_span("expires", span)?)?;
        }
        if let Some(rate) = self.rate {
            let rate = u32::try_from(rate).ok().and_then(NonZeroU32::new);
            access = access.rate(rate.ok_or_else(|| Invalid::new("rate", "must be a number from 1 on"))?);
        }
        Ok(access)
    }
}

/// The names of a limit. No names at all must not make a token for everything: its maker may have found none.
pub(super) fn limit(field: &'static str, value: &RawValue) -> Result<Vec<String>, Invalid> {
    match object::texts(field, value)? {
        names if names.is_empty() => {
            Err(Invalid::new(field, "a limit must name at least one; leave it out for no limit"))
        }
        names => Ok(names),
    }
}

/// The scopes that a caller has named.
pub(super) fn scopes(texts: &[String]) -> Result<Vec<Scope>, Invalid> {
    let scope = |scope: &String| scope.trim().parse().map_err(|bad: Invalid| Invalid::new("scopes", bad.problem));
    texts.iter().map(scope).collect()
}

/// The limits that a caller has named; none of a kind: not limited to it.
pub(super) fn limits(queues: &[String], groups: &[String], tasks: &[String]) -> Result<Limits, Invalid> {
    fn names<N: FromStr<Err = Invalid> + Ord>(
        field: &'static str,
        texts: &[String],
    ) -> Result<Option<BTreeSet<N>>, Invalid> {
        let read = |text: &String| text.parse().map_err(|invalid: Invalid| Invalid::new(field, invalid.problem));
        let names = texts.iter().map(read).collect::<Result<BTreeSet<N>, _>>()?;
        Ok((!names.is_empty()).then_some(names))
    }
    Ok(Limits { queues: names("queues", queues)?, groups: names("groups", groups)?, tasks: names("tasks", tasks)? })
}

/// A grant's own words name one of several: the fields here have the names of many.
pub(super) fn plural(invalid: Invalid) -> Invalid {
    match invalid.field {
        "scope" => Invalid::new("scopes", invalid.problem),
        "queue" => Invalid::new("queues", invalid.problem),
        "group" => Invalid::new("groups", invalid.problem),
        "task" => Invalid::new("tasks", invalid.problem),
        _ => invalid,
    }
}

/// A person who logs in to a page.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogIn<'a> {
    /// The secret of a token.
    pub token: Cow<'a, str>,
}

impl<'a> LogIn<'a> {
    /// Reads `{"token": "tw_…"}`. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &'a str) -> Result<Self, Unreadable> {
        let mut token = None;
        object::read(json, ["token"], |name, value| {
            token = Some(object::text(name, value)?);
            Ok(())
        })?;
        Ok(Self { token: token.ok_or_else(|| Invalid::new("token", "is missing"))? })
    }
}

/// Who a caller is to the server.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct LoggedIn<'a> {
    /// What the token is for; `null`: there is none.
    pub name: Option<&'a TokenName>,
    /// How the token's secret begins; `null`: there is none.
    pub prefix: Option<&'a str>,
    /// What the caller may do; nothing after a log-out.
    pub scopes: BTreeSet<Scope>,
    /// The queues that it is limited to; `null`: it is not.
    pub queues: Option<&'a BTreeSet<QueueName>>,
    /// The groups that it is limited to; `null`: it is not.
    pub groups: Option<&'a BTreeSet<GroupName>>,
    /// The tasks that it is limited to; `null`: it is not.
    pub tasks: Option<&'a BTreeSet<TaskName>>,
    /// When the log-in is over; `null`: a program with a token, or without one.
    pub until: Option<Timestamp>,
}

impl<'a> LoggedIn<'a> {
    /// The bearer of a token, logged in until then or not at all.
    pub fn with(token: &'a crate::access::Token, until: Option<Timestamp>) -> Self {
        let limits = token.grant.limits();
        Self {
            name: Some(&token.name),
            prefix: Some(&token.prefix),
            scopes: token.grant.scopes().clone(),
            queues: limits.queues.as_ref(),
            groups: limits.groups.as_ref(),
            tasks: limits.tasks.as_ref(),
            until,
        }
    }

    /// The bearer of a ticket: nothing is said of the token that it was made with.
    pub fn by_ticket(grant: &'a Grant, until: Option<Timestamp>) -> Self {
        let limits = grant.limits();
        Self {
            scopes: grant.scopes().clone(),
            queues: limits.queues.as_ref(),
            groups: limits.groups.as_ref(),
            tasks: limits.tasks.as_ref(),
            until,
            ..Self::logged_out()
        }
    }

    /// A program of the same machine, while there are no tokens: it may do everything.
    pub fn unlimited() -> Self {
        Self { scopes: Scope::ALL.into(), ..Self::logged_out() }
    }

    /// A caller that has logged out: it may do nothing.
    pub fn logged_out() -> Self {
        let scopes = BTreeSet::new();
        Self { name: None, prefix: None, scopes, queues: None, groups: None, tasks: None, until: None }
    }
}
