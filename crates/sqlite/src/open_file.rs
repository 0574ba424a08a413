//! Whether the paths still lead to the file that is open, and to its log.

use std::path::{Path, PathBuf};

use crate::location::{Location, read_only};

/// A file that is open and its log, to distinguish them from others at their paths.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    /// `None`: they cannot be distinguished.
    file: Option<(u64, u64)>,
    /// Of the writer's connection, once it has one.
    log: Option<(PathBuf, (u64, u64))>,
}

impl OpenFile {
    /// Remembers the log that the connection of a writer has just opened: it stays the same one as long as that is open.
    pub(crate) fn remember_log(&mut self, location: &Location) {
        let log = location.log();
        self.log = self.file.and_then(|_| Self::number(&log).ok()).map(|number| (log, number));
    }

    /// Whether the paths still lead to the file and its log. SQLite does not look once they are open: what is committed into one that was
    /// deleted or replaced is seen by this process alone, and gone with it.
    pub(crate) fn check(&self) -> rusqlite::Result<()> {
        let Some(file) = self.file else { return Ok(()) };
        if let Some(problem) = Self::problem(&self.path, file) {
            let text = format!(
                "the database file {:?} {problem} while this process had it open, so nothing more is written to it; put it back, \
                 or restart this process to go on with what is there",
                self.path
            );
            return Err(read_only(text));
        }
        if let Some((log, number)) = &self.log
            && let Some(problem) = Self::problem(log, *number)
        {
            let text = format!(
                "the log {log:?} of the database file {problem} while this process had it open, so nothing more is written to it; \
                 restart this process to go on with what is in the file, and see that no program opens the file by other means than SQLite"
            );
            return Err(read_only(text));
        }
        Ok(())
    }

    fn problem(path: &Path, opened: (u64, u64)) -> Option<&'static str> {
        match Self::number(path) {
            Ok(now) if now == opened => None,
            Ok(_) => Some("was replaced by another file"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("was deleted or moved away"),
            // That it cannot be seen does not mean that it is gone.
            Err(_) => None,
        }
    }

    /// The file at this path, as it is now.
    pub(crate) fn at(path: PathBuf) -> Self {
        let file = Self::number(&path).ok();
        Self { path, file, log: None }
    }

    /// One that cannot be distinguished from another, such as a database in memory.
    pub(crate) fn unknown(path: PathBuf) -> Self {
        Self { path, file: None, log: None }
    }

    /// Device and inode.
    #[cfg(unix)]
    fn number(path: &Path) -> std::io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn number(_: &Path) -> std::io::Result<(u64, u64)> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
