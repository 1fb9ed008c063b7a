//! One remote: whether the files it needs exist, and whether it answers with the branch.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, DirSource, RemoteClient, SourceError, SourceErrorKind};
use zagent_config::redirect::UrlOrigin;
use zagent_config::settings::{RemoteSettings, Settings, SourceSettings};

use super::files::{FileProtection, check_file};
use super::{CHECK_TIMEOUT, DoctorFinding, DoctorScope, DoctorStatus, has_program};

pub(super) fn check_no_remote(settings: &Settings) -> DoctorFinding {
    if settings.baked.is_dir() {
        return DoctorFinding::ok(
            "source",
            format!("no remote is configured: states come from {}", settings.baked.display()),
        );
    }
    DoctorFinding::warn(
        "source",
        "no remote is configured",
        "set `source.remotes: [{url: …}]` in /etc/zagent/zagent.yaml",
    )
}

pub(crate) fn check_remote(
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
            findings.push(DoctorFinding::ok("source", format!("{}: not checked (--offline)", client.url())));
        }
        // A missing file explains whatever the remote would answer.
        Ok(_) if findings.iter().any(|f| f.verdict == DoctorStatus::Fail) => {}
        Ok(mut client) => findings.push(check_poll(&mut client, remote)),
    }
    findings
}

fn check_directory(dir: &Path) -> DoctorFinding {
    match std::fs::read_dir(dir) {
        Ok(_) => DoctorFinding::ok("source", format!("{} is a directory and is watched", dir.display())),
        Err(e) => DoctorFinding::fail(
            "source",
            format!("{}: {e}", dir.display()),
            "create it, or set another directory",
        ),
    }
}

/// Files and programs that this remote requires.
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
    let scheme = UrlOrigin::parse(url).map(|origin| origin.scheme).unwrap_or_default();
    let is_http = matches!(scheme.as_str(), "http" | "https");
    let is_file = url.starts_with("file://") || url.starts_with('/');
    let mut need = |program: &str, what: &str| {
        if !has_program(program) {
            let message = format!("`{program}` is not installed, but {what} needs it");
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
    if scheme == "http" {
        let message = "http:// is not encrypted: others on the network can read the states";
        let hint = "use https://, and set `trust.require: commit` so that others cannot modify them either";
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

/// Error of a remote, with a hint by its kind.
fn source_failure(error: &SourceError, closer: Option<String>) -> DoctorFinding {
    let hint = match error.kind {
        SourceErrorKind::Unreachable | SourceErrorKind::Timeout => {
            "check the network, the proxy and the firewall between this host and the remote"
        }
        SourceErrorKind::Denied => {
            "check `token_file`, `credential_helper` or `key`, and their read access to the repository"
        }
        SourceErrorKind::HostKey => {
            "get the host key with `ssh-keyscan HOST`, compare it, and add it to `known_hosts`"
        }
        SourceErrorKind::Tls => "set `ca` to the certificates of your own authority, and check the clock",
        SourceErrorKind::NoRepository => "check the URL, and whether these credentials can read it",
        SourceErrorKind::NoBranch => "push the branch, or set `branch`",
        SourceErrorKind::Protocol => {
            "check that it is a Git repository: run `git ls-remote` with the same URL"
        }
        SourceErrorKind::TooLarge => "raise the limit in `source.max_pack`",
        SourceErrorKind::Local => "check the settings of this remote",
    };
    let message =
        closer.map_or_else(|| error.message.clone(), |closer| format!("{}; {closer}", error.message));
    DoctorFinding::fail("source", message, hint)
}

/// Which step of the connection failed: name resolution, or the connection itself.
fn diagnose_connection(error: &SourceError, url: &str) -> Option<String> {
    if !matches!(error.kind, SourceErrorKind::Unreachable | SourceErrorKind::Timeout) {
        return None;
    }
    let (host, port) = endpoint(url)?;
    let found = match resolve_host(&host, port) {
        None => return Some(format!("DNS did not answer for {host} in time")),
        Some(Err(e)) => return Some(format!("the name {host} does not resolve: {e}")),
        Some(Ok(found)) => found,
    };
    let open = |a: &&SocketAddr| TcpStream::connect_timeout(a, Duration::from_secs(3)).is_ok();
    match found.iter().take(4).find(open) {
        Some(address) => Some(format!("{address} accepts connections")),
        None => Some(format!("{host} resolves, but nothing accepts connections on port {port}")),
    }
}

/// The system resolver has no deadline, so the thread is abandoned when it takes too long.
fn resolve_host(host: &str, port: u16) -> Option<std::io::Result<Vec<SocketAddr>>> {
    let (tell, hear) = mpsc::channel();
    let name = host.to_owned();
    std::thread::spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The receiver is gone when it took too long.
        let _ = tell.send(found);
    });
    hear.recv_timeout(CHECK_TIMEOUT).ok()
}

/// Host and port of a URL; `user@host:path` is ssh.
pub(crate) fn endpoint(url: &str) -> Option<(String, u16)> {
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
    fn endpoints_are_parsed_from_urls() {
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
