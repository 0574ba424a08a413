//! What went wrong between a command and its server.

use serde::Deserialize;

/// A request that was not done, or whose answer did not come.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no connection, or it broke. The text names the address.
    #[error("{0}")]
    Unreachable(String),
    /// Something answers at the address that is no turnwise server.
    #[error("{0}")]
    Foreign(String),
    /// The server says why it did not do it.
    #[error("{0}")]
    Problem(Problem),
}

/// A server's refusal (RFC 9457).
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// `urn:turnwise:` and a word.
    #[serde(rename = "type")]
    kind: String,
    /// As in the answer's head.
    pub status: u16,
    /// For a person.
    pub detail: String,
    /// The job that is in the way.
    #[serde(default)]
    pub job: Option<String>,
}

impl Problem {
    /// The word for programs, such as `invalid` or `not-found`.
    pub fn word(&self) -> &str {
        self.kind.strip_prefix("urn:turnwise:").unwrap_or(&self.kind)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}
