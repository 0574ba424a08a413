//! What opening a database may do to its schema.

/// What opening a database does where its schema is missing or older than this version needs.
///
/// | | no schema in a file | older schema in a file | no schema on a server | older schema on a server |
/// |---|---|---|---|---|
/// | `Existing` | refused | refused | refused | refused |
/// | `Automatic` | made | brought up to date | refused | refused |
/// | `Create` | made | brought up to date | made | refused |
/// | `Migrate` | made | brought up to date | made | brought up to date |
///
/// A file is SQLite's, a server PostgreSQL's: a server is shared, and other programs may still need the older schema. What is refused says
/// what to run.
///
/// A newer schema is used as it is: steps add, and what they added is not looked at. Only a schema with a step that declares that
/// older versions do not work with it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Schema {
    /// Nothing: for programs that only look.
    Existing,
    /// Makes it in a file and keeps it up to date there.
    #[default]
    Automatic,
    /// Also makes it on a server that has none.
    Create,
    /// Makes it and brings it up to date everywhere.
    Migrate,
}

/// Where the schema is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A file of this machine.
    File,
    /// A server that many programs share.
    Server,
}

/// The steps that were done in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The number of the last one; 0: none.
    pub last: u32,
    /// The number of the last one that declares that versions which do not know it do not work with the schema; 0: none. Only read if
    /// `last` is not known.
    pub breaks: u32,
}

impl Done {
    /// Whether a version that knows the steps up to `known` works with this schema, once those that are missing are done. The error
    /// says why not, and what to run.
    pub fn check(self, known: u32) -> Result<(), String> {
        let Self { last, breaks } = self;
        if breaks <= known {
            return Ok(());
        }
        Err(format!(
            "has schema version {last}, of which this turnwise knows {known}, and step {breaks} is one that older versions do not work \
             with; run the turnwise that migrated it, or a newer one"
        ))
    }
}

/// Which schema was found, if it is not the one that is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundSchema {
    /// There is none.
    None,
    /// An older one.
    Older,
}

impl Schema {
    /// Whether the steps that are missing are to be done.
    pub fn migrates(self, place: Home, found: FoundSchema) -> bool {
        match (self, place, found) {
            (Self::Existing, ..) => false,
            (Self::Migrate, ..) | (_, Home::File, _) => true,
            (Self::Create, Home::Server, FoundSchema::None) => true,
            (Self::Create, Home::Server, FoundSchema::Older) | (Self::Automatic, Home::Server, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_used_unless_it_declares_a_break() {
        let check = |last, breaks| Done { last, breaks }.check(25);
        assert_eq!(
            [check(0, 0), check(24, 0), check(25, 25), check(27, 0), check(27, 25)].map(|used| used.is_ok()),
            [true; 5]
        );
        let refused = check(28, 27).unwrap_err();
        for part in ["version 28", "knows 25", "step 27", "run the turnwise that migrated it"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn each_way_to_open_does_what_its_table_says() {
        let places = [(Home::File, FoundSchema::None), (Home::File, FoundSchema::Older)];
        let servers = [(Home::Server, FoundSchema::None), (Home::Server, FoundSchema::Older)];
        let does = |schema: Schema| {
            [places, servers].concat().into_iter().map(|(p, f)| schema.migrates(p, f)).collect::<Vec<_>>()
        };
        assert_eq!(does(Schema::Existing), [false, false, false, false]);
        assert_eq!(does(Schema::Automatic), [true, true, false, false]);
        assert_eq!(does(Schema::Create), [true, true, true, false]);
        assert_eq!(does(Schema::Migrate), [true, true, true, true]);
    }
}
