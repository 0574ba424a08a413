//! One palette: each state and each series has the same colour in every picture, and a shape, so that colour is never alone.

use crate::drawing::{Drawing, Pair};

/// How many series have a colour of their own; all further ones are drawn together as the rest.
pub const SERIES: usize = 10;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In no node's hands.
    Waiting,
    /// Assigned to a node.
    Scheduled,
    /// Its task has begun.
    Running,
    /// Its last run failed.
    Stuck,
    /// Ended: done.
    Success,
    /// Ended: given up.
    Failed,
    /// Ended: cancelled.
    Cancelled,
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [State; 7] = [
        State::Waiting,
        State::Scheduled,
        State::Running,
        State::Stuck,
        State::Success,
        State::Failed,
        State::Cancelled,
    ];

    /// The state of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Scheduled => "scheduled",
            State::Running => "running",
            State::Stuck => "stuck",
            State::Success => "success",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }

    /// The class that gives its colour to what is drawn in `currentColor`.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            State::Waiting => "state-waiting",
            State::Scheduled => "state-scheduled",
            State::Running => "state-running",
            State::Stuck => "state-stuck",
            State::Success => "state-success",
            State::Failed => "state-failed",
            State::Cancelled => "state-cancelled",
        }
    }

    /// Its shape as an `svg` of its own, for a page to put before its name.
    #[must_use]
    pub fn mark(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart mark {}\" viewBox=\"-6 -6 12 12\" aria-hidden=\"true\">\
             <path class=\"shape\" d=\"{}\"/></svg>",
            self.class(),
            self.shape()
        )
    }

    fn shape(self) -> &'static str {
        match self {
            // A ring; a ring with a dot; play; a diamond with a hole like "!"; a tick; a cross; no entry.
            State::Waiting => "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0zM-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
            State::Scheduled => {
                "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0zM-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0zM-1.7 0a1.7 1.7 0 1 0 3.4 0a1.7 1.7 0 1 0 -3.4 0z"
            }
            State::Running => "M-3.5 -5L5 0L-3.5 5z",
            State::Stuck => "M0 -5.8L5.8 0L0 5.8L-5.8 0zM-.9 -3h1.8v3.5h-1.8zM-.9 1.3h1.8v1.7h-1.8z",
            State::Success => "M-5.2 .4L-3.5 -1.3L-1.4 .9L3.7 -4.3L5.4 -2.6L-1.4 4.4z",
            State::Failed => {
                "M-4.6 -3.2L-3.2 -4.6L0 -1.4L3.2 -4.6L4.6 -3.2L1.4 0L4.6 3.2L3.2 4.6L0 1.4L-3.2 4.6L-4.6 3.2L-1.4 0z"
            }
            State::Cancelled => "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0zM-3 -1h6v2h-6z",
        }
    }
}

/// What a queue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It starts jobs.
    Active,
    /// It starts nothing until a person resumes it.
    Paused,
    /// It starts nothing until another queue is finished.
    Waiting,
    /// No more jobs come, and none is left.
    Finished,
}

impl QueueState {
    /// Every state.
    pub const ALL: [QueueState; 4] =
        [QueueState::Active, QueueState::Paused, QueueState::Waiting, QueueState::Finished];

    /// The state of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            QueueState::Active => "active",
            QueueState::Paused => "paused",
            QueueState::Waiting => "waiting",
            QueueState::Finished => "finished",
        }
    }

    /// The class that gives its colour to what is drawn in `currentColor`: a job's state that means as much has the same.
    #[must_use]
    pub fn class(self) -> &'static str {
        self.like().class()
    }

    fn like(self) -> State {
        match self {
            QueueState::Active => State::Success,
            QueueState::Paused => State::Stuck,
            QueueState::Waiting => State::Waiting,
            QueueState::Finished => State::Cancelled,
        }
    }

    pub(crate) fn draw(self, drawing: &mut Drawing, at: Pair) {
        let shape = match self {
            // Two bars: a queue that is paused is not stuck.
            QueueState::Paused => "M-4.2 -5h3v10h-3zM1.2 -5h3v10h-3z",
            _ => self.like().shape(),
        };
        drawing.shape(&format!("shape {}", self.class()), at, shape);
    }
}

/// What tells one series from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// One of [`SERIES`]; higher numbers begin anew.
    Series(usize),
    /// All that have no colour of their own.
    Rest,
    /// As the state has it everywhere.
    State(State),
}

impl Colour {
    /// The class that gives its colour to what is drawn in `currentColor`.
    #[must_use]
    pub fn class(self) -> &'static str {
        const CLASSES: [&str; SERIES] = [
            "series-0", "series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8",
            "series-9",
        ];
        match self {
            Colour::Series(number) => CLASSES[number % SERIES],
            Colour::Rest => "series-rest",
            Colour::State(state) => state.class(),
        }
    }

    fn shape(self) -> &'static str {
        // A disc, a square, two triangles, a diamond; each comes twice, in colours that are far apart.
        const SHAPES: [&str; SERIES / 2] = [
            "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            "M-3.6 -3.6h7.2v7.2h-7.2z",
            "M0 -4.6L4.6 3.6L-4.6 3.6z",
            "M0 4.6L4.6 -3.6L-4.6 -3.6z",
            "M0 -5L5 0L0 5L-5 0z",
        ];
        match self {
            Colour::Series(number) => SHAPES[number % SHAPES.len()],
            Colour::Rest => "M-5 -1.5h10v3h-10z",
            Colour::State(state) => state.shape(),
        }
    }

    pub(crate) fn draw(self, drawing: &mut Drawing, at: Pair) {
        drawing.shape(&format!("shape {}", self.class()), at, self.shape());
    }
}
