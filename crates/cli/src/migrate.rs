//! The schema: bring it up to date, print it, or check it.

use turnwise::Invalid;
use turnwise_postgres as postgres;
use turnwise_sqlite as sqlite;

use crate::{args, error::Failure, print, serve::block_on, settings::Settings};

enum Kind {
    Sqlite,
    Postgres,
}

pub(crate) fn migrate(settings: &Settings, wish: &args::Migrate) -> Result<(), Failure> {
    let url = settings.database();
    let kind = kind(url)?;
    if wish.print {
        let script = match kind {
            Kind::Sqlite => sqlite::migrate_print(),
            Kind::Postgres => postgres::migrate_print(),
        };
        return Ok(print::lines([script.trim_end()])?);
    }
    let pending = block_on(pending(&kind, url))?;
    if !wish.check {
        block_on(apply(&kind, url))?;
    }
    match (pending.is_empty(), wish.check) {
        (true, _) => Ok(print::lines(["the schema is up to date"])?),
        (false, false) => Ok(print::lines(pending.iter().map(|step| format!("done: {step}")))?),
        (false, true) => {
            print::lines(pending.iter().map(|step| format!("missing: {step}")))?;
            Err(Failure::Other("the schema is not up to date; run `turnwise migrate`".to_owned()))
        }
    }
}

fn kind(url: &str) -> Result<Kind, Invalid> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Kind::Sqlite),
        Some("postgres" | "postgresql") => Ok(Kind::Postgres),
        _ => Err(Invalid::new("database", "has no schema to migrate; write sqlite:FILE or postgres://USER@HOST/NAME")),
    }
}

async fn pending(kind: &Kind, url: &str) -> Result<Vec<String>, Failure> {
    Ok(match kind {
        Kind::Sqlite => sqlite::migrate_check(url)?.iter().map(|step| named(step.version, step.name)).collect(),
        Kind::Postgres => {
            postgres::migrate_check(url).await?.iter().map(|step| named(step.version.into(), step.name)).collect()
        }
    })
}

async fn apply(kind: &Kind, url: &str) -> Result<(), Failure> {
    match kind {
        Kind::Sqlite => drop(sqlite::migrate(url)?),
        Kind::Postgres => postgres::migrate(url).await?,
    }
    Ok(())
}

fn named(version: i64, name: &str) -> String {
    format!("{version:04} {name}")
}
