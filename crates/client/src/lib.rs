//! Asks the HTTP API of `turnwise serve`, for the commands of `turnwise`.
//!
//! [`address`](Address) where the server is, and whether it may be asked that way → one connection to it, encrypted or
//! not → [`Client`] a request and its answer → [`Error`] what went wrong, as the server said it. [`Sender`] asks another server, [`Hook`] posts
//! to one again and again.

mod address;
mod client;
mod connection;
mod elsewhere;
mod error;
mod hook;

pub use address::{Address, encoded};
pub use client::{Answer, Ask, Client};
pub use elsewhere::Sender;
pub use error::{Error, Problem};
pub use hook::{Hook, Said};
