//! The `overlane` command: a node as a daemon, and everything one asks of it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
