//! Promises about log-ins.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    Timestamp, TokenName,
    access::{Grant, MAX_LOGINS_OF_ONE, NewToken, TokenId},
};
use uuid::Uuid;

use super::{OperatorHarness, scene::SECOND};
use crate::{FoundLogin, NewLogin, OperatorStore, Secret, TokenHash};

const HOUR: Duration = SECOND.saturating_mul(3600);

fn hash(n: u8) -> TokenHash {
    Secret::from_random([n; 32]).hash()
}

fn token_id(n: u8) -> TokenId {
    TokenId(Uuid::from_u128(u128::from(n)))
}

/// A token of this number.
async fn token(store: &Arc<dyn OperatorStore>, n: u8) -> Timestamp {
    let token = NewToken {
        id: token_id(n),
        name: TokenName::new(format!("token {n}")).expect("a good name"),
        prefix: "tw_".to_owned(),
        grant: Grant::unlimited(),
        rate: None,
        expires_at: None,
    };
    store.create_token(token, hash(100 + n), None).await.expect("create a token").created_at
}

async fn log_in(store: &Arc<dyn OperatorStore>, n: u8, token: u8, until: Timestamp) {
    store.log_in(NewLogin { hash: hash(n), token: token_id(token), until }).await.expect("log in");
}

async fn found(store: &Arc<dyn OperatorStore>, n: u8) -> Option<FoundLogin> {
    store.find_login(hash(n)).await.expect("find a log-in")
}

pub async fn a_log_in_leads_to_its_token_until_it_ends(h: &impl OperatorHarness) {
    let (store, other) = (h.operators().await, h.operators().await);
    let now = token(&store, 1).await;
    token(&store, 2).await;
    log_in(&store, 1, 1, now.plus(HOUR)).await;
    log_in(&store, 2, 2, now.plus(HOUR)).await;
    let one = found(&other, 1).await.expect("every server finds it");
    assert_eq!((one.token.id, one.until, one.now), (token_id(1), now.plus(HOUR), now));
    assert_eq!(found(&store, 2).await.map(|login| login.token.id), Some(token_id(2)));
    assert_eq!(found(&store, 3).await, None);
    h.advance(HOUR).await;
    let over = found(&store, 1).await;
    assert!(over.is_none_or(|login| login.until <= login.now), "what is over is gone, or is known to be over");
}

pub async fn a_log_in_ends_when_it_is_said_and_others_go_on(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    log_in(&store, 1, 1, now.plus(HOUR)).await;
    log_in(&store, 2, 1, now.plus(HOUR)).await;
    for _ in 0..2 {
        store.log_out(hash(1)).await.expect("log out");
    }
    store.log_out(hash(9)).await.expect("log out");
    assert_eq!(found(&store, 1).await, None);
    assert!(found(&store, 2).await.is_some());
}

pub async fn a_repeated_log_in_is_one(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    log_in(&store, 1, 1, now.plus(HOUR)).await;
    log_in(&store, 1, 1, now.plus(HOUR * 2)).await;
    assert_eq!(
        found(&store, 1).await.map(|login| login.until),
        Some(now.plus(HOUR)),
        "the reply of the first was lost"
    );
    store.log_out(hash(1)).await.expect("log out");
    assert_eq!(found(&store, 1).await, None);
}

pub async fn a_log_in_shows_that_its_token_was_revoked(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    log_in(&store, 1, 1, now.plus(HOUR)).await;
    store.revoke_token(token_id(1), None).await.expect("revoke a token");
    assert_eq!(found(&store, 1).await.and_then(|login| login.token.revoked_at), Some(now));
}

pub async fn log_ins_that_are_over_make_room(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    log_in(&store, 1, 1, now.plus(SECOND)).await;
    log_in(&store, 2, 1, now.plus(HOUR)).await;
    h.advance(SECOND).await;
    log_in(&store, 3, 1, now.plus(HOUR)).await;
    assert_eq!(found(&store, 1).await, None, "it is deleted with the next log-in");
    assert!(found(&store, 2).await.is_some() && found(&store, 3).await.is_some());
}

pub async fn of_too_many_log_ins_with_one_token_the_oldest_end(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    token(&store, 2).await;
    let most = u8::try_from(MAX_LOGINS_OF_ONE).expect("few");
    log_in(&store, 0, 2, now.plus(SECOND)).await;
    for n in 1..=most + 2 {
        log_in(&store, n, 1, now.plus(HOUR + SECOND * u32::from(n))).await;
    }
    // Its reply was lost.
    log_in(&store, most + 2, 1, now.plus(HOUR * 2)).await;
    let mut there = Vec::new();
    for n in 0..=most + 2 {
        there.extend(found(&store, n).await.map(|_| n));
    }
    let expected: Vec<u8> = std::iter::once(0).chain(3..=most + 2).collect();
    assert_eq!(there, expected, "the other token's log-in stays, and the newest of this one");
}
