//! One remote: whether the files it needs are there, and whether it answers with the branch.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, DirSource, RemoteClient, SourceError, SourceErrorKind};
use zagent_config::settings::{RemoteSettings, Settings, SourceSettings};

use super::files::{FileProtection, check_file};
use super::{CHECK_TIMEOUT, DoctorFinding, DoctorScope, DoctorStatus, has_program};

pub(super) fn check_no_remote(settings: &Settings) -> DoctorFinding {
    if settings.baked.is_dir() {
        return DoctorFinding::ok(
            "source",
            format!("no remote is set: states come from {}", settings.baked.display()),
        );
    }
    DoctorFinding::warn(
        "source",
        "no remote is set",
        "set `source.remotes: [{url: …}]` in /etc/zagent/zagent.yaml",
    )
}

pub(super) fn check_remote(
    remote: &RemoteSettings,
    source: &SourceSettings,
    scope: &DoctorScope,
) -> Vec<DoctorFinding> {
    let plain = Path::new(&remote.url);
    if plain.is_absolute() && DirSource::is_plain_dir(plain) {
        return vec![check_directory(plain)];
    }
    let mut findings: Vec<DoctorFinding> =
        check_requirements(remote).into_iter().filter(|f| f.verdict != DoctorStatus::Ok).collect();
    match RemoteClient::new(remote, source) {
        Err(e) => findings.push(source_failure(&e, None)),
        Ok(client) if scope.offline => {
            findings.push(DoctorFinding::ok("source", format!("{}: not asked (--offline)", client.url())));
        }
        // What is missing here is the cause of whatever the remote would say.
        Ok(_) if findings.iter().any(|f| f.verdict == DoctorStatus::Fail) => {}
        Ok(mut client) => findings.push(check_poll(&mut client, remote)),
    }
    findings
}

fn check_directory(dir: &Path) -> DoctorFinding {
    match std::fs::read_dir(dir) {
        Ok(_) => DoctorFinding::ok("source", format!("{} is a directory, and is watched", dir.display())),
        Err(e) => {
            DoctorFinding::fail("source", format!("{}: {e}", dir.display()), "make it, or name another one")
        }
    }
}

/// Files and programs that this remote cannot do without.
fn check_requirements(remote: &RemoteSettings) -> Vec<DoctorFinding> {
    let secret = remote
        .token_file
        .iter()
        .chain(&remote.key)
        .map(|path| check_file("source", path, FileProtection::Secret));
    let trusted = remote
        .ca
        .iter()
        .chain(&remote.known_hosts)
        .map(|path| check_file("source", path, FileProtection::Trusted));
    let mut findings: Vec<DoctorFinding> = secret.chain(trusted).collect();
    let url = remote.url.as_str();
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    let is_file = url.starts_with("file://") || url.starts_with('/');
    let mut need = |program: &str, what: &str| {
        if !has_program(program) {
            let message = format!("there is no `{program}`, and {what} needs it");
            findings.push(DoctorFinding::fail("source", message, format!("install {program}")));
        }
    };
    if is_file {
        need("git", "a repository on this host");
    } else if remote.credential_helper.is_some() {
        need("git", "a credential helper");
    }
    if !is_http && !is_file {
        need("ssh", "a remote over ssh");
    }
    if url.starts_with("http://") {
        let message = "http:// is not encrypted: anybody on the way reads along";
        let hint = "use https://, and `trust.require: commit` so that nobody can change it either";
        findings.push(DoctorFinding::warn("source", message, hint));
    }
    findings
}

fn check_poll(client: &mut RemoteClient, remote: &RemoteSettings) -> DoctorFinding {
    let url = client.url().to_owned();
    let begun = Instant::now();
    match client.poll(&[&remote.branch], Deadline::after(CHECK_TIMEOUT)) {
        Ok(heads) => match heads.into_iter().next().flatten() {
            Some(head) => {
                let took = begun.elapsed().as_millis();
                DoctorFinding::ok(
                    "source",
                    format!("{url}: {} is {}, {took} ms", remote.branch, head.short()),
                )
            }
            None => {
                source_failure(&client.no_branch_error(&remote.branch, Deadline::after(CHECK_TIMEOUT)), None)
            }
        },
        Err(e) => source_failure(&e, diagnose_connection(&e, &remote.url)),
    }
}

/// What a remote failed with, and a way out by its kind.
fn source_failure(error: &SourceError, closer: Option<String>) -> DoctorFinding {
    let hint = match error.kind {
        SourceErrorKind::Unreachable | SourceErrorKind::Timeout => {
            "look at the network, the proxy and the firewall between here and there"
        }
        SourceErrorKind::Denied => {
            "look at `token_file`, `credential_helper` or `key`, and at what they may read"
        }
        SourceErrorKind::HostKey => {
            "add the host's key to `known_hosts` after you have compared it: ssh-keyscan HOST"
        }
        SourceErrorKind::Tls => "name the certificates of your own authority in `ca`, and look at the clock",
        SourceErrorKind::NoRepository => "look at the url, and whether these credentials may see it",
        SourceErrorKind::NoBranch => "push the branch, or set `branch`",
        SourceErrorKind::Protocol => "is it a Git repository? Try `git ls-remote` with the same url",
        SourceErrorKind::TooLarge => "`source.max_pack` says how much is taken",
        SourceErrorKind::Local => "look at the settings of this remote",
    };
    let message =
        closer.map_or_else(|| error.message.clone(), |closer| format!("{}; {closer}", error.message));
    DoctorFinding::fail("source", message, hint)
}

/// Which step towards a remote failed: its name, or the connection.
fn diagnose_connection(error: &SourceError, url: &str) -> Option<String> {
    if !matches!(error.kind, SourceErrorKind::Unreachable | SourceErrorKind::Timeout) {
        return None;
    }
    let (host, port) = endpoint(url)?;
    let found = match resolve_host(&host, port) {
        None => return Some(format!("the name {host} was not answered for by DNS in time")),
        Some(Err(e)) => return Some(format!("the name {host} does not resolve: {e}")),
        Some(Ok(found)) => found,
    };
    let open = |a: &&SocketAddr| TcpStream::connect_timeout(a, Duration::from_secs(3)).is_ok();
    match found.iter().take(4).find(open) {
        Some(address) => Some(format!("{address} accepts connections")),
        None => Some(format!("{host} resolves, and nothing accepts connections at port {port}")),
    }
}

/// The system's resolver knows no deadline of ours, so it is left behind when it takes too long.
fn resolve_host(host: &str, port: u16) -> Option<std::io::Result<Vec<SocketAddr>>> {
    let (tell, hear) = mpsc::channel();
    let name = host.to_owned();
    std::thread::spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody listens any more when it took too long.
        let _ = tell.send(found);
    });
    hear.recv_timeout(CHECK_TIMEOUT).ok()
}

/// Host and port of a URL; `user@host:path` is ssh.
fn endpoint(url: &str) -> Option<(String, u16)> {
    let (rest, port) = match url.split_once("://") {
        Some(("https", rest)) => (rest, 443),
        Some(("http", rest)) => (rest, 80),
        Some(("ssh", rest)) => (rest, 22),
        Some(_) => return None,
        None => {
            let (host, _) = url.split_once(':')?;
            return Some((host.rsplit('@').next()?.to_owned(), 22));
        }
    };
    let authority = rest.split('/').next()?.rsplit('@').next()?;
    if let Some(v6) = authority.strip_prefix('[') {
        let (host, after) = v6.split_once(']')?;
        let named = after.strip_prefix(':').and_then(|p| p.parse().ok());
        return Some((host.to_owned(), named.unwrap_or(port)));
    }
    match authority.split_once(':') {
        Some((host, named)) => Some((host.to_owned(), named.parse().ok()?)),
        None => Some((authority.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_from_urls() {
        for (url, want) in [
            ("https://bot:s3cret@git.example.org/x.git", Some(("git.example.org", 443))),
            ("http://[::1]:8080/x", Some(("::1", 8080))),
            ("ssh://git@host:2222/x", Some(("host", 2222))),
            ("git@host:x.git", Some(("host", 22))),
            ("file:///x", None),
            ("/srv/x", None),
        ] {
            let found = endpoint(url);
            assert_eq!(found.as_ref().map(|(h, p)| (h.as_str(), *p)), want, "{url}");
        }
    }
}
