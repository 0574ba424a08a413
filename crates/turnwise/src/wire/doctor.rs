//! What is wrong with an installation.

use serde::Serialize;

use crate::doctor::{self, Verdict};

/// All that was found.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Findings<'a> {
    /// Whether nothing is bad.
    pub well: bool,
    /// One of each subject, or several where there is something to do.
    pub findings: Vec<Finding<'a>>,
}

/// What was found about one thing.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding<'a> {
    /// What it is about: `schema`, `clock`, `nodes` and the like.
    pub subject: &'static str,
    /// `fine`, `look` or `bad`.
    pub verdict: Verdict,
    /// What was seen.
    pub text: &'a str,
    /// What to do; `null`: nothing.
    pub advice: Option<&'a str>,
}

impl<'a> Findings<'a> {
    /// In this order.
    pub fn new(found: &'a [doctor::Finding]) -> Self {
        let findings = found.iter().map(|found| Finding {
            subject: found.subject,
            verdict: found.verdict,
            text: &found.text,
            advice: found.advice.as_deref(),
        });
        Self { well: found.iter().all(|found| found.verdict != Verdict::Bad), findings: findings.collect() }
    }
}
