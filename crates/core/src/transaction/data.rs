//! The signed data of a transaction: one message, whose tag says its class.

use super::chunk::{Chunk, ChunkHead};
use crate::ids::Class;
use crate::wire::bounds::{DATA_MAX_BYTES, MESSAGE_MAX_BYTES, NAMESPACE_MAX_BYTES};
use crate::wire::cbor::{CborError, CborReason, Decode, Encode, Reader, Writer, from_slice};
use std::sync::OnceLock;

/// The name of an application protocol: text of at most [`NAMESPACE_MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Namespace<'a>(&'a str);

/// A namespace over its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a namespace of {size_bytes} bytes; at most {NAMESPACE_MAX_BYTES} are allowed")]
pub struct NamespaceTooLong {
    /// Its length.
    pub size_bytes: usize,
}

impl<'a> Namespace<'a> {
    /// The namespace called `name`.
    ///
    /// # Errors
    /// The name is longer than [`NAMESPACE_MAX_BYTES`].
    pub fn new(name: &'a str) -> Result<Self, NamespaceTooLong> {
        let size_bytes = name.len();
        if size_bytes > NAMESPACE_MAX_BYTES {
            return Err(NamespaceTooLong { size_bytes });
        }
        Ok(Self(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// What a transaction says, as `[tag, fields…]`. The tag is the class's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// DHT control.
    Control(&'a [u8]),
    /// Storage.
    Storage(&'a [u8]),
    /// An end-to-end session's.
    E2e(&'a [u8]),
    /// An application's.
    Application {
        /// The application protocol.
        namespace: Namespace<'a>,
        /// What it says.
        body: &'a [u8],
    },
    /// A part of a message that is too large for one frame. It is reassembled, and never admitted
    /// itself.
    Chunk(Chunk<'a>),
}

impl<'a> Message<'a> {
    /// What it says within its class, and for an application within its namespace.
    pub fn body(&self) -> &'a [u8] {
        match self {
            Self::Control(body) | Self::Storage(body) | Self::E2e(body) => body,
            Self::Application { body, .. } => body,
            Self::Chunk(chunk) => chunk.bytes,
        }
    }

    /// The class it travels and is admitted in.
    pub fn class(&self) -> Class {
        match self {
            Self::Control(_) => Class::Control,
            Self::Storage(_) => Class::Storage,
            Self::E2e(_) => Class::E2e,
            Self::Application { .. } => Class::Application,
            Self::Chunk(chunk) => chunk.head.class,
        }
    }
}

impl Encode for Message<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Control(body) | Self::Storage(body) | Self::E2e(body) => {
                writer.array(2).value(&self.class()).bytes(body)
            }
            Self::Application { namespace, body } => writer
                .array(3)
                .value(&self.class())
                .text(namespace.as_str())
                .bytes(body),
            Self::Chunk(chunk) => {
                chunk.encode(writer);
                writer
            }
        };
    }
}

impl<'a> Decode<'a> for Message<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let found = reader.array()?;
        if found == Chunk::ITEMS {
            return Chunk::decode_items(reader).map(Self::Chunk);
        }
        let class = reader.value()?;
        let wanted = if class == Class::Application { 3 } else { 2 };
        if found != wanted {
            let reason = CborReason::Length { wanted, found };
            return Err(CborError { at, reason });
        }
        Ok(match class {
            Class::Control => Self::Control(reader.bytes()?),
            Class::Storage => Self::Storage(reader.bytes()?),
            Class::E2e => Self::E2e(reader.bytes()?),
            Class::Application => Self::Application {
                namespace: decode_namespace(reader)?,
                body: reader.bytes()?,
            },
        })
    }
}

fn decode_namespace<'a>(reader: &mut Reader<'a>) -> Result<Namespace<'a>, CborError> {
    let at = reader.at();
    Namespace::new(reader.text()?).map_err(|error| CborError {
        at,
        reason: CborReason::OverBound {
            bound: NAMESPACE_MAX_BYTES,
            found: error.size_bytes,
        },
    })
}

/// The bytes of one message, known to be its one form.
#[derive(Debug, Clone)]
pub struct Data {
    bytes: Vec<u8>,
    class: Class,
    body_bytes: usize,
    chunk: Option<ChunkHead>,
    /// BLAKE3 of the bytes, once someone asked.
    hash: OnceLock<[u8; 32]>,
}

impl Data {
    /// The data in `bytes`.
    ///
    /// # Errors
    /// Over [`DATA_MAX_BYTES`], or not the one form of a message.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, CborError> {
        Self::parse_within(bytes, DATA_MAX_BYTES)
    }

    /// As [`parse`](Self::parse), of a message that may be too large for one frame.
    ///
    /// # Errors
    /// Over [`MESSAGE_MAX_BYTES`], or not the one form of a message.
    pub fn parse_large(bytes: Vec<u8>) -> Result<Self, CborError> {
        Self::parse_within(bytes, MESSAGE_MAX_BYTES)
    }

    fn parse_within(bytes: Vec<u8>, bound: usize) -> Result<Self, CborError> {
        if bytes.len() > bound {
            let reason = CborReason::OverBound {
                bound,
                found: bytes.len(),
            };
            return Err(CborError { at: 0, reason });
        }
        let message: Message<'_> = from_slice(&bytes)?;
        let class = message.class();
        let body_bytes = message.body().len();
        let chunk = match message {
            Message::Chunk(chunk) => Some(chunk.head),
            _ => None,
        };
        Ok(Self {
            chunk,
            body_bytes,
            class,
            hash: OnceLock::new(),
            bytes,
        })
    }

    /// The signed bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The class, by the message's tag.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether it needs more than one frame.
    pub fn is_large(&self) -> bool {
        self.bytes.len() > DATA_MAX_BYTES
    }

    /// Which part of which message it is, if it is no whole one.
    pub fn chunk(&self) -> Option<&ChunkHead> {
        self.chunk.as_ref()
    }

    /// The message.
    pub fn message(&self) -> Message<'_> {
        // The body is the last field of every message, so it ends where the data ends.
        let body_at = self.bytes.len().saturating_sub(self.body_bytes);
        let body = self.bytes.get(body_at..).unwrap_or_default();
        if let Some(head) = self.chunk {
            return Message::Chunk(Chunk { head, bytes: body });
        }
        match self.class {
            Class::Control => Message::Control(body),
            Class::Storage => Message::Storage(body),
            Class::E2e => Message::E2e(body),
            Class::Application => Message::Application {
                namespace: self.namespace(),
                body,
            },
        }
    }

    fn namespace(&self) -> Namespace<'_> {
        // An array of three and a tag are one byte each.
        let mut reader = Reader::new(self.bytes.get(2..).unwrap_or_default());
        Namespace(reader.text().unwrap_or_default())
    }

    /// BLAKE3 of the bytes.
    pub fn hash(&self) -> &[u8; 32] {
        self.hash
            .get_or_init(|| *blake3::hash(&self.bytes).as_bytes())
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Data {}

impl Encode for Data {
    fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.bytes);
    }
}

impl<'a> Decode<'a> for Data {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let bytes = reader.bytes()?;
        let start = reader.at().saturating_sub(bytes.len());
        // A frame bounds what is in it; only what was reassembled may be larger.
        Self::parse_large(bytes.to_vec()).map_err(|error| CborError {
            at: start.saturating_add(error.at),
            ..error
        })
    }
}
