//! Batches: small payload frames of one lane that share a message.
//!
//! A message costs a channel the same whatever it holds, and a window counts messages. So what waits
//! in a lane when its turn comes leaves together, as far as it fits; nothing waits for company. Law
//! (one form): a batch holds two frames or more, whole, in their lane's order, and decodes only from
//! the bytes that encoding it gives.

use bytes::Bytes;

use crate::wire::bounds::{BATCH_MAX_BYTES, BATCH_MAX_FRAMES, MARKER_BYTES};
use crate::wire::cbor::{CborError, Reader, Writer};
use crate::wire::frame::{BATCH_MARKER, Frame};

/// How long a message is as frames join it.
#[derive(Debug)]
pub(super) struct Measure {
    frames: usize,
    items_bytes: usize,
    max_frames: usize,
}

impl Measure {
    /// Of a message that begins with a frame of this size, and holds at most `max_frames`.
    pub(super) fn of(first_bytes: usize, max_frames: usize) -> Self {
        Self {
            frames: 1,
            items_bytes: item_bytes(first_bytes),
            max_frames: max_frames.min(BATCH_MAX_FRAMES),
        }
    }

    /// How long the message is with another frame of this size; `None` if it does not fit.
    pub(super) fn with(&self, size_bytes: usize) -> Option<usize> {
        let frames = self.frames.saturating_add(1);
        let items = self.items_bytes.saturating_add(item_bytes(size_bytes));
        let whole = items.saturating_add(MARKER_BYTES + head_bytes(frames));
        (frames <= self.max_frames && whole <= BATCH_MAX_BYTES).then_some(whole)
    }

    /// Another frame, which fits.
    pub(super) fn push(&mut self, size_bytes: usize) {
        self.frames = self.frames.saturating_add(1);
        self.items_bytes = self.items_bytes.saturating_add(item_bytes(size_bytes));
    }

    /// Frames in it.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// The batch of these frames, which are those that were measured, two or more.
    pub(super) fn join<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let head_bytes = MARKER_BYTES + head_bytes(self.frames);
        let mut message = Vec::with_capacity(head_bytes.saturating_add(self.items_bytes));
        message.extend_from_slice(&BATCH_MARKER);
        let mut writer = Writer::append(message);
        writer.array(self.frames);
        for frame in frames {
            writer.bytes(frame);
        }
        writer.into_bytes()
    }
}

/// The frames of a batch, slices of it, from what follows its marker.
///
/// # Errors
/// Not the one form of a batch, or something in it that is no payload frame.
pub(super) fn split(body: &Bytes) -> Result<Vec<Bytes>, CborError> {
    let mut reader = Reader::new(body);
    let at = reader.at();
    let frames = reader.array()?;
    if !(2..=BATCH_MAX_FRAMES).contains(&frames) {
        return Err(Reader::invalid(at, "number of frames in a batch"));
    }
    let mut split = Vec::with_capacity(frames);
    for _ in 0..frames {
        let at = reader.at();
        let frame = reader.bytes()?;
        if !matches!(Frame::split(frame), Ok(Frame::Payload(_))) {
            return Err(Reader::invalid(at, "frame in a batch"));
        }
        split.push(body.slice_ref(frame));
    }
    reader.finish()?;
    Ok(split)
}

const fn item_bytes(size_bytes: usize) -> usize {
    head_bytes(size_bytes).saturating_add(size_bytes)
}

/// The length of a CBOR head with this argument.
const fn head_bytes(argument: usize) -> usize {
    match argument {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::frame::{CONTROL_MARKER, PAYLOAD_MARKER};

    fn frame(size: usize) -> Vec<u8> {
        let mut frame = PAYLOAD_MARKER.to_vec();
        frame.resize(MARKER_BYTES + size, 7);
        frame
    }

    proptest! {
        #[test]
        fn prop_a_batch_comes_back_and_is_as_long_as_was_said(
            sizes in proptest::collection::vec(0usize..900, 2..40)
        ) {
            let mut measure = Measure::of(MARKER_BYTES + sizes[0], BATCH_MAX_FRAMES);
            let mut whole = 0;
            for &size in &sizes[1..] {
                let Some(with) = measure.with(MARKER_BYTES + size) else { break };
                whole = with;
                measure.push(MARKER_BYTES + size);
            }
            let count = measure.frames();
            let sent: Vec<_> = sizes[..count].iter().map(|&size| frame(size)).collect();
            let message = measure.join(sent.iter().map(Vec::as_slice));
            prop_assert_eq!(message.len(), whole);
            let Ok(Frame::Batch(body)) = Frame::split(&message) else { panic!("no batch") };
            let came = split(&Bytes::copy_from_slice(body)).unwrap();
            prop_assert_eq!(came, sent);
        }
    }

    #[test]
    fn prop_a_batch_has_one_form() {
        let written = |frames: &[&[u8]]| -> Bytes {
            let mut writer = Writer::new();
            writer.array(frames.len());
            for frame in frames {
                writer.bytes(frame);
            }
            writer.into_bytes().into()
        };
        let one = frame(1);
        assert!(split(&written(&[&one[..]; 2])).is_ok());
        assert!(split(&written(&[&one[..]; BATCH_MAX_FRAMES])).is_ok());
        // Alone it needs no batch; more are too many.
        assert!(split(&written(&[&one[..]; 1])).is_err());
        assert!(split(&written(&[])).is_err());
        assert!(split(&written(&[&one[..]; BATCH_MAX_FRAMES + 1])).is_err());
        // No batch in a batch, no control in it, nothing behind it.
        for marker in [&BATCH_MARKER[..], &CONTROL_MARKER, b"none", b""] {
            assert!(split(&written(&[&one[..], marker])).is_err());
        }
        let mut trailing = written(&[&one[..]; 2]).to_vec();
        trailing.push(0);
        assert!(split(&trailing.into()).is_err());
    }
}
