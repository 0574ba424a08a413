//! What live pages read again: once for all who look at the same at the same time, and no more in all than the database is to be asked because
//! people watch. A page that a person asks for is read anew.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    sync::Mutex,
    time::{Duration, Instant, sleep, timeout_at},
};
use turnwise::overview::Overview;

use crate::limits::{SHARED_ANSWERS, SHARED_BYTES, SHARED_FOR, WATCHED_A_SECOND, WATCHED_AT_ONCE};

/// A question to the API. Callers that may see the same get the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// As JSON.
    pub(crate) grant: String,
    pub(crate) route: &'static str,
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, String)>,
}

/// Where the answer to a question stands, with when it was asked for. A page that finds it too old asks, and the others wait for that.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) asking: Mutex<()>,
    answer: StdMutex<Option<(Instant, Bytes)>>,
}

impl Place {
    /// The answer, if it is younger than this.
    pub(crate) fn within(&self, age: Duration) -> Option<Bytes> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.as_ref().filter(|(asked, _)| asked.elapsed() < age).map(|(_, json)| json.clone())
    }

    /// The answer, however old.
    pub(crate) fn last(&self) -> Option<Bytes> {
        self.within(Duration::MAX)
    }

    /// What was asked for then.
    pub(crate) fn keep(&self, asked: Instant, json: &Bytes) {
        let answer = (json.len() <= SHARED_BYTES).then(|| (asked, json.clone()));
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    places: StdMutex<HashMap<Question, Arc<Place>>>,
    /// How much there is, as callers see it that may see everything: several questions are answered from it.
    counted: Mutex<Option<(Instant, Arc<Overview>)>>,
    bill: Bill,
}

/// What was read because people watch, in statements, as far as it is not paid for yet. Their pages take turns in the order of asking, and each
/// waits until what was read before it is paid for: so the more different pages are watched, the less often each of them is read again.
#[derive(Debug, Default)]
struct Bill {
    turn: Mutex<()>,
    owed: StdMutex<Option<(f64, Instant)>>,
}

impl Bill {
    /// Adds these, and returns what is owed now.
    fn add(&self, statements: u32) -> f64 {
        let mut bill = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let left = bill.map_or(0.0, |(owed, at)| (owed - at.elapsed().as_secs_f64() * WATCHED_A_SECOND).max(0.0));
        let owed = left + f64::from(statements);
        *bill = Some((owed, Instant::now()));
        owed
    }

    async fn pay(&self, statements: u32) {
        let _turn = self.turn.lock().await;
        loop {
            let over = self.add(0) - WATCHED_AT_ONCE;
            if over <= 0.0 {
                break;
            }
            // A little longer, so that rounding does not make a busy loop of it.
            sleep(Duration::from_secs_f64(over / WATCHED_A_SECOND) + Duration::from_millis(1)).await;
        }
        self.add(statements);
    }
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, HashMap<Question, Arc<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn place(&self, question: Question) -> Arc<Place> {
        let mut places = self.places();
        if places.len() >= SHARED_ANSWERS {
            // One that is being asked for is not too old.
            places.retain(|_, place| place.asking.try_lock().is_err() || place.within(SHARED_FOR).is_some());
        }
        if places.len() >= SHARED_ANSWERS {
            return Arc::default();
        }
        places.entry(question).or_default().clone()
    }

    /// Something was changed here: the person who did it sees that.
    pub(crate) async fn forget(&self) {
        self.places().clear();
        *self.counted.lock().await = None;
    }

    /// Waits until so many statements may be made for a page that is read again; `false`: not by then.
    pub(crate) async fn may_read(&self, statements: u32, by: Instant) -> bool {
        timeout_at(by, self.bill.pay(statements)).await.is_ok()
    }

    /// The jobs were counted for a page that is read again.
    pub(crate) fn note_count<T>(&self, counted: T) -> T {
        self.bill.add(COUNT);
        counted
    }

    /// How much there is, counted for a page that is read again; what the count costs goes on the bill of such pages.
    pub(crate) async fn counted<E>(
        &self,
        count: impl Future<Output = Result<Overview, E>>,
    ) -> Result<Arc<Overview>, E> {
        let mut counted = self.counted.lock().await;
        if let Some((_, overview)) = counted.as_ref().filter(|(at, _)| at.elapsed() < SHARED_FOR) {
            return Ok(Arc::clone(overview));
        }
        let began = Instant::now();
        let overview = Arc::new(self.note_count(count.await)?);
        *counted = Some((began, Arc::clone(&overview)));
        Ok(overview)
    }
}

/// What it takes to count the unfinished jobs.
const COUNT: u32 = 4;

/// How many statements the API makes for a question of a page, on PostgreSQL, without those that count jobs.
pub(crate) fn cost(route: &str) -> u32 {
    match route {
        "listQueues" | "getQueue" | "listGroups" | "getGroup" | "listTasks" | "getTask" => 0,
        "getOverview" | "listNodes" | "getJob" | "listErrors" | "getStatistics" | "listSchedules" => 1,
        "diagnose" => 12,
        "getJobGraph" | "whyJob" => 8,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_for_people_who_watch_is_paid_for_before_more_is_read() {
        let (shared, began) = (Shared::default(), Instant::now());
        let mut made = 0;
        while began.elapsed() < Duration::from_secs(60) {
            assert!(shared.may_read(4, Instant::now() + Duration::from_secs(60)).await);
            made += 4;
        }
        let most = WATCHED_AT_ONCE + 60.0 * WATCHED_A_SECOND + 8.0;
        assert!(f64::from(made) <= most && f64::from(made) >= most - 16.0, "{made} of {most}");
        // One that would wait longer than it may is not made, and costs nothing.
        assert!(!shared.may_read(4, Instant::now()).await);
    }
}
