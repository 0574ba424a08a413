//! Promises about tickets and the bearers that they are redeemed for.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    GroupName, Timestamp, TokenName,
    access::{Grant, Limits, MAX_TICKETS_OF_ONE, NewToken, Scope, TokenId},
    audit::{Actor, AuditId, NewAuditLine},
};
use uuid::Uuid;

use super::{
    OperatorHarness,
    scene::{SECOND, until_answered},
};
use crate::{AskAudit, AuditFilter, FoundTicket, NewTicket, OperatorStore, Redeem, Secret, TokenHash};

const MINUTE: Duration = SECOND.saturating_mul(60);

fn hash(n: u16) -> TokenHash {
    let mut bits = [0; 32];
    bits[..2].copy_from_slice(&n.to_be_bytes());
    Secret::of_ticket(bits).hash()
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
    store.create_token(token, hash(60_000 + u16::from(n)), None).await.expect("create a token").created_at
}

fn grant() -> Grant {
    let groups = [GroupName::new("acme").expect("a good name")].into();
    Grant::new([Scope::Operate], Limits { groups: Some(groups), ..Limits::default() }).expect("a good grant")
}

fn ticket(n: u16, token: u8, until: Timestamp) -> NewTicket {
    let origins = vec!["https://app.example".to_owned(), "http://localhost:3000".to_owned()];
    NewTicket { hash: hash(n), token: token_id(token), grant: grant(), origins, until }
}

async fn make(store: &Arc<dyn OperatorStore>, n: u16, token: u8, until: Timestamp) {
    store.make_ticket(ticket(n, token, until), None).await.expect("make a ticket");
}

async fn redeem(store: &Arc<dyn OperatorStore>, n: u16, bearer: u16, until: Timestamp) -> Option<FoundTicket> {
    let redeem = Redeem { ticket: hash(n), bearer: hash(bearer), until };
    store.redeem_ticket(redeem).await.expect("redeem a ticket")
}

async fn found(store: &Arc<dyn OperatorStore>, bearer: u16) -> Option<FoundTicket> {
    store.find_bearer(hash(bearer)).await.expect("find a bearer")
}

pub async fn a_ticket_is_redeemed_once_for_a_bearer_that_every_server_finds(h: &impl OperatorHarness) {
    let (store, other) = (h.operators().await, h.operators().await);
    let now = token(&store, 1).await;
    make(&store, 1, 1, now.plus(MINUTE)).await;
    assert_eq!(found(&other, 1).await, None, "a ticket is no bearer");
    let until = now.plus(MINUTE * 15);
    let redeemed = redeem(&other, 1, 11, until).await.expect("another server redeems it");
    assert_eq!((redeemed.token.id, &redeemed.grant, redeemed.until, redeemed.now), (token_id(1), &grant(), until, now));
    assert_eq!(redeemed.origins, ["https://app.example", "http://localhost:3000"]);
    assert_eq!(found(&store, 11).await.as_ref(), Some(&redeemed));
    assert_eq!(redeem(&store, 1, 12, until).await, None, "it was redeemed");
    assert_eq!((found(&store, 12).await, found(&store, 1).await), (None, None));
    h.advance(MINUTE * 15).await;
    let over = found(&store, 11).await;
    assert!(over.is_none_or(|bearer| bearer.until <= bearer.now), "what is over is gone, or is known to be over");
}

pub async fn a_redemption_whose_reply_was_lost_is_repeated_and_another_one_is_refused(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    make(&store, 1, 1, now.plus(MINUTE)).await;
    let until = now.plus(MINUTE * 15);
    let first = redeem(&store, 1, 11, until).await;
    assert!(first.is_some());
    assert_eq!(redeem(&store, 1, 11, until.plus(MINUTE)).await, first, "the first call counts");
    assert_eq!(redeem(&store, 1, 12, until).await, None);
    assert_eq!(redeem(&store, 2, 13, until).await, None, "there is no such ticket");
}

pub async fn of_sixteen_that_redeem_a_ticket_one_gets_its_bearer(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    make(&store, 1, 1, now.plus(MINUTE)).await;
    let until = now.plus(MINUTE * 15);
    let mut callers = Vec::new();
    for n in 0..16 {
        let store = h.operators().await;
        let redeem = Redeem { ticket: hash(1), bearer: hash(100 + n), until };
        callers.push(tokio::spawn(async move { until_answered(|| store.redeem_ticket(redeem)).await.is_some() }));
    }
    let (mut redeemed, mut bearers) = (0, 0);
    for (n, caller) in (0..).zip(callers) {
        redeemed += usize::from(caller.await.expect("a caller"));
        bearers += usize::from(found(&store, 100 + n).await.is_some());
    }
    assert_eq!((redeemed, bearers), (1, 1));
}

pub async fn a_ticket_that_is_over_is_not_redeemed(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    make(&store, 1, 1, now.plus(MINUTE)).await;
    h.advance(MINUTE).await;
    assert_eq!(redeem(&store, 1, 11, now.plus(MINUTE * 15)).await, None);
    assert_eq!(found(&store, 11).await, None);
}

pub async fn a_bearer_shows_that_its_token_was_revoked(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    make(&store, 1, 1, now.plus(MINUTE)).await;
    redeem(&store, 1, 11, now.plus(MINUTE * 15)).await.expect("a good ticket");
    store.revoke_token(token_id(1), None).await.expect("revoke a token");
    assert_eq!(found(&store, 11).await.and_then(|bearer| bearer.token.revoked_at), Some(now));
}

pub async fn tickets_that_are_over_make_room_and_others_are_not_ended(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    token(&store, 2).await;
    let most = u16::try_from(MAX_TICKETS_OF_ONE).expect("few enough");
    let mut makers = Vec::new();
    for part in 0..8 {
        let store = h.operators().await;
        makers.push(tokio::spawn(async move {
            for n in (part..most).step_by(8) {
                until_answered(|| store.make_ticket(ticket(n, 1, now.plus(MINUTE)), None)).await;
            }
        }));
    }
    for maker in makers {
        maker.await.expect("a maker");
    }
    let refused = store.make_ticket(ticket(most, 1, now.plus(MINUTE)), None).await.unwrap_err().to_string();
    assert!(refused.contains("tickets of this token are in use"), "{refused}");
    // Its reply was lost.
    make(&store, 0, 1, now.plus(MINUTE)).await;
    make(&store, most + 1, 2, now.plus(MINUTE * 2)).await;
    assert!(redeem(&store, 0, 50_000, now.plus(MINUTE * 2)).await.is_some(), "none is ended for another");
    h.advance(MINUTE).await;
    make(&store, most + 2, 1, now.plus(MINUTE * 2)).await;
    assert!(
        found(&store, 50_000).await.is_some() && redeem(&store, most + 2, 50_001, now.plus(MINUTE * 3)).await.is_some()
    );
    assert_eq!(redeem(&store, 1, 50_002, now.plus(MINUTE * 3)).await, None);
}

pub async fn a_ticket_is_made_with_its_line_and_once(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let now = token(&store, 1).await;
    let known = store.find_token(hash(60_001)).await.expect("find a token").token.expect("it was created");
    let actor = Actor::token(&known);
    let new = ticket(1, 1, now.plus(MINUTE));
    for n in 0..2 {
        // A repeat of the verb has the same line; a second caller with the same ticket has another one, and changes nothing.
        let by = (AuditId(Uuid::from_u128(n)), &actor);
        let line = NewAuditLine::of_ticket(by, &known, &new.grant, &new.origins);
        store.make_ticket(new.clone(), line).await.expect("make a ticket");
    }
    let ask = AskAudit { filter: AuditFilter::default(), cursor: None, limit: 10 };
    let lines = store.audit(ask).await.expect("read the log").lines;
    let told: Vec<_> = lines.iter().map(|line| (line.verb.as_str(), line.target.as_str())).collect();
    assert_eq!(told, [("create", format!("token:{}", token_id(1)).as_str())]);
    let after = lines[0].after.as_ref().expect("what was given").as_str();
    assert!(after.contains("acme") && after.contains("https://app.example"), "{after}");
}
