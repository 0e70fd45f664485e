//! Dialling and answering: from an address, or an offer, to a link whose driver runs.
//!
//! Law (proved peer): no session begins before the description of its peer is verified, and the
//! connection under it proves the fingerprint in it. Law (given back): a handshake that is given up
//! at any point, its caller's going away included, gives its place and its socket back.

use std::sync::Arc;

use overlane_core::Did;
use overlane_core::identity::{Life, Signer, Verified, VerifyContext};
use overlane_core::lane::{Session, SessionConfig, Windows};
use overlane_core::signal::{Answer, Offer, SIGNAL_TTL_DEFAULT_MS, Source};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::driver::{Asked, Driver, Link, lock};
use super::error::{DownReason, LinkError};
use super::http::{Posted, post_offer};
use super::id::LinkId;
use super::links::{ClockWitness, LinkUp, Links, Shared, Stopping};
use super::listening;
use super::registry::Direction;
use super::rule::Mark;
use super::transport::Transport;
use super::transport::{Opened, TransportError};

impl Links {
    /// Links to the node at `url`, `http://host:port`, and waits until the link is open. If the peer
    /// dials at the same time, both nodes keep the same one of the two links, and it is given.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn dial(&self, url: &str) -> Result<LinkUp, LinkError> {
        let deadline = self.shared.config.signal_deadline();
        let post = async |offer: Vec<u8>| match post_offer(url, offer, deadline).await? {
            Posted::Answer(answer) => Ok(answer),
            Posted::Refused(refusal) => Err(refusal.into_error(url)),
        };
        self.dial_by(Target::Url(url), post).await
    }

    /// As [`dial`](Self::dial), to the node of this account: `carry` brings the offer there and the
    /// answer back, by whatever way, which need not be trusted.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::OtherSigner`] when another node signed the answer.
    pub async fn dial_peer<F>(
        &self,
        peer: Did,
        carry: impl Fn(Vec<u8>) -> F,
    ) -> Result<LinkUp, LinkError>
    where
        F: Future<Output = Result<Vec<u8>, LinkError>>,
    {
        self.dial_by(Target::Peer(peer), carry).await
    }

    async fn dial_by<F>(
        &self,
        target: Target<'_>,
        carry: impl Fn(Vec<u8>) -> F,
    ) -> Result<LinkUp, LinkError>
    where
        F: Future<Output = Result<Vec<u8>, LinkError>>,
    {
        let mut attempts = 1;
        loop {
            match self.dial_once(target, &carry).await {
                Err(LinkError::NotOpened { peer, reason })
                    if attempts < self.shared.config.dial_attempts && reason.may_pass() =>
                {
                    tracing::debug!(%peer, %reason, attempts, "dialling again");
                    attempts += 1;
                }
                dialed => return dialed,
            }
        }
    }

    /// Answers the offer in the body of a `POST /v1/offer`, which came from `source`. The link is told
    /// of once it is open.
    ///
    /// # Errors
    /// [`LinkError`]; nothing of the offer is kept but that it came.
    pub async fn answer(&self, offer: &[u8], source: Source) -> Result<Vec<u8>, LinkError> {
        self.answer_to(None, offer, source).await
    }

    /// As [`answer`](Self::answer), if `from` signed the offer.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::OtherSigner`] when another node signed it.
    pub async fn answer_peer(
        &self,
        from: Did,
        offer: &[u8],
        source: Source,
    ) -> Result<Vec<u8>, LinkError> {
        self.answer_to(Some(from), offer, source).await
    }

    async fn answer_to(
        &self,
        from: Option<Did>,
        offer: &[u8],
        source: Source,
    ) -> Result<Vec<u8>, LinkError> {
        let place = Place::begin(&self.shared, Direction::Inbound(source))?;
        let signer = self.shared.identity.signer();
        let now_ms = self.shared.identity.now_ms();
        let context = VerifyContext {
            network: signer.network(),
            now_ms,
        };
        let offer = Offer::from_bytes(offer)?.verify(&context)?;
        let peer = offer.signer();
        if peer == signer.did() {
            return Err(LinkError::Itself);
        }
        is_by(from, peer)?;
        self.may_connect(peer, false)?;
        // What refuses and forgets goes before the guard, which must remember.
        let connector = &self.shared.connector;
        place.may_admit(peer, mark(&offer))?;
        connector.check(offer.sdp()).map_err(TransportError::from)?;
        lock(&self.shared.guard).admit(&offer, source, now_ms)?;
        place.admit(peer, mark(&offer))?;
        let Opened { transport, events } = connector.open().await?;
        let answered = async {
            let answer = transport.answer(offer.sdp());
            let sdp = self.within_signal_deadline(answer).await?;
            let sdp = listening::told(sdp, self.shared.config.listens);
            let life = self.life();
            let nonce = self.shared.identity.nonce();
            Ok(Answer::sign(offer.digest(), sdp, nonce, life, &signer)?)
        };
        match self.unless_stopping(answered).await {
            Ok(answer) => {
                let asked = Asked {
                    peer,
                    url: None,
                    witness: None,
                    account: Some(Box::new(offer.account().clone())),
                    listens: listening::said(offer.sdp()),
                };
                let link = self.link(&place, asked, transport.as_ref());
                // Nobody waits for it here: the node hears of it when it is up.
                drop(self.run(place, link, Opened { transport, events }).await?);
                Ok(answer.to_bytes())
            }
            Err(error) => {
                transport.close().await;
                Err(error)
            }
        }
    }

    async fn dial_once<F>(
        &self,
        target: Target<'_>,
        carry: &impl Fn(Vec<u8>) -> F,
    ) -> Result<LinkUp, LinkError>
    where
        F: Future<Output = Result<Vec<u8>, LinkError>>,
    {
        if let Some(peer) = target.peer() {
            self.may_connect(peer, true)?;
        }
        let place = Place::begin(&self.shared, Direction::Outbound)?;
        let id = place.id;
        let Opened { transport, events } = self.shared.connector.open().await?;
        let asked = async {
            let (asked, sdp) = self.ask(&place, target, carry, transport.offer()).await?;
            transport.conclude(&sdp).await?;
            Ok(asked)
        };
        let running = match self.unless_stopping(asked).await {
            Ok(asked) => {
                let peer = asked.peer;
                let link = self.link(&place, asked, transport.as_ref());
                let opened = self.run(place, link, Opened { transport, events }).await;
                opened.map(|opened| (peer, opened))
            }
            Err(error) => {
                transport.close().await;
                drop(place);
                Err(error)
            }
        };
        match running {
            Ok((peer, opened)) => match opened.await {
                Ok(Ok(())) => Ok(LinkUp { link: id, peer }),
                Ok(Err(DownReason::Replaced { .. })) => self.wait_for(peer).await,
                Ok(Err(reason)) => Err(LinkError::NotOpened { peer, reason }),
                Err(_) => Err(LinkError::ShuttingDown),
            },
            Err(LinkError::Crossed { peer }) => self.wait_for(peer).await,
            Err(error) => Err(error),
        }
    }

    /// Offers, has the offer brought there, and checks the answer. Gives who answered, and their
    /// session description.
    async fn ask<F>(
        &self,
        place: &Place,
        target: Target<'_>,
        carry: &impl Fn(Vec<u8>) -> F,
        offer: impl Future<Output = Result<String, TransportError>>,
    ) -> Result<(Asked, String), LinkError>
    where
        F: Future<Output = Result<Vec<u8>, LinkError>>,
    {
        let identity = &self.shared.identity;
        let signer = identity.signer();
        let sdp = self.within_signal_deadline(offer).await?;
        let sdp = listening::told(sdp, self.shared.config.listens);
        let offer = Offer::sign(sdp, identity.nonce(), self.life(), &signer)?;
        let answer = Answer::from_bytes(&carry(offer.to_bytes()).await?)?;
        let context = VerifyContext {
            network: signer.network(),
            now_ms: identity.now_ms(),
        };
        let answer = answer.verify(offer.digest(), &context)?;
        let peer = answer.signer();
        if peer == signer.did() {
            return Err(LinkError::Itself);
        }
        is_by(target.peer(), peer)?;
        if target.peer().is_none() {
            self.may_connect(peer, true)?;
        }
        place.admit(peer, own_mark(&signer, &offer))?;
        // It is signed over the digest of our offer, which holds a nonce of now.
        let witness = ClockWitness {
            issued_ms: answer.life().issued_ms,
            heard: Instant::now(),
        };
        let asked = Asked {
            peer,
            url: target.url().map(str::to_owned),
            witness: Some(witness),
            account: Some(Box::new(answer.account().clone())),
            listens: listening::said(answer.sdp()),
        };
        Ok((asked, answer.sdp().to_owned()))
    }

    /// Waits for the link to `peer` that took another's place.
    async fn wait_for(&self, peer: Did) -> Result<LinkUp, LinkError> {
        let mut changes = self.shared.changes.subscribe();
        let stands = async {
            loop {
                {
                    let registry = lock(&self.shared.registry);
                    if let Some(link) = registry.up_to(peer) {
                        return Ok(LinkUp { link, peer });
                    }
                    if !registry.may_reach(peer) {
                        return Err(LinkError::Crossed { peer });
                    }
                }
                if changes.changed().await.is_err() {
                    return Err(LinkError::ShuttingDown);
                }
            }
        };
        let deadline = self.shared.config.handshake_deadline();
        let waited = timeout(deadline, stands).await;
        waited.unwrap_or(Err(LinkError::Crossed { peer }))
    }

    /// What a handshake gives, unless the node shuts down first.
    async fn unless_stopping<T>(
        &self,
        handshake: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, LinkError> {
        tokio::select! {
            given = handshake => given,
            () = self.shared.stopping(Stopping::InOrder) => Err(LinkError::ShuttingDown),
        }
    }

    async fn within_signal_deadline(
        &self,
        described: impl Future<Output = Result<String, TransportError>>,
    ) -> Result<String, LinkError> {
        let deadline = self.shared.config.signal_deadline();
        let described = timeout(deadline, described).await;
        Ok(described.unwrap_or(Err(TransportError::Closed))?)
    }

    fn life(&self) -> Life {
        Life {
            issued_ms: self.shared.identity.now_ms(),
            ttl_ms: SIGNAL_TTL_DEFAULT_MS,
        }
    }

    fn link(&self, place: &Place, asked: Asked, transport: &dyn Transport) -> Arc<Link> {
        let byte_window = transport.byte_window();
        let config = &self.shared.config;
        let [a, b, c, d, e, f, g, h, ..] = self.shared.identity.nonce();
        let mut session = SessionConfig::new(self.shared.identity.signer().network());
        session.windows = Windows::sized(byte_window);
        session.window_scale_max = transport.window_scale_max();
        session.quota = config.quota;
        session.jitter_seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        session.handshake_deadline_ms = config.handshake_deadline_ms;
        session.fin_deadline_ms = config.fin_deadline_ms;
        let now_ms = u64::try_from(self.shared.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let session = Session::new(session, now_ms);
        let epoch = self.shared.epoch;
        let queued = Arc::clone(&self.shared.queued);
        Arc::new(Link::new(
            place.id,
            asked,
            byte_window,
            session,
            queued,
            epoch,
        ))
    }

    /// Sets the link's driver to work, which then owns its place.
    async fn run(
        &self,
        place: Place,
        link: Arc<Link>,
        opened: Opened,
    ) -> Result<oneshot::Receiver<Result<(), DownReason>>, LinkError> {
        let Opened { transport, events } = opened;
        let attached = lock(&self.shared.registry).attach(place.id, link.peer, Arc::clone(&link));
        if let Err(error) = attached {
            transport.close().await;
            return Err(error);
        }
        let (opened, opens) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let driver = Driver::new(link, shared, Arc::clone(&transport), events, opened);
        place.keep();
        transport.beside(Box::pin(driver.run()));
        Ok(opens)
    }
}

/// Whom a dial is to reach.
#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    /// Whoever answers there.
    Url(&'a str),
    /// The node of this account.
    Peer(Did),
}

impl<'a> Target<'a> {
    const fn url(self) -> Option<&'a str> {
        match self {
            Self::Url(url) => Some(url),
            Self::Peer(_) => None,
        }
    }

    const fn peer(self) -> Option<Did> {
        match self {
            Self::Url(_) => None,
            Self::Peer(peer) => Some(peer),
        }
    }
}

fn is_by(wanted: Option<Did>, found: Did) -> Result<(), LinkError> {
    match wanted {
        Some(wanted) if wanted != found => Err(LinkError::OtherSigner { wanted, found }),
        _ => Ok(()),
    }
}

fn mark(offer: &Verified<Offer>) -> Mark {
    Mark {
        offerer: offer.signer(),
        issued_ms: offer.life().issued_ms,
        nonce: *offer.nonce(),
    }
}

fn own_mark(signer: &Signer, offer: &Offer) -> Mark {
    Mark {
        offerer: signer.did(),
        issued_ms: offer.life().issued_ms,
        nonce: *offer.nonce(),
    }
}

/// A handshake's place in the registry, given back when it is dropped.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    id: LinkId,
    kept: bool,
}

impl Place {
    fn begin(shared: &Arc<Shared>, direction: Direction) -> Result<Self, LinkError> {
        let id = lock(&shared.registry).begin(direction)?;
        Ok(Self {
            shared: Arc::clone(shared),
            id,
            kept: false,
        })
    }

    fn may_admit(&self, peer: Did, mark: Mark) -> Result<(), LinkError> {
        lock(&self.shared.registry).may_admit(self.id, peer, mark)
    }

    fn admit(&self, peer: Did, mark: Mark) -> Result<(), LinkError> {
        lock(&self.shared.registry).admit(self.id, peer, mark)
    }

    /// The driver gives it back.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept {
            lock(&self.shared.registry).remove(self.id);
            self.shared.changed();
        }
    }
}
