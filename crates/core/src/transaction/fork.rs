//! Evidence that an origin signed two transactions with one sequence of one stream.
//!
//! With both headers it convicts the origin by itself. Where the accepted header is no longer held, the
//! evidence has its digest alone, and is the reporter's word.

use super::error::{Role, VerifyError};
use super::header::{HeaderFacts, SignedHeader, check_once_signed};
use super::proof::{DelegationRef, Proof};
use crate::fault::{Coded, Fault};
use crate::identity::{Checked, Delegation, Life, Signature, Signer, Verified, sealed};
use crate::ids::{Did, StreamKey, TransactionDigest};
use crate::wire::cbor::{CborError, Decode, Encode, Reader, Writer};

/// What is left of the transaction that the window accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// Its signed header: the origin's own word.
    Header(Box<SignedHeader>),
    /// Its digest: the reporter's word.
    Digest(TransactionDigest),
}

impl Accepted {
    /// The digest of the accepted transaction.
    pub fn digest(&self) -> TransactionDigest {
        match self {
            Self::Header(header) => header.digest(),
            Self::Digest(digest) => *digest,
        }
    }
}

impl Encode for Accepted {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Header(header) => writer.array(2).uint(0).value(&**header),
            Self::Digest(digest) => writer.array(2).uint(1).value(digest),
        };
    }
}

impl<'a> Decode<'a> for Accepted {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(2)?;
        let at = reader.at();
        match reader.uint()? {
            0 => reader.value().map(Box::new).map(Self::Header),
            1 => reader.value().map(Self::Digest),
            _ => Err(Reader::invalid(at, "accepted transaction")),
        }
    }
}

/// `[accepted, offered header, reporter's delegation, reported_ms, signature]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkEvidence {
    accepted: Accepted,
    offered: SignedHeader,
    reporter: Delegation,
    reported_ms: u64,
    signature: Signature,
}

/// What checked evidence establishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The stream that was forked.
    pub stream: StreamKey,
    /// The sequence signed twice.
    pub sequence: u64,
    /// The transaction the reporter had accepted.
    pub accepted: TransactionDigest,
    /// The transaction it was offered.
    pub offered: TransactionDigest,
    /// Whether the origin signed both. If not, the accepted one is the reporter's word.
    pub both_signed: bool,
    /// Who reports it: the stream's destination.
    pub reporter: Did,
    /// When, by the reporter's clock, in milliseconds of Unix time.
    pub reported_ms: u64,
}

impl ForkEvidence {
    /// Reports that `offered` came where `accepted` stands.
    pub fn report(
        accepted: Accepted,
        offered: SignedHeader,
        reporter: &Signer,
        reported_ms: u64,
    ) -> Self {
        let subject = Subject(&accepted, &offered);
        let life = instant(reported_ms);
        let proof = Proof::sign(Role::Reporter.domain(), &subject, reporter, life);
        Self {
            accepted,
            offered,
            reporter: Delegation::clone(reporter.delegation()),
            reported_ms,
            signature: proof.signature,
        }
    }

    /// Checks every signature in it, and that together they show a fork. It needs nothing but the
    /// evidence itself, at any time.
    ///
    /// # Errors
    /// A signature that does not verify, or headers that are no fork.
    pub fn verify(self) -> Result<Verified<Self>, ForkError> {
        Verified::verify(self, ())
    }

    fn check_reporter(&self) -> Result<(), VerifyError> {
        let role = Role::Reporter;
        let life = instant(self.reported_ms);
        check_once_signed(role, &self.reporter, life, 0)?;
        let proof = Proof {
            delegation: DelegationRef::Digest(self.reporter.digest()),
            life,
            signature: self.signature,
        };
        let subject = Subject(&self.accepted, &self.offered);
        proof.check_signature(role, role.domain(), &subject, &self.reporter)
    }
}

fn instant(reported_ms: u64) -> Life {
    Life {
        issued_ms: reported_ms,
        ttl_ms: 0,
    }
}

impl sealed::Sealed for ForkEvidence {}

impl Checked for ForkEvidence {
    type Context<'c> = ();
    type Facts = Fork;
    type Error = ForkError;

    fn check(&self, (): ()) -> Result<Fork, ForkError> {
        self.check_reporter()?;
        let HeaderFacts { stream, digest } = self.offered.check(())?;
        let sequence = self.offered.sequence();
        let reporter = self.reporter.did();
        if (reporter, self.reporter.network()) != (stream.destination, stream.network) {
            return Err(ForkError::NotTheDestination { stream, reporter });
        }
        let both_signed = match &self.accepted {
            Accepted::Digest(_) => false,
            Accepted::Header(header) => {
                let accepted = header.check(())?.stream;
                if (accepted, header.sequence()) != (stream, sequence) {
                    return Err(ForkError::ApartStreams { stream, sequence });
                }
                true
            }
        };
        let accepted = self.accepted.digest();
        if accepted == digest {
            return Err(ForkError::SameTransaction { stream, sequence });
        }
        Ok(Fork {
            stream,
            sequence,
            accepted,
            offered: digest,
            both_signed,
            reporter,
            reported_ms: self.reported_ms,
        })
    }
}

/// Why evidence shows no fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// A signature in it does not verify.
    #[error(transparent)]
    Unverified(#[from] VerifyError),
    /// Its reporter is not the stream's destination, so it saw no window of it.
    #[error("{reporter} reports a fork of {stream}, whose destination it is not")]
    NotTheDestination {
        /// The stream.
        stream: StreamKey,
        /// Who reports.
        reporter: Did,
    },
    /// The headers are of different streams or sequences, which is no fork.
    #[error("the accepted header is not of sequence {sequence} of {stream}")]
    ApartStreams {
        /// The offered header's stream.
        stream: StreamKey,
        /// The offered header's sequence.
        sequence: u64,
    },
    /// The two are one transaction: a replay.
    #[error("sequence {sequence} of {stream} was signed once; this is a replay")]
    SameTransaction {
        /// The stream.
        stream: StreamKey,
        /// The sequence.
        sequence: u64,
    },
}

impl Coded for ForkError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unverified(error) => error.code(),
            Self::NotTheDestination { .. } => "fork/not_the_destination",
            Self::ApartStreams { .. } => "fork/apart_streams",
            Self::SameTransaction { .. } => "fork/same_transaction",
        }
    }

    fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

impl Encode for ForkEvidence {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(5)
            .value(&self.accepted)
            .value(&self.offered)
            .value(&self.reporter)
            .value(&self.reported_ms)
            .value(&self.signature);
    }
}

impl<'a> Decode<'a> for ForkEvidence {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(5)?;
        Ok(Self {
            accepted: reader.value()?,
            offered: reader.value()?,
            reporter: reader.value()?,
            reported_ms: reader.value()?,
            signature: reader.value()?,
        })
    }
}

/// What a reporter signs.
struct Subject<'a>(&'a Accepted, &'a SignedHeader);

impl Encode for Subject<'_> {
    fn encode(&self, writer: &mut Writer) {
        let Self(accepted, offered) = self;
        writer.array(2).value(*accepted).value(*offered);
    }
}
