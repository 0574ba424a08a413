//! The end of a run: all jobs end, groups are compared, and the record is judged.

use std::time::Duration;

use serde_json::json;
use turnwise_core::{Incarnation, Job, JobId, JobState, lifecycle::Event, settings::QueueSettings};
use turnwise_store::Filter;

use super::{
    contest,
    network::{Weather, locked},
    plan::{Contest, Submission},
    world::{ENOUGH, Report, World},
};
use crate::{History, check};

impl World {
    /// Resumes what is paused and retries what waits for a person, until no job is left. `false`: jobs are left, and none of them
    /// has ended for a long time.
    pub(super) async fn let_everything_end(&self) -> bool {
        let (process, store) = self.process("person");
        let (mut least, mut since) = (usize::MAX, self.network.elapsed());
        let mut ended = false;
        while !ended && self.network.elapsed() - since < ENOUGH {
            for queue in self.plan.settings.queues.keys() {
                let waited_for = self.is_waited_for(queue);
                let resume = |world: &World, set: &mut QueueSettings| {
                    set.paused = None;
                    // A failover may have taken the seal back.
                    if waited_for && set.sealed.is_none() {
                        set.sealed = Some(world.network.now());
                    }
                };
                self.set_queue(queue, resume).await;
            }
            for _ in 0..20 {
                let left = self.unfinished();
                for job in left.iter().filter(|job| job.state == JobState::Stuck && job.due_at.is_none()) {
                    self.decide(&store, job.id, &Event::Retry).await;
                }
                ended = left.is_empty();
                if ended {
                    break;
                }
                if left.len() < least {
                    (least, since) = (left.len(), self.network.elapsed());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
        self.network.detach(&process);
        for job in self.unfinished() {
            self.broken(format!(
                "job {} of queue {}, task {}, is still {} long after everything was mended (fence {}, crashes {})",
                job.id, job.queue, job.task, job.state, job.fence.0, job.counts.crashes
            ));
        }
        ended
    }

    pub(super) fn unfinished(&self) -> Vec<Job> {
        let states = JobState::ALL.into_iter().filter(|state| !state.finished()).collect();
        self.listed(Filter { states, limit: Some(Filter::MAX_LIMIT), ..Filter::default() })
    }

    pub(super) fn listed(&self, filter: Filter) -> Vec<Job> {
        match self.network.at_once(self.network.store().jobs(filter)) {
            Ok(jobs) => jobs,
            Err(error) => {
                self.broken(format!("the store cannot list its jobs: {error}"));
                Vec::new()
            }
        }
    }

    /// Groups with more work than slots, and nothing wrong.
    pub(super) async fn contest(&self) {
        let Contest { weights, jobs } = &self.plan.contest;
        self.network.set_weather(Weather::fair(self.plan.weather.delay));
        let (process, store) = self.process("client");
        let submission = Submission { at: Duration::ZERO, delays: vec![None; jobs.len()], jobs: jobs.clone() };
        self.submit(&store, submission).await;
        let begun = self.network.elapsed();
        while self.network.elapsed() - begun < ENOUGH && !self.unfinished().is_empty() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.network.detach(&process);
        for job in self.unfinished() {
            self.broken(format!("job {} of the contest is still {}", job.id, job.state));
        }
        let news = Duration::from_millis(50 + 6 * self.plan.weather.delay);
        let ledger = locked(&self.network.ledger);
        let known = jobs.iter().filter_map(|job| ledger.known_since(job.id)).max().unwrap_or(begun);
        let found = contest::judge(&ledger, weights, known, news);
        drop(ledger);
        found.into_iter().for_each(|violation| self.broken(violation));
    }

    pub(super) fn judge(&self) -> Report {
        if self.plan.leaves_gaps() {
            self.record(json!({"event": "outage"}));
        }
        for job in self.listed(Filter { limit: Some(Filter::MAX_LIMIT), ..Filter::default() }) {
            self.record(json!({"event": "end", "job": job.id, "state": job.state}));
        }
        let running = self.unfinished().iter().filter(|job| job.state.assigned()).count();
        let fleet = self.network.at_once(self.network.store().nodes());
        let nodes = fleet.map_or(usize::MAX, |fleet| fleet.nodes.len());
        self.record(json!({"event": "rest", "running": running, "nodes": nodes}));
        let trace = String::from_utf8_lossy(&locked(&self.trace)).into_owned();
        let mut violations = std::mem::take(&mut *locked(&self.violations));
        violations.append(&mut locked(&self.network.ledger).violations);
        let counts = match History::parse("trace", &trace) {
            Ok(history) => {
                let report = check(&history);
                violations.extend(report.violations.iter().map(ToString::to_string));
                violations.extend(self.unasked_runs(&history));
                report.counts
            }
            Err(error) => {
                violations.push(error.to_string());
                check::Counts::default()
            }
        };
        Report { violations, counts, trace, log: self.network.take_log(), took: self.network.elapsed() }
    }

    /// Every run that began must have been assigned in a commit, to that node and with that fence.
    pub(super) fn unasked_runs(&self, history: &History) -> Vec<String> {
        use crate::history::{Line, NodeEvent};
        let ledger = locked(&self.network.ledger);
        let begun = history.lines.iter().filter_map(|line| match line {
            Line::Node { incarnation, event: NodeEvent::Start { job, fence }, .. } => Some((job, *fence, incarnation)),
            _ => None,
        });
        let asked = |job: &str, fence, incarnation: &str| {
            let id = |text: &str| text.parse().ok();
            let (Some(job), Some(node)) = (id(job), id(incarnation)) else { return false };
            ledger.was_assigned(JobId::from_uuid(job), turnwise_core::Fence(fence), Incarnation(node))
        };
        begun
            .filter(|(job, fence, incarnation)| !asked(job, *fence, incarnation))
            .map(|(job, fence, node)| format!("job {job} began on {node} under fence {fence}, which no commit gave it"))
            .collect()
    }
}
