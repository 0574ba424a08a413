//! Promises of `vitals`.

use super::{OperatorHarness, scene::Scene};

pub async fn a_store_tells_what_it_knows_of_its_database_and_changes_nothing(h: &impl OperatorHarness) {
    let (scene, store) = (Scene::led(h).await, h.operators().await);
    scene.enqueue(1..=3).await;
    let before = scene.store.jobs(crate::store::Filter::default()).await.expect("jobs");
    for _ in 0..2 {
        let vitals = store.vitals().await.expect("vitals");
        assert!(vitals.schema.is_none_or(|last| last > 0), "{vitals:?}");
        assert!(
            vitals.connections.is_none_or(|connections| connections.used > 0 && connections.most > connections.used)
        );
        assert!(vitals.open.is_none_or(|open| open.len() <= turnwise_core::doctor::MAX_OPEN));
    }
    assert_eq!(scene.store.jobs(crate::store::Filter::default()).await.expect("jobs"), before);
}
