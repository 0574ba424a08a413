//! A proxy in front of the server: what it says about a request counts if it is trusted.

mod support;

use futures_util::future::join_all;
use support::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use turnwise::access::{Grant, NewAccess};
use turnwise_server::{Origins, Proxies, Service};

const FORWARDED: &str = "x-forwarded-host: jobs.example.com\r\nx-forwarded-proto: https\r\nx-forwarded-prefix: /turnwise\r\nx-forwarded-for: 192.0.2.1\r\n";

/// Posts through a proxy on this machine; the head and the body of the answer.
async fn post(network: &str, path: &str, headers: &str, body: &str) -> String {
    let server = Server::on_memory().await;
    let token = server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
    let mut proxies = Proxies::default();
    proxies.trust(network).unwrap();
    let service = Service::behind(proxies, Origins::default(), server.turnwise.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = service.listen(listener, None).unwrap();
    let mut stream = TcpStream::connect(listening.address()).await.unwrap();
    let secret = token.secret.reveal();
    let (headers, body) = (headers.replace("SECRET", secret), body.replace("SECRET", secret));
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: internal:8080\r\nconnection: close\r\ncontent-type: application/json\r\n"
    );
    stream.write_all(format!("{head}{headers}content-length: {length}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    listening.stop().await;
    answer
}

#[tokio::test]
async fn behind_a_trusted_proxy_people_log_in_by_tls_and_paths_begin_with_its_prefix() {
    let login = |network| async move {
        let headers = format!("{FORWARDED}origin: https://jobs.example.com\r\n");
        post(network, "/api/v1/session", &headers, r#"{"token": "SECRET"}"#).await
    };
    let answer = login("127.0.0.0/8").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("set-cookie: __Host-turnwise=") && answer.contains("; Secure"), "{answer}");
    assert!(login("10.0.0.0/8").await.starts_with("HTTP/1.1 403 "), "the page is of another origin than the server");
    let headers = format!("{FORWARDED}origin: http://jobs.example.com\r\n");
    let without_tls = post("127.0.0.0/8", "/api/v1/session", &headers, r#"{"token": "SECRET"}"#).await;
    assert!(without_tls.starts_with("HTTP/1.1 403 "), "anyone on the way may have written that page: {without_tls}");
    let headers = format!("{FORWARDED}origin: null\r\nsec-fetch-site: same-origin\r\n");
    let hidden = post("127.0.0.0/8", "/api/v1/session", &headers, r#"{"token": "SECRET"}"#).await;
    assert!(hidden.starts_with("HTTP/1.1 200 "), "browsers hide the origin of a page that sends no referrer: {hidden}");
    let submit = |network| async move {
        let headers = format!("{FORWARDED}authorization: Bearer SECRET\r\n");
        post(network, "/api/v1/jobs", &headers, r#"{"task": "mail"}"#).await
    };
    assert!(submit("127.0.0.1").await.contains("location: /turnwise/api/v1/jobs/"));
    assert!(submit("10.0.0.0/8").await.contains("location: /api/v1/jobs/"));
}

#[tokio::test]
async fn a_caller_that_tries_to_log_in_again_and_again_keeps_no_other_address_out() {
    let server = Server::on_memory().await;
    let token = server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
    let mut proxies = Proxies::default();
    proxies.trust("127.0.0.1").unwrap();
    let service = Service::behind(proxies, Origins::default(), server.turnwise.clone());
    let listening = service.listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), None).unwrap();
    let log_in = async |from: &str, secret: &str| {
        let mut stream = TcpStream::connect(listening.address()).await.unwrap();
        let body = format!(r#"{{"token": "{secret}"}}"#);
        let head = format!(
            "POST /api/v1/session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             x-forwarded-for: {from}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer["HTTP/1.1 ".len()..].split(' ').next().unwrap().to_owned()
    };
    let wrong = format!("tw_{}", "A".repeat(43));
    // What stands before the address that the proxy saw, the caller has made up.
    let made_up: Vec<_> = (0..50).map(|n| format!("192.0.2.{n}, 198.51.100.7")).collect();
    while !join_all(made_up.iter().map(|from| log_in(from, &wrong))).await.contains(&"429".to_owned()) {}
    for other in ["192.0.2.9", "2001:db8::9"] {
        assert_eq!(log_in(other, token.secret.reveal()).await, "200", "{other} has not tried before");
    }
    listening.stop().await;
}

#[tokio::test]
async fn without_a_token_even_a_trusted_proxy_is_refused() {
    let server = Server::on_memory().await;
    let mut proxies = Proxies::default();
    proxies.trust("127.0.0.1").unwrap();
    let service = Service::behind(proxies, Origins::default(), server.turnwise.clone());
    let listening = service.listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), None).unwrap();
    let mut stream = TcpStream::connect(listening.address()).await.unwrap();
    let ask =
        "GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-host: localhost\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    listening.stop().await;
}
