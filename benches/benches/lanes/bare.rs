//! A channel of the library as it is, with a window kept by hand: what a program without lanes would do.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use overlane_core::lane::bounds::{
    BATCH_MAX_BYTES, BATCH_MAX_FRAMES, GRANT_FRACTION, LANE_WINDOW_DEFAULT_BYTES,
    LANE_WINDOW_FRAMES,
};
use overlane_core::wire::bounds::FRAME_MAX_BYTES;
use overlane_node::link::transport::SEND_BUFFER_MAX_BYTES;
use rtc::ice::mdns::MulticastDnsMode;
use rtc::peer_connection::configuration::setting_engine::SctpMaxMessageSize;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use webrtc::data_channel::{DataChannel, DataChannelEvent, RTCDataChannelInit};
use webrtc::peer_connection::{
    PeerConnection, PeerConnectionBuilder, PeerConnectionEventHandler, RTCIceGatheringState,
    RTCSessionDescription, SettingEngineBuilder,
};
use webrtc::runtime::TokioRuntime;

use super::Ends;
use super::meter::Meter;
use super::socket::Buffered;

/// Tells when all candidates are there.
struct Gathering(watch::Sender<bool>);

#[async_trait]
impl PeerConnectionEventHandler for Gathering {
    async fn on_ice_gathering_state_change(&self, state: RTCIceGatheringState) {
        if state == RTCIceGatheringState::Complete {
            self.0.send_replace(true);
        }
    }
}

/// One end: its connection, and its two channels.
struct End {
    connection: Arc<dyn PeerConnection>,
    control: Arc<dyn DataChannel>,
    data: Arc<dyn DataChannel>,
    gathered: watch::Receiver<bool>,
}

impl End {
    async fn new() -> Self {
        let (gathering, gathered) = watch::channel(false);
        let settings = SettingEngineBuilder::new()
            .with_include_loopback_candidate(true)
            .with_multicast_dns_mode(MulticastDnsMode::Disabled)
            .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(FRAME_MAX_BYTES as u32))
            .build();
        let connection = PeerConnectionBuilder::new()
            .with_setting_engine(settings)
            .with_handler(Arc::new(Gathering(gathering)))
            .with_runtime(Arc::new(Buffered(TokioRuntime)))
            .with_udp_addrs(vec!["127.0.0.1:0"])
            .with_data_channel_send_buffer_limit(SEND_BUFFER_MAX_BYTES)
            .with_dedicated_reactor_pool_size(1)
            .build()
            .await
            .unwrap();
        let connection: Arc<dyn PeerConnection> = Arc::new(connection);
        let channel = async |id| {
            let init = RTCDataChannelInit {
                ordered: true,
                negotiated: Some(id),
                ..RTCDataChannelInit::default()
            };
            let made = connection.create_data_channel("bench", Some(init)).await;
            made.unwrap()
        };
        let (control, data) = (channel(0).await, channel(1).await);
        Self {
            connection,
            control,
            data,
            gathered,
        }
    }

    /// This end's description, with its candidates.
    async fn describe(&mut self, local: RTCSessionDescription) -> RTCSessionDescription {
        self.connection.set_local_description(local).await.unwrap();
        self.gathered.wait_for(|gathered| *gathered).await.unwrap();
        self.connection.local_description().await.unwrap()
    }

    /// Waits until both channels carry data.
    async fn opened(&self) {
        for channel in [&self.control, &self.data] {
            let event = channel.poll().await;
            assert!(matches!(event, Some(DataChannelEvent::OnOpen)), "{event:?}");
        }
    }
}

/// Two ends, with a window between them.
pub(crate) struct Bare {
    from: End,
    to: End,
    meter: Arc<Meter>,
    tasks: Vec<JoinHandle<()>>,
}

pub(crate) async fn open(meter: &Arc<Meter>, size: usize, most: Most) -> Bare {
    let (mut from, mut to) = (End::new().await, End::new().await);
    let offer = from.connection.create_offer(None).await.unwrap();
    let offer = from.describe(offer).await;
    to.connection.set_remote_description(offer).await.unwrap();
    let answer = to.connection.create_answer(None).await.unwrap();
    let answer = to.describe(answer).await;
    from.connection
        .set_remote_description(answer)
        .await
        .unwrap();
    // What is sent before the other end opened may be lost.
    tokio::join!(from.opened(), to.opened());
    let window = Arc::new(Window {
        most,
        ..Window::default()
    });
    let tasks = vec![
        tokio::spawn(send(
            Arc::clone(&from.data),
            Arc::clone(&window),
            Arc::clone(meter),
            size,
        )),
        tokio::spawn(hear_grants(Arc::clone(&from.data), window)),
        tokio::spawn(take(Arc::clone(&to.data), Arc::clone(meter), size, most)),
        tokio::spawn(echo(Arc::clone(&to.control))),
        tokio::spawn(hear_pongs(Arc::clone(&from.control), Arc::clone(meter))),
    ];
    Bare {
        from,
        to,
        meter: Arc::clone(meter),
        tasks,
    }
}

/// Messages and bytes.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    messages: u64,
    bytes: u64,
}

impl Sums {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// The window: what may be under way and not yet taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Default for Most {
    fn default() -> Self {
        Self {
            messages: u64::from(LANE_WINDOW_FRAMES),
            bytes: u64::from(LANE_WINDOW_DEFAULT_BYTES),
        }
    }
}

/// A sender's view of the window.
#[derive(Debug, Default)]
struct Window {
    most: Most,
    /// Sent, and of that taken.
    sums: Mutex<(Sums, Sums)>,
    granted: Notify,
}

impl Window {
    /// Waits until a message of this size may leave, and counts it.
    async fn leave(&self, bytes: usize) {
        loop {
            let granted = self.granted.notified();
            {
                let (sent, taken) = &mut *self.sums.lock().unwrap();
                let under_way = sent.since(*taken);
                if under_way.messages < self.most.messages
                    && under_way.bytes + bytes as u64 <= self.most.bytes
                {
                    sent.add(bytes);
                    return;
                }
            }
            granted.await;
        }
    }
}

/// Messages of this size that leave together.
fn together(size: usize) -> usize {
    (BATCH_MAX_BYTES / (size + 2)).clamp(1, BATCH_MAX_FRAMES)
}

/// Keeps the channel full while data is to flow.
async fn send(channel: Arc<dyn DataChannel>, window: Arc<Window>, meter: Arc<Meter>, size: usize) {
    let message = vec![7; size];
    let together = together(size);
    loop {
        if !meter.sends() {
            meter.turned().await;
            continue;
        }
        let batch = if together == 1 {
            BytesMut::from(Bytes::from(message.clone()))
        } else {
            let mut batch = BytesMut::with_capacity(together * (size + 2));
            for _ in 0..together {
                let message = message.clone();
                batch.put_u16(u16::try_from(size).unwrap());
                batch.put_slice(&message);
            }
            batch
        };
        window.leave(batch.len()).await;
        if channel.send(batch).await.is_err() {
            return;
        }
    }
}

async fn hear_grants(channel: Arc<dyn DataChannel>, window: Arc<Window>) {
    while let Some(event) = channel.poll().await {
        if let DataChannelEvent::OnMessage(message) = event {
            let numbers = message.data.as_chunks::<8>().0;
            let taken = Sums {
                messages: u64::from_be_bytes(numbers[0]),
                bytes: u64::from_be_bytes(numbers[1]),
            };
            window.sums.lock().unwrap().1 = taken;
            window.granted.notify_one();
        }
    }
}

/// Takes what comes, and grants it by the quarter of the window.
async fn take(channel: Arc<dyn DataChannel>, meter: Arc<Meter>, size: usize, most: Most) {
    let (mut taken, mut granted) = (Sums::default(), Sums::default());
    while let Some(event) = channel.poll().await {
        let DataChannelEvent::OnMessage(batch) = event else {
            continue;
        };
        let batch = batch.data.freeze();
        if together(size) == 1 {
            meter.arrived();
        } else {
            let mut at = 0;
            while let Some(length) = batch.get(at..at + 2) {
                let length = usize::from(u16::from_be_bytes(length.try_into().unwrap()));
                let message: Bytes = batch.slice(at + 2..at + 2 + length);
                at += 2 + length;
                meter.arrived();
                drop(message);
            }
        }
        taken.add(batch.len());
        let since = taken.since(granted);
        if since.messages >= (most.messages / GRANT_FRACTION).max(1)
            || since.bytes >= most.bytes / GRANT_FRACTION
        {
            granted = taken;
            let mut credit = BytesMut::with_capacity(16);
            credit.put_u64(taken.messages);
            credit.put_u64(taken.bytes);
            if channel.send(credit).await.is_err() {
                return;
            }
        }
    }
}

async fn echo(channel: Arc<dyn DataChannel>) {
    while let Some(event) = channel.poll().await {
        if let DataChannelEvent::OnMessage(message) = event
            && channel.send(message.data).await.is_err()
        {
            return;
        }
    }
}

async fn hear_pongs(channel: Arc<dyn DataChannel>, meter: Arc<Meter>) {
    while let Some(event) = channel.poll().await {
        if let DataChannelEvent::OnMessage(message) = event {
            meter.ponged(&message.data);
        }
    }
}

#[async_trait]
impl Ends for Bare {
    async fn ping(&self) {
        let stamp = BytesMut::from(&self.meter.stamp()[..]);
        self.from.control.send(stamp).await.unwrap();
    }

    async fn close(self: Box<Self>) {
        for end in [&self.from, &self.to] {
            end.connection.close().await.unwrap();
        }
        for task in self.tasks {
            task.abort();
        }
    }
}
