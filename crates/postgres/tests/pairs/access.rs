//! Calls about tokens, log-ins and tickets.

use turnwise_core::{
    Timestamp, TokenName,
    access::{Grant, NewToken, TokenId},
};
use turnwise_store::{NewLogin, NewTicket, OperatorStore, Redeem, TokenHash};
use uuid::Uuid;

use super::{
    call::{Answer, Subject},
    state::State,
};

/// Tokens, log-ins and tickets go by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Create(u8),
    Revoke(u8),
    /// Notes that it was used, or leaves that to another server which is writing to the token.
    Use(Option<u8>),
    LogIn {
        login: u8,
        token: u8,
    },
    LogOut(u8),
    Make {
        ticket: u8,
        token: u8,
    },
    Redeem {
        ticket: u8,
        bearer: u8,
    },
    FindToken(u8),
    FindLogin(u8),
    FindBearer {
        ticket: u8,
        bearer: u8,
    },
}

/// By name. The token 1, the log-in 1 and the ticket 1 of that token are there.
pub(crate) const CALLS: [(&str, Access); 17] = [
    ("creates a token", Access::Create(2)),
    ("creates the same token again", Access::Create(1)),
    ("revokes a token", Access::Revoke(1)),
    ("revokes a token that is not there yet", Access::Revoke(2)),
    ("notes the use of a token", Access::Use(Some(1))),
    ("logs in", Access::LogIn { login: 2, token: 1 }),
    ("logs in again", Access::LogIn { login: 1, token: 1 }),
    ("logs in with a token that is not there yet", Access::LogIn { login: 3, token: 2 }),
    ("logs out", Access::LogOut(1)),
    ("logs out before the log-in", Access::LogOut(2)),
    ("makes a ticket", Access::Make { ticket: 2, token: 1 }),
    ("makes the same ticket again", Access::Make { ticket: 1, token: 1 }),
    ("redeems the ticket", Access::Redeem { ticket: 1, bearer: 11 }),
    ("redeems the ticket for another bearer", Access::Redeem { ticket: 1, bearer: 12 }),
    ("finds the token", Access::FindToken(1)),
    ("finds the log-in", Access::FindLogin(1)),
    ("finds the bearer", Access::FindBearer { ticket: 1, bearer: 11 }),
];

/// After the time of every stage.
fn until() -> Timestamp {
    Timestamp::from_micros(4_000_000_000_000_000)
}

/// Of a token, a log-in, a ticket or a bearer.
#[derive(Clone, Copy)]
enum Of {
    Token = 1,
    Login = 2,
    Ticket = 3,
}

fn hash(of: Of, n: u8) -> TokenHash {
    let mut bytes = [0; 32];
    (bytes[0], bytes[1]) = (of as u8, n);
    TokenHash(bytes)
}

fn token_id(n: u8) -> TokenId {
    TokenId(Uuid::from_u128(n.into()))
}

/// What the stage has.
pub(crate) async fn make(operators: &dyn OperatorStore) {
    for access in [Access::Create(1), Access::LogIn { login: 1, token: 1 }, Access::Make { ticket: 1, token: 1 }] {
        let answer = access.on(operators).await;
        assert!(matches!(answer, Answer::Parts(_)), "{access:?}: {answer:?}");
    }
}

impl Access {
    pub(crate) async fn on(self, operators: &dyn OperatorStore) -> Answer {
        match self {
            Self::Create(n) => {
                let token = NewToken {
                    id: token_id(n),
                    name: TokenName::new(format!("token {n}")).expect("a good name"),
                    prefix: "tw_".into(),
                    grant: Grant::unlimited(),
                    rate: None,
                    expires_at: None,
                };
                Answer::whole(operators.create_token(token, hash(Of::Token, n), None).await)
            }
            Self::Revoke(n) => Answer::whole(operators.revoke_token(token_id(n), None).await),
            Self::Use(n) => Answer::whole(operators.note_token_uses(n.into_iter().map(token_id).collect()).await),
            Self::LogIn { login, token } => {
                let login = NewLogin { hash: hash(Of::Login, login), token: token_id(token), until: until() };
                Answer::whole(operators.log_in(login).await)
            }
            Self::LogOut(n) => Answer::whole(operators.log_out(hash(Of::Login, n)).await),
            Self::Make { ticket, token } => {
                let ticket = NewTicket {
                    hash: hash(Of::Ticket, ticket),
                    token: token_id(token),
                    grant: Grant::unlimited(),
                    origins: vec!["https://app.example".into()],
                    until: until(),
                };
                Answer::whole(operators.make_ticket(ticket, None).await)
            }
            Self::Redeem { ticket, bearer } => {
                let (ticket, bearer) = (hash(Of::Ticket, ticket), hash(Of::Ticket, bearer));
                Answer::whole(operators.redeem_ticket(Redeem { ticket, bearer, until: until() }).await)
            }
            Self::FindToken(n) => Answer::whole(operators.find_token(hash(Of::Token, n)).await),
            Self::FindLogin(n) => Answer::whole(operators.find_login(hash(Of::Login, n)).await),
            Self::FindBearer { bearer, .. } => Answer::whole(operators.find_bearer(hash(Of::Ticket, bearer)).await),
        }
    }

    pub(crate) fn touches(self) -> Vec<Subject> {
        match self {
            Self::Create(token) | Self::Revoke(token) | Self::FindToken(token) => vec![Subject::Token(token)],
            Self::Use(token) => token.into_iter().map(Subject::Token).collect(),
            Self::LogIn { login, token } => vec![Subject::Login(login), Subject::Token(token)],
            Self::LogOut(login) | Self::FindLogin(login) => vec![Subject::Login(login), Subject::Token(1)],
            Self::Make { ticket, token } => vec![Subject::Ticket(ticket), Subject::Token(token)],
            Self::Redeem { ticket, .. } | Self::FindBearer { ticket, .. } => {
                vec![Subject::Ticket(ticket), Subject::Token(1)]
            }
        }
    }

    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::FindToken(_) | Self::FindLogin(_) | Self::FindBearer { .. })
    }

    /// What may have been done instead.
    pub(crate) fn variants(self) -> Vec<Self> {
        match self {
            Self::Use(Some(_)) => vec![self, Self::Use(None)],
            other => vec![other],
        }
    }
}

/// The row that a stranger locks.
pub(crate) fn row(subject: &Subject) -> String {
    let by_hash = |table, of, n: u8| {
        let hash: String = hash(of, n).0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(r"{table} where hash = '\x{hash}'")
    };
    match *subject {
        Subject::Token(n) => format!("token where id = '{}'", token_id(n).0),
        Subject::Login(n) => by_hash("login", Of::Login, n),
        Subject::Ticket(n) => by_hash("ticket", Of::Ticket, n),
        ref other => unreachable!("{other:?} is none of these"),
    }
}

/// What can be read of it. Whether a ticket is still to be redeemed is asked last, by redeeming: that changes the store.
pub(crate) async fn read(operators: &dyn OperatorStore, state: &mut State) {
    let (tokens, _) = operators.tokens().await.expect("tokens");
    for token in tokens {
        state.insert(format!("token {}", token.name), format!("{token:?}"));
    }
    for n in 1..=3 {
        let login = operators.find_login(hash(Of::Login, n)).await.expect("find a log-in");
        state.insert(format!("log-in {n}"), format!("{login:?}"));
    }
    for bearer in [11, 12] {
        let found = operators.find_bearer(hash(Of::Ticket, bearer)).await.expect("find a bearer");
        state.insert(format!("bearer {bearer}"), format!("{found:?}"));
    }
    for ticket in [1, 2] {
        let redeemed = Access::Redeem { ticket, bearer: 100 + ticket }.on(operators).await;
        state.insert(format!("ticket {ticket}, redeemed now"), format!("{redeemed:?}"));
    }
}
