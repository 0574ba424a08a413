//! The memory store is the specification of the suite, and passes it.

use turnwise_store::{Options, conformance::MemoryHarness};

async fn make(options: Options) -> MemoryHarness {
    MemoryHarness::new(options)
}

turnwise_store::conformance_suite!(make);
turnwise_store::operator_suite!(make);
