//! `share` and `fetch`: files by reference.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::http::Method;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use overlane_core::Fault;
use overlane_node::api::{
    Client, DropRequest, FetchLine, FetchRequest, FileReport, Lines, ReferenceReport, ShareRequest,
    SharedReport,
};
use overlane_node::home::Home;
use serde::Serialize;

use super::args::{Fetch, Share};
use super::ask;
use super::output::{Done, Failure, Output};
use super::refs::quoted;

/// How long a fetch takes before its progress is shown.
const QUICK: Duration = Duration::from_secs(1);

/// Shares a file.
pub(super) fn share(home: &Home, share: &Share, output: &Output) -> Result<Done, Failure> {
    let path =
        std::path::absolute(&share.file).map_err(|cause| failed_on(&share.file, "read", &cause))?;
    let Some(path) = path.to_str() else {
        let message = format!("the path of {} is no text", share.file.display());
        return Err(Failure::new("share/no_file", Fault::Usage, message));
    };
    let asked = ShareRequest {
        path: path.to_owned(),
    };
    let client = Client::of(home);
    let shared: SharedReport = ask(async {
        let answer = client.call(Method::POST, "/v1/share", &asked).await;
        answer.map_err(|error| Failure::of_daemon(&error))
    })?;
    output.answer(&shared, |shared| {
        let overlane = &output.overlane;
        let (number, ticket) = (shared.number, &shared.ticket);
        format!(
            "{} is shared as reference {number}: {} bytes, {}\n\n{ticket}\n\n\
             Whoever has this ticket can have the file; it is shown this once.\n  \
             overlane fetch TICKET                              gets it, at the other node\n  \
             {overlane} ref revoke {number} --reason TEXT        ends it for everyone, here",
            quoted(&shared.file.name),
            shared.file.size,
            shared.file.hash
        )
    })?;
    Ok(Done::Yes)
}

#[derive(Serialize)]
struct Fetched {
    path: String,
    number: u64,
    from: String,
    /// Bytes that an earlier try had brought.
    resumed_at: u64,
    dropped: bool,
    #[serde(flatten)]
    file: FileReport,
}

/// Fetches a file: into a temporary one, which gets its name when it is whole and its hash is right.
pub(super) fn fetch(home: &Home, fetch: &Fetch, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let fetched = ask(async {
        // What it is comes first, to know where it goes and how much of it is here.
        let mut lines = begin(&client, &fetch.ticket, None).await?;
        let (number, from, file) = first(&mut lines).await?;
        let goal = goal(fetch, &file)?;
        let mut partial = Partial::open(&goal, &file)?;
        let resumed_at = partial.size;
        let mut lines = begin(&client, &fetch.ticket, Some(resumed_at)).await?;
        first(&mut lines).await?;
        let told = output.json || !io::stderr().is_terminal();
        partial.receive(&mut lines, file.size, told).await?;
        partial.finish(&file, &goal)?;
        if fetch.drop {
            let asked = DropRequest { number };
            let dropped = client.call(Method::DELETE, "/v1/refs", &asked).await;
            let _: ReferenceReport = dropped.map_err(|error| Failure::of_daemon(&error))?;
        }
        Ok(Fetched {
            path: goal.display().to_string(),
            number,
            from,
            resumed_at,
            dropped: fetch.drop,
            file,
        })
    })?;
    output.answer(&fetched, |fetched| {
        let mut text = format!(
            "{}: {} bytes of {}, whole and checked ({})",
            quoted(&fetched.path),
            fetched.file.size,
            fetched.from,
            fetched.file.hash
        );
        if fetched.resumed_at > 0 {
            text += &format!(
                "\nwent on after the {} bytes of an earlier try",
                fetched.resumed_at
            );
        }
        if !fetched.dropped {
            let (overlane, number) = (&output.overlane, fetched.number);
            text += &format!(
                "\nkept as reference {number}; let go of it: {overlane} ref drop {number}"
            );
        }
        text
    })?;
    Ok(Done::Yes)
}

async fn begin(client: &Client, ticket: &str, from: Option<u64>) -> Result<Lines, Failure> {
    let asked = FetchRequest {
        ticket: ticket.to_owned(),
        from,
    };
    let lines = client.call_lines("/v1/fetch", &asked).await;
    lines.map_err(|error| Failure::of_daemon(&error))
}

async fn first(lines: &mut Lines) -> Result<(u64, String, FileReport), Failure> {
    match next(lines).await? {
        FetchLine::File { number, from, file } => Ok((number, from, file)),
        _ => Err(cut_short()),
    }
}

async fn next(lines: &mut Lines) -> Result<FetchLine, Failure> {
    let line = lines.next().await;
    let line = line.map_err(|error| Failure::of_daemon(&error))?;
    match line.ok_or_else(cut_short)? {
        FetchLine::Failed(refusal) => Err(Failure::of_refusal(&refusal)),
        line => Ok(line),
    }
}

fn cut_short() -> Failure {
    let message =
        "the node is stopping; what is here is kept, and the next fetch goes on from there";
    Failure::new("share/cut_short", Fault::Unreachable, message)
}

/// Where the file goes. What is there is not written over.
fn goal(fetch: &Fetch, file: &FileReport) -> Result<PathBuf, Failure> {
    let goal = match &fetch.output {
        Some(output) => output.clone(),
        None => PathBuf::from(plain(&file.name)),
    };
    if fs::symlink_metadata(&goal).is_ok() {
        let message = format!(
            "{} is there already; choose another name with -o",
            goal.display()
        );
        return Err(Failure::new("share/exists", Fault::Usage, message));
    }
    Ok(goal)
}

/// The name that another node gives its file, if it is nothing but a name.
fn plain(name: &str) -> &str {
    let odd = |letter: char| letter == '/' || letter == '\\' || letter.is_control();
    if name.is_empty() || name.starts_with('.') || name.contains(odd) {
        return "fetched";
    }
    name
}

/// A file that is not whole yet.
struct Partial {
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    size: u64,
}

impl Partial {
    /// What an earlier try left of the same file, or nothing yet.
    fn open(goal: &Path, report: &FileReport) -> Result<Self, Failure> {
        let mut name = goal.file_name().unwrap_or_default().to_owned();
        let of = report.hash.get(..16).unwrap_or_default();
        name.push(format!(".{of}.part"));
        let path = goal.with_file_name(name);
        let failed = |cause| failed_on(&path, "write", &cause);
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        // Its name is known before: a link that somebody put there would lead to another file.
        let file = file.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = file.open(&path).map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        let size = io::copy(&mut Read::by_ref(&mut file).take(report.size), &mut hasher);
        let size = size.map_err(failed)?;
        file.set_len(size).map_err(failed)?;
        file.seek(SeekFrom::Start(size)).map_err(failed)?;
        Ok(Self {
            path,
            file,
            hasher,
            size,
        })
    }

    async fn receive(&mut self, lines: &mut Lines, whole: u64, quiet: bool) -> Result<(), Failure> {
        let began = Instant::now();
        let bar = bar(whole, self.size);
        while let FetchLine::Part { at, bytes } = next(lines).await? {
            let bytes = hex::decode(bytes).ok().filter(|_| at == self.size);
            let bytes = bytes.ok_or_else(cut_short)?;
            let written = self.file.write_all(&bytes);
            written.map_err(|cause| failed_on(&self.path, "write", &cause))?;
            self.hasher.update(&bytes);
            self.size += bytes.len() as u64;
            bar.set_position(self.size);
            if !quiet && bar.is_hidden() && began.elapsed() >= QUICK {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Gives it its name, once it is what it was said to be.
    fn finish(self, report: &FileReport, goal: &Path) -> Result<(), Failure> {
        let hash = hex::encode(self.hasher.finalize().as_bytes());
        if self.size != report.size || hash != report.hash {
            // Nothing of it can be believed.
            let removed = fs::remove_file(&self.path);
            let mut message = format!(
                "what came is not the file: its hash is {hash}, and was to be {}",
                report.hash
            );
            if let Err(error) = removed {
                let part = self.path.display();
                message = format!("{message}; remove {part} before the next fetch: {error}");
            }
            return Err(Failure::new(
                "share/wrong_hash",
                Fault::PeerMisbehaved,
                message,
            ));
        }
        let put = || -> io::Result<()> {
            self.file.sync_all()?;
            // Not over what came to be there meanwhile.
            match fs::hard_link(&self.path, goal) {
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => return Err(cause),
                Ok(()) => fs::remove_file(&self.path)?,
                // A file system without links.
                Err(_) => fs::rename(&self.path, goal)?,
            }
            let folder = goal
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        put().map_err(|cause| failed_on(goal, "write", &cause))
    }
}

fn bar(whole: u64, already: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(whole), ProgressDrawTarget::hidden());
    let form = "{bar:32} {percent:>3}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta}";
    // The form is a constant that is right.
    let bar = match ProgressStyle::with_template(form) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.with_position(already)
}

fn failed_on(path: &Path, action: &str, cause: &io::Error) -> Failure {
    let message = format!("{action} {}: {cause}", path.display());
    Failure::new("share/io", Fault::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_written_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, b"somebody's").unwrap();
        let report = FileReport {
            name: "file".to_owned(),
            size: 3,
            hash: "0123456789abcdef0123".to_owned(),
            path: None,
        };
        let goal = folder.path().join("file");
        let part = folder.path().join("file.0123456789abcdef.part");
        std::os::unix::fs::symlink(&other, &part).unwrap();
        assert!(Partial::open(&goal, &report).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"somebody's");
        fs::remove_file(&part).unwrap();
        assert!(Partial::open(&goal, &report).is_ok());
    }
}
