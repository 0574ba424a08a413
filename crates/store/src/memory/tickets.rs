//! Tickets, and the bearers that they are redeemed for.

use turnwise_core::audit::NewAuditLine;

use super::MemoryStore;
use crate::{
    operators::{FoundTicket, NewTicket, Redeem, TokenHash, too_many_tickets},
    store::Result,
};

/// A ticket, and once it is redeemed the hash of its bearer, until when that is accepted being `until`.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    ticket: NewTicket,
    bearer: Option<TokenHash>,
}

pub(super) fn make(store: &MemoryStore, ticket: NewTicket, line: Option<&NewAuditLine>) -> Result<()> {
    let now = store.clock.now();
    let mut data = store.data();
    if data.tickets.contains_key(&ticket.hash.0) {
        return Ok(());
    }
    data.tickets.retain(|_, known| known.ticket.until > now);
    let of_token = data.tickets.values().filter(|known| known.ticket.token == ticket.token).count();
    if let Some(refused) = too_many_tickets(data.tickets.len(), of_token) {
        return Err(refused);
    }
    data.tickets.insert(ticket.hash.0, Kept { ticket, bearer: None });
    data.write_line(line, now);
    Ok(())
}

pub(super) fn redeem(store: &MemoryStore, redeem: Redeem) -> Result<Option<FoundTicket>> {
    let now = store.clock.now();
    let mut data = store.data();
    let ticket = data.tickets.get_mut(&redeem.ticket.0);
    if let Some(known) = ticket.filter(|known| known.bearer.is_none() && known.ticket.until > now) {
        (known.bearer, known.ticket.until) = (Some(redeem.bearer), redeem.until);
    }
    drop(data);
    find_bearer(store, redeem.bearer)
}

pub(super) fn find_bearer(store: &MemoryStore, hash: TokenHash) -> Result<Option<FoundTicket>> {
    let now = store.clock.now();
    let data = store.data();
    let found = data.tickets.values().find(|known| known.bearer == Some(hash));
    let Some(Kept { ticket: NewTicket { token, grant, origins, until, .. }, .. }) = found.cloned() else {
        return Ok(None);
    };
    let token = data.tokens.get(&token).map(|(token, _)| token.clone());
    Ok(token.map(|token| FoundTicket { token, grant, origins, until, now }))
}
