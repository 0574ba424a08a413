//! What each had, beside what it was entitled to.

use crate::{
    Chart, Colour, Measure, Table, Width,
    drawing::{Drawing, Role, Words, class},
    plot::{Entry, FONT, Legend, Swatch},
    scale::tame,
    text::{breadth, fit, named},
};

/// More rows than this are counted instead of drawn.
const ROWS: usize = 200;

/// Bars, with a mark where each should end.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What is shown, as a heading says it.
    pub title: String,
    /// What the values count.
    pub measure: Measure,
    /// From the top down.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it is called.
    pub name: String,
    /// How much it had.
    pub used: f64,
    /// How much it was entitled to.
    pub entitled: Option<f64>,
    /// Where its name leads.
    pub href: Option<String>,
}

impl Bar {
    fn used(&self) -> f64 {
        tame(self.used).unwrap_or(0.0).max(0.0)
    }

    fn entitled(&self) -> Option<f64> {
        tame(self.entitled?).map(|entitled| entitled.max(0.0))
    }

    fn say(&self, measure: Measure) -> String {
        let used = measure.say(self.used());
        self.entitled().map_or_else(|| used.clone(), |entitled| format!("{used} of {}", measure.say(entitled)))
    }
}

impl Chart for Bars {
    fn svg(&self, width: Width) -> String {
        let units = width.units();
        let shown = &self.bars[..self.bars.len().min(ROWS)];
        let values: Vec<_> = shown.iter().map(|bar| bar.say(self.measure)).collect();
        let value_room = values.iter().map(|value| breadth(value, FONT)).fold(40.0, f64::max) + 14.0;
        // On a phone a name stands above its bar.
        let narrow = width == Width::Narrow;
        let names = shown.iter().map(|bar| breadth(&fit(&bar.name, units * 0.24, FONT), FONT)).fold(60.0, f64::max);
        let (left, row) = if narrow { (0.0, 44.0) } else { (names + 14.0, 30.0) };
        let right = units - value_room;
        let legend = Legend::new(self.legend(), 0.0, units);
        let hidden = self.bars.len() - shown.len();
        let rows = shown.len().max(1) + usize::from(hidden > 0);
        #[allow(clippy::cast_precision_loss)] // two hundred
        let height = legend.height() + 6.0 + row * rows as f64;
        let point = self.point(hidden);
        let linked = shown.iter().any(|bar| bar.href.is_some());
        let role = if linked { Role::Links } else { Role::Picture };
        let words = Words { title: &self.title, point: &point };
        let mut drawing = Drawing::begin(&class("bars", width), (units, height), words, role);
        legend.draw(&mut drawing);
        let most = shown.iter().flat_map(|bar| [Some(bar.used()), bar.entitled()]).flatten().fold(0.0, f64::max);
        let x = |value: f64| left + (right - left) * (value / most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let mut top = legend.height() + 6.0;
        for (bar, value) in shown.iter().zip(&values) {
            let middle = if narrow { top + 29.0 } else { top + row / 2.0 };
            drawing.group("row");
            drawing.hint(&format!("{}: {value}", named(&bar.name)));
            drawing.link("name", bar.href.as_deref());
            if narrow {
                drawing.text("ink", (left, top + 14.0), &fit(&bar.name, units, FONT));
            } else {
                drawing.text("ink", (0.0, middle + 4.5), &fit(&bar.name, left - 12.0, FONT));
            }
            drawing.close();
            drawing.rect("rail", (left, middle - 6.0), (right - left, 12.0), 3.0);
            drawing.rect(
                &format!("area {}", Colour::Series(0).class()),
                (left, middle - 6.0),
                (x(bar.used()) - left, 12.0),
                3.0,
            );
            if let Some(entitled) = bar.entitled() {
                drawing.line("halo", (x(entitled), middle - 10.0), (x(entitled), middle + 10.0));
                drawing.line("due", (x(entitled), middle - 10.0), (x(entitled), middle + 10.0));
            }
            drawing.text("soft end", (units, middle + 4.5), value);
            drawing.close();
            top += row;
        }
        if shown.is_empty() {
            drawing.text("soft", (0.0, top + 19.0), "nothing in this time");
        } else if hidden > 0 {
            drawing.text("soft", (0.0, top + 19.0), &format!("and {hidden} more"));
        }
        drawing.end()
    }

    fn table(&self) -> Table {
        let rows = self.bars.iter().map(|bar| {
            let entitled = bar.entitled().map_or_else(|| "-".to_owned(), |entitled| self.measure.say(entitled));
            [bar.name.clone(), self.measure.say(bar.used()), entitled]
        });
        Table::new(["name", "had", "entitled to"], rows)
    }
}

impl Bars {
    fn legend(&self) -> Vec<Entry> {
        let entry = |swatch, text: &str| Entry { swatch, text: text.to_owned(), value: String::new() };
        let mut entries = vec![entry(Swatch::Area(Colour::Series(0)), "had")];
        if self.bars.iter().any(|bar| bar.entitled().is_some()) {
            entries.push(entry(Swatch::Upright("due"), "entitled to"));
        }
        entries
    }

    fn point(&self, hidden: usize) -> String {
        let say = |bar: &Bar| {
            let entitled = bar
                .entitled()
                .map_or_else(String::new, |due| format!(" and was entitled to {}", self.measure.say(due)));
            format!("{} had {}{entitled}", named(&bar.name), self.measure.say(bar.used()))
        };
        let behind = |bar: &Bar| bar.entitled().map(|due| due - bar.used()).unwrap_or(0.0);
        let most = self.bars.iter().max_by(|a, b| a.used().total_cmp(&b.used()));
        let least = self.bars.iter().max_by(|a, b| behind(a).total_cmp(&behind(b))).filter(|bar| behind(bar) > 0.0);
        let more = if hidden > 0 { format!(" {hidden} more are not drawn.") } else { String::new() };
        match (most, least) {
            (None, _) => "There is nothing to show.".to_owned(),
            (Some(most), Some(least)) if most != least => {
                format!("{}; furthest under its share: {}.{more}", say(most), say(least))
            }
            (Some(most), _) => format!("The most: {}.{more}", say(most)),
        }
    }
}
