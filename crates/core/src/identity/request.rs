//! Asking an account that is kept elsewhere for a delegation, and both as text to carry there and back.
//!
//! The delegatee signs the terms first, its life among them, so that an account signs what it was shown and
//! nobody puts an account to a key of another's. Neither text holds a secret.

use super::account::{Account, AccountKey, KeyError};
use super::delegatee::{Delegatee, DelegateeKey, Signature};
use super::delegation::{Delegation, DelegationError, Terms, possession};
use super::life::Life;
use crate::fault::{Coded, Fault};
use crate::ids::{Did, NetworkId};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};
use crate::wire::word;
use std::fmt;
use std::str::FromStr;

const REQUEST_PREFIX: &str = "delegate:";
const DELEGATION_PREFIX: &str = "delegation:";

/// The longest request or delegation as text: no longer one is decoded.
const TEXT_MAX_BYTES: usize = 512;

/// What an account is asked to sign: the terms of a delegation, and the delegatee's proof that it holds its
/// key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationRequest {
    terms: Terms,
    possession: Signature,
}

/// Why an account does not grant what it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Another account is asked.
    #[error(
        "{asked} is asked, and this is the account {own}: grant it where that account's key is"
    )]
    OtherAccount {
        /// Whose word is asked for.
        asked: Did,
        /// Who was given the request.
        own: Did,
    },
    /// What would be granted does not count.
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    /// The account's key cannot sign.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Text that is no request for a delegation, or no delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDelegationText {
    /// It is no request.
    #[error(
        "that is no request for a delegation, or not all of one: copy what `overlane key request` prints"
    )]
    Request,
    /// It is no delegation.
    #[error("that is no delegation, or not all of one: copy what `overlane key delegate` prints")]
    Delegation,
}

impl DelegationRequest {
    /// Asks `account` to let `delegatee` sign for it.
    pub fn new(
        account: &AccountKey,
        delegatee: &Delegatee,
        network: NetworkId,
        life: Life,
    ) -> Self {
        let terms = Terms {
            delegatee: delegatee.key(),
            account: account.clone(),
            network,
            life,
        };
        let possession = possession(&terms, delegatee);
        Self { terms, possession }
    }

    /// The account that is asked.
    pub fn account(&self) -> &AccountKey {
        &self.terms.account
    }

    /// The key that would sign for it.
    pub fn delegatee(&self) -> &DelegateeKey {
        &self.terms.delegatee
    }

    /// The network it would count on.
    pub fn network(&self) -> NetworkId {
        self.terms.network
    }

    /// When it would count.
    pub fn life(&self) -> Life {
        self.terms.life
    }

    /// The delegation, signed by the account, if it would count at `now_ms`.
    ///
    /// # Errors
    /// [`GrantError`]
    pub fn grant(self, account: &Account, now_ms: u64) -> Result<Delegation, GrantError> {
        let (asked, own) = (self.terms.account.did(), account.did());
        if asked != own {
            return Err(GrantError::OtherAccount { asked, own });
        }
        let granted = Delegation::grant(self.terms, self.possession, account)?;
        granted.check_life(now_ms)?;
        granted.check_signatures()?;
        Ok(granted)
    }
}

impl Coded for GrantError {
    fn code(&self) -> &'static str {
        match self {
            Self::OtherAccount { .. } => "delegation/other_account",
            Self::Delegation(error) => error.code(),
            Self::Key(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::OtherAccount { .. } => Fault::Usage,
            Self::Delegation(error) => error.fault(),
            Self::Key(error) => error.fault(),
        }
    }
}

impl Coded for NotDelegationText {
    fn code(&self) -> &'static str {
        "delegation/malformed"
    }

    fn fault(&self) -> Fault {
        Fault::Usage
    }
}

impl fmt::Display for DelegationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word::write(REQUEST_PREFIX, self))
    }
}

impl FromStr for DelegationRequest {
    type Err = NotDelegationText;

    fn from_str(text: &str) -> Result<Self, NotDelegationText> {
        word::read(REQUEST_PREFIX, text, TEXT_MAX_BYTES).ok_or(NotDelegationText::Request)
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word::write(DELEGATION_PREFIX, self))
    }
}

impl FromStr for Delegation {
    type Err = NotDelegationText;

    fn from_str(text: &str) -> Result<Self, NotDelegationText> {
        word::read(DELEGATION_PREFIX, text, TEXT_MAX_BYTES).ok_or(NotDelegationText::Delegation)
    }
}

/// What the account signs: the terms and the proof of possession.
impl Encode for DelegationRequest {
    fn encode(&self, writer: &mut Writer) {
        self.terms
            .encode_fields(writer.array(Terms::FIELDS + 1))
            .value(&self.possession);
    }
}

impl<'a> Decode<'a> for DelegationRequest {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(Terms::FIELDS + 1)?;
        Ok(Self {
            terms: Terms::decode_fields(reader)?,
            possession: reader.value()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::identity::{DELEGATION_TTL_MAX_MS, DelegationReason, LifeError, VerifyContext};

    const NETWORK: NetworkId = NetworkId(7);
    const NOW_MS: u64 = 1_900_000_000_000;

    fn account(number: u8) -> Account {
        Account::secp256k1(Zeroizing::new([number; 32])).expect("an account")
    }

    fn request(of: &Account, ttl_ms: u64) -> (Delegatee, DelegationRequest) {
        let delegatee = Delegatee::from_seed(Zeroizing::new([9; 32]));
        let life = Life {
            issued_ms: NOW_MS,
            ttl_ms,
        };
        let request = DelegationRequest::new(of.key(), &delegatee, NETWORK, life);
        (delegatee, request)
    }

    #[test]
    fn what_is_granted_is_the_delegation_that_the_account_would_issue_itself() {
        let account = account(1);
        let (delegatee, request) = request(&account, 60_000);
        let text = request.to_string();
        let carried: DelegationRequest = text.parse().expect("a request");
        assert_eq!(carried, request);
        let granted = carried.grant(&account, NOW_MS + 10).expect("granted");
        let issued = Delegation::issue(&account, &delegatee, NETWORK, request.life());
        assert_eq!(Ok(&granted), issued.as_ref());
        let text = format!(" {granted}\n");
        let back: Delegation = text.parse().expect("a delegation");
        assert_eq!(back, granted);
        let context = |now_ms| VerifyContext {
            network: NETWORK,
            now_ms,
        };
        assert!(back.clone().verify(&context(NOW_MS + 60_000)).is_ok());
        let refused = back.verify(&context(NOW_MS + 60_001)).expect_err("over");
        assert_eq!(refused.code(), "delegation/expired");
    }

    #[test]
    fn an_account_grants_nothing_that_would_not_count() {
        let own = account(1);
        let (_, asked) = request(&account(2), 60_000);
        let refused = asked.grant(&own, NOW_MS).expect_err("another's");
        assert_eq!(refused.code(), "delegation/other_account");
        let (_, late) = request(&own, 60_000);
        let refused = late.grant(&own, NOW_MS + 60_001).expect_err("late");
        assert_eq!(refused.code(), "delegation/expired");
        let (_, long) = request(&own, DELEGATION_TTL_MAX_MS + 1);
        let Err(GrantError::Delegation(refused)) = long.grant(&own, NOW_MS) else {
            panic!("granted");
        };
        assert!(matches!(
            refused.reason,
            DelegationReason::Life(LifeError::TooLong { .. })
        ));
        // Another's key under the terms, or terms that its holder did not sign.
        let (_, honest) = request(&own, 60_000);
        let other = Delegatee::from_seed(Zeroizing::new([8; 32]));
        for change in [0, 1] {
            let mut forged = honest.clone();
            match change {
                0 => forged.terms.delegatee = other.key(),
                _ => forged.terms.life.ttl_ms += 1,
            }
            let refused = forged.grant(&own, NOW_MS).expect_err("forged");
            assert_eq!(refused.code(), "delegation/wrong_possession");
        }
    }

    #[test]
    fn any_changed_letter_is_no_request_and_no_delegation() {
        let account = account(1);
        let (_, request) = request(&account, 60_000);
        let granted = request.clone().grant(&account, NOW_MS).expect("granted");
        let texts = [request.to_string(), granted.to_string()];
        for text in &texts {
            assert!(text.len() < TEXT_MAX_BYTES);
            for at in 0..text.len() {
                let other = if &text[at..=at] == "2" { "3" } else { "2" };
                let mut changed = text.clone();
                changed.replace_range(at..=at, other);
                assert!(changed.parse::<DelegationRequest>().is_err(), "{changed}");
                assert!(changed.parse::<Delegation>().is_err(), "{changed}");
            }
        }
        // One is not the other.
        assert!(texts[0].parse::<Delegation>().is_err());
        assert!(texts[1].parse::<DelegationRequest>().is_err());
        let refused = "delegation:".parse::<Delegation>().expect_err("empty");
        assert_eq!(refused.code(), "delegation/malformed");
    }
}
