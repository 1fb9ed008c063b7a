//! The address of an ssh remote in, the keys that its server offers out.

use std::path::Path;
use std::time::Duration;

use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::Machine;
use zagent_host::exec::ExecCommand;

use crate::doctor;

/// The time limit of a scan.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Keys of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostKeys {
    /// Lines of a known_hosts file.
    pub(crate) lines: String,
    /// Their fingerprints, as `ssh-keygen -l` prints them.
    pub(crate) fingerprints: Vec<String>,
}

/// True for a remote that is reached over ssh.
pub(crate) fn is_ssh(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, _)) => scheme == "ssh",
        None => !url.starts_with('/') && url.contains(':'),
    }
}

/// True when a file of known hosts has keys of this remote.
pub(crate) fn is_known(url: &str, known_hosts: &Path) -> bool {
    let Some((host, port)) = doctor::endpoint(url).filter(|_| known_hosts.exists()) else { return false };
    let name = if port == 22 { host } else { format!("[{host}]:{port}") };
    let path = known_hosts.display().to_string();
    output("ssh-keygen", &["-F", &name, "-f", &path]).is_ok_and(|found| !found.trim().is_empty())
}

/// Asks the server for its keys.
///
/// # Errors
/// Fails when it does not answer, or the programs of OpenSSH are missing.
pub(crate) fn scan(url: &str) -> Result<HostKeys, AgentError> {
    let failed = |why: &str| AgentError::Refusal {
        exit: ExitStatus::Unreachable,
        message: format!("cannot get the host key of `{}`: {why}", zagent_config::mask::mask_message(url)),
        hint: Some("check the address; or give the keys with --known-hosts FILE".into()),
    };
    let (host, port) = doctor::endpoint(url).ok_or_else(|| failed("the URL has no host"))?;
    let port = port.to_string();
    let lines = output("ssh-keyscan", &["-T", "10", "-p", &port, "-t", "ed25519,ecdsa,rsa", &host])
        .map_err(|why| failed(&why))?;
    let mut lines: Vec<&str> = lines.lines().filter(|line| !line.starts_with('#')).collect();
    // The order of answers is random; the file is not.
    zagent_config::sorted::sort_by(&mut lines, |a, b| a.cmp(b));
    let lines = lines.iter().fold(String::new(), |all, line| all + line + "\n");
    if lines.is_empty() {
        return Err(failed("no ssh server answers"));
    }
    let dir = tempfile::tempdir().map_err(|error| failed(&error.to_string()))?;
    let file = dir.path().join("known_hosts");
    zagent_config::atomic_file::AtomicFile::cached(0o600)
        .write(&file, lines.as_bytes())
        .map_err(|error| failed(&error.to_string()))?;
    let shown =
        output("ssh-keygen", &["-l", "-f", &file.display().to_string()]).map_err(|why| failed(&why))?;
    Ok(HostKeys { lines, fingerprints: shown.lines().map(str::to_owned).collect() })
}

fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let mut command = ExecCommand::new(program).args(args.iter().copied());
    command.timeout = Some(TIMEOUT);
    let outcome = Machine::this_host().run(&command).map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match outcome.success() {
        true => Ok(text(&outcome.stdout)),
        false => Err(format!("`{program}` failed: {}", text(&outcome.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_ssh;

    #[test]
    fn remotes_over_ssh_are_recognised() {
        for url in ["ssh://git@host/x", "git@host:x.git", "host:x"] {
            assert!(is_ssh(url), "{url}");
        }
        for url in ["https://host/x", "file:///x", "/srv/x"] {
            assert!(!is_ssh(url), "{url}");
        }
    }
}
