//! What only operators need, in a second trait: the dispatcher and the nodes work without it, and [`Store`](crate::Store) stays
//! small.
//!
//! Each verb is one atomic step and safe to repeat after a lost reply, as those of `Store` are. Nothing here is a memo: memos
//! ring the dispatcher, and are read whole.

mod audit;
mod listing;
mod once;
mod secret;
mod ticket;
mod totals;
mod watch;
mod workers;
mod statistics;

use std::fmt;

use async_trait::async_trait;
use turnwise_core::{
    Incarnation, OnceKey, Timestamp,
    access::{Grant, MAX_LOGINS, MAX_TOKENS, NewToken, Token, TokenId},
    audit::NewAuditLine,
    doctor::Vitals,
    secret::{MAX_SECRETS, Secrets},
    statistics::Row,
    totals::Totals,
};

pub use audit::*;
pub use listing::*;
pub use once::*;
pub use secret::*;
pub use statistics::*;
pub use ticket::*;
pub use totals::*;
pub use watch::*;
pub use workers::*;

use crate::{
    StoreError,
    store::{Epoch, Result},
};

/// What a look for a token has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundToken {
    /// The token with this secret, whatever its [state](Token::state) is.
    pub token: Option<Token>,
    /// Whether any token was ever created: from then on, a server refuses every request without one.
    pub any: bool,
    /// The database's time.
    pub now: Timestamp,
}

/// A person who logs in to a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLogin {
    /// Of a secret of its own, which the person's browser keeps.
    pub hash: TokenHash,
    /// What the person presented.
    pub token: TokenId,
    /// Until when the log-in lasts.
    pub until: Timestamp,
}

/// What a look for a log-in has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLogin {
    /// What the person logged in with.
    pub token: Token,
    /// When the log-in is over.
    pub until: Timestamp,
    /// The database's time.
    pub now: Timestamp,
}

/// The verbs of operators, beside [`Store`](crate::Store); every store has both.
#[async_trait]
pub trait OperatorStore: Send + Sync + fmt::Debug + 'static {
    /// Stores a token, and returns it as it is stored. Repeated with the same id, it returns the token that the first call stored.
    ///
    /// Tokens that are [spent](Token::is_spent) are deleted meanwhile. [`StoreError::Refused`](crate::StoreError) if there are
    /// [`MAX_TOKENS`] others. With a line, that is written in the same step, if the token is.
    async fn create_token(&self, token: NewToken, hash: TokenHash, line: Option<NewAuditLine>) -> Result<Token>;

    /// The token whose secret has this hash.
    async fn find_token(&self, hash: TokenHash) -> Result<FoundToken>;

    /// All tokens, newest first, those that are revoked or have expired among them; at most
    /// [`MAX_TOKENS`]. And the database's time, by which some of them have expired.
    async fn tokens(&self) -> Result<(Vec<Token>, Timestamp)>;

    /// Takes a token back for good, and returns it; `None`: there is none with this id. Repeated, the time of the first call stays.
    /// With a line, that is written in the same step, unless the token was revoked before.
    async fn revoke_token(&self, id: TokenId, line: Option<NewAuditLine>) -> Result<Option<Token>>;

    /// Writes down that these tokens were used now, for each of them [at most once a minute](Token::notes_use). Unknown ids are
    /// left out, and so are tokens that another transaction is writing about.
    async fn note_token_uses(&self, ids: Vec<TokenId>) -> Result<()>;

    /// Notes that the bearer of a token has logged in until then: from now on a look for the log-in finds the token. Repeated with the same
    /// hash, the first call counts.
    ///
    /// Log-ins that are over are deleted meanwhile, and of those with the same token the ones that end first, so that there are no more than
    /// [`MAX_LOGINS_OF_ONE`](turnwise_core::access::MAX_LOGINS_OF_ONE). [`StoreError::Refused`](crate::StoreError) if there are [`MAX_LOGINS`] others.
    async fn log_in(&self, login: NewLogin) -> Result<()>;

    /// The log-in whose secret has this hash, though it may be over, and its token, though that may be revoked or have expired; `None`:
    /// there is none.
    async fn find_login(&self, hash: TokenHash) -> Result<Option<FoundLogin>>;

    /// Ends a log-in. Repeated, or without one, it does nothing.
    async fn log_out(&self, hash: TokenHash) -> Result<()>;

    /// Keeps a ticket until it is redeemed or over. Repeated with the same hash, the first call counts. With a line, that is written in the same
    /// step, if the ticket is.
    ///
    /// Tickets and bearers that are over are deleted meanwhile. [`StoreError::Refused`](crate::StoreError) if there are
    /// [`MAX_TICKETS`](turnwise_core::access::MAX_TICKETS) others, or
    /// [`MAX_TICKETS_OF_ONE`](turnwise_core::access::MAX_TICKETS_OF_ONE) others of the same token: other pages' bearers are not ended for a new one.
    async fn make_ticket(&self, ticket: NewTicket, line: Option<NewAuditLine>) -> Result<()>;

    /// Redeems a ticket for a bearer, once: of any number of calls at once one is answered with what the ticket gives. `None`: there is no such
    /// ticket, it is over, or it was redeemed for another bearer. Repeated with the same bearer, it is answered as the first call was.
    async fn redeem_ticket(&self, redeem: Redeem) -> Result<Option<FoundTicket>>;

    /// What the bearer with this hash may do, though it may be over, and though its token may be revoked or have expired; `None`: there is none.
    async fn find_bearer(&self, hash: TokenHash) -> Result<Option<FoundTicket>>;

    /// Submits the jobs as [`Store::enqueue`](crate::Store::enqueue) does, unless a call with the same key was done for the same caller
    /// in the last [24 hours](KEEP_ONCE): then it stores nothing, and answers what that call was answered.
    ///
    /// The key is written in the submit's own transaction: it is there exactly if the jobs are. A call that fails leaves no key behind.
    /// Of any number of calls at once one submits, and the others are answered [`Once::Again`] or, if it takes longer than
    /// [a second](ONCE_PATIENCE), [`Once::UnderWay`]. [`Store::prune`](crate::Store::prune) deletes old keys.
    async fn submit_once(&self, submit: SubmitOnce) -> Result<Once>;

    /// What [`submit_once`](OperatorStore::submit_once) would answer with this key without storing anything: [`Once::Again`] or
    /// [`Once::OtherBody`]. `None`: no call with it was done in the last [24 hours](KEEP_ONCE); one may be under way. Waits for none.
    async fn find_once(&self, caller: Option<TokenId>, key: OnceKey, body: BodyHash) -> Result<Option<Once>>;

    /// A page of jobs, finished ones included, newest id first. A job that is there while all pages are read is in one of them, and in
    /// no two.
    ///
    /// Where no index leads to the jobs that are asked for (`docs/lists.md`), at most [`LOOKS`] rows of each table are looked at: a page
    /// that is not full then says [how far it came](JobPage::reached), and where to go on.
    async fn list_jobs(&self, ask: AskJobs) -> Result<JobPage>;

    /// A page of the audit log, newest first. A line that is there while all pages are read is in one of them, and in no two.
    ///
    /// Lines are written by the verbs that make the changes ([`Intervention::line`](crate::Intervention),
    /// [`NewMemo::line`](crate::NewMemo), and those of this trait that take one), each in the transaction of its change: one is there
    /// exactly if the other is. A line whose id is there already is left out, so that a repeated call leaves one. They are never changed;
    /// [`Store::prune`](crate::Store::prune) deletes them after [400 days](turnwise_core::audit::KEEP_AUDIT).
    async fn audit(&self, ask: AskAudit) -> Result<AuditPage>;

    /// Notes the secret fields of tasks, beside those that are noted already: none is ever taken away, for jobs of an older program may
    /// still have it. [`StoreError::Refused`](crate::StoreError) if there would be more than [`MAX_SECRETS`].
    async fn note_secrets(&self, secrets: Secrets) -> Result<()>;

    /// All secret fields that were ever noted.
    async fn secrets(&self) -> Result<Secrets>;

    /// What the store knows of its database, for a person who asks what is wrong. Changes nothing.
    async fn vitals(&self) -> Result<Vitals>;

    /// As [`Store::prune`](crate::Store::prune) without a cursor, by a person: the line is written if anything is deleted, with the
    /// [retention](NewAuditLine::keeping) that it went by.
    ///
    /// Where a prune is several transactions, as on PostgreSQL, the first one that deletes something writes the line.
    async fn prune_audited(&self, limit: u32, line: NewAuditLine) -> Result<u64>;

    /// Asks the dispatcher to write how much there is, and returns what it wrote last, however old that is.
    ///
    /// The question is one row that counts for [20 s](ASKED_FOR), and is written at most [every ten](ASK_AGAIN), however many callers ask. It
    /// rings the dispatcher if no other caller asked before, and comes to it with its news ([`News::asked`](crate::News::asked)).
    async fn ask_totals(&self) -> Result<FoundTotals>;

    /// Writes how much there is, in place of what was written before, if this node dispatches in this epoch; otherwise
    /// [`StoreError::NotLeading`]. Returns until when totals are asked for, if they still are. Does not ring and is
    /// not part of the news.
    async fn write_totals(&self, lead: (Incarnation, Epoch), totals: Totals) -> Result<Option<Timestamp>>;

    /// The dispatcher's [news](crate::Store::news) for any reader: new jobs and changes since a cursor, those that the dispatcher knows
    /// from its own process included. It writes nothing and takes no lock; any number of watchers may read.
    ///
    /// Each change is returned at least once to a watcher that goes on from cursor to cursor within
    /// [a minute](turnwise_core::watch::KEEP_CHANGES), on whichever server it asks; otherwise the reply says [reset](Watched::reset). Of a
    /// job that was submitted and ended between two reads only the end is returned.
    async fn watch(&self, ask: AskWatch) -> Result<Watched>;

    /// What nodes have in their hands, the first `most` jobs by id, with how far they have come: no more than nodes may hold.
    async fn in_hands(&self, most: u32) -> Result<InHands>;
    /// From now on only the term that begins with this call writes statistics, until the next one begins. Repeated, it begins the next one.
    ///
    /// [`StoreError::NotLeading`] if a dispatcher of a greater epoch has begun one.
    async fn begin_statistics(&self, epoch: Epoch) -> Result<BegunStatistics>;

    /// Writes what has been counted in a minute: all of it, or the next batch of it. The dispatcher writes the same minute again and
    /// again, each time with what has happened in it so far; what it wrote before is replaced.
    ///
    /// [`StoreError::NotLeading`], and nothing is written, if a later term has begun.
    async fn write_statistics(&self, write: WriteStatistics) -> Result<()>;

    /// Rows of these times, in their order, at most [`READ_ROWS`]. What several dispatchers counted at one time are several rows.
    async fn statistics(&self, ask: AskStatistics) -> Result<Vec<TimedRow>>;

    /// Errors of these times, at most [`READ_ROWS`] rows, in the order of these times.
    async fn error_statistics(&self, ask: AskErrors) -> Result<Vec<TimedError>>;

    /// The running totals, by queue and task, from the beginning of the installation.
    async fn statistics_totals(&self) -> Result<Vec<Row>>;

    /// Merges [old rows](turnwise_core::statistics::age) of one queue and one time, or of errors, into rows of the next longer
    /// span, or deletes them. Returns whether there may be more of them. Totals are not touched.
    async fn merge_statistics(&self) -> Result<bool>;

    /// A foreign worker, lost or not; `None`: no node has this incarnation (any more), or it is no foreign worker.
    async fn worker(&self, node: Incarnation) -> Result<Option<FoundWorker>>;

    /// Prolongs the leases of many foreign workers and sets their slots, in one statement for all, in the order of the beats. One that is
    /// unknown or lost gets `false`, and nothing is prolonged. Rings for the lead if one of them has more or fewer slots than before.
    async fn beat_workers(&self, beats: Vec<WorkerBeat>) -> Result<BeatenWorkers>;

    /// Those of these nodes that should look: they have batches or requests to stop, whether or not they know them, or are lost or gone.
    /// One statement for all.
    async fn mail_waiting(&self, nodes: Vec<Incarnation>) -> Result<Vec<Incarnation>>;
}

/// The answer to one token too many.
pub fn too_many_tokens() -> StoreError {
    let text = format!("there are {MAX_TOKENS} tokens, and no more are kept; give fewer callers tokens of their own");
    StoreError::Refused(text)
}

/// The answer to one log-in too many.
pub fn too_many_logins() -> StoreError {
    StoreError::Refused(format!("{MAX_LOGINS} people are logged in, and no more can be; try again later"))
}

/// Those of `secrets` that are not noted yet, or the refusal of too many.
pub fn new_secrets(known: &Secrets, secrets: &Secrets) -> Result<Secrets> {
    let mut new = Secrets::default();
    for (task, pointer) in secrets.iter().filter(|(task, pointer)| !known.has(task, pointer)) {
        new.add(task.clone(), pointer.clone());
    }
    if known.len() + new.len() > MAX_SECRETS {
        let text = format!("there are {} secret fields of tasks, and at most {MAX_SECRETS} are kept", known.len());
        return Err(StoreError::Refused(text));
    }
    Ok(new)
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
