//! The table of all routes. The router, the check of what a caller may do and the description for programs are made from it, so none
//! of them can know a route that the others do not.

use std::{fmt, pin::Pin};

use axum::{http::Method, routing::MethodFilter};
use turnwise_core::access::Action;

use crate::{
    bulk,
    call::{Call, Reply},
    fleet, health, jobs,
    limits::{BATCH_BYTES, BODY_BYTES, JOB_BYTES},
    names, openapi,
    problem::Problem,
    schedules,
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
    /// What the caller must be allowed to do; `None`: anybody may, without a token.
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
    /// Whether it may wait for something to happen.
    pub waits: bool,
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
    one("since", "Time", "Submitted at this time or later."),
    one("until", "Time", "Submitted before this time."),
    one("unique", "Name", "Those that hold this unique key now."),
    one("limit", "PageLimit", "At most so many; 100 unless given."),
    one("before", "JobId", "`next` of the last page."),
];
const ONE_JOB: &[Parameter] = &[one(
    "wait",
    "Wait",
    "Wait so long for its end, at most 60s. When the time is over, the job is answered as it is.",
)];
const LOG: &[Parameter] = &[
    one("after", "Position", "`next` of the last answer: the lines that follow. Without it: the last lines."),
    one("limit", "LineLimit", "At most so many lines; 1000 unless given."),
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
                handler: |call| Box::pin($handler(call)),
            }
        };
    }
    use Action::*;
    let jobs = vec![
        route!(Post "/api/v1/jobs", Some(Submit), submitJob, jobs::submit, "Submitted", "Submits a job. Answers 200 instead of 201 if another job stands for it.")
            .takes("Request", JOB_BYTES).creates().refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/batch", Some(Submit), submitJobs, jobs::submit_all, "SubmittedAll", "Submits many jobs, all or none; they may name one another.")
            .takes("Batch", BATCH_BYTES).creates().refuses(&[404, 409]),
        route!(Get "/api/v1/jobs", Some(ListJobs), listJobs, jobs::list, "Jobs", "Lists jobs, finished ones included, newest first.").asks(LIST_JOBS),
        route!(Get "/api/v1/jobs/{id}", Some(ReadJob), getJob, jobs::show, "JobInFull", "Shows a job with its attempts, steps and result.")
            .asks(ONE_JOB).refuses(&[404]).may_wait(),
        route!(Get "/api/v1/jobs/{id}/log", Some(ReadJob), getJobLog, jobs::log, "Log", "Shows a part of a job's log.").asks(LOG).refuses(&[404]),
        route!(Get "/api/v1/jobs/{id}/why", Some(Why), whyJob, jobs::why, "Why", "Explains why a job does not run yet, and when it will.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/cancel", Some(DecideJob), cancelJob, jobs::cancel, "Decided", "Stops a job: at once, or by asking the node that has it.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/retry", Some(DecideJob), retryJob, jobs::retry, "Decided", "Runs a stuck job now, or a failed or cancelled one again.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/rerun", Some(DecideJob), rerunJob, jobs::rerun, "Decided", "As retry, also for a job that has succeeded.").refuses(&[404, 409]),
        route!(Post "/api/v1/jobs/{id}/fail", Some(DecideJob), failJob, jobs::fail, "Decided", "Marks a stuck job as failed.").refuses(&[404, 409]),
        route!(Patch "/api/v1/jobs/{id}", Some(DecideJob), changeJob, jobs::change, "Decided", "Gives a job that is waiting or stuck another priority, time or queue.")
            .takes("JobEdit", BODY_BYTES).refuses(&[404, 409]),
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
        route!(Post "/api/v1/queues/{name}/reset", Some(OperateQueue), resetQueue, names::reset_queue, "Reset", "Takes away all that is set for the queue, a pause and a seal too.").refuses(&[404, 409]),
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
        route!(Get "/api/v1/overview", Some(Statistics), getOverview, fleet::overview, "Overview", "How many jobs there are, and how many nodes and slots."),
        route!(Get "/api/v1/nodes", Some(ReadNodes), listNodes, fleet::nodes, "Nodes", "Lists nodes."),
        route!(Get "/api/v1/installation", Some(ReadInstallation), getInstallation, fleet::installation, "InstallationSet", "Shows what is set for all nodes."),
        route!(Patch "/api/v1/installation", Some(SetInstallation), setInstallation, fleet::set_installation, "InstallationSet", "Changes what is set for all nodes; `null` takes a setting back to its default.")
            .takes("InstallationChange", BODY_BYTES).refuses(&[409]),
        route!(Post "/api/v1/simulate", Some(Simulate), simulate, fleet::simulate, "Comparison", "How long groups would wait if something were changed; changes nothing.").takes("WhatIf", BODY_BYTES),
        route!(Post "/api/v1/prune", Some(Prune), prune, fleet::prune, "Pruned", "Deletes finished jobs that are kept no longer."),
    ];
    let open = vec![
        route!(Get "/api/v1/openapi.json", None, getDescription, openapi::serve, "Any", "This description."),
        route!(Get "/livez", None, isAlive, health::alive, "Alive", "Whether the process answers."),
        route!(Get "/readyz", None, isReady, health::ready, "Ready", "Whether it can do its work: 503 without the database, and while it stops."),
        route!(Get "/docs", None, getDocs, openapi::page, "Html", "A page that shows this description."),
        route!(Get "/docs/docs.js", None, getDocsScript, openapi::script, "Script", "The script of the page."),
        route!(Get "/docs/docs.css", None, getDocsStyle, openapi::style, "Style", "The style of the page."),
    ];
    [jobs, queues, groups, limited, schedules, whole, open].into_iter().flatten().collect()
}
