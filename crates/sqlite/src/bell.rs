//! How other processes' writes are noticed: a thread of its own looks at the file's version.
//!
//! Writes of this process ring after their commit ([`Ring`]); SQLite has no notification between processes. Looking at
//! `data_version` costs a look at shared memory and no lock.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use turnwise_store::{Bell, Result, StoreError};

use crate::errors::explain;

/// How long another process's write may go unnoticed. Short enough for a person, 20 looks a second when nothing happens.
const INTERVAL: Duration = Duration::from_millis(50);

/// Which bells a transaction rings once it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ring {
    pub(crate) news: bool,
    pub(crate) mail: bool,
    /// Foreign workers, too: it is not known for which of them there is mail.
    pub(crate) any: bool,
    pub(crate) lead: bool,
}

impl Ring {
    pub(crate) const NONE: Ring = Ring { news: false, mail: false, any: false, lead: false };
    pub(crate) const NEWS: Ring = Ring { news: true, ..Ring::NONE };
    pub(crate) const MAIL: Ring = Ring { mail: true, ..Ring::NONE };
    pub(crate) const LEAD: Ring = Ring { lead: true, ..Ring::NONE };

    pub(crate) fn ring(self, bell: &Bell) {
        if self.news {
            bell.ring_news();
        }
        if self.mail {
            bell.ring_mail();
        }
        if self.any {
            bell.ring_for_any();
        }
        if self.lead {
            bell.ring_lead();
        }
    }
}

/// The thread that looks; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// What is in the file before this call counts as seen; what is committed after it rings.
    pub(crate) fn start(conn: Connection, bell: Bell) -> Result<Self> {
        let mut seen = LastLook::look(&conn, version(&conn).map_err(explain)?).map_err(explain)?;
        let (stop, stopped) = mpsc::channel::<()>();
        let watch = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                match seen.look_again(&conn) {
                    Ok(ring) => ring.ring(&bell),
                    // Users of the bell poll as well; the next look may go better.
                    Err(error) => tracing::debug!(%error, "the file's version could not be read"),
                }
            }
        };
        let thread = thread::Builder::new().name("turnwise-watcher".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| StoreError::transient("start a thread for the database", error))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

/// What the last look saw.
///
/// Not every write rings: if it did, a beat would ring the others' `lead` bells, they would beat, and so on for ever.
#[derive(Debug, Clone, Copy)]
struct LastLook {
    version: i64,
    jobs: i64,
    changes: i64,
    mail: i64,
    /// How many, when the last one joined, and their slots.
    nodes: (i64, i64, i64),
    leaderless: bool,
    /// Until when totals are asked for.
    asked: i64,
}

impl LastLook {
    /// The version must have been read before: a write in between then shows as one more change, not as none.
    fn look(conn: &Connection, version: i64) -> rusqlite::Result<Self> {
        conn.prepare_cached(include_str!("../sql/bell_watch.sql"))?.query_row((), |row| {
            Ok(Self {
                version,
                jobs: row.get(0)?,
                changes: row.get(1)?,
                mail: row.get(2)?,
                nodes: (row.get(3)?, row.get(4)?, row.get(5)?),
                leaderless: row.get(6)?,
                asked: row.get(7)?,
            })
        })
    }

    fn look_again(&mut self, conn: &Connection) -> rusqlite::Result<Ring> {
        let version = version(conn)?;
        if version == self.version {
            return Ok(Ring::NONE);
        }
        let now = Self::look(conn, version)?;
        let ring = Ring {
            news: (now.jobs, now.changes, now.asked) != (self.jobs, self.changes, self.asked),
            mail: now.mail != self.mail,
            any: now.mail != self.mail,
            lead: now.nodes != self.nodes || (now.leaderless && !self.leaderless),
        };
        *self = now;
        Ok(ring)
    }
}

fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached("pragma data_version")?.query_row((), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::migrate;

    /// Two connections to one file: one that writes, and one that looks.
    fn pair() -> (tempfile::TempDir, Connection, Connection, LastLook) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.db");
        migrate(path.to_str().unwrap()).unwrap();
        let [writer, looker] = [(); 2].map(|()| Connection::open(&path).unwrap());
        let seen = LastLook::look(&looker, version(&looker).unwrap()).unwrap();
        (dir, writer, looker, seen)
    }

    #[test]
    fn another_process_is_noticed_by_what_it_wrote() {
        let (_dir, writer, looker, mut seen) = pair();
        assert_eq!(seen.look_again(&looker).unwrap(), Ring::NONE);
        for (sql, ring) in [
            ("insert into turnwise_change (jobs) values (x'')", Ring::NEWS),
            ("update turnwise_totals set asked_until = 7", Ring::NEWS),
            ("update turnwise_totals set written_at = 7, value = ''", Ring::NONE),
            ("insert into turnwise_assignment (node, batch, jobs) values (x'', x'', x'')", Ring { any: true, ..Ring::MAIL }),
            ("insert into turnwise_stop_request (node, job, fence) values (x'', x'', 1)", Ring { any: true, ..Ring::MAIL }),
            ("update turnwise_dispatcher set holder = x'00'", Ring::NONE),
            ("update turnwise_dispatcher set holder = null", Ring::LEAD),
            (
                "insert into turnwise_node (incarnation, name, host, slots, queue_capacity, tasks, joined_at, lease_until, lost)
                 values (x'00', 'a', '', 1, 1, '', 7, 8, 0)",
                Ring::LEAD,
            ),
            ("update turnwise_node set lease_until = 9", Ring::NONE),
            ("update turnwise_node set slots = 2", Ring::LEAD),
            ("delete from turnwise_node", Ring::LEAD),
        ] {
            writer.execute_batch(sql).unwrap();
            assert_eq!(seen.look_again(&looker).unwrap(), ring, "{sql}");
            assert_eq!(seen.look_again(&looker).unwrap(), Ring::NONE, "once is enough");
        }
    }

    #[test]
    fn a_beat_does_not_ring_even_while_no_node_leads() {
        let (_dir, writer, looker, mut seen) = pair();
        assert!(seen.leaderless);
        let before = seen.version;
        writer.execute_batch("update turnwise_dispatcher set until = 1").unwrap();
        assert_eq!(seen.look_again(&looker).unwrap(), Ring::NONE);
        assert_ne!(seen.version, before, "it was seen");
    }

    #[tokio::test]
    async fn a_write_of_another_connection_rings_the_bell() {
        let (_dir, writer, looker, _) = pair();
        let bell = Bell::default();
        let _watcher = Watcher::start(looker, bell.clone()).unwrap();
        writer.execute_batch("insert into turnwise_change (jobs) values (x'')").unwrap();
        bell.news.notified().await;
    }
}
