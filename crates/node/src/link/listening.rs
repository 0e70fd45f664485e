//! Where a node takes offers, as it says in the descriptions that it signs: a port, of the address that its link
//! leads to.
//!
//! Law **its own address**: a peer names a port alone. The address is the one that the link to it leads to: the peer's,
//! or that of the NAT or relay that it is behind. What is said is under the delegatee's signature, as all of a description.

use std::num::NonZeroU16;

use super::sdp::SdpError;

/// The attribute of a description that says the port. Who does not know it passes over it (RFC 8866, section 5.13).
const ATTRIBUTE: &str = "x-overlane-listens";

/// A description that says the port as well. It is the last line, and as short as a candidate.
pub(super) fn told(sdp: String, port: Option<NonZeroU16>) -> String {
    match port {
        Some(port) => format!("{}\r\na={ATTRIBUTE}:{port}\r\n", sdp.trim_end()),
        None => sdp,
    }
}

/// The port in a description that was checked.
pub(super) fn said(sdp: &str) -> Option<NonZeroU16> {
    sdp.lines().find_map(|line| {
        let (name, value) = line.strip_prefix("a=")?.split_once(':')?;
        port(name, value).ok()?
    })
}

/// The port that an attribute says; `None` of another attribute.
///
/// # Errors
/// [`SdpError::Listens`] if it is no port in its one form.
pub(super) fn port(name: &str, value: &str) -> Result<Option<NonZeroU16>, SdpError> {
    if name != ATTRIBUTE {
        return Ok(None);
    }
    let port: Option<NonZeroU16> = value.parse().ok();
    let port = port.filter(|port| port.to_string() == value);
    port.map(Some).ok_or(SdpError::Listens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_a_port_has_one_form_and_is_none_of_zero() {
        let port = NonZeroU16::new(7_420);
        let sdp = told("v=0\r\na=sendrecv\r\n".to_owned(), port);
        assert_eq!(sdp, "v=0\r\na=sendrecv\r\na=x-overlane-listens:7420\r\n");
        assert_eq!(said(&sdp), port);
        let silent = "v=0\r\na=sendrecv\r\n";
        assert_eq!(told(silent.to_owned(), None), silent);
        assert_eq!(said(silent), None);
        for bad in ["", "0", "65536", "07420", "+7420", "7420 ", "-1", "port"] {
            assert_eq!(
                super::port(ATTRIBUTE, bad),
                Err(SdpError::Listens),
                "{bad:?}"
            );
            assert_eq!(said(&format!("a={ATTRIBUTE}:{bad}\r\n")), None, "{bad:?}");
        }
        assert_eq!(super::port("candidate", "0"), Ok(None));
    }
}
