//! The listener: connections, each with its time limits, and their end.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::process::{Resource, getrlimit};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, Sleep, interval, sleep, sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;
use turnwise_core::log_bound::SPAN;

use crate::{
    connections::{Connection, Connections},
    limits::{ACCEPT_PAUSE, CONNECTIONS, GRACE, HEAD_BYTES, HEAD_TIME, WRITE_TIME},
    logs,
    proxies::Peer,
    service::Service,
    tls::Certificate,
    unread::lend,
};

/// A listener that answers.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    end: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Service {
    /// Answers on this listener until [`Listening::stop`]; with a certificate, by TLS alone.
    pub fn listen(&self, listener: TcpListener, certificate: Option<Certificate>) -> io::Result<Listening> {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        self.listen_to_at_most(most(files), listener, certificate)
    }

    /// As [`Service::listen`], but for so many connections at a time, whatever the process may have open.
    pub fn listen_to_at_most(
        &self,
        connections: usize,
        listener: TcpListener,
        certificate: Option<Certificate>,
    ) -> io::Result<Listening> {
        let address = listener.local_addr()?;
        let (end, ended) = watch::channel(false);
        let tls = certificate.as_ref().map(Certificate::config).transpose().map_err(io::Error::other)?;
        if tls.is_some() {
            self.set_secure();
        }
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let accept = accept(self.clone(), Connections::at_most(connections), listener, tls, ended);
        let task = tokio::spawn(async move {
            match certificate {
                // The one that ends is the listener.
                Some(certificate) => tokio::select! { () = accept => {}, () = certificate.watch() => {} },
                None => accept.await,
            }
        });
        Ok(Listening { address, end, task })
    }
}

impl Listening {
    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets open requests end, and closes the others.
    pub async fn stop(self) {
        self.end.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the HTTP listener ended badly");
        }
    }
}

async fn accept(
    service: Service,
    connections: Arc<Connections>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut ended: watch::Receiver<bool>,
) {
    let router = service.router();
    let mut open = JoinSet::new();
    let mut spans = interval(SPAN);
    loop {
        while open.try_join_next().is_some() {}
        let stream = tokio::select! {
            _ = spans.tick() => {
                logs::tell_left_out();
                continue;
            }
            accepted = listener.accept() => accepted.map(|(stream, address)| (stream, Peer(address.ip()))),
            _ = ended.wait_for(|ended| *ended) => break,
        };
        match stream {
            Ok((stream, peer)) => {
                let opened = tokio::select! {
                    opened = connections.admit() => opened,
                    _ = ended.wait_for(|ended| *ended) => break,
                };
                let from = (peer, opened.connection().clone());
                let (router, tls, ended) = (router.clone(), tls.clone(), ended.clone());
                open.spawn(async move {
                    tokio::select! {
                        () = greet(router, stream, from, tls, ended) => {}
                        () = opened.let_go() => tracing::debug!("a connection that rested was closed for another one"),
                    }
                });
            }
            // The system has no more files, or the caller has gone: the next one may be served.
            Err(error) => {
                tracing::debug!(%error, "could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    logs::tell_rest();
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        tracing::warn!("some requests did not end in time; their connections are closed");
        open.shutdown().await;
    }
}

async fn greet(
    router: axum::Router,
    stream: TcpStream,
    from: (Peer, Connection),
    tls: Option<TlsAcceptor>,
    mut ended: watch::Receiver<bool>,
) {
    // Answers are small and written whole.
    let _ = stream.set_nodelay(true);
    let stream = Impatient { stream, stuck: None };
    let Some(tls) = tls else { return serve(router, stream, from, ended).await };
    let agreed = tokio::select! {
        agreed = timeout(HEAD_TIME, tls.accept(stream)) => agreed,
        _ = ended.wait_for(|ended| *ended) => return,
    };
    match agreed {
        Ok(Ok(stream)) => serve(router, stream, from, ended).await,
        Ok(Err(error)) => tracing::debug!(%error, "a caller and this server could not agree on TLS"),
        Err(_) => tracing::debug!("a caller took too long to agree on TLS"),
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    router: axum::Router,
    stream: S,
    (peer, connection): (Peer, Connection),
    mut ended: watch::Receiver<bool>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    let router = TowerToHyperService::new(router);
    let from_peer = service_fn(move |mut request: Request<Incoming>| {
        let under_way = connection.begin();
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(connection.clone());
        let (request, left) = lend(request);
        let answer = router.call(request);
        async move {
            let answer = answer.await;
            if let Some(unread) = left.take() {
                under_way.is_decided();
                unread.skip().await;
            }
            answer.map(|response| response.map(|body| under_way.until_taken(body)))
        }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), from_peer));
    tokio::select! {
        // What goes wrong here is the caller's: it has left, or sends what is no HTTP.
        _ = connection.as_mut() => return,
        _ = ended.wait_for(|ended| *ended) => connection.as_mut().graceful_shutdown(),
    }
    let _ = poll_fn(|cx| connection.as_mut().poll(cx)).await;
}

/// How many connections there may be at a time, within half of the files that the process may have open, if that is limited.
fn most(files: Option<usize>) -> usize {
    CONNECTIONS.min(files.unwrap_or(usize::MAX) / 2).max(1)
}

/// A stream whose reader must take something now and then, or it is closed.
struct Impatient {
    stream: TcpStream,
    /// Until when the bytes that wait must have been taken.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn watched<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + WRITE_TIME)));
        match stuck.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watched(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watched(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_half_of_the_files_at_most() {
        assert_eq!(most(None), CONNECTIONS);
        assert_eq!(most(Some(1_000_000)), CONNECTIONS);
        assert_eq!(most(Some(1_024)), 512);
        assert_eq!(most(Some(0)), 1);
    }
}
