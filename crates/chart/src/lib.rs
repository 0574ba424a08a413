//! Charts as SVG, made of plain values: for the pages of `turnwise serve` and for the files of the commands.
//!
//! `text` what callers' texts may hold, and how wide they are → `drawing` the only place that writes markup → [`Colour`] one palette,
//! with a shape for each [`State`] → `scale` round steps, and values as people read them → [`Times`] a time axis → `plot` axes and
//! legends → the charts: [`Shares`] who had the workers, [`Lines`] values over time, [`Bars`] used beside entitled, [`Timeline`] the
//! attempts of a job, [`Histogram`] how long something took, [`Graph`] what waits for what, [`Spark`] a line within a line of text,
//! [`Fairness`] the demo → [`standalone`] a picture as a file of its own.
//!
//! A picture has classes and no styles: a page shows it under `style-src 'self'`, with [`CSS`] as part of its style sheet. No text of
//! a caller changes which elements a picture has, and no number keeps it from being drawn.
//!
//! ```
//! use turnwise_chart::{Bar, Bars, Chart, Measure};
//!
//! let bar = |name: &str, used, due| Bar { name: name.to_owned(), used, entitled: Some(due), href: None };
//! let bars = vec![bar("acme", 0.41, 0.25), bar("<beta>", 0.2, 0.25)];
//! let bars = Bars { title: "Worker time".to_owned(), measure: Measure::Part, bars };
//! assert!(bars.figure().contains("&lt;beta&gt;"));
//! assert_eq!(bars.table().rows[0], ["acme", "41 %", "25 %"]);
//! ```

mod bars;
mod colour;
mod drawing;
mod fairness;
mod graph;
mod histogram;
mod lines;
mod plot;
mod scale;
mod shares;
mod spark;
mod standalone;
mod text;
mod timeline;
mod times;

pub use bars::{Bar, Bars};
pub use colour::{Colour, QueueState, SERIES, State};
pub use fairness::{Course, Fairness};
pub use graph::{Graph, Kind, Node};
pub use histogram::Histogram;
pub use lines::{Lines, Series};
pub use scale::Measure;
pub use shares::{Group, Shares};
pub use spark::Spark;
pub use standalone::{CSS, standalone};
pub use timeline::{Attempt, Phase, Timeline};
pub use times::Times;

/// A picture in several widths, with its values as a table.
pub trait Chart {
    /// The picture: one element `svg` whose height follows from what it shows.
    fn svg(&self, width: Width) -> String;

    /// The same values in words and numbers. They are not escaped: what shows them does that.
    fn table(&self) -> Table;

    /// The picture in all widths; [`CSS`] shows the one that fits the place it stands in, so that its texts stay legible.
    fn figure(&self) -> String {
        let all = Width::ALL.map(|width| self.svg(width));
        format!("<div class=\"chart-fit\">{}</div>", all.concat())
    }
}

/// What a picture is laid out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// A phone, from 320 px on.
    Narrow,
    /// Half a page.
    Medium,
    /// A whole page.
    Wide,
    /// A whole page of a large screen.
    Full,
}

impl Width {
    /// Every width, the narrowest first.
    pub const ALL: [Width; 4] = [Width::Narrow, Width::Medium, Width::Wide, Width::Full];

    /// Its class in [`CSS`].
    fn class(self) -> &'static str {
        match self {
            Width::Narrow => "narrow",
            Width::Medium => "medium",
            Width::Wide => "wide",
            Width::Full => "full",
        }
    }

    /// In the units of the picture, which are about a pixel.
    fn units(self) -> f64 {
        match self {
            Width::Narrow => 290.0,
            Width::Medium => 560.0,
            Width::Wide => 920.0,
            Width::Full => 1_140.0,
        }
    }
}

/// What a page puts behind a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The names of its columns.
    pub head: Vec<String>,
    /// As many cells as there are columns, each time.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn new<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        Self { head: head.map(str::to_owned).to_vec(), rows: rows.into_iter().map(Vec::from).collect() }
    }
}
