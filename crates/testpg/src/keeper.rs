//! The process that owns a cluster and outlives its parent by exactly the clean-up.
//!
//! A guard in the test process cannot clean up after `kill -9`, and a process that is asked to end by a signal cannot
//! be told from one that must go on without `unsafe`. So the cluster belongs to a child in a process group of its own,
//! and the pipe between the two is the guard: see `keeper.sh`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};

use crate::programs;

const SCRIPT: &str = include_str!("keeper.sh");

pub(crate) struct Keeper {
    process: Child,
    /// `None` once the keeper was told to clean up.
    orders: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Keeper {
    pub(crate) fn start(bin: &Path, settings: &str) -> Result<Keeper> {
        let mut command = programs::unprivileged("sh")?;
        // Standard error is inherited on purpose: whoever reads ours to its end knows that the cluster is gone.
        programs::without_pg_variables(&mut command)
            .args(["-c", SCRIPT, "turnwise-testpg-keeper"])
            .arg(bin)
            .arg(settings)
            .current_dir("/")
            .env("LC_ALL", "C")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().context("start the keeper of the PostgreSQL cluster")?;
        let orders = process.stdin.take();
        let replies = BufReader::new(process.stdout.take().context("the keeper has no standard output")?);
        Ok(Keeper { process, orders, replies })
    }

    /// Sends one order and waits until it is done; the error of a failed one holds the server's log.
    pub(crate) fn order(&mut self, order: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the keeper of the cluster has ended")?;
        writeln!(orders, "{order}").with_context(|| format!("order `{order}` from the keeper of the cluster"))?;
        match self.line()?.as_str() {
            "ok" => Ok(()),
            _ => bail!("PostgreSQL: `{order}` failed:\n{}", self.failure()?),
        }
    }

    fn failure(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.line()? {
                line if line == "end" => return Ok(text.trim_end().to_owned()),
                line => text = text + &line + "\n",
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        // Bytes, not text: a log may quote anything.
        if self.replies.read_until(b'\n', &mut line).context("read the keeper's reply")? == 0 {
            bail!("the keeper of the PostgreSQL cluster ended without an answer");
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

impl Drop for Keeper {
    /// Returns when the cluster is stopped and its folder removed.
    fn drop(&mut self) {
        drop(self.orders.take());
        // Nothing can be done about a failed wait here, and the keeper cleans up all the same.
        let _ = self.process.wait();
    }
}
