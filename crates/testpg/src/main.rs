//! Runs a command next to a throw-away PostgreSQL cluster.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use turnwise_testpg::{Cluster, URL_VARIABLE, programs};

const USAGE: &str = "usage: turnwise-testpg with [--durable] COMMAND…   run COMMAND with a new cluster's URL in \
                     TURNWISE_TEST_PG_URL\n       turnwise-testpg where                    print the folder of the \
                     server programs\n       turnwise-testpg where pgbouncer          print the program of PgBouncer";

fn main() -> Result<ExitCode> {
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    let verb = if words.is_empty() { OsString::new() } else { words.remove(0) };
    match verb.to_str() {
        Some("with") => with(words),
        Some("where") => {
            let found = match words.as_slice() {
                [] => programs::server_folder()?,
                [word] if word == "pgbouncer" => programs::pgbouncer()?,
                _ => bail!(USAGE),
            };
            writeln!(io::stdout(), "{}", found.display())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!(USAGE),
    }
}

fn with(mut words: Vec<OsString>) -> Result<ExitCode> {
    let durable = words.first().is_some_and(|word| word == "--durable");
    if durable {
        words.remove(0);
    }
    let (program, arguments) = words.split_first().context(USAGE)?;
    let cluster = if durable { Cluster::start_durable() } else { Cluster::start() }?;
    let mut command = Command::new(program);
    command.args(arguments).env(URL_VARIABLE, cluster.url());
    let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
    let leash = leash(&child)?;
    let status = child.wait().with_context(|| format!("wait for {}", program.display()))?;
    release(leash)?;
    Ok(exit_code(status))
}

/// A signal ends this program at once, and the keeper of the cluster then cleans up. The leash sees to it that the
/// command ends as well instead of going on without its database.
fn leash(child: &Child) -> Result<Child> {
    const SCRIPT: &str = "trap '' INT TERM HUP; read -r word || kill -TERM \"$1\"";
    Command::new("sh")
        .args(["-c", SCRIPT, "turnwise-testpg-leash"])
        .arg(child.id().to_string())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start the leash of the command")
}

fn release(mut leash: Child) -> Result<()> {
    if let Some(mut stdin) = leash.stdin.take() {
        writeln!(stdin, "done").context("release the command")?;
    }
    leash.wait().context("release the command")?;
    Ok(())
}

/// As a shell reports it: 128 + signal for a command that was killed.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
