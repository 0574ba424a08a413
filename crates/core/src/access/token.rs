//! A token as it may be shown: without its secret, of which only a hash is stored.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use uuid::Uuid;

use super::Grant;
use crate::{
    name::{Invalid, TokenName},
    time::Timestamp,
    words::words,
};

/// How long a person stays logged in to a page.
pub const LOGIN_FOR: Duration = Duration::from_secs(12 * 3600);

/// Log-ins that last at a time; a person who logs in beyond that is refused.
pub const MAX_LOGINS: usize = 10_000;

/// Log-ins with one token that last at a time; with one more the oldest of them ends. So no bearer of a token takes the places of all people, and
/// none is kept out of the page by log-ins that were left behind.
pub const MAX_LOGINS_OF_ONE: usize = 100;

/// Most tokens that are kept. They are listed whole, and looked through when a new one is created.
pub const MAX_TOKENS: usize = 10_000;

/// How long a token is listed after it was revoked or has expired; then the next one that is created takes its place.
pub const KEEP_DEAD_TOKENS: Duration = Duration::from_secs(400 * 86_400);

/// The time of a use is written at most this often: it would be a write for each request otherwise.
pub const NOTE_USE_EVERY: Duration = Duration::from_secs(60);

/// Chosen by the creator, so that a repeated call creates one token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct TokenId(pub Uuid);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for TokenId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::from_str(text).map(Self).map_err(|_| Invalid::new("token", format!("{text:?} is not a token's id")))
    }
}

/// A token that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Its id, a fresh one.
    pub id: TokenId,
    /// What it is for, in a few words.
    pub name: TokenName,
    /// How its secret begins.
    pub prefix: String,
    /// What it may do, and to which jobs.
    pub grant: Grant,
    /// Submits a second; `None`: as many as come.
    pub rate: Option<NonZeroU32>,
    /// From then on it is refused; `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// A token that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// What it is for, in a few words.
    pub name: TokenName,
    /// How its secret begins.
    pub prefix: String,
    /// What it may do, and to which jobs.
    pub grant: Grant,
    /// Submits a second; `None`: as many as come.
    pub rate: Option<NonZeroU32>,
    /// When it was created, by the database's clock.
    pub created_at: Timestamp,
    /// From then on it is refused; `None`: never.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute; `None`: never.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked; `None`: it was not.
    pub revoked_at: Option<Timestamp>,
}

/// Whether a token is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenState {
    /// It is accepted.
    Active,
    /// Its time is over.
    Expired,
    /// A person took it back.
    Revoked,
}

words!(TokenState, "state", "active" => Active, "expired" => Expired, "revoked" => Revoked);

impl NewToken {
    /// As it is stored at this time.
    pub fn created(self, now: Timestamp) -> Token {
        let NewToken { id, name, prefix, grant, rate, expires_at } = self;
        Token { id, name, prefix, grant, rate, created_at: now, expires_at, last_used_at: None, revoked_at: None }
    }
}

impl Token {
    /// Whether it is accepted at this time.
    pub fn state(&self, now: Timestamp) -> TokenState {
        if self.revoked_at.is_some() {
            TokenState::Revoked
        } else if self.expires_at.is_some_and(|expires| expires <= now) {
            TokenState::Expired
        } else {
            TokenState::Active
        }
    }

    /// Whether its last use is written if it is used now.
    pub fn notes_use(&self, now: Timestamp) -> bool {
        self.last_used_at.is_none_or(|last| last.plus(NOTE_USE_EVERY) <= now)
    }

    /// Whether it is dead for so long that it need not be listed any more.
    pub fn is_spent(&self, now: Timestamp) -> bool {
        let dead_since = [self.revoked_at, self.expires_at].into_iter().flatten().min();
        dead_since.is_some_and(|since| since.plus(KEEP_DEAD_TOKENS) <= now)
    }
}
