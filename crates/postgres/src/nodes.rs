//! Which nodes there are, which one dispatches, which are lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::PoisonError,
};

use tokio_postgres::{Row, types::ToSql};
use turnwise_core::{Fence, Incarnation, JobId, Node, lead::Sight, worker::Worker};
use turnwise_store::{
    AskLost, Beat, BeatReply, Epoch, Expire, Fleet, Join, Joined, Leader, Lineage, Loss, LostJob, LostNode, Replace,
    Result, StoreError, Term, operators::read_worker,
};
use uuid::Uuid;

use crate::{
    closing,
    connect::connection,
    errors::{failed, is_there_already},
    rows::{self, Moment, Names, get, micros},
    session::{Begin, Session},
    settle::{LEADING_ALONE, check_leading},
    store::Inner,
};

pub(crate) async fn join(store: &Inner, join: &Join) -> Result<Joined> {
    // Of two nodes that join under one name at the same moment, the later one's insert fails, and it tries again.
    let mut joined = try_join(store, join).await?;
    while joined.is_none() {
        joined = try_join(store, join).await?;
    }
    if matches!(joined, Some(Joined::In { .. })) {
        // A foreign worker is listened for by name: it does not wake the nodes of this process.
        if join.worker.is_none() {
            store.joined.lock().unwrap_or_else(PoisonError::into_inner).insert(join.incarnation);
        }
        store.bell.ring_lead();
    }
    joined.ok_or_else(|| StoreError::broken("join", "no answer"))
}

async fn try_join(store: &Inner, join: &Join) -> Result<Option<Joined>> {
    let fail = failed("join");
    let host = serde_json::to_string(&join.host).map_err(|error| StoreError::broken("write a node's host", error))?;
    let (queues, all_but) = join.queues.parts();
    let queues: Option<Vec<&str>> = queues.map(|queues| queues.iter().map(|name| name.as_str()).collect());
    let tasks: Vec<&str> = join.tasks.iter().map(|name| name.as_str()).collect();
    let mut client = connection(&store.pools.node).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let others = transaction
        .query(include_str!("../sql/join_name.sql"), &[&join.name.as_str(), &join.incarnation.0])
        .await
        .map_err(fail)?;
    if let Some(row) = others.first()
        && let Some(other) = rows::node(row, 0, &mut Names::default())?
    {
        let seen = Replace { incarnation: other.incarnation, lease_until: other.lease_until };
        if join.replace != Some(seen) {
            let now = rows::now(row, 14)?;
            // Awaited: a lock that outlives the reply would keep the other node from being declared lost.
            transaction.rollback().await.map_err(fail)?;
            return Ok(Some(Joined::Taken { by: Box::new(other), now }));
        }
        transaction.execute(include_str!("../sql/join_replace.sql"), &[&other.incarnation.0]).await.map_err(fail)?;
        transaction.execute(include_str!("../sql/leave_lead.sql"), &[&other.incarnation.0]).await.map_err(fail)?;
    }
    let stored = transaction
        .query_one(
            include_str!("../sql/join.sql"),
            &[
                &join.incarnation.0,
                &join.name.as_str(),
                &host,
                &i64::from(join.slots),
                &i64::from(join.queue_capacity),
                &queues,
                &tasks,
                &micros(join.lease),
                &all_but,
                &join.batch_size.map(|jobs| i64::from(jobs.get())),
                &join.worker.as_ref().map(Worker::to_text),
            ],
        )
        .await;
    match stored {
        Err(error) if is_there_already(&error) => Ok(None),
        stored => {
            let now = rows::now(&stored.map_err(fail)?, 0)?;
            transaction.commit().await.map_err(fail)?;
            Ok(Some(Joined::In { now }))
        }
    }
}

pub(crate) async fn beat(store: &Inner, beat: &Beat) -> Result<BeatReply> {
    let fail = failed("beat");
    let client = connection(&store.pools.node).await?;
    if beat.only_look {
        let rows = client.query(include_str!("../sql/look.sql"), &[&beat.node.0]).await.map_err(fail)?;
        let row = rows.first().ok_or_else(|| StoreError::broken("beat", "no answer"))?;
        return Ok(BeatReply {
            now: rows::now(row, 0)?,
            lineage: Lineage(get::<Option<i64>>(row, 1)?.unwrap_or(0)),
            alive: true,
            epoch: None,
            nodes: Vec::new(),
            leader: leader(row, 2)?,
            drained: false,
        });
    }
    let presence = store.presence.number();
    let over = beat.over.map(|over| (over.epoch.0, Moment(over.until)));
    let (epoch, until) = over.unzip();
    let binds: [&(dyn ToSql + Sync); 7] =
        [&beat.node.0, &micros(beat.lease), &i64::from(beat.slots), &beat.lead, &presence, &epoch, &until];
    let rows = client.query(include_str!("../sql/beat.sql"), &binds).await.map_err(fail)?;
    let first = rows.first().ok_or_else(|| StoreError::broken("beat", "no answer"))?;
    let mut names = Names::default();
    let nodes = rows.iter().filter_map(|row| rows::node(row, 12, &mut names).transpose()).collect::<Result<_>>()?;
    if get(first, 3)? {
        store.bell.ring_lead();
    }
    store.kept.hear_memo(get(first, 10)?);
    let alive = get(first, 1)?;
    Ok(BeatReply {
        now: rows::now(first, 0)?,
        lineage: Lineage(get(first, 4)?),
        alive,
        epoch: get::<Option<i64>>(first, 2)?.map(Epoch),
        nodes: by_incarnation(nodes),
        // A node that is not alive follows no leader.
        leader: if alive { leader(first, 5)? } else { None },
        drained: get::<Option<&str>>(first, 11)? == Some(&beat.node.to_string()),
    })
}

/// `epoch, until, lease, host, there`, from column `at` on.
fn leader(row: &Row, at: usize) -> Result<Option<Leader>> {
    let Some(epoch) = get::<Option<i64>>(row, at)? else { return Ok(None) };
    let host = serde_json::from_str(get(row, at + 3)?);
    Ok(Some(Leader {
        term: Term { epoch: Epoch(epoch), until: rows::now(row, at + 1)? },
        lease: rows::span(get(row, at + 2)?),
        host: host.map_err(|error| StoreError::broken("read a node's host", error))?,
        sight: match get::<Option<bool>>(row, at + 4)? {
            None => Sight::Unseen,
            Some(true) => Sight::There,
            Some(false) => Sight::Missing,
        },
    }))
}

fn by_incarnation(mut nodes: Vec<Node>) -> Vec<Node> {
    nodes.sort_by_key(|node| node.incarnation);
    nodes
}

/// Whether the node is gone; it stays while jobs are in its hands.
pub(crate) async fn leave(store: &Inner, node: Incarnation) -> Result<bool> {
    let fail = failed("leave");
    let mut client = connection(&store.pools.node).await?;
    let transaction = client.begin().await.map_err(fail)?;
    // In the order in which a beat locks. A beat in flight may be taking the lead; after this lock that is seen.
    transaction.execute(include_str!("../sql/node_hold.sql"), &[&node.0]).await.map_err(fail)?;
    transaction.execute(include_str!("../sql/leave_lead.sql"), &[&node.0]).await.map_err(fail)?;
    // Locked first, read afterwards: what was assigned meanwhile is then seen.
    transaction.execute(include_str!("../sql/node_lock.sql"), &[&node.0]).await.map_err(fail)?;
    let left = transaction.query_one(include_str!("../sql/leave.sql"), &[&node.0]).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    store.bell.ring_lead();
    get(&left, 0)
}

pub(crate) async fn lost_nodes(store: &Inner, ask: AskLost) -> Result<Vec<LostNode>> {
    let fail = failed("look for lost nodes");
    let mut client = connection(&store.pools.dispatch).await?;
    let transaction = client.begin().await.map_err(fail)?;
    check_leading(&transaction, LEADING_ALONE, ask.holder, ask.epoch).await?;
    if let Expire::Over { by, silent } = &ask.expire {
        let (silent, until): (Vec<_>, Vec<_>) =
            silent.iter().map(|node| (node.incarnation.0, Moment(node.lease_until))).unzip();
        let binds: [&(dyn ToSql + Sync); 3] = [&Moment(*by), &silent, &until];
        transaction.query(include_str!("../sql/lost_mark.sql"), &binds).await.map_err(fail)?;
    }
    let lost = transaction.query(include_str!("../sql/lost_nodes.sql"), &[]).await.map_err(fail)?;
    let mut names = Names::default();
    let nodes: Vec<Node> =
        lost.iter().filter_map(|row| rows::node(row, 0, &mut names).transpose()).collect::<Result<_>>()?;
    let mut new = Vec::new();
    for row in &lost {
        if !get::<bool>(row, 14)? {
            new.push(get::<Uuid>(row, 0)?);
        }
    }
    // Once for each node: all jobs are read for it.
    if !new.is_empty() {
        let most = i64::try_from(Loss::JOBS).unwrap_or(i64::MAX);
        transaction.execute(include_str!("../sql/lost_note.sql"), &[&new, &most]).await.map_err(fail)?;
    }
    let mut held: HashMap<Incarnation, Vec<LostJob>> = HashMap::new();
    let mut first_left_out = None;
    if !nodes.is_empty() {
        let incarnations: Vec<Uuid> = nodes.iter().map(|node| node.incarnation.0).collect();
        // One more than is returned: then it is known whether these are all.
        let binds: [&(dyn ToSql + Sync); 2] = [&incarnations, &(i64::from(ask.limit) + 1)];
        let rows = transaction.query(include_str!("../sql/lost_jobs.sql"), &binds).await.map_err(fail)?;
        let mut names = Names::default();
        for (at, row) in (0..).zip(&rows) {
            let node = Incarnation(get(row, 0)?);
            if at == ask.limit {
                first_left_out = Some(node);
                break;
            }
            held.entry(node).or_default().push(LostJob {
                id: JobId::from_uuid(get(row, 1)?),
                fence: Fence(get(row, 2)?),
                state: rows::state(row, 3)?,
                counts: rows::counts(row, 4)?,
                cancel_requested: get(row, 7)?,
                retry: names.policy(get(row, 8)?),
                terms: rows::terms(row, 9)?,
            });
        }
    }
    transaction.commit().await.map_err(fail)?;
    if !nodes.is_empty() {
        let open: Vec<String> = nodes.iter().map(|node| closing::application(node.incarnation)).collect();
        // An error here does not fail the call: the fence refuses these transactions as well, only later.
        if let Err(error) = client.query(include_str!("../sql/closing_terminate.sql"), &[&open]).await {
            tracing::warn!(%error, "transactions that lost nodes have open could not be ended");
        }
    }
    // The limit cut the list at this node: neither it nor a later one may count as complete.
    let complete = |node: &Node| first_left_out.is_none_or(|cut| node.incarnation < cut);
    Ok(nodes
        .into_iter()
        .map(|node| LostNode {
            complete: complete(&node),
            jobs: held.remove(&node.incarnation).unwrap_or_default(),
            node,
        })
        .collect())
}

pub(crate) async fn nodes(store: &Inner) -> Result<Fleet> {
    let fail = failed("list nodes");
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/nodes.sql"), &[]).await.map_err(fail)?;
    let first = rows.first().ok_or_else(|| StoreError::broken("list nodes", "no answer"))?;
    let mut names = Names::default();
    let mut nodes: Vec<Node> =
        rows.iter().filter_map(|row| rows::node(row, 1, &mut names).transpose()).collect::<Result<_>>()?;
    // Here, not in SQL: the database's collation is not ours.
    nodes.sort_by(|a, b| (&a.name, a.joined_at, a.incarnation).cmp(&(&b.name, b.joined_at, b.incarnation)));
    let now = rows::now(first, 0)?;
    let mut workers = BTreeMap::new();
    for row in &rows {
        if let (Some(node), Some(text)) = (get::<Option<Uuid>>(row, 1)?, get::<Option<&str>>(row, 16)?) {
            workers.insert(Incarnation(node), read_worker(text)?);
        }
    }
    if !get::<bool>(first, 15)? {
        return Ok(Fleet { now, nodes, losses: Vec::new(), workers, drained: BTreeSet::new() });
    }
    let most = i64::try_from(Loss::SHOWN).unwrap_or(i64::MAX);
    let binds: [&(dyn ToSql + Sync); 2] = [&Moment(Loss::edge(now)), &most];
    let rows = client.query(include_str!("../sql/lost_noted.sql"), &binds).await.map_err(fail)?;
    let losses = rows.iter().filter_map(|row| loss(row, &mut names).transpose()).collect::<Result<_>>()?;
    Ok(Fleet { now, nodes, losses, workers, drained: BTreeSet::new() })
}

fn loss(row: &Row, names: &mut Names) -> Result<Option<Loss>> {
    let Some(node) = rows::node(row, 0, names)? else { return Ok(None) };
    let jobs = get::<Vec<Uuid>>(row, 16)?.into_iter().map(JobId::from_uuid).collect();
    Ok(Some(Loss { node, lost_at: rows::now(row, 14)?, held: u64::try_from(get::<i64>(row, 15)?).unwrap_or(0), jobs }))
}
