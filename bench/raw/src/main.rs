//! What the databases can do without a job queue: the limit every queue is held against.
//!
//! A table, one index for those that wait, the quickest statements known: [`postgres`] and [`sqlite`]. The verbs and the
//! answers are those of the peers' drivers in `bench/peers`.

#![allow(clippy::print_stdout)] // it is a program

mod marks;
mod postgres;
mod sqlite;

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How many jobs a statement claims, and a transaction ends.
const BATCH: usize = 1_000;

/// What becomes of a job that has ended.
#[derive(Clone, Copy, PartialEq)]
enum History {
    Delete,
    Keep,
}

enum Verb {
    Setup,
    Bulk { jobs: usize, unnest: bool },
    Submit { jobs: usize, callers: usize },
    Drain { jobs: usize, limit: Duration, history: History },
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let words: Vec<String> = env::args().skip(1).collect();
    let verb = parse(&words)?;
    let told = match url.strip_prefix("sqlite:") {
        Some(file) => sqlite::run(file, &verb)?,
        None => postgres::run(&url, verb).await?,
    };
    println!("{told}");
    Ok(())
}

fn parse(words: &[String]) -> Result<Verb> {
    const USAGE: &str = "usage: setup | bulk N [copy|unnest] | fill N | submit N CALLERS | drain N [SECS]";
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let history =
        if env::var("HISTORY").is_ok_and(|history| history == "keep") { History::Keep } else { History::Delete };
    Ok(match words[..] {
        ["setup"] => Verb::Setup,
        ["bulk" | "fill", jobs] | ["bulk", jobs, "copy"] => Verb::Bulk { jobs: jobs.parse()?, unnest: false },
        ["bulk", jobs, "unnest"] => Verb::Bulk { jobs: jobs.parse()?, unnest: true },
        ["submit", jobs, callers] => Verb::Submit { jobs: jobs.parse()?, callers: callers.parse()? },
        ["drain", jobs] => Verb::Drain { jobs: jobs.parse()?, limit: Duration::MAX, history },
        ["drain", jobs, seconds] => {
            Verb::Drain { jobs: jobs.parse()?, limit: Duration::from_secs(seconds.parse()?), history }
        }
        _ => bail!(USAGE),
    })
}

/// The arguments of job `id`, as the peers' drivers have them.
fn arguments(id: usize) -> String {
    format!(r#"{{"id":{id},"pad":"{}"}}"#, "x".repeat(80))
}

/// The answer to `bulk` and `submit`.
fn told(jobs: usize, took: Duration, settings: &str) -> Value {
    json!({ "jobs": jobs, "per_second": rate(jobs, took), "settings": settings })
}

fn rate(jobs: usize, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
