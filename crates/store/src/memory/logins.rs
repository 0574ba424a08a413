//! Log-ins of people.

use std::cmp::Reverse;

use turnwise_core::access::{MAX_LOGINS, MAX_LOGINS_OF_ONE};

use super::MemoryStore;
use crate::{
    operators::{FoundLogin, NewLogin, TokenHash, too_many_logins},
    store::Result,
};

pub(super) fn log_in(store: &MemoryStore, login: NewLogin) -> Result<()> {
    let now = store.clock.now();
    let mut data = store.data();
    if data.logins.iter().any(|known| known.hash == login.hash) {
        return Ok(());
    }
    data.logins.retain(|known| known.until > now);
    let mut own: Vec<_> = data.logins.iter().filter(|known| known.token == login.token).collect();
    own.sort_unstable_by_key(|known| (Reverse(known.until), Reverse(known.hash.0)));
    let spare: Vec<_> = own.iter().skip(MAX_LOGINS_OF_ONE - 1).map(|known| known.hash).collect();
    data.logins.retain(|known| !spare.contains(&known.hash));
    if data.logins.len() >= MAX_LOGINS {
        return Err(too_many_logins());
    }
    data.logins.push(login);
    Ok(())
}

pub(super) fn find_login(store: &MemoryStore, hash: TokenHash) -> Result<Option<FoundLogin>> {
    let now = store.clock.now();
    let data = store.data();
    let Some(login) = data.logins.iter().find(|known| known.hash == hash) else { return Ok(None) };
    let token = data.tokens.get(&login.token).map(|(token, _)| token.clone());
    Ok(token.map(|token| FoundLogin { token, until: login.until, now }))
}

pub(super) fn log_out(store: &MemoryStore, hash: TokenHash) -> Result<()> {
    store.data().logins.retain(|known| known.hash != hash);
    Ok(())
}
