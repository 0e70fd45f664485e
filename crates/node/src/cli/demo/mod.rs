//! `demo`: three nodes in this process, each with its own account and store in a temporary
//! folder, linked over WebRTC on loopback. Alice sends; Bob's and Carol's windows say what they
//! make of it. Nothing is staged: the verdicts are the nodes' own, and a step that gets another
//! than it should ends the story with exit code 1.

mod cast;
mod forge;
mod tell;

use overlane_core::replay::Verdict;
use overlane_core::transaction::{ForkEvidence, Message, Namespace};
use overlane_core::wire::cbor::from_slice;
use overlane_core::{Did, Fault, NetworkId};
use overlane_node::Receipt;

use cast::{Actor, Answer};
use forge::{Forger, tampered};
use tell::{Expected, Line, Teller};

use super::output::{Done, Failure, Output};

/// The demo's own network: its nodes hear no others.
const NETWORK: NetworkId = NetworkId(0xde40);

/// How far below the first message the late one lies: inside the window of 32.
const LATE_BELOW: u64 = 5;

/// How far below the first message the stale one lies: beneath the window of 32.
const STALE_BELOW: u64 = 40;

/// Tells the story.
pub(super) fn demo(output: &Output) -> Result<Done, Failure> {
    let folder = tempfile::tempdir().map_err(|cause| {
        let message = format!("make a temporary folder: {cause}");
        Failure::new("demo/folder", Fault::StoreFailedClosed, message)
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(super::no_runtime)?;
    let mut teller = Teller::new(output);
    runtime.block_on(async {
        let mut story = Story::begin(folder.path(), &mut teller).await?;
        let told = story.tell(&mut teller).await;
        story.end().await;
        told
    })?;
    teller.end()
}

struct Story {
    alice: Actor,
    bob: Actor,
    carol: Actor,
    /// Signs for Alice's account what an honest node never would.
    forger: Forger,
}

/// What Alice's node signed, and would offer again.
struct Signed {
    first: Receipt,
    second: Receipt,
    for_carol: Receipt,
}

impl Story {
    async fn begin(folder: &std::path::Path, teller: &mut Teller<'_>) -> Result<Self, Failure> {
        let alice = Actor::start("alice", folder).await?;
        let bob = Actor::start("bob", folder).await?;
        let carol = Actor::start("carol", folder).await?;
        teller.say("three nodes, each with its own account and store:")?;
        for actor in [&alice, &bob, &carol] {
            teller.say(&format!("  {:<6} {}", actor.name, actor.did()))?;
            teller.name(actor.did(), actor.name);
        }
        alice.link_to(&bob).await?;
        alice.link_to(&carol).await?;
        teller.say("alice is linked to bob and to carol, over WebRTC on loopback\n")?;
        let forger = Forger::for_account(&alice.account, NETWORK)?;
        Ok(Self {
            alice,
            bob,
            carol,
            forger,
        })
    }

    async fn tell(&mut self, teller: &mut Teller<'_>) -> Result<(), Failure> {
        let signed = self.honest(teller).await?;
        self.dishonest(&signed, teller).await?;
        self.restart(&signed, teller).await
    }

    /// What an honest sender does, and what a network may do to it.
    async fn honest(&mut self, teller: &mut Teller<'_>) -> Result<Signed, Failure> {
        let first = self
            .send("a first message", "hello", "First", teller)
            .await?;
        let second = self
            .send("a second", "how are you", "Advance", teller)
            .await?;
        self.send("a third", "see you", "Advance", teller).await?;
        let step = "the first one's signed bytes again";
        let again = first.signed.to_vec();
        self.offer(step, again, Expected::verdict("Replay"), teller)
            .await?;
        let for_carol = send(&self.alice, self.carol.did(), "hello carol").await?;
        let answer = self.carol.answer().await?;
        let line = Line::of(
            "the same account to carol: another stream",
            &for_carol,
            answer,
        );
        teller.tell(line, Expected::verdict("First"))?;
        Ok(Signed {
            first,
            second,
            for_carol,
        })
    }

    /// What a thief of the account's key, a liar on the way, or a restored backup does.
    async fn dishonest(&mut self, signed: &Signed, teller: &mut Teller<'_>) -> Result<(), Failure> {
        let bob = self.bob.did();
        let (first, used) = (signed.first.sequence, signed.second.sequence);
        let forged = self.forger.sign(bob, used, b"something else")?;
        let step = "another transaction under the second one's sequence";
        self.offer(step, forged, Expected::verdict("Fork"), teller)
            .await?;
        let stale = self.forger.sign(bob, first - STALE_BELOW, b"long ago")?;
        let step = "one from below the window";
        self.offer(step, stale, Expected::verdict("Stale"), teller)
            .await?;
        let late = self.forger.sign(bob, first - LATE_BELOW, b"sorry, late")?;
        let step = "one that was never seen, inside the window";
        self.offer(step, late, Expected::verdict("Late"), teller)
            .await?;
        let body = b"give bob one coin";
        let whole = self.forger.sign(bob, signed.second.sequence + 100, body)?;
        let step = "a tampered one, refused before the window";
        let tampered = tampered(&whole, body);
        self.offer(
            step,
            tampered,
            Expected::error("payload/bad_signature"),
            teller,
        )
        .await?;
        let astray = self
            .alice
            .node()?
            .offer_via(bob, signed.for_carol.signed.clone());
        let astray = astray.await?;
        let line = Line::of(
            "the one for carol, brought to bob",
            &astray,
            self.bob.answer().await?,
        );
        teller.tell(line, Expected::error("payload/wrong_destination"))
    }

    /// What a restart changes: nothing.
    async fn restart(&mut self, signed: &Signed, teller: &mut Teller<'_>) -> Result<(), Failure> {
        self.bob.stop().await;
        teller.say("\nbob's node is stopped")?;
        let line = self.evidence(signed)?;
        teller.tell(line, Expected::verdict("Fork"))?;
        self.bob.restart().await?;
        self.alice.link_to(&self.bob).await?;
        teller.say("bob's node runs again, on the same store\n")?;
        let step = "after the restart, the first one's signed bytes again";
        let again = signed.first.signed.to_vec();
        self.offer(step, again, Expected::verdict("Replay"), teller)
            .await
    }

    /// The evidence of the fork, as the stopped node's store keeps it, checked by its signatures.
    fn evidence(&self, signed: &Signed) -> Result<Line, Failure> {
        let record = self.bob.fork_record(&signed.second.stream)?;
        let evidence: ForkEvidence = from_slice(&record.evidence)?;
        let fork = evidence.verify()?;
        Ok(Line::of_evidence(
            "the evidence of the fork, from bob's store",
            &fork,
        ))
    }

    /// Has Alice's node sign and send, and tells what Bob's makes of it.
    async fn send(
        &mut self,
        step: &'static str,
        text: &str,
        expected: &'static str,
        teller: &mut Teller<'_>,
    ) -> Result<Receipt, Failure> {
        let receipt = send(&self.alice, self.bob.did(), text).await?;
        let line = Line::of(step, &receipt, self.bob.answer().await?);
        teller.tell(line, Expected::verdict(expected))?;
        Ok(receipt)
    }

    /// Has Alice's node offer signed bytes to Bob's, and tells what Bob's makes of them.
    async fn offer(
        &mut self,
        step: &'static str,
        signed: Vec<u8>,
        expected: Expected,
        teller: &mut Teller<'_>,
    ) -> Result<(), Failure> {
        let receipt = self.alice.node()?.offer_again(signed).await?;
        let line = Line::of(step, &receipt, self.bob.answer().await?);
        teller.tell(line, expected)
    }

    async fn end(self) {
        for mut actor in [self.alice, self.bob, self.carol] {
            actor.stop().await;
        }
    }
}

async fn send(from: &Actor, to: Did, text: &str) -> Result<Receipt, Failure> {
    let message = Message::Application {
        namespace: Namespace::default(),
        body: text.as_bytes(),
    };
    Ok(from.node()?.send(to, message).await?)
}

/// The verdict a refusal or an admission is.
fn verdict_of(answer: &Answer) -> Option<&'static str> {
    use overlane_core::replay::Refusal as Replay;
    use overlane_node::Refusal;
    use overlane_node::api::verdict_word;
    match answer {
        Answer::Admitted(verdict) => Some(verdict_word(*verdict)),
        Answer::Refused(Refusal::Replay(refusal)) => match refusal {
            Replay::Replay { .. } => Some(verdict_word(Verdict::Replay)),
            Replay::Fork(forked) => Some(verdict_word(Verdict::Fork {
                accepted: forked.accepted,
                offered: forked.offered,
            })),
            Replay::Stale { lowest, .. } => Some(verdict_word(Verdict::Stale { lowest: *lowest })),
            _ => None,
        },
        Answer::Refused(_) => None,
    }
}
