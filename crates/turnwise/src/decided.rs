//! Decisions about many jobs that a server carries out in parts: what is kept of each, so that a person finds it, and how far it came, also
//! after the server was stopped.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use turnwise_core::{Timestamp, access::TokenId, audit::AuditVerb};
use turnwise_store::{Memo, MemoKind, NewMemo};

use crate::{Decision, Error, Turnwise, audit::NewAuditLine};

/// At most so many are kept, the last ones.
const KEPT: usize = 100;
/// One that is not over is noted anew with each part, which takes seconds. If that was not done for so long, its server has ended.
const SILENT: Duration = Duration::from_secs(60);
/// Times a number is looked for anew because another server took it.
const TRIES: u32 = 20;

/// A decision about all jobs of a filter, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecidedMany {
    /// What is decided.
    pub decision: Decision,
    /// Which jobs it is about; empty: all that it is possible for.
    pub filter: String,
    /// Jobs that are newer were not there yet.
    pub newest: String,
    /// The id of the token with which it was begun.
    pub by: Option<String>,
    /// Jobs that were decided about.
    pub decided: u64,
    /// Jobs whose nodes were asked to stop them.
    pub requested: u64,
    /// Jobs that had changed meanwhile, and were left as they are.
    pub left: u64,
    /// Whether nothing more is done.
    pub over: bool,
    /// Why it is over before its end.
    pub wrong: Option<String>,
    /// When it was noted last.
    noted_at: Timestamp,
}

impl DecidedMany {
    /// One that begins.
    pub fn new(decision: Decision, filter: impl Into<String>, newest: impl Into<String>, by: Option<TokenId>) -> Self {
        let (filter, newest, by) = (filter.into(), newest.into(), by.map(|token| token.to_string()));
        let (decided, requested, left) = (0, 0, 0);
        Self {
            decision,
            filter,
            newest,
            by,
            decided,
            requested,
            left,
            over: false,
            wrong: None,
            noted_at: Timestamp::MIN,
        }
    }

    /// Whether its server was stopped or killed before it was over.
    pub fn is_abandoned(&self, now: Timestamp) -> bool {
        !self.over && self.noted_at.plus(SILENT) < now
    }

    fn verb(&self) -> AuditVerb {
        match self.decision {
            Decision::Cancel => AuditVerb::Cancel,
            Decision::Retry => AuditVerb::Retry,
            Decision::Rerun => AuditVerb::Rerun,
            Decision::Fail => AuditVerb::Fail,
            Decision::Change => AuditVerb::Change,
        }
    }

    /// What a line of the audit log says of it.
    fn facts(&self) -> Map<String, Value> {
        let Self { filter, newest, decided, requested, left, over, wrong, .. } = self;
        let facts = if *over {
            json!({"state": "over", "decided": decided, "requested": requested, "left": left, "ended_by": wrong})
        } else {
            json!({"state": "begun", "filter": filter, "newest": newest})
        };
        match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        }
    }

    fn begun(&self) -> Map<String, Value> {
        Self { over: false, ..self.clone() }.facts()
    }
}

fn read(memo: &Memo) -> Option<(u64, DecidedMany)> {
    Some((memo.name.parse().ok()?, serde_json::from_str(&memo.value).ok()?))
}

impl Turnwise {
    /// Notes that a decision about many jobs begins, with a line in the audit log, and returns its number, which no other one has had. One
    /// that its server has left unfinished is noted as over.
    ///
    /// [`Error::Store`] if the database does not answer: then nothing is to be decided yet. [`Error::Contested`] if other servers took each
    /// number that was tried.
    pub async fn begin_decision(&self, begun: &DecidedMany) -> Result<u64, Error> {
        let store = self.store();
        for _ in 0..TRIES {
            let now = self.now().await?;
            let memos = store.recall(vec![MemoKind::Decided]).await?;
            let known: BTreeMap<u64, DecidedMany> = memos.iter().filter_map(read).collect();
            let number = known.last_key_value().map_or(1, |(last, _)| last + 1);
            let mut writes = vec![NewMemo { seen: Some(0), ..self.noted(number, &at(begun, now), None) }];
            let old = known.len().saturating_sub(KEPT - 1);
            for (at_place, (number, decision)) in known.iter().enumerate() {
                if at_place < old {
                    writes.push(NewMemo { value: None, ..self.noted(*number, decision, None) });
                } else if decision.is_abandoned(now) {
                    let wrong = Some("its server was stopped or killed".to_owned());
                    let over = DecidedMany { over: true, wrong, ..decision.clone() };
                    writes.push(self.noted(*number, &at(&over, now), Some(decision.begun())));
                }
            }
            writes[0].line = self.line(number, begun, None);
            // The first of them says whether the number was free.
            if store.remember(None, writes).await?.first() == Some(&true) {
                return Ok(number);
            }
        }
        Err(Error::Contested("the number of a decision".to_owned()))
    }

    /// Notes how far it is; if it is over, with a line in the audit log. A repeat is safe, but leaves another line.
    ///
    /// [`Error::Store`] if the database does not answer.
    pub async fn note_decision(&self, number: u64, decision: &DecidedMany) -> Result<(), Error> {
        let (now, before) = (self.now().await?, decision.over.then(|| decision.begun()));
        self.store().remember(None, vec![self.noted(number, &at(decision, now), before)]).await?;
        Ok(())
    }

    /// The decision with this number, if it is among the last hundred, and the time by the database's clock.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn decision(&self, number: u64) -> Result<(Option<DecidedMany>, Timestamp), Error> {
        let memos = self.store().recall(vec![MemoKind::Decided]).await?;
        let found = memos.iter().filter_map(read).find(|(other, _)| *other == number);
        Ok((found.map(|(_, decision)| decision), self.now().await?))
    }

    /// With a line about its end, if it is said what was known before.
    fn noted(&self, number: u64, decision: &DecidedMany, before: Option<Map<String, Value>>) -> NewMemo {
        let line = before.and_then(|before| self.line(number, decision, Some(before)));
        let value = serde_json::to_string(decision).ok();
        // Twenty digits, so that the names sort as the numbers do.
        NewMemo { kind: MemoKind::Decided, name: format!("{number:020}"), value, seen: None, line }
    }

    fn line(
        &self,
        number: u64,
        decision: &DecidedMany,
        before: Option<Map<String, Value>>,
    ) -> Option<Box<NewAuditLine>> {
        let by = self.by()?;
        Some(Box::new(NewAuditLine::of_decision(by, decision.verb(), number, before, decision.facts())))
    }
}

fn at(decision: &DecidedMany, now: Timestamp) -> DecidedMany {
    DecidedMany { noted_at: now, ..decision.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Actor, AskAudit};

    #[tokio::test]
    async fn a_decision_keeps_its_number_and_a_server_that_was_killed_leaves_one_that_is_noted_as_over() {
        let turnwise = Turnwise::open("memory:").await.unwrap().acting_as(Actor::named("alice").unwrap());
        let begun = DecidedMany::new(Decision::Cancel, "group:acme", "", None);
        assert_eq!(turnwise.begin_decision(&begun).await.unwrap(), 1);
        let half = DecidedMany { decided: 10_000, ..begun.clone() };
        turnwise.note_decision(1, &half).await.unwrap();
        let (seen, now) = turnwise.decision(1).await.unwrap();
        let seen = seen.unwrap();
        assert_eq!((seen.decided, seen.is_abandoned(now)), (10_000, false));
        assert!(seen.is_abandoned(now.plus(SILENT + Duration::from_secs(1))));
        // As if that had happened long ago.
        let long_ago = turnwise.noted(1, &at(&half, Timestamp::MIN), None);
        turnwise.store().remember(None, vec![long_ago]).await.unwrap();
        assert_eq!(turnwise.begin_decision(&begun).await.unwrap(), 2);
        let (seen, now) = turnwise.decision(1).await.unwrap();
        let seen = seen.unwrap();
        assert!(seen.over && !seen.is_abandoned(now) && seen.decided == 10_000, "{seen:?}");
        let lines = turnwise.audit(AskAudit { limit: 10, ..AskAudit::default() }).await.unwrap().lines;
        let told: Vec<_> = lines.iter().rev().map(|line| line.after.as_ref().unwrap().as_str()).collect();
        assert!(told.len() == 3 && told[0].contains("group:acme"), "{told:?}");
        assert!(told.iter().any(|line| line.contains("its server was stopped or killed") && line.contains("10000")));
        // Of many the last are kept.
        for number in 3..=KEPT as u64 + 20 {
            assert_eq!(turnwise.begin_decision(&begun).await.unwrap(), number);
        }
        assert_eq!(
            (turnwise.decision(3).await.unwrap().0, turnwise.decision(50).await.unwrap().0.is_some()),
            (None, true)
        );
    }
}
