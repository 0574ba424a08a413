//! The audit log: lines are written in the transaction of the change that they describe.

use tokio_postgres::Row;
use turnwise_core::{
    Json, Timestamp,
    audit::{Actor, AuditId, AuditLine, KEEP_AUDIT, NewAuditLine},
};
use turnwise_store::{AskAudit, AuditPage, NewMemo, Result};
use uuid::Uuid;

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, get},
    session::{Answer, Bind, Session},
    store::Inner,
};

pub(crate) const OF_MEMOS: &str = include_str!("../sql/audit_memos.sql");

/// In the transaction that is open.
pub(crate) async fn write(session: &impl Session, lines: &[&NewAuditLine]) -> Answer<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let columns = Columns::of(lines);
    session.execute(include_str!("../sql/audit_write.sql"), &columns.binds()).await.map(drop)
}

/// Lines as columns, in the order of the binds.
struct Columns<'a> {
    ids: Vec<Uuid>,
    actors: Vec<&'a str>,
    labels: Vec<Option<&'a str>>,
    verbs: Vec<String>,
    targets: Vec<String>,
    befores: Vec<Option<&'a str>>,
    afters: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(lines: &[&'a NewAuditLine]) -> Self {
        let each = || lines.iter();
        Self {
            ids: each().map(|line| line.id.0).collect(),
            actors: each().map(|line| line.actor.id().as_str()).collect(),
            labels: each().map(|line| line.actor.label()).collect(),
            verbs: each().map(|line| line.verb.to_string()).collect(),
            targets: each().map(|line| line.target.to_string()).collect(),
            befores: each().map(|line| line.before.as_ref().map(Json::as_str)).collect(),
            afters: each().map(|line| line.after.as_ref().map(Json::as_str)).collect(),
        }
    }

    fn binds(&self) -> Vec<Bind<'_>> {
        vec![&self.ids, &self.actors, &self.labels, &self.verbs, &self.targets, &self.befores, &self.afters]
    }
}

/// The lines of memos, each with what it depends on.
pub(crate) struct OfMemos<'a> {
    lines: Columns<'a>,
    kinds: Vec<i16>,
    names: Vec<&'a str>,
    seen: Vec<Option<i64>>,
}

impl<'a> OfMemos<'a> {
    /// `None`: none of them has a line.
    pub(crate) fn of(memos: &'a [NewMemo]) -> Option<Self> {
        let with_line = || memos.iter().filter_map(|memo| Some((memo, memo.line.as_deref()?)));
        let lines: Vec<_> = with_line().map(|(_, line)| line).collect();
        (!lines.is_empty()).then(|| Self {
            lines: Columns::of(&lines),
            kinds: with_line().map(|(memo, _)| memo.kind.code()).collect(),
            names: with_line().map(|(memo, _)| memo.name.as_str()).collect(),
            seen: with_line().map(|(memo, _)| memo.seen).collect(),
        })
    }

    pub(crate) fn binds(&self) -> Vec<Bind<'_>> {
        let mut binds = self.lines.binds();
        binds.extend([&self.kinds as Bind<'_>, &self.names, &self.seen]);
        binds
    }
}

pub(crate) async fn page(store: &Inner, ask: &AskAudit) -> Result<AuditPage> {
    let ((at, id), limit) = (ask.below(), ask.limit());
    let (at, id, since, rows) = (Moment(at), id.0, Moment(ask.since()), i64::from(limit) + 1);
    let actor = ask.filter.actor.as_ref().map(|actor| actor.as_str());
    let target = ask.filter.target.as_ref().map(ToString::to_string);
    let mut binds: Vec<Bind<'_>> = vec![&at, &id, &since, &rows];
    let sql = match (&target, &actor) {
        (None, None) => include_str!("../sql/audit.sql"),
        (None, Some(_)) => include_str!("../sql/audit_actor.sql"),
        (Some(_), None) => include_str!("../sql/audit_target.sql"),
        (Some(_), Some(_)) => include_str!("../sql/audit_target_actor.sql"),
    };
    binds.extend(target.as_ref().map(|target| target as Bind<'_>));
    binds.extend(actor.as_ref().map(|actor| actor as Bind<'_>));
    let client = connection(&store.pools.people).await?;
    let found = client.query(sql, &binds).await.map_err(failed("read the audit log"))?;
    Ok(AuditPage::of(found.iter().map(line).collect::<Result<_>>()?, limit))
}

pub(crate) async fn prune(session: &impl Session, now: Timestamp, limit: i64) -> Answer<u64> {
    let edge = Moment(now.minus(KEEP_AUDIT));
    session.execute(include_str!("../sql/prune_audit.sql"), &[&edge, &limit]).await
}

fn line(row: &Row) -> Result<AuditLine> {
    Ok(AuditLine {
        id: AuditId(get(row, 0)?),
        at: rows::now(row, 1)?,
        actor: Actor::stored(get(row, 2)?, get(row, 3)?),
        verb: get(row, 4)?,
        target: get(row, 5)?,
        before: get::<Option<String>>(row, 6)?.map(Json::stored),
        after: get::<Option<String>>(row, 7)?.map(Json::stored),
    })
}
