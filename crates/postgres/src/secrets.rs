//! Secret fields of tasks.

use std::sync::Arc;

use turnwise_core::{
    TaskName,
    secret::{Pointer, Secrets},
};
use turnwise_store::{Result, operators::new_secrets};

use crate::{connect::connection, errors::failed, rows::get, session::Session, store::Inner};

/// Most nodes start with what is noted already, and write nothing then.
pub(crate) async fn note(store: &Inner, secrets: &Secrets) -> Result<()> {
    let new = new_secrets(&all(store).await?, secrets)?;
    if new.is_empty() {
        return Ok(());
    }
    let (tasks, pointers): (Vec<_>, Vec<_>) =
        new.iter().map(|(task, pointer)| (task.as_str(), pointer.as_str())).unzip();
    let client = connection(&store.pools.people).await?;
    let noted = client.execute(include_str!("../sql/secret_note.sql"), &[&tasks, &pointers]).await;
    noted.map(drop).map_err(failed("note secret fields"))
}

pub(crate) async fn all(store: &Inner) -> Result<Secrets> {
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/secrets.sql"), &[]).await.map_err(failed("read secret fields"))?;
    let mut secrets = Secrets::default();
    for row in &rows {
        let (task, pointer): (String, String) = (get(row, 0)?, get(row, 1)?);
        secrets.add(TaskName::stored(Arc::from(task)), Pointer::stored(pointer));
    }
    Ok(secrets)
}
