//! A node that the dispatcher may soon declare lost stops what must not run twice.

use std::sync::Arc;

use tokio::time::Instant;

use crate::life::Life;

/// Stops runs that a limit counts while this node cannot be sure any more that the dispatcher counts it as living. The other
/// runs go on: the end of one is accepted if its job was not taken from this node meanwhile.
pub(crate) async fn doubt(life: Arc<Life>) {
    let moment = life.node.config.lease / 20;
    loop {
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = tokio::time::sleep_until(life.contact.doubt_at()) => {}
        }
        if life.contact.doubt_at() > Instant::now() {
            continue;
        }
        let stopped = life.desk.stop_limited();
        if stopped > 0 {
            tracing::warn!(jobs = stopped, "no contact with the database; runs that a limit counts are stopped");
        }
        // Jobs that arrive meanwhile do not begin.
        tokio::time::sleep(moment).await;
    }
}
