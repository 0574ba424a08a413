//! Names are checked once, where they enter; inside, a name is known to be good.

use std::{fmt, sync::Arc};

/// Longest name in bytes. Long enough for a URL-like tenant key, short enough for an index entry.
pub const MAX_NAME_BYTES: usize = 200;

/// Input that was refused, naming the field so that a person can mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    pub field: &'static str,
    pub problem: String,
}

impl Invalid {
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
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                check($field, text.as_ref())?;
                Ok(Self(Arc::from(text.as_ref())))
            }

            /// A name read back from the database, where only checked names are written. Sharing the `Arc` lets a
            /// reader of many rows hold each name once.
            pub fn stored(text: Arc<str>) -> Self {
                Self(text)
            }

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
    /// The code a job names.
    TaskName,
    "task"
);
name!(
    /// A named line with its own state and limits.
    QueueName,
    "queue"
);
name!(
    /// Whom a job belongs to; fairness is between groups.
    GroupName,
    "group"
);
name!(
    /// What jobs share that there is only so much of: jobs with the same key have one limit in common.
    KeyName,
    "key"
);
name!(
    /// What a job wants to be the only one with.
    UniqueKey,
    "unique"
);
name!(
    /// What unique keys of this name are unique within.
    ScopeName,
    "unique_scope"
);
name!(
    /// What is submitted again and again.
    ScheduleName,
    "schedule"
);
name!(
    /// The configured name of an executor process.
    NodeName,
    "name"
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
