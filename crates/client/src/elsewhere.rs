//! A request to another server than turnwise's own, such as a collector of traces.

use std::{io, path::Path};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, Uri, header::HOST};
use turnwise_core::Invalid;

use crate::{
    Address,
    connection::{Connection, Tls},
};

/// Most that is read of an answer: such servers say little.
const ANSWER_BYTES: usize = 64 * 1024;

/// Sends requests, each on a connection of its own.
pub struct Sender {
    tls: Option<Tls>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    /// For requests to this address: `https` trusts the roots of this machine, or only those in a PEM file.
    pub fn to(address: &str, ca: Option<&Path>) -> Result<Self, Invalid> {
        let tls = if address.starts_with("https:") { Some(Tls::new(ca)?) } else { None };
        Ok(Self { tls })
    }

    /// Sends the request to where its URI says, and reads the answer, whatever its status is. How long that may take is up to the caller.
    pub async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let (mut head, body) = request.into_parts();
        let address = address(&head.uri)?;
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = path.parse().map_err(io::Error::other)?;
        head.headers.insert(HOST, address.authority.parse().map_err(io::Error::other)?);
        head.uri = uri;
        let mut connection = Connection::open(&address, self.tls.as_ref().filter(|_| address.tls)).await?;
        let request = Request::from_parts(head, Full::new(body));
        let response = connection.requests.send_request(request).await.map_err(io::Error::other)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

fn address(uri: &Uri) -> io::Result<Address> {
    let bad = |problem: &str| io::Error::new(io::ErrorKind::InvalidInput, problem.to_owned());
    let authority = uri.authority().ok_or_else(|| bad("the address names no host"))?;
    // It would be sent as a part of the host's name, and be in logs.
    if authority.as_str().contains('@') {
        return Err(bad("the address must not have a name or a password in it"));
    }
    let tls = uri.scheme_str() == Some("https");
    Ok(Address {
        host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        tls,
        authority: authority.to_string(),
        prefix: String::new(),
    })
}
