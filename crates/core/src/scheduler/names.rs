//! Names of groups, one after the other: each costs its text and two bytes.
//!
//! There may be a million groups, and nearly all are used by index only. An `Arc<str>` for each name would take
//! sixteen bytes for the pointer, sixteen for its counters and some more for malloc, which is more than most names are long.

use crate::name::GroupName;

/// Room for many names; none is split.
const CHUNK_BYTES: usize = 1 << 16;
/// A name's length comes before its text.
const LENGTH_BYTES: usize = 2;

/// Where a name is: its chunk in the upper half, its place in the chunk in the lower.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameAt(u32);

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    chunks: Vec<Vec<u8>>,
}

impl Names {
    pub(super) fn add(&mut self, name: &GroupName) -> NameAt {
        let text = name.as_str().as_bytes();
        let size = LENGTH_BYTES + text.len();
        // The border and the database both refuse names of more than MAX_NAME_BYTES.
        assert!(size <= CHUNK_BYTES, "a name of {} bytes", text.len());
        if self.chunks.last().is_none_or(|last| last.len() + size > CHUNK_BYTES) {
            let room = if self.chunks.is_empty() { 0 } else { CHUNK_BYTES };
            self.chunks.push(Vec::with_capacity(room));
        }
        let chunk = u32::try_from(self.chunks.len() - 1).ok().filter(|&chunk| chunk < 1 << 16);
        let chunk = chunk.expect("less than four gigabytes of names");
        let last = self.chunks.last_mut().expect("there is one");
        let place = u32::try_from(last.len()).expect("less than a chunk");
        last.extend(u16::try_from(text.len()).expect("less than a chunk").to_le_bytes());
        last.extend(text);
        NameAt(chunk << 16 | place)
    }

    /// The text of a name, without checking that it is UTF-8.
    pub(super) fn bytes(&self, NameAt(at): NameAt) -> &[u8] {
        let rest = &self.chunks[(at >> 16) as usize][(at & 0xffff) as usize..];
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        &rest[LENGTH_BYTES..][..length]
    }

    pub(super) fn text(&self, at: NameAt) -> &str {
        std::str::from_utf8(self.bytes(at)).expect("it was text when it was added")
    }

    pub(super) fn get(&self, at: NameAt) -> GroupName {
        GroupName::stored(self.text(at).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_reads_back(texts in proptest::collection::vec("[a-zäß漢🦀]{1,40}", 1..20), rounds in 1usize..200) {
            let mut names = Names::default();
            let mut added = Vec::new();
            for round in 0..rounds {
                for text in &texts {
                    let name = GroupName::new(format!("{text}{round}")).unwrap();
                    added.push((names.add(&name), name));
                }
            }
            for (at, name) in added {
                prop_assert_eq!(names.text(at), name.as_str());
                prop_assert_eq!(names.get(at), name);
            }
        }
    }

    #[test]
    fn a_name_costs_its_text_and_two_bytes() {
        let mut names = Names::default();
        let mut text = 0;
        for n in 0..100_000 {
            let name = GroupName::new(format!("customer {n}")).unwrap();
            text += name.as_str().len();
            names.add(&name);
        }
        let room: usize = names.chunks.iter().map(Vec::capacity).sum();
        assert!(room < text + 100_000 * LENGTH_BYTES + 2 * CHUNK_BYTES, "{room} for {text}");
    }
}
