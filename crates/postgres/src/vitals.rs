//! What is known of the server, for a person who asks what is wrong.

use std::time::Duration;

use turnwise_core::doctor::{Connections, MAX_OPEN, OpenTransaction, Vitals};
use turnwise_store::{Result, moving::Moving};

use crate::{
    connect::connection, errors::failed, migrate::last_step, moving, rows::get, session::Session, store::Inner,
};

pub(crate) async fn vitals(store: &Inner) -> Result<Vitals> {
    let fail = failed("read what the server says of itself");
    let client = connection(&store.pools.people).await?;
    let settings = client.query(include_str!("../sql/vitals_settings.sql"), &[]).await.map_err(fail)?;
    let counts = client.query_one(include_str!("../sql/vitals_connections.sql"), &[]).await.map_err(fail)?;
    let most = i64::try_from(MAX_OPEN).unwrap_or(i64::MAX);
    let open = client.query(include_str!("../sql/vitals_open.sql"), &[&most]).await.map_err(fail)?;
    let count = |at| get::<i64>(&counts, at).map(|count| u32::try_from(count).unwrap_or_default());
    let open = open.iter().map(|row| {
        let seconds: Option<f64> = get(row, 2)?;
        Ok(OpenTransaction {
            who: get(row, 0)?,
            pid: get(row, 1)?,
            open_for: seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
            behind: get(row, 3)?,
        })
    });
    Ok(Vitals {
        schema: Some(last_step(&client).await?),
        settings: settings.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect::<Result<_>>()?,
        open: Some(open.collect::<Result<_>>()?),
        hidden: count(2)?,
        connections: Some(Connections { used: count(0)?, most: count(1)? }),
        log_bytes: None,
        closed: moving::moving(store).await?.filter(Moving::closed).map(|moving| moving.refusal()),
    })
}
