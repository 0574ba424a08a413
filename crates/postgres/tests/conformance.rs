//! The promises every store makes, kept by PostgreSQL.

mod harness;
mod still;

use harness::PostgresHarness;
use turnwise_store::Options;

async fn make(options: Options) -> PostgresHarness {
    PostgresHarness::make(options, str::to_owned).await
}

turnwise_store::conformance_suite!(make);
turnwise_store::closing_suite!(make);
turnwise_store::operator_suite!(make);
turnwise_store::move_suite!(make);
