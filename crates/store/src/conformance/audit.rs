//! Promises about the audit log: a line is there exactly if its change is.

use std::sync::Arc;

use turnwise_core::{
    ActorName, Json, NewJob, OnceKey, Timestamp, TokenName, Unique, UniqueKey,
    access::{Grant, Limits, NewToken, Scope, TokenId},
    audit::{Actor, AuditId, AuditLine, AuditTarget, AuditVerb, KEEP_AUDIT, NewAuditLine},
    lifecycle::Event,
    unique::OnDuplicate,
};
use uuid::Uuid;

use super::{OperatorHarness, scene::*};
use crate::{
    AskAudit, AuditFilter, AuditPage, BodyHash, Once, OperatorStore, Secret, SubmitOnce,
    operators::MAX_PAGE,
    store::{Intervention, MemoKind, NewMemo, Settled, Submitted},
};

fn line(n: u128, actor: &str, target: &str) -> NewAuditLine {
    NewAuditLine {
        id: AuditId(Uuid::from_u128(n)),
        actor: Actor::named(actor).expect("a good name"),
        verb: AuditVerb::Set,
        target: target.parse().expect("a target"),
        before: Some(json(r#"{"weight":1.0}"#)),
        after: Some(json(r#"{"weight":2.50,"name":"Küche \"x\""}"#)),
    }
}

async fn all(store: &Arc<dyn OperatorStore>) -> Vec<AuditLine> {
    let page = store.audit(AskAudit { limit: u32::MAX, ..AskAudit::default() }).await.expect("audit");
    assert_eq!(page.next, None);
    page.lines
}

fn numbers(lines: &[AuditLine]) -> Vec<u128> {
    lines.iter().map(|line| line.id.0.as_u128()).collect()
}

/// All pages of these lines.
async fn pages(store: &Arc<dyn OperatorStore>, filter: &AuditFilter, limit: u32) -> Vec<u128> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let ask = AskAudit { filter: filter.clone(), cursor, limit };
        let AuditPage { lines, next } = store.audit(ask).await.expect("audit");
        assert!(lines.len() <= limit as usize, "{lines:?}");
        found.extend(numbers(&lines));
        match next {
            Some(next) => cursor = Some(next.to_string().parse().expect("a cursor is read as it is written")),
            None => return found,
        }
    }
}

async fn decision(scene: &Scene, n: u64, event: &Event, audited: u128) -> Intervention {
    let line = NewAuditLine { before: None, ..line(audited, "alice", &format!("job:{}", id(n))) };
    Intervention { line: Some(Box::new(line)), ..scene.intervention(n, event).await }
}

fn setting(name: &str, value: &str, seen: i64, audited: u128) -> NewMemo {
    let line = line(audited, "alice", &format!("queue:{name}"));
    NewMemo { seen: Some(seen), line: Some(Box::new(line)), ..memo(MemoKind::Queue, name, value) }
}

pub async fn a_line_is_kept_with_all_that_it_says(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    assert_eq!(all(&store).await, []);
    let plain = line(1, "cli:alice@box", "queue:a:b");
    let token = NewToken {
        id: TokenId(Uuid::from_u128(7)),
        name: TokenName::new("nightly import").expect("a good name"),
        prefix: "tw_abcdefgh".to_owned(),
        grant: Grant::unlimited(),
        rate: None,
        expires_at: None,
    };
    let bearer = Actor::token(&token.created(scene.now().await));
    let long = Json::stored(format!("{{\"a\":\"{}\"}}", "x".repeat(7_000)));
    let full = NewAuditLine { actor: bearer, before: None, after: Some(long), ..line(2, "x", "installation") };
    let gone = NewAuditLine { after: None, ..line(3, "x", "key:db") };
    let mut expected = Vec::new();
    for (n, line) in [plain, full, gone].into_iter().enumerate() {
        h.advance(SECOND).await;
        expected.insert(0, line.clone().written(scene.now().await));
        let memo = NewMemo { line: Some(Box::new(line)), ..memo(MemoKind::Queue, &n.to_string(), "{}") };
        assert!(scene.remember(memo).await);
    }
    assert_eq!(all(&store).await, expected);
}

pub async fn a_decision_about_a_job_is_written_with_its_line(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue(1..=3).await;
    let cancel = decision(&scene, 1, &Event::Cancel, 1).await;
    let replies = scene.store.control(vec![cancel]).await.expect("control");
    assert_eq!((replies, numbers(&all(&store).await)), (vec![Settled::Applied], vec![1]));
    // Again, as after a lost reply.
    let retry = decision(&scene, 1, &Event::Retry, 2).await;
    for expected in [Settled::Applied, Settled::Superseded] {
        assert_eq!(scene.store.control(vec![retry.clone()]).await.expect("control"), [expected]);
        assert_eq!(numbers(&all(&store).await), [2, 1]);
    }
    // Without a line.
    assert_eq!(scene.intervene(2, Event::Cancel).await, Settled::Applied);
    assert_eq!(all(&store).await.len(), 2);
}

pub async fn a_submit_that_is_done_once_leaves_one_line(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let submit = |n: u64, audited| SubmitOnce {
        caller: None,
        key: OnceKey::new("again").expect("a good key"),
        body: BodyHash([1; 32]),
        jobs: vec![job(n)],
        line: Some(Box::new(line(audited, "alice", &format!("job:{}", id(7))))),
    };
    let new = vec![Submitted::itself(id(1), true)];
    assert_eq!(store.submit_once(submit(1, 1)).await.expect("submit once"), Once::Submitted(new.clone()));
    assert_eq!(numbers(&all(&store).await), [1]);
    // Its repeat has a job and a line of its own; neither is written.
    assert_eq!(store.submit_once(submit(2, 2)).await.expect("submit once"), Once::Again(new));
    assert_eq!(numbers(&all(&store).await), [1]);
    let other = SubmitOnce { body: BodyHash([2; 32]), ..submit(3, 3) };
    assert_eq!(store.submit_once(other).await.expect("submit once"), Once::OtherBody);
    // Refused: no job, so no line.
    let holds = || {
        Box::new(Unique { on_duplicate: OnDuplicate::Reject, ..Unique::new(UniqueKey::new("k").expect("a good key")) })
    };
    let unique = |n| NewJob { unique: Some(holds()), ..job(n) };
    scene.store.enqueue(vec![unique(4)]).await.expect("enqueue");
    let key = OnceKey::new("refused").expect("a good key");
    let refused = SubmitOnce { key, jobs: vec![unique(5)], ..submit(5, 5) };
    store.submit_once(refused).await.expect_err("the key is held");
    assert_eq!(numbers(&all(&store).await), [1]);
}

pub async fn a_decision_that_is_not_written_leaves_no_line(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue(1..=3).await;
    let late = decision(&scene, 1, &Event::Cancel, 1).await;
    let good = decision(&scene, 2, &Event::Cancel, 2).await;
    let missing = Intervention { job: id(99), ..decision(&scene, 3, &Event::Cancel, 3).await };
    assert_eq!(scene.intervene(1, Event::Cancel).await, Settled::Applied);
    let replies = scene.store.control(vec![late, good, missing]).await.expect("control");
    assert_eq!(replies, [Settled::Superseded, Settled::Applied, Settled::Gone]);
    assert_eq!(numbers(&all(&store).await), [2]);
}

pub async fn a_node_asked_twice_by_one_call_to_stop_a_job_is_one_line(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    let cancel = decision(&scene, 1, &Event::Cancel, 1).await;
    for _ in 0..2 {
        assert_eq!(scene.store.control(vec![cancel.clone()]).await.expect("control"), [Settled::Applied]);
        assert_eq!(numbers(&all(&store).await), [1]);
    }
}

pub async fn a_thousand_decisions_are_a_thousand_lines(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue(1..=1_000).await;
    let mut cancels = Vec::new();
    let one = decision(&scene, 1, &Event::Cancel, 1).await;
    for n in 1..=1_000 {
        let line = line(u128::from(n), "alice", &format!("job:{}", id(n)));
        cancels.push(Intervention { job: id(n), line: Some(Box::new(line)), ..one.clone() });
    }
    let replies = scene.store.control(cancels).await.expect("control");
    assert!(replies.iter().all(|reply| *reply == Settled::Applied), "{replies:?}");
    assert_eq!(numbers(&all(&store).await), (1..=1_000).rev().collect::<Vec<_>>());
    assert_eq!(MAX_PAGE, 1_000, "or this was not one page");
}

pub async fn a_setting_is_written_with_its_line(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    let first = setting("mail", "1", 0, 1);
    for (written, lines) in [(true, 1), (false, 1)] {
        assert_eq!(scene.remember(first.clone()).await, written, "the second time as after a lost reply");
        assert_eq!(all(&store).await.len(), lines);
    }
    let memos = vec![setting("mail", "late", 0, 2), setting("slow", "1", 0, 3), memo(MemoKind::Queue, "plain", "1")];
    assert_eq!(scene.store.remember(None, memos).await.expect("remember"), [false, true, true]);
    assert_eq!(numbers(&all(&store).await), [3, 1], "what another call has changed is left alone, and so is its line");
    let delete = NewMemo { value: None, ..setting("mail", "", 1, 4) };
    assert_eq!([scene.remember(delete.clone()).await, scene.remember(delete).await], [true, false]);
    assert_eq!(numbers(&all(&store).await), [4, 3, 1]);
}

pub async fn of_sixteen_callers_that_set_the_same_one_leaves_a_line(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let mut callers = Vec::new();
    for n in 1..=16 {
        let (store, _) = h.both().await;
        callers.push(tokio::spawn(async move {
            until_answered(|| store.remember(None, vec![setting("mail", &n.to_string(), 0, n)])).await[0]
        }));
    }
    let mut written = Vec::new();
    for (n, caller) in (1..).zip(callers) {
        written.extend(caller.await.expect("a caller").then_some(n));
    }
    assert_eq!((written.len(), written), (1, numbers(&all(&store).await)));
}

pub async fn a_token_is_created_and_revoked_with_a_line_each(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let secret = Secret::from_random([1; 32]);
    let token = NewToken {
        id: TokenId(Uuid::from_u128(1)),
        name: TokenName::new("ci").expect("a good name"),
        prefix: secret.prefix().to_owned(),
        grant: Grant::new([Scope::Read], Limits::default()).expect("a good grant"),
        rate: None,
        expires_at: None,
    };
    let target = AuditTarget::Token(token.id).to_string();
    for n in [1, 2] {
        let line = Some(line(n, "alice", &target));
        store.create_token(token.clone(), secret.hash(), line).await.expect("create a token");
        assert_eq!(numbers(&all(&store).await), [1], "created twice, it is one");
    }
    for n in [3, 4] {
        let line = Some(line(n, "alice", &target));
        assert!(store.revoke_token(token.id, line).await.expect("revoke a token").is_some());
        assert_eq!(numbers(&all(&store).await), [3, 1], "revoked twice, the first time counts");
    }
    let none = store.revoke_token(TokenId(Uuid::from_u128(9)), Some(line(5, "alice", &target))).await;
    assert_eq!((none.expect("revoke a token"), all(&store).await.len()), (None, 2));
}

pub async fn of_sixteen_callers_that_revoke_a_token_one_leaves_a_line(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let secret = Secret::from_random([1; 32]);
    let grant = Grant::unlimited();
    let (id, name) = (TokenId(Uuid::from_u128(1)), TokenName::new("ci").expect("a good name"));
    let token = NewToken { id, name, prefix: secret.prefix().to_owned(), grant, rate: None, expires_at: None };
    store.create_token(token, secret.hash(), None).await.expect("create a token");
    let mut callers = Vec::new();
    for n in 1..=16 {
        let store = h.operators().await;
        let line = line(n, "alice", "installation");
        callers.push(tokio::spawn(async move {
            until_answered(|| store.revoke_token(id, Some(line.clone()))).await.is_some()
        }));
    }
    for caller in callers {
        assert!(caller.await.expect("a caller"));
    }
    assert_eq!(all(&store).await.len(), 1);
}

pub async fn a_prune_by_a_person_leaves_one_line_if_it_deletes_anything(h: &impl OperatorHarness) {
    let (scene, operators) = (Scene::led(h).await, h.both().await.1);
    scene.enqueue(1..=5).await;
    let prune = |n| NewAuditLine { after: None, ..line(n, "alice", "installation") };
    assert_eq!(operators.prune_audited(ALL, prune(1)).await.expect("prune"), 0);
    assert_eq!(all(&operators).await, []);
    for n in 1..=5 {
        assert_eq!(scene.intervene(n, Event::Cancel).await, Settled::Applied);
    }
    h.advance(SECOND * 86_400 * 30).await;
    let mut deleted = 0;
    for _ in 0..20 {
        // Several rounds of one command.
        deleted += operators.prune_audited(2, prune(2)).await.expect("prune");
    }
    assert!(deleted >= 5 && scene.store.job(id(1)).await.expect("job").is_none(), "{deleted}");
    let lines = all(&operators).await;
    assert_eq!((numbers(&lines), lines[0].target.as_str()), (vec![2], "installation"));
    let after = lines[0].after.as_ref().expect("what was kept");
    assert!(after.as_str().starts_with(r#"{"retention":"#), "{after}");
}

pub async fn pages_of_the_log_hold_every_line_once_newest_first(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    // Three of one moment, then one at a time.
    let mut times = Vec::new();
    for (n, (actor, queue)) in (1..).zip([("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("b", "y"), ("a", "x")]) {
        if n > 3 {
            h.advance(SECOND).await;
        }
        times.push(scene.now().await);
        let line = line(n, actor, &format!("queue:{queue}"));
        assert!(scene.remember(NewMemo { line: Some(Box::new(line)), ..memo(MemoKind::Queue, "q", "1") }).await);
    }
    let actor = |name: &str| Some(ActorName::new(name).expect("a good name"));
    let queue = |name: &str| Some(format!("queue:{name}").parse().expect("a target"));
    let any = AuditFilter::default();
    let at = |n: usize| Some(times[n - 1]);
    for (filter, expected) in [
        (any.clone(), vec![6, 5, 4, 3, 2, 1]),
        (AuditFilter { actor: actor("a"), ..any.clone() }, vec![6, 4, 3, 1]),
        (AuditFilter { actor: actor("c"), ..any.clone() }, vec![]),
        (AuditFilter { target: queue("x"), ..any.clone() }, vec![6, 4, 2, 1]),
        (AuditFilter { target: queue("x"), actor: actor("a"), ..any.clone() }, vec![6, 4, 1]),
        (AuditFilter { since: at(5), ..any.clone() }, vec![6, 5]),
        (AuditFilter { until: at(5), ..any.clone() }, vec![4, 3, 2, 1]),
        (AuditFilter { since: at(4), until: at(6), ..any.clone() }, vec![5, 4]),
        (AuditFilter { until: at(1), ..any.clone() }, vec![]),
        (AuditFilter { actor: actor("a"), target: queue("x"), since: at(2), until: at(6) }, vec![4, 1]),
    ] {
        for limit in [1, 2, 3, 6, 100] {
            assert_eq!(pages(&store, &filter, limit).await, expected, "{limit} a page: {filter:?}");
        }
    }
    let wide = AuditFilter { since: Some(Timestamp::MIN), until: Some(Timestamp::MAX), ..any };
    assert_eq!(pages(&store, &wide, 4).await.len(), 6);
}

pub async fn a_line_is_kept_for_400_days_and_pruned_within_the_limit(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    for n in 1..=5 {
        let line = line(n, "alice", "installation");
        scene.remember(NewMemo { line: Some(Box::new(line)), ..memo(MemoKind::Queue, "q", "1") }).await;
    }
    h.advance(KEEP_AUDIT).await;
    let young = line(6, "alice", "installation");
    scene.remember(NewMemo { line: Some(Box::new(young)), ..memo(MemoKind::Queue, "q", "1") }).await;
    scene.store.prune(None, ALL).await.expect("prune");
    assert_eq!(all(&store).await.len(), 6);
    h.advance(SECOND).await;
    let mut gone = Vec::new();
    for _ in 0..4 {
        gone.push(scene.store.prune(None, 2).await.expect("prune"));
    }
    assert_eq!((gone, numbers(&all(&store).await)), (vec![2, 2, 1, 0], vec![6]));
}
