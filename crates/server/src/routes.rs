//! The table of all routes. The router, the check of what a caller may do and the description for programs are made from it, so none
//! of them can know a route that the others do not.

use std::{fmt, pin::Pin};

use axum::{http::Method, routing::MethodFilter};
use turnwise_core::access::Action;

use crate::{
    audit, bulk,
    call::{Call, Reply},
    doctor, events, fleet, health, jobs,
    limits::{BATCH_BYTES, BODY_BYTES, HELD_BYTES, JOB_BYTES},
    live_log, login, metrics, names, openapi,
    problem::Problem,
    schedules, statistics, tickets, tokens, workers,
};

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads; also answers HEAD.
    Get,
    /// Does something.
    Post,
    /// Sets something, or another in its place.
    Put,
    /// Changes what is given and leaves the rest.
    Patch,
    /// Takes something away.
    Delete,
}

impl Verb {
    pub(crate) fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }

    /// As HTTP names it.
    pub fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }
}

/// What may stand behind the question mark.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// As it is written.
    pub name: &'static str,
    /// The schema of its value, by name.
    pub schema: &'static str,
    /// Whether it may be repeated.
    pub many: bool,
    /// What it means.
    pub text: &'static str,
}

/// A body that comes in.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// Its schema, by name.
    pub schema: &'static str,
    /// At most so many bytes.
    pub most: usize,
    /// Whether it may be left out.
    pub optional: bool,
}

type Answer = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// One thing that can be asked for.
pub struct Route {
    /// How.
    pub verb: Verb,
    /// Where; a name in braces is any text.
    pub path: &'static str,
    /// What the caller must be allowed to do; `None`: no token is needed.
    pub action: Option<Action>,
    /// A name for programs.
    pub id: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What may stand behind the question mark.
    pub parameters: &'static [Parameter],
    /// What comes in; `None`: nothing.
    pub input: Option<Input>,
    /// The status of success, and the schema of the answer.
    pub output: (u16, &'static str),
    /// Statuses of other answers that its callers may get, beside those that every route may give.
    pub refusals: &'static [u16],
    /// Whether it may wait for something to happen, with `?wait=`.
    pub waits: bool,
    /// Whether it waits for something to happen as its body says, and so takes no place and no memory meanwhile.
    pub polls: bool,
    /// Whether a header may give it a key, under which it is done once.
    pub once: bool,
    /// Whether its answer is a stream of events, which a header may continue.
    pub streams: bool,
    pub(crate) handler: fn(Call) -> Answer,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb.method(), self.path)
    }
}

impl Route {
    fn takes(self, schema: &'static str, most: usize) -> Self {
        Self { input: Some(Input { schema, most, optional: false }), ..self }
    }

    fn may_take(self, schema: &'static str) -> Self {
        Self { input: Some(Input { schema, most: BODY_BYTES, optional: true }), ..self }
    }

    fn asks(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    fn creates(self) -> Self {
        Self { output: (201, self.output.1), ..self }
    }

    fn keyed(self) -> Self {
        Self { once: true, ..self }
    }

    fn streams(self) -> Self {
        Self { streams: true, ..self }
    }

    fn polls(self) -> Self {
        Self { polls: true, ..self }
    }

    fn may_wait(self) -> Self {
        Self { waits: true, ..self }
    }
}

const fn one(name: &'static str, schema: &'static str, text: &'static str) -> Parameter {
    Parameter { name, schema, many: false, text }
}

const LIST_JOBS: &[Parameter] = &[
    Parameter { name: "state", schema: "States", many: true, text: "In one of these states." },
    one("queue", "Name", "Of this queue."),
    one("group", "Name", "Of this group."),
    one("task", "Name", "Of this task."),
    one("node", "Name", "In the hands of this node, or run by it last."),
    one("since", "Time", "Submitted at this time or later."),
    one("until", "Time", "Submitted before this time."),
    one("unique", "Name", "Those that hold this unique key now."),
    one("fingerprint", "Snippet", "Failed, or waiting for a retry, with an error of this kind."),
    one("args_contain", "Snippet", "With this text in its arguments, to the letter."),
    one("id", "IdBeginning", "Whose id begins so."),
    one("filter", "Filter", "That meet all conditions of a filter, and what else is asked for here."),
    one("limit", "PageLimit", "At most so many; 100 unless given."),
    one("cursor", "Cursor", "`next` of the last page."),
];
const ONE_JOB: &[Parameter] = &[
    one("wait", "Wait", "Wait so long for its end, at most 60s. When the time is over, the job is answered as it is."),
    one(
        "gates",
        "Flag",
        "Whether `waits_for` is to have all that holds it up, as `why` names it. Takes longer where its queue is serial.",
    ),
];
const LOG: &[Parameter] = &[
    one("after", "Position", "`next` of the last answer: the lines that follow. Without it: the last lines."),
    one("limit", "LineLimit", "At most so many lines; 1000 unless given."),
];
const LIVE_LOG: &[Parameter] = &[one(
    "after",
    "Position",
    "`next` of an answer, or the id of a line: the lines that follow. Without it: first the last 1000.",
)];
const EVENTS: &[Parameter] = &[
    Parameter {
        name: "type",
        schema: "EventTypes",
        many: true,
        text: "Of one of these types; without it, of all that the token may see.",
    },
    one("queue", "Name", "Of this queue and its jobs."),
    one("group", "Name", "Of jobs of this group."),
    one("task", "Name", "Of jobs of this task."),
    one("job", "JobId", "Of this job."),
    one("pace", "Pace", "`calm`: two to six seconds later is early enough, which costs the database less."),
];
const AUDIT: &[Parameter] = &[
    one(
        "actor",
        "Name",
        "By this actor, as lines name it: `token:` and an id, `cli:USER@HOST`, or a program's own name.",
    ),
    one("target", "AuditTarget", "About this."),
    one("since", "Time", "Made at this time or later."),
    one("until", "Time", "Made before this time."),
    one("limit", "PageLimit", "At most so many; 100 unless given."),
    one("cursor", "AuditCursor", "`next` of the last page."),
];
const STATISTICS: &[Parameter] = &[
    one(
        "by",
        "StatisticsBy",
        "How the numbers are broken down: by `queue` (unless given), `task`, or `group`, which needs a queue.",
    ),
    one(
        "step",
        "StatisticsStep",
        "The time of each point: `minute` (unless given), `hour` or `day`. What is old comes in longer steps.",
    ),
    one(
        "since",
        "Time",
        "From then on. Unless given: the last hour for minutes, two days for hours, 30 days for days.",
    ),
    one("until", "Time", "Up to then; up to now unless given."),
    one("queue", "Name", "Of this queue."),
    one("task", "Name", "Of this task."),
    one("group", "Name", "Of this group."),
    one("outcome", "StatisticsOutcome", "`runs` are those with this outcome."),
];
const ERRORS: &[Parameter] = &[
    one("since", "Time", "Seen from then on; in the last day unless given."),
    one("until", "Time", "Seen before then; up to now unless given."),
    one("step", "StatisticsStep", "Also how often by `minute`, `hour` or `day`. What is old comes in longer steps."),
    one("queue", "Name", "Of this queue."),
    one("task", "Name", "Of this task."),
];
const BY_NAME: &[Parameter] = &[
    one("limit", "PageLimit", "At most so many; 100 unless given."),
    one("after", "Text", "`next` of the last page."),
];

/// All routes.
pub fn routes() -> Vec<Route> {
    macro_rules! route {
        ($verb:ident $path:literal, $action:expr, $id:ident, $handler:path, $schema:literal, $summary:literal) => {
            Route {
                verb: Verb::$verb,
                path: $path,
                action: $action,
                id: stringify!($id),
                summary: $summary,
                parameters: &[],
                input: None,
                output: (200, $schema),
                refusals: &[],
                waits: false,
                polls: false,
                once: false,
                streams: false,
                handler: |call| Box::pin($handler(call)),
            }
        };
    }
    use Action::*;
    let jobs = vec![
        route!(Post "/api/v1/jobs", Some(Submit), submitJob, jobs::submit, "Submitted", "Submits a job. Answers 200 instead of 201 if another job stands for it.")
            .takes("Request", JOB_BYTES).creates().refuses(&[404, 409]).keyed(),
        route!(Post "/api/v1/jobs/batch", Some(Submit), submitJobs, jobs::submit_all, "SubmittedAll", "Submits many jobs, all or none; they may name one another.")
            .takes("Batch", BATCH_BYTES).creates().refuses(&[404, 409]).keyed(),
        route!(Get "/api/v1/jobs", Some(ListJobs), listJobs, jobs::list, "Jobs", "Lists jobs, finished ones included, newest first.").asks(LIST_JOBS),
        route!(Get "/api/v1/jobs/{id}", Some(ReadJob), getJob, jobs::show, "JobInFull", "Shows a job with its attempts, steps and result.")
            .asks(ONE_JOB).refuses(&[404]).may_wait(),
        route!(Get "/api/v1/jobs/{id}/log", Some(ReadJob), getJobLog, jobs::log, "Log", "Shows a part of a job's log.").asks(LOG).refuses(&[404]),
        route!(Get "/api/v1/jobs/{id}/log/live", Some(ReadJob), followJobLog, live_log::follow, "LogStream", "Sends the lines of a job's log as they come, and at last that the job has ended.")
            .asks(LIVE_LOG).refuses(&[404]).streams(),
        route!(Get "/api/v1/jobs/{id}/graph", Some(ReadJob), getJobGraph, jobs::graph, "Graph", "Shows which jobs wait for which, around a job: the nearest 200.").refuses(&[404]),
        route!(Get "/api/v1/jobs/{id}/why", Some(Why), whyJob, jobs::why, "Why", "Explains why a job does not run yet, and when it will.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/cancel", Some(DecideJob), cancelJob, jobs::cancel, "Decided", "Stops a job: at once, or by asking the node that has it.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/retry", Some(DecideJob), retryJob, jobs::retry, "Decided", "Runs a stuck job now, or a failed or cancelled one again.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/rerun", Some(DecideJob), rerunJob, jobs::rerun, "Decided", "As retry, also for a job that has succeeded.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/fail", Some(DecideJob), failJob, jobs::fail, "Decided", "Marks a stuck job as failed.").refuses(&[404, 409]),
        route!(Patch "/api/v1/jobs/{id}", Some(ChangeJob), changeJob, jobs::change, "Decided", "Gives a job that is waiting or stuck another priority, time or queue.")
            .takes("JobEdit", BODY_BYTES).refuses(&[404, 409]),
        route!(Get "/api/v1/jobs/{id}/request", Some(ReadJob), getJobRequest, jobs::to_edit, "ToEdit", "Shows a job as one edits it to submit it again: each secret field is replaced by a marker.").refuses(&[404]),
        route!(Post "/api/v1/jobs/{id}/resubmit", Some(Resubmit), resubmitJob, jobs::resubmit, "Submitted", "Submits a job like this one, with changes; this one stays as it is.")
            .takes("Resubmission", JOB_BYTES).creates().refuses(&[404, 409]).keyed(),
        route!(Post "/api/v1/jobs/cancel", Some(Bulk), cancelJobs, bulk::cancel, "Bulk", "Cancels all jobs that the body names; with `dry_run` it shows how many they are.").takes("CancelChoice", BODY_BYTES),
        route!(Post "/api/v1/jobs/retry", Some(Bulk), retryJobs, bulk::retry, "Bulk", "Runs failed jobs again (stuck and cancelled ones if `state` says so).").takes("RetryChoice", BODY_BYTES),
        route!(Post "/api/v1/jobs/fail", Some(Bulk), failJobs, bulk::fail, "Bulk", "Marks stuck jobs as failed.").takes("FailChoice", BODY_BYTES),
    ];
    let queues = vec![
        route!(Get "/api/v1/queues", Some(ReadQueue), listQueues, names::queues, "Queues", "Lists queues: their settings and how many jobs they have.").asks(BY_NAME),
        route!(Get "/api/v1/queues/{name}", Some(ReadQueue), getQueue, names::queue, "Queue", "Shows a queue.").refuses(&[404]),
        route!(Patch "/api/v1/queues/{name}", Some(SetQueue), setQueue, names::set_queue, "QueueSet", "Changes settings of a queue; `null` takes one back to its default.")
            .takes("QueueChange", BODY_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/queues/{name}/pause", Some(OperateQueue), pauseQueue, names::pause_queue, "QueueSet", "Starts no more jobs of the queue; running ones go on.").may_take("PauseReason").refuses(&[404, 409]),
        route!(Post "/api/v1/queues/{name}/resume", Some(OperateQueue), resumeQueue, names::resume_queue, "QueueSet", "Ends the pause.").refuses(&[404, 409]),
        route!(Post "/api/v1/queues/{name}/seal", Some(OperateQueue), sealQueue, names::seal_queue, "QueueSet", "Declares that no more jobs will come: once it is empty it is finished.").refuses(&[404, 409]),
        route!(Post "/api/v1/queues/{name}/unseal", Some(OperateQueue), unsealQueue, names::unseal_queue, "QueueSet", "More jobs may come after all.").refuses(&[404, 409]),
        route!(Post "/api/v1/queues/{name}/reset", Some(SetQueue), resetQueue, names::reset_queue, "Reset", "Takes away all that is set for the queue, a pause and a seal too.").refuses(&[404, 409]),
    ];
    let groups = vec![
        route!(Get "/api/v1/groups", Some(ReadGroup), listGroups, names::groups, "Groups", "Lists groups: their settings and how many jobs they have.").asks(BY_NAME),
        route!(Get "/api/v1/groups/{name}", Some(ReadGroup), getGroup, names::group, "Group", "Shows a group.").refuses(&[404]),
        route!(Patch "/api/v1/groups/{name}", Some(SetGroup), setGroup, names::set_group, "GroupSet", "Changes settings of a group; `null` takes one back to its default.")
            .takes("GroupChange", BODY_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/groups/{name}/pause", Some(OperateGroup), pauseGroup, names::pause_group, "GroupSet", "Starts no more jobs of the group; running ones go on.").may_take("PauseReason").refuses(&[404, 409]),
        route!(Post "/api/v1/groups/{name}/resume", Some(OperateGroup), resumeGroup, names::resume_group, "GroupSet", "Ends the pause.").refuses(&[404, 409]),
        route!(Post "/api/v1/groups/{name}/reset", Some(SetGroup), resetGroup, names::reset_group, "Reset", "Takes away all that is set for the group, a pause too.").refuses(&[404, 409]),
    ];
    let limited = vec![
        route!(Get "/api/v1/tasks", Some(ReadTask), listTasks, names::tasks, "Tasks", "Lists tasks: their limits, how many jobs they have, and how many nodes know them.").asks(BY_NAME),
        route!(Get "/api/v1/tasks/{name}", Some(ReadTask), getTask, names::task, "Task", "Shows a task.").refuses(&[404]),
        route!(Patch "/api/v1/tasks/{name}", Some(SetTask), setTask, names::set_task, "LimitSet", "Changes the limits of a task; `null` takes one away.").takes("LimitChange", BODY_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/tasks/{name}/reset", Some(SetTask), resetTask, names::reset_task, "Reset", "Takes away the limits of a task.").refuses(&[404, 409]),
        route!(Get "/api/v1/keys", Some(ReadKey), listKeys, names::keys, "Keys", "Lists the keys that jobs share: their limits and how many jobs they have.").asks(BY_NAME),
        route!(Get "/api/v1/keys/{name}", Some(ReadKey), getKey, names::key, "Key", "Shows a key.").refuses(&[404]),
        route!(Patch "/api/v1/keys/{name}", Some(SetKey), setKey, names::set_key, "LimitSet", "Changes the limits of a key; `null` takes one away.").takes("LimitChange", BODY_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/keys/{name}/reset", Some(SetKey), resetKey, names::reset_key, "Reset", "Takes away the limits of a key.").refuses(&[404, 409]),
    ];
    let schedules = vec![
        route!(Get "/api/v1/schedules", Some(ReadSchedule), listSchedules, schedules::list, "Schedules", "Lists schedules with their next times.").asks(BY_NAME),
        route!(Get "/api/v1/schedules/{name}", Some(ReadSchedule), getSchedule, schedules::show, "Schedule", "Shows a schedule.").refuses(&[404]),
        route!(Put "/api/v1/schedules/{name}", Some(SetSchedule), setSchedule, schedules::set, "Schedule", "Sets a schedule, or another in its place; a pause stays.").takes("NewSchedule", JOB_BYTES).refuses(&[404, 409]),
        route!(Delete "/api/v1/schedules/{name}", Some(SetSchedule), removeSchedule, schedules::remove, "Reset", "Removes a schedule; its jobs stay.").refuses(&[404, 409]),
        route!(Post "/api/v1/schedules/{name}/pause", Some(OperateSchedule), pauseSchedule, schedules::pause, "Schedule", "Submits no more jobs for the schedule.").may_take("PauseReason").refuses(&[404, 409]),
        route!(Post "/api/v1/schedules/{name}/resume", Some(OperateSchedule), resumeSchedule, schedules::resume, "Schedule", "Ends the pause; times that passed meanwhile are not made up for.").refuses(&[404, 409]),
        route!(Post "/api/v1/schedules/{name}/run", Some(OperateSchedule), runSchedule, schedules::run, "Submitted", "Submits its job once now, beside its times.").creates().refuses(&[404, 409]),
    ];
    let whole = vec![
        route!(Get "/api/v1/events", Some(Events), listen, events::listen, "EventStream", "Sends what happens, as it happens.").asks(EVENTS).streams(),
        route!(Get "/api/v1/overview", Some(Statistics), getOverview, fleet::overview, "Overview", "How many jobs there are, and how many nodes and slots."),
        route!(Get "/api/v1/statistics", Some(Statistics), getStatistics, statistics::list, "Statistics", "What happened, by the minute, hour or day: how many jobs started and ended, how long they waited and ran, what groups used of their share.").asks(STATISTICS).refuses(&[404]),
        route!(Get "/api/v1/errors", Some(Statistics), listErrors, statistics::errors, "Errors", "Which errors runs ended with, retried ones too, the most frequent first.").asks(ERRORS).refuses(&[404]),
        route!(Get "/api/v1/nodes", Some(ReadNodes), listNodes, fleet::nodes, "Nodes", "Lists nodes."),
        route!(Post "/api/v1/nodes/{name}/drain", Some(OperateNode), drainNode, fleet::drain_node, "NodeSet", "The node takes no more jobs; those in its hands go on. It hears of that with its next beat, and its next life takes jobs again.").refuses(&[404]),
        route!(Post "/api/v1/nodes/{name}/resume", Some(OperateNode), resumeNode, fleet::resume_node, "NodeSet", "The node takes jobs again.").refuses(&[404]),
        route!(Get "/api/v1/installation", Some(ReadInstallation), getInstallation, fleet::installation, "InstallationSet", "Shows what is set for all nodes."),
        route!(Get "/api/v1/doctor", Some(Diagnose), diagnose, doctor::findings, "Findings", "What is wrong with the installation, and what to do. The clock that is compared with the database's is that of the server's machine."),
        route!(Patch "/api/v1/installation", Some(SetInstallation), setInstallation, fleet::set_installation, "InstallationSet", "Changes what is set for all nodes; `null` takes a setting back to its default.")
            .takes("InstallationChange", BODY_BYTES).refuses(&[409]),
        route!(Post "/api/v1/simulate", Some(Simulate), simulate, fleet::simulate, "Comparison", "How long groups would wait if something were changed; changes nothing.").takes("WhatIf", BODY_BYTES),
        route!(Get "/api/v1/audit", Some(Audit), listAudit, audit::list, "AuditLines", "Lists the changes that operators made, newest first: who, what, before and after.").asks(AUDIT),
        route!(Get "/api/v1/tokens", Some(Tokens), listTokens, tokens::list, "Tokens", "Lists tokens without their secrets, newest first, revoked and expired ones included."),
        route!(Post "/api/v1/tokens", Some(Tokens), createToken, tokens::create, "CreatedToken", "Creates a token; its secret is in this answer and nowhere else.").takes("NewToken", BODY_BYTES).creates(),
        route!(Post "/api/v1/tokens/{name}/revoke", Some(Tokens), revokeToken, tokens::revoke, "Token", "Takes a token back for good, by its id or by how its secret begins.").refuses(&[404]),
        route!(Post "/api/v1/tickets", Some(MakeTicket), makeTicket, tickets::make, "CreatedTicket", "Makes a ticket, with which a page of the caller's own embeds a tenant's view; it is redeemed once, within a minute.")
            .takes("NewTicket", BODY_BYTES).creates().refuses(&[409]),
        route!(Post "/api/v1/prune", Some(Prune), prune, fleet::prune, "Pruned", "Deletes finished jobs that are kept no longer."),
    ];
    let workers = vec![
        route!(Post "/api/v1/workers", Some(Work), registerWorker, workers::register, "RegisteredWorker", "Makes a foreign worker known: a node whose tasks run in the caller's program.")
            .takes("RegisterWorker", JOB_BYTES).creates().refuses(&[409]),
        route!(Post "/api/v1/workers/{worker}/take", Some(Work), takeJobs, workers::take, "TakenJobs", "Gives a worker what is assigned to it and missing there, and names what it is to stop; waits for that.")
            .takes("TakeJobs", HELD_BYTES).refuses(&[404, 409]).polls(),
        route!(Post "/api/v1/workers/{worker}/beat", Some(Work), beatWorker, workers::beat, "BeatenWorker", "Prolongs a worker's lease.").takes("BeatWorker", HELD_BYTES).refuses(&[404, 409]).polls(),
        route!(Post "/api/v1/workers/{worker}/note", Some(Work), noteRuns, workers::note, "NotesAnswered", "Writes what a worker's runs say: lines, progress, finished steps.").takes("NoteRuns", BATCH_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/workers/{worker}/settle", Some(Work), settleRuns, workers::settle, "EndsAnswered", "Writes how a worker's runs ended, each answered by itself.").takes("SettleRuns", BATCH_BYTES).refuses(&[404, 409]),
        route!(Post "/api/v1/workers/{worker}/leave", Some(Work), leaveWorker, workers::leave, "WorkerLeft", "Hands back what a worker has not begun, and removes it.").takes("LeaveWorker", HELD_BYTES).refuses(&[404]),
    ];
    let open = vec![
        route!(Get "/api/v1/openapi.json", None, getDescription, openapi::serve, "Any", "This description."),
        route!(Get "/api/v1/session", None, getSession, login::who, "Session", "Who the caller is, and what it may do.").refuses(&[401, 403]),
        route!(Post "/api/v1/session", None, logIn, login::log_in, "Session", "Logs a person in to the page, with a token; the answer sets a cookie.")
            .takes("LogIn", BODY_BYTES).refuses(&[401, 403, 429]),
        route!(Delete "/api/v1/session", None, logOut, login::log_out, "Session", "Ends a log-in.").refuses(&[403]),
        route!(Post "/api/v1/tickets/redeem", None, redeemTicket, tickets::redeem, "Redeemed", "Redeems a ticket for a bearer that is accepted for 15 minutes.")
            .takes("RedeemTicket", BODY_BYTES).refuses(&[401, 403, 429]),
        route!(Get "/livez", None, isAlive, health::alive, "Alive", "Whether the process answers."),
        route!(Get "/readyz", None, isReady, health::ready, "Ready", "Whether it can do its work: 503 without the database, and while it stops."),
        route!(Get "/metrics", Some(Metrics), getMetrics, metrics::serve, "Metrics", "Numbers for Prometheus, as OpenMetrics."),
        route!(Get "/docs", None, getDocs, openapi::page, "Html", "A page that shows this description."),
        route!(Get "/docs/docs.js", None, getDocsScript, openapi::script, "Script", "The script of the page."),
        route!(Get "/docs/docs.css", None, getDocsStyle, openapi::style, "Style", "The style of the page."),
    ];
    [jobs, queues, groups, limited, schedules, whole, workers, open].into_iter().flatten().collect()
}
