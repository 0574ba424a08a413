//! The secret of a token: shown once, stored as a hash.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every secret begins with, so that programs that look for leaked secrets recognise one.
const MARK: &str = "tw_";
/// So many characters of a secret may be shown. 48 of its 256 bits: enough to tell tokens apart, and far too few to guess the rest.
const SHOWN: usize = MARK.len() + 8;

/// The secret of a token: 256 random bits as text, `tw_` and 43 characters.
#[derive(Clone)]
pub struct Secret {
    text: String,
    bits: [u8; 32],
}

impl Secret {
    /// The randomness is the caller's: it must be from a generator that is made for secrets.
    pub fn from_random(bits: [u8; 32]) -> Self {
        Self { text: format!("{MARK}{}", URL_SAFE_NO_PAD.encode(bits)), bits }
    }

    /// The secret that a caller presents; `None`: it is none, whatever tokens there are.
    pub fn parse(text: &str) -> Option<Self> {
        let bits = URL_SAFE_NO_PAD.decode(text.strip_prefix(MARK)?).ok()?.try_into().ok()?;
        Some(Self { text: text.to_owned(), bits })
    }

    /// All of it. It is written nowhere but where a person reads it, once.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// How it begins: what may be shown of it.
    pub fn prefix(&self) -> &str {
        &self.text[..SHOWN]
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
