//! What the caller should do about an error: which SQLSTATE means what is read here, for every driver. What an answer to a new connection
//! means is read in `connect`.

use std::error::Error;

use tokio_postgres::error::SqlState;
use turnwise_core::JobId;
use turnwise_store::StoreError;

use crate::connect::advice;

/// The SQLSTATE of a submit that is refused: the message is for the submitter.
pub const REFUSED: &str = "TW001";

/// The SQLSTATE of a submit that is refused because another job holds its unique key: the detail is that job's id.
pub const DUPLICATE: &str = "TW002";

/// An error as the server words it.
pub(crate) struct Said<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) detail: Option<&'a str>,
}

impl Said<'_> {
    /// What to do about it, as an error of `what`.
    pub(crate) fn meaning(&self, what: &'static str) -> StoreError {
        let Self { code, message, detail } = *self;
        let is = |states: &[SqlState]| states.iter().any(|state| state.code() == code);
        let text = format!("{message} ({code})");
        let schema_is_missing = [
            SqlState::UNDEFINED_TABLE,
            SqlState::UNDEFINED_FUNCTION,
            SqlState::UNDEFINED_COLUMN,
            SqlState::INVALID_SCHEMA_NAME,
        ];
        let a_person_must_act =
            [SqlState::INVALID_TEXT_REPRESENTATION, SqlState::CHECK_VIOLATION, SqlState::UNTRANSLATABLE_CHARACTER];
        let passes = [
            // A plan cached before a migration; the next connection has none.
            SqlState::FEATURE_NOT_SUPPORTED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::LOCK_NOT_AVAILABLE,
        ];
        match code.get(..2) {
            _ if code == REFUSED => StoreError::Refused(message.to_owned()),
            _ if code == DUPLICATE => match detail.and_then(|detail| detail.parse().ok()) {
                Some(holder) => StoreError::Duplicate { holder: JobId::from_uuid(holder), text: message.to_owned() },
                None => StoreError::broken(what, format!("{message}, without the holder's id")),
            },
            // Authorisation.
            Some("28") => StoreError::Refused(format!("{what}: {text}")),
            _ if is(&schema_is_missing) => {
                StoreError::Refused(format!("{what}: {text}; is the schema migrated? run `turnwise migrate`"))
            }
            _ if is(&[SqlState::INSUFFICIENT_PRIVILEGE]) => {
                StoreError::Refused(format!("{what}: {text}; docs/guides/postgres.md says what to grant to which role"))
            }
            _ if is(&[SqlState::INVALID_CATALOG_NAME]) => {
                StoreError::Refused(format!("{what}: {text}; create it, or name another one in the url"))
            }
            _ if is(&a_person_must_act) => StoreError::Refused(format!("{what}: {text}")),
            // Connection, rollback (deadlock, serialisation), resources, operator, system.
            Some("08" | "40" | "53" | "57" | "58") => StoreError::transient(what, text),
            _ if is(&passes) => StoreError::transient(what, text),
            _ => StoreError::broken(what, text),
        }
    }

    /// As [`Said::meaning`], while unique keys are taken: the error after too long a wait for a key says what it waited for.
    pub(crate) fn meaning_to_a_claim(&self) -> StoreError {
        if self.code == SqlState::LOCK_NOT_AVAILABLE.code() {
            let text = format!("{} ({})", self.message, self.code);
            StoreError::transient("an open transaction is submitting a job with the same unique key", text)
        } else {
            self.meaning("enqueue")
        }
    }
}

/// What the caller of a verb should do about `error`.
pub(crate) fn failed(what: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError + Copy {
    move |error| match said(&error) {
        Some(said) => said.meaning(what),
        None => unsaid(&error, what),
    }
}

/// As [`failed`], while unique keys are taken.
pub(crate) fn failed_to_claim(error: tokio_postgres::Error) -> StoreError {
    match said(&error) {
        Some(said) => said.meaning_to_a_claim(),
        None => unsaid(&error, "enqueue"),
    }
}

/// While connecting, an error that is not the network's is one of the configuration.
pub(crate) fn refused_or(error: tokio_postgres::Error, what: &'static str) -> StoreError {
    if let Some(advice) = advice(&error) {
        return StoreError::Refused(format!("{what}: {advice}"));
    }
    match error.code() {
        None if !is_network(&error) => StoreError::Refused(format!("{what}: {}", causes(&error))),
        _ => failed(what)(error),
    }
}

/// As [`refused_or`], for the first connection: an error of the network names the place that was tried.
pub(crate) fn unreachable_or(error: tokio_postgres::Error, what: &'static str, place: &str) -> StoreError {
    if error.code().is_none() && is_network(&error) && advice(&error).is_none() {
        let text = format!("{}; is a PostgreSQL server running at {place}?", causes(&error));
        return StoreError::transient(what, text);
    }
    refused_or(error, what)
}

/// Whether one of our functions refused it, with a message for the caller.
pub(crate) fn is_refusal(error: &tokio_postgres::Error) -> bool {
    is(error, &[REFUSED])
}

/// Whether another transaction holds a lock that the statement did not wait for, or waited for too long.
pub(crate) fn is_locked(error: &tokio_postgres::Error) -> bool {
    is(error, &[SqlState::LOCK_NOT_AVAILABLE.code()])
}

/// Whether there is a row of this key already.
pub(crate) fn is_there_already(error: &tokio_postgres::Error) -> bool {
    is(error, &[SqlState::UNIQUE_VIOLATION.code()])
}

/// Whether the server does not know a transaction of this number.
pub(crate) fn is_unknown_transaction(error: &tokio_postgres::Error) -> bool {
    is(error, &[SqlState::INVALID_PARAMETER_VALUE.code()])
}

/// Whether this SQLSTATE says that no transaction is open.
pub(crate) fn tells_of_no_transaction(code: &str) -> bool {
    code == SqlState::NO_ACTIVE_SQL_TRANSACTION.code()
}

/// Whether a value cannot be stored: of the wrong form, against a constraint, or too large. Only the caller that made it can do something
/// about it.
pub(crate) fn is_about_a_value(error: &tokio_postgres::Error) -> bool {
    is(error, &["22", "23", "54"])
}

/// Whether other statements would meet the same: no answer, or a trouble of the connection, of resources, of the system, or a shutdown.
/// Otherwise it is about one row: refused, a wait for another transaction that took too long, a deadlock, a value.
pub(crate) fn is_about_the_server(error: &tokio_postgres::Error) -> bool {
    error.code().is_none() || is(error, &["08", "53", "57P", "58"])
}

/// Whether the server itself reports that a statement failed, and keeps the connection: then nothing was committed.
pub(crate) fn is_certain(error: &tokio_postgres::Error) -> bool {
    error.code().is_some() && !is(error, &["08", "57", "58"])
}

/// Whether the connection is gone; a server that ends one may still report that.
pub(crate) fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.code().is_none() || is(error, &["08", "57P0"])
}

/// Whether a change of the schema that is not urgent is left for another time: a lock in the way, another process that does the same, or
/// a role that may write jobs but not change the schema.
pub(crate) fn is_for_another_time(error: &tokio_postgres::Error) -> bool {
    let states = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::DUPLICATE_TABLE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::INVALID_OBJECT_DEFINITION,
        SqlState::CHECK_VIOLATION,
        SqlState::UNDEFINED_TABLE,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    error.code().is_some_and(|code| states.contains(code))
}

/// Whether the server's SQLSTATE is one of these, or of one of these classes.
fn is(error: &tokio_postgres::Error, states: &[&str]) -> bool {
    error.code().is_some_and(|code| states.iter().any(|state| code.code().starts_with(state)))
}

fn said(error: &tokio_postgres::Error) -> Option<Said<'_>> {
    let error = error.as_db_error()?;
    Some(Said { code: error.code().code(), message: error.message(), detail: error.detail() })
}

/// An error that the server did not send.
fn unsaid(error: &tokio_postgres::Error, what: &'static str) -> StoreError {
    if is_network(error) { StoreError::transient(what, causes(error)) } else { StoreError::broken(what, causes(error)) }
}

fn is_network(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// One line with the causes: the driver's own text says only "db error".
pub(crate) fn causes(error: &tokio_postgres::Error) -> String {
    if let Some(said) = said(error) {
        return format!("{} ({})", said.message, said.code);
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
