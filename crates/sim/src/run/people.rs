//! What people and programs do: they submit jobs, decide about them and set things.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use turnwise_core::{
    JobId, JobState, QueueName,
    lifecycle::{self, EditRequest, Event},
    settings::{GroupSettings, Pause, QueueSettings},
};
use turnwise_store::{Filter, Intervention, MemoKind, NewMemo, Settled, Store, Submitted, memo::Draft};

use super::{
    network::{SimStore, locked},
    plan::{self, Change, Deed, Submission},
    world::World,
};

impl World {
    pub(super) async fn submit_all(self: Arc<Self>) {
        let (_process, store) = self.process("client");
        let store = Arc::new(store);
        let mut left: BTreeMap<QueueName, usize> = self.plan.settings.queues.keys().map(|q| (q.clone(), 1)).collect();
        for submission in &self.plan.jobs {
            *left.entry(submission.jobs[0].queue.clone()).or_default() += 1;
        }
        let left = Arc::new(Mutex::new(left));
        let mut tasks = Vec::new();
        for submission in self.plan.jobs.clone() {
            let (world, store, left) = (self.clone(), store.clone(), left.clone());
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(submission.at).await;
                let queue = submission.jobs[0].queue.clone();
                world.submit(&store, submission).await;
                world.seal_if_last(&left, queue).await;
            }));
        }
        for queue in self.plan.settings.queues.keys() {
            self.seal_if_last(&left, queue.clone()).await;
        }
        for task in tasks {
            self.joined("a client", task.await);
        }
    }

    /// Repeats the call until it is answered, as a client does.
    pub(super) async fn submit(&self, store: &SimStore, submission: Submission) {
        let mut jobs = submission.jobs;
        for (job, delay) in jobs.iter_mut().zip(submission.delays) {
            job.due = delay.map(|delay| self.network.now().plus(delay));
        }
        let answer: Vec<Submitted> = loop {
            match store.enqueue(jobs.clone()).await {
                Ok(answer) => break answer,
                Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return self.broken(format!("a submit was refused: {error}")),
            }
        };
        for enqueued in answer {
            self.record(json!({"event": "submit", "job": enqueued.id}));
        }
    }

    /// A queue that others wait for is sealed with its last job.
    pub(super) async fn seal_if_last(&self, left: &Mutex<BTreeMap<QueueName, usize>>, queue: QueueName) {
        let last = {
            let mut left = locked(left);
            let left = left.entry(queue.clone()).or_default();
            *left -= 1;
            *left == 0
        };
        if last && self.is_waited_for(&queue) {
            self.set_queue(&queue, |world, set| set.sealed = Some(world.network.now())).await;
        }
    }

    pub(super) fn is_waited_for(&self, queue: &QueueName) -> bool {
        self.plan.settings.queues.values().any(|settings| settings.after.contains(queue))
    }

    pub(super) async fn people(self: Arc<Self>) {
        let (_process, store) = self.process("person");
        for (at, deed) in self.plan.people.clone() {
            tokio::time::sleep(at.saturating_sub(self.network.elapsed())).await;
            self.network.note(format_args!("deed: {deed:?}"));
            match deed {
                Deed::Cancel(job) => self.decide(&store, self.job_id(job), &Event::Cancel).await,
                Deed::Retry(job) => {
                    // A queue that others wait for is not filled again once it may be finished.
                    if !self.is_waited_for(&self.job_queue(job)) {
                        self.decide(&store, self.job_id(job), &Event::Retry).await;
                    }
                }
                Deed::Change { waiting, change } => self.change_one(&store, waiting, &change).await,
                Deed::PauseQueue(queue) => {
                    let pause = |world: &World| Pause { since: world.network.now(), reason: None };
                    self.set_queue(&queue, |world, set| set.paused = Some(pause(world))).await;
                }
                Deed::ResumeQueue(queue) => self.set_queue(&queue, |_, set| set.paused = None).await,
                Deed::Limit(queue, limit) => self.set_queue(&queue, |_, set| set.concurrency = limit).await,
                Deed::Weigh(group, weight) => {
                    let change = |_: &World, set: &mut GroupSettings| set.weight = weight;
                    self.set(MemoKind::Group, group.as_str(), change).await;
                }
            }
        }
    }

    pub(super) fn job_at(&self, number: usize) -> &turnwise_core::NewJob {
        self.plan.jobs.iter().flat_map(|submission| &submission.jobs).nth(number).expect("the plan knows its jobs")
    }

    pub(super) fn job_id(&self, number: usize) -> JobId {
        self.job_at(number).id
    }

    pub(super) fn job_queue(&self, number: usize) -> QueueName {
        self.job_at(number).queue.clone()
    }

    /// Reads, asks core, and writes if the job still is what was read; as a person does, with some patience.
    pub(super) async fn decide(&self, store: &SimStore, id: JobId, event: &Event) {
        for _ in 0..5 {
            let Ok(job) = store.job(id).await else { continue };
            let Some(job) = job else { return };
            let Ok(to) = lifecycle::decide(&(&job).into(), event, self.network.now(), 0.0) else { return };
            self.record(json!({"event": "decide", "job": id}));
            let intervention = Intervention { job: id, state: job.state, fence: job.fence, to, line: None };
            if store.control(vec![intervention]).await.is_ok() {
                return;
            }
        }
    }

    /// Changes one of the jobs that are listed as waiting or stuck: the `nth`, counted round and round.
    async fn change_one(&self, store: &SimStore, nth: usize, change: &Change) {
        let states = vec![JobState::Waiting, JobState::Stuck];
        let listed = store.jobs(Filter { states, limit: Some(Filter::MAX_LIMIT), ..Filter::default() }).await;
        let Some(listed) = listed.ok().filter(|listed| !listed.is_empty()) else { return };
        let id = listed[nth % listed.len()].id;
        // As for a retry: no job moves to a queue that others wait for. And none leaves it for a queue that waits: a job that waits for
        // this one may be left behind, and then both would wait for ever.
        let settings = &self.plan.settings.queues;
        let mut submitted = self.plan.jobs.iter().flat_map(|submission| &submission.jobs);
        let left = submitted.find(|job| job.id == id).is_some_and(|job| self.is_waited_for(&job.queue));
        let may = |queue: &&QueueName| !self.is_waited_for(queue) && (!left || settings[*queue].after.is_empty());
        let queue = change.queue.as_ref().filter(may);
        let target = queue.map(|queue| settings[queue].clone()).unwrap_or_default();
        for _ in 0..5 {
            let Ok(job) = store.job(id).await else { continue };
            let Some(job) = job else { return };
            let now = self.network.now();
            let due = change.delay.map(|delay| now.plus(delay));
            let asked = EditRequest { priority: change.priority, queue: queue.cloned(), due };
            let Ok(to) = lifecycle::edit(&job, &asked, &target, now) else { return };
            let intervention = Intervention { job: id, state: job.state, fence: job.fence, to, line: None };
            match store.control(vec![intervention]).await.as_deref() {
                // It is decided again, by what it is now.
                Ok([Settled::Superseded]) | Err(_) => {}
                Ok(_) => return,
            }
        }
    }

    pub(super) async fn set_queue(&self, queue: &QueueName, change: impl Fn(&World, &mut QueueSettings)) {
        self.set(MemoKind::Queue, queue.as_str(), change).await;
    }

    /// Changes one setting if no other process wrote it meanwhile; tries until it is written.
    pub(super) async fn set<S>(&self, kind: MemoKind, name: &str, change: impl Fn(&World, &mut S))
    where
        S: serde::Serialize + serde::de::DeserializeOwned + Default,
    {
        let (process, store) = self.process("settings");
        loop {
            if let Ok(mut draft) = Draft::read(&store, [kind]).await {
                let mut set: S = draft.get(kind, name).and_then(Result::ok).unwrap_or_default();
                change(self, &mut set);
                draft.set(kind, name, Some(&set)).expect("settings are plain values");
                if draft.write(&store, None).await.is_ok_and(|written| written) {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.network.detach(&process);
    }

    /// Writes all settings, before anything begins.
    pub(super) async fn set_everything(&self) {
        let settings = &self.plan.settings;
        let text = |value: Result<String, serde_json::Error>| value.expect("settings are plain values");
        let mut memos = Vec::new();
        let mut add = |kind, name: &str, value| {
            memos.push(NewMemo { kind, name: name.to_owned(), value: Some(value), seen: None, line: None });
        };
        for (name, set) in &settings.queues {
            add(MemoKind::Queue, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.groups {
            add(MemoKind::Group, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.tasks {
            add(MemoKind::Task, name.as_str(), text(serde_json::to_string(set)));
        }
        for (name, set) in &settings.keys {
            add(MemoKind::Key, name.as_str(), text(serde_json::to_string(set)));
        }
        for (n, weight) in self.plan.contest.weights.iter().enumerate() {
            let set = GroupSettings { weight: *weight, ..GroupSettings::default() };
            add(MemoKind::Group, plan::contestant(n).as_str(), text(serde_json::to_string(&set)));
        }
        let (process, store) = self.process("settings");
        while store.remember(None, memos.clone()).await.is_err() {}
        self.network.detach(&process);
    }
}
