//! Promises about tokens.

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use turnwise_core::{
    GroupName, QueueName, TokenName,
    access::{Grant, KEEP_DEAD_TOKENS, Limits, NewToken, Scope, Token, TokenId, TokenState},
};
use uuid::Uuid;

use super::{OperatorHarness, scene::SECOND};
use crate::{OperatorStore, Secret};

const MINUTE: Duration = SECOND.saturating_mul(60);

fn secret(n: u8) -> Secret {
    Secret::from_random([n; 32])
}

fn token_id(n: u8) -> TokenId {
    TokenId(Uuid::from_u128(u128::from(n)))
}

fn plain(n: u8) -> NewToken {
    NewToken {
        id: token_id(n),
        name: TokenName::new(format!("token {n}")).expect("a good name"),
        prefix: secret(n).prefix().to_owned(),
        grant: Grant::new([Scope::Read], Limits::default()).expect("a good grant"),
        rate: None,
        expires_at: None,
    }
}

async fn create(store: &Arc<dyn OperatorStore>, n: u8) -> Token {
    store.create_token(plain(n), secret(n).hash(), None).await.expect("create a token")
}

async fn find(store: &Arc<dyn OperatorStore>, n: u8) -> Option<Token> {
    store.find_token(secret(n).hash()).await.expect("find a token").token
}

async fn numbers(store: &Arc<dyn OperatorStore>) -> Vec<u128> {
    store.tokens().await.expect("tokens").0.iter().map(|token| token.id.0.as_u128()).collect()
}

pub async fn a_token_is_kept_with_all_that_was_said_of_it(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = store.find_token(secret(1).hash()).await.expect("find a token").now;
    let limits = Limits {
        queues: Some(BTreeSet::from([QueueName::new("slow").expect("a good name")])),
        groups: Some(["Küche & Söhne", "acme"].map(|name| GroupName::new(name).expect("a good name")).into()),
        tasks: None,
    };
    let token = NewToken {
        grant: Grant::new([Scope::Submit, Scope::Operate], limits).expect("a good grant"),
        rate: NonZeroU32::new(u32::MAX),
        expires_at: Some(now.plus(MINUTE)),
        ..plain(1)
    };
    let stored = store.create_token(token.clone(), secret(1).hash(), None).await.expect("create a token");
    assert_eq!(stored, token.created(now));
    assert_eq!(find(&store, 1).await, Some(stored.clone()));
    assert_eq!(store.tokens().await.expect("tokens"), (vec![stored], now));
}

pub async fn without_any_token_this_is_said(h: &impl OperatorHarness) {
    let store = h.operators().await;
    assert!(!store.find_token(secret(1).hash()).await.expect("find a token").any);
    assert_eq!(store.tokens().await.expect("tokens").0, []);
    create(&store, 1).await;
    store.revoke_token(token_id(1), None).await.expect("revoke a token");
    let found = store.find_token(secret(2).hash()).await.expect("find a token");
    assert_eq!((found.token, found.any), (None, true), "one was created, though it is not good any more");
}

pub async fn a_token_is_found_by_its_secret_and_by_no_other(h: &impl OperatorHarness) {
    let store = h.operators().await;
    for n in 1..=3 {
        create(&store, n).await;
    }
    for n in 1..=3 {
        assert_eq!(find(&store, n).await.map(|token| token.id), Some(token_id(n)));
    }
    assert_eq!(find(&store, 4).await, None);
    let mut nearly = secret(1).hash();
    nearly.0[31] ^= 1;
    assert_eq!(store.find_token(nearly).await.expect("find a token").token, None);
}

pub async fn a_token_created_twice_is_one(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let first = create(&store, 1).await;
    h.advance(MINUTE).await;
    assert_eq!(create(&store, 1).await, first, "the reply of the first call was lost");
    assert_eq!(numbers(&store).await, [1]);
}

pub async fn tokens_are_listed_newest_first(h: &impl OperatorHarness) {
    let store = h.operators().await;
    for n in [2, 3, 1] {
        create(&store, n).await;
        h.advance(SECOND).await;
    }
    assert_eq!(numbers(&store).await, [1, 3, 2]);
    store.revoke_token(token_id(3), None).await.expect("revoke a token");
    assert_eq!(numbers(&store).await, [1, 3, 2], "revoked ones are listed, too");
}

pub async fn a_revoked_token_stays_revoked_from_the_first_time(h: &impl OperatorHarness) {
    let store = h.operators().await;
    create(&store, 1).await;
    create(&store, 2).await;
    let first = store.revoke_token(token_id(1), None).await.expect("revoke a token").expect("it is there");
    assert_eq!(first.revoked_at, Some(first.created_at));
    assert_eq!(first.state(first.created_at), TokenState::Revoked);
    h.advance(MINUTE).await;
    assert_eq!(store.revoke_token(token_id(1), None).await.expect("revoke a token"), Some(first.clone()));
    assert_eq!(find(&store, 1).await, Some(first), "it is found, and known to be revoked");
    assert_eq!(find(&store, 2).await.map(|token| token.revoked_at), Some(None));
    assert_eq!(store.revoke_token(token_id(9), None).await.expect("revoke a token"), None);
}

pub async fn an_expired_token_is_found_and_says_so(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = store.tokens().await.expect("tokens").1;
    let brief = NewToken { expires_at: Some(now.plus(MINUTE)), ..plain(1) };
    store.create_token(brief, secret(1).hash(), None).await.expect("create a token");
    for (passed, state) in [(MINUTE - SECOND, TokenState::Active), (SECOND, TokenState::Expired)] {
        h.advance(passed).await;
        let found = store.find_token(secret(1).hash()).await.expect("find a token");
        assert_eq!(found.token.map(|token| token.state(found.now)), Some(state));
    }
}

pub async fn the_last_use_is_noted_once_a_minute(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let begin = create(&store, 1).await.created_at;
    create(&store, 2).await;
    let used = async |n| find(&store, n).await.and_then(|token| token.last_used_at);
    assert_eq!(used(1).await, None);
    let note = async |ids: &[u8]| {
        let ids = ids.iter().map(|n| token_id(*n)).collect();
        store.note_token_uses(ids).await.expect("note uses");
    };
    note(&[1, 9, 1]).await;
    assert_eq!((used(1).await, used(2).await), (Some(begin), None));
    h.advance(MINUTE - SECOND).await;
    note(&[1, 2]).await;
    assert_eq!((used(1).await, used(2).await), (Some(begin), Some(begin.plus(MINUTE - SECOND))));
    h.advance(SECOND).await;
    note(&[2, 1]).await;
    assert_eq!((used(1).await, used(2).await), (Some(begin.plus(MINUTE)), Some(begin.plus(MINUTE - SECOND))));
    note(&[]).await;
}

pub async fn tokens_dead_for_long_make_room_for_new_ones_and_leave_one_behind(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = store.tokens().await.expect("tokens").1;
    create(&store, 1).await;
    store.revoke_token(token_id(1), None).await.expect("revoke a token");
    let brief = NewToken { expires_at: Some(now.plus(MINUTE)), ..plain(2) };
    store.create_token(brief, secret(2).hash(), None).await.expect("create a token");
    h.advance(SECOND).await;
    create(&store, 3).await;
    h.advance(KEEP_DEAD_TOKENS - SECOND).await;
    assert_eq!(numbers(&store).await, [3, 2, 1], "a look deletes nothing");
    create(&store, 4).await;
    assert_eq!(numbers(&store).await, [4, 3, 2]);
    assert_eq!(find(&store, 1).await, None);
    h.advance(MINUTE).await;
    create(&store, 5).await;
    assert_eq!(numbers(&store).await, [5, 4, 3]);
}

pub async fn what_one_process_did_with_tokens_another_sees_at_once(h: &impl OperatorHarness) {
    let (one, other) = (h.operators().await, h.operators().await);
    let created = create(&one, 1).await;
    assert_eq!(find(&other, 1).await, Some(created));
    other.revoke_token(token_id(1), None).await.expect("revoke a token");
    assert!(find(&one, 1).await.is_some_and(|token| token.revoked_at.is_some()));
}
