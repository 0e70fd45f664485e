//! What stands before the local API on TCP.
//!
//! Law (own pages alone): everybody on this machine can connect to a port of the loopback, and so can
//! every page in a browser on it. So a request is answered only if it names the host by a name of the
//! list (a page of a stranger whose name was made to lead here names its own), comes from no page or
//! from a page of the list, and brings the token, which only who may read the home can know. Nothing
//! tells a browser that other pages may read an answer: there is no CORS. The dashboard's own files, which
//! say nothing of any node, need no token; all else is the same. What is refused is counted, by code.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use overlane_core::{Coded, Fault};
use zeroize::Zeroizing;

use super::error::ApiError;
use crate::home::{Home, HomeError};

/// Names that are allowed beside the address itself.
pub const ALLOWED_MAX: usize = 16;

/// What says in a browser's request where it comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What says in it that a whole tab goes there, and not a page that loads something.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The token's bytes before they are written in hexadecimal.
const TOKEN_BYTES: usize = 32;

/// Who may ask the local API on TCP.
pub struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: Zeroizing<String>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

/// Why a gate cannot be put up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The platform gave no random bytes.
    #[error("the platform gives no randomness for a token: {cause}")]
    NoRandomness {
        /// The platform's words.
        cause: String,
    },
    /// Others on this machine may have read the token, or put it there.
    #[error("{path} can be read by others, or is another user's: whoever has it drives the node")]
    TokenOpen {
        /// The file.
        path: String,
    },
    /// The token's file is none.
    #[error("{path} does not hold a token of {} hexadecimal digits", 2 * TOKEN_BYTES)]
    TokenForm {
        /// The file.
        path: String,
    },
    /// The platform refused.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Coded for GateError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoRandomness { .. } => "api/no_randomness",
            Self::TokenOpen { .. } => "api/token_open",
            Self::TokenForm { .. } => "api/token_form",
            Self::Home(error) => error.code(),
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::NoRandomness { .. } => Fault::RefusedByBound,
            Self::TokenOpen { .. } | Self::TokenForm { .. } => Fault::StoreFailedClosed,
            Self::Home(error) => error.fault(),
        }
    }
}

impl Gate {
    /// The gate of what listens at `address`, with the home's token, which is made if there is none.
    /// `hosts` and `origins` are allowed beside the address itself.
    ///
    /// # Errors
    /// [`GateError`]
    pub fn new(
        home: &Home,
        address: SocketAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Result<Self, GateError> {
        let port = address.port();
        let own = [address.to_string(), format!("localhost:{port}")];
        let pages = own.iter().map(|host| format!("http://{host}"));
        Ok(Self {
            hosts: own
                .iter()
                .chain(hosts)
                .map(|it| it.to_lowercase())
                .collect(),
            origins: pages
                .chain(origins.iter().map(|it| it.to_lowercase()))
                .collect(),
            token: token(home)?,
        })
    }

    /// Whether a request may have what only the node's user may.
    fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        self.check_names(headers)?;
        if from_other_site(headers) {
            return Err(ApiError::OriginNotAllowed);
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = given.next().and_then(|it| it.to_str().ok());
        let token = token.and_then(|it| it.strip_prefix("Bearer "));
        let right = token.is_some_and(|token| same(token, &self.token)) && given.next().is_none();
        right.then_some(()).ok_or(ApiError::NoToken)
    }

    /// Whether a request may have the dashboard's page, and what it loads. A tab may go there from
    /// anywhere, as from a file that `overlane dashboard --open` wrote; no page may load it.
    fn check_page(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        self.check_names(headers)?;
        let is = |name, wanted: &str| text(headers, name).0.is_some_and(|it| it == wanted);
        let tab = is(SEC_FETCH_MODE, "navigate") && is(SEC_FETCH_DEST, "document");
        match from_other_site(headers) && !tab {
            true => Err(ApiError::OriginNotAllowed),
            false => Ok(()),
        }
    }

    /// Whether it names the host by a name of the list, and comes from no page or one of the list.
    fn check_names(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        // Two of them are none that anybody allowed.
        let (host, twice) = text(headers, HOST);
        if twice || !host.is_some_and(|host| self.hosts.contains(&host)) {
            return Err(ApiError::HostNotAllowed);
        }
        let (origin, twice) = text(headers, ORIGIN);
        if twice || origin.is_some_and(|origin| !self.origins.contains(&origin)) {
            return Err(ApiError::OriginNotAllowed);
        }
        Ok(())
    }
}

/// A header's text in small letters, and whether there is another one of that name.
fn text(headers: &HeaderMap, name: HeaderName) -> (Option<String>, bool) {
    let mut all = headers.get_all(name).iter();
    let first = all
        .next()
        .map(|it| it.to_str().unwrap_or("?").to_lowercase());
    (first, all.next().is_some())
}

/// Whether a browser says that another site's page, or another page of this machine, asks.
fn from_other_site(headers: &HeaderMap) -> bool {
    let (site, _) = text(headers, SEC_FETCH_SITE);
    site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Requests that a gate refused, since the node started.
#[derive(Debug, Default)]
pub(super) struct Turned {
    host: AtomicU64,
    origin: AtomicU64,
    token: AtomicU64,
}

impl Turned {
    fn count(&self, refused: &ApiError) {
        let counter = match refused {
            ApiError::HostNotAllowed => &self.host,
            ApiError::OriginNotAllowed => &self.origin,
            _ => &self.token,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// By code.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let all = [
            (ApiError::HostNotAllowed, &self.host),
            (ApiError::OriginNotAllowed, &self.origin),
            (ApiError::NoToken, &self.token),
        ];
        let all = all.into_iter();
        all.map(|(refused, count)| (refused.code().to_owned(), count.load(Ordering::Relaxed)))
            .collect()
    }
}

/// A gate, and the count of what it refuses.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) gate: Arc<Gate>,
    pub(super) turned: Arc<Turned>,
}

impl Guard {
    async fn let_in(
        &self,
        checked: Result<(), ApiError>,
        request: Request,
        next: Next,
    ) -> Response {
        match checked {
            Ok(()) => next.run(request).await,
            Err(refused) => {
                self.turned.count(&refused);
                refused.into_response()
            }
        }
    }
}

/// Lets a request of the node's user pass, or says why not.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let checked = guard.gate.check(request.headers());
    guard.let_in(checked, request, next).await
}

/// Lets a request for the dashboard's page pass, or says why not.
pub(super) async fn guard_page(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let checked = guard.gate.check_page(request.headers());
    guard.let_in(checked, request, next).await
}

/// The token of a home, if it has one.
///
/// # Errors
/// [`GateError`]
pub fn token_of(home: &Home) -> Result<Option<Zeroizing<String>>, GateError> {
    read(&home.token_path())
}

/// Whether they are the same, in a time that does not tell how far.
fn same(given: &str, token: &str) -> bool {
    // BLAKE3's hashes compare in constant time; keyed by nothing, as what is hidden is the token.
    blake3::hash(given.as_bytes()) == blake3::hash(token.as_bytes())
}

/// The home's token; made if there is none.
fn token(home: &Home) -> Result<Zeroizing<String>, GateError> {
    let path = home.token_path();
    match read(&path) {
        Ok(Some(token)) => Ok(token),
        Ok(None) => {
            let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
            getrandom::fill(bytes.as_mut_slice()).map_err(|cause| GateError::NoRandomness {
                cause: cause.to_string(),
            })?;
            let token = Zeroizing::new(hex::encode(bytes.as_slice()));
            home.write_token(&token)?;
            Ok(token)
        }
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> Result<Option<Zeroizing<String>>, GateError> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(no_follow)
        .open(path);
    let file = match file {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(HomeError::io("open", path))?,
    };
    let about = file.metadata().map_err(HomeError::io("look at", path))?;
    let name = || path.display().to_string();
    let own = about.uid() == rustix::process::geteuid().as_raw();
    if !own || about.mode() & 0o077 != 0 {
        return Err(GateError::TokenOpen { path: name() });
    }
    let mut text = Zeroizing::new(String::new());
    let most = 2 * TOKEN_BYTES as u64 + 2;
    let taken = file.take(most).read_to_string(&mut text);
    taken.map_err(HomeError::io("read", path))?;
    let token = Zeroizing::new(text.trim().to_owned());
    let form = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|it| it.is_ascii_hexdigit());
    if !form {
        return Err(GateError::TokenForm { path: name() });
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_passes_only_with_a_name_a_page_and_a_token_of_ours() {
        let gate = Gate {
            hosts: vec!["127.0.0.1:1".to_owned(), "localhost:1".to_owned()],
            origins: vec!["http://localhost:1".to_owned()],
            token: Zeroizing::new("ab".repeat(32)),
        };
        let bearer = format!("Bearer {}", "ab".repeat(32));
        let check = |pairs: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name, HeaderValue::from_str(value).expect("a value"));
            }
            gate.check(&headers).map_err(|error| error.code())
        };
        let (host, token) = ((HOST, "localhost:1"), (AUTHORIZATION, bearer.as_str()));
        let with = |more: (HeaderName, &'static str)| check(&[host.clone(), token.clone(), more]);
        assert_eq!(check(&[host.clone(), token.clone()]), Ok(()));
        assert_eq!(check(&[(HOST, "LOCALHOST:1"), token.clone()]), Ok(()));
        assert_eq!(with((ORIGIN, "http://localhost:1")), Ok(()));
        assert_eq!(with((SEC_FETCH_SITE, "same-origin")), Ok(()));
        for name in [
            "rebound.example:1",
            "localhost",
            "localhost:2",
            "127.0.0.1",
            "",
        ] {
            let refused = check(&[(HOST, name), token.clone()]);
            assert_eq!(refused, Err("api/host_not_allowed"), "{name}");
        }
        assert_eq!(
            check(std::slice::from_ref(&token)),
            Err("api/host_not_allowed")
        );
        assert_eq!(with((HOST, "localhost:1")), Err("api/host_not_allowed"));
        for page in [
            "http://evil.example",
            "null",
            "https://localhost:1",
            "http://localhost",
        ] {
            assert_eq!(
                with((ORIGIN, page)),
                Err("api/origin_not_allowed"),
                "{page}"
            );
        }
        assert_eq!(
            with((SEC_FETCH_SITE, "cross-site")),
            Err("api/origin_not_allowed")
        );
        let short = &bearer[..bearer.len() - 1];
        for token in ["", "Bearer ", short, &bearer[7..], &format!("{bearer}0")] {
            let refused = check(&[host.clone(), (AUTHORIZATION, token)]);
            assert_eq!(refused, Err("api/no_token"), "{token}");
        }
        assert_eq!(check(std::slice::from_ref(&host)), Err("api/no_token"));
        assert_eq!(with((AUTHORIZATION, "Bearer x")), Err("api/no_token"));
        // The dashboard's page takes no token, and needs the names all the same.
        let page = |more: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in more {
                headers.append(name, HeaderValue::from_str(value).expect("a value"));
            }
            gate.check_page(&headers).map_err(|error| error.code())
        };
        let (other, tab) = ((SEC_FETCH_SITE, "cross-site"), (SEC_FETCH_MODE, "navigate"));
        let goes = |dest| {
            [
                host.clone(),
                other.clone(),
                tab.clone(),
                (SEC_FETCH_DEST, dest),
            ]
        };
        assert_eq!(page(std::slice::from_ref(&host)), Ok(()));
        assert_eq!(page(&goes("document")), Ok(()), "a tab goes there");
        for refused in [
            &goes("iframe")[..],
            &[host.clone(), other.clone()],
            &[host.clone(), (ORIGIN, "null")],
        ] {
            assert_eq!(page(refused), Err("api/origin_not_allowed"), "{refused:?}");
        }
        assert_eq!(
            page(&[(HOST, "rebound.example:1")]),
            Err("api/host_not_allowed")
        );
        assert_eq!(check(&goes("document")), Err("api/origin_not_allowed"));
    }
}
