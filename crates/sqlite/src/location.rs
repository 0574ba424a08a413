//! Where a store's file is, and connections to it.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, ffi};
use turnwise_core::time::parse_span;
use turnwise_store::{Result, StoreError};

use crate::{errors::explain, open_file::OpenFile};

/// An answered caller's job survives a loss of power, not only of the process.
pub(crate) const SYNCHRONOUS: &str = "full";
/// Older ones can corrupt a file in WAL mode when two connections write and checkpoint at the same moment.
const LEAST_SQLITE: i32 = 3_051_003;
/// How long a write waits for another process's transaction before it is [`StoreError::Transient`].
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// All statements of this crate fit, so that each is prepared once per connection.
const STATEMENTS: usize = 200;
/// A WAL that grew under a long read is cut back to this many bytes.
const WAL_BYTES: i64 = 64 * 1024 * 1024;
/// Pages the writer keeps at hand, in KiB: taken only as they are touched. Batches of some thousand jobs from all over the table
/// fit. With SQLite's 2 MiB one does not: its pages are written out before the commit, and read again.
const CACHE_KIB: i64 = 16 * 1024;
/// Bytes of a page, where a file is made: twice SQLite's own. A batch of jobs then touches half as many pages, and each costs
/// two calls of the system and a place in the WAL. A file that is there keeps what it has.
const PAGE_BYTES: i64 = 8_192;
/// Bytes in the WAL that make the writer copy its pages into the file. More at a time than SQLite's 1,000 pages: one that was
/// changed several times in between is copied once.
const CHECKPOINT_BYTES: i64 = 16 * 1024 * 1024;

/// Where the jobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    path: PathBuf,
    busy_timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
}

/// Refuses a url that cannot be read; opens nothing.
pub fn check_url(path_or_url: &str) -> Result<()> {
    Location::parse(path_or_url).map(drop)
}

impl Location {
    pub(crate) fn parse(path_or_url: &str) -> Result<Self> {
        let (path, parameters) = match path_or_url.strip_prefix("sqlite:") {
            Some(url) => url.split_once('?').unwrap_or((url, "")),
            None => (path_or_url, ""),
        };
        let path = if path_or_url.starts_with("sqlite://") { &path[2..] } else { path };
        if path.is_empty() {
            let text = format!("{path_or_url:?} names no file; write it like sqlite:jobs.db");
            return Err(StoreError::Refused(text));
        }
        let mut location = Self { path: PathBuf::from(path), busy_timeout: BUSY_TIMEOUT };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("busy_timeout", span)) => {
                    let span = parse_span("busy_timeout", span);
                    location.busy_timeout = span.map_err(|invalid| StoreError::Refused(invalid.to_string()))?;
                }
                _ => {
                    let text = format!("{path_or_url:?}: {parameter:?} is not a setting; there is busy_timeout=10s");
                    return Err(StoreError::Refused(text));
                }
            }
        }
        Ok(location)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file lies that was just opened.
    pub(crate) fn place(&self) -> OpenFile {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        if self.in_memory() { OpenFile::unknown(path) } else { OpenFile::at(path) }
    }

    pub(crate) fn in_memory(&self) -> bool {
        self.path == Path::new(":memory:")
    }

    /// A connection, set up for its purpose. Only a writer makes a file.
    pub(crate) fn open(&self, purpose: Purpose) -> Result<Connection> {
        check_version(rusqlite::version_number())?;
        self.check_directory()?;
        match purpose {
            Purpose::Write => {
                let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
                self.begin_writing(&conn).map_err(|error| self.explain(error))?;
                Ok(conn)
            }
            Purpose::Read => {
                let conn = self.connect_to_read()?;
                conn.pragma_update(None, "query_only", true).map_err(|error| self.explain(error))?;
                Ok(conn)
            }
        }
    }

    /// A connection that has read nothing yet, and changed nothing. SQLite makes it one that only reads, if this process may not write
    /// the file.
    pub(crate) fn connect(&self, flags: OpenFlags) -> Result<Connection> {
        // Each connection lives on one thread. No URI: a path is taken to the letter.
        let conn = Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        self.set_up(conn).map_err(|error| self.explain(error))
    }

    fn set_up(&self, conn: rusqlite::Result<Connection>) -> rusqlite::Result<Connection> {
        let conn = conn?;
        conn.busy_timeout(self.busy_timeout)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        conn.pragma_update(None, "temp_store", "memory")?;
        Ok(conn)
    }

    fn connect_to_read(&self) -> Result<Connection> {
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // A file in WAL mode is read with two more files beside it. Where no process has made them, and this one may not write the file,
        // they would be left behind as this user's, and in the way of the file's owner.
        let readable = |conn: &Connection| conn.query_row("select count(*) from sqlite_schema", (), |_| Ok(()));
        let cannot = |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
        let is_readonly = conn.is_readonly(MAIN_DB).map_err(|error| self.explain(error))?;
        let unreadable = || readable(&conn).is_err_and(|error| cannot(&error));
        if !self.has_log() && (is_readonly || unreadable()) && self.in_wal_mode() {
            let conn = self.connect_by_uri("immutable=1");
            return self.set_up(conn).map_err(|error| self.explain(error));
        }
        Ok(conn)
    }

    /// Only SQLite may open the file. When a process closes a file, the operating system drops all locks of this process on it, those of
    /// its other connections too; another program that closes the file then finds it in use by no one, and (with a SQLite before 3.51)
    /// deletes the log that this process goes on writing to. SQLite knows its own connections and keeps a file open as long as one of them holds a lock.
    ///
    /// So not even the head of the file is read here. A connection that takes no locks has no log, and cannot open a file that needs one.
    /// A file that it cannot read for another reason is left to an ordinary connection to explain.
    fn in_wal_mode(&self) -> bool {
        let read = |conn: Connection| conn.query_row("select count(*) from sqlite_schema", (), |_| Ok(()));
        let without_locks = self.connect_by_uri("nolock=1");
        without_locks
            .is_ok_and(|conn| read(conn).is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::CannotOpen)))
    }

    fn connect_by_uri(&self, parameter: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri(&self.path, parameter), flags)
    }

    /// Whether there is something in the log beside the file, or a process may have it open.
    fn has_log(&self) -> bool {
        self.log().exists()
    }

    /// SQLite's log, which lies beside the file itself, also where the path is a link to it.
    pub(crate) fn log(&self) -> PathBuf {
        let file = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let mut log = file.into_os_string();
        log.push("-wal");
        log.into()
    }

    /// Makes a connection ready to write.
    pub(crate) fn begin_writing(&self, conn: &Connection) -> rusqlite::Result<()> {
        if conn.is_readonly(MAIN_DB)? {
            return Err(read_only(self.refused(READ_ONLY).to_string()));
        }
        let ready = || {
            conn.pragma_update(None, "page_size", PAGE_BYTES)?;
            self.use_wal(conn)?;
            conn.pragma_update(None, "synchronous", SYNCHRONOUS)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
            let page_bytes: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
            conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_BYTES / page_bytes)?;
            conn.pragma_update(None, "journal_size_limit", WAL_BYTES)
        };
        ready().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                read_only(self.explain(error).to_string())
            }
            _ => error,
        })
    }

    /// Readers then never wait for the writer. The mode is the file's, so all but the first find it done; several first
    /// ones at once get "busy" without SQLite's own waiting, hence the loop.
    fn use_wal(&self, conn: &Connection) -> rusqlite::Result<()> {
        let begun = Instant::now();
        loop {
            match conn.query_row("pragma journal_mode = wal", (), |row| row.get::<_, String>(0)) {
                Err(error)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && begun.elapsed() < self.busy_timeout =>
                {
                    std::thread::sleep(Duration::from_millis(10));
                }
                mode => return mode.map(drop),
            }
        }
    }

    fn check_directory(&self) -> Result<()> {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
                let text = format!("the directory {:?} of {:?} does not exist; create it first", parent, self.path);
                Err(StoreError::Refused(text))
            }
            _ => Ok(()),
        }
    }

    /// As [`explain`], naming the file where a person has to do something about it.
    pub(crate) fn explain(&self, error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => self.refused("is not a SQLite database; name another file"),
            // It says itself what to do.
            Some(ErrorCode::ReadOnly) if is_read_only(&error) => StoreError::Refused(error.to_string()),
            Some(ErrorCode::ReadOnly) => self.refused(READ_ONLY),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                self.refused("cannot be opened; see that it is a file, and that it and its directory are writable")
            }
            _ => explain(error),
        }
    }

    pub(crate) fn refused(&self, problem: &str) -> StoreError {
        StoreError::Refused(format!("{:?} {problem}", self.path))
    }
}

/// What a file must be to be written.
const READ_ONLY: &str = "is read-only; make it and its directory writable";

/// An error that [`Location::explain`] passes on as it is.
pub(crate) fn read_only(text: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), Some(text))
}

fn is_read_only(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// The path as SQLite reads it from a URI, with a parameter: `immutable=1` promises that no process changes the file while it is read.
fn uri(path: &Path, parameter: &str) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri + "?" + parameter
}

fn check_version(number: i32) -> Result<()> {
    let print = |number: i32| format!("{}.{}.{}", number / 1_000_000, number / 1_000 % 1_000, number % 1_000);
    if number >= LEAST_SQLITE {
        return Ok(());
    }
    let (is, least) = (print(number), print(LEAST_SQLITE));
    Err(StoreError::Refused(format!("SQLite {is} is linked in, at least {least} is needed; build with a newer one")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_written_as_a_url() {
        for (text, path) in [
            ("jobs.db", "jobs.db"),
            ("/var/jobs.db", "/var/jobs.db"),
            ("a?b.db", "a?b.db"),
            ("sqlite:jobs.db", "jobs.db"),
            ("sqlite:/var/jobs.db", "/var/jobs.db"),
            ("sqlite://jobs.db", "jobs.db"),
            ("sqlite:///var/jobs.db", "/var/jobs.db"),
            ("sqlite::memory:", ":memory:"),
        ] {
            assert_eq!(Location::parse(text).unwrap().path(), Path::new(path), "{text}");
        }
        assert_eq!(Location::parse("sqlite:a?busy_timeout=1s").unwrap().busy_timeout, Duration::from_secs(1));
        for text in ["", "sqlite:", "sqlite://", "sqlite:a?mode=ro", "sqlite:a?busy_timeout=1"] {
            assert!(matches!(Location::parse(text), Err(StoreError::Refused(_))), "{text}");
        }
    }

    #[test]
    fn a_path_is_taken_to_the_letter_also_in_a_uri() {
        let uri = uri(Path::new("/var/a b?c#d%25é.db"), "immutable=1");
        assert_eq!(uri, "file:///var/a%20b%3Fc%23d%2525%C3%A9.db?immutable=1");
    }

    #[test]
    fn an_old_sqlite_is_refused_with_both_versions() {
        let error = check_version(3_051_002).unwrap_err().to_string();
        assert!(error.contains("3.51.2") && error.contains("3.51.3"), "{error}");
        assert!(check_version(rusqlite::version_number()).is_ok());
    }
}
