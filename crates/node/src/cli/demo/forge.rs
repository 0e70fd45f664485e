//! Transactions that an honest node never signs, signed all the same: by a second delegatee of
//! the same account, as its thief or a restored backup would.

use std::time::{SystemTime, UNIX_EPOCH};

use overlane_core::identity::{Account, Delegatee, Delegation, Life, Signer, VerifyContext};
use overlane_core::transaction::{
    Draft, Message, Namespace, PROOF_TTL_DEFAULT_MS, Payload, RelayFields, Transaction,
};
use overlane_core::{Did, Fault, NetworkId, TxId};
use zeroize::Zeroizing;

use crate::cli::identity::random;
use crate::cli::output::Failure;

/// Signs any sequence for an account.
pub(super) struct Forger {
    signer: Signer,
}

impl Forger {
    pub(super) fn for_account(account: &Account, network: NetworkId) -> Result<Self, Failure> {
        let mut seed = Zeroizing::new([0; 32]);
        random(seed.as_mut_slice())?;
        let delegatee = Delegatee::from_seed(seed);
        let life = life();
        let context = VerifyContext {
            network,
            now_ms: life.issued_ms,
        };
        let delegation = Delegation::issue(account, &delegatee, network, life)?;
        let signer = Signer::new(delegatee, delegation.verify(&context)?);
        let signer = signer
            .map_err(|cause| Failure::new("demo/delegatee", Fault::Usage, cause.to_string()))?;
        Ok(Self { signer })
    }

    /// The frame of a transaction to a neighbour.
    pub(super) fn sign(
        &self,
        destination: Did,
        sequence: u64,
        body: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut tx_id = TxId([0; 16]);
        random(&mut tx_id.0)?;
        let life = life();
        let draft = Draft {
            destination,
            tx_id,
            sequence,
            message: Message::Application {
                namespace: Namespace::default(),
                body,
            },
            life,
        };
        let transaction = Transaction::sign(&draft, &self.signer)?;
        let relay = RelayFields::direct(destination);
        let payload = Payload::carry(transaction, relay, &self.signer, life)?;
        Ok(payload.to_frame(|_| false))
    }
}

/// `frame`, in which somebody on the way changed the last letter of `body`.
pub(super) fn tampered(frame: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let start = frame.windows(body.len()).position(|window| window == body);
    let last = start.map(|start| start + body.len() - 1);
    if let Some(letter) = last.and_then(|last| frame.get_mut(last)) {
        *letter ^= 1;
    }
    frame
}

fn life() -> Life {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Life {
        issued_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        ttl_ms: PROOF_TTL_DEFAULT_MS,
    }
}
