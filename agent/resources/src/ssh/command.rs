//! The declaration of an ssh host and a remote command in, the `ssh` command out.
//!
//! Law: a password or passphrase is never an argument, nothing is asked on a terminal, and an unknown or changed host key ends
//! the connection unless the declaration says otherwise (held by `options_of_a_declaration_become_options_of_ssh`).

use std::ffi::OsString;
use std::path::Path;

use zagent_config::child_process::search_path;
use zagent_config::resources::SshHost;
use zagent_host::exec::ExecCommand;

/// The variable that names the file with the secrets of one connection, for the agent as askpass program.
pub const ASKPASS_VARIABLE: &str = "ZAGENT_ASKPASS";

/// The command that connects to a host. `askpass` is the file with the secrets of the connection.
pub(crate) fn ssh_command(host: &SshHost, remote: &str, askpass: Option<&Path>) -> ExecCommand {
    let mut args: Vec<OsString> = vec![if host.tty { "-tt" } else { "-T" }.into()];
    let mut option = |text: String| args.extend(["-o".into(), text.into()]);
    option(format!("BatchMode={}", if askpass.is_some() { "no" } else { "yes" }));
    for fixed in [
        "ControlMaster=no",
        "ControlPath=none",
        "EscapeChar=none",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "NumberOfPasswordPrompts=1",
        "ConnectionAttempts=1",
    ] {
        option(fixed.into());
    }
    // A host writes such questions itself: it gets no chance to ask for the passphrase of a key of this node.
    if host.password.is_none() || host.key_passphrase.is_some() {
        option("KbdInteractiveAuthentication=no".into());
    }
    host.options.iter().cloned().for_each(&mut option);
    option(format!("ConnectTimeout={}", host.timeout.as_secs().max(1)));
    option("LogLevel=ERROR".into());
    if let Some((interval, count)) = host.keepalive {
        option(format!("ServerAliveInterval={interval}"));
        option(format!("ServerAliveCountMax={count}"));
    }
    host_key_options(host).into_iter().for_each(&mut option);
    if host.identities_only {
        option("IdentitiesOnly=yes".into());
    }
    if let Some(jump) = &host.jump {
        option(format!("ProxyCommand={}", proxy_command(host, jump)));
    }
    if let Some(key) = &host.key {
        args.extend(["-i".into(), key.into()]);
    }
    args.extend(["-p".into(), host.port.to_string().into(), "-l".into(), host.user.clone().into()]);
    args.extend(["--".into(), host.host.clone().into(), remote.into()]);
    let mut command = ExecCommand::new("ssh").args(args);
    command.clear_env = true;
    command.hide_args = true;
    command.env = vec![("PATH".into(), search_path())];
    if let Some(file) = askpass {
        // The program of this process, also when its file was replaced meanwhile.
        let own = format!("/proc/{}/exe", std::process::id());
        command.env.extend([
            ("SSH_ASKPASS".into(), own.into()),
            ("SSH_ASKPASS_REQUIRE".into(), "force".into()),
            ("DISPLAY".into(), ":0".into()),
            (ASKPASS_VARIABLE.into(), file.into()),
        ]);
    }
    command.cwd = Some("/".into());
    command.timeout = None;
    command
}

/// How the key of the host is checked.
fn host_key_options(host: &SshHost) -> Vec<String> {
    let (check, file) = match (host.no_host_keys, host.ignore_host_keys) {
        (true, _) => ("no", Some("/dev/null".to_owned())),
        (false, true) => ("accept-new", None),
        (false, false) => ("yes", None),
    };
    let known = host.known_hosts.as_ref().map(|path| path.display().to_string());
    let mut options = vec![format!("StrictHostKeyChecking={check}")];
    options.extend(file.or(known).map(|path| format!("UserKnownHostsFile={path}")));
    options
}

/// The command that reaches the host through another one. It gets no secret: the password is one of the host itself.
fn proxy_command(host: &SshHost, jump: &str) -> String {
    let mut words = vec!["exec env -u SSH_ASKPASS -u SSH_ASKPASS_REQUIRE ssh -T -o BatchMode=yes".to_owned()];
    words.extend(host_key_options(host).iter().map(|option| format!("-o '{option}'")));
    words.push(format!("-o ConnectTimeout={}", host.timeout.as_secs().max(1)));
    if let Some(key) = &host.key {
        words.push(format!("-i '{}'", key.display()));
    }
    let (before, last) = jump.rsplit_once(',').map_or((None, jump), |(before, last)| (Some(before), last));
    words.extend(before.map(|before| format!("-J '{before}'")));
    words.push(format!("-W '[%h]:%p' -- 'ssh://{}'", last.trim_start_matches("ssh://")));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use zagent_config::Value;
    use zagent_config::resources::{Declaration, ResourceConfig};

    use super::*;

    fn host(body: &str) -> SshHost {
        let text = format!(r#"{{"resources": {{"ssh": {{"hosts": {{"a": {body}}}}}}}}}"#);
        let pillar = Value::from_json_str(&text).unwrap();
        let declared = Declaration::read(&pillar, "resources", &[]).unwrap();
        match declared.resources[0].config.clone() {
            ResourceConfig::Ssh(host) => *host,
            other => panic!("{other:?}"),
        }
    }

    fn words(body: &str, askpass: Option<&Path>) -> String {
        let command = ssh_command(&host(body), "true", askpass);
        assert!(command.clear_env);
        let words: Vec<String> = command.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn options_of_a_declaration_become_options_of_ssh() {
        let plain = words(r#"{"host": "192.0.2.7"}"#, None);
        assert!(plain.starts_with("-T -o BatchMode=yes -o ControlMaster=no"), "{plain}");
        assert!(plain.ends_with("-p 22 -l root -- 192.0.2.7 true"), "{plain}");
        for (body, want) in [
            (r#"{"host": "h"}"#, "-o StrictHostKeyChecking=yes"),
            (r#"{"host": "h"}"#, "-o ServerAliveInterval=60 -o ServerAliveCountMax=3"),
            (r#"{"host": "h", "ignore_host_keys": true}"#, "-o StrictHostKeyChecking=accept-new"),
            (
                r#"{"host": "h", "no_host_keys": true, "known_hosts_file": "/k"}"#,
                "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            ),
            (r#"{"host": "h", "known_hosts_file": "/k"}"#, "-o UserKnownHostsFile=/k"),
            (r#"{"host": "h", "tty": true}"#, "-tt -o"),
            (r#"{"host": "h", "priv_passwd": "x"}"#, "-o KbdInteractiveAuthentication=no"),
            (r#"{"host": "h", "priv_passwd": "x", "passwd": "y"}"#, "-o KbdInteractiveAuthentication=no"),
            (r#"{"host": "h", "timeout": 7}"#, "-o ConnectTimeout=7"),
            (r#"{"host": "h", "identities_only": true, "priv": "/id"}"#, "-o IdentitiesOnly=yes -i /id"),
            (r#"{"host": "h", "user": "u", "port": 2222}"#, "-p 2222 -l u -- h"),
            (r#"{"host": "h", "ssh_options": ["Compression=yes"]}"#, "-o Compression=yes"),
            (r#"{"host": "h", "jump": "j@b:23"}"#, "-W '[%h]:%p' -- 'ssh://j@b:23'"),
            (r#"{"host": "h", "jump": "a,b"}"#, "-J 'a' -W '[%h]:%p' -- 'ssh://b'"),
            (r#"{"host": "h", "keepalive": true, "keepalive_interval": 5}"#, "-o ServerAliveInterval=5"),
        ] {
            let words = words(body, None);
            assert!(words.contains(want), "{body}: {words}");
        }
        assert!(!words(r#"{"host": "h", "passwd": "y"}"#, None).contains("KbdInteractive"));
        assert!(!words(r#"{"host": "h", "keepalive": false}"#, None).contains("ServerAlive"));
        let body = r#"{"host": "h", "passwd": "hunter2hunter2", "priv_passwd": "swordfish99", "jump": "j"}"#;
        let secret = ssh_command(&host(body), "true", Some(Path::new("/run/x")));
        assert!(secret.env.iter().any(|(name, value)| name == ASKPASS_VARIABLE && value == "/run/x"));
        let all = format!("{:?} {:?}", secret.args, secret.env);
        assert!(!all.contains("hunter2") && !all.contains("swordfish"), "{all}");
        assert!(all.contains("BatchMode=no") && all.contains("env -u SSH_ASKPASS"), "{all}");
    }
}
