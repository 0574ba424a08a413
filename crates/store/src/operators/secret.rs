//! The secret of a token: shown once, stored as a hash.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every secret begins with, so that programs that look for leaked secrets recognise one.
const MARK: &str = "tw_";
/// So many characters of a secret may be shown after its mark. 48 of its 256 bits: enough to tell tokens apart, and far too few to guess the rest.
const SHOWN: usize = 8;

/// What the secret of a ticket begins with.
const TICKET: &str = "twt_";
/// What the secret of the bearer begins with that a ticket was redeemed for: a server need not look for it among tokens.
const BEARER: &str = "twb_";

/// The secret of a token: 256 random bits as text, `tw_` and 43 characters. Of a ticket `twt_`, of its bearer `twb_`.
#[derive(Clone)]
pub struct Secret {
    mark: &'static str,
    text: String,
    bits: [u8; 32],
}

impl Secret {
    /// The randomness is the caller's: it must be from a generator that is made for secrets.
    pub fn from_random(bits: [u8; 32]) -> Self {
        Self::marked(MARK, bits)
    }

    /// Of a ticket.
    pub fn of_ticket(bits: [u8; 32]) -> Self {
        Self::marked(TICKET, bits)
    }

    /// Of a ticket's bearer.
    pub fn of_bearer(bits: [u8; 32]) -> Self {
        Self::marked(BEARER, bits)
    }

    fn marked(mark: &'static str, bits: [u8; 32]) -> Self {
        Self { mark, text: format!("{mark}{}", URL_SAFE_NO_PAD.encode(bits)), bits }
    }

    /// The secret that a caller presents; `None`: it is none, whatever tokens there are.
    pub fn parse(text: &str) -> Option<Self> {
        Self::read(MARK, text)
    }

    /// As [`parse`](Self::parse), of a ticket.
    pub fn parse_ticket(text: &str) -> Option<Self> {
        Self::read(TICKET, text)
    }

    /// As [`parse`](Self::parse), of a ticket's bearer.
    pub fn parse_bearer(text: &str) -> Option<Self> {
        Self::read(BEARER, text)
    }

    fn read(mark: &'static str, text: &str) -> Option<Self> {
        let bits = URL_SAFE_NO_PAD.decode(text.strip_prefix(mark)?).ok()?.try_into().ok()?;
        Some(Self { mark, text: text.to_owned(), bits })
    }

    /// All of it. It is written nowhere but where a person reads it, once.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// How it begins: what may be shown of it.
    pub fn prefix(&self) -> &str {
        &self.text[..self.mark.len() + SHOWN]
    }

    /// What is stored of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.bits).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.prefix())
    }
}

/// What is stored of a secret: its SHA-256. One round is enough, because 256 random bits cannot be guessed.
///
/// Two of them are compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenHash(pub [u8; 32]);

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_is_shown() {
        let secret = Secret::from_random([0xfb; 32]);
        assert_eq!(secret.reveal(), "tw_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        assert_eq!(secret.prefix(), "tw_-_v7-_v7");
        let read = Secret::parse(secret.reveal()).unwrap();
        assert_eq!(read.hash(), secret.hash());
        assert_ne!(Secret::from_random([0xfa; 32]).hash(), secret.hash());
        assert_eq!(format!("{read:?} {:?}", read.hash()), "tw_-_v7-_v7… TokenHash");
    }

    #[test]
    fn the_hash_is_the_sha_256_of_the_random_bits() {
        let expected = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
        let hash: String = Secret::from_random([0; 32]).hash().0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, expected, "stored hashes outlive a release");
    }

    #[test]
    fn a_ticket_a_bearer_and_a_token_are_not_taken_for_one_another() {
        let all = [Secret::from_random, Secret::of_ticket, Secret::of_bearer].map(|make| make([7; 32]));
        let read = [Secret::parse, Secret::parse_ticket, Secret::parse_bearer];
        for (at, secret) in all.iter().enumerate() {
            let known = read.map(|read| read(secret.reveal()).is_some());
            assert_eq!(known, [0, 1, 2].map(|other| other == at), "{secret:?}");
        }
        assert_eq!((all[1].prefix(), all[2].prefix()), ("twt_BwcHBwcH", "twb_BwcHBwcH"));
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let good = Secret::from_random([7; 32]).reveal().to_owned();
        let others = [
            "",
            "tw_",
            "secret",
            &good[3..],
            &good[..good.len() - 1],
            &format!("{good}="),
            &format!("{good}A"),
            &format!(" {good}"),
            &good.replace("tw_", "tw-"),
            &good.replace('c', "é"),
        ]
        .map(str::to_owned);
        for text in others {
            assert!(Secret::parse(&text).is_none(), "{text:?}");
        }
    }
}
