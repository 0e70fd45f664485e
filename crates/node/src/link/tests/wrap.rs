//! Connectors that do something to the connections they make.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use overlane_core::Class;
use tokio::sync::mpsc;

use crate::link::connection::{Connection, ConnectionConfig, WebRtc};
use crate::link::count::Held;
use crate::link::sdp::SdpError;
use crate::link::transport::{Connector, Opened, Transport, TransportError, TransportEvent};

/// What is done to the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// Nothing; they are kept, to be cut.
    Keep,
    /// The first message of each channel is lost, as the stack does.
    LoseFirst,
    /// This many of the first descriptions carry another's fingerprint.
    WrongFingerprint(usize),
    /// Nothing leads to their peers directly.
    Walled,
    /// A channel stops taking messages after this many.
    StuckAfter(usize),
}

/// WebRTC with a trick.
#[derive(Debug)]
pub(super) struct Tricky {
    webrtc: WebRtc,
    trick: Trick,
    made: Mutex<Vec<Arc<Connection>>>,
}

impl Tricky {
    pub(super) fn new(config: ConnectionConfig, held: Held, trick: Trick) -> Arc<Self> {
        Arc::new(Self {
            webrtc: WebRtc::new(config, held),
            trick,
            made: Mutex::default(),
        })
    }

    /// Cuts every connection made so far from the network.
    pub(super) fn cut_all(&self) {
        for connection in &*self.made.lock().unwrap() {
            connection.cable().cut();
        }
    }

    pub(super) fn made(&self) -> usize {
        self.made.lock().unwrap().len()
    }
}

#[async_trait]
impl Connector for Tricky {
    async fn open(&self) -> Result<Opened, TransportError> {
        let (connection, events) = self.webrtc.connect().await?;
        if self.trick == Trick::Walled {
            connection.cable().wall();
        }
        let earlier = self.made();
        self.made.lock().unwrap().push(Arc::clone(&connection));
        let stranger = match self.trick {
            Trick::WrongFingerprint(first) if earlier < first => {
                let (stranger, _) = self.webrtc.connect().await?;
                Some(stranger.offer().await?)
            }
            _ => None,
        };
        let left = match self.trick {
            Trick::StuckAfter(messages) => messages,
            _ => usize::MAX,
        };
        let events = match self.trick {
            Trick::LoseFirst => lose_first(events),
            _ => events,
        };
        let transport = Arc::new(Wrapped {
            inner: connection,
            stranger,
            left: Mutex::new(left),
        });
        Ok(Opened { transport, events })
    }

    fn check(&self, sdp: &str) -> Result<(), SdpError> {
        self.webrtc.check(sdp)
    }
}

fn lose_first(mut events: mpsc::Receiver<TransportEvent>) -> mpsc::Receiver<TransportEvent> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut lost = Vec::new();
        while let Some(event) = events.recv().await {
            if let TransportEvent::Message(class, _) = &event
                && !lost.contains(class)
            {
                lost.push(*class);
                continue;
            }
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    receiver
}

#[derive(Debug)]
struct Wrapped {
    inner: Arc<Connection>,
    stranger: Option<String>,
    left: Mutex<usize>,
}

#[async_trait]
impl Transport for Wrapped {
    async fn offer(&self) -> Result<String, TransportError> {
        let offer = self.inner.offer().await?;
        Ok(match &self.stranger {
            Some(stranger) => swap_fingerprint(&offer, stranger),
            None => offer,
        })
    }

    async fn answer(&self, offer: &str) -> Result<String, TransportError> {
        self.inner.answer(offer).await
    }

    async fn conclude(&self, answer: &str) -> Result<(), TransportError> {
        self.inner.conclude(answer).await
    }

    async fn send(
        &self,
        class: Class,
        message: Vec<u8>,
        deadline: Duration,
    ) -> Result<(), TransportError> {
        if class == Class::Application {
            let mut left = self.left.lock().unwrap();
            if *left == 0 {
                let deadline_ms = u64::try_from(deadline.as_millis()).unwrap();
                return Err(TransportError::SendDeadline { class, deadline_ms });
            }
            *left -= 1;
        }
        self.inner.send(class, message, deadline).await
    }

    fn byte_window(&self) -> u32 {
        self.inner.byte_window()
    }

    fn window_scale_max(&self) -> u8 {
        self.inner.window_scale_max()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// `sdp` with the fingerprint of `other`.
pub(super) fn swap_fingerprint(sdp: &str, other: &str) -> String {
    let is_fingerprint = |line: &&str| line.starts_with("a=fingerprint:");
    let other = other.lines().find(is_fingerprint).unwrap();
    let mut swapped = String::new();
    for line in sdp.lines() {
        swapped.push_str(if is_fingerprint(&line) { other } else { line });
        swapped.push_str("\r\n");
    }
    swapped
}
