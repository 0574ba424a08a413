//! Bodies of requests that were answered before their end: most often refused. Many callers send all of a body before they look for an
//! answer. If the connection were closed at once, they would find it broken, and not learn why.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Bytes;
use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    header,
};
use tokio::{sync::oneshot, time::timeout};

use crate::limits::{UNREAD_BYTES, UNREAD_TIME};

/// A request's body, as it is lent to the handler.
pub(crate) struct Lent {
    body: Option<Incoming>,
    back: Option<oneshot::Sender<Incoming>>,
    /// The caller sends nothing before it is asked to, and was not.
    unsent: bool,
}

/// Where the handler leaves what it has not read.
pub(crate) struct Left(oneshot::Receiver<Incoming>);

/// What it has not read.
pub(crate) struct Unread(Incoming);

pub(crate) fn lend(request: Request<Incoming>) -> (Request<Lent>, Left) {
    let unsent = request.headers().contains_key(header::EXPECT);
    let (back, left) = oneshot::channel();
    (request.map(|body| Lent { body: Some(body), back: Some(back), unsent }), Left(left))
}

impl Left {
    /// The handler has answered.
    pub(crate) fn take(mut self) -> Option<Unread> {
        self.0.try_recv().ok().map(Unread)
    }
}

impl Unread {
    /// Passes over it, for a while. What is longer or slower breaks the connection.
    pub(crate) async fn skip(mut self) {
        let mut left = UNREAD_BYTES;
        if self.0.size_hint().lower() > left {
            return;
        }
        let all = async {
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut self.0).poll_frame(cx)).await {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                match left.checked_sub(bytes) {
                    Some(rest) => left = rest,
                    None => break,
                }
            }
        };
        let _ = timeout(UNREAD_TIME, all).await;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(body), Some(back)) = (self.body.take(), self.back.take()) else { return };
        if !self.unsent && !body.is_end_stream() {
            // The connection may have ended meanwhile.
            let _ = back.send(body);
        }
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.unsent = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
