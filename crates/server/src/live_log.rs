//! `GET /api/v1/jobs/{id}/log/live`: the lines of a job's log as they come, until the job has ended.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};
use turnwise::{
    Error, GroupName, JobId, QueueName, TaskName,
    secret::Mask,
    store::Load,
    story::{LineAt, Story},
    wire::{self, Event, EventJob},
};

use turnwise_core::access::Grant;

use crate::{
    call::{Call, Reply},
    events::last_event,
    hub::RECONNECT,
    limits::{LINES, LOG_LOOK},
    problem::Problem,
    service::Service,
    streams::{self, Frames, Place, Source, Upkeep},
    telling,
};

pub(crate) async fn follow(call: Call) -> Result<Reply, Problem> {
    let after = call.query.parse("after", wire::Log::read_after)?;
    // A browser that connects again sends the parameters of the first time, and the header.
    let last = last_event(&call.headers).and_then(|text| wire::Log::read_after(&text).ok());
    let job = call.job().await?;
    let place = call.service.streams().place(&call.caller)?;
    let turn = call.service.live_log()?;
    let mut log = LiveLog {
        service: call.service.clone(),
        grant: Arc::clone(&call.grant),
        upkeep: Upkeep::new(call.caller.clone()),
        frames: Frames::default(),
        job: job.id,
        after: last.or(after),
        begun: false,
        look_at: Instant::now(),
        over: false,
        _place: place,
        _turn: turn,
    };
    log.frames.retry(RECONNECT);
    Ok(Reply::stream(streams::body(log)))
}

struct LiveLog {
    service: Service,
    grant: Arc<Grant>,
    upkeep: Upkeep,
    frames: Frames,
    job: JobId,
    /// The last line that was sent.
    after: Option<LineAt>,
    begun: bool,
    look_at: Instant,
    over: bool,
    _place: Place,
    _turn: OwnedSemaphorePermit,
}

impl LiveLog {
    async fn read(&mut self) -> Result<(), Error> {
        let turnwise = self.service.turnwise().clone();
        // First whether it has ended: all lines of a job that has are there.
        let heads = turnwise.store().load(Load::These(vec![self.job])).await?.jobs;
        let has_ended = heads.is_empty();
        if heads.iter().any(|head| self.leaves(&head.queue, &head.group, &head.task)) {
            return Ok(());
        }
        let story = match self.after {
            None if !self.begun => turnwise.story(self.job, LINES).await?,
            after => turnwise.log_after(self.job, after, LINES).await?,
        };
        self.begun = true;
        if !story.lines.is_empty() {
            // It may have gone on as another task meanwhile, or be in another queue: then the lines may be of that time.
            let job = turnwise.job(self.job).await?;
            if self.leaves(&job.queue, &job.group, &job.task) {
                return Ok(());
            }
            self.write(&story, &turnwise.secrets().await?.mask(&job.task, &job.args));
        }
        let is_all = story.lines.len() < LINES as usize;
        self.look_at = Instant::now() + if is_all { LOG_LOOK } else { std::time::Duration::ZERO };
        if has_ended && is_all {
            let (at, job) = (turnwise.now().await?, turnwise.job(self.job).await?);
            if self.leaves(&job.queue, &job.group, &job.task) {
                return Ok(());
            }
            // A person may have had it run again meanwhile.
            if job.state.finished() {
                let event = Event::Ended { at, job: EventJob::whole(&job) };
                self.frames.event("ended", None, &telling::json(&event));
                self.over = true;
            }
        }
        Ok(())
    }

    /// Whether the job is not the caller's to see any more; then the stream ends.
    fn leaves(&mut self, queue: &QueueName, group: &GroupName, task: &TaskName) -> bool {
        let leaves = !self.grant.covers(queue, group, task);
        if leaves {
            self.end("this token may not see the job any more");
        }
        leaves
    }

    fn write(&mut self, story: &Story, mask: &Mask) {
        for line in &story.lines {
            let json = serde_json::to_string(&wire::LogLine::new(line, mask)).expect("texts and numbers are JSON");
            let id = format!("{}.{}", line.at.fence.0, line.at.number);
            self.frames.event("line", Some(&id), &json);
            self.after = Some(line.at);
        }
    }

    fn end(&mut self, reason: &str) {
        self.frames.closed(reason);
        self.over = true;
    }
}

impl Source for LiveLog {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let now = Instant::now();
            if now >= self.upkeep.next()
                && let Err(reason) = self.upkeep.run(&self.service, &mut self.frames).await
            {
                self.end(&reason);
            }
            if let Some(part) = self.frames.take() {
                self.upkeep.sent();
                return Some(part);
            }
            if self.over {
                return None;
            }
            if now >= self.look_at {
                match self.read().await {
                    Ok(()) => {}
                    Err(Error::NoSuchJob(_)) => self.end("the job has ended, and nothing is kept of it"),
                    Err(Error::Store(error)) if error.is_transient() => self.look_at = Instant::now() + LOG_LOOK,
                    Err(error) => {
                        tracing::error!(%error, "a log could not be read");
                        self.end("something is broken inside; the server's log says what");
                    }
                }
                continue;
            }
            tokio::select! {
                () = self.service.stops() => self.end("the server stops; connect again"),
                () = sleep_until(self.upkeep.next().min(self.look_at)) => {}
            }
        }
    }
}
