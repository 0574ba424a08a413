//! A chart with its values as a table behind it.

use turnwise_chart::Chart;

/// As templates show it.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) svg: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Whether the first column has times in UTC.
    pub(crate) timed: bool,
}

impl Figure {
    pub(crate) fn of(chart: &impl Chart) -> Self {
        let table = chart.table();
        let mut head = table.head;
        let timed = head.first().is_some_and(|first| first == "time (UTC)");
        if timed {
            "time".clone_into(&mut head[0]);
        }
        Self { svg: chart.figure(), head, rows: table.rows, timed }
    }

    /// A time of the first column, as a page's attribute has it.
    pub(crate) fn iso(cell: &str) -> String {
        format!("{}Z", cell.replacen(' ', "T", 1))
    }
}
