//! Three collectives, two slots, one of them floods: watch them take turns.
//!
//! `cargo run -p turnwise --example hello` keeps its jobs in `hello.db`; kill it half-way, start it again, and it goes on.

#![allow(clippy::print_stdout)] // it is a program

use std::time::Duration;

use turnwise::{Ctx, Event, Filter, JobState, Turnwise, task};

#[derive(serde::Serialize, serde::Deserialize)]
struct Document {
    number: u32,
}

#[task("extract", retry = "durations:200ms,200ms")]
async fn extract(document: Document, ctx: Ctx) -> Result<String, String> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    if document.number == 3 && ctx.attempt() == 1 {
        return Err("the scanner jammed".to_owned());
    }
    Ok(format!("text of document {}", document.number))
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turnwise = Turnwise::open("sqlite:hello.db").await?;
    let left = Filter { states: vec![JobState::Waiting, JobState::Stuck], ..Filter::default() };
    if turnwise.jobs(left).await?.is_empty() {
        let flood = (1..=12).map(|number| extract.job(Document { number }).group("flood"));
        turnwise.submit_all(flood).await?;
        for group in ["acme", "bakery"] {
            turnwise.submit_all((1..=3).map(|number| extract.job(Document { number }).group(group))).await?;
        }
    }
    let executor = turnwise.executor()?.configure(|config| config.core_pool_size = 2).build()?;
    let mut events = executor.events();
    executor.start().await?;
    println!("two slots; flood came first with twelve documents, acme and bakery after it with three each");
    while let Some(event) = events.next().await {
        match &event {
            Event::Success(job) => println!("  {:<7} done (attempt {})", job.group.as_str(), job.attempt),
            Event::Stuck(job) => println!("  {:<7} stuck: {}", job.group.as_str(), job.error.as_deref().unwrap_or("?")),
            _ => {}
        }
        if matches!(event, Event::Idle) && turnwise.jobs(unfinished()).await?.is_empty() {
            break;
        }
    }
    executor.stop().await;
    println!("all done; look at them with: cargo run --bin turnwise -- jobs --database sqlite:hello.db");
    Ok(())
}

fn unfinished() -> Filter {
    Filter {
        states: vec![JobState::Waiting, JobState::Scheduled, JobState::Running, JobState::Stuck],
        ..Filter::default()
    }
}
