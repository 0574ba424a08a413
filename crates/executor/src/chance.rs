//! Where randomness comes from: the operating system, or a seed, so that a run can be repeated to the letter.

use std::sync::Mutex;

use rand::{
    RngExt, SeedableRng,
    distr::{Distribution, StandardUniform},
    rngs::StdRng,
};

use crate::lock::locked;

#[derive(Debug, Default)]
pub(crate) struct Chance(Option<Mutex<StdRng>>);

impl Chance {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Some(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    pub(crate) fn random<T>(&self) -> T
    where
        StandardUniform: Distribution<T>,
    {
        match &self.0 {
            None => rand::random(),
            Some(seeded) => locked(seeded).random(),
        }
    }
}
