//! What one token may take of the server's room: so many requests that are worked on, and so much memory for their bodies and for answers that
//! it has not read yet. The other tokens share the rest. While there are no tokens, all programs of this machine share all of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;
use turnwise::access::TokenId;

use crate::limits::{ANSWERS_KIB_OF_ONE, BODIES_MIB_OF_ONE, REQUESTS_OF_ONE};

type All = Arc<Mutex<HashMap<TokenId, Arc<Room>>>>;

/// The portions of all tokens that have a request under way.
#[derive(Debug, Default)]
pub(crate) struct Portions(All);

/// The portion of one token; it is forgotten when no request holds it.
#[derive(Debug)]
pub(crate) struct Portion {
    all: All,
    of: TokenId,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    requests: Arc<Semaphore>,
    /// Mebibytes.
    bodies: Arc<Semaphore>,
    /// Kibibytes.
    answers: Arc<Semaphore>,
}

fn open(all: &All) -> MutexGuard<'_, HashMap<TokenId, Arc<Room>>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Portions {
    pub(crate) fn of(&self, token: TokenId) -> Portion {
        let new = || {
            let places = |count: usize| Arc::new(Semaphore::new(count));
            let (requests, bodies) = (places(REQUESTS_OF_ONE), places(BODIES_MIB_OF_ONE as usize));
            Arc::new(Room { requests, bodies, answers: places(ANSWERS_KIB_OF_ONE as usize) })
        };
        let room = Arc::clone(open(&self.0).entry(token).or_insert_with(new));
        Portion { all: Arc::clone(&self.0), of: token, room }
    }
}

impl Portion {
    pub(crate) fn requests(&self) -> &Arc<Semaphore> {
        &self.room.requests
    }

    pub(crate) fn bodies(&self) -> &Arc<Semaphore> {
        &self.room.bodies
    }

    pub(crate) fn answers(&self) -> &Arc<Semaphore> {
        &self.room.answers
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut all = open(&self.all);
        // The table has one, and this the other; a new one is made under the same lock.
        if Arc::strong_count(&self.room) <= 2 {
            all.remove(&self.of);
        }
    }
}
