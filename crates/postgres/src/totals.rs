//! How much there is, as the dispatcher writes it.

use turnwise_core::{Incarnation, Timestamp, totals::Totals};
use turnwise_store::{
    Epoch, FoundTotals, Result, StoreError,
    operators::{ASK_AGAIN, ASKED_FOR, read_totals, totals_text},
};

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, get, micros, moment},
    session::Session,
    store::Inner,
};

pub(crate) async fn ask(store: &Inner) -> Result<FoundTotals> {
    let client = connection(&store.pools.people).await?;
    let (lasts, again) = (micros(ASKED_FOR), micros(ASK_AGAIN));
    let row = client.query_one(include_str!("../sql/totals_ask.sql"), &[&lasts, &again]).await;
    let row = row.map_err(failed("ask for totals"))?;
    if get::<i64>(&row, 3)? > 0 {
        // Of this process, also where no notification arrives.
        store.bell.ring_news();
    }
    let text: Option<&str> = get(&row, 2)?;
    Ok(FoundTotals { now: rows::now(&row, 0)?, last: read_totals(moment(&row, 1)?, text) })
}

pub(crate) async fn write(
    store: &Inner,
    (holder, epoch): (Incarnation, Epoch),
    totals: &Totals,
) -> Result<Option<Timestamp>> {
    let text = totals_text(totals)?;
    let client = connection(&store.pools.dispatch).await?;
    let row = client.query_one(include_str!("../sql/totals_write.sql"), &[&holder.0, &epoch.0, &text]).await;
    let row = row.map_err(failed("write totals"))?;
    if get(&row, 0)? { moment(&row, 1) } else { Err(StoreError::NotLeading) }
}
