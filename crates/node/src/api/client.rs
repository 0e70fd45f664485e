//! The client of the local API.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use overlane_core::Fault;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::types::Refusal;
use crate::home::Home;

/// The longest line a stream of answers may have: a message of the largest frame as text, with
/// every byte escaped, and what surrounds it.
const LINE_MAX_BYTES: usize = 1 << 20;

/// Talks to the daemon of one home.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client of the daemon that runs on `home`, if one does.
    pub fn of(home: &Home) -> Self {
        Self {
            socket: home.socket_path(),
        }
    }

    /// Asks for `path`.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.ask(Method::GET, path, Bytes::new()).await?;
        self.whole(answer).await
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|cause| self.broken(&cause))?;
        let answer = self.ask(method, path, body.into()).await?;
        self.whole(answer).await
    }

    /// Uploads a large body behind a line of JSON, and gives the steps of it.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn upload(&self, asked: &impl Serialize, body: &[u8]) -> Result<Lines, ClientError> {
        let mut request = serde_json::to_vec(asked).map_err(|cause| self.broken(&cause))?;
        request.push(b'\n');
        request.extend_from_slice(body);
        let body = self.ask(Method::POST, "/v1/upload", request.into()).await?;
        Ok(Lines {
            client: self.clone(),
            body,
            buffer: Vec::new(),
        })
    }

    /// Asks for a stream of lines.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn lines(&self, path: &str) -> Result<Lines, ClientError> {
        self.lines_from(Method::GET, path, Bytes::new()).await
    }

    /// Asks for something whose answer is a stream of lines.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn call_lines(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Lines, ClientError> {
        let body = serde_json::to_vec(body).map_err(|cause| self.broken(&cause))?;
        self.lines_from(Method::POST, path, body.into()).await
    }

    async fn lines_from(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Lines, ClientError> {
        let body = self.ask(method, path, body).await?;
        Ok(Lines {
            client: self.clone(),
            body,
            buffer: Vec::new(),
        })
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Incoming, ClientError> {
        let stream = self.connect().await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|cause| self.broken(&cause))?;
        // The task ends with the connection; what goes wrong on it shows in the answer.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "overlane")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|cause| self.broken(&cause))?;
        let answer = sender
            .send_request(request)
            .await
            // A node closes the connection of another user's process, and says nothing.
            .map_err(|cause| self.not_ours().unwrap_or_else(|| self.broken(&cause)))?;
        let status = answer.status();
        let body = answer.into_body();
        if status == StatusCode::OK {
            return Ok(body);
        }
        let refusal: Refusal = self.whole(body).await?;
        Err(ClientError::Refused(refusal))
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        UnixStream::connect(&self.socket)
            .await
            .map_err(|cause| match cause.kind() {
                // No socket, or one that was left by a daemon that was killed.
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NotRunning {
                    home: self.socket.parent().unwrap_or(Path::new(".")).to_owned(),
                },
                ErrorKind::PermissionDenied => ClientError::NotOurs {
                    socket: self.socket.clone(),
                },
                _ => self.broken(&cause),
            })
    }

    /// Why nothing is answered, where the node runs for another user.
    fn not_ours(&self) -> Option<ClientError> {
        let owner = std::fs::metadata(&self.socket).ok()?.uid();
        let own = rustix::process::geteuid();
        (!own.is_root() && owner != own.as_raw()).then(|| ClientError::NotOurs {
            socket: self.socket.clone(),
        })
    }

    async fn whole<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, ClientError> {
        let bytes = body.collect().await.map_err(|cause| self.broken(&cause))?;
        serde_json::from_slice(&bytes.to_bytes()).map_err(|cause| self.broken(&cause))
    }

    fn broken(&self, cause: &dyn std::error::Error) -> ClientError {
        ClientError::Broken {
            socket: self.socket.clone(),
            cause: cause.to_string(),
        }
    }
}

/// Answers that come a line at a time.
#[derive(Debug)]
pub struct Lines {
    client: Client,
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` when the daemon has ended the stream.
    ///
    /// # Errors
    /// [`ClientError::Broken`] when the daemon went away, or sent what is no such line.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = serde_json::from_slice(&line);
                return line.map(Some).map_err(|cause| self.client.broken(&cause));
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                let socket = self.client.socket.clone();
                let cause = format!("a line of more than {LINE_MAX_BYTES} bytes");
                return Err(ClientError::Broken { socket, cause });
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|cause| self.client.broken(&cause))?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

/// Why the daemon gave no answer, or none that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No daemon runs on this home.
    #[error("no node is running on {}", home.display())]
    NotRunning {
        /// The home.
        home: PathBuf,
    },
    /// The node runs for another user, and answers nobody else.
    #[error("the node behind {} is another user's, and answers nobody else", socket.display())]
    NotOurs {
        /// The socket.
        socket: PathBuf,
    },
    /// The connection to the daemon broke, or what came over it is no answer.
    #[error("the node behind {} gave no answer: {cause}", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// Why.
        cause: String,
    },
    /// The daemon refused.
    #[error("{}", .0.message)]
    Refused(Refusal),
}

impl ClientError {
    /// The stable code: the daemon's own where it refused.
    pub fn code(&self) -> &str {
        match self {
            Self::NotRunning { .. } => "api/not_running",
            Self::NotOurs { .. } => "api/not_ours",
            Self::Broken { .. } => "api/broken",
            Self::Refused(refusal) => &refusal.error,
        }
    }

    /// Whose fault this is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NotRunning { .. } | Self::Broken { .. } => Fault::Unreachable,
            Self::NotOurs { .. } => Fault::Usage,
            Self::Refused(refusal) => refusal.fault.into(),
        }
    }
}
