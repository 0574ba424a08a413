//! The promises every store makes, kept through PgBouncer in transaction mode: it takes no settings with a connection, and each
//! transaction has another of its sessions.

mod harness;
mod still;

use std::sync::OnceLock;

use harness::PostgresHarness;
use turnwise_store::Options;
use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

/// Sessions are given out in turn, so that none has the same one twice in a row; and soon ended, since each test has a database of
/// its own.
const IN_TURN: &str = "server_round_robin = 1\nserver_idle_timeout = 5";

fn pgbouncer() -> &'static PgBouncer {
    static PGBOUNCER: OnceLock<PgBouncer> = OnceLock::new();
    PGBOUNCER
        .get_or_init(|| PgBouncer::start(Cluster::shared(), PoolMode::Transaction, IN_TURN).expect("PgBouncer starts"))
}

async fn make(options: Options) -> PostgresHarness {
    PostgresHarness::make(options, |direct| pgbouncer().url(direct)).await
}

turnwise_store::conformance_suite!(make);
turnwise_store::closing_suite!(make);
turnwise_store::operator_suite!(make);
