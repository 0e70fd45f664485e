//! A connection on a port of the range.

use super::super::ports::Ports;
use super::*;

/// How often a port that was free is found taken before the connection is given up.
const BIND_TRIES_MAX: u16 = 4;

impl WebRtc {
    /// A connection on a free port. One that another process takes in between is passed over.
    pub(super) async fn bound(
        &self,
        certificate: &RTCCertificate,
        state: &Arc<watch::Sender<State>>,
        runtime: &Arc<LinkRuntime>,
    ) -> Result<Arc<dyn PeerConnection>, TransportError> {
        let ConnectionConfig { bind, ports, .. } = self.config;
        let drawn = getrandom::u32().unwrap_or_default() as u16;
        let mut tries = 0_u16;
        loop {
            let start = drawn.wrapping_add(tries);
            let port = ports.free(bind, start).ok_or_else(|| no_port(ports))?;
            let built = PeerConnectionBuilder::new()
                .with_configuration(
                    RTCConfigurationBuilder::new()
                        .with_certificates(vec![certificate.clone()])
                        .with_ice_servers(servers(&self.config))
                        .build(),
                )
                .with_setting_engine(settings(&self.config))
                .with_handler(Arc::new(Handler(
                    Arc::clone(state),
                    runtime.gathering().clone(),
                )))
                .with_runtime(Arc::clone(runtime) as _)
                .with_udp_addrs(vec![SocketAddr::new(bind, port)])
                .with_data_channel_send_buffer_limit(SEND_BUFFER_MAX_BYTES)
                // Our runtime has no pool; what counts is that the driver then stops when dropped.
                .with_dedicated_reactor_pool_size(1)
                .build()
                .await;
            tries += 1;
            match built {
                Ok(built) => return Ok(Arc::new(built)),
                Err(_) if port != 0 && tries < BIND_TRIES_MAX => {}
                Err(error) => return Err(open_error(&error)),
            }
        }
    }
}

fn no_port(ports: Ports) -> TransportError {
    TransportError::Open(format!(
        "every UDP port of {ports} is taken: widen links.ports in config.toml"
    ))
}
