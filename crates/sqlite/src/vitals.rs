//! What is known of the file, for a person who asks what is wrong.

use std::collections::BTreeMap;

use turnwise_core::doctor::Vitals;

use crate::location::Location;

pub(crate) fn vitals(location: &Location, schema: u32, settings: BTreeMap<String, String>) -> Vitals {
    Vitals { schema: Some(schema), settings, log_bytes: log_bytes(location), ..Vitals::default() }
}

/// How long the log beside the file is; `None`: there is no file.
fn log_bytes(location: &Location) -> Option<u64> {
    if location.in_memory() {
        return None;
    }
    Some(std::fs::metadata(location.log()).map_or(0, |log| log.len()))
}
