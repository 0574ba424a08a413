//! What a program answers beside its exit code: files of the run, in a folder that is gone when the run is over.
//!
//! Files and not pipes: a program in any language can write one, and none waits for a node that has died.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Once,
    time::SystemTime,
};

use rustix::fs::OFlags;
use turnwise_core::{
    json::MAX_JSON_BYTES,
    story::{Level, Progress},
};

use super::RunError;
use crate::{ctx::Ctx, outcome::Outcome};

/// Most bytes of an outcome: the largest result or arguments, and room for what is written around them.
const MAX_OUTCOME_BYTES: usize = MAX_JSON_BYTES + 64 * 1024;
/// How much of the end of the progress file is read; a report is one line, and no longer than this.
const MAX_REPORT_BYTES: u64 = 8 * 1024;
/// Reports that cannot be read are named in the job's log, up to this many in a run.
const MAX_COMPLAINTS: u32 = 10;
/// What the folders of runs are named, with a number after it.
const PREFIX: &str = "turnwise-run-";
/// Tries to make a folder that no other process has or is deleting, and to delete one while its program is being killed.
const TRIES: u32 = 100;

/// How the texts that a program writes are read. [`Builder::state`](crate::executor::Builder::state) gives it to a node; the
/// programs of a node without it get no files to write to.
#[derive(Debug, Clone, Copy)]
pub struct AnswerFormat {
    /// An outcome, one JSON object; the error says what is wrong and where.
    pub outcome: fn(&str) -> Result<Outcome, String>,
    /// A report of progress, one JSON object; the error says what is wrong and where.
    pub progress: fn(&str) -> Result<Progress, String>,
}

/// The files of one run.
pub(super) struct Answer {
    format: AnswerFormat,
    folder: Folder,
    seen: Option<(u64, SystemTime)>,
    complaints: u32,
}

impl Answer {
    pub(super) fn new(format: AnswerFormat) -> Result<Self, RunError> {
        static SWEEP: Once = Once::new();
        let parent = std::env::temp_dir();
        // Left by nodes that were killed.
        SWEEP.call_once(|| sweep(&parent));
        let bad = |error: io::Error| RunError::error(format!("cannot make a folder in {}: {error}", parent.display()));
        Ok(Self { format, folder: Folder::make(&parent).map_err(bad)?, seen: None, complaints: 0 })
    }

    /// Where the program writes its outcome. The file is not there yet: a program that writes none has none.
    pub(super) fn outcome_path(&self) -> PathBuf {
        self.folder.path.join("outcome")
    }

    /// Where the program writes its progress; the last line counts.
    pub(super) fn progress_path(&self) -> PathBuf {
        self.folder.path.join("progress")
    }

    /// The outcome that the program has written, if any. The error says what is wrong with it.
    pub(super) fn outcome(&self) -> Result<Option<Outcome>, Unusable> {
        let Some(file) = open(&self.outcome_path())? else { return Ok(None) };
        let mut bytes = Vec::new();
        // One byte more than allowed, to distinguish an outcome of exactly the limit from a longer one.
        let limit = u64::try_from(MAX_OUTCOME_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        file.take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > MAX_OUTCOME_BYTES {
            return Err(Unusable::TooLong);
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| format!("is not UTF-8 from byte {}", error.utf8_error().valid_up_to() + 1))?;
        Ok(Some((self.format.outcome)(&text)?))
    }

    /// Hands on what the program reported last, if that is new. At the `end`, the last line needs no line break.
    pub(super) fn report(&mut self, ctx: &Ctx, end: bool) {
        match self.last_report(end).and_then(|line| line.map(|line| (self.format.progress)(&line)).transpose()) {
            Ok(None) => {}
            Ok(Some(Progress { done, total, text })) => ctx.progress(done, total, text),
            Err(problem) if self.complaints < MAX_COMPLAINTS => {
                self.complaints += 1;
                ctx.log_at(Level::Warn, format!("TURNWISE_PROGRESS: its last line cannot be read: {problem}"));
            }
            Err(_) => {}
        }
    }

    fn last_report(&mut self, end: bool) -> Result<Option<String>, String> {
        let text = |error: io::Error| error.to_string();
        let Some(mut file) = open(&self.progress_path()).map_err(text)? else { return Ok(None) };
        let about = file.metadata().map_err(text)?;
        let now = (about.len(), about.modified().map_err(text)?);
        if self.seen.replace(now) == Some(now) && !end {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(about.len().saturating_sub(MAX_REPORT_BYTES))).map_err(text)?;
        let mut bytes = Vec::new();
        file.take(MAX_REPORT_BYTES).read_to_end(&mut bytes).map_err(text)?;
        // A line that is being written has no end yet.
        let whole = if end { bytes.len() } else { bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(0) };
        let mut lines = bytes[..whole].split(|&byte| byte == b'\n');
        let last = lines.rfind(|line| !line.trim_ascii().is_empty());
        match last.map(<[u8]>::len) {
            Some(length) if u64::try_from(length).is_ok_and(|length| length >= MAX_REPORT_BYTES) => {
                Err(format!("is longer than {MAX_REPORT_BYTES} bytes"))
            }
            _ => Ok(last.map(|line| String::from_utf8_lossy(line).into_owned())),
        }
    }
}

/// Why an outcome cannot be used.
pub(super) enum Unusable {
    /// The next run may write a good one.
    Unreadable(String),
    /// A result that does not fit, as one on standard output.
    TooLong,
}

impl From<String> for Unusable {
    fn from(problem: String) -> Self {
        Self::Unreadable(problem)
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(problem) => f.write_str(problem),
            Self::TooLong => write!(f, "is longer than {MAX_OUTCOME_BYTES} bytes"),
        }
    }
}

/// The file if there is one. A program that has put a pipe or a link there does not make the node wait or read another file.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    match opened {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::other("is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A folder that only this user can look into, locked as long as it is in use.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn make(parent: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("all names are taken");
        for _ in 0..TRIES {
            let path = parent.join(format!("{PREFIX}{:016x}", rand::random::<u64>()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            match lock(&path) {
                Ok(lock) => return Ok(Self { path, _lock: lock }),
                // Another node saw a folder without a lock, and deletes it.
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        delete(&self.path);
    }
}

/// Locks the folder until the file is closed, unless another process has done so; an error also if it was deleted meanwhile.
fn lock(path: &Path) -> io::Result<File> {
    let folder = File::open(path)?;
    folder.try_lock()?;
    if fs::symlink_metadata(path)?.ino() == folder.metadata()?.ino() {
        Ok(folder)
    } else {
        Err(io::Error::other("is another folder now"))
    }
}

fn delete(path: &Path) {
    // A program that is being killed may finish making a file. What is left even so is swept by the next node.
    for _ in 0..TRIES {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::yield_now(),
            _ => return,
        }
    }
}

/// Deletes the folders of runs whose node is gone: those that no process has locked.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Also fails for a folder of another user.
        if let Ok(_lock) = lock(&entry.path()) {
            delete(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn a_folder_is_gone_with_its_run_and_a_dead_nodes_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let held = Folder::make(parent.path()).unwrap();
        assert_eq!(fs::metadata(&held.path).unwrap().mode() & 0o777, 0o700);
        fs::write(held.path.join("outcome"), "x").unwrap();
        // As a killed node leaves it.
        let left = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("outcome"), "x").unwrap();
        fs::create_dir(parent.path().join("another")).unwrap();
        sweep(parent.path());
        assert!(held.path.exists() && !left.exists());
        drop(held);
        assert_eq!(folders(parent.path()), 1, "the folder that is none of ours");
    }

    #[test]
    fn only_a_file_is_read() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("outcome");
        assert!(open(&path).unwrap().is_none());
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(open(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(open(&path).unwrap_err().to_string(), "is not a file");
    }
}
