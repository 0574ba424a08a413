//! Deleting what need not be kept any longer, by hand; nodes that dispatch do it all the time.

use turnwise::Turnwise;

use crate::{args, error::Failure, print, serve::block_on, settings::Settings};

/// Rows in one transaction: many enough to be quick, few enough to hold up no other statement.
const ROWS: u32 = 1_000;

pub(crate) fn prune(settings: &Settings, wish: &args::Prune) -> Result<(), Failure> {
    let mut options = settings.options()?;
    if let Some(text) = wish.retention.as_deref() {
        options.retention = Some(text.parse()?);
    }
    block_on(async {
        let turnwise = Turnwise::open_with(settings.database(), options).await?;
        let store = turnwise.store();
        // The store hears of what is set for the installation.
        turnwise.settings().await?;
        let mut gone = 0;
        loop {
            // Without a cursor only history goes: which changes the dispatcher has seen, it alone knows.
            let rows = store.prune(None, ROWS).await?;
            gone += rows;
            if rows < u64::from(ROWS) {
                break;
            }
        }
        print::lines([format!("{gone} rows deleted")])?;
        Ok(())
    })
}
