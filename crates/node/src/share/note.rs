//! What is noted of files beside the kept references to them, and what is asked about a file.

use std::path::PathBuf;

use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};

use super::{NAME_MAX_BYTES, PATH_MAX_BYTES};

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name, without the folders it is in.
    pub name: String,
    /// Its size, in bytes.
    pub size: u64,
    /// BLAKE3 of its bytes.
    pub hash: [u8; 32],
}

/// What is noted beside a kept reference to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A file of this node.
    Shared {
        /// Where it is.
        path: PathBuf,
        /// When it was changed last, in nanoseconds since the Unix epoch.
        modified_ns: u64,
        /// What it was.
        about: About,
    },
    /// Another node's.
    Fetched {
        /// Whose it is.
        from: Did,
        /// The digest of the ticket that led to it.
        ticket: [u8; 32],
        /// What it is.
        about: About,
    },
}

impl Note {
    /// The note in these bytes, if they are one: what is kept may be another program's.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        from_slice(bytes).ok()
    }

    /// The bytes to keep.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_vec(self)
    }

    /// What the file is.
    pub fn about(&self) -> &About {
        match self {
            Self::Shared { about, .. } | Self::Fetched { about, .. } => about,
        }
    }
}

/// A call to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What it is.
    About,
    /// Some of its bytes.
    Part { at: u64, bytes: u32 },
}

impl Encode for About {
    fn encode(&self, writer: &mut Writer) {
        let writer = writer.array(3).text(&self.name);
        writer.value(&self.size).value(&self.hash);
    }
}

impl<'a> Decode<'a> for About {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        reader.expect_array(3)?;
        Ok(Self {
            name: short(reader, NAME_MAX_BYTES)?,
            size: reader.value()?,
            hash: reader.value()?,
        })
    }
}

impl Encode for Note {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Shared {
                path,
                modified_ns,
                about,
            } => {
                let path = path.to_string_lossy();
                let writer = writer.array(4).uint(0).text(&path);
                writer.value(modified_ns).value(about)
            }
            Self::Fetched {
                from,
                ticket,
                about,
            } => {
                let writer = writer.array(4).uint(1).value(from);
                writer.value(ticket).value(about)
            }
        };
    }
}

impl<'a> Decode<'a> for Note {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        reader.expect_array(4)?;
        match reader.u8()? {
            0 => Ok(Self::Shared {
                path: short(reader, PATH_MAX_BYTES)?.into(),
                modified_ns: reader.value()?,
                about: reader.value()?,
            }),
            1 => Ok(Self::Fetched {
                from: reader.value()?,
                ticket: reader.value()?,
                about: reader.value()?,
            }),
            _ => Err(Reader::invalid(at, "note of a file")),
        }
    }
}

impl Encode for Wanted {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::About => writer.array(1).uint(0),
            Self::Part { at, bytes } => writer.array(3).uint(1).value(at).value(bytes),
        };
    }
}

impl<'a> Decode<'a> for Wanted {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let fields = reader.array()?;
        match (reader.u8()?, fields) {
            (0, 1) => Ok(Self::About),
            (1, 3) => Ok(Self::Part {
                at: reader.value()?,
                bytes: reader.value()?,
            }),
            _ => Err(Reader::invalid(at, "call to a file")),
        }
    }
}

/// Text that is judged before it is copied.
fn short(reader: &mut Reader<'_>, most: usize) -> Result<String, CborError> {
    let at = reader.at();
    let text = reader.text()?;
    if text.len() > most {
        return Err(Reader::invalid(at, "text over its bound"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_notes_and_calls_of_files_have_one_form_and_names_are_bounded() {
        let about = About {
            name: "notes.txt".to_owned(),
            size: 7,
            hash: [3; 32],
        };
        for note in [
            Note::Shared {
                path: "/tmp/notes.txt".into(),
                modified_ns: 9,
                about: about.clone(),
            },
            Note::Fetched {
                from: Did([1; 20]),
                ticket: [2; 32],
                about: about.clone(),
            },
        ] {
            assert_eq!(Note::read(&note.to_bytes()), Some(note.clone()));
            assert_eq!(note.about(), &about);
        }
        assert_eq!(Note::read(b"another program's"), None);
        for wanted in [Wanted::About, Wanted::Part { at: 1, bytes: 2 }] {
            assert_eq!(from_slice::<Wanted>(&to_vec(&wanted)), Ok(wanted));
        }
        let long = About {
            name: "n".repeat(NAME_MAX_BYTES + 1),
            ..about
        };
        assert!(from_slice::<About>(&to_vec(&long)).is_err());
    }
}
