//! Every bound of the service, each with its reason. A caller that goes beyond one gets an answer that says so.

use std::time::Duration;

use turnwise::access::{MAX_LOGINS, MAX_TICKETS, MAX_TOKENS};

/// Bytes of a request with one job: what its arguments may have, and room for the other names.
pub const JOB_BYTES: usize = 1024 * 1024 + 64 * 1024;
/// Bytes of a request with many jobs: as much as one transaction writes within a second or so.
pub const BATCH_BYTES: usize = 32 * 1024 * 1024;
/// Jobs of one call: a transaction that is not so long that others wait for it.
pub const BATCH_JOBS: usize = 10_000;
/// Bytes of a request in which a worker names what it holds: 20,000 jobs, with room.
pub const HELD_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of any other request: settings and filters are small.
pub const BODY_BYTES: usize = 64 * 1024;
/// Bytes of a form of a page: one job's arguments, in which most characters may be written as three.
pub const FORM_BYTES: usize = 3 * 1024 * 1024 + 64 * 1024;
/// Mebibytes of all request bodies that are in memory at a time: four full batches.
pub const BODIES_MIB: u32 = 128;
/// The same, of one token: half of it, so that other callers' bodies find room.
pub const BODIES_MIB_OF_ONE: u32 = 64;
/// Bytes of a body beyond which it is read by a thread of its own: so much takes a few milliseconds to read.
pub const LONG_BODY: usize = 256 * 1024;

/// Bytes of a request's head, all headers together; a browser's cookies fit in.
pub const HEAD_BYTES: usize = 64 * 1024;
/// How long the head of a request may take to arrive, and how long a connection may rest between two requests.
pub const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a body may take to arrive: 32 MiB at about 1 MiB a second.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// Bytes that are passed over of a body whose request was refused before its end, so that a caller that sends all of it first reads why:
/// two full batches. They are not kept in memory.
pub const UNREAD_BYTES: u64 = 64 * 1024 * 1024;
/// How long that may take. Such a connection may be closed for a newcomer.
pub const UNREAD_TIME: Duration = Duration::from_secs(10);
/// How long a caller may take no byte of an answer before its connection is closed: it holds memory meanwhile.
pub const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long a request may be worked on before it is answered with 503. The database may be out of reach.
pub const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long a page may take: a person who waits longer believes that it is broken. Without the database it says so after this.
pub const PAGE_TIME: Duration = Duration::from_millis(1_800);
/// For so long live pages share what they read again: however many watch a page, it is read again for one of them.
pub const SHARED_FOR: Duration = Duration::from_secs(4);
/// What live pages of this server may cost a second to be read again, on the average, by what their routes are taken to cost, and so much at once
/// before that: however many people watch, and whatever they look at. Measured with ten kinds of pages open and the reader of events, these were
/// 6.6 to 7.5 statements a second; four are the aim.
pub const WATCHED_A_SECOND: f64 = 2.0;
/// See [`WATCHED_A_SECOND`]: a page that is watched alone is read again at once.
pub const WATCHED_AT_ONCE: f64 = 12.0;
/// How long a page that is read again waits for that; then it is shown what was read last, and comes again.
pub const WATCHED_WAIT: Duration = Duration::from_secs(5);
/// As [`KEPT_FOR`], for pages that are read again.
pub const KEPT_FOR_WATCHERS: Duration = Duration::from_secs(30);
/// Answers that are shared at a time; pages beyond are read for themselves.
pub const SHARED_ANSWERS: usize = 256;
/// Bytes of an answer that is shared: with [`SHARED_ANSWERS`], 128 MiB at most.
pub const SHARED_BYTES: usize = 512 * 1024;
/// For so long pages share what takes a while to find out, such as what is wrong with the installation.
pub const KEPT_FOR: Duration = Duration::from_secs(10);
/// For so long a page shows the same job for an error without looking for another, and of so many errors.
pub const EXAMPLE_FOR: Duration = Duration::from_secs(30);
/// See [`EXAMPLE_FOR`].
pub const EXAMPLES: usize = 2_000;
/// Decisions about many jobs that are carried out for pages at a time: each goes on reading and writing.
pub const DECISIONS: usize = 8;
/// How long a request waits for its turn before it is answered with 429.
pub const TURN_TIME: Duration = Duration::from_secs(5);
/// How long a caller is asked to wait before it tries again.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Kibibytes of answers that are in memory at a time because their callers have not read them yet: 64 full pages.
pub const ANSWERS_KIB: u32 = 512 * 1024;
/// The same, of one token: a quarter.
pub const ANSWERS_KIB_OF_ONE: u32 = 128 * 1024;
/// Bytes of an answer that is not counted among them: of all connections together these are 512 MiB at most.
pub const SMALL_ANSWER: u64 = 64 * 1024;
/// Room for the answer that a submit of many jobs needs, or it is refused before it has stored them: its answer is sent in any case.
pub const ANSWER_KIB: usize = 4 * 1024;

/// Connections at a time; fewer where the process may not have twice as many open files, which the node needs too. Half of them may be of one
/// token: two for each of the workers that may wait. If there is no room for a newcomer, the connection is closed that has rested longest between two requests.
pub const CONNECTIONS: usize = 8_192;
/// Requests that are worked on at a time, long polls aside while they wait: more would only wait for the few connections to the database.
pub const REQUESTS: usize = 64;
/// Requests of one token that are worked on at a time: half of [`REQUESTS`], so that no caller takes the places of all others. While there are no
/// tokens, all programs of this machine share all of them.
pub const REQUESTS_OF_ONE: usize = 32;
/// Requests at a time that look at the whole backlog (`simulate`). Each takes a processor for as long as it lasts, and running jobs need the
/// others.
pub const HEAVY: usize = 1;
/// Requests at a time that ask why a job waits. They share one view of the backlog, which is brought up to date before each answer.
pub const WHYS: usize = 1;
/// Requests at a time that count jobs (`overview` and the lists of queues, groups, tasks and keys): each reads a page of 10,000 jobs.
pub const COUNTS: usize = 4;
/// Requests at a time that read statistics or errors: each may have some hundred thousand rows in memory before it adds them up.
pub const STATISTICS: usize = 4;
/// Unfinished jobs that a count looks at, the oldest, where no dispatcher reports how many there are, or this caller
/// may not see that; of a larger backlog each count is a lower bound.
pub const COUNTED: usize = 20_000;

/// The longest `?wait=`: proxies and clients often give up after a minute.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Long polls at a time. One read serves up to a thousand of them.
pub const WAITS: usize = 1_000;
/// Long polls at a time of one token: no caller takes the places of all others.
pub const WAITS_OF_ONE: usize = 200;
/// Takes of foreign workers at a time: each waits for jobs of its own, and holds a connection and some kilobytes.
pub const WORKER_WAITS: usize = 4_000;
/// The same, of one token: no fleet takes the places of all others. While there are no tokens, all programs of this machine share all of them.
pub const WORKER_WAITS_OF_ONE: usize = 2_000;
/// Between two looks for ended jobs while few or many callers wait.
pub const LOOK_FOR_FEW: Duration = Duration::from_millis(50);
/// See [`LOOK_FOR_FEW`].
pub const LOOK_FOR_MANY: Duration = Duration::from_millis(250);
/// More callers than this are many.
pub const FEW_WAITS: usize = 20;
/// Ids in one look.
pub const LOOKED_UP: usize = 1_000;

/// Streams at a time, of events and of logs. Each holds a connection and some kilobytes.
pub const STREAMS: usize = 1_000;
/// Streams of one token, or of all programs of this machine while there are no tokens: one caller must not take the places of all.
pub const STREAMS_OF_ONE: usize = 100;
/// Between two looks of the reader of events: how late an event may be, and five small reads a second while there is a listener.
pub const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// New jobs, and ended ones, that one look sends; if there are more, listeners are asked to read again.
pub const EVENTS_AT_ONCE: u32 = 5_000;
/// Looks that a listener may be behind before it is asked to read again. With full looks that are some 64 MiB, held once for all.
pub const BATCHES_BEHIND: usize = 16;
/// Between two looks at nodes, queues and the jobs in nodes' hands, which is done while a listener wants to know.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// As [`LOOK_AGAIN`] and [`SAMPLE_EVERY`] while all listeners are people, who do not notice a second: with these, a bit more than one small
/// read a second and server, however many listen.
pub const CALM_LOOK: Duration = Duration::from_secs(2);
/// See [`CALM_LOOK`].
pub const CALM_SAMPLE: Duration = Duration::from_secs(6);
/// Events of one look that such a listener gets one by one; of more it learns that there were many. Otherwise fifty open pages would take more
/// of the processor during a flood than the jobs do.
pub const CALM_EVENTS: usize = 20;
/// Jobs in nodes' hands that such a look reads, the first by id.
pub const SAMPLED_JOBS: u32 = 10_000;
/// How long a transaction of a submitter may be open, and its job still be sent as submitted if it ends before the next look.
pub const LATE_COMMIT: Duration = Duration::from_secs(10);
/// Jobs that are remembered as sent, for that: as many as are submitted in so long a time at 10,000 a second.
pub const RECENT_JOBS: usize = 100_000;
/// How often a listener that gets no events is sent its place, so that it can come back.
pub const PLACE_TOLD: Duration = Duration::from_secs(5);
/// How often something is sent on a silent stream: proxies close a connection without traffic, often after half a minute.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often the token of a stream is looked at again. With [`KNOWN_FOR`] a stream ends within five seconds after its token was revoked.
pub const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Bytes that a stream writes before they are sent: a connection that takes them slowly holds no more than this.
pub const PART_BYTES: usize = 32 * 1024;
/// Listeners at a time that read what they have missed: each may hold some megabytes until they are sent.
pub const CATCH_UPS: usize = 8;
/// Logs that are followed at a time: each is read by itself.
pub const LIVE_LOGS: usize = 100;
/// Between two looks at a log that is followed.
pub const LOG_LOOK: Duration = Duration::from_millis(500);
/// Queues whose groups and waiting jobs are listed at `/metrics`, and groups of each: a monitoring program keeps a series for each for long.
pub const SCRAPED_QUEUES: usize = 20;
/// See [`SCRAPED_QUEUES`].
pub const SCRAPED_GROUPS: usize = 10;
/// Tasks of queues with series of their own at `/metrics`, the busiest ones.
pub const SCRAPED_TASKS: usize = 200;
/// What groups used is shown over this time: a minute alone would jump.
pub const SCRAPED_SHARE_TIME: Duration = Duration::from_secs(300);
/// For so long a count of what waits serves `/metrics`: to count takes a look at the backlog.
pub const WAITING_AGE: Duration = Duration::from_secs(10);

/// Jobs or names of a page if the caller does not say, and at most.
pub const PAGE: u32 = 100;
/// See [`PAGE`].
pub const PAGE_MOST: u32 = 1_000;
/// Bytes of a page's jobs: then the page ends, with fewer jobs than asked for and a cursor.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Jobs in the first read of a listing, and in each where they are large: each may have a mebibyte of arguments, and as much of a result.
pub const READ_FIRST: u32 = 20;
/// Jobs in one read of a listing, where those before were small.
pub const READ_AT_ONCE: u32 = 100;
/// Jobs that one decision by a filter is about; the caller calls again for more.
pub const DECIDED_AT_ONCE: usize = 10_000;
/// How long one decision by a filter, or its preview, goes on to look for further jobs; then it answers where to go on.
pub const DECIDING_TIME: Duration = Duration::from_secs(5);
/// Jobs of a graph: a larger one cannot be read, and each costs two reads.
pub const GRAPH_JOBS: usize = 200;
/// Jobs that have ended and that a job waited for, or that waited for it, that are read to tell a limited token which of them are its own.
pub const ENDED_TIES: usize = 1_000;
/// Characters of a text that a listing looks for.
pub const SNIPPET: usize = 1_000;
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
/// Tokens, log-ins and bearers of tickets that are remembered: as many as there may be, so that each finds room.
pub const KNOWN_TOKENS: usize = MAX_TOKENS + MAX_LOGINS + MAX_TICKETS;
/// If there is no room for one more, those that were not used for so long are forgotten, and no sooner again: it takes a while.
pub const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Secrets that are remembered as unknown for [`KNOWN_FOR`]: a program with a mistyped token asks with it again and again.
/// They have a table of their own, so that guesses take no room from tokens.
pub const UNKNOWN_TOKENS: usize = 1_000;
/// Secrets that are looked up a second and turn out to be unknown, of one address. A token that was found once is looked up without this
/// bound, so its bearer goes on while strangers guess.
pub const STRANGERS_OF_ONE: u32 = 20;
/// The same, of all addresses: some percent of what the connections to the database can answer.
pub const STRANGERS: u32 = 100;
/// Addresses whose tries are counted at a time; those beyond share the tries of one.
pub const ADDRESSES: usize = 10_000;
/// How long a request waits until the use of its token is written down.
pub const NOTE_TIME: Duration = Duration::from_secs(1);

/// Log-ins that may be tried a second from one address, and tickets that may be redeemed: each writes.
pub const LOGINS: f64 = 10.0;

/// Origins of one ticket, and of one address of `/embed`: a host has few, and all are compared.
pub const EMBEDDERS: usize = 10;

/// How long the server goes by the certificate that it has read: a renewed one is shown after this, at the latest.
pub const CERTIFICATE_LOOK: Duration = Duration::from_secs(5);

/// How long `/readyz` waits for the database.
pub const READY_TIME: Duration = Duration::from_secs(2);
/// How long open requests may take to end after the node has stopped.
pub const GRACE: Duration = Duration::from_secs(5);
/// How long the server rests when the system has no file or memory for one more connection.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
