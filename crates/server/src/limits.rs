//! Every bound of the service, each with its reason. A caller that goes beyond one gets an answer that says so.

use std::time::Duration;

/// Bytes of a request with one job: what its arguments may have, and room for the other names.
pub const JOB_BYTES: usize = 1024 * 1024 + 64 * 1024;
/// Bytes of a request with many jobs: as much as one transaction writes within a second or so.
pub const BATCH_BYTES: usize = 32 * 1024 * 1024;
/// Jobs of one call: a transaction that is not so long that others wait for it.
pub const BATCH_JOBS: usize = 10_000;
/// Bytes of any other request: settings and filters are small.
pub const BODY_BYTES: usize = 64 * 1024;
/// Mebibytes of all request bodies that are in memory at a time: four full batches.
pub const BODIES_MIB: u32 = 128;
/// Bytes of a body beyond which it is read by a thread of its own: so much takes a few milliseconds to read.
pub const LONG_BODY: usize = 256 * 1024;

/// Bytes of a request's head, all headers together; a browser's cookies fit in.
pub const HEAD_BYTES: usize = 64 * 1024;
/// How long the head of a request may take to arrive, and how long a connection may rest between two requests.
pub const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a body may take to arrive: 32 MiB at about 1 MiB a second.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a caller may take no byte of an answer before its connection is closed: it holds memory meanwhile.
pub const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long a request may be worked on before it is answered with 503. The database may be out of reach.
pub const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long a request waits for its turn before it is answered with 429.
pub const TURN_TIME: Duration = Duration::from_secs(5);
/// How long a caller is asked to wait before it tries again.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Connections at a time; fewer where the process may not have twice as many open files, which the node needs too.
pub const CONNECTIONS: usize = 2_048;
/// Requests that are worked on at a time, long polls aside: more would only wait for the few connections to the database.
pub const REQUESTS: usize = 64;
/// Requests at a time that look at the whole backlog (`why`, `simulate`, `overview` and the like). Each takes a processor for as long as it
/// lasts, and running jobs need the others.
pub const HEAVY: usize = 1;
/// Unfinished jobs that a count looks at, the oldest; of a larger backlog each count is a lower bound.
pub const COUNTED: usize = 100_000;

/// The longest `?wait=`: proxies and clients often give up after a minute.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Long polls at a time. One read serves up to a thousand of them.
pub const WAITS: usize = 1_000;
/// Between two looks for ended jobs while few or many callers wait.
pub const LOOK_FOR_FEW: Duration = Duration::from_millis(50);
/// See [`LOOK_FOR_FEW`].
pub const LOOK_FOR_MANY: Duration = Duration::from_millis(250);
/// More callers than this are many.
pub const FEW_WAITS: usize = 20;
/// Ids in one look.
pub const LOOKED_UP: usize = 1_000;

/// Jobs or names of a page if the caller does not say, and at most.
pub const PAGE: u32 = 100;
/// See [`PAGE`].
pub const PAGE_MOST: u32 = 1_000;
/// Bytes of a page's jobs: then the page ends, with fewer jobs than asked for and a cursor.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Jobs that are looked at for one page of a caller who may see only some of them.
pub const LOOKED_AT: usize = 20_000;
/// Jobs in one read of a listing: each may have a mebibyte of arguments, and as much of a result.
pub const READ_AT_ONCE: u32 = 100;
/// Jobs that one decision by a filter is about; the caller calls again for more.
pub const DECIDED_AT_ONCE: usize = 10_000;
/// Lines of a log if the caller does not say, and at most.
pub const LINES: u32 = 1_000;
/// See [`LINES`].
pub const LINES_MOST: u32 = 10_000;
/// Rows that one call to prune deletes in a transaction, and such transactions in a call.
pub const PRUNED_ROWS: u32 = 1_000;
/// See [`PRUNED_ROWS`].
pub const PRUNE_ROUNDS: usize = 10;

/// How long the server goes by what it knows of a token: a revoked one is refused after this, at the latest.
pub const KNOWN_FOR: Duration = Duration::from_secs(2);
/// Tokens that are remembered for so long; others are looked up with each request.
pub const KNOWN_TOKENS: usize = 10_000;
/// How long a request waits until the use of its token is written down.
pub const NOTE_TIME: Duration = Duration::from_secs(1);

/// How long `/readyz` waits for the database.
pub const READY_TIME: Duration = Duration::from_secs(2);
/// How long open requests may take to end after the node has stopped.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long the server rests when the system has no file or memory for one more connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
