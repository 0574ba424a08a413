//! Connections: slow callers are let go, and the end is orderly. The clock stands still and jumps to what is waited for.

mod support;

use std::net::SocketAddr;

use serde_json::json;
use support::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use turnwise_server::{
    Listening,
    limits::{BODY_TIME, HEAD_TIME, WRITE_TIME},
};

async fn listening(server: &Server) -> (Listening, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = server.service.listen(listener, None).unwrap();
    let address = listening.address();
    (listening, address)
}

/// What the server answers until it closes the connection.
async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is cut off has answered what it has.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_sends_nothing_or_half_a_head_is_let_go() {
    let server = Server::on_memory().await;
    let (listening, address) = listening(&server).await;
    for sent in ["", "GET /livez HTTP/1.1\r\nhost: local"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let begun = Instant::now();
        answer(&mut stream).await;
        assert!(begun.elapsed() <= HEAD_TIME * 2, "{sent:?}: after {:?}", begun.elapsed());
    }
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered() {
    let server = Server::on_memory().await;
    let (listening, address) = listening(&server).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(begun.elapsed() <= BODY_TIME * 2);
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_read_its_answer_is_let_go() {
    let server = Server::on_memory().await;
    for _ in 0..100 {
        server.submit(json!({"task": "t", "args": "x".repeat(200_000)})).await;
    }
    let (listening, address) = listening(&server).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(WRITE_TIME * 2).await;
    let answer = answer(&mut stream).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(body.len() < length.parse().unwrap(), "all of {length} bytes came");
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused() {
    let server = Server::on_memory().await;
    let (listening, address) = listening(&server).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(1_000_000));
    // The server may close before it has read all of it.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = answer(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_the_end_open_requests_are_answered_and_resting_connections_closed() {
    let server = Server::on_memory().await;
    let id = server.submit(json!({"task": "nobody-knows"})).await;
    let (listening, address) = listening(&server).await;
    // Connections are taken in their order.
    let mut waiting = TcpStream::connect(address).await.unwrap();
    let asked = format!("GET /api/v1/jobs/{id}?wait=2s HTTP/1.1\r\nhost: localhost\r\n\r\n");
    waiting.write_all(asked.as_bytes()).await.unwrap();
    let mut resting = TcpStream::connect(address).await.unwrap();
    resting.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    // The first byte of its answer: both connections are with the server.
    resting.read_u8().await.unwrap();
    let (answered, _, ()) = tokio::join!(answer(&mut waiting), answer(&mut resting), listening.stop());
    assert!(answered.contains("\"state\":\"waiting\""), "{answered}");
    assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
}
