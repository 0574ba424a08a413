//! Four tasks to try things out with, known to a node with `--demo-tasks`.

use std::time::{Duration, Instant};

use turnwise::{Ctx, Outcome, Registry, RegistryError, task};

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Length {
    ms: u64,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Failures {
    fail: u32,
}

/// Does nothing, whatever it is given.
#[task("noop", register = false)]
async fn noop(_anything: serde_json::Value) {}

/// Holds a slot, but no thread.
#[task("sleep", register = false)]
async fn sleep(length: Length, ctx: Ctx) -> Outcome {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(length.ms)) => Outcome::done(),
        () = ctx.cancelled() => Outcome::cancelled(),
    }
}

/// Fails its first attempts.
#[task("flaky", register = false)]
async fn flaky(failures: Failures, ctx: Ctx) -> Result<(), String> {
    let (attempt, fail) = (ctx.attempt(), failures.fail);
    if attempt <= fail { Err(format!("attempt {attempt} of {fail} that fail")) } else { Ok(()) }
}

/// Keeps a core busy.
#[task("spin", register = false)]
fn spin(length: Length, ctx: Ctx) -> Outcome {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(length.ms) {
        if ctx.is_cancelled() {
            return Outcome::cancelled();
        }
        std::hint::spin_loop();
    }
    Outcome::done()
}

pub(crate) fn tasks() -> Result<Registry, RegistryError> {
    let mut registry = Registry::new();
    registry.register(noop)?.register(sleep)?.register(flaky)?.register(spin)?;
    Ok(registry)
}
