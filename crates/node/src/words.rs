//! Instants and counts as people read them.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

/// The last instant of the year 9999: what formats a time goes no further.
const LAST_MS: u64 = 253_402_300_799_999;

/// An instant, in milliseconds of Unix time, as people read it; another node may have named any.
pub fn instant(unix_ms: u64) -> String {
    match unix_ms {
        ..=LAST_MS => httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(unix_ms)),
        _ => format!("{unix_ms} ms of Unix time"),
    }
}

/// So many of them, in words: `name` stands for one.
pub fn counted(count: impl fmt::Display, name: &str) -> String {
    match count.to_string().as_str() {
        "1" => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_instant_can_be_shown() {
        assert_eq!(instant(1_796_039_759_123), "Mon, 30 Nov 2026 11:55:59 GMT");
        assert_eq!(instant(LAST_MS), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert!(instant(LAST_MS + 1).ends_with("of Unix time"));
        assert_eq!(instant(u64::MAX), format!("{} ms of Unix time", u64::MAX));
    }

    #[test]
    fn one_is_named_as_one() {
        let named = [0, 1, 2].map(|count| counted(count, "link"));
        assert_eq!(named, ["0 links", "1 link", "2 links"]);
    }
}
