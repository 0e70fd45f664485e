//! Serves the pages of `web/` on this machine: `scripts/wasm serve`.
//!
//! The first argument is the port (0 for any), `PAGES` the folder of what `scripts/wasm build` made.
//! It prints its address, and serves until it is stopped.

#[cfg(target_family = "wasm")]
fn main() {}

#[cfg(not(target_family = "wasm"))]
fn main() -> std::io::Result<()> {
    native::main()
}

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use std::{env, fs, io, thread};

    /// A request line is not longer than this.
    const LINE_BYTES_MAX: u64 = 4_096;

    pub(super) fn main() -> io::Result<()> {
        let port = env::args().nth(1).and_then(|port| port.parse().ok());
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(7_480)))?;
        // `localhost` is a place where browsers allow locks and storage without a certificate.
        println!("http://localhost:{}/", listener.local_addr()?.port());
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let pages =
            env::var_os("PAGES").map_or_else(|| PathBuf::from("target/wasm/pages"), PathBuf::from);
        for stream in listener.incoming() {
            let (web, pages) = (web.clone(), pages.clone());
            // A browser that goes away in the middle of an answer is no reason to stop.
            thread::spawn(move || stream.and_then(|stream| answer(stream, &web, &pages)));
        }
        Ok(())
    }

    fn answer(mut stream: TcpStream, web: &Path, pages: &Path) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut line = String::new();
        let mut request = BufReader::new(io::Read::take(stream.try_clone()?, LINE_BYTES_MAX));
        request.read_line(&mut line)?;
        // The rest of the request says nothing that matters here.
        let mut header = String::new();
        while request.read_line(&mut header)? > 2 {
            header.clear();
        }
        let asked = line
            .strip_prefix("GET /")
            .and_then(|rest| rest.split([' ', '?']).next());
        let found = asked.and_then(|path| file(path, web, pages));
        let (status, kind, body) = match found {
            Some((kind, path)) => ("200 OK", kind, fs::read(path)?),
            None => ("404 Not Found", "text/plain", b"no such page\n".to_vec()),
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)
    }

    /// A page's file and what kind of thing it is. Names have no folders but `pages`.
    fn file(asked: &str, web: &Path, pages: &Path) -> Option<(&'static str, PathBuf)> {
        let (folder, name) = match asked.split_once('/') {
            None => (web, asked),
            Some(("pages", name)) => (pages, name),
            Some(_) => return None,
        };
        let name = if name.is_empty() { "index.html" } else { name };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !name.chars().all(plain) || name.starts_with('.') {
            return None;
        }
        let kind = match name.rsplit_once('.')?.1 {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "wasm" => "application/wasm",
            _ => return None,
        };
        let path = folder.join(name);
        path.is_file().then_some((kind, path))
    }
}
