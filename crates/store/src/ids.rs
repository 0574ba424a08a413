//! What an id must be to be stored: a UUIDv7 that is not far ahead of the database's time.

use turnwise_core::{JobId, NewJob, Timestamp};

use crate::{StoreError, store::Result};

/// The text for an id that is too far ahead. PostgreSQL's statement has the same.
pub const AHEAD: &str =
    "id: is more than a minute ahead of the database's time; make ids of the present, or let Turnwise make them";

/// Refuses ids that are no UUIDv7.
pub fn check_version<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Result<()> {
    let refused = jobs.into_iter().find_map(|job| job.id.check_version().err());
    refused.map_or(Ok(()), |invalid| Err(StoreError::Refused(invalid.to_string())))
}

/// Refuses a job whose id [is ahead](JobId::is_ahead), unless it is known: a repeat is answered, whatever the clock shows by now.
pub fn check_ahead<'a, E: From<StoreError>>(
    jobs: impl IntoIterator<Item = &'a NewJob>,
    now: Timestamp,
    mut known: impl FnMut(JobId) -> std::result::Result<bool, E>,
) -> std::result::Result<(), E> {
    for job in jobs {
        if job.id.is_ahead(now) && !known(job.id)? {
            return Err(StoreError::Refused(AHEAD.to_owned()).into());
        }
    }
    Ok(())
}
