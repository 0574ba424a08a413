//! Callers that guess tokens: they cost the database little, and hold up no caller that has a good one.

mod support;

use std::time::Duration;

use support::{Counted, Server, request, with};
use tokio::time::advance;
use turnwise::access::{Grant, NewAccess};
use turnwise_server::limits::{STRANGERS_OF_ONE, UNKNOWN_TOKENS};

const LOOKS: usize = STRANGERS_OF_ONE as usize;

/// A token that nobody has.
fn guess(n: usize) -> String {
    format!("tw_{n:042}A")
}

async fn token(server: &Server) -> String {
    let token = server.turnwise.create_token(NewAccess::new("test", Grant::unlimited()).unwrap()).await.unwrap();
    token.secret.reveal().to_owned()
}

async fn ask(server: &Server, secret: &str) -> u16 {
    server.send(with(request("GET", "/api/v1/jobs", None), secret)).await.status
}

#[tokio::test(start_paused = true)]
async fn guesses_are_looked_up_so_often_a_second_and_known_tokens_go_on() {
    let (counted, turnwise) = Counted::new();
    let server = Server::of("counted", turnwise);
    let secret = token(&server).await;
    assert_eq!(ask(&server, &secret).await, 200);
    for second in 0..5 {
        advance(Duration::from_secs(1)).await;
        let before = counted.asked("find_token");
        let mut refused = 0;
        for n in 0..UNKNOWN_TOKENS * 2 {
            let status = ask(&server, &guess(second * 10_000 + n)).await;
            assert!(matches!(status, 401 | 429), "{status}");
            refused += usize::from(status == 429);
            if n % 100 == 0 {
                assert_eq!(ask(&server, &secret).await, 200, "a token that is known");
            }
        }
        let looks = counted.asked("find_token") - before;
        // One more, for the known token: it is looked at again every two seconds.
        assert!((LOOKS..=LOOKS + 1).contains(&looks), "{looks} looks in a second");
        assert_eq!(refused, UNKNOWN_TOKENS * 2 - LOOKS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_known_token_is_looked_at_again_while_strangers_guess() {
    let (_, turnwise) = Counted::new();
    let server = Server::of("counted", turnwise);
    let secret = token(&server).await;
    assert_eq!(ask(&server, &secret).await, 200);
    advance(Duration::from_secs(600)).await;
    let mut n = 0;
    while ask(&server, &guess(n)).await != 429 {
        n += 1;
        assert!(n <= LOOKS, "guesses have no bound");
    }
    assert_eq!(ask(&server, &secret).await, 200, "it was known ten minutes ago");
    let id = server.turnwise.tokens().await.unwrap().0[0].id;
    server.turnwise.revoke_token(&id.to_string()).await.unwrap();
    advance(Duration::from_secs(2)).await;
    assert_eq!(ask(&server, &secret).await, 401, "it was revoked");
}

#[tokio::test(start_paused = true)]
async fn good_tokens_do_not_count_as_guesses() {
    let (_, turnwise) = Counted::new();
    let server = Server::of("counted", turnwise);
    for n in 0..LOOKS * 3 {
        assert_eq!(ask(&server, &token(&server).await).await, 200, "new token {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_that_is_sent_again_and_again_is_looked_up_once_in_two_seconds() {
    let (counted, turnwise) = Counted::new();
    let server = Server::of("counted", turnwise);
    token(&server).await;
    ask(&server, &guess(0)).await;
    let before = counted.asked("find_token");
    for _ in 0..100 {
        assert_eq!(ask(&server, &guess(0)).await, 401);
    }
    assert_eq!(counted.asked("find_token"), before);
}

#[tokio::test(start_paused = true)]
async fn requests_with_the_same_token_wait_for_one_look() {
    let (counted, turnwise) = Counted::new();
    let server = std::sync::Arc::new(Server::of("counted", turnwise));
    let secret = token(&server).await;
    assert_eq!(ask(&server, &secret).await, 200);
    advance(Duration::from_secs(3)).await;
    let before = counted.asked("find_token");
    counted.hold("find_token");
    let ask_again = || {
        let (server, secret) = (server.clone(), secret.clone());
        tokio::spawn(async move { ask(&server, &secret).await })
    };
    let asked: Vec<_> = (0..20).map(|_| ask_again()).collect();
    // Time goes on when all of them wait.
    tokio::time::sleep(Duration::from_millis(1)).await;
    counted.release();
    for asked in asked {
        assert_eq!(asked.await.unwrap(), 200);
    }
    assert_eq!(counted.asked("find_token") - before, 1);
}
