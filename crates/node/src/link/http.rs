//! Asking another node for an answer: one `POST /v1/offer` over plain HTTP, and the refusal that
//! may come back.
//!
//! No TLS: the offer and the answer are signed, and hold nothing secret.
//!
//! Bodies are deterministic CBOR: the offer, its answer, or a [`Refusal`].

use std::time::Duration;

use axum::http::{Request, StatusCode, Uri, header, uri::Scheme};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overlane_core::wire::bounds::SIGNAL_MAX_BYTES;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice};
use overlane_core::{Coded, Did, Fault};
use tokio::net::TcpStream;

use super::error::LinkError;

/// The one path that offers are posted to.
pub const OFFER_PATH: &str = "/v1/offer";

/// The content type of every body.
pub const CONTENT_TYPE: &str = "application/cbor";

/// The longest code in a refusal, in bytes.
pub const REFUSAL_CODE_MAX_BYTES: usize = 64;

/// The longest message in a refusal, in bytes.
pub const REFUSAL_MESSAGE_MAX_BYTES: usize = 1024;

/// The longest URL of a node, in bytes.
pub const URL_MAX_BYTES: usize = 512;

/// The port of a URL that names none. Source: RFC 9110, section 4.2.1.
const HTTP_PORT: u16 = 80;

const _: () = assert!(REFUSAL_CODE_MAX_BYTES + REFUSAL_MESSAGE_MAX_BYTES < SIGNAL_MAX_BYTES);

/// What a node that refuses an offer says: the stable code, and words for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: String,
    /// Words.
    pub message: String,
    /// Who refuses, so that a dialler whose offer crossed another knows whose link to wait for. It
    /// is not proved, and used for nothing else.
    pub refuser: Did,
}

impl Refusal {
    /// The refusal that tells of `error`.
    pub fn of(error: &(impl Coded + std::fmt::Display), refuser: Did) -> Self {
        let mut message: String = error.to_string();
        message.retain(|letter| !may_disorder(letter));
        let longest = (0..=REFUSAL_MESSAGE_MAX_BYTES).rev();
        let fits = longest.into_iter().find(|&at| message.is_char_boundary(at));
        message.truncate(fits.unwrap_or(message.len()));
        Self {
            code: error.code().to_owned(),
            message,
            refuser,
        }
    }
}

impl Refusal {
    /// The error of the one who was refused at `url`.
    pub(super) fn into_error(self, url: &str) -> LinkError {
        let crossed = LinkError::Crossed { peer: self.refuser };
        if self.code == crossed.code() {
            crossed
        } else if self.code == LinkError::Itself.code() {
            LinkError::Itself
        } else {
            LinkError::RefusedByPeer {
                url: url.to_owned(),
                code: self.code,
                message: self.message,
            }
        }
    }
}

impl Encode for Refusal {
    fn encode(&self, writer: &mut Writer) {
        writer
            .array(3)
            .text(&self.code)
            .text(&self.message)
            .bytes(&self.refuser.0);
    }
}

impl<'a> Decode<'a> for Refusal {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            code: words(reader, REFUSAL_CODE_MAX_BYTES, "refusal code")?,
            message: words(reader, REFUSAL_MESSAGE_MAX_BYTES, "refusal message")?,
            refuser: Did(reader.byte_array()?),
        })
    }
}

/// Whether a letter can move a terminal's cursor, or show others in another order or not at all:
/// controls, line and paragraph separators, and the formatting that turns or hides text.
fn may_disorder(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Bounded text that cannot move a terminal's cursor or turn what stands beside it.
fn words(
    reader: &mut Reader<'_>,
    max_bytes: usize,
    what: &'static str,
) -> Result<String, CborError> {
    let at = reader.at();
    let text = reader.text()?;
    if text.len() > max_bytes || text.chars().any(may_disorder) {
        return Err(Reader::invalid(at, what));
    }
    Ok(text.to_owned())
}

/// What came back of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The answer's bytes, unverified.
    Answer(Vec<u8>),
    /// The node refused.
    Refused(Refusal),
}

/// Posts an offer to the node at `url`, which is `http://host[:port]`, with or without
/// [`OFFER_PATH`].
///
/// # Errors
/// [`HttpError`].
pub(crate) async fn post_offer(
    url: &str,
    offer: Vec<u8>,
    deadline: Duration,
) -> Result<Posted, HttpError> {
    let target = Target::parse(url)?;
    let asked = tokio::time::timeout(deadline, target.ask(offer)).await;
    asked
        .unwrap_or_else(|_| {
            Err(Failure::Unreachable(format!(
                "no answer within {} ms",
                deadline.as_millis()
            )))
        })
        .map_err(|failure| failure.at(url))
}

/// Where an offer goes.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    authority: String,
    host: String,
    port: u16,
}

impl Target {
    fn parse(url: &str) -> Result<Self, HttpError> {
        let refused = |cause: &str| HttpError::Url {
            url: url.chars().take(URL_MAX_BYTES).collect(),
            cause: cause.to_owned(),
        };
        if url.len() > URL_MAX_BYTES {
            return Err(refused("too long"));
        }
        let uri: Uri = url.parse().map_err(|_| refused("not a URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(refused("it must begin with http://"));
        }
        if !matches!(uri.path(), "" | "/" | OFFER_PATH) || uri.query().is_some() {
            return Err(refused("give only http://host:port"));
        }
        let authority = uri.authority().ok_or_else(|| refused("no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("no user name belongs in it"));
        }
        let host = authority.host();
        let names_port = authority.as_str().len() > host.len();
        if names_port && authority.port_u16().is_none() {
            return Err(refused("no such port"));
        }
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        Ok(Self {
            authority: authority.as_str().to_owned(),
            host: bare.unwrap_or(host).to_owned(),
            port: authority.port_u16().unwrap_or(HTTP_PORT),
        })
    }

    async fn ask(&self, offer: Vec<u8>) -> Result<Posted, Failure> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(Failure::unreachable)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(Failure::unreachable)?;
        let request = Request::post(OFFER_PATH)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .body(Full::new(Bytes::from(offer)))
            .map_err(Failure::unreachable)?;
        // Driven here and not in a task of its own, so that giving up also hangs up.
        let exchange = async {
            let response = sender
                .send_request(request)
                .await
                .map_err(Failure::unreachable)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), SIGNAL_MAX_BYTES)
                .collect()
                .await
                .map_err(|_| Failure::Status(status))?;
            judge(status, &body.to_bytes())
        };
        let hang_up = async {
            match connection.await {
                Ok(()) => std::future::pending().await,
                Err(error) => Err(Failure::unreachable(error)),
            }
        };
        tokio::select! {
            biased;
            posted = exchange => posted,
            failed = hang_up => failed,
        }
    }
}

fn judge(status: StatusCode, body: &[u8]) -> Result<Posted, Failure> {
    if status == StatusCode::OK {
        return Ok(Posted::Answer(body.to_vec()));
    }
    match from_slice(body) {
        Ok(refusal) => Ok(Posted::Refused(refusal)),
        Err(_) => Err(Failure::Status(status)),
    }
}

/// A failure that does not know where yet.
#[derive(Debug)]
enum Failure {
    Unreachable(String),
    Status(StatusCode),
}

impl Failure {
    fn unreachable(cause: impl std::fmt::Display) -> Self {
        Self::Unreachable(cause.to_string())
    }

    fn at(self, url: &str) -> HttpError {
        let url = url.to_owned();
        match self {
            Self::Unreachable(cause) => HttpError::Unreachable { url, cause },
            Self::Status(status) => HttpError::NotANode {
                url,
                status: status.as_u16(),
            },
        }
    }
}

/// Why a node could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// Not the URL of a node.
    #[error("{url:?} is not the URL of a node: {cause}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Nobody answered there.
    #[error("{url} does not answer: {cause}")]
    Unreachable {
        /// Where.
        url: String,
        /// The platform's words.
        cause: String,
    },
    /// Somebody answered who does not speak this protocol.
    #[error("{url} answered with status {status} and without a reason: it is not a node")]
    NotANode {
        /// Where.
        url: String,
        /// The status of the HTTP response.
        status: u16,
    },
}

impl Coded for HttpError {
    fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => "link/url",
            Self::Unreachable { .. } => "link/unreachable",
            Self::NotANode { .. } => "link/not_a_node",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Url { .. } => Fault::Usage,
            Self::Unreachable { .. } | Self::NotANode { .. } => Fault::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use overlane_core::wire::cbor::to_vec;

    use super::*;

    #[test]
    fn a_url_is_a_scheme_a_host_and_a_port() {
        for (url, host, port) in [
            ("http://127.0.0.1:7000", "127.0.0.1", 7000),
            ("http://127.0.0.1:7000/", "127.0.0.1", 7000),
            ("http://127.0.0.1:7000/v1/offer", "127.0.0.1", 7000),
            ("http://seed.example", "seed.example", 80),
            ("http://[::1]:7000", "::1", 7000),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:7000",
            "https://127.0.0.1:7000",
            "http://",
            "http://me@127.0.0.1",
            "http://127.0.0.1/v2/offer",
            "http://127.0.0.1/?x",
            "http://127.0.0.1:70000",
            "/v1/offer",
        ] {
            let refused = Target::parse(url).unwrap_err();
            assert_eq!(refused.code(), "link/url", "{url}");
        }
        let long = format!("http://{}", "a".repeat(URL_MAX_BYTES));
        assert_eq!(Target::parse(&long).unwrap_err().code(), "link/url");
    }

    #[test]
    fn a_refusal_is_bounded_and_cannot_move_a_cursor() {
        let refusal = |code: &str, message: &str| Refusal {
            code: code.to_owned(),
            message: message.to_owned(),
            refuser: Did([7; 20]),
        };
        let full = refusal(
            &"c".repeat(REFUSAL_CODE_MAX_BYTES),
            &"m".repeat(REFUSAL_MESSAGE_MAX_BYTES),
        );
        assert_eq!(from_slice::<Refusal>(&to_vec(&full)), Ok(full.clone()));
        for bad in [
            refusal(&format!("{}c", full.code), ""),
            refusal("", &format!("{}m", full.message)),
            refusal("a/b", "\u{1b}[2J"),
            refusal("a\n", ""),
            refusal("a/b", "\u{202e}desufer"),
            refusal("a/b", "\u{2066}x\u{2069}"),
            refusal("a/b", "\u{61c}"),
            refusal("a\u{200f}b", ""),
        ] {
            assert!(from_slice::<Refusal>(&to_vec(&bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_refusal_in_its_one_form_is_one() {
        let refused = StatusCode::CONFLICT;
        let refusal = Refusal {
            code: "link/crossed".to_owned(),
            message: "wait".to_owned(),
            refuser: Did([7; 20]),
        };
        let judged = judge(refused, &to_vec(&refusal)).unwrap();
        assert_eq!(judged, Posted::Refused(refusal));
        let judged = judge(refused, b"<html>").unwrap_err().at("http://x");
        assert_eq!(judged.code(), "link/not_a_node");
    }
}
