//! How long to wait between two tries.

use std::time::Duration;

use crate::chance::Chance;

/// Waits that double, up to a second, with some chance in them so that the nodes of a fleet do not all retry at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    pub(crate) async fn wait(&mut self, chance: &Chance) {
        let least = Duration::from_millis(20).saturating_mul(1 << self.tries.min(6)).min(Duration::from_secs(1));
        self.tries += 1;
        tokio::time::sleep(least.mul_f64(0.5 + chance.random::<f64>())).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_closed_door_is_knocked_at_twice_a_second_at_most() {
        let (chance, begun) = (Chance::seeded(7), Instant::now());
        let mut backoff = Backoff::default();
        for _ in 0..6 {
            backoff.wait(&chance).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "a door that opens soon is found open soon");
        let begun = Instant::now();
        for _ in 0..100 {
            backoff.wait(&chance).await;
        }
        assert!(begun.elapsed() >= Duration::from_secs(50), "{:?}", begun.elapsed());
    }
}
