//! What a store keeps of finished jobs and of their logs: as the options it was opened with say, else as it is set for the
//! installation.
//!
//! A store reads the setting with every beat of a node, and whenever [`Store::recall`](crate::Store::recall) is asked for the
//! installation's memo. From then on it goes by it.

use std::sync::{Mutex, PoisonError};

use turnwise_core::{Retention, settings::InstallationSettings, story::LOG_LINES};

use crate::{Memo, MemoKind, Options};

/// How much is kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Of finished jobs, by how they ended.
    pub retention: Retention,
    /// Lines of a job's log.
    pub log_lines: u32,
}

/// The options of a store, and the installation's settings as the store read them last.
#[derive(Debug)]
pub struct Kept {
    opened: (Option<Retention>, Option<u32>),
    set: Mutex<InstallationSettings>,
}

impl Kept {
    /// What the options leave open has its defaults until the installation's memo is read.
    pub fn new(options: &Options) -> Self {
        Self { opened: (options.retention, options.log_lines), set: Mutex::default() }
    }

    /// Takes in the installation's memo, if it is among `kinds`; `memos` are all memos of these kinds.
    pub fn hear(&self, kinds: &[MemoKind], memos: &[Memo]) {
        if kinds.contains(&MemoKind::Installation) {
            let set = memos.iter().rfind(|memo| memo.kind == MemoKind::Installation);
            self.hear_memo(set.map(|memo| memo.value.as_str()));
        }
    }

    /// Takes in the value of the installation's memo, if there is one. A value that cannot be read counts as none.
    pub fn hear_memo(&self, value: Option<&str>) {
        let read = value.and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default();
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }

    /// What the store goes by at this moment: its options, else the installation's settings, else the defaults.
    pub fn now(&self) -> Keeps {
        let set = *self.set.lock().unwrap_or_else(PoisonError::into_inner);
        Keeps {
            retention: self.opened.0.or(set.retention).unwrap_or_default(),
            log_lines: self.opened.1.or(set.log_lines).unwrap_or(LOG_LINES),
        }
    }
}
