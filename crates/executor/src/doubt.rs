//! A node that may be thought dead stops what must not run twice.

use std::sync::Arc;

use tokio::time::Instant;

use crate::life::Life;

/// Stops what a limit counts while this node cannot be sure any more that others think it alive. The rest goes on: its
/// end is taken if it was not given away meanwhile.
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
        // What comes meanwhile does not begin.
        tokio::time::sleep(moment).await;
    }
}
