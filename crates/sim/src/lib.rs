//! # What really happened
//!
//! [`history`] the record of a run, as its processes and its harness wrote it → [`mod@check`] whether every promise was
//! kept in it → [`run`] such a run, made from a seed → [`seeds`] many seeds, and those that found something.
//!
//! ```
//! use turnwise_sim::{History, check};
//!
//! let record = r#"
//! {"event":"submit","job":"a"}
//! {"event":"end","job":"a","state":"waiting"}
//! "#;
//! let report = check(&History::parse("record", record)?);
//! assert_eq!(report.violations[0].to_string(), "job a was acknowledged and is still waiting at the end");
//! # Ok::<(), turnwise_sim::ReadError>(())
//! ```

pub mod check;
pub mod history;
pub mod run;
pub mod seeds;

pub use check::{Counts, Report, Violation, check};
pub use history::{History, ReadError};
