//! A list that mostly holds one thing: that one needs no allocation.

#[derive(Debug, Clone, Default)]
pub(crate) enum SmallList<T> {
    #[default]
    None,
    One(T),
    /// Two or more.
    // The box keeps the common case small: a bare `Vec` would make every list as large as the rare long ones.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<T>>),
}

impl<T> SmallList<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(item) => std::slice::from_mut(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) fn push(&mut self, item: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(item),
            Self::One(first) => Self::Many(Box::new(vec![first, item])),
            Self::Many(mut items) => {
                items.push(item);
                Self::Many(items)
            }
        };
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        if !self.as_slice().iter().all(&keep) {
            *self = std::mem::take(self).into_iter().filter(keep).collect();
        }
    }
}

impl<T> FromIterator<T> for SmallList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::None;
        items.into_iter().for_each(|item| few.push(item));
        few
    }
}

impl<T> IntoIterator for SmallList<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::None => (None, Vec::new()),
            Self::One(item) => (Some(item), Vec::new()),
            Self::Many(items) => (None, *items),
        };
        one.into_iter().chain(many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_few_are_kept_as_a_vec_would(steps in proptest::collection::vec((any::<bool>(), 0u32..8), 0..40)) {
            let (mut few, mut plain) = (SmallList::None, Vec::new());
            for (adds, number) in steps {
                if adds {
                    few.push(number);
                    plain.push(number);
                } else {
                    few.retain(|item| *item != number);
                    plain.retain(|item| *item != number);
                }
                few.as_mut_slice().sort_unstable();
                plain.sort_unstable();
                prop_assert_eq!(few.as_slice(), &plain[..]);
                prop_assert_eq!(few.is_empty(), plain.is_empty());
                prop_assert_eq!(matches!(few, SmallList::Many(_)), plain.len() > 1, "only two or more are allocated");
            }
            prop_assert!(few.into_iter().eq(plain));
        }
    }

    #[test]
    fn one_index_takes_no_more_room_than_a_fat_pointer() {
        assert_eq!(size_of::<SmallList<u32>>(), 16);
    }
}
