//! The process that owns a server (a cluster, a PgBouncer) and outlives its parent by exactly the clean-up.
//!
//! A guard in the test process cannot clean up after `kill -9`, and without `unsafe` it cannot catch the signals that ask the
//! process to end. So the server belongs to a child in a process group of its own,
//! and the pipe between the two is the guard: see `keeper.sh`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};

use crate::programs;

/// A server and the script that knows how to run it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    PostgreSql,
    PgBouncer,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Server::PostgreSql => "PostgreSQL",
            Server::PgBouncer => "PgBouncer",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Server::PostgreSql => concat!(include_str!("cluster.sh"), include_str!("keeper.sh")),
            Server::PgBouncer => concat!(include_str!("pgbouncer.sh"), include_str!("keeper.sh")),
        }
    }
}

pub(crate) struct Keeper {
    server: Server,
    process: Child,
    /// `None` once the keeper is to clean up: the pipe is closed.
    orders: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Keeper {
    /// `program`: what the server's script takes as its first argument, the folder of the programs or the program.
    pub(crate) fn start(server: Server, program: &Path, settings: &str) -> Result<Keeper> {
        let mut command = programs::unprivileged("sh")?;
        // Standard error is inherited on purpose: a process that reads ours to its end knows that the server is gone.
        programs::without_pg_variables(&mut command)
            .args(["-c", server.script(), "turnwise-testpg-keeper"])
            .arg(program)
            .arg(settings)
            .current_dir("/")
            .env("LC_ALL", "C")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("start the keeper of {}", server.name()))?;
        let orders = process.stdin.take();
        let replies = BufReader::new(process.stdout.take().context("the keeper has no standard output")?);
        Ok(Keeper { server, process, orders, replies })
    }

    /// Orders `put`: the lines of `text` become the file `name` in the data folder.
    pub(crate) fn put(&mut self, name: &str, text: &str) -> Result<()> {
        self.order(&format!("put {name}\n{}\n.", text.trim_end()))
    }

    /// Orders `start` on a free port of 127.0.0.1 and returns the port.
    ///
    /// Between our look and the server's bind another process may take the port; then another port is tried.
    pub(crate) fn start_on_a_free_port(&mut self) -> Result<u16> {
        const TRIES: u32 = 10;
        let mut last = None;
        for _ in 0..TRIES {
            let port = free_port()?;
            match self.order(&format!("start {port}")) {
                Ok(()) => return Ok(port),
                Err(error) if TcpListener::bind(("127.0.0.1", port)).is_err() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        let last = last.context("no try to start the server")?;
        Err(last).context(format!("{TRIES} free ports were taken by other processes before the server could start"))
    }

    /// Sends one order and waits until it is done; the error of a failed one holds the server's log.
    pub(crate) fn order(&mut self, order: &str) -> Result<()> {
        let server = self.server.name();
        let orders = self.orders.as_mut().with_context(|| format!("the keeper of {server} has ended"))?;
        writeln!(orders, "{order}").with_context(|| format!("order `{order}` from the keeper of {server}"))?;
        match self.line()?.as_str() {
            "ok" => Ok(()),
            _ => bail!("{server}: `{order}` failed:\n{}", self.failure()?),
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
            bail!("the keeper of {} ended without an answer", self.server.name());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

impl Drop for Keeper {
    /// Returns when the server is stopped and its folder removed.
    fn drop(&mut self) {
        drop(self.orders.take());
        // Nothing can be done about a failed wait here, and the keeper cleans up all the same.
        let _ = self.process.wait();
    }
}

/// Below the range the kernel gives to outgoing connections: after a stop the port must be there for the start.
fn free_port() -> Result<u16> {
    (0..1000)
        .map(|_| 20_000 + u16::try_from(random() % 12_000).expect("below 12,000"))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .context("no free port between 20000 and 32000 on 127.0.0.1")
}

/// Each `RandomState` has keys of its own; that is chance enough for names and ports.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
