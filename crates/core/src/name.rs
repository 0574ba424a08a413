//! Names are checked once, where they enter; inside, a name is known to be good.

use std::{fmt, sync::Arc};

/// Longest name in bytes. Long enough for a URL-like tenant key, short enough for an index entry.
pub const MAX_NAME_BYTES: usize = 200;

/// Input that was refused, naming the field so that a person can mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct Invalid {
    /// The argument, option or setting that was refused, such as `queue`.
    pub field: &'static str,
    /// What is wrong with it, and mostly what to write instead.
    pub problem: String,
}

impl Invalid {
    /// Printed as `field: problem`.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

fn check(field: &'static str, text: &str) -> Result<(), Invalid> {
    let problem = if text.is_empty() {
        "must not be empty".to_owned()
    } else if text.len() > MAX_NAME_BYTES {
        format!("is {} bytes long, at most {MAX_NAME_BYTES} are allowed", text.len())
    } else if text.contains('\0') {
        "must not contain a NUL byte".to_owned()
    } else if text.chars().any(char::is_control) {
        "must not contain control characters".to_owned()
    } else if text.trim() != text {
        "must not begin or end with white space".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid { field, problem })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Refuses, with an [`Invalid`] that names the field, text that is empty, longer than [`MAX_NAME_BYTES`], has control
            /// characters, or begins or ends with white space.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                check($field, text.as_ref())?;
                Ok(Self(Arc::from(text.as_ref())))
            }

            /// A name read back from the database, where only checked names are written. Sharing the `Arc` lets a
            /// reader of many rows hold each name once.
            pub fn stored(text: Arc<str>) -> Self {
                Self(text)
            }

            /// The text it was made from, unchanged.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(decoder)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }

        impl std::str::FromStr for $type {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }
    };
}

name!(
    /// The code that a job runs, by the name under which nodes register it.
    TaskName,
    "task"
);
name!(
    /// A named line with its own state and limits.
    QueueName,
    "queue"
);
name!(
    /// What a job belongs to, such as a tenant; fairness is between groups.
    GroupName,
    "group"
);
name!(
    /// A resource that jobs share: jobs with the same key have one limit in common.
    KeyName,
    "key"
);
name!(
    /// Of all jobs with the same unique key, one is there at a time.
    UniqueKey,
    "unique"
);
name!(
    /// Unique keys are compared within the scope of this name.
    ScopeName,
    "unique_scope"
);
name!(
    /// The name of a schedule, by which a job is submitted again and again.
    ScheduleName,
    "schedule"
);
name!(
    /// The configured name of an executor process.
    NodeName,
    "name"
);

name!(
    /// What a token is for, in a few words.
    TokenName,
    "name"
);
name!(
    /// Who makes a change, as the audit log names it.
    ActorName,
    "actor"
);
name!(
    /// Marks repeats of one call: the first is done, the others get its answer.
    OnceKey,
    "idempotency_key"
);

impl Default for QueueName {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

impl Default for GroupName {
    fn default() -> Self {
        Self(Arc::from("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_name_is_refused_with_its_field() {
        for (text, part) in [
            ("", "task: must not be empty"),
            ("a\0b", "task: must not contain a NUL byte"),
            ("a\nb", "task: must not contain control characters"),
            (" a", "task: must not begin or end with white space"),
        ] {
            assert_eq!(TaskName::new(text).unwrap_err().to_string(), part);
        }
        assert!(GroupName::new("x".repeat(MAX_NAME_BYTES + 1)).is_err());
        assert_eq!(GroupName::new("Küche & Söhne").unwrap().as_str(), "Küche & Söhne");
    }
}
