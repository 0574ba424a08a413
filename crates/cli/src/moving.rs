//! Moving everything from one database to an empty one.

use std::{
    fs,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use turnwise::Invalid;
use turnwise_core::secret::without_password;
use turnwise_postgres::PostgresStore;
use turnwise_sqlite::SqliteStore;
use turnwise_store::{
    Options, Schema,
    moving::{
        Mover, Step, Sum,
        mover::{Place, Progress},
    },
};
use uuid::Uuid;

use crate::{args, error::Failure, print, serve::block_on};

/// What was moved, for a program.
#[derive(Debug, Serialize)]
struct Moved<'a> {
    source: &'a str,
    target: &'a str,
    /// Whether an earlier call did it all.
    already: bool,
    /// Jobs that were in the hands of nodes that were gone.
    handed_back: u64,
    /// What was moved, each table by itself; empty if an earlier call had compared them.
    parts: Vec<MovedTable>,
}

#[derive(Debug, Serialize)]
struct MovedTable {
    name: &'static str,
    rows: u64,
    /// Of all rows, the same on both sides.
    checksum: String,
}

pub(crate) fn moving(call: &args::Move) -> Result<(), Failure> {
    block_on(async {
        let source = open("source", &call.source, Schema::Existing).await?;
        let target = open("target", &call.target, Schema::Create).await?;
        let (from, to) = (source.name.clone(), target.name.clone());
        let mover = Mover::new(source, target, chance(&from, &to));
        if call.cancel {
            mover.give_up().await?;
            return Ok(print::lines([format!("given up: {from} is open again, and {to} is empty")])?);
        }
        let mut moved = Moved { source: &from, target: &to, already: false, handed_back: 0, parts: Vec::new() };
        let mut printed = Ok(());
        let mut report = |step| {
            let line = take_in(&mut moved, &step);
            if !call.json && printed.is_ok() {
                printed = print::lines(line);
            }
        };
        mover.run(&mut report).await?;
        printed?;
        if call.json {
            print::object(&moved)?;
        }
        Ok(())
    })
}

/// Notes a step, and says it to a person.
fn take_in(moved: &mut Moved<'_>, step: &Step) -> Option<String> {
    let (source, target) = (moved.source, moved.target);
    Some(match step {
        Step::HandedBack(jobs) => {
            moved.handed_back = *jobs;
            format!("{jobs} jobs were in the hands of nodes that are gone: they go on as after any loss of a node")
        }
        Step::Closed { again: false } => {
            format!("{source} is closed: it takes neither jobs nor nodes from now on, and names {target}")
        }
        Step::Closed { again: true } => format!("{source} was closed before; going on"),
        Step::Moved(Progress { part, rows }) if *rows > 0 => format!("moved {part}"),
        Step::Moved(_) => return None,
        Step::Verified { part, sum: Sum { rows, hash } } => {
            moved.parts.push(MovedTable { name: part, rows: *rows, checksum: format!("{hash:032x}") });
            if *rows == 0 {
                return None;
            }
            format!("the same on both sides: {rows} rows of {part}, checksum {hash:032x}")
        }
        Step::Finished => format!("done: use {target} from now on"),
        Step::WasFinished => {
            moved.already = true;
            format!("was done before: use {target}")
        }
    })
}

async fn open(field: &'static str, url: &str, schema: Schema) -> Result<Place, Failure> {
    let options = Options { schema, ..Options::default() };
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => {
            turnwise_sqlite::check_url(url)?;
            let Some(file) = SqliteStore::file(url)? else {
                let problem = "is in memory, and gone with its process: name a file or a server";
                return Err(Invalid::new(field, problem).into());
            };
            let store = SqliteStore::connect(url, options).map_err(|error| Failure::from(error).about(field))?;
            // Whole: the other database shows it to people who are elsewhere.
            let file = fs::canonicalize(&file).unwrap_or(file);
            let name = format!("sqlite:{}", file.display());
            Ok(Place { store: Arc::new(store.clone()), moves: Arc::new(store), name })
        }
        Some("postgres" | "postgresql") => {
            if !turnwise_postgres::names_database(url)? {
                let problem = format!("{} names no database; write postgres://USER@HOST/NAME", without_password(url));
                return Err(Invalid::new(field, problem).into());
            }
            let store = PostgresStore::connect(url, options).await;
            let store = store.map_err(|error| Failure::from(error).about(field))?;
            let name = without_password(url);
            Ok(Place { store: Arc::new(store.clone()), moves: Arc::new(store), name })
        }
        _ => {
            let problem = format!(
                "{:?} is not a database to move; write sqlite:FILE or postgres://USER@HOST/NAME",
                without_password(url)
            );
            Err(Invalid::new(field, problem).into())
        }
    }
}

/// A number that no other move has.
fn chance(from: &str, to: &str) -> Uuid {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = format!("{from} {to} {} {}", std::process::id(), now.as_nanos());
    Uuid::new_v5(&Uuid::NAMESPACE_URL, text.as_bytes())
}
