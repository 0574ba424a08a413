//! Values that are written as one word each.

/// A word for each of the values, to write and to read.
macro_rules! words {
    ($type:ident, $field:literal, $( $word:literal => $value:ident ),*) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $( Self::$value => $word ),* })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::name::Invalid;
            fn from_str(text: &str) -> Result<Self, $crate::name::Invalid> {
                match text {
                    $( $word => Ok(Self::$value), )*
                    other => {
                        let words = [$( $word ),*].join(", ");
                        Err($crate::name::Invalid::new($field, format!("must be one of {words}, not {other:?}")))
                    }
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;
