//! What the caller should do about an error: which code of SQLite means what is read here.

use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use turnwise_store::StoreError;

/// Why a transaction failed: an error of the database, or of the store itself.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Sql(error) => explain(error),
            Failure::Store(error) => error,
        }
    }
}

/// What the caller should do about an error of SQLite.
pub(crate) fn explain(error: impl Into<Arc<rusqlite::Error>>) -> StoreError {
    let error = error.into();
    let (code, extended) = match &*error {
        rusqlite::Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
        _ => return StoreError::broken("read the database", error),
    };
    match code {
        ErrorCode::DatabaseBusy if extended == ffi::SQLITE_BUSY_SNAPSHOT => {
            let what = "another connection wrote after this transaction had read; begin it with `begin immediate`";
            StoreError::transient(what, error)
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::transient("another connection's transaction holds the database", error)
        }
        ErrorCode::DiskFull => StoreError::transient("the disk is full", error),
        ErrorCode::SystemIoFailure => StoreError::transient("the disk does not answer", error),
        ErrorCode::OperationAborted
        | ErrorCode::OperationInterrupted
        | ErrorCode::OutOfMemory
        | ErrorCode::SchemaChanged => StoreError::transient("the database could not go on", error),
        ErrorCode::ReadOnly if extended == ffi::SQLITE_READONLY_DBMOVED => StoreError::Refused(error.to_string()),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen | ErrorCode::NotADatabase => {
            StoreError::Refused(format!("the database cannot be used any more: {error}"))
        }
        // Of ours: the database is closed, and the sentence says why.
        ErrorCode::ConstraintViolation if extended == ffi::SQLITE_CONSTRAINT_TRIGGER => {
            StoreError::Refused(error.to_string())
        }
        _ => StoreError::broken("use the database", error),
    }
}
