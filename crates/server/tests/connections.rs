//! Connections: slow callers are let go, and the end is orderly. The clock stands still and jumps to what is waited for.

mod support;

use std::net::SocketAddr;

use serde_json::json;
use support::{PATIENCE, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use turnwise::access::{Grant, NewAccess};
use turnwise_server::{
    Listening,
    limits::{ACCEPT_PAUSE, BATCH_BYTES, BODY_TIME, HEAD_TIME, JOB_BYTES, UNREAD_TIME, WRITE_TIME},
};

async fn listening(server: &Server) -> (Listening, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = server.service.listen(listener, None).unwrap();
    let address = listening.address();
    (listening, address)
}

/// A listener with so many places.
async fn listening_with(places: usize, server: &Server) -> (Listening, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = server.service.listen_to_at_most(places, listener, None).unwrap();
    let address = listening.address();
    (listening, address)
}

/// Sends a request and reads its answer; the connection stays open.
async fn ask(stream: &mut TcpStream, path: &str, secret: &str) -> String {
    let token = if secret.is_empty() { String::new() } else { format!("authorization: Bearer {secret}\r\n") };
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = String::new();
    loop {
        let mut bytes = [0; 4096];
        let count = timeout(PATIENCE, stream.read(&mut bytes)).await.expect("an answer").unwrap();
        assert!(count > 0, "the connection was closed after {read:?}");
        read += std::str::from_utf8(&bytes[..count]).unwrap();
        if let Some((head, body)) = read.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return read;
            }
        }
    }
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

/// Sends all of a request, and looks for the answer only then.
async fn send_whole(address: SocketAddr, head: &str, bytes: usize) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}host: localhost\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let part = vec![b'x'; 64 * 1024];
    let mut left = bytes;
    while left > 0 {
        let part = &part[..left.min(part.len())];
        stream.write_all(part).await.unwrap_or_else(|error| panic!("{error}, with {left} of {bytes} bytes to send"));
        left -= part.len();
    }
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer").unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_sends_all_of_a_body_first_reads_why_it_is_refused() {
    let server = Server::on_memory().await;
    let (listening, address) = listening(&server).await;
    let json = "content-type: application/json\r\n";
    for (path, bytes) in [("/api/v1/jobs", JOB_BYTES + 100_000), ("/api/v1/jobs/batch", BATCH_BYTES + 1_000_000)] {
        let answer = send_whole(address, &format!("POST {path} HTTP/1.1\r\n{json}"), bytes).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    listening.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_sends_all_of_a_body_first_reads_that_it_needs_a_token() {
    let server = Server::on_memory().await;
    server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
    let (listening, address) = listening(&server).await;
    let head = "POST /api/v1/jobs/batch HTTP/1.1\r\ncontent-type: application/json\r\n";
    let answer = send_whole(address, head, BATCH_BYTES - 1).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_refused_body_is_waited_for_so_long() {
    let server = Server::on_memory().await;
    let (listening, address) = listening(&server).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
    assert!(begun.elapsed() <= UNREAD_TIME * 2, "after {:?}", begun.elapsed());
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

#[tokio::test]
async fn a_newcomer_gets_the_place_of_the_connection_that_has_rested_longest() {
    const PLACES: usize = 200;
    let server = Server::on_memory().await;
    let id = server.submit(json!({"task": "nobody-knows"})).await;
    let (listening, address) = listening_with(PLACES, &server).await;
    // One waits for a job, one has been answered, and the others send nothing: so a stranger could keep all places for as long as it likes.
    let mut waiting = TcpStream::connect(address).await.unwrap();
    let asked = format!("GET /api/v1/jobs/{id}?wait=60s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    waiting.write_all(asked.as_bytes()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..PLACES - 2 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut answered = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut answered, "/livez", "").await.contains("\"alive\":true"));
    let begun = Instant::now();
    let mut newcomers = Vec::new();
    for _ in 0..2 {
        let mut newcomer = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut newcomer, "/livez", "").await.contains("\"alive\":true"));
        newcomers.push(newcomer);
    }
    assert!(begun.elapsed() < HEAD_TIME / 2, "newcomers were answered after {:?}", begun.elapsed());
    // The first two that came and rested are closed. The others go on.
    for gone in &mut silent[..2] {
        assert_eq!(timeout(PATIENCE, answer(gone)).await.expect("it is closed"), "");
    }
    assert!(ask(&mut silent[2], "/livez", "").await.contains("\"alive\":true"));
    assert!(ask(&mut answered, "/livez", "").await.contains("\"alive\":true"));
    server.turnwise.cancel(id.parse().unwrap()).await.unwrap();
    let told = timeout(PATIENCE, answer(&mut waiting)).await.expect("the job has ended");
    assert!(told.contains("\"state\":\"cancelled\""), "a request that is under way is not cut off: {told}");
    drop((silent, answered, newcomers));
    listening.stop().await;
}

#[tokio::test]
async fn one_token_has_half_of_the_connections() {
    const PLACES: usize = 100;
    let server = Server::on_memory().await;
    let create = async || {
        let created = server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
        created.secret.reveal().to_owned()
    };
    let (greedy, other) = (create().await, create().await);
    let (listening, address) = listening_with(PLACES, &server).await;
    let mut open = Vec::new();
    for _ in 0..PLACES / 2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let told = ask(&mut stream, "/api/v1/queues", &greedy).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
        open.push(stream);
    }
    let mut one_more = TcpStream::connect(address).await.unwrap();
    let told = ask(&mut one_more, "/api/v1/queues", &greedy).await;
    assert!(told.starts_with("HTTP/1.1 429 ") && told.contains("50 connections are open with this token"), "{told}");
    // Another token is served, on the same connection too: a proxy passes on requests of many.
    let told = ask(&mut one_more, "/api/v1/queues", &other).await;
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    // A connection of its own goes on, and one that is closed makes room.
    assert!(ask(&mut open[0], "/api/v1/queues", &greedy).await.starts_with("HTTP/1.1 200 "));
    drop(open.pop());
    let mut again = TcpStream::connect(address).await.unwrap();
    let freed = async {
        while !ask(&mut again, "/api/v1/queues", &greedy).await.starts_with("HTTP/1.1 200 ") {
            sleep(ACCEPT_PAUSE).await;
        }
    };
    timeout(PATIENCE, freed).await.expect("room for another connection");
    drop((open, one_more, again));
    listening.stop().await;
}
