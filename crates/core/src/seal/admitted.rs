//! Opening what was admitted.
//!
//! Law (admitted, then opened): only an admitted message is opened, so a message that does not open is
//! consumed as any is: it has its place in the window, paid its quota, and comes no second time.

use super::direct::{SEALED_NAMESPACE, SealContext, open};
use super::error::SealError;
use super::key::SealingSecret;
use crate::identity::Verified;
use crate::replay::Admitted;
use crate::transaction::{Message, Payload};

impl Admitted<Verified<Payload>> {
    /// Opens a sealed message: from then on its payload's
    /// [`message`](Verified::<Payload>::message) is what was inside. One that is not sealed, or is
    /// open already, stays as it is.
    ///
    /// # Errors
    /// It does not open for this secret and for who signed it, or no application message is inside.
    pub fn open(&mut self, secret: &SealingSecret) -> Result<(), SealError> {
        let payload = self.item();
        if !payload.is_sealed() || payload.is_open() {
            return Ok(());
        }
        let stream = payload.stream();
        let context = SealContext {
            network: stream.network,
            origin: stream.origin,
            destination: stream.destination,
        };
        let opened = open(
            secret,
            &context,
            payload.transaction().data().message().body(),
        )?;
        self.item_mut().set_open(opened);
        Ok(())
    }
}

impl Verified<Payload> {
    /// Whether its message travels sealed.
    pub fn is_sealed(&self) -> bool {
        match self.transaction().data().message() {
            Message::Application { namespace, .. } => namespace.as_str() == SEALED_NAMESPACE,
            _ => false,
        }
    }
}
