//! Secret fields of tasks.

use turnwise_core::secret::Secrets;

use super::MemoryStore;
use crate::{operators::new_secrets, store::Result};

pub(super) fn note(store: &MemoryStore, secrets: &Secrets) -> Result<()> {
    let known = &mut store.data().secrets;
    for (task, pointer) in new_secrets(known, secrets)?.iter() {
        known.add(task.clone(), pointer.clone());
    }
    Ok(())
}

pub(super) fn all(store: &MemoryStore) -> Result<Secrets> {
    Ok(store.data().secrets.clone())
}
