//! Tickets: what a host's backend gives to a page of its own, and the bearers that they are redeemed for.

use turnwise_core::{
    Timestamp,
    access::{Grant, MAX_TICKETS, MAX_TICKETS_OF_ONE, Token, TokenId},
};

use super::TokenHash;
use crate::StoreError;

/// A ticket that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTicket {
    /// Of its secret.
    pub hash: TokenHash,
    /// The token that it is made with.
    pub token: TokenId,
    /// What its bearer may do.
    pub grant: Grant,
    /// Origins whose pages may show it, as browsers write them: none has a space.
    pub origins: Vec<String>,
    /// Until when it can be redeemed.
    pub until: Timestamp,
}

/// A ticket that is to be redeemed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redeem {
    /// Of the ticket's secret.
    pub ticket: TokenHash,
    /// Of the bearer's.
    pub bearer: TokenHash,
    /// Until when the bearer is accepted.
    pub until: Timestamp,
}

/// What a look for a bearer has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTicket {
    /// The token that the ticket was made with.
    pub token: Token,
    /// What the bearer may do.
    pub grant: Grant,
    /// Origins whose pages may show it.
    pub origins: Vec<String>,
    /// Until when the bearer is accepted.
    pub until: Timestamp,
    /// The database's time.
    pub now: Timestamp,
}

/// The answer to one ticket too many, where there are so many in all and of the same token; `None`: there is room.
pub fn too_many_tickets(all: usize, of_token: usize) -> Option<StoreError> {
    let text = if of_token >= MAX_TICKETS_OF_ONE {
        format!("{MAX_TICKETS_OF_ONE} tickets of this token are in use, and no more can be; they end within 15 minutes")
    } else if all >= MAX_TICKETS {
        format!("{MAX_TICKETS} tickets are in use, and no more can be; they end within 15 minutes")
    } else {
        return None;
    };
    Some(StoreError::Refused(text))
}

/// Origins as text in a column.
pub fn origins_text(origins: &[String]) -> String {
    origins.join(" ")
}

/// The same, read back.
pub fn read_origins(text: &str) -> Vec<String> {
    text.split(' ').filter(|origin| !origin.is_empty()).map(str::to_owned).collect()
}
