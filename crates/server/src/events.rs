//! `GET /api/v1/events`: what happens, to each listener what it asked for and may see.

use std::{collections::VecDeque, sync::Arc};

use axum::http::HeaderMap;
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast::error::RecvError},
    time::{Instant, sleep_until},
};
use turnwise::{GroupName, JobId, QueueName, TaskName, watch::WatchCursor, wire::EventType};
use turnwise_core::access::{Action, Grant, Target};

use crate::{
    call::{Call, Query, Reply},
    hub::{self, Batch, RECONNECT, Subscription},
    limits::{CALM_EVENTS, PART_BYTES, PLACE_TOLD},
    problem::Problem,
    service::Service,
    streams::{self, Frames, LAST_EVENT, Place, Source, Upkeep},
    telling::{About, Recent, Told},
};

pub(crate) async fn listen(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let selection = Selection::read(&call.query, &call.grant)?;
    let last = last_event(&call.headers).map(WatchCursor);
    let place = call.service.streams().place(&call.caller)?;
    let catching_up = match &last {
        Some(_) => Some(call.service.catch_up().await?),
        None => None,
    };
    let subscription =
        call.service.hub().subscribe(&call.service, selection.kinds.clone(), last.is_some(), selection.swift).await?;
    // From here on all comes by the subscription; what was before, this look finds.
    let asked_at = Instant::now();
    let watched = call.turnwise().watch(hub::ask(last.clone())).await?;
    let mut listener = Listener {
        service: call.service.clone(),
        grant: Arc::clone(&call.grant),
        selection,
        subscription,
        upkeep: Upkeep::new(call.caller.clone()),
        frames: Frames::default(),
        parts: VecDeque::new(),
        asked_at,
        reached: Arc::from(watched.cursor.0.as_str()),
        place_told: Instant::now(),
        catching_up,
        over: false,
        _place: place,
    };
    listener.frames.retry(RECONNECT);
    match last {
        Some(last) => {
            let batch = Batch::of(Arc::from(last.0.as_str()), &watched, &mut Recent::default(), asked_at);
            listener.take(&Arc::new(batch));
        }
        None => listener.frames.id(&watched.cursor.0),
    }
    Ok(Reply::stream(streams::body(listener)))
}

/// The id of the last event that the listener got, as text of any kind.
pub(crate) fn last_event(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(LAST_EVENT)?.to_str().unwrap_or("?").trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Which events a listener wants.
#[derive(Debug)]
struct Selection {
    kinds: Vec<EventType>,
    queue: Option<QueueName>,
    group: Option<GroupName>,
    task: Option<TaskName>,
    job: Option<JobId>,
    /// At once, not a second or two later.
    swift: bool,
}

impl Selection {
    fn read(query: &Query, grant: &Grant) -> Result<Self, Problem> {
        let mut kinds: Vec<EventType> = query.list("type")?;
        let of_all = |kind: &EventType| matches!(kind, EventType::Node | EventType::Dispatcher);
        if kinds.iter().any(of_all) {
            grant.check(Action::ReadNodes, Target::Installation)?;
        }
        if kinds.is_empty() {
            let seen = |kind: &EventType| !of_all(kind) || About::Installation.is_seen_by(grant);
            kinds = EventType::ALL.into_iter().filter(seen).collect();
        }
        kinds.sort_unstable();
        kinds.dedup();
        let no_id = |text: &str| turnwise::Invalid::new("job", format!("{text:?} is not a job id"));
        Ok(Self {
            kinds,
            queue: query.parse("queue", |text| QueueName::new(text))?,
            group: query.parse("group", |text| GroupName::new(text))?,
            task: query.parse("task", |text| TaskName::new(text))?,
            job: query.parse("job", |text| text.parse().map_err(|_| no_id(text)))?,
            swift: match query.get("pace") {
                None => true,
                Some("calm") => false,
                Some(other) => return Err(Problem::invalid("pace", format!("pace: must be calm, not {other:?}"))),
            },
        })
    }

    /// A condition leaves out what has no such thing: no node has a group.
    fn admits(&self, told: &Told) -> bool {
        let Self { kinds, queue, group, task, job, swift: _ } = self;
        let about = match &told.about {
            About::Job(id, names) => {
                let names = names.as_ref();
                job.is_none_or(|job| job == *id)
                    && queue.as_ref().is_none_or(|queue| names.is_some_and(|names| names.0 == *queue))
                    && group.as_ref().is_none_or(|group| names.is_some_and(|names| names.1 == *group))
                    && task.as_ref().is_none_or(|task| names.is_some_and(|names| names.2 == *task))
            }
            About::Queue(name) => {
                queue.as_ref().is_none_or(|queue| queue == name) && group.is_none() && task.is_none() && job.is_none()
            }
            About::Installation => queue.is_none() && group.is_none() && task.is_none() && job.is_none(),
        };
        about && kinds.contains(&told.kind)
    }
}

const STOPS: &str = "the server stops; connect again";

/// A connection that events are sent on.
struct Listener {
    service: Service,
    grant: Arc<Grant>,
    selection: Selection,
    subscription: Subscription,
    upkeep: Upkeep,
    /// To be sent next.
    frames: Frames,
    /// To be written next.
    parts: VecDeque<Part>,
    /// When it looked itself.
    asked_at: Instant,
    reached: Arc<str>,
    place_told: Instant,
    /// One of the few that read what they have missed, until that is sent.
    catching_up: Option<OwnedSemaphorePermit>,
    over: bool,
    _place: Place,
}

/// What of a batch is for this listener.
struct Part {
    batch: Arc<Batch>,
    /// Which of the batch's events, and behind these which of `present`.
    wanted: VecDeque<usize>,
    /// They are too many for people, and not sent one by one.
    crowd: bool,
}

impl Part {
    fn told(&self, at: usize) -> &Told {
        match at.checked_sub(self.batch.told.len()) {
            None => &self.batch.told[at],
            Some(at) => &self.batch.present.as_ref().expect("it was there when it was chosen")[at],
        }
    }
}

impl Listener {
    fn take(&mut self, batch: &Arc<Batch>) {
        let all = batch.told.iter().chain(match &batch.present {
            Some(present) if self.subscription.wants_present() => present.as_slice(),
            _ => &[],
        });
        let wanted = |told: &Told| self.selection.admits(told) && told.about.is_seen_by(&self.grant);
        let most = if self.selection.swift { usize::MAX } else { CALM_EVENTS };
        let mut wanted: VecDeque<_> =
            all.enumerate().filter(|(_, told)| wanted(told)).map(|(at, _)| at).take(most.saturating_add(1)).collect();
        let crowd = wanted.len() > most;
        if crowd {
            wanted.clear();
        }
        if batch.present.is_some() {
            self.subscription.has_present();
        }
        self.parts.push_back(Part { batch: Arc::clone(batch), wanted, crowd });
    }

    /// Writes what is to be sent next, of one batch after the other. The last event of a batch has the place after it as its id, all
    /// others the place before it: a listener that comes back with that one gets the whole batch again.
    fn write(&mut self) {
        while self.frames.len() < PART_BYTES {
            let Some(mut part) = self.parts.pop_front() else { break };
            let Batch { from, to, reset, .. } = &*part.batch;
            let reset = reset.or(part.crowd.then_some(hub::TOO_MUCH));
            if let Some(at) = part.wanted.pop_front() {
                let is_last = part.wanted.is_empty() && reset.is_none();
                let told = part.told(at);
                self.frames.event(told.kind.name(), Some(if is_last { to } else { from }), &told.json_for(&self.grant));
                if !is_last {
                    self.parts.push_front(part);
                    continue;
                }
                self.place_told = Instant::now();
            } else if let Some(reason) = reset {
                self.frames.reset(to, reason);
                self.place_told = Instant::now();
            } else if self.place_told.elapsed() >= PLACE_TOLD || self.catching_up.is_some() {
                self.frames.id(to);
                self.place_told = Instant::now();
            }
            self.reached = Arc::clone(to);
        }
        if self.parts.is_empty() {
            self.catching_up = None;
        }
    }

    fn end(&mut self, reason: &str) {
        self.frames.closed(reason);
        self.over = true;
    }
}

impl Source for Listener {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.upkeep.next()
                && let Err(reason) = self.upkeep.run(&self.service, &mut self.frames).await
            {
                // What is not sent yet is no longer the caller's to see.
                self.parts.clear();
                self.end(&reason);
            }
            self.write();
            if let Some(part) = self.frames.take() {
                self.upkeep.sent();
                return Some(part);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                () = self.service.stops() => self.end(STOPS),
                () = sleep_until(self.upkeep.next()) => {}
                batch = self.subscription.batches.recv() => match batch {
                    // It was read before this listener looked itself.
                    Ok(batch) if batch.read_at <= self.asked_at && batch.present.is_none() => {}
                    Ok(batch) => self.take(&batch),
                    Err(RecvError::Lagged(_)) => {
                        let reached = Arc::clone(&self.reached);
                        self.frames.reset(&reached, "this listener took events too slowly and missed some; read again");
                    }
                    // The reader stops with the service, and this listener may notice that first.
                    Err(RecvError::Closed) if self.service.is_stopping() => self.end(STOPS),
                    Err(RecvError::Closed) => self.end("the server stopped to read events; connect again"),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: EventType, about: About) -> Told {
        Told { kind, about, json: String::new() }
    }

    #[test]
    fn a_condition_leaves_out_what_has_no_such_thing() {
        let names = || {
            let [queue, group, task] = ["q", "g", "t"];
            Some((QueueName::new(queue).unwrap(), GroupName::new(group).unwrap(), TaskName::new(task).unwrap()))
        };
        let id = JobId::from_parts(1, [7; 10]);
        let all = [
            told(EventType::Ended, About::Job(id, names())),
            told(EventType::Ended, About::Job(id, None)),
            told(EventType::Queue, About::Queue(QueueName::new("q").unwrap())),
            told(EventType::Node, About::Installation),
        ];
        let admitted = |query: &str| {
            let known = ["type", "queue", "group", "task", "job"];
            let query = Query::read(query, &known, &["type"]).unwrap();
            let selection = Selection::read(&query, &Grant::unlimited()).unwrap();
            all.iter().map(|told| selection.admits(told)).collect::<Vec<_>>()
        };
        assert_eq!(admitted(""), [true, true, true, true]);
        assert_eq!(admitted("queue=q"), [true, false, true, false]);
        assert_eq!(admitted("queue=other"), [false, false, false, false]);
        assert_eq!(admitted("group=g"), [true, false, false, false]);
        assert_eq!(admitted("task=t&group=other"), [false, false, false, false]);
        assert_eq!(admitted(&format!("job={id}")), [true, true, false, false]);
        assert_eq!(admitted("type=ended&type=queue"), [true, true, true, false]);
        assert_eq!(admitted("type=node,started"), [false, false, false, true]);
    }
}
