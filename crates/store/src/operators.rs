//! What only operators need, in a second trait: the dispatcher and the nodes work without it, and [`Store`](crate::Store) stays
//! small.
//!
//! Each verb is one atomic step and safe to repeat after a lost reply, as those of `Store` are. Nothing here is a memo: memos
//! ring the dispatcher, and are read whole.

mod listing;
mod once;
mod secret;

use std::fmt;

use async_trait::async_trait;
use turnwise_core::{
    Timestamp,
    access::{Grant, MAX_TOKENS, NewToken, Token, TokenId},
};

pub use listing::*;
pub use once::*;
pub use secret::*;

use crate::{StoreError, store::Result};

/// What a look for a token has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundToken {
    /// The token with this secret, whatever its [state](Token::state) is.
    pub token: Option<Token>,
    /// Whether any token was ever created: from then on, nobody gets in without one.
    pub any: bool,
    /// The database's time.
    pub now: Timestamp,
}

/// The verbs of operators, beside [`Store`](crate::Store); every store has both.
#[async_trait]
pub trait OperatorStore: Send + Sync + fmt::Debug + 'static {
    /// Stores a token, and returns it as it is stored. Repeated with the same id, it returns the token that the first call stored.
    ///
    /// Tokens that are [spent](Token::is_spent) are deleted meanwhile. [`StoreError::Refused`](crate::StoreError) if there are
    /// [`MAX_TOKENS`] others.
    async fn create_token(&self, token: NewToken, hash: TokenHash) -> Result<Token>;

    /// The token whose secret has this hash.
    async fn find_token(&self, hash: TokenHash) -> Result<FoundToken>;

    /// All tokens, newest first, those that are revoked or have expired among them; at most
    /// [`MAX_TOKENS`]. And the database's time, to tell which of them are good.
    async fn tokens(&self) -> Result<(Vec<Token>, Timestamp)>;

    /// Takes a token back for good, and returns it; `None`: there is none with this id. Repeated, the time of the first call stays.
    async fn revoke_token(&self, id: TokenId) -> Result<Option<Token>>;

    /// Writes down that these tokens were used now, for each of them [at most once a minute](Token::notes_use). Unknown ids are
    /// left out, and so are tokens that another transaction is writing about.
    async fn note_token_uses(&self, ids: Vec<TokenId>) -> Result<()>;

    /// Submits the jobs as [`Store::enqueue`](crate::Store::enqueue) does, unless a call with the same key was done for the same caller
    /// in the last [24 hours](KEEP_ONCE): then it stores nothing, and answers what that call was answered.
    ///
    /// The key is written in the submit's own transaction: it is there exactly if the jobs are. A call that fails leaves no key behind.
    /// Of any number of calls at once one submits, and the others are answered [`Once::Again`] or, if it takes longer than
    /// [a second](ONCE_PATIENCE), [`Once::UnderWay`]. [`Store::prune`](crate::Store::prune) deletes old keys.
    async fn submit_once(&self, submit: SubmitOnce) -> Result<Once>;

    /// A page of jobs, finished ones included, newest id first. A job that is there while all pages are read is in one of them, and in
    /// no two.
    ///
    /// Where no index leads to the jobs that are asked for (`docs/lists.md`), at most [`LOOKS`] rows of each table are looked at: a page
    /// that is not full then says [how far it came](JobPage::reached), and where to go on.
    async fn list_jobs(&self, ask: AskJobs) -> Result<JobPage>;
}

/// The answer to one token too many.
pub fn too_many_tokens() -> StoreError {
    let text = format!("there are {MAX_TOKENS} tokens, and no more are kept; give fewer callers tokens of their own");
    StoreError::Refused(text)
}

/// What a token may do, as text in a column.
pub fn grant_text(grant: &Grant) -> String {
    serde_json::to_string(grant).expect("names and words are text")
}

/// The same, read back. What cannot be read is refused, and never guessed: a newer program may have written it.
pub fn read_grant(prefix: &str, text: &str) -> Result<Grant> {
    let newer =
        |error| StoreError::Refused(format!("token {prefix}… is not of this version ({error}); use a newer turnwise"));
    serde_json::from_str(text).map_err(newer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_grants_is_read_as_it_was_written_or_not_at_all() {
        let text = grant_text(&Grant::unlimited());
        assert_eq!(text, r#"{"scopes":["submit","read","operate","admin","work"]}"#, "stored grants outlive a release");
        assert_eq!(read_grant("tw_x", &text).unwrap(), Grant::unlimited());
        for other in [text.replace("read", "rule"), text.replace('}', r#","limits":{"regions":["eu"]}}"#)] {
            let refused = read_grant("tw_x", &other).unwrap_err().to_string();
            assert!(refused.starts_with("token tw_x… is not of this version"), "{refused}");
        }
    }
}
