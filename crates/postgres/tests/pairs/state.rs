//! All that can be read from a store, line by line, so that the difference of two states is the lines that differ.

use std::collections::BTreeMap;

use turnwise_core::{Incarnation, JobId, NewJob, Timestamp, Unique, UniqueKey, statistics::Span};
use turnwise_store::{
    AskAudit, AskNews, AskOf, AskStatistics, AskStory, Cursor, Epoch, Filter, Load, MemoKind, News, Store, Submitted,
    conformance::scene::{self, ALL},
};

use super::{
    access,
    call::{Both, unnumbered},
    stages::{KEYS, NODES, ONCE_KEYS, WITH_STORIES, once},
};

pub(crate) type State = BTreeMap<String, String>;

/// What `store` shows, with the news since `begin` as the dispatcher of `epoch` reads them. Times, fences, versions and
/// batches are compared as they are; only numbers of submission are each store's own.
///
/// Which job holds which key, and what a submit that is done once was answered, is asked last, by submitting: that changes the store.
pub(crate) async fn read(both: &Both, begin: &Cursor, epoch: Epoch) -> State {
    let Both { store, operators } = both;
    let store = &**store;
    let mut state = State::new();
    let mut say = |what: String, how: String| {
        let mut name = what.clone();
        for again in 2.. {
            if !state.contains_key(&name) {
                break;
            }
            name = format!("{what}, a {again}. time");
        }
        state.insert(name, how);
    };
    for job in store.jobs(Filter { limit: Some(ALL), ..Filter::default() }).await.expect("jobs") {
        say(format!("job {}", number(job.id)), format!("{job:?}"));
    }
    for id in WITH_STORIES.map(scene::id) {
        let story = store.story(AskStory { job: id, after: None, lines: ALL }).await.expect("story");
        say(format!("story {}", number(id)), format!("{story:?}"));
    }
    for head in store.load(Load::After { id: None, limit: ALL }).await.expect("load").jobs {
        say(format!("head {}", number(head.id)), format!("{:?}", unnumbered(head)));
    }
    let fleet = store.nodes().await.expect("nodes");
    for node in fleet.nodes {
        say(format!("node {}", node.name), format!("{node:?}"));
    }
    for loss in fleet.losses {
        say(format!("loss of {}", loss.node.name), format!("{loss:?}"));
    }
    for node in NODES {
        let mail = scene::in_order(store.assignments(node, vec![]).await.expect("assignments"));
        for delivery in mail.batches {
            say(format!("mail of {node:?}: {:?}", delivery.batch), format!("{delivery:?}"));
        }
        say(format!("to be stopped by {node:?}"), format!("{:?}", mail.stop));
    }
    let news = news(store, Some(begin), epoch).await;
    for head in news.jobs {
        say(format!("news of {}", number(head.id)), format!("{:?}", unnumbered(head)));
    }
    for mut change in scene::changes_as_set(news.changes) {
        change.head = change.head.map(unnumbered);
        say(format!("change of {}", number(change.id)), format!("{change:?}"));
    }
    say("memos are news".into(), news.memos.to_string());
    for memo in store.recall(MemoKind::ALL.to_vec()).await.expect("recall") {
        say(format!("memo {:?} {}", memo.kind, memo.name), format!("{} (version {})", memo.value, memo.version));
    }
    let leads = store.remember(Some((scene::ALPHA, epoch)), vec![]).await;
    say("alpha leads in its first epoch".into(), leads.is_ok().to_string());
    for line in operators.audit(AskAudit { limit: ALL, ..AskAudit::default() }).await.expect("audit").lines {
        say(format!("audit line {}", line.id.0.as_u128()), format!("{line:?}"));
    }
    let totals = operators.ask_totals().await.expect("ask for totals");
    say("totals".into(), format!("{:?}", totals.last));
    let of = AskOf::Tasks { queue: None, tasks: None };
    let ask = AskStatistics { span: Span::Minute, since: Timestamp::MIN, until: Timestamp::MAX, of };
    for row in operators.statistics(ask).await.expect("statistics") {
        say("statistics".into(), format!("{row:?}"));
    }
    for row in operators.statistics_totals().await.expect("statistics") {
        say("a running total".into(), format!("{row:?}"));
    }
    access::read(&**operators, &mut state).await;
    let mut say = |what: String, how: String| state.insert(what, how);
    for key in ONCE_KEYS {
        let answer = operators.submit_once(once(key, Vec::new())).await.expect("probe for a key");
        say(format!("once {key}"), format!("{answer:?}"));
    }
    let probe = |(n, key): (u64, &&str)| {
        let unique = Some(Box::new(Unique::new(UniqueKey::new(key).expect("a good key"))));
        NewJob { unique, ..scene::job(n) }
    };
    let probes = store.enqueue((9_000..).zip(&KEYS).map(probe).collect()).await.expect("probes for keys");
    for (key, Submitted { id, new, .. }) in KEYS.iter().zip(probes) {
        say(format!("key {key}"), if new { "free".into() } else { format!("held by {}", number(id)) });
    }
    state
}

pub(crate) async fn news(store: &dyn Store, cursor: Option<&Cursor>, epoch: Epoch) -> News {
    let ask = AskNews { cursor: cursor.cloned(), epoch, asleep: false, new_jobs: u32::MAX };
    store.news(ask).await.expect("news")
}

/// A job of the cast by its number, another by its id.
fn number(id: JobId) -> String {
    let n = u64::try_from(id.uuid().as_u128() & 0xffff).expect("two bytes");
    if scene::id(n) == id { format!("{n:04}") } else { id.to_string() }
}

/// What a dispatcher and the nodes read while a call was under way.
pub(crate) struct Glance {
    news: News,
    mail: Vec<(Incarnation, turnwise_store::Mail)>,
}

impl Glance {
    pub(crate) async fn at(store: &dyn Store, begin: &Cursor, epoch: Epoch) -> Self {
        let news = news(store, Some(begin), epoch).await;
        let mut mail = Vec::new();
        for node in NODES {
            mail.push((node, store.assignments(node, vec![]).await.expect("assignments")));
        }
        Self { news, mail }
    }

    /// What a reader that goes on from here misses, compared with one that reads everything at the end.
    pub(crate) async fn missed(&self, store: &dyn Store, begin: &Cursor, epoch: Epoch) -> Vec<String> {
        let (all, later) = (news(store, Some(begin), epoch).await, news(store, Some(&self.news.cursor), epoch).await);
        let mut missed = Vec::new();
        for head in &all.jobs {
            let seen = self.news.jobs.iter().chain(&later.jobs).any(|other| other.id == head.id);
            if !seen {
                missed.push(format!("the news never had the new job {}", number(head.id)));
            }
        }
        for change in &all.changes {
            let seen = self.news.changes.iter().chain(&later.changes);
            if !seen.clone().any(|other| (other.id, other.ran) == (change.id, change.ran)) {
                missed.push(format!("the news never had the change of {}", number(change.id)));
            }
        }
        if all.memos && !(self.news.memos || later.memos) {
            missed.push("the news never had the written memos".into());
        }
        let heads = store.load(Load::InHands(None)).await.expect("load").jobs;
        for (node, read) in &self.mail {
            let known = read.batches.iter().map(|delivery| delivery.batch).collect();
            let unread = store.assignments(*node, known).await.expect("assignments");
            for head in heads.iter().filter(|head| head.node == Some(*node)) {
                let mut letters = read.batches.iter().chain(&unread.batches).flat_map(|delivery| &delivery.jobs);
                if !letters.any(|job| (job.id, job.fence) == (head.id, head.fence)) {
                    missed.push(format!("{node:?} holds job {} and never read of it", number(head.id)));
                }
            }
        }
        missed
    }
}
