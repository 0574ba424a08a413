//! Moving everything from one database to another: a third trait, of the stores that outlive their process.
//!
//! [`parts`] what there is to move, as values → [`MoveStore`] what each of the two databases does → [`mover`] the whole move, step by
//! step: it can be ended at any moment, and goes on when it is begun again.

pub mod mover;
pub mod parts;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use turnwise_core::{NodeName, Timestamp};
use uuid::Uuid;

pub use mover::{Mover, Step};
pub use parts::{Cell, Column, Kind, MovedRow, PARTS, Part, Sum};

use crate::store::Result;

/// By which the two databases of a move recognise it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveId(pub Uuid);

/// Which of the two databases this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is in it goes elsewhere.
    Source,
    /// What is elsewhere comes here.
    Target,
}

impl Side {
    /// Number in the database.
    pub fn code(self) -> i64 {
        match self {
            Self::Source => 0,
            Self::Target => 1,
        }
    }

    /// The side with this number.
    pub fn from_code(code: i64) -> Option<Self> {
        [Self::Source, Self::Target].into_iter().find(|side| side.code() == code)
    }
}

/// What a database knows of a move. While one is under way, and in the source for ever after, the tables of all [parts](PARTS) are as they
/// are, and no node joins: each attempt is [`StoreError::Refused`](crate::StoreError::Refused) with [`Moving::refusal`] as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moving {
    /// Of the move.
    pub id: MoveId,
    /// Which one of the two this is.
    pub side: Side,
    /// The other one, for people: without a password.
    pub other: String,
    /// How far the target has got: a [`Position`] as text. Empty in the source.
    pub position: String,
    /// Everything is in the target. The target is open from then on.
    pub finished: bool,
}

impl Moving {
    /// A move that begins.
    pub fn new(id: MoveId, side: Side, other: String) -> Self {
        let position = match side {
            Side::Source => String::new(),
            Side::Target => Position::first().to_text(),
        };
        Self { id, side, other, position, finished: false }
    }

    /// Whether the database takes no jobs and no nodes.
    pub fn closed(&self) -> bool {
        !self.finished || self.side == Side::Source
    }

    /// What a caller is told that would change a closed database.
    pub fn refusal(&self) -> String {
        let other = &self.other;
        match (self.side, self.finished) {
            (Side::Source, true) => format!("the jobs of this database were moved to {other}; use that one"),
            (Side::Source, false) => format!(
                "this database is closed: its jobs are being moved to {other}; use that one when `turnwise move` is done"
            ),
            (Side::Target, _) => {
                format!(
                    "this database is closed: jobs are being moved to it from {other}; wait for `turnwise move` to end"
                )
            }
        }
    }
}

/// Whether a database may become a side of a move, as far as the moves that it knows tell: what else hinders it, the store looks up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MayClose {
    /// It is that side already.
    IsClosed,
    /// If nothing else hinders it.
    Perhaps,
    /// It is in another move.
    No(Hindrance),
}

impl MayClose {
    /// `found`: the move that the database knows; `new`: the one that it is to be in.
    pub fn of(found: Option<Moving>, new: &Moving) -> Self {
        let Some(found) = found else { return Self::Perhaps };
        if (found.id, found.side) == (new.id, new.side) {
            return Self::IsClosed;
        }
        // The target of a move that was ended before it brought anything, or even closed its source, may be the target of another.
        let unused = new.side == Side::Target && found.side == Side::Target && found.position == new.position;
        if found.closed() && !unused { Self::No(Hindrance::Moving(found)) } else { Self::Perhaps }
    }
}

/// How far the target of a move has got: all rows of the earlier parts are there, and those of this part up to a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The name of the part; `None`: all parts are there.
    pub part: Option<String>,
    /// The key of the last row that is there; empty: none is.
    pub after: Vec<Cell>,
}

impl Position {
    /// Before everything.
    pub fn first() -> Self {
        Self { part: PARTS.first().map(|part| part.name.to_owned()), after: Vec::new() }
    }

    /// Before the first row of the part that follows this one.
    pub fn after_part(part: &Part) -> Self {
        let next = PARTS.iter().skip_while(|other| other.name != part.name).nth(1);
        Self { part: next.map(|part| part.name.to_owned()), after: Vec::new() }
    }

    /// As it is stored.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("names and cells are JSON")
    }
}

/// A node that is alive: nothing is moved from it or to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivingNode {
    /// Its name.
    pub name: NodeName,
    /// When its lease is over, unless it prolongs it.
    pub until: Timestamp,
}

/// Why a database does not take part in a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hindrance {
    /// These nodes are alive.
    Nodes(Vec<LivingNode>),
    /// Jobs are in nodes' hands.
    InHands,
    /// The target has something in this part already.
    NotEmpty(&'static str),
    /// It takes part in another move, or on the other side of this one.
    Moving(Moving),
}

/// The verbs of a move. Each is one atomic step, and safe to repeat after a lost reply.
#[async_trait]
pub trait MoveStore: Send + Sync + fmt::Debug + 'static {
    /// The move that this database takes part in, or took part in last.
    async fn moving(&self) -> Result<Option<Moving>>;

    /// Makes this database a side of a move, if nothing hinders it: from then on it is [closed](Moving::closed). Whatever was begun
    /// before, such as an open transaction that has submitted a job, is waited for; [`StoreError::Transient`](crate::StoreError) if
    /// that takes too long. Repeated, it answers the same.
    async fn close(&self, moving: Moving) -> Result<std::result::Result<(), Hindrance>>;

    /// Rows of a part in the order of their keys, those after a key, at most `limit`.
    async fn export(&self, part: &'static Part, after: Vec<Cell>, limit: u32) -> Result<Vec<MovedRow>>;

    /// Adds rows to the target of this move and notes how far it has got now, if it is as far as the caller believes. `false`: it is not,
    /// and nothing is written; so a repeated call, and one of another process, adds nothing twice.
    async fn import(&self, import: Import) -> Result<bool>;

    /// Everything is in the target. There: new jobs come after all that were moved, and the database is open. `false`: this database does
    /// not take part in this move.
    async fn finish(&self, id: MoveId) -> Result<bool>;

    /// Gives a move up that is not finished. The source is open again. The target is empty again, and open. `false`: this database does
    /// not take part in this move, or it is finished; nothing is changed.
    async fn give_up(&self, id: MoveId) -> Result<bool>;
}

/// Rows for the target of a move.
#[derive(Debug, Clone)]
pub struct Import {
    /// Of the move.
    pub id: MoveId,
    /// Where the rows belong.
    pub part: &'static Part,
    /// The rows.
    pub rows: Vec<MovedRow>,
    /// How far the target is, as it was read.
    pub from: String,
    /// How far it is with these rows.
    pub to: String,
}
