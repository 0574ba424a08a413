//! The promises every store makes, kept by SQLite.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tempfile::TempDir;
use turnwise_core::{Incarnation, NewJob};
use turnwise_sqlite::{AtEnd, SqliteStore};
use turnwise_store::{
    Closing, OperatorStore, Options, Store,
    conformance::{ClosingHarness, Harness, MoveHarness, OperatorHarness, StillClock},
    moving::mover::Place,
};

/// A file in a directory of its own; every handle is a store of its own, as another process would have it.
struct SqliteHarness {
    dir: Mutex<TempDir>,
    options: Options,
    clock: StillClock,
}

fn fresh() -> TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

async fn make(options: Options) -> SqliteHarness {
    SqliteHarness { dir: Mutex::new(fresh()), options, clock: StillClock::default() }
}

impl SqliteHarness {
    fn store(&self) -> SqliteStore {
        self.store_in("jobs.db")
    }

    fn store_in(&self, file: &str) -> SqliteStore {
        let path = self.dir.lock().expect("nothing panics under this lock").path().join(file);
        let path = path.to_str().expect("a test's path is text");
        SqliteStore::open_with_clock(path, self.options.clone(), self.clock.clock()).expect("open")
    }
}

#[async_trait]
impl ClosingHarness for SqliteHarness {
    async fn closing(&self, _node: Incarnation, job: NewJob) -> Box<dyn Closing> {
        let store = self.store();
        let submit = move |conn: &_, _| store.enqueue_in(conn, &[job]).map(drop).map_err(Into::into);
        Box::new(AtEnd::new(self.store(), None, submit))
    }
}

#[async_trait]
impl Harness for SqliteHarness {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn reset(&self) {
        *self.dir.lock().expect("nothing panics under this lock") = fresh();
    }
}

#[async_trait]
impl OperatorHarness for SqliteHarness {
    async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>) {
        let store = self.store();
        (Arc::new(store.clone()), Arc::new(store))
    }
}

#[async_trait]
impl MoveHarness for SqliteHarness {
    async fn source(&self) -> Place {
        let store = self.store();
        Place { store: Arc::new(store.clone()), moves: Arc::new(store), name: "sqlite:jobs.db".to_owned() }
    }

    async fn target(&self) -> Place {
        let store = self.store_in("target.db");
        Place { store: Arc::new(store.clone()), moves: Arc::new(store), name: "sqlite:target.db".to_owned() }
    }
}

turnwise_store::conformance_suite!(make);
turnwise_store::closing_suite!(make);
turnwise_store::operator_suite!(make);
turnwise_store::move_suite!(make);

/// Without a file there is one connection, and reads go the way of writes.
mod in_memory {
    use super::*;

    struct MemoryHarness {
        store: Mutex<SqliteStore>,
        options: Options,
        clock: StillClock,
    }

    fn open(options: &Options, clock: &StillClock) -> SqliteStore {
        SqliteStore::open_with_clock("sqlite::memory:", options.clone(), clock.clock()).expect("open")
    }

    async fn make(options: Options) -> MemoryHarness {
        let clock = StillClock::default();
        MemoryHarness { store: Mutex::new(open(&options, &clock)), options, clock }
    }

    #[async_trait]
    impl Harness for MemoryHarness {
        async fn open(&self) -> Arc<dyn Store> {
            Arc::new(self.store.lock().expect("nothing panics under this lock").clone())
        }

        async fn advance(&self, by: Duration) {
            self.clock.advance(by);
        }

        async fn reset(&self) {
            *self.store.lock().expect("nothing panics under this lock") = open(&self.options, &self.clock);
        }
    }

    #[async_trait]
    impl OperatorHarness for MemoryHarness {
        async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>) {
            let store = self.store.lock().expect("nothing panics under this lock").clone();
            (Arc::new(store.clone()), Arc::new(store))
        }
    }

    turnwise_store::conformance_suite!(make);
    turnwise_store::operator_suite!(make);
}
