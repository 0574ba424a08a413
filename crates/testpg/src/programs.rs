//! Where the programs of PostgreSQL and PgBouncer are on this machine, and as which user they run.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The environment variable that names the folder of the server programs and ends the search.
pub const BIN_VARIABLE: &str = "TURNWISE_PG_BIN";

/// The oldest major version the tests run on.
pub const OLDEST_MAJOR: u32 = 14;

const INSTALL: &str = "install the Debian package `postgresql` (apt-get install postgresql), or name a folder with \
                       `initdb`, `pg_ctl` and `postgres` in TURNWISE_PG_BIN";

/// Returns the folder that holds `initdb`, `pg_ctl` and `postgres`.
///
/// `TURNWISE_PG_BIN` is used as it is: an unfit folder there is an error, not a reason to look further. Otherwise
/// the newest fit version of the packages, then `pg_config`, then `PATH`.
pub fn server_folder() -> Result<PathBuf> {
    if let Some(named) = env::var_os(BIN_VARIABLE) {
        let named = PathBuf::from(named);
        return match major(&named) {
            Some(found) if found >= OLDEST_MAJOR => Ok(named),
            Some(found) => bail!("{BIN_VARIABLE} holds PostgreSQL {found}; the tests need {OLDEST_MAJOR} or newer"),
            None => bail!("{BIN_VARIABLE}={} holds no usable initdb, pg_ctl and postgres", named.display()),
        };
    }
    if let Some((_, folder)) = packaged().into_iter().next() {
        return Ok(folder);
    }
    from_pg_config()
        .into_iter()
        .chain(env::var_os("PATH").iter().flat_map(env::split_paths))
        .find(|folder| major(folder).is_some_and(|found| found >= OLDEST_MAJOR))
        .with_context(|| format!("no PostgreSQL server programs of version {OLDEST_MAJOR} or newer found: {INSTALL}"))
}

/// Whether the server can load the library of this name, by where packages and own builds put them.
pub(crate) fn has_library(name: &str) -> Result<bool> {
    let bin = server_folder()?;
    let home = bin.parent().unwrap_or(&bin);
    let library = format!("{name}.so");
    Ok(["lib", "lib/postgresql", "lib64", "lib64/pgsql"]
        .iter()
        .any(|folder| home.join(folder).join(&library).is_file()))
}

/// The environment variable that names the program of PgBouncer and ends the search.
pub const PGBOUNCER_VARIABLE: &str = "TURNWISE_PGBOUNCER";

/// Returns the program of PgBouncer.
///
/// `TURNWISE_PGBOUNCER` is used as it is. Otherwise `PATH`, then where packages put it, which only root has in `PATH`.
pub fn pgbouncer() -> Result<PathBuf> {
    if let Some(named) = env::var_os(PGBOUNCER_VARIABLE) {
        let named = PathBuf::from(named);
        return if is_pgbouncer(&named) {
            Ok(named)
        } else {
            bail!("{PGBOUNCER_VARIABLE}={} is no PgBouncer that can be run", named.display())
        };
    }
    env::var_os("PATH")
        .iter()
        .flat_map(env::split_paths)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from))
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| is_pgbouncer(program))
        .context(
            "no PgBouncer found: install the Debian package `pgbouncer` (apt-get install pgbouncer), or name the program \
             in TURNWISE_PGBOUNCER",
        )
}

fn is_pgbouncer(program: &Path) -> bool {
    program.is_file()
        && text_of(Command::new(program).arg("--version")).is_some_and(|version| version.starts_with("PgBouncer"))
}

/// The command line of `psql`: the server's own, else the one in `PATH`.
pub fn psql() -> PathBuf {
    server_folder()
        .map(|folder| folder.join("psql"))
        .ok()
        .filter(|psql| psql.is_file())
        .unwrap_or_else(|| "psql".into())
}

/// A `pg_dump` of the server's own version: beside its programs, or that of the packages. An older one refuses to read from it,
/// and a newer one writes what an older server may not understand.
pub fn pg_dump() -> Result<Option<PathBuf>> {
    let own = server_folder()?;
    let wanted = major(&own);
    let packaged = packaged().into_iter().filter(|(found, _)| Some(*found) == wanted).map(|(_, folder)| folder);
    Ok([own].into_iter().chain(packaged).map(|folder| folder.join("pg_dump")).find(|program| program.is_file()))
}

/// A command that runs `program` as a user that the server programs accept: they refuse to run as root.
pub fn unprivileged(program: &str) -> Result<Command> {
    if text_of(Command::new("id").arg("-u")).context("run `id -u`")? != "0" {
        return Ok(Command::new(program));
    }
    let (user, group) = ["postgres", "nobody"]
        .into_iter()
        .find_map(|user| Some((user, text_of(Command::new("id").args(["-g", user]))?)))
        .context("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it as")?;
    if in_path("runuser") {
        let mut command = Command::new("runuser");
        command.args(["-u", user, "--", program]);
        return Ok(command);
    }
    if in_path("setpriv") {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--init-groups".into()]).arg(program);
        return Ok(command);
    }
    bail!("PostgreSQL refuses to run as root, and neither `runuser` nor `setpriv` (package util-linux) is here")
}

/// Removes what would make PostgreSQL's programs talk to another server than the one they are given.
pub(crate) fn without_pg_variables(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command
}

/// The server programs of Debian's and Red Hat's packages, the newest first.
fn packaged() -> Vec<(u32, PathBuf)> {
    let mut found = versioned(Path::new("/usr/lib/postgresql"), "");
    found.extend(versioned(Path::new("/usr"), "pgsql-"));
    // Stable sort: of two folders with the same version the one found first stays first.
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found
}

fn versioned(parent: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let entries = parent.read_dir().into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| numbered(name, prefix)))
        .map(|entry| entry.path().join("bin"))
        .filter_map(|folder| major(&folder).map(|found| (found, folder)))
        .filter(|(found, _)| *found >= OLDEST_MAJOR)
        .collect()
}

fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn from_pg_config() -> Option<PathBuf> {
    text_of(Command::new("pg_config").arg("--bindir")).map(PathBuf::from)
}

/// The major version of a complete set of server programs in `folder`.
fn major(folder: &Path) -> Option<u32> {
    if !["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).is_file()) {
        return None;
    }
    parse_major(&text_of(Command::new(folder.join("postgres")).arg("--version"))?)
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` and `postgres (PostgreSQL) 19beta1` → the major version.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn in_path(program: &str) -> bool {
    env::var_os("PATH")
        .iter()
        .flat_map(|path| env::split_paths(OsStr::new(path)))
        .any(|dir| dir.join(program).is_file())
}

fn text_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_packaged_and_beta_servers() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(parse_major("postgres"), None);
    }

    #[test]
    fn only_folders_named_by_a_version_are_tried() {
        assert!(numbered("17", ""));
        assert!(numbered("pgsql-17", "pgsql-"));
        assert!(!numbered("pgsql-old", "pgsql-"));
        assert!(!numbered("share", ""));
    }
}
