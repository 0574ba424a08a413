//! The memory store passes the suite it is the specification of.

use turnwise_store::{Options, conformance::MemoryHarness};

async fn make(options: Options) -> MemoryHarness {
    MemoryHarness::new(options)
}

turnwise_store::conformance_suite!(make);
