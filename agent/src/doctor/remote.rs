//! One remote: whether the files it needs are there, and whether it answers with the branch.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zagent_cache::source::{Client, Deadline, Dir, Kind, SourceError};
use zagent_config::settings::{Remote, Settings, Source};

use super::files::{Keep, file};
use super::{Finding, PATIENCE, Scope, Verdict, has_program};

pub(super) fn none(settings: &Settings) -> Finding {
    if settings.baked.is_dir() {
        return Finding::ok(
            "source",
            format!("no remote is set: states come from {}", settings.baked.display()),
        );
    }
    Finding::warn("source", "no remote is set", "set `source.remotes: [{url: …}]` in /etc/zagent/zagent.yaml")
}

pub(super) fn look(remote: &Remote, source: &Source, scope: &Scope) -> Vec<Finding> {
    let plain = Path::new(&remote.url);
    if plain.is_absolute() && Dir::is_plain(plain) {
        return vec![directory(plain)];
    }
    let mut findings: Vec<Finding> = needs(remote).into_iter().filter(|f| f.verdict != Verdict::Ok).collect();
    match Client::new(remote, source) {
        Err(e) => findings.push(told(&e, None)),
        Ok(client) if scope.offline => {
            findings.push(Finding::ok("source", format!("{}: not asked (--offline)", client.url())));
        }
        // What is missing here is the cause of whatever the remote would say.
        Ok(_) if findings.iter().any(|f| f.verdict == Verdict::Fail) => {}
        Ok(mut client) => findings.push(poll(&mut client, remote)),
    }
    findings
}

fn directory(dir: &Path) -> Finding {
    match std::fs::read_dir(dir) {
        Ok(_) => Finding::ok("source", format!("{} is a directory, and is watched", dir.display())),
        Err(e) => Finding::fail("source", format!("{}: {e}", dir.display()), "make it, or name another one"),
    }
}

/// Files and programs that this remote cannot do without.
fn needs(remote: &Remote) -> Vec<Finding> {
    let secret = remote.token_file.iter().chain(&remote.key).map(|path| file("source", path, Keep::Secret));
    let trusted = remote.ca.iter().chain(&remote.known_hosts).map(|path| file("source", path, Keep::Trusted));
    let mut findings: Vec<Finding> = secret.chain(trusted).collect();
    let url = remote.url.as_str();
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    let is_file = url.starts_with("file://") || url.starts_with('/');
    let mut need = |program: &str, what: &str| {
        if !has_program(program) {
            let message = format!("there is no `{program}`, and {what} needs it");
            findings.push(Finding::fail("source", message, format!("install {program}")));
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
        findings.push(Finding::warn("source", message, hint));
    }
    findings
}

fn poll(client: &mut Client, remote: &Remote) -> Finding {
    let url = client.url().to_owned();
    let begun = Instant::now();
    match client.poll(&[&remote.branch], Deadline::after(PATIENCE)) {
        Ok(heads) => match heads.into_iter().next().flatten() {
            Some(head) => {
                let took = begun.elapsed().as_millis();
                Finding::ok("source", format!("{url}: {} is {}, {took} ms", remote.branch, head.short()))
            }
            None => told(&client.no_branch(&remote.branch, Deadline::after(PATIENCE)), None),
        },
        Err(e) => told(&e, unanswered(&e, &remote.url)),
    }
}

/// What a remote failed with, and a way out by its kind.
fn told(error: &SourceError, closer: Option<String>) -> Finding {
    let hint = match error.kind {
        Kind::Unreachable | Kind::Timeout => {
            "look at the network, the proxy and the firewall between here and there"
        }
        Kind::Denied => "look at `token_file`, `credential_helper` or `key`, and at what they may read",
        Kind::HostKey => "add the host's key to `known_hosts` after you have compared it: ssh-keyscan HOST",
        Kind::Tls => "name the certificates of your own authority in `ca`, and look at the clock",
        Kind::NoRepository => "look at the url, and whether these credentials may see it",
        Kind::NoBranch => "push the branch, or set `branch`",
        Kind::Protocol => "is it a Git repository? Try `git ls-remote` with the same url",
        Kind::TooLarge => "`source.max_pack` says how much is taken",
        Kind::Local => "look at the settings of this remote",
    };
    let message =
        closer.map_or_else(|| error.message.clone(), |closer| format!("{}; {closer}", error.message));
    Finding::fail("source", message, hint)
}

/// Which step towards a remote failed: its name, or the connection.
fn unanswered(error: &SourceError, url: &str) -> Option<String> {
    if !matches!(error.kind, Kind::Unreachable | Kind::Timeout) {
        return None;
    }
    let (host, port) = endpoint(url)?;
    let found = match resolve(&host, port) {
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
fn resolve(host: &str, port: u16) -> Option<std::io::Result<Vec<SocketAddr>>> {
    let (tell, hear) = mpsc::channel();
    let name = host.to_owned();
    std::thread::spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody listens any more when it took too long.
        let _ = tell.send(found);
    });
    hear.recv_timeout(PATIENCE).ok()
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
