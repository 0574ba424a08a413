//! Tokens: who may ask a server for what. What each scope may do is in `docs/access.md`; decided by [`Grant::check`].
//!
//! ```
//! use turnwise::access::{Grant, Limits, NewAccess, Scope};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnwise::Error> {
//! let turnwise = turnwise::Turnwise::open("memory:").await?;
//! let grant = Grant::new([Scope::Submit, Scope::Read], Limits::default())?;
//! let created = turnwise.create_token(NewAccess::new("ci", grant)?).await?;
//! println!("{}", created.secret.reveal()); // tw_…, shown once
//! turnwise.revoke_token(&created.token.prefix).await?;
//! # Ok(()) }
//! ```

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use turnwise_core::{Invalid, Timestamp, TokenName};
use turnwise_store::OperatorStore;

pub use turnwise_core::access::{
    Action, BEARER_FOR, Beyond, Grant, LOGIN_FOR, Limits, MAX_LIMIT_NAMES, MAX_LOGINS, MAX_TICKETS, MAX_TOKENS,
    NewToken, Reach, Refusal, Scope, TICKET_FOR, Target, Token, TokenId, TokenState,
};
pub use turnwise_store::{FoundLogin, FoundTicket, FoundToken, NewLogin, NewTicket, Redeem, Secret, TokenHash};

use crate::{Error, Turnwise, audit::NewAuditLine, id};

/// A token that is to be created, with what [`Turnwise::create_token`] adds left out.
#[derive(Debug, Clone)]
#[must_use = "create it with `Turnwise::create_token`"]
pub struct NewAccess {
    name: TokenName,
    grant: Grant,
    rate: Option<NonZeroU32>,
    expires_in: Option<Duration>,
}

impl NewAccess {
    /// A token for this purpose, written in a few words; it does not expire, and may submit as often as it likes.
    /// [`Invalid`] for an invalid name.
    pub fn new(name: impl AsRef<str>, grant: Grant) -> Result<Self, Invalid> {
        Ok(Self { name: TokenName::new(name)?, grant, rate: None, expires_in: None })
    }

    /// What it is to allow.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Refuses more submits a second than this.
    pub fn rate(mut self, submits_per_second: NonZeroU32) -> Self {
        self.rate = Some(submits_per_second);
        self
    }

    /// Accepts it for this long only, by the database's clock. [`Invalid`] for no time at all.
    pub fn expires_in(mut self, span: Duration) -> Result<Self, Invalid> {
        if span.is_zero() {
            return Err(Invalid::new("expires", "must be longer than nothing"));
        }
        self.expires_in = Some(span);
        Ok(self)
    }
}

/// A new token with its secret, which is stored nowhere.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreatedToken {
    /// The token as it is stored.
    pub token: Token,
    /// What its bearer presents. It cannot be read again.
    pub secret: Secret,
}

impl Turnwise {
    /// The store's side for operators. **Unstable**, as [`store`](crate::store) is.
    ///
    /// [`Error::Invalid`] if this handle is [on a store of the caller's own](Turnwise::on) and was not given one by
    /// [`Turnwise::with_operators`].
    pub fn operators(&self) -> Result<Arc<dyn OperatorStore>, Error> {
        let problem = "this store has no side for operators; give it one with Turnwise::with_operators";
        self.backend().operators().ok_or_else(|| Invalid::new("store", problem).into())
    }

    /// Creates a token, and returns it with its secret: this is the only time that the secret is there.
    ///
    /// Once a token was created, a server refuses every request without one, also on loopback.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators); [`Error::Store`] if there are too many
    /// tokens, or if the database does not answer. If that is transient, the token may or may not be there, and its secret is lost: a
    /// repeat creates another one. Look with [`Turnwise::tokens`], and revoke the first.
    pub async fn create_token(&self, access: NewAccess) -> Result<CreatedToken, Error> {
        let operators = self.operators()?;
        let secret = Secret::from_random(rand::random());
        let NewAccess { name, grant, rate, expires_in } = access;
        let expires_at = match expires_in {
            Some(span) => Some(self.now().await?.plus(span)),
            None => None,
        };
        let id = TokenId(id::next().uuid());
        let token = NewToken { id, name, prefix: secret.prefix().to_owned(), grant, rate, expires_at };
        let line = self.by().map(|by| NewAuditLine::of_new_token(by, &token));
        let token = operators.create_token(token, secret.hash(), line).await?;
        Ok(CreatedToken { token, secret })
    }

    /// Logs the bearer of a token in for [`LOGIN_FOR`], by a secret of its own, so that a browser need not keep the token; and says until
    /// when. The log-in ends earlier with its token.
    ///
    /// Fails as [`Turnwise::tokens`] does. A repeat is safe: a log-in whose secret was lost ends by itself.
    pub async fn log_in(&self, token: &Token) -> Result<(Secret, Timestamp), Error> {
        let operators = self.operators()?;
        let secret = Secret::from_random(rand::random());
        let until = self.now().await?.plus(LOGIN_FOR);
        operators.log_in(NewLogin { hash: secret.hash(), token: token.id, until }).await?;
        Ok((secret, until))
    }

    /// Makes a ticket with a token, for pages of these origins; and says until when it can be redeemed. `given` is the token's own
    /// [to give](Grant::give). A ticket that may change something has a line in the audit log.
    ///
    /// [`Error::Store`] if there are [too many](MAX_TICKETS); otherwise fails as [`Turnwise::tokens`] does. A repeat is safe: a ticket whose secret
    /// was lost ends by itself.
    pub async fn make_ticket(
        &self,
        token: &Token,
        given: Grant,
        origins: Vec<String>,
    ) -> Result<(Secret, Timestamp), Error> {
        let operators = self.operators()?;
        let secret = Secret::of_ticket(rand::random());
        let until = self.now().await?.plus(TICKET_FOR);
        let line = self.by().and_then(|by| NewAuditLine::of_ticket(by, token, &given, &origins));
        let ticket = NewTicket { hash: secret.hash(), token: token.id, grant: given, origins, until };
        operators.make_ticket(ticket, line).await?;
        Ok((secret, until))
    }

    /// Redeems a ticket for a bearer, which is accepted for [`BEARER_FOR`] and no longer than the token that the ticket was made with. `None`: the
    /// ticket was redeemed before, is over, or is none.
    ///
    /// Fails as [`Turnwise::tokens`] does. After an [`Error::Store`] that is transient the ticket may have been redeemed, and its bearer is lost.
    pub async fn redeem_ticket(&self, ticket: &Secret) -> Result<Option<(Secret, FoundTicket)>, Error> {
        let operators = self.operators()?;
        let secret = Secret::of_bearer(rand::random());
        let until = self.now().await?.plus(BEARER_FOR);
        let redeem = Redeem { ticket: ticket.hash(), bearer: secret.hash(), until };
        Ok(operators.redeem_ticket(redeem).await?.map(|found| (secret, found)))
    }

    /// All tokens, newest first, revoked and expired ones among them; and the time at which they are seen.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators); [`Error::Store`] if the database does not answer.
    pub async fn tokens(&self) -> Result<(Vec<Token>, Timestamp), Error> {
        Ok(self.operators()?.tokens().await?)
    }

    /// Takes a token back for good, by its id or by how its secret begins. A server notices within seconds.
    ///
    /// [`Error::Invalid`] if there is none, or if several begin so. After an [`Error::Store`] that is transient it may or may not be revoked;
    /// a repeat is safe.
    pub async fn revoke_token(&self, id_or_prefix: &str) -> Result<Token, Error> {
        let operators = self.operators()?;
        let tokens = operators.tokens().await?.0;
        let id = match id_or_prefix.parse::<TokenId>() {
            Ok(id) => id,
            Err(_) => by_prefix(&tokens, id_or_prefix)?,
        };
        let none = || Invalid::new("token", format!("there is no token {id}; `turnwise token list` shows them"));
        let token = tokens.iter().find(|token| token.id == id).ok_or_else(none)?;
        let line = self.by().map(|by| NewAuditLine::of_revoked_token(by, token));
        operators.revoke_token(id, line).await?.ok_or_else(|| none().into())
    }
}

/// A whole secret names its token, too: it is what a person has at hand who revokes a token that leaked.
fn by_prefix(tokens: &[Token], text: &str) -> Result<TokenId, Invalid> {
    let begins = |token: &&Token| !token.prefix.is_empty() && (token.prefix == text || is_secret_of(token, text));
    match tokens.iter().filter(begins).collect::<Vec<_>>().as_slice() {
        [token] => Ok(token.id),
        [] => {
            // What a person mistook for a prefix may be a secret: it is not printed.
            let shown: String = text.chars().take(11).collect();
            let problem = format!("there is no token {shown:?}; `turnwise token list` shows their ids and prefixes");
            Err(Invalid::new("token", problem))
        }
        several => {
            let ids: Vec<_> = several.iter().map(|token| token.id.to_string()).collect();
            Err(Invalid::new("token", format!("the secrets of several tokens begin so; name one: {}", ids.join(", "))))
        }
    }
}

fn is_secret_of(token: &Token, text: &str) -> bool {
    Secret::parse(text).is_some_and(|secret| secret.prefix() == token.prefix)
}
