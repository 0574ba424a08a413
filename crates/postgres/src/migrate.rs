//! How the schema comes and grows: numbered steps, each applied once.

use tokio_postgres::Row;
use turnwise_core::Retention;
use turnwise_store::{
    Result, Schema, StoreError,
    schema::{Done, FoundSchema, Home},
};

use crate::{
    connect::{Address, Alone, Purpose},
    errors::{failed, unreachable_or},
    prune,
    rows::{Moment, get},
    session::{Begin, Session, Transaction},
};

/// One step of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// From 1, without gaps.
    pub version: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

const STEPS: &[Step] = &[
    Step { version: 1, name: "begin", sql: include_str!("../migrations/0001_begin.sql") },
    Step { version: 2, name: "memos", sql: include_str!("../migrations/0002_memos.sql") },
    Step { version: 3, name: "failures", sql: include_str!("../migrations/0003_failures.sql") },
    Step { version: 4, name: "lineage", sql: include_str!("../migrations/0004_lineage.sql") },
    Step { version: 5, name: "stories", sql: include_str!("../migrations/0005_stories.sql") },
    Step { version: 6, name: "limited", sql: include_str!("../migrations/0006_limited.sql") },
    Step { version: 7, name: "unique", sql: include_str!("../migrations/0007_unique.sql") },
    Step { version: 8, name: "pools", sql: include_str!("../migrations/0008_pools.sql") },
    Step { version: 9, name: "history", sql: include_str!("../migrations/0009_history.sql") },
    Step { version: 10, name: "after", sql: include_str!("../migrations/0010_after.sql") },
    Step { version: 11, name: "claims", sql: include_str!("../migrations/0011_claims.sql") },
    Step { version: 12, name: "shares", sql: include_str!("../migrations/0012_shares.sql") },
    Step { version: 13, name: "ends", sql: include_str!("../migrations/0013_ends.sql") },
    Step { version: 14, name: "speed", sql: include_str!("../migrations/0014_speed.sql") },
    Step { version: 15, name: "ring", sql: include_str!("../migrations/0015_ring.sql") },
    Step { version: 16, name: "once", sql: include_str!("../migrations/0016_once.sql") },
    Step { version: 17, name: "lineages", sql: include_str!("../migrations/0017_lineages.sql") },
    Step { version: 18, name: "paths", sql: include_str!("../migrations/0018_paths.sql") },
    Step { version: 19, name: "sessions", sql: include_str!("../migrations/0019_sessions.sql") },
    Step { version: 20, name: "grants", sql: include_str!("../migrations/0020_grants.sql") },
    Step { version: 21, name: "known_place", sql: include_str!("../migrations/0021_known_place.sql") },
    Step { version: 22, name: "stop_requests", sql: include_str!("../migrations/0022_stop_requests.sql") },
    Step { version: 23, name: "given", sql: include_str!("../migrations/0023_given.sql") },
    Step { version: 24, name: "enqueue", sql: include_str!("../migrations/0024_enqueue.sql") },
    Step { version: 25, name: "shown", sql: include_str!("../migrations/0025_shown.sql") },
    Step { version: 26, name: "edits", sql: include_str!("../migrations/0026_edits.sql") },
    Step { version: 27, name: "operators", sql: include_str!("../migrations/0027_operators.sql") },
    Step { version: 28, name: "logins", sql: include_str!("../migrations/0028_logins.sql") },
    Step { version: 29, name: "audit", sql: include_str!("../migrations/0029_audit.sql") },
    Step { version: 30, name: "watch", sql: include_str!("../migrations/0030_watch.sql") },
    Step { version: 31, name: "totals", sql: include_str!("../migrations/0031_totals.sql") },
    Step { version: 32, name: "statistics", sql: include_str!("../migrations/0032_statistics.sql") },
    Step { version: 33, name: "secrets", sql: include_str!("../migrations/0033_secrets.sql") },
    Step { version: 34, name: "next", sql: include_str!("../migrations/0034_next.sql") },
    Step { version: 35, name: "append_only", sql: include_str!("../migrations/0035_append_only.sql") },
    Step { version: 36, name: "move", sql: include_str!("../migrations/0036_move.sql") },
    Step { version: 37, name: "groups", sql: include_str!("../migrations/0037_groups.sql") },
    Step { version: 38, name: "tickets", sql: include_str!("../migrations/0038_tickets.sql") },
    Step { version: 39, name: "job_group", sql: include_str!("../migrations/0039_job_group.sql") },
    Step { version: 40, name: "workers", sql: include_str!("../migrations/0040_workers.sql") },
    Step { version: 41, name: "keys", sql: include_str!("../migrations/0041_keys.sql") },
    Step { version: 42, name: "notice", sql: include_str!("../migrations/0042_notice.sql") },
];

/// The steps that a binary without them does not work with (docs/compatibility.md). The steps up to 26 were made before that was
/// promised.
const BREAKS: &[i32] = &[];

/// The version of the schema that this version works with: that of its last step.
pub fn schema_version() -> u32 {
    u32::try_from(STEPS.len()).expect("there are few steps")
}

/// The version of the schema at `url`; 0: there is none.
pub async fn found_version(url: &str) -> Result<u32> {
    Ok(done(&connect(&Address::read(url)?).await?).await?.last)
}

/// Any number that other programs do not use for an advisory lock: "turnwise" in ASCII.
const LOCK: i64 = 0x7475_726e_7769_7365;

/// Brings the schema at `url` up to date, in one transaction; two processes that start at once do not collide.
///
/// [`StoreError::Refused`] when the schema is newer and this binary does not work with it.
pub async fn migrate(url: &str) -> Result<()> {
    migrate_for(&Address::read(url)?, Retention::default()).await
}

/// As [`migrate`], with slices of history as this retention has them.
pub(crate) async fn migrate_for(address: &Address, retention: Retention) -> Result<()> {
    let mut client = connect(address).await?;
    if pending(done(&client).await?)?.is_empty() {
        return Ok(());
    }
    let fail = failed("migrate");
    let mut transaction = client.begin().await.map_err(fail)?;
    transaction.execute("select pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(fail)?;
    // Read again under the lock: another process may have migrated meanwhile.
    for step in pending(done(&transaction).await?)? {
        apply(&transaction, step).await?;
    }
    // So that jobs that end before the first dispatcher prunes have a slice too.
    let now: Moment = get(&transaction.query_one(include_str!("../sql/now.sql"), &[]).await.map_err(fail)?, 0)?;
    prune::make_ahead(&mut transaction, retention, now.0).await?;
    transaction.commit().await.map_err(fail)
}

/// The SQL of all steps, for a person who applies them by hand.
pub fn migrate_print() -> String {
    let steps = STEPS.iter().map(|step| {
        format!("-- {:04} {}\nbegin;\n{}\n{};\ncommit;\n", step.version, step.name, step.sql.trim_end(), record(step))
    });
    steps.collect::<Vec<_>>().join("\n")
}

/// The steps that `migrate` would apply; changes nothing.
pub async fn migrate_check(url: &str) -> Result<Vec<Step>> {
    Ok(pending(done(&connect(&Address::read(url)?).await?).await?)?.to_vec())
}

/// Does what is missing, where `schema` allows it; where it does not, an outdated schema is an error, and nothing is changed.
pub(crate) async fn migrate_or_refuse(address: &Address, schema: Schema, retention: Retention) -> Result<()> {
    let done = done(&connect(address).await?).await?;
    let Some(last) = pending(done)?.last() else { return Ok(()) };
    let found = if done.last == 0 { FoundSchema::None } else { FoundSchema::Older };
    if schema.migrates(Home::Server, found) {
        return migrate_for(address, retention).await;
    }
    Err(StoreError::Refused(match found {
        FoundSchema::None => {
            "the database has no Turnwise schema; `turnwise migrate` makes it, or name another database".to_owned()
        }
        FoundSchema::Older => format!(
            "the database has schema version {}, this binary needs {}; run `turnwise migrate`",
            done.last, last.version
        ),
    }))
}

async fn connect(address: &Address) -> Result<Alone> {
    let connected = address.connect(Purpose::Migrate).await;
    let what = "connect to the database";
    let (client, connection) = connected.map_err(|error| unreachable_or(error, what, &address.named()))?;
    address.check_asked()?;
    if let Some(other) = connection.parameter("server_encoding").filter(|encoding| *encoding != "UTF8") {
        return Err(StoreError::Refused(format!(
            "the database keeps its text in {other}, which cannot hold everything that jobs and their errors say; make \
             one with `create database NAME encoding 'UTF8' template template0` and name it in the url"
        )));
    }
    Ok(Alone::new(address.clone(), client, connection, Purpose::Migrate))
}

/// The number of the last step that was done, in a database that has a schema.
pub(crate) async fn last_step(client: &impl Session) -> Result<u32> {
    Ok(done(client).await?.last)
}

async fn done(client: &impl Session) -> Result<Done> {
    let fail = failed("read the schema's version");
    let there = client.query_one(include_str!("../sql/schema_exists.sql"), &[]).await.map_err(fail)?;
    if !there.get::<_, bool>(0) {
        return Ok(Done { last: 0, breaks: 0 });
    }
    let number = |row: Row| u32::try_from(row.get::<_, i32>(0)).unwrap_or(0);
    let last = number(client.query_one(include_str!("../sql/schema_version.sql"), &[]).await.map_err(fail)?);
    // An older schema has no column for it, and none of its steps is unknown.
    let breaks = if last > schema_version() {
        number(client.query_one(include_str!("../sql/schema_breaks.sql"), &[]).await.map_err(fail)?)
    } else {
        0
    };
    Ok(Done { last, breaks })
}

/// The steps that are missing; none, if the schema is newer.
fn pending(done: Done) -> Result<&'static [Step]> {
    done.check(schema_version()).map_err(|why| StoreError::Refused(format!("the database {why}")))?;
    Ok(usize::try_from(done.last).ok().and_then(|done| STEPS.get(done..)).unwrap_or_default())
}

async fn apply(transaction: &Transaction<'_>, step: &Step) -> Result<()> {
    let fail = failed("apply a migration");
    transaction.batch_execute(step.sql).await.map_err(fail)?;
    transaction.batch_execute(&record(step)).await.map_err(fail)
}

fn record(step: &Step) -> String {
    let Step { version, name, .. } = step;
    if BREAKS.contains(version) {
        return format!("insert into turnwise.migration (version, name, breaks) values ({version}, '{name}', true)");
    }
    format!("insert into turnwise.migration (version, name) values ({version}, '{name}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_without_gaps() {
        assert!(STEPS.iter().zip(1..).all(|(step, version)| step.version == version));
    }
}
