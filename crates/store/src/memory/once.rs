//! Submits that are done once.

use turnwise_core::{OnceKey, Timestamp, access::TokenId};

use super::{Data, MemoryStore, enqueue};
use crate::{
    operators::{BodyHash, KEEP_ONCE, KnownOnce, Once, SubmitOnce, write_answers},
    store::Result,
};

pub(super) fn submit_once(store: &MemoryStore, submit: SubmitOnce) -> Result<Once> {
    let now = store.clock.now();
    let SubmitOnce { caller, key, body, jobs, line } = submit;
    let answers = {
        let mut data = store.data();
        if let Some(known) = data.once.get(&(caller, key.clone()))
            && let Some(answer) = known.meets(body, now)?
        {
            return Ok(answer);
        }
        let answers = enqueue::store_jobs(&mut data, jobs, now)?;
        data.write_line(line.as_deref(), now);
        data.once.insert((caller, key), KnownOnce { body, answers: write_answers(&answers), at: now });
        answers
    };
    store.bell.ring_news();
    Ok(Once::Submitted(answers))
}

pub(super) fn find_once(
    store: &MemoryStore,
    caller: Option<TokenId>,
    key: OnceKey,
    body: BodyHash,
) -> Result<Option<Once>> {
    let (now, data) = (store.clock.now(), store.data());
    data.once.get(&(caller, key)).map_or(Ok(None), |known| known.meets(body, now))
}

impl Data {
    /// Deletes keys that are old, the oldest first; how many.
    pub(super) fn prune_once(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut old: Vec<_> = self.once.iter().filter(|(_, known)| known.at.plus(KEEP_ONCE) <= now).collect();
        old.sort_by_key(|(_, known)| known.at);
        let old: Vec<_> = old.into_iter().take(limit).map(|(key, _)| key.clone()).collect();
        old.iter().for_each(|key| drop(self.once.remove(key)));
        old.len()
    }
}
