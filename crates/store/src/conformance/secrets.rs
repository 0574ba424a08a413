//! Promises about secret fields of tasks.

use turnwise_core::secret::{MAX_SECRETS, Pointer, Secrets};

use super::{OperatorHarness, scene::task};
use crate::StoreError;

fn secrets(fields: &[(&str, &str)]) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, pointer) in fields {
        secrets.add(task(name), Pointer::new(pointer).expect("a pointer"));
    }
    secrets
}

pub async fn secret_fields_are_noted_for_every_process(h: &impl OperatorHarness) {
    let (store, other) = (h.operators().await, h.operators().await);
    assert_eq!(other.secrets().await.expect("secrets"), Secrets::default());
    let noted = secrets(&[("charge", "/card/number"), ("charge", "/é~1\"\\"), ("mail", "")]);
    store.note_secrets(noted.clone()).await.expect("note secrets");
    assert_eq!(other.secrets().await.expect("secrets"), noted);
}

pub async fn a_secret_field_stays_one_whatever_later_programs_note(h: &impl OperatorHarness) {
    let store = h.operators().await;
    store.note_secrets(secrets(&[("charge", "/card")])).await.expect("note secrets");
    for _ in 0..2 {
        store.note_secrets(secrets(&[("charge", "/pin"), ("mail", "/key")])).await.expect("note secrets");
    }
    store.note_secrets(Secrets::default()).await.expect("note secrets");
    let all = secrets(&[("charge", "/card"), ("charge", "/pin"), ("mail", "/key")]);
    assert_eq!(store.secrets().await.expect("secrets"), all);
}

pub async fn too_many_secret_fields_are_refused_and_none_of_them_is_noted(h: &impl OperatorHarness) {
    let store = h.operators().await;
    let mut many = Secrets::default();
    for n in 0..MAX_SECRETS {
        many.add(task("charge"), Pointer::stored(format!("/{n}")));
    }
    store.note_secrets(many.clone()).await.expect("as many as there may be");
    store.note_secrets(many.clone()).await.expect("the same again");
    let refused = store.note_secrets(secrets(&[("mail", "/a")])).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(store.secrets().await.expect("secrets"), many);
}
