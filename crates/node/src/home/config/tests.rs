//! Reading, showing, writing.

use std::fs;

use super::keys::nearest;
use super::*;
use crate::PEERS_MAX;
use crate::home::files;

fn settings(text: &str, sources: &Sources) -> Result<Settings, Vec<HomeError>> {
    layers::resolve(text, Path::new("config.toml"), sources)
}

fn parse(text: &str) -> Result<Config, HomeError> {
    match settings(text, &Sources::default()) {
        Ok(settings) => Ok(settings.config),
        Err(mistakes) => Err(mistakes[0].clone()),
    }
}

#[test]
fn the_written_file_reads_back() {
    let config = Config {
        profile: Profile::Server,
        network: NetworkId(7),
        listen: SocketAddr::from(([127, 0, 0, 1], 1)),
        metrics: Some(SocketAddr::from(([127, 0, 0, 1], 2))),
        api: ApiConfig {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 3))),
            hosts: vec!["a:1".to_owned()],
            origins: vec!["http://a:1".to_owned()],
        },
        store: StoreKind::Files,
        peers: vec!["http://127.0.0.1:2".to_owned()],
        log: "info,overlane_node=debug".parse().expect("a filter"),
        logs: LogsConfig {
            json: true,
            shows_all: true,
        },
        key: KeyConfig {
            passphrase_file: Some("/a".into()),
            file: Some("/b".into()),
        },
        links: LinksConfig {
            bind: Some([192, 0, 2, 1].into()),
            require_direct: true,
            ports: Ports::range(1_000, 2_000).expect("a range"),
        },
        limits: Limits {
            links_max: 40,
            queued_max_bytes: 40 << 20,
            ..Profile::Server.limits()
        },
        inbox_mails: 256,
        groups: GroupsConfig {
            host_gone_ms: 5_000,
            keep_ms: 86_400_000,
            keep_posts: 1_000,
            keep_max_bytes: 1 << 20,
        },
        ice_servers: vec![
            IceServer::new("stun:a", None, None).expect("a server"),
            IceServer::new("turn:b:1", Some("me"), Some("\"q\"")).expect("a server"),
        ],
    };
    assert_eq!(parse(&config.to_toml()), Ok(config));
    assert_eq!(parse(&Config::default().to_toml()), Ok(Config::default()));
    assert_eq!(parse(""), Ok(Config::default()));
    let server = Config::of(Profile::Server);
    assert_eq!(parse(&server.to_toml()), Ok(server));
}

#[test]
fn every_mistake_is_named_with_its_line() {
    for (line, text, words) in [
        (2, "\nnetwrk = 1", "netwrk"),
        (1, "network = \"one\"", "invalid type"),
        (1, "network = 4294967296", "4294967295"),
        (3, "network = 1\n\nlisten = \"127.0.0.1\"", "socket address"),
        (2, "# hm\nstore = \"memory\"", "\"files\""),
        (
            3,
            "peers = [\n \"http://127.0.0.1:1\",\n \"ftp://x:1\"]",
            "http://",
        ),
        (1, "peers = [\"http://127.0.0.1\"]", "port"),
        (1, "log = \"a=loud\"", "log filter"),
        (1, "log = \"loud\"", "no level"),
        (1, "log = \"overlane_node=\"", "no level"),
        (1, "log = \"warn,overlane_nod\"", "no level"),
        (1, "network = = 1", ""),
        (2, "[links]\nrequire = \"drect\"", "\"direct\""),
        (2, "[links]\nbund = \"1.2.3.4\"", "bind"),
        (2, "[[ice.servers]]\nurl = \"turn:a\"", "username"),
        (2, "[[ice.servers]]\nurl = \"stun:\"", "ICE server"),
        (
            3,
            "[[ice.servers]]\nurl = \"stun:a\"\npassword = \"x\"",
            "credential",
        ),
        (
            4,
            "[[ice.servers]]\nurl = \"turn:a\"\nusername = \"u\"\ncredential = 571984",
            "expected text",
        ),
    ] {
        let Err(HomeError::Config {
            line: at, cause, ..
        }) = parse(text)
        else {
            panic!("{text:?} was taken");
        };
        assert_eq!(at, line, "{text:?}: {cause}");
        assert!(cause.contains(words), "{text:?}: {cause}");
        assert!(!cause.contains("571984"), "a credential is shown: {cause}");
    }
}

#[test]
fn more_peers_than_a_node_keeps_are_a_mistake() {
    let text = |count: usize| {
        let urls = (1..=count).map(|port| format!("\"http://127.0.0.1:{port}\""));
        format!("\npeers = [{}]", urls.collect::<Vec<_>>().join(", "))
    };
    let full = parse(&text(PEERS_MAX)).expect("as many as may be");
    assert_eq!(full.peers.len(), PEERS_MAX);
    let Err(HomeError::Config { line, cause, .. }) = parse(&text(PEERS_MAX + 1)) else {
        panic!("one too many was taken");
    };
    assert_eq!((line, cause.contains("at most 64")), (2, true), "{cause}");
}

#[test]
fn libraries_tell_errors_only_unless_they_are_named() {
    use tracing::Level;
    let tells = |text: &str, target: &str, level: Level| {
        let filter: LogFilter = text.parse().expect("a filter");
        filter.targets().would_enable(target, &level)
    };
    assert_eq!(LogFilter::default(), "warn".parse().expect("a filter"));
    assert!(tells("warn", "overlane_node::link", Level::WARN));
    assert!(!tells("warn", "rtc_ice::agent", Level::WARN));
    assert!(tells("warn", "rtc_ice::agent", Level::ERROR));
    assert!(tells("warn", "webrtc::peer_connection", Level::ERROR));
    assert!(!tells("warn", log::QUIET_TARGET, Level::ERROR));
    let named = format!("warn,{}=error", log::QUIET_TARGET);
    assert!(tells(&named, log::QUIET_TARGET, Level::ERROR));
    assert!(!tells("debug", "rtc", Level::WARN));
    assert!(tells("debug", "overlane", Level::DEBUG));
    assert!(tells("warn,rtc=debug", "rtc_ice", Level::DEBUG));
    assert!(tells(
        "warn,overlane_node=debug",
        "overlane_node::link",
        Level::DEBUG
    ));
    assert!(!tells(
        "warn,overlane_node=debug",
        "overlane_core",
        Level::DEBUG
    ));
    assert!(!tells("off", "rtc", Level::ERROR));
    assert!(!tells("off", "overlane", Level::ERROR));
    assert!(!tells("rtc=debug", "overlane", Level::ERROR));
}

#[test]
fn a_peer_url_has_one_form() {
    let one = Ok("http://127.0.0.1:7420".to_owned());
    assert_eq!(peer_url("http://127.0.0.1:7420"), one);
    assert_eq!(peer_url("http://127.0.0.1:7420/"), one);
    assert_eq!(peer_url("http://[::1]:1"), Ok("http://[::1]:1".to_owned()));
    for wrong in [
        "",
        "7420",
        "127.0.0.1:7420",
        "http://:7420",
        "http://a",
        "http://a:1/b",
        "http://a:1/?b",
        "https://a:1",
    ] {
        assert!(peer_url(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_credential_is_read_from_a_file_of_its_owner_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config.toml");
    let turn = IceServer::new("turn:[::1]", Some("me"), Some("s3cret")).expect("a server");
    let open = Config::default();
    let secret = Config {
        ice_servers: vec![turn],
        ..Config::default()
    };
    for (config, mode, taken) in [
        (&open, 0o644, true),
        (&secret, 0o600, true),
        (&secret, 0o400, true),
        (&secret, 0o640, false),
        (&secret, 0o604, false),
        (&secret, 0o620, false),
    ] {
        files::replace(&path, config.to_toml().as_bytes(), mode).expect("written");
        // Whatever the umask of whoever runs this takes away.
        let mode_of = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&path, mode_of).expect("set");
        match Config::resolve(&path, &Sources::default()).map(|it| it.config) {
            Ok(read) if taken => assert_eq!(read, *config),
            Err(wrong) if !taken => assert_eq!(
                wrong,
                [HomeError::ConfigMode {
                    path: path.clone(),
                    mode
                }]
            ),
            other => panic!("{mode:o}: {other:?}"),
        }
    }
}

#[test]
fn editing_the_peers_keeps_the_modes_of_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config.toml");
    for mode in [0o600, 0o644] {
        files::replace(&path, b"peers = []", mode).expect("written");
        write_peers(&path, &["http://127.0.0.1:5".to_owned()]).expect("edited");
        let after = fs::metadata(&path).expect("there").mode() & 0o7777;
        assert_eq!(after, mode);
    }
}

#[test]
fn editing_the_peers_keeps_every_other_byte() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config.toml");
    let file = Config::default()
        .to_toml()
        .replace("network = 1", "network =   9 # mine");
    fs::write(&path, &file).expect("written");
    write_peers(&path, &["http://127.0.0.1:5".to_owned()]).expect("edited");
    let edited = fs::read_to_string(&path).expect("read");
    let expected = file.replace("peers = []", "peers = [\"http://127.0.0.1:5\"]");
    assert_eq!(edited, expected);
}

#[test]
fn every_key_is_in_the_table_once_and_is_read_as_it_is_written() {
    let mut names = std::collections::BTreeSet::new();
    let mut variables = std::collections::BTreeSet::new();
    for spec in KEYS {
        assert!(names.insert(spec.name), "{} twice", spec.name);
        assert!(variables.insert(spec.environment()), "{}", spec.name);
        assert!(spec.what.ends_with('.'), "{}", spec.name);
        for profile in [Profile::Home, Profile::Server] {
            let mut config = Config::of(profile);
            let Some(value) = values::written(&config, spec.key) else {
                continue;
            };
            values::set(&mut config, spec, &value).expect(spec.name);
            assert_eq!(config, Config::of(profile), "{}", spec.name);
        }
        if let Kind::Text(_, example) = spec.kind {
            values::set(&mut Config::default(), spec, &example.into()).expect(spec.name);
        }
        if let Kind::Number(least, most) = spec.kind {
            for (number, fits) in [(least, true), (most, true), (most + 1, false)] {
                let value = i64::try_from(number).expect("small").into();
                let set = values::set(&mut Config::default(), spec, &value);
                assert_eq!(set.is_ok(), fits, "{} = {number}", spec.name);
            }
            let below = i64::try_from(least).expect("small") - 1;
            assert!(values::set(&mut Config::default(), spec, &below.into()).is_err());
        }
    }
}

#[test]
fn a_flag_goes_before_the_environment_before_the_file_before_the_profile() {
    let value = |settings: &Settings, name: &str| {
        let mut all = settings.all();
        let found = all.find(|setting| setting.name == name).expect(name);
        (found.value.expect("a value"), found.origin.to_string())
    };
    let said = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    let file = "profile = \"server\"\n[links]\nmax = 50\n";
    let mut sources = Sources::default();
    let of = |sources: &Sources| value(&settings(file, sources).expect("right"), "links.max");
    let bare = settings("", &sources).expect("right");
    assert_eq!(value(&bare, "links.max"), said("32", "profile home"));
    assert_eq!(value(&bare, "network"), said("1", "default"));
    let server = settings("profile = \"server\"", &sources).expect("right");
    assert_eq!(value(&server, "links.max"), said("128", "profile server"));
    assert_eq!(of(&sources), said("50", "config.toml:3"));
    let environment = [
        ("OVERLANE_LINKS_MAX", "60"),
        ("OTHER", "1"),
        ("OVERLANE_HOME", "x"),
    ];
    sources = Sources::of_environment(
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    assert_eq!(of(&sources), said("60", "OVERLANE_LINKS_MAX"));
    sources.flag("--set", "links.max", "70");
    assert_eq!(of(&sources), said("70", "--set"));
    // Also the profile itself, and with it what it gives.
    sources.flag("--set", "profile", "home");
    let home = settings(file, &sources).expect("right");
    assert_eq!(home.config.limits.chunks_max_bytes, 128 << 20);
    assert_eq!(home.strays, []);
}

#[test]
fn what_the_environment_and_flags_say_wrongly_is_told_with_their_names() {
    let of =
        |name: &str, value: &str| Sources::of_environment([(name.to_owned(), value.to_owned())]);
    for (name, value, words) in [
        ("OVERLANE_NETWORK", "one", "no number"),
        ("OVERLANE_LINKS_MAX", "0", "1 to 328 links"),
        ("OVERLANE_PEERS", "http://127.0.0.1:1,x", "http://"),
        ("OVERLANE_ICE_SERVERS", "[{ url = 1 }]", "expected text"),
        ("OVERLANE_METRICS", "0.0.0.0:1", "loopback"),
        ("OVERLANE_LINKS_PORTS", "24000-24063", "128 are needed"),
    ] {
        let file = "links.max = 96";
        let mistakes = settings(file, &of(name, value)).expect_err(name);
        let [HomeError::Setting { origin, cause }] = mistakes.as_slice() else {
            panic!("{mistakes:?}");
        };
        assert_eq!(origin, name);
        assert!(cause.contains(words), "{cause}");
    }
    let listed = of("OVERLANE_PEERS", "http://127.0.0.1:1, http://127.0.0.1:2");
    assert_eq!(settings("", &listed).expect("right").config.peers.len(), 2);
    let stray = settings("", &of("OVERLANE_LISEN", "x")).expect("not a key");
    let meant = (
        "OVERLANE_LISEN".to_owned(),
        Some("OVERLANE_LISTEN".to_owned()),
    );
    assert_eq!(stray.strays, [meant]);
    let mut flags = Sources::default();
    flags.flag("--set", "netwrk", "2");
    let Err(mistakes) = settings("", &flags) else {
        panic!("a key that there is not was taken");
    };
    assert!(
        mistakes[0]
            .to_string()
            .contains("did you mean \"network\"?")
    );
}

#[test]
fn every_mistake_of_a_file_is_told_at_once_and_in_order() {
    let file = "netwrk = 1\nlisten = 3\n[links]\nmax = 1000\n[limit]\n[[peers]]\n";
    let mistakes = settings(file, &Sources::default()).expect_err("wrong");
    let lines: Vec<_> = mistakes
        .iter()
        .map(|mistake| match mistake {
            HomeError::Config { line, .. } => *line,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(lines, [1, 2, 4, 5, 6], "{mistakes:?}");
}

#[test]
fn the_nearest_key_is_the_one_that_was_meant() {
    for (typed, meant) in [
        ("netwrok", Some("network")),
        ("lissten", Some("listen")),
        ("links.requir", Some("links.require")),
        ("max", Some("links.max")),
        ("link.max", Some("links.max")),
        ("bind", Some("links.bind")),
        ("limits.chunks_bytes", Some("limits.chunks_max_bytes")),
        ("ice.server", Some("ice.servers")),
        ("frobnicate", None),
    ] {
        assert_eq!(nearest(typed), meant, "{typed}");
    }
}

#[test]
fn profiles_are_other_bounds_and_a_credential_is_never_shown() {
    let (home, server) = (Profile::Home.limits(), Profile::Server.limits());
    assert!(home.links_max <= 32 && home.links_max < server.links_max);
    assert!(home.sends_max_bytes < server.sends_max_bytes);
    assert!(home.dispatch_max_bytes < server.dispatch_max_bytes);
    assert!(home.chunks_max_bytes < server.chunks_max_bytes);
    assert!(home.queued_max_bytes < server.queued_max_bytes);
    assert_eq!(Profile::Home.ports().count(), Some(1_024));
    let file = "[[ice.servers]]\nurl = \"turn:a\"\nusername = \"me\"\ncredential = \"hush\"\n";
    let settings = settings(file, &Sources::default()).expect("right");
    let all: String = settings.all().filter_map(|setting| setting.value).collect();
    assert!(all.contains("turn:a") && !all.contains("hush"), "{all}");
    assert!(!format!("{settings:?}").contains("hush"));
}
