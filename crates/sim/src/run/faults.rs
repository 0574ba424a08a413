//! What goes wrong, and how it is mended.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;

use super::{
    network::{Weather, locked},
    plan::Fault,
    world::World,
};

impl World {
    pub(super) async fn faults(self: Arc<Self>) {
        let mut tasks = Vec::new();
        for (at, fault) in self.plan.faults.clone() {
            let world = self.clone();
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(at).await;
                world.strike(fault).await;
            }));
        }
        tokio::time::sleep(self.plan.mended.saturating_sub(self.network.elapsed())).await;
        for task in tasks {
            self.joined("a fault", task.await);
        }
    }

    pub(super) async fn strike(self: &Arc<Self>, fault: Fault) {
        self.network.note(format_args!("fault: {fault:?}"));
        match fault {
            Fault::Kill { node, back, elsewhere } => {
                let Some(process) = self.process_of(node) else { return };
                process.kill();
                self.gone(node, &process).await;
                tokio::time::sleep(back).await;
                self.start(node, elsewhere);
            }
            Fault::Doom { node, doom, back } => {
                let Some(process) = self.process_of(node) else { return };
                process.doom(Some(doom));
                // It may take some time until the node makes that call.
                for _ in 0..400 {
                    if process.is_killed() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                if process.is_killed() {
                    self.gone(node, &process).await;
                    tokio::time::sleep(back).await;
                    self.start(node, false);
                }
            }
            Fault::Deploy { node, back } => {
                let (Some(executor), Some(process)) = (self.executor_of(node), self.process_of(node)) else { return };
                executor.stop().await;
                self.gone(node, &process).await;
                tokio::time::sleep(back).await;
                self.start(node, false);
            }
            Fault::Freeze { node, span } => {
                let Some(process) = self.process_of(node) else { return };
                process.freeze(true);
                tokio::time::sleep(span).await;
                process.freeze(false);
            }
            Fault::Cut { node, span } => {
                let Some(process) = self.process_of(node) else { return };
                process.cut.store(true, Ordering::Relaxed);
                tokio::time::sleep(span).await;
                process.cut.store(false, Ordering::Relaxed);
            }
            Fault::Outage { span } => {
                self.network.set_weather(Weather { outage: true, ..self.plan.weather.clone() });
                tokio::time::sleep(span).await;
                self.network.set_weather(self.plan.weather.clone());
            }
            Fault::Storm { weather, span } => {
                self.network.set_weather(weather);
                tokio::time::sleep(span).await;
                self.network.set_weather(self.plan.weather.clone());
            }
            Fault::Jump { millis } => self.network.jump(millis),
            Fault::Failover { lost, gap } => self.fail_over(lost, gap).await,
        }
    }

    pub(super) async fn fail_over(&self, lost: Duration, gap: Duration) {
        let Some(memory) = &self.memory else { return };
        let _alone = self.failing_over.lock().await;
        let (snapshot, ledger) = (memory.snapshot(), locked(&self.network.ledger).clone());
        tokio::time::sleep(lost).await;
        memory.fail_over(&snapshot);
        let changed = locked(&self.network.ledger).take_back(ledger);
        self.network.note(format_args!("failed over: {} jobs have changed by it", changed.len()));
        for (job, gone) in changed {
            self.record(json!({"event": "taken_back", "job": job, "gone": gone}));
        }
        self.network.set_weather(Weather { outage: true, ..self.plan.weather.clone() });
        tokio::time::sleep(gap).await;
        self.network.set_weather(self.plan.weather.clone());
    }

    /// Everything works again, and every node is there.
    pub(super) async fn mend(self: &Arc<Self>) {
        self.network.note(format_args!("everything is mended"));
        self.network.set_weather(self.plan.weather.clone());
        for at in 0..self.nodes.len() {
            if let Some(process) = self.process_of(at) {
                process.freeze(false);
                process.cut.store(false, Ordering::Relaxed);
                process.doom(None);
                if process.is_killed() {
                    self.gone(at, &process).await;
                }
            }
            self.start(at, false);
        }
        // Long enough for leases to run out, for a new dispatcher to read everything, and for it to see to errors.
        tokio::time::sleep(self.plan.nodes[0].lease * 3 + Duration::from_secs(5)).await;
        let poll = self.plan.nodes.iter().map(|node| node.poll_interval).max().unwrap_or_default();
        let lag = poll * 2 + Duration::from_secs(1);
        while !locked(&self.network.ledger).check_pauses(self.network.elapsed(), lag) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
