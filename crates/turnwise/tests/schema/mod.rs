//! Opening a database that is made for the test: its schema is made, too.

use turnwise::{Options, Schema, Turnwise};

pub(crate) async fn open(url: &str) -> Turnwise {
    Turnwise::open_with(url, Options { schema: Schema::Migrate, ..Options::default() }).await.unwrap()
}
