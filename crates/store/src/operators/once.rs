//! Submits that may be repeated under a key of the caller's choice: the first is done, the others get its answer.

use std::time::Duration;

use sha2::{Digest, Sha256};
use turnwise_core::{JobId, NewJob, OnceKey, Timestamp, access::TokenId, audit::NewAuditLine, unique::Replacing};

use crate::{
    StoreError,
    store::Result,
    store::{Duplicate, Submitted},
};

/// How long a key and its answer are kept.
pub const KEEP_ONCE: Duration = Duration::from_secs(24 * 3600);

/// How long a call waits for another one with the same key that is not finished.
pub const ONCE_PATIENCE: Duration = Duration::from_secs(1);

/// The SHA-256 of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyHash(pub [u8; 32]);

impl BodyHash {
    /// Of this body.
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::digest(body).into())
    }
}

/// A submit that is done once.
#[derive(Debug, Clone)]
pub struct SubmitOnce {
    /// Keys of different callers do not meet. `None`: a caller without a token.
    pub caller: Option<TokenId>,
    /// The same for all repeats.
    pub key: OnceKey,
    /// Detects another request that reuses the key by mistake.
    pub body: BodyHash,
    /// With ids that need not be the same in a repeat.
    pub jobs: Vec<NewJob>,
    /// Written with them, if it is an operator's change: a repeat writes no second one.
    pub line: Option<Box<NewAuditLine>>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Once {
    /// The jobs are submitted, by this call.
    Submitted(Vec<Submitted>),
    /// They were submitted by an earlier call, and this is what it was answered; nothing is stored now.
    Again(Vec<Submitted>),
    /// An earlier call had the same key and another body; nothing is stored.
    OtherBody,
    /// Another call with this key has not finished; nothing is stored. Its answer is there soon.
    UnderWay,
}

/// A key that is in use, as it is stored.
#[derive(Debug, Clone)]
pub struct KnownOnce {
    /// Of the first call.
    pub body: BodyHash,
    /// What the first call was answered, by [`write_answers`].
    pub answers: Vec<u8>,
    /// When the first call was.
    pub at: Timestamp,
}

impl KnownOnce {
    /// What a call with this body is answered; `None`: the key is so old that it counts as new.
    pub fn meets(&self, body: BodyHash, now: Timestamp) -> Result<Option<Once>> {
        if self.at.plus(KEEP_ONCE) <= now {
            Ok(None)
        } else if self.body == body {
            Ok(Some(Once::Again(read_answers(&self.answers)?)))
        } else {
            Ok(Some(Once::OtherBody))
        }
    }
}

/// Bytes of one answer: the id, and what became of it.
const ANSWER: usize = 17;

/// Answers in as few bytes as they fit in: a call may have ten thousand jobs.
pub fn write_answers(answers: &[Submitted]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(answers.len() * ANSWER);
    for Submitted { id, new, duplicate } in answers {
        bytes.extend_from_slice(id.as_bytes());
        bytes.push(match (new, duplicate) {
            (true, _) => 0,
            (false, None) => 1,
            (false, Some(Duplicate::Kept)) => 2,
            (false, Some(Duplicate::Replaced)) => 3,
            (false, Some(Duplicate::TooLate)) => 4,
            (false, Some(Duplicate::OtherTask)) => 5,
        });
    }
    bytes
}

/// The same, read back.
pub fn read_answers(bytes: &[u8]) -> Result<Vec<Submitted>> {
    let broken = || StoreError::broken("read the answer of an earlier submit", "it is not of this version");
    let (answers, []) = bytes.as_chunks::<ANSWER>() else { return Err(broken()) };
    let read = |answer: &[u8; ANSWER]| {
        let id: [u8; 16] = answer[..16].try_into().map_err(|_| broken())?;
        let id = JobId::from_uuid(uuid::Uuid::from_bytes(id));
        Ok(match answer[16] {
            code @ (0 | 1) => Submitted::itself(id, code == 0),
            2 => Submitted::held_by(id, Duplicate::Kept),
            3 => Submitted::held_by(id, Replacing::Allowed.into()),
            4 => Submitted::held_by(id, Replacing::TooLate.into()),
            5 => Submitted::held_by(id, Replacing::OtherTask.into()),
            _ => return Err(broken()),
        })
    };
    answers.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_read_as_it_was_written() {
        let id = JobId::from_parts(7, [7; 10]);
        let kinds = [Duplicate::Kept, Duplicate::Replaced, Duplicate::TooLate, Duplicate::OtherTask];
        let mut all = vec![Submitted::itself(id, true), Submitted::itself(id, false)];
        all.extend(kinds.map(|kind| Submitted::held_by(id, kind)));
        let bytes = write_answers(&all);
        assert_eq!(read_answers(&bytes).unwrap(), all);
        assert_eq!(read_answers(&[]).unwrap(), []);
        assert!(read_answers(&bytes[1..]).is_err());
        assert!(read_answers(&[9; 17]).is_err());
    }
}
