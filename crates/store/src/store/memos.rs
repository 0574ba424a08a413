//! Named texts in the store. What they say, typed: [`memo`](crate::memo).

use turnwise_core::audit::NewAuditLine;

use super::Result;
use crate::StoreError;

/// What a memo is about; its name says which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoKind {
    /// Settings of the whole installation; one memo, whatever its name.
    Installation,
    /// Settings of a queue.
    Queue,
    /// Settings of a group.
    Group,
    /// Limits of a task.
    Task,
    /// Settings of a limit key.
    Key,
    /// What a group has used so far.
    Charge,
    /// By group: no more jobs are accepted. The value is the error text that a submitter gets.
    Full,
    /// A cursor: up to there, dispatchers have handled what must not be forgotten, such as pauses on errors. One memo.
    Seen,
    /// A schedule: what is submitted again and again, and when.
    Schedule,
    /// Which of a schedule's times are over, and the job of the last one.
    Fired,
    /// By its number: a decision about many jobs that a server carries out in parts, and how far it is. For people.
    Decided,
    /// Which nodes have dispatched of late. One memo. For people.
    Led,
    /// By the node's name: the incarnation of it that takes no more jobs, since a person wants that. Each beat reads it.
    Drained,
}

impl MemoKind {
    /// Every kind, in the order of its code.
    pub const ALL: [MemoKind; 13] = [
        Self::Installation,
        Self::Queue,
        Self::Group,
        Self::Task,
        Self::Key,
        Self::Charge,
        Self::Full,
        Self::Seen,
        Self::Schedule,
        Self::Fired,
        Self::Decided,
        Self::Led,
        Self::Drained,
    ];

    /// Number in the database; never reuse one. In the order of the kinds: memos are sorted by it.
    pub fn code(self) -> i16 {
        match self {
            Self::Installation => 0,
            Self::Queue => 1,
            Self::Group => 2,
            Self::Task => 3,
            Self::Key => 4,
            Self::Charge => 5,
            Self::Full => 6,
            Self::Seen => 7,
            Self::Schedule => 8,
            Self::Fired => 9,
            Self::Decided => 10,
            Self::Led => 11,
            Self::Drained => 12,
        }
    }

    /// The kind with this number; `None` if no kind has it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A named text in the store, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    /// What it is about.
    pub kind: MemoKind,
    /// Which one of its kind; a setting has the name of its queue, group, task or key.
    pub name: String,
    /// Mostly JSON; only core reads it.
    pub value: String,
    /// 1 when it is first written, one more with each write. A memo that was deleted and is written again may begin
    /// anew.
    pub version: i64,
}

/// A memo to be written or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemo {
    /// What it is about.
    pub kind: MemoKind,
    /// Which one of its kind; in one call each is named once.
    pub name: String,
    /// `None`: delete it. One that is not there is deleted already.
    pub value: Option<String>,
    /// Write only if the memo still has this version; 0: only if it is not there.
    pub seen: Option<i64>,
    /// Written to the audit log in the same transaction, if the memo is.
    pub line: Option<Box<NewAuditLine>>,
}

impl NewMemo {
    /// Refuses a call that names a memo twice: there is no order to write them in, so this is a bug of the caller.
    pub fn check_named_once(memos: &[NewMemo]) -> Result<()> {
        let mut names: Vec<_> = memos.iter().map(|memo| (memo.kind, memo.name.as_str())).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(StoreError::broken("remember", format!("{:?} is named twice in one call", pair[0]))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_memos_read_back_and_sort_like_their_codes() {
        assert!(MemoKind::ALL.into_iter().all(|kind| MemoKind::from_code(kind.code()) == Some(kind)));
        assert!(MemoKind::ALL.windows(2).all(|pair| pair[0] < pair[1] && pair[0].code() < pair[1].code()));
        assert_eq!(MemoKind::from_code(13), None);
    }
}
