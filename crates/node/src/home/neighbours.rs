//! Where the neighbours of the last life took offers, in one small file.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use overlane_core::Did;
use overlane_core::wire::cbor::{CborError, Decode, Encode, Reader, Writer, from_slice, to_vec};

use super::{HomeError, files};
use crate::{NEIGHBOURS_MAX, Neighbour};

/// The longest address as text: IPv6 with a scope and a port.
const ADDRESS_MAX_BYTES: usize = 64;

/// No file of ours is longer.
const FILE_MAX_BYTES: u64 = (NEIGHBOURS_MAX * (ADDRESS_MAX_BYTES + 32) + 16) as u64;

/// `[[did, address], …]`.
#[derive(Debug, PartialEq, Eq)]
struct Kept(Vec<Neighbour>);

impl Encode for Kept {
    fn encode(&self, writer: &mut Writer) {
        writer.array(self.0.len());
        for neighbour in &self.0 {
            let at = neighbour.at.to_string();
            writer.array(2).value(&neighbour.did).text(&at);
        }
    }
}

impl<'a> Decode<'a> for Kept {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, CborError> {
        let at = reader.at();
        let count = reader.array()?;
        if count > NEIGHBOURS_MAX {
            return Err(Reader::invalid(at, "number of neighbours"));
        }
        let mut neighbours = Vec::with_capacity(count);
        for _ in 0..count {
            reader.expect_array(2)?;
            let did: Did = reader.value()?;
            let at = reader.at();
            let address: Option<SocketAddr> = reader.text()?.parse().ok();
            let address = address.ok_or_else(|| Reader::invalid(at, "address"))?;
            neighbours.push(Neighbour { did, at: address });
        }
        Ok(Self(neighbours))
    }
}

/// What the file holds; nothing where there is none, or one that does not read: it is a help and no more.
pub(super) fn read(path: &Path) -> Vec<Neighbour> {
    let mut bytes = Vec::new();
    let read = match File::open(path) {
        Ok(file) => file.take(FILE_MAX_BYTES).read_to_end(&mut bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => Err(error),
    };
    let kept = read.map_err(|error| error.to_string());
    let kept = kept.and_then(|_| from_slice(&bytes).map_err(|error| error.to_string()));
    match kept {
        Ok(Kept(neighbours)) => neighbours,
        Err(cause) => {
            tracing::warn!(path = %path.display(), cause, "the neighbours of before are not known");
            Vec::new()
        }
    }
}

pub(super) fn write(path: &Path, neighbours: &[Neighbour]) -> Result<(), HomeError> {
    let kept = Kept(neighbours.iter().take(NEIGHBOURS_MAX).copied().collect());
    files::replace(path, &to_vec(&kept), files::PRIVATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_kept_within_their_bound_and_a_file_that_does_not_read_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("neighbours");
        assert_eq!(read(&path), []);
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535";
        assert!(longest.len() <= ADDRESS_MAX_BYTES);
        let neighbours: Vec<Neighbour> = (0..20)
            .map(|number| Neighbour {
                did: Did([number; 20]),
                at: longest.parse().unwrap(),
            })
            .collect();
        write(&path, &neighbours).unwrap();
        assert_eq!(read(&path), neighbours[..NEIGHBOURS_MAX]);
        let whole = std::fs::read(&path).unwrap();
        for bad in [
            &whole[..whole.len() - 1],
            &[],
            b"no neighbours",
            &[0x80; 9_000],
        ] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(read(&path), []);
        }
    }
}
