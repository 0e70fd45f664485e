//! What can be found out without a daemon: the files of the home, and what a start would meet.

use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, SystemTime};

use overlane_core::replay::restored;
use overlane_node::home::{Config, Home, Sources, check_start};
use overlane_storage_native::kind_of;
use overlane_storage_native::vfs::RealVfs;

use super::super::args::DAY_MS;
use super::super::keys;
use super::super::output::{Failure, Output};
use super::super::replay::{Opened, now};
use super::{Finding, Step};
use overlane_node::api::instant;

/// How long an address of a peer may take to answer.
const DIAL_WITHIN: Duration = Duration::from_secs(2);

/// A delegation that ends within this is warned of.
const ENDS_SOON_MS: u64 = 3 * DAY_MS;

/// Less than this free is warned of: a snapshot is written beside the one before it.
const FREE_WANTED_BYTES: u64 = 256 * 1024 * 1024;

/// Less than this free is too little: a first start makes its stores.
const FREE_NEEDED_BYTES: u64 = 4 * 1024 * 1024;

/// A clock behind the newest file of the home by more than this was set back.
const SET_BACK: Duration = Duration::from_secs(60);

/// Key, configuration, folder, disk and clock.
pub(super) fn of_files(home: &Home, output: &Output) -> Vec<Step> {
    let mut steps = vec![key(home, output)];
    if steps.iter().any(|step| step.finding == Finding::Bad) {
        return steps;
    }
    steps.push(configuration(home, output));
    steps.extend(unlocked(home, output));
    steps.push(folder(home, output));
    steps.push(disk(home));
    steps.push(clock(home));
    steps
}

/// Whether the node may start, store, port and peers: what a daemon holds or asks for itself while it runs.
pub(super) fn of_start(home: &Home, output: &Output) -> Vec<Step> {
    let Ok(config) = home.settings(&Sources::of_process()).map(|it| it.config) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    if let Err(error) = check_start(home) {
        let meaning = "the daemon would not start";
        let tried = "see whether this home may be started";
        let failure = Failure::from(error);
        steps.push(Step::failed("start", tried, &failure, meaning, output));
    }
    steps.extend([
        store(home, output),
        listen(&config, output),
        ports(&config, output),
    ]);
    steps.extend(peers(&config, output));
    steps
}

fn key(home: &Home, output: &Output) -> Step {
    let tried = format!("read {}", home.key_path().display());
    match home.account_key() {
        Ok((key, under)) => Step::good(
            "key",
            tried,
            match under {
                "nothing" => format!("this node is {}, its key not sealed", key.did()),
                under => format!("this node is {}, its key sealed under {under}", key.did()),
            },
        ),
        Err(error) => {
            let meaning = "without its account this node is nobody";
            Step::failed("key", tried, &Failure::from(error), meaning, output)
        }
    }
}

fn configuration(home: &Home, output: &Output) -> Step {
    let tried = format!("read {}", home.config_path().display());
    match home.settings(&Sources::of_process()).map(|it| it.config) {
        Ok(config) => {
            let found = format!(
                "network {}, {} configured peers",
                config.network.0,
                config.peers.len()
            );
            Step::good("config", tried, found)
        }
        Err(error) => {
            let meaning = "the daemon would not start";
            Step::failed("config", tried, &Failure::from(error), meaning, output)
        }
    }
}

/// Whether what the configuration names opens the key, and, where the account is kept elsewhere, until when that signs.
fn unlocked(home: &Home, output: &Output) -> Vec<Step> {
    let Ok(config) = home.settings(&Sources::of_process()).map(|it| it.config) else {
        return Vec::new();
    };
    let sealed = home
        .account_key()
        .is_ok_and(|(_, under)| under != "nothing");
    let tried = "open the key with what the configuration names";
    if sealed && config.key.passphrase_file.is_none() && config.key.file.is_none() {
        let step = Step::good("unlock", tried, "it names nothing");
        let meaning = "a node starts only where somebody types the passphrase, or names the file";
        let next = "key.passphrase_file = \"FILE\" or key.file = \"FILE\" in config.toml";
        return vec![step.but(Finding::Warning, meaning, next.to_owned())];
    }
    let delegated = home.is_delegated().unwrap_or_default();
    let opened = keys::unattended(home, &config).and_then(|lock| match delegated {
        true => Ok(Some(home.delegated(&lock)?)),
        false => home.account(&lock).map(|_| None).map_err(Failure::from),
    });
    let mut steps = Vec::new();
    match opened {
        Err(failure) => {
            let meaning = "the daemon would not start";
            steps.push(Step::failed("unlock", tried, &failure, meaning, output));
        }
        Ok(key) => {
            if sealed {
                steps.push(Step::good("unlock", tried, "it opens"));
            }
            let word = key.map(|key| key.delegation().map(|it| it.life().last_ms()));
            steps.extend(word.map(|ends_ms| delegation(ends_ms, now().wall_ms, output)));
        }
    }
    steps
}

/// How long an account that is kept elsewhere lets this home sign.
fn delegation(ends_ms: Option<u64>, now_ms: u64, output: &Output) -> Step {
    let tried = "look until when the account, which is kept elsewhere, lets this home sign";
    let next = format!(
        "{0} key request, then key delegate where the account's key is, then {0} key accept here",
        output.overlane
    );
    let Some(ends_ms) = ends_ms else {
        let meaning = "the daemon would not start: nothing here can be signed";
        return Step::good("delegation", tried, "it has not yet").but(Finding::Bad, meaning, next);
    };
    ending(
        Step::good("delegation", tried, format!("until {}", instant(ends_ms))),
        ends_ms,
        now_ms,
        next,
    )
}

/// A step that is good until it ends soon.
pub(super) fn ending(step: Step, ends_ms: u64, now_ms: u64, next: String) -> Step {
    match ends_ms.checked_sub(now_ms) {
        None => step.but(
            Finding::Bad,
            "that is over: nothing is signed any more",
            next,
        ),
        Some(left_ms) if left_ms < ENDS_SOON_MS => {
            let days = left_ms / DAY_MS;
            let meaning = format!("in {days} days nothing is signed any more");
            step.but(Finding::Warning, meaning, next)
        }
        Some(_) => step,
    }
}

/// Whether the node may write there, and nobody else.
fn folder(home: &Home, output: &Output) -> Step {
    let tried = format!("look at the folder {}", home.dir().display());
    if let Err(error) = home.check_folder() {
        let meaning = "the daemon would not start";
        return Step::failed("folder", tried, &Failure::from(error), meaning, output);
    }
    let writes = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    match rustix::fs::access(home.dir(), writes) {
        Ok(()) => Step::good("folder", tried, "this user may write there"),
        Err(cause) => {
            let meaning = "nothing can be kept: the daemon would not start";
            let next = "see its permissions, and whether its disk is mounted read-only";
            Step::good("folder", tried, cause.to_string()).but(
                Finding::Bad,
                meaning,
                next.to_owned(),
            )
        }
    }
}

fn disk(home: &Home) -> Step {
    let tried = format!("look at the disk of {}", home.dir().display());
    let free =
        rustix::fs::statvfs(home.dir()).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Err(cause) => Step::good("disk", tried, cause.to_string()).but(
            Finding::Warning,
            "it is not known how much room there is",
            None,
        ),
        Ok(free) => room(tried, free),
    }
}

fn room(tried: String, free: u64) -> Step {
    let step = Step::good("disk", tried, format!("{} MiB free", free / (1024 * 1024)));
    let next = "make room on it".to_owned();
    match free {
        ..FREE_NEEDED_BYTES => {
            let meaning =
                "nothing is sent or admitted, and a daemon that is stopped does not start";
            step.but(Finding::Bad, meaning, next)
        }
        FREE_NEEDED_BYTES..FREE_WANTED_BYTES => {
            let meaning = "a full disk stops every send and every admission, and loses nothing";
            step.but(Finding::Warning, meaning, next)
        }
        _ => step,
    }
}

/// Files that the node wrote are not from the future, unless the clock was set back.
fn clock(home: &Home) -> Step {
    let files = [home.key_path(), home.config_path(), home.lock_path()];
    let folders = [
        home.store_path(),
        home.references_path(),
        home.groups_path(),
    ];
    let inside = folders.iter().filter_map(|it| std::fs::read_dir(it).ok());
    let inside = inside.flatten().flatten().map(|entry| entry.path());
    let written = files.into_iter().chain(inside);
    let times = written.filter_map(|path| path.metadata().ok()?.modified().ok());
    let newest = times.max();
    let tried = "compare the clock with when this home was last written";
    let ahead = newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok());
    match ahead.filter(|ahead| *ahead > SET_BACK) {
        None => Step::good("clock", tried, "it is later, as it should be"),
        Some(ahead) => {
            let found = format!("the clock is {} s behind that", ahead.as_secs());
            let meaning = "what this node signs may be refused by others as of the past, and what \
                           others sign here as of the future";
            let next = "set the clock of this machine by a time server";
            Step::good("clock", tried, found).but(Finding::Bad, meaning, next.to_owned())
        }
    }
}

fn store(home: &Home, output: &Output) -> Step {
    let tried = format!("read every record in {}", home.store_path().display());
    if matches!(kind_of(&RealVfs, &home.store_path()), Ok(None)) {
        return Step::good("store", tried, "there is none yet: the first run makes it");
    }
    let scanned = Opened::of(home).and_then(|mut opened| Ok(opened.store.scan()?));
    match scanned {
        Err(failure) => {
            let meaning = "nothing would be sent or admitted";
            Step::failed("store", tried, &failure, meaning, output)
        }
        Ok(scan) => {
            let records = scan.records.len();
            let all = scan.records.into_iter();
            let bad = all.filter(|(name, found)| restored(*name, found.clone()).is_err());
            let bad = bad.count();
            let step = Step::good(
                "store",
                tried,
                format!("{records} records, {bad} of them bad"),
            );
            if bad == 0 {
                return step;
            }
            let meaning = "each bad record refuses its own stream, and no other";
            step.but(
                Finding::Bad,
                meaning,
                format!("{} replay verify", output.overlane),
            )
        }
    }
}

fn listen(config: &Config, output: &Output) -> Step {
    let tried = format!("listen at {}", config.listen);
    match TcpListener::bind(config.listen) {
        Err(cause) => {
            let meaning = "the daemon would not start";
            let next = format!(
                "end what listens there, or: {} run --listen ADDRESS:PORT",
                output.overlane
            );
            Step::good("listen", tried, cause.to_string()).but(Finding::Bad, meaning, next)
        }
        Ok(_) => reachable(Step::good("listen", tried, "the address is free"), config),
    }
}

/// Whether links find a UDP port.
fn ports(config: &Config, output: &Output) -> Step {
    let bind = config.links_bind();
    let ports = config.links.ports;
    let tried = format!("bind a UDP port for links at {bind}, of {ports}");
    let bound = UdpSocket::bind((bind, 0)).map(|_| ports.free(bind, 0));
    let next = format!("{} config explain links.bind", output.overlane);
    match bound {
        Ok(Some(_)) => Step::good("ports", tried, "there is one free"),
        Ok(None) => {
            let meaning = "no link can be made: something else holds all of them";
            let next = format!("{} config explain links.ports", output.overlane);
            Step::good("ports", tried, "all are taken").but(Finding::Bad, meaning, next)
        }
        Err(cause) => {
            let meaning = "no link can be made: this machine has no such address";
            Step::good("ports", tried, cause.to_string()).but(Finding::Bad, meaning, next)
        }
    }
}

fn reachable(step: Step, config: &Config) -> Step {
    if !config.listen.ip().is_loopback() {
        return step;
    }
    let meaning = "only nodes on this machine can post offers to it; it can still dial others";
    let next = "for others: `listen = \"ADDRESS-OF-THIS-MACHINE:7420\"` in config.toml";
    step.but(Finding::Warning, meaning, next.to_owned())
}

fn peers(config: &Config, output: &Output) -> Vec<Step> {
    if config.peers.is_empty() {
        let step = Step::good("peers", "read the configuration", "no peer is configured");
        let meaning = "this node waits until others dial it";
        let next = format!("{0} peer add URL, or {0} join TICKET", output.overlane);
        return vec![step.but(Finding::Warning, meaning, next)];
    }
    config.peers.iter().map(|url| peer(url, output)).collect()
}

fn peer(url: &str, output: &Output) -> Step {
    let tried = format!("connect to {url}");
    let place = url.trim_start_matches("http://").trim_end_matches('/');
    let connected = place.to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or(std::io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&address, DIAL_WITHIN)
    });
    match connected {
        Ok(_) => Step::good("peers", tried, "something answers there"),
        Err(cause) => {
            let meaning =
                "it is away, or a firewall is between; the daemon dials it again and again";
            let next = format!(
                "see that it runs; if it moved: {} peer drop {url}",
                output.overlane
            );
            Step::good("peers", tried, cause.to_string()).but(Finding::Warning, meaning, next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_the_account_that_ends_soon_is_warned_of_and_one_that_is_over_is_bad() {
        let step = || Step::good("delegation", "look", "until then");
        let finding = |ends_ms, now_ms| ending(step(), ends_ms, now_ms, "ask".to_owned()).finding;
        assert_eq!(finding(ENDS_SOON_MS + 5, 5), Finding::Good);
        assert_eq!(finding(ENDS_SOON_MS + 4, 5), Finding::Warning);
        assert_eq!(finding(5, 5), Finding::Warning);
        assert_eq!(finding(4, 5), Finding::Bad);
    }

    #[test]
    fn a_disk_without_room_for_a_start_is_bad_and_one_with_little_is_warned_of() {
        let finding = |free| room(String::new(), free).finding;
        assert_eq!(finding(0), Finding::Bad);
        assert_eq!(finding(FREE_NEEDED_BYTES - 1), Finding::Bad);
        assert_eq!(finding(FREE_NEEDED_BYTES), Finding::Warning);
        assert_eq!(finding(FREE_WANTED_BYTES), Finding::Good);
    }
}
