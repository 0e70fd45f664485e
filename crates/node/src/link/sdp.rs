//! What a session description may hold before the WebRTC crate's parser sees it.
//!
//! Law (one connection, one proof): a description that passes has exactly one section, it carries
//! data channels, and exactly one SHA-256 fingerprint stands in it. The delegatee signs the
//! description, so the fingerprint that DTLS proves is the one that the signer named.
//!
//! Law (one reading): the parser reads the same lines and words as the check. It is lenient where
//! RFC 8866 is not: it skips a carriage return before a line, trims what stands around a value, and
//! parts words at any Unicode space. So a description holds printable ASCII alone, each line begins
//! with one letter and `=`, and no space stands around its value.

use std::net::IpAddr;

use overlane_core::wire::bounds::SDP_MAX_BYTES;
use overlane_core::{Coded, Fault};

use super::ice::LinkPath;
use super::listening;
use super::tried::Way;

/// The most lines of a session description.
pub const SDP_MAX_LINES: usize = 96;

/// The most candidates of a session description.
pub const SDP_MAX_CANDIDATES: usize = 4;

/// The shortest and the longest ICE user name fragment. Source: RFC 8839, section 5.4.
const ICE_UFRAG_CHARS: std::ops::RangeInclusive<usize> = 4..=256;

/// The shortest and the longest ICE password. Source: RFC 8839, section 5.4.
const ICE_PWD_CHARS: std::ops::RangeInclusive<usize> = 22..=256;

const _: () = assert!(SDP_MAX_CANDIDATES < SDP_MAX_LINES);

/// A SHA-256 certificate fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// Which addresses a peer may name as its own. A node that listens on loopback is never made to
/// send a datagram elsewhere, nor one on a network to its own loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Loopback addresses only.
    Loopback,
    /// Unicast addresses that are not loopback.
    Network,
}

impl Reach {
    /// What a socket bound to `address` may reach.
    pub fn of(address: IpAddr) -> Self {
        if address.is_loopback() {
            Self::Loopback
        } else {
            Self::Network
        }
    }

    fn allows(self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6 dress goes where the IPv4 address goes.
        let address = address.to_canonical();
        match self {
            Self::Loopback => address.is_loopback(),
            Self::Network => {
                let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
                !(address.is_loopback()
                    || address.is_unspecified()
                    || address.is_multicast()
                    || broadcast)
            }
        }
    }
}

/// Checks a session description and tells the fingerprint in it.
///
/// # Errors
/// [`SdpError`], the first thing found wrong.
pub fn check(sdp: &str, reach: Reach) -> Result<Fingerprint, SdpError> {
    if sdp.len() > SDP_MAX_BYTES {
        return Err(SdpError::TooLong { bytes: sdp.len() });
    }
    let mut found = Found::default();
    for (at, line) in sdp.lines().enumerate() {
        if at >= SDP_MAX_LINES {
            return Err(SdpError::TooManyLines);
        }
        found.line(line, reach)?;
    }
    found.whole()
}

/// A description of this node's as it is told: with every candidate once, as the crate says each a
/// second time, for a second component that data channels do not have; and without those that a peer
/// would refuse the whole of it for: a server may tell any address.
pub(super) fn told(sdp: &str, reach: Reach) -> String {
    let stays = |line: &&str| {
        let Some(candidate) = line.strip_prefix("a=candidate:") else {
            return true;
        };
        let again = candidate.split(' ').nth(1) == Some("2");
        !again && check_candidate(candidate.trim_end(), reach).is_ok()
    };
    sdp.split_inclusive('\n').filter(stays).collect()
}

/// The addresses in a session description that was checked.
pub(super) fn offered(sdp: &str) -> Vec<Way> {
    let candidates = sdp
        .lines()
        .filter_map(|line| line.strip_prefix("a=candidate:"));
    candidates
        .filter_map(way)
        .take(SDP_MAX_CANDIDATES)
        .collect()
}

fn way(candidate: &str) -> Option<Way> {
    let mut words = candidate.split_ascii_whitespace().skip(4);
    let address: IpAddr = words.next()?.parse().ok()?;
    let port: u16 = words.next()?.parse().ok()?;
    let kind = match words.nth(1)? {
        "host" => LinkPath::Host,
        "relay" => LinkPath::Relayed,
        _ => LinkPath::Reflexive,
    };
    Some(Way {
        kind,
        address: (address, port).into(),
        answered: false,
    })
}

/// What the lines read so far held.
#[derive(Debug, Default)]
struct Found {
    sections: usize,
    candidates: usize,
    fingerprint: Option<Fingerprint>,
    ufrag: bool,
    pwd: bool,
    listens: bool,
}

impl Found {
    fn line(&mut self, line: &str, reach: Reach) -> Result<(), SdpError> {
        let (kind, value) = line.split_once('=').ok_or(SdpError::NotALine)?;
        let printable = line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !printable || kind.len() != 1 || value.trim() != value {
            return Err(SdpError::NotALine);
        }
        match kind {
            "m" => self.section(value),
            "a" => {
                let (name, value) = value.split_once(':').unwrap_or((value, ""));
                self.attribute(name, value, reach)
            }
            _ => Ok(()),
        }
    }

    fn section(&mut self, value: &str) -> Result<(), SdpError> {
        self.sections += 1;
        let mut words = value.split_ascii_whitespace();
        let data = words.next() == Some("application")
            && words.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && words.next() == Some("UDP/DTLS/SCTP")
            && words.next() == Some("webrtc-datachannel")
            && words.next().is_none();
        if data && self.sections == 1 {
            Ok(())
        } else {
            Err(SdpError::Sections)
        }
    }

    fn attribute(&mut self, name: &str, value: &str, reach: Reach) -> Result<(), SdpError> {
        match name {
            "fingerprint" => {
                let fingerprint = parse_fingerprint(value)?;
                if self.fingerprint.replace(fingerprint).is_some() {
                    return Err(SdpError::Fingerprints);
                }
            }
            "candidate" => {
                self.candidates += 1;
                if self.candidates > SDP_MAX_CANDIDATES {
                    return Err(SdpError::TooManyCandidates);
                }
                check_candidate(value, reach)?;
            }
            "ice-ufrag" => once(&mut self.ufrag, value, &ICE_UFRAG_CHARS)?,
            "ice-pwd" => once(&mut self.pwd, value, &ICE_PWD_CHARS)?,
            _ => {
                let port = listening::port(name, value)?;
                if port.is_some() && std::mem::replace(&mut self.listens, true) {
                    return Err(SdpError::Listens);
                }
            }
        }
        Ok(())
    }

    fn whole(self) -> Result<Fingerprint, SdpError> {
        if self.sections != 1 {
            return Err(SdpError::Sections);
        }
        if !(self.ufrag && self.pwd) {
            return Err(SdpError::IceCredentials);
        }
        if self.candidates == 0 {
            return Err(SdpError::NoCandidate);
        }
        self.fingerprint.ok_or(SdpError::Fingerprints)
    }
}

fn once(
    seen: &mut bool,
    value: &str,
    chars: &std::ops::RangeInclusive<usize>,
) -> Result<(), SdpError> {
    let first = !std::mem::replace(seen, true);
    if first && chars.contains(&value.len()) {
        Ok(())
    } else {
        Err(SdpError::IceCredentials)
    }
}

fn parse_fingerprint(value: &str) -> Result<Fingerprint, SdpError> {
    let hex = value
        .split_once(' ')
        .filter(|(algorithm, _)| algorithm.eq_ignore_ascii_case("sha-256"))
        .map(|(_, hex)| hex)
        .ok_or(SdpError::FingerprintKind)?;
    let mut fingerprint = [0; 32];
    let mut pairs = hex.split(':');
    for byte in &mut fingerprint {
        *byte = pairs
            .next()
            .filter(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
            .ok_or(SdpError::FingerprintKind)?;
    }
    match pairs.next() {
        None => Ok(Fingerprint(fingerprint)),
        Some(_) => Err(SdpError::FingerprintKind),
    }
}

/// `foundation component transport priority address port typ …` (RFC 8839, section 5.1).
fn check_candidate(value: &str, reach: Reach) -> Result<(), SdpError> {
    let mut words = value.split_ascii_whitespace().skip(2);
    let transport = words.next().ok_or(SdpError::Candidate)?;
    if !transport.eq_ignore_ascii_case("udp") {
        return Err(SdpError::CandidateTransport);
    }
    let address = words.nth(1).ok_or(SdpError::Candidate)?;
    let address: IpAddr = address.parse().map_err(|_| SdpError::CandidateName)?;
    let port = words.next().and_then(|port| port.parse::<u16>().ok());
    if port.is_none_or(|port| port == 0) || words.next() != Some("typ") {
        return Err(SdpError::Candidate);
    }
    if reach.allows(address) {
        Ok(())
    } else {
        Err(SdpError::CandidateReach { address, reach })
    }
}

/// Why a session description was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SdpError {
    /// Longer than [`SDP_MAX_BYTES`].
    #[error("a session description of {bytes} bytes; {SDP_MAX_BYTES} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More than [`SDP_MAX_LINES`] lines.
    #[error("a session description of more than {SDP_MAX_LINES} lines")]
    TooManyLines,
    /// A line that is not one letter, `=` and a value in printable ASCII without spaces around it.
    #[error("a line of the session description is not type=value in printable ASCII")]
    NotALine,
    /// Not exactly one section, or not one of data channels.
    #[error(
        "a session description must have one section, of data channels over DTLS, and no other"
    )]
    Sections,
    /// Not exactly one fingerprint.
    #[error("a session description must have exactly one fingerprint")]
    Fingerprints,
    /// A fingerprint that is not of SHA-256.
    #[error("a fingerprint must be 32 bytes of sha-256")]
    FingerprintKind,
    /// ICE credentials missing, repeated, or of a length that RFC 8839 does not allow.
    #[error("a session description must have one ICE user name fragment and one password")]
    IceCredentials,
    /// No candidate.
    #[error("a session description without a candidate: its peer cannot be reached")]
    NoCandidate,
    /// More than [`SDP_MAX_CANDIDATES`] candidates.
    #[error("a session description of more than {SDP_MAX_CANDIDATES} candidates")]
    TooManyCandidates,
    /// A candidate that is not in the form of RFC 8839.
    #[error("a malformed candidate")]
    Candidate,
    /// A candidate over something else than UDP.
    #[error("a candidate over another transport than UDP")]
    CandidateTransport,
    /// A candidate that gives a name where an address belongs.
    #[error("a candidate that names a host instead of an address")]
    CandidateName,
    /// The port that its node takes offers on, more than once, or not as a number from 1 to 65535.
    #[error("a session description that says its node's port twice, or as no port")]
    Listens,
    /// A candidate that this node must not send to.
    #[error(
        "the candidate {address} is out of this node's reach ({reach:?}): bind links to an address that can reach it"
    )]
    CandidateReach {
        /// The address.
        address: IpAddr,
        /// Where this node's sockets may send.
        reach: Reach,
    },
}

impl Coded for SdpError {
    fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "sdp/too_long",
            Self::TooManyLines => "sdp/too_many_lines",
            Self::NotALine => "sdp/not_a_line",
            Self::Sections => "sdp/sections",
            Self::Fingerprints => "sdp/fingerprints",
            Self::FingerprintKind => "sdp/fingerprint_kind",
            Self::IceCredentials => "sdp/ice_credentials",
            Self::NoCandidate => "sdp/no_candidate",
            Self::TooManyCandidates => "sdp/too_many_candidates",
            Self::Candidate => "sdp/candidate",
            Self::CandidateTransport => "sdp/candidate_transport",
            Self::CandidateName => "sdp/candidate_name",
            Self::Listens => "sdp/listens",
            Self::CandidateReach { .. } => "sdp/candidate_reach",
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::CandidateReach { .. } => Fault::RefusedByBound,
            _ => Fault::PeerMisbehaved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "a=fingerprint:sha-256 \
        00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:\
        10:11:12:13:14:15:16:17:18:19:1a:1b:1c:1d:1e:1f";
    const PORT: &str = "a=x-overlane-listens:7420";
    const CANDIDATE: &str = "a=candidate:1 1 udp 2130706431 127.0.0.1 40000 typ host";

    fn sdp(lines: &[&str]) -> String {
        let head = [
            "v=0",
            "o=- 1 2 IN IP4 0.0.0.0",
            "s=-",
            "t=0 0",
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
            "a=ice-ufrag:abcd",
            "a=ice-pwd:0123456789012345678901",
        ];
        let mut sdp = String::new();
        for line in head.iter().chain(lines) {
            sdp.push_str(line);
            sdp.push_str("\r\n");
        }
        sdp
    }

    #[test]
    fn law_one_section_and_one_fingerprint_pass() {
        for lines in [
            &[FINGERPRINT, CANDIDATE][..],
            &[FINGERPRINT, CANDIDATE, PORT],
        ] {
            let fingerprint = check(&sdp(lines), Reach::Loopback).unwrap();
            assert_eq!(fingerprint.0, std::array::from_fn(|at| at as u8));
        }
    }

    #[test]
    fn what_a_peer_offers_is_read_by_kind_and_address() {
        let relayed = "a=candidate:3 1 udp 7 192.0.2.9 49152 typ relay raddr 192.0.2.1 rport 40000";
        let natted = "a=candidate:2 1 udp 9 [2001:db8::1] 9 typ srflx raddr 192.0.2.1 rport 40000";
        let natted = natted.replace(['[', ']'], "");
        let ways = offered(&format!(
            "v=0\n{CANDIDATE}\n{natted}\n{relayed}\na=candidate:x\n"
        ));
        let ways: Vec<_> = ways
            .iter()
            .map(|it| (it.kind, it.address.to_string()))
            .collect();
        let expected = [
            (LinkPath::Host, "127.0.0.1:40000".to_owned()),
            (LinkPath::Reflexive, "[2001:db8::1]:9".to_owned()),
            (LinkPath::Relayed, "192.0.2.9:49152".to_owned()),
        ];
        assert_eq!(ways, expected);
    }

    #[test]
    fn a_candidate_is_said_once() {
        let again = "a=candidate:1 2 udp 2130706431 127.0.0.1 40000 typ host";
        let twice = sdp(&[FINGERPRINT, CANDIDATE, again]);
        assert_eq!(
            told(&twice, Reach::Loopback),
            sdp(&[FINGERPRINT, CANDIDATE])
        );
    }

    #[test]
    fn law_what_a_server_says_of_this_node_spoils_no_description() {
        let own = "a=candidate:1 1 udp 2130706431 192.0.2.1 40000 typ host";
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
        ] {
            let told_by_it = format!(
                "a=candidate:2 1 udp 1694498815 {address} 9 typ srflx raddr 192.0.2.1 rport 40000"
            );
            let spoilt = sdp(&[FINGERPRINT, own, &told_by_it]);
            assert!(check(&spoilt, Reach::Network).is_err(), "{address}");
            let told = told(&spoilt, Reach::Network);
            assert_eq!(told, sdp(&[FINGERPRINT, own]), "{address}");
            assert!(check(&told, Reach::Network).is_ok(), "{address}");
        }
    }

    #[test]
    fn what_a_description_must_not_be() {
        let video = "m=video 9 UDP/TLS/RTP/SAVPF 96";
        let data = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel";
        let sha1 =
            "a=fingerprint:sha-1 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13";
        let tcp = "a=candidate:1 1 tcp 2130706431 127.0.0.1 9 typ host tcptype active";
        let name = "a=candidate:1 1 udp 2130706431 d3adb33f.local 40000 typ host";
        let lan = "a=candidate:1 1 udp 2130706431 192.168.1.7 40000 typ host";
        let port_zero = "a=candidate:1 1 udp 2130706431 127.0.0.1 0 typ host";
        let cases: &[(&[&str], SdpError)] = &[
            (&[CANDIDATE], SdpError::Fingerprints),
            (
                &[FINGERPRINT, FINGERPRINT, CANDIDATE],
                SdpError::Fingerprints,
            ),
            (&[sha1, CANDIDATE], SdpError::FingerprintKind),
            (
                &["a=fingerprint:sha-256 00:01", CANDIDATE],
                SdpError::FingerprintKind,
            ),
            (
                &["a=fingerprint:sha-256 +1:01", CANDIDATE],
                SdpError::FingerprintKind,
            ),
            (&[FINGERPRINT, CANDIDATE, video], SdpError::Sections),
            (&[FINGERPRINT, CANDIDATE, data], SdpError::Sections),
            (&[FINGERPRINT], SdpError::NoCandidate),
            (&[FINGERPRINT, tcp], SdpError::CandidateTransport),
            (&[FINGERPRINT, name], SdpError::CandidateName),
            (&[FINGERPRINT, port_zero], SdpError::Candidate),
            (&[FINGERPRINT, "a=candidate:1 1"], SdpError::Candidate),
            (
                &[FINGERPRINT, CANDIDATE, "a=ice-ufrag:efgh"],
                SdpError::IceCredentials,
            ),
            (
                &[FINGERPRINT, CANDIDATE, "a=x-overlane-listens:0"],
                SdpError::Listens,
            ),
            (&[FINGERPRINT, CANDIDATE, PORT, PORT], SdpError::Listens),
            (&[FINGERPRINT, CANDIDATE, "nonsense"], SdpError::NotALine),
            (&[FINGERPRINT, CANDIDATE, "ab=c"], SdpError::NotALine),
            (
                &[FINGERPRINT, lan],
                SdpError::CandidateReach {
                    address: "192.168.1.7".parse().unwrap(),
                    reach: Reach::Loopback,
                },
            ),
        ];
        for (lines, error) in cases {
            assert_eq!(
                check(&sdp(lines), Reach::Loopback),
                Err(error.clone()),
                "{lines:?}"
            );
        }
        assert_eq!(check("v=0\r\n", Reach::Loopback), Err(SdpError::Sections));
    }

    #[test]
    fn a_node_on_a_network_is_not_made_to_probe_itself() {
        let loopback = check(&sdp(&[FINGERPRINT, CANDIDATE]), Reach::Network);
        assert!(matches!(loopback, Err(SdpError::CandidateReach { .. })));
        let lan = "a=candidate:1 1 udp 2130706431 192.168.1.7 40000 typ host";
        assert!(check(&sdp(&[FINGERPRINT, lan]), Reach::Network).is_ok());
        for address in [
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.1",
        ] {
            let line = format!("a=candidate:1 1 udp 2130706431 {address} 40000 typ host");
            let refused = check(&sdp(&[FINGERPRINT, &line]), Reach::Network);
            assert!(
                matches!(refused, Err(SdpError::CandidateReach { .. })),
                "{address}"
            );
        }
    }

    /// Each of these is another candidate or section to the crate's parser, and was none to a check
    /// that read lines and words its own way.
    #[test]
    fn law_nothing_is_hidden_from_the_check_that_the_parser_sees() {
        const AWAY: &str = "candidate:1 1 udp 2130706431 10.0.0.1 40000 typ host";
        let spaced = AWAY.replace(' ', "\u{a0}");
        for hidden in [
            format!("\ra={AWAY}"),
            format!("a= {AWAY}"),
            format!("a=\u{a0}{AWAY}"),
            format!("a=x\ra={AWAY}"),
            format!("a={spaced} x udp 1 127.0.0.1 9 typ host"),
            "\rm=video 9 UDP/TLS/RTP/SAVPF 96".to_owned(),
            format!("a=x:\u{2028}{AWAY}"),
        ] {
            let sdp = sdp(&[FINGERPRINT, CANDIDATE, &hidden]);
            assert_eq!(
                check(&sdp, Reach::Loopback),
                Err(SdpError::NotALine),
                "{hidden:?}"
            );
        }
    }

    #[test]
    fn the_bounds_are_filled_and_held() {
        let mut lines = vec![FINGERPRINT];
        lines.extend([CANDIDATE; SDP_MAX_CANDIDATES]);
        assert!(check(&sdp(&lines), Reach::Loopback).is_ok());
        lines.push(CANDIDATE);
        let refused = check(&sdp(&lines), Reach::Loopback);
        assert_eq!(refused, Err(SdpError::TooManyCandidates));

        let mut lines = vec![FINGERPRINT, CANDIDATE];
        lines.resize(SDP_MAX_LINES - 7, "a=sendrecv");
        assert!(check(&sdp(&lines), Reach::Loopback).is_ok());
        lines.push("a=sendrecv");
        assert_eq!(
            check(&sdp(&lines), Reach::Loopback),
            Err(SdpError::TooManyLines)
        );

        let base = sdp(&[FINGERPRINT, CANDIDATE]);
        let pad = |bytes: usize| format!("{base}a=x:{}\r\n", "y".repeat(bytes - base.len() - 6));
        assert!(check(&pad(SDP_MAX_BYTES), Reach::Loopback).is_ok());
        assert_eq!(
            check(&pad(SDP_MAX_BYTES + 1), Reach::Loopback),
            Err(SdpError::TooLong {
                bytes: SDP_MAX_BYTES + 1
            })
        );
    }
}
