//! Submits that are done once.

use turnwise_core::{OnceKey, access::TokenId};
use turnwise_store::{
    BodyHash, Once, Result, StoreError, SubmitOnce,
    operators::{KEEP_ONCE, KnownOnce, write_answers},
};
use uuid::Uuid;

use crate::{
    audit,
    connect::{CONNECT_TIMEOUT, connection},
    enqueue::enqueue_on,
    errors::{failed, is_locked},
    rows::{self, get, micros},
    session::{Answer, Begin, Part, Session},
    store::Inner,
    submit::On,
};

const TAKE: &str = include_str!("../sql/once_take.sql");
const KNOWN: &str = include_str!("../sql/once.sql");
const ANSWER: &str = include_str!("../sql/once_answer.sql");

/// [`ONCE_PATIENCE`](turnwise_store::operators::ONCE_PATIENCE), for the key alone: what follows has the connection's own.
const PATIENCE: &str = "select pg_catalog.set_config('lock_timeout', '1s', true)";
const ITS_OWN: &str = "select pg_catalog.current_setting('lock_timeout')";
const SET_AGAIN: &str = "select pg_catalog.set_config('lock_timeout', $1, true)";

/// A key may be pruned between the look that finds it in use and the one that reads it; then it is taken anew.
const LOOKS: usize = 3;

pub(crate) async fn submit_once(store: &Inner, submit: SubmitOnce) -> Result<Once> {
    let fail = failed("enqueue");
    let unique = submit.jobs.iter().any(|job| job.unique.is_some());
    let _pass = if unique {
        let passed = tokio::time::timeout(CONNECT_TIMEOUT, store.gates.pass(&submit.jobs)).await;
        let what = "others in this process are submitting jobs with the same unique key";
        Some(passed.map_err(|error| StoreError::transient(what, error))?)
    } else {
        None
    };
    let mut client = connection(if unique { &store.pools.unique } else { &store.pools.submit }).await?;
    let (caller, key) = (of_caller(submit.caller), submit.key.as_str());
    for _ in 0..LOOKS {
        let transaction = client.begin().await.map_err(fail)?;
        let (body, kept) = (submit.body.0.as_slice(), micros(KEEP_ONCE));
        let parts =
            [Part::of(ITS_OWN, vec![]), Part::of(PATIENCE, vec![]), Part::of(TAKE, vec![&caller, &key, &body, &kept])];
        match taken(transaction.pipeline(&parts).await) {
            Ok(Taken::Yes(own)) => {
                transaction.query_one(SET_AGAIN, &[&own]).await.map_err(fail)?;
                let answers = enqueue_on(&mut On(&transaction), &submit.jobs).await?;
                audit::write(&transaction, submit.line.as_deref().as_slice()).await.map_err(fail)?;
                let written = write_answers(&answers);
                transaction.execute(ANSWER, &[&caller, &key, &written]).await.map_err(fail)?;
                transaction.commit().await.map_err(fail)?;
                store.bell.ring_news();
                return Ok(Once::Submitted(answers));
            }
            Ok(Taken::UnderWay) => return Ok(Once::UnderWay),
            Ok(Taken::InUse) => transaction.rollback().await.map_err(fail)?,
            Err(error) => return Err(fail(error)),
        }
        if let Some(answer) = find_once(&client, submit.caller, &submit.key, submit.body).await? {
            return Ok(answer);
        }
    }
    Err(StoreError::transient("enqueue", "the key of this submit is being deleted"))
}

pub(crate) async fn find(
    store: &Inner,
    caller: Option<TokenId>,
    key: &OnceKey,
    body: BodyHash,
) -> Result<Option<Once>> {
    find_once(&connection(&store.pools.submit).await?, caller, key, body).await
}

/// Reads what is committed, and waits for no call that is under way.
async fn find_once(
    client: &impl Session,
    caller: Option<TokenId>,
    key: &OnceKey,
    body: BodyHash,
) -> Result<Option<Once>> {
    let rows = client.query(KNOWN, &[&of_caller(caller), &key.as_str()]).await.map_err(failed("read a key"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let first = get::<&[u8]>(row, 0)?.try_into();
    let first = BodyHash(first.map_err(|error| StoreError::broken("read a key", error))?);
    let known = KnownOnce { body: first, answers: get(row, 1)?, at: rows::now(row, 2)? };
    known.meets(body, rows::now(row, 3)?)
}

enum Taken {
    /// With the connection's own patience.
    Yes(String),
    InUse,
    UnderWay,
}

fn taken(answers: Answer<Vec<Vec<tokio_postgres::Row>>>) -> Answer<Taken> {
    match answers {
        Ok(answers) => match answers.as_slice() {
            [own, _, taken] if !taken.is_empty() => Ok(Taken::Yes(own[0].try_get(0)?)),
            _ => Ok(Taken::InUse),
        },
        Err(error) if is_locked(&error) => Ok(Taken::UnderWay),
        Err(error) => Err(error),
    }
}

pub(crate) async fn prune(client: &impl Session, limit: i64) -> Answer<u64> {
    client.execute(include_str!("../sql/prune_once.sql"), &[&micros(KEEP_ONCE), &limit]).await
}

fn of_caller(caller: Option<TokenId>) -> Uuid {
    caller.map_or(Uuid::nil(), |caller| caller.0)
}
