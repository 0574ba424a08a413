//! Numbers that can be added, and how they are stored.

use super::{BUCKETS, Counted, Histogram};

/// What is summed up in a row. Most of the buckets are empty, so only the others are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    counts: [u64; Counted::ALL.len()],
    micros: [u64; Counted::ALL.len()],
    /// What was used of the group's share, in microseconds of a slot; in a queue that counts turns, a second for each turn.
    pub used: u64,
    /// What the group could claim while it had jobs ready, in the same unit.
    pub entitled: u64,
    /// Counts by cell, in ascending order; a cell is a bucket of one of the counted.
    cells: Vec<(u16, u64)>,
}

/// The first byte of stored sums.
const VERSION: u8 = 1;

impl Sums {
    /// What was used of a share and what could be claimed, and nothing else yet.
    pub fn of_share(used: u64, entitled: u64) -> Self {
        Self { used, entitled, ..Self::default() }
    }

    /// How many there are of a kind.
    pub fn count(&self, counted: Counted) -> u64 {
        self.counts[counted.index()]
    }

    /// How long it took, all times together, in microseconds.
    pub fn micros(&self, counted: Counted) -> u64 {
        self.micros[counted.index()]
    }

    /// Runs that were over.
    pub fn ended(&self) -> u64 {
        self.counts.iter().skip(1).sum()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was counted; its times are added with [`Sums::put`].
    pub fn tally(&mut self, counted: Counted, count: u64, micros: u64) {
        let at = counted.index();
        self.counts[at] = self.counts[at].saturating_add(count);
        self.micros[at] = self.micros[at].saturating_add(micros);
    }

    /// Adds times of this length.
    pub fn put(&mut self, counted: Counted, bucket: usize, count: u64) {
        let cell = u16::try_from(counted.index() * BUCKETS + bucket).expect("a few hundred cells");
        match self.cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
            Ok(at) => self.cells[at].1 = self.cells[at].1.saturating_add(count),
            Err(at) => self.cells.insert(at, (cell, count)),
        }
    }

    /// How the times of a kind are spread.
    pub fn histogram(&self, counted: Counted) -> Histogram {
        let mut histogram = Histogram { micros: self.micros(counted), ..Histogram::default() };
        let first = counted.index() * BUCKETS;
        for &(cell, count) in &self.cells {
            let at = usize::from(cell);
            if (first..first + BUCKETS).contains(&at) {
                histogram.buckets[at - first] = count;
            }
        }
        histogram
    }

    /// Of all that has ended, however it did.
    pub fn runs(&self) -> Histogram {
        let mut all = Histogram::default();
        Counted::ALL.into_iter().skip(1).for_each(|counted| all.add(&self.histogram(counted)));
        all
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Sums) {
        self.each(other, u64::saturating_add);
        for &(cell, count) in &other.cells {
            self.put(Counted::ALL[usize::from(cell) / BUCKETS], usize::from(cell) % BUCKETS, count);
        }
    }

    /// Takes away a part of it.
    pub fn take_away(&mut self, part: &Sums) {
        self.each(part, u64::saturating_sub);
        for &(cell, count) in &part.cells {
            if let Ok(at) = self.cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
                self.cells[at].1 = self.cells[at].1.saturating_sub(count);
            }
        }
        self.cells.retain(|(_, count)| *count > 0);
    }

    fn each(&mut self, other: &Sums, change: impl Fn(u64, u64) -> u64) {
        let pairs = self.counts.iter_mut().zip(other.counts).chain(self.micros.iter_mut().zip(other.micros));
        pairs.for_each(|(mine, other)| *mine = change(*mine, other));
        self.used = change(self.used, other.used);
        self.entitled = change(self.entitled, other.entitled);
    }

    /// As they are stored: a version, then numbers of seven bits a byte, the least first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let cells = u64::try_from(self.cells.len()).expect("a few hundred");
        let numbers = self.counts.into_iter().chain(self.micros).chain([self.used, self.entitled, cells]);
        let cells = self.cells.iter().flat_map(|&(cell, count)| [u64::from(cell), count]);
        for mut number in numbers.chain(cells) {
            while number >= 0x80 {
                bytes.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
                number >>= 7;
            }
            bytes.push(u8::try_from(number).expect("seven bits"));
        }
        bytes
    }

    /// `None`: not of this version, or no sums at all.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, mut rest) = bytes.split_first()? else { return None };
        let mut sums = Self::default();
        for number in sums.counts.iter_mut().chain(&mut sums.micros).chain([&mut sums.used, &mut sums.entitled]) {
            *number = number_of(&mut rest)?;
        }
        for _ in 0..number_of(&mut rest)? {
            let (cell, count) = (number_of(&mut rest)?, number_of(&mut rest)?);
            let cell = usize::try_from(cell).ok()?;
            sums.put(*Counted::ALL.get(cell / BUCKETS)?, cell % BUCKETS, count);
        }
        rest.is_empty().then_some(sums)
    }
}

fn number_of(bytes: &mut &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
