//! New rows: many in one statement, for each statement costs as much again as a row.

use std::{borrow::Cow, sync::LazyLock};

use rusqlite::{CachedStatement, Connection, Statement};
use turnwise_core::{KeyName, NewJob, RetryPolicy, Timestamp, calendar::stored_due};

/// Rows in one statement. With more, it hardly gets quicker.
pub(crate) const AT_ONCE: usize = 20;

const ONE: &str = include_str!("../sql/enqueue.sql");

/// The same with its row of values written down so many times.
static MANY: LazyLock<String> = LazyLock::new(|| {
    let (begin, rest) = ONE.split_once("values ").expect("enqueue.sql has values");
    let (row, end) = rest.split_once('\n').expect("they are a line of their own");
    format!("{begin}values {}\n{end}", [row; AT_ONCE].join(", "))
});

/// Writes new jobs.
pub(crate) struct Insert<'a> {
    conn: &'a Connection,
    one: CachedStatement<'a>,
    now: Timestamp,
    retry: Written,
}

/// The policy of the job before as text: mostly all have the same.
struct Written {
    policy: Option<RetryPolicy>,
    text: Cow<'static, str>,
}

impl<'a> Insert<'a> {
    pub(crate) fn new(conn: &'a Connection, now: Timestamp) -> rusqlite::Result<Self> {
        let retry = Written { text: RetryPolicy::to_stored(None), policy: None };
        Ok(Self { conn, one: conn.prepare_cached(ONE)?, now, retry })
    }

    /// Whether it is there for the first time.
    pub(crate) fn one(&mut self, job: &NewJob) -> rusqlite::Result<bool> {
        bind(&mut self.one, 0, job, self.now, &mut self.retry)?;
        Ok(self.one.raw_execute()? == 1)
    }

    /// Jobs of which none is there. `false`: the file has not taken all of them, for a reason of its owner's own.
    pub(crate) fn all(&mut self, jobs: &[NewJob]) -> rusqlite::Result<bool> {
        let mut rows = 0;
        let (chunks, rest) = jobs.as_chunks::<AT_ONCE>();
        if !chunks.is_empty() {
            let mut many = self.conn.prepare_cached(&MANY)?;
            for chunk in chunks {
                for (at, job) in chunk.iter().enumerate() {
                    bind(&mut many, at, job, self.now, &mut self.retry)?;
                }
                rows += many.raw_execute()?;
            }
        }
        for job in rest {
            rows += usize::from(self.one(job)?);
        }
        Ok(rows == jobs.len())
    }
}

/// The values of row `at`.
fn bind(
    insert: &mut Statement<'_>,
    at: usize,
    job: &NewJob,
    now: Timestamp,
    retry: &mut Written,
) -> rusqlite::Result<()> {
    if retry.policy != job.retry {
        *retry = Written { text: RetryPolicy::to_stored(job.retry.as_ref()), policy: job.retry.clone() };
    }
    let mut number = at * 12;
    macro_rules! bind {
        ($($value:expr),* $(,)?) => {
            $(
                number += 1;
                insert.raw_bind_parameter(number, $value)?;
            )*
        };
    }
    bind![
        &job.id.as_bytes()[..],
        job.task.as_str(),
        job.args.as_str(),
        job.queue.as_str(),
        job.group.as_str(),
        job.priority.get(),
        &*retry.text,
        now.micros(),
        stored_due(job.due, now).micros(),
        job.key.as_ref().map(KeyName::as_str),
        job.terms.to_text(),
        job.expires.map(Timestamp::micros),
    ];
    Ok(())
}
