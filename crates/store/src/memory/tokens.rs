//! Tokens.

use std::cmp::Reverse;

use turnwise_core::{
    Timestamp,
    access::{MAX_TOKENS, NewToken, Token, TokenId},
    audit::NewAuditLine,
};

use super::MemoryStore;
use crate::{
    operators::{FoundToken, TokenHash, too_many_tokens},
    store::Result,
};

pub(super) fn create_token(
    store: &MemoryStore,
    token: NewToken,
    hash: TokenHash,
    line: Option<&NewAuditLine>,
) -> Result<Token> {
    let now = store.clock.now();
    let mut data = store.data();
    if let Some((known, _)) = data.tokens.get(&token.id) {
        return Ok(known.clone());
    }
    data.tokens.retain(|_, (token, _)| !token.is_spent(now));
    if data.tokens.len() >= MAX_TOKENS {
        return Err(too_many_tokens());
    }
    let token = token.created(now);
    data.tokens.insert(token.id, (token.clone(), hash));
    data.write_line(line, now);
    Ok(token)
}

pub(super) fn find_token(store: &MemoryStore, hash: TokenHash) -> Result<FoundToken> {
    let now = store.clock.now();
    let data = store.data();
    let found = data.tokens.values().find(|(_, known)| *known == hash);
    Ok(FoundToken { token: found.map(|(token, _)| token.clone()), any: !data.tokens.is_empty(), now })
}

pub(super) fn tokens(store: &MemoryStore) -> Result<(Vec<Token>, Timestamp)> {
    let mut tokens: Vec<Token> = store.data().tokens.values().map(|(token, _)| token.clone()).collect();
    tokens.sort_by_key(|token| Reverse((token.created_at, token.id)));
    Ok((tokens, store.clock.now()))
}

pub(super) fn revoke_token(store: &MemoryStore, id: TokenId, line: Option<&NewAuditLine>) -> Result<Option<Token>> {
    let now = store.clock.now();
    let mut data = store.data();
    let Some((token, _)) = data.tokens.get_mut(&id) else { return Ok(None) };
    let first = token.revoked_at.is_none();
    token.revoked_at.get_or_insert(now);
    let token = token.clone();
    data.write_line(line.filter(|_| first), now);
    Ok(Some(token))
}

pub(super) fn note_token_uses(store: &MemoryStore, ids: Vec<TokenId>) -> Result<()> {
    let now = store.clock.now();
    let mut data = store.data();
    for id in ids {
        if let Some((token, _)) = data.tokens.get_mut(&id).filter(|(token, _)| token.notes_use(now)) {
            token.last_used_at = Some(now);
        }
    }
    Ok(())
}
