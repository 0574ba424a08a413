//! What there is to move: the tables with what has to last, and their columns, as both databases have them.
//!
//! Rows travel as values, never as SQL: the two databases have other types for the same thing. A driver reads a row of a part into
//! [`Cell`]s and writes one from them; that is all it has to know, so a new column is one line here.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A value of a row, the same whichever database it was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, a flag (0 or 1), or a time in microseconds since 1970.
    Int(i64),
    /// Text, JSON to the letter included.
    Text(String),
    /// Bytes, those of an id included.
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of the part's columns.
pub type MovedRow = Vec<Cell>;

/// What a column holds: a driver chooses its type by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The 16 bytes of a UUID: [`Cell::Bytes`].
    Id,
    /// [`Cell::Int`].
    Int,
    /// [`Cell::Int`], 0 or 1.
    Flag,
    /// [`Cell::Int`], microseconds since 1970.
    Time,
    /// [`Cell::Text`].
    Text,
    /// [`Cell::Text`], to the letter.
    Json,
    /// [`Cell::Text`]: a job's retry policy, as [`RetryPolicy::to_stored`](turnwise_core::RetryPolicy::to_stored) writes it. What
    /// cannot be read is the default, as it is to a reader.
    Policy,
    /// [`Cell::Text`] or [`Cell::Null`]: what becomes of a job if one that it waits for fails.
    OnFailure,
    /// [`Cell::Bytes`].
    Bytes,
}

/// A column, with the name that it has in both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// A table whose rows are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its name, without what stands in front of it.
    pub name: &'static str,
    /// Its columns, those of its key first.
    pub columns: &'static [Column],
    /// How many columns are the key.
    pub key: usize,
    /// Rows that stay behind, as a condition that both databases understand.
    pub stays: Option<&'static str>,
}

impl Part {
    /// The part of this name.
    pub fn named(name: &str) -> Option<&'static Part> {
        PARTS.iter().find(|part| part.name == name)
    }

    /// The columns of its key.
    pub fn key_columns(&self) -> &'static [Column] {
        &self.columns[..self.key]
    }

    /// The key of a row.
    pub fn key_of(&self, row: &[Cell]) -> Vec<Cell> {
        row[..self.key].to_vec()
    }
}

/// How many rows there are, and a sum over them that does not depend on their order: the two databases sort names differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// How many rows.
    pub rows: u64,
    /// The sum of their hashes.
    pub hash: u128,
}

impl Sum {
    /// Takes a row in.
    pub fn add(&mut self, row: &[Cell]) {
        let mut hash = Sha256::new();
        for cell in row {
            // With its length, so that no two rows look the same.
            let (tag, bytes): (u8, &[u8]) = match cell {
                Cell::Null => (0, &[]),
                Cell::Int(number) => (1, &number.to_be_bytes()),
                Cell::Text(text) => (2, text.as_bytes()),
                Cell::Bytes(bytes) => (3, bytes),
            };
            hash.update([tag]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (first, _) = hash.split_first_chunk::<16>().expect("32 bytes begin with 16");
        self.rows += 1;
        self.hash = self.hash.wrapping_add(u128::from_be_bytes(*first));
    }
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

macro_rules! parts {
    ($( $name:literal, key $key:literal $(, but $stays:literal)? : $( $column:literal $kind:ident ),+ ; )+) => {
        /// All parts. Those that a submit writes come in the order in which it writes them: a store that closes locks them in this
        /// order, and so never waits for a submit that waits for it.
        pub const PARTS: &[Part] = &[ $(
            Part {
                name: $name,
                columns: const { &[ $( column($column, Kind::$kind) ),+ ] },
                key: $key,
                stays: parts!(@stays $($stays)?),
            }
        ),+ ];
    };
    (@stays) => { None };
    (@stays $stays:literal) => { Some($stays) };
}

// Of memos, kind 7 stays: how far the dispatchers of this database have read its changes is nothing to those of another one.
parts! {
    "once", key 2: "caller" Id, "key" Text, "body" Bytes, "answers" Bytes, "at" Time;
    "unique_key", key 2: "scope" Text, "key" Text, "job" Id, "until_ended" Flag, "expires" Time;
    "dependency", key 2: "job" Id, "awaits" Id, "on_failure" Text, "ended" Int;
    "job", key 1:
        "id" Id, "seq" Int, "task" Text, "args" Json, "queue" Text, "grp" Text, "priority" Int, "retry" Policy, "state" Int,
        "attempt" Int, "retries" Int, "crashes" Int, "fence" Int, "cancel_requested" Flag, "error" Text, "submitted_at" Time,
        "due_at" Time, "assigned_at" Time, "started_at" Time, "finished_at" Time, "key" Text, "terms" Text, "expires_at" Time,
        "fingerprint" Text, "on_failure" OnFailure;
    "history", key 1:
        "id" Id, "seq" Int, "task" Text, "args" Json, "queue" Text, "grp" Text, "priority" Int, "retry" Policy, "state" Int,
        "attempt" Int, "retries" Int, "crashes" Int, "fence" Int, "cancel_requested" Flag, "node_name" Text, "result" Json,
        "error" Text, "submitted_at" Time, "due_at" Time, "assigned_at" Time, "started_at" Time, "finished_at" Time,
        "ended_at" Time, "key" Text, "terms" Text, "expires_at" Time, "fingerprint" Text;
    "attempt", key 2:
        "job" Id, "fence" Int, "number" Int, "task" Text, "ending" Int, "node_name" Text, "started_at" Time, "finished_at" Time,
        "chain" Json, "place" Text;
    "log", key 3: "job" Id, "fence" Int, "number" Int, "at" Time, "level" Int, "text" Text;
    "step", key 2: "job" Id, "name" Text, "result" Json;
    "progress", key 1: "job" Id, "done" Int, "total" Int, "text" Text, "dropped" Int;
    "memo", key 2, but "kind = 7": "kind" Int, "name" Text, "value" Text, "version" Int;
    "secret_field", key 2: "task" Text, "pointer" Text;
    "token", key 1:
        "id" Id, "hash" Bytes, "name" Text, "prefix" Text, "granted" Text, "rate" Int, "created_at" Time, "expires_at" Time,
        "last_used_at" Time, "revoked_at" Time;
    "login", key 1: "hash" Bytes, "token" Id, "until" Time;
    "audit", key 1:
        "id" Id, "at" Time, "actor" Text, "label" Text, "verb" Text, "target" Text, "before" Text, "after" Text;
    "statistics", key 6:
        "span" Int, "kind" Int, "queue" Text, "at" Time, "name" Text, "term" Int, "sums" Bytes;
    "statistics_error", key 6:
        "span" Int, "at" Time, "queue" Text, "task" Text, "fingerprint" Text, "term" Int, "count" Int, "first_seen" Time,
        "last_seen" Time;
    "statistics_total", key 3: "queue" Text, "kind" Int, "name" Text, "sums" Bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_and_every_column_is_named_once() {
        for part in PARTS {
            assert_eq!(Part::named(part.name), Some(part));
            assert!((1..=part.columns.len()).contains(&part.key), "{}", part.name);
            let mut names: Vec<_> = part.columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), part.columns.len(), "{}", part.name);
        }
    }

    fn sum(rows: &[&[Cell]]) -> Sum {
        let mut sum = Sum::default();
        rows.iter().for_each(|row| sum.add(row));
        sum
    }

    #[test]
    fn a_sum_tells_rows_apart_and_not_their_order() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let (one, other) = ([Cell::Int(1), text("a")], [Cell::Int(2), text("a")]);
        assert_eq!(sum(&[&one, &other]), sum(&[&other, &one]));
        assert_ne!(sum(&[&one]), sum(&[&other]));
        assert_ne!(sum(&[&one]), sum(&[&one, &one]));
        // What stands in which column is told apart too, and so is nothing from an empty text.
        assert_ne!(sum(&[&[text("ab"), text("c")]]), sum(&[&[text("a"), text("bc")]]));
        assert_ne!(sum(&[&[Cell::Null]]), sum(&[&[text("")]]));
        assert_ne!(sum(&[&[text("a")]]), sum(&[&[Cell::Bytes(b"a".to_vec())]]));
    }
}
