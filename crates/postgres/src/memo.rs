//! Memos: settings and charges, kept for core.

use tokio_postgres::types::ToSql;
use turnwise_core::Incarnation;
use turnwise_store::{Epoch, Memo, MemoKind, NewMemo, Result, StoreError};

use crate::{
    audit,
    connect::connection,
    errors::failed,
    rows::get,
    session::{Part, Session},
    store::Inner,
};

const ALONE: &str = include_str!("../sql/remember_alone.sql");
const REMEMBER: &str = include_str!("../sql/remember.sql");

pub(crate) async fn recall(store: &Inner, kinds: &[MemoKind]) -> Result<Vec<Memo>> {
    let fail = failed("recall");
    let kinds: Vec<i16> = kinds.iter().map(|kind| kind.code()).collect();
    let client = connection(&store.pools.dispatch).await?;
    let rows = client.query(include_str!("../sql/recall.sql"), &[&kinds]).await.map_err(fail)?;
    rows.iter()
        .map(|row| {
            let code = get(row, 0)?;
            let kind = MemoKind::from_code(code)
                .ok_or_else(|| StoreError::broken("recall", format!("{code} is not a kind of memo")))?;
            Ok(Memo { kind, name: get(row, 1)?, value: get(row, 2)?, version: get(row, 3)? })
        })
        .collect()
}

pub(crate) async fn remember(
    store: &Inner,
    lead: Option<(Incarnation, Epoch)>,
    memos: &[NewMemo],
) -> Result<Vec<bool>> {
    NewMemo::check_named_once(memos)?;
    let fail = failed("remember");
    let (holder, epoch) = lead.map(|(holder, epoch)| (holder.0, epoch.0)).unzip();
    let kinds: Vec<i16> = memos.iter().map(|memo| memo.kind.code()).collect();
    let names: Vec<&str> = memos.iter().map(|memo| memo.name.as_str()).collect();
    let values: Vec<Option<&str>> = memos.iter().map(|memo| memo.value.as_deref()).collect();
    let seen: Vec<Option<i64>> = memos.iter().map(|memo| memo.seen).collect();
    let binds: [&(dyn ToSql + Sync); 6] = [&holder, &epoch, &kinds, &names, &values, &seen];

    let client = connection(if lead.is_some() { &store.pools.dispatch } else { &store.pools.people }).await?;
    // In one write: a process that is stopped here cannot keep the others from writing.
    let lines = audit::OfMemos::of(memos);
    let mut parts = vec![Part::of(ALONE, vec![])];
    parts.extend(lines.as_ref().map(|lines| Part::of(audit::OF_MEMOS, lines.binds())));
    parts.push(Part::of(REMEMBER, binds.to_vec()));
    let rows = client.in_one_write("begin", &parts).await.map_err(fail)?.pop().unwrap_or_default();

    let first = rows.first().ok_or_else(|| StoreError::broken("remember", "no answer"))?;
    if !get::<bool>(first, 0)? {
        return Err(StoreError::NotLeading);
    }
    if get(first, 1)? {
        store.bell.ring_news();
    }
    let mut replies = vec![false; memos.len()];
    for row in &rows {
        // Places count from 1.
        let place = get::<Option<i64>>(row, 2)?.and_then(|n| usize::try_from(n - 1).ok());
        if let Some(reply) = place.and_then(|place| replies.get_mut(place)) {
            *reply = true;
        }
    }
    Ok(replies)
}
