//! What live pages read again: once for all who look at the same at the same time. A page that a person asks for is read anew.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{sync::Mutex, time::Instant};

use crate::limits::{SHARED_ANSWERS, SHARED_BYTES, SHARED_FOR};

/// A question to the API. Callers that may see the same get the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// As JSON.
    pub(crate) grant: String,
    pub(crate) route: &'static str,
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, String)>,
}

/// An answer, and when it was asked for.
type Answer = Option<(Instant, Bytes)>;

/// Where the answer to a question stands. Who finds it too old asks, and the others wait for that.
pub(crate) type Place = Arc<Mutex<Answer>>;

#[derive(Debug, Default)]
pub(crate) struct Shared(StdMutex<HashMap<Question, Place>>);

impl Shared {
    fn places(&self) -> MutexGuard<'_, HashMap<Question, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self, question: Question) -> Place {
        let mut places = self.places();
        if places.len() >= SHARED_ANSWERS {
            // One that is being asked for is not too old.
            places.retain(|_, place| place.try_lock().map_or(true, |answer| young(&answer).is_some()));
        }
        if places.len() >= SHARED_ANSWERS {
            return Place::default();
        }
        places.entry(question).or_default().clone()
    }

    /// Something was changed here: whoever did it sees that.
    pub(crate) fn forget(&self) {
        self.places().clear();
    }
}

/// The answer, if it is young enough for a page that is read again.
pub(crate) fn young(answer: &Answer) -> Option<Bytes> {
    answer.as_ref().filter(|(asked, _)| asked.elapsed() < SHARED_FOR).map(|(_, json)| json.clone())
}

/// What is kept of an answer that was asked for then.
pub(crate) fn kept(asked: Instant, json: &Bytes) -> Answer {
    (json.len() <= SHARED_BYTES).then(|| (asked, json.clone()))
}
