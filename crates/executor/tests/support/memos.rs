//! What people have set.

use turnwise_core::settings::QueueSettings;
use turnwise_store::{MemoKind, MemoryStore, NewMemo, Store};

pub(crate) async fn set(store: &MemoryStore, kind: MemoKind, name: &str, value: &impl serde::Serialize) {
    let value = Some(serde_json::to_string(value).unwrap());
    store.remember(None, vec![NewMemo { kind, name: name.to_owned(), value, seen: None, line: None }]).await.unwrap();
}

pub(crate) async fn queue_settings(store: &MemoryStore, queue: &str) -> QueueSettings {
    let memos = store.recall(vec![MemoKind::Queue]).await.unwrap();
    let memo = memos.iter().find(|memo| memo.name == queue).unwrap();
    serde_json::from_str(&memo.value).unwrap()
}
