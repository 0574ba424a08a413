//! A chart with its values as a table behind it.

use turnwise_chart::Chart;

/// As templates show it.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) svg: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Figure {
    pub(crate) fn of(chart: &impl Chart) -> Self {
        let table = chart.table();
        Self { svg: chart.figure(), head: table.head, rows: table.rows }
    }
}
