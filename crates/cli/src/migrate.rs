//! The schema: bring it up to date, print it, or check it.

use turnwise::Invalid;
use turnwise_postgres as postgres;
use turnwise_sqlite as sqlite;

use crate::{args, error::Failure, print, serve::block_on, settings::Settings};

enum Database {
    Sqlite,
    Postgres,
}

pub(crate) fn migrate(settings: &Settings, call: &args::Migrate) -> Result<(), Failure> {
    let url = settings.database();
    let kind = kind(url)?;
    if call.print {
        let script = match kind {
            Database::Sqlite => sqlite::migrate_print(),
            Database::Postgres => postgres::migrate_print(),
        };
        return Ok(print::lines([script.trim_end()])?);
    }
    settings.check_named()?;
    let pending = block_on(pending(&kind, url))?;
    if !call.check {
        block_on(apply(&kind, url))?;
    }
    let needed = match kind {
        Database::Sqlite => sqlite::schema_version(),
        Database::Postgres => postgres::schema_version(),
    };
    match (pending.is_empty(), call.check) {
        (true, _) => {
            let (found, version) = (block_on(found(&kind, url))?, turnwise::VERSION);
            let line = if found > needed {
                format!(
                    "the schema is newer: it has version {found}, turnwise {version} knows {needed} and works with it"
                )
            } else {
                format!("the schema is up to date: version {needed}, of turnwise {version}")
            };
            Ok(print::lines([line])?)
        }
        (false, false) => Ok(print::lines(pending.iter().map(|step| format!("done: {step}")))?),
        (false, true) => {
            print::lines(pending.iter().map(|step| format!("missing: {step}")))?;
            let found = usize::try_from(needed).unwrap_or_default().saturating_sub(pending.len());
            Err(Failure::Other(format!(
                "the schema is not up to date: it has version {found}, turnwise {} needs {needed}; run `turnwise migrate`",
                turnwise::VERSION
            )))
        }
    }
}

fn kind(url: &str) -> Result<Database, Invalid> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Database::Sqlite),
        Some("postgres" | "postgresql") => Ok(Database::Postgres),
        _ => Err(Invalid::new("database", "has no schema to migrate; write sqlite:FILE or postgres://USER@HOST/NAME")),
    }
}

async fn pending(kind: &Database, url: &str) -> Result<Vec<String>, Failure> {
    Ok(match kind {
        Database::Sqlite => sqlite::migrate_check(url)?.iter().map(|step| named(step.version, step.name)).collect(),
        Database::Postgres => {
            postgres::migrate_check(url).await?.iter().map(|step| named(step.version.into(), step.name)).collect()
        }
    })
}

/// The schema's version in the database, 0 where there is none, and the one that this program knows; `None`: the store has no schema.
pub(crate) async fn versions(url: &str) -> Result<Option<(u32, u32)>, Failure> {
    let Ok(kind) = kind(url) else { return Ok(None) };
    let known = match kind {
        Database::Sqlite => sqlite::schema_version(),
        Database::Postgres => postgres::schema_version(),
    };
    let missing = u32::try_from(pending(&kind, url).await?.len()).unwrap_or(known);
    let found = if missing == 0 { found(&kind, url).await? } else { known.saturating_sub(missing) };
    Ok(Some((found, known)))
}

async fn found(kind: &Database, url: &str) -> Result<u32, Failure> {
    Ok(match kind {
        Database::Sqlite => sqlite::found_version(url)?,
        Database::Postgres => postgres::found_version(url).await?,
    })
}

async fn apply(kind: &Database, url: &str) -> Result<(), Failure> {
    match kind {
        Database::Sqlite => drop(sqlite::migrate(url)?),
        Database::Postgres => postgres::migrate(url).await?,
    }
    Ok(())
}

fn named(version: i64, name: &str) -> String {
    format!("{version:04} {name}")
}
