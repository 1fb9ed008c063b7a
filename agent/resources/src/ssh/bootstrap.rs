//! A host in, its agent's start out: one script for a shell, which starts the agent that is there, or asks for it and installs it.
//!
//! The agent lies in a directory of mode 0700 that belongs to the user who logs in, under a name with its BLAKE3 digest. A copy
//! is named so only after it has run there once and has said that very digest of itself: a copy that is cut short, damaged, or
//! made for another machine is removed. What is named so is trusted from then on: only its owner could change it.
//!
//! Law: the script holds neither a single quote nor a line end, so that it is one word for any login shell
//! (held by `the_script_is_one_word_for_any_shell`).

use std::io::Read;

use zagent_config::resources::SshHost;
use zagent_host::exec::{Dialog, DialogWait};

use super::binary::AgentBinary;
use super::protocol::MARK;

/// Finds or installs the agent and becomes it. Arguments: mark, tty, directory, sudo, sudo user, then MACHINE=DIGEST pairs.
const SCRIPT: &str = concat!(
    "umask 077; m=$1; y=$2; thin=$3; s=$4; su=$5; shift 5; ",
    "if [ $y = yes ]; then stty raw -echo 2>/dev/null; fi; ",
    "a=$(uname -m); h=; if [ $(uname -s) = Linux ]; then ",
    "for p in \"$@\"; do case $p in \"$a\"=*) h=${p#*=};; esac; done; fi; ",
    "u=$(id -u); case $thin in \"~/\"*) thin=$HOME/${thin#??};; esac; ",
    // Always a directory of our own: what is above it belongs to somebody else. Homes are closed to the user of `sudo`.
    "if [ -n \"$thin\" ]; then set -- \"$thin/zagent-$u\"; else ",
    "set -- /var/tmp/zagent-$u /dev/shm/zagent-$u /tmp/zagent-$u; ",
    "[ -n \"$su\" ] || set -- \"$HOME/.cache/zagent\" \"$@\"; fi; ",
    // States make files with the mask of the agent: it is that of a service, not that of this script.
    "go() { umask 022; if [ -n \"$su\" ]; then chmod 711 \"${1%/*}\"; chmod 755 \"$1\"; fi; case $s in ",
    "none) exec \"$1\" resource-agent;; ",
    "plain) exec sudo -n ${su:+-u \"$su\"} -- \"$1\" resource-agent;; ",
    "*) echo \"$m sudo\"; exec sudo -k -S -p \"\" ${su:+-u \"$su\"} -- \"$1\" resource-agent;; esac; }; ",
    "for d in \"$@\"; do f=$d/zagent-$h; ",
    "if [ -n \"$h\" ] && [ -x \"$f\" ] && [ -O \"$f\" ] && [ -O \"$d\" ]; then ",
    "[ -L \"$d\" ] || [ -L \"$f\" ] || go \"$f\"; fi; done; ",
    "echo \"$m need $a\"; read -r n h; [ -n \"$h\" ] || exit 3; w=; k=$((n/1024+1024)); ",
    "for d in \"$@\"; do ",
    "if [ -L \"$d\" ]; then w=\"$w$d is a link; \"; continue; fi; ",
    "if [ -n \"$su\" ]; then umask 022; fi; { mkdir -p \"$d\" && chmod 700 \"$d\" && [ -O \"$d\" ] && [ -w \"$d\" ]; } 2>/dev/null || ",
    "{ w=\"$w$d cannot be used; \"; continue; }; umask 077; ",
    "e=$(df -Pk \"$d\" 2>/dev/null | { read -r x; read -r x x x e x; echo \"$e\"; }); ",
    "[ \"${e:-0}\" -ge $k ] 2>/dev/null || ",
    "{ w=\"$w$d has ${e:-no} KiB of free space and $k are needed; \"; continue; }; ",
    "t=$d/.try$$; { echo \"exit 7\" >\"$t\" && chmod 700 \"$t\" && \"$t\"; } 2>/dev/null; r=$?; rm -f \"$t\"; ",
    "[ $r = 7 ] || { w=\"$w$d does not let programs run; \"; continue; }; ",
    "echo \"$m send\"; t=$d/.new$$; ",
    "head -c $n >\"$t\" 2>/dev/null || { rm -f \"$t\"; echo \"$m no $d cannot be written\"; exit 3; }; ",
    "chmod 700 \"$t\"; v=$(\"$t\" resource-agent --digest 2>&1 | head -c 200); ",
    "[ \"$v\" = \"$h\" ] || { rm -f \"$t\"; echo \"$m no the program does not run there: \"$v; exit 3; }; ",
    "mv -f \"$t\" \"$d/zagent-$h\"; ",
    "find \"$d\" -maxdepth 1 -name \"zagent-*\" -type f -mtime +30 -exec rm -f {} + 2>/dev/null; ",
    "go \"$d/zagent-$h\"; done; echo \"$m no $w\"",
);

/// How much is sent at once.
const CHUNK: usize = 256 << 10;

/// The command that a login shell on the host gets.
pub(crate) fn remote_command(host: &SshHost, binaries: &[AgentBinary]) -> String {
    let sudo = match (host.sudo, &host.password) {
        (false, _) => "none",
        (true, None) => "plain",
        (true, Some(_)) => "password",
    };
    let mut words = vec![
        MARK.to_owned(),
        if host.tty { "yes" } else { "no" }.to_owned(),
        host.remote_dir.clone().unwrap_or_default(),
        sudo.to_owned(),
        host.sudo_user.clone().filter(|_| host.sudo).unwrap_or_default(),
    ];
    words.extend(binaries.iter().map(|binary| format!("{}={}", binary.machine, binary.digest)));
    // None of the words holds a single quote: they were checked with the declaration.
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    format!("exec sh -c '{SCRIPT}' zagent {}", words.join(" "))
}

/// What the script says before the agent starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScriptWord {
    /// `sudo` wants the password.
    Sudo,
    /// There is no agent yet; the machine is this.
    Need(String),
    /// It waits for the program.
    Send,
    /// It cannot be installed, and why.
    Refused(String),
}

impl ScriptWord {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = zagent_config::sanitize(rest.trim().trim_end_matches(';'));
        match word {
            "sudo" => Some(Self::Sudo),
            "need" => Some(Self::Need(rest)),
            "send" => Some(Self::Send),
            "no" => Some(Self::Refused(rest)),
            _ => None,
        }
    }
}

/// The program for a machine.
pub(crate) fn binary_for<'b>(machine: &str, binaries: &'b [AgentBinary]) -> Result<&'b AgentBinary, String> {
    binaries.iter().find(|binary| binary.machine == machine).ok_or_else(|| {
        format!(
            "there is no program for its machine `{machine}`: put one named `zagent-{machine}` into the directory \
             that `resources.binaries` names"
        )
    })
}

/// Sends the program.
pub(crate) fn send_binary(
    dialog: &mut Dialog,
    binary: &AgentBinary,
    wait: DialogWait<'_>,
) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("cannot read the program for it: {error}");
    let mut file = binary.open().map_err(fail)?.take(binary.size);
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = file.read(&mut chunk).map_err(fail)?;
        // When the other side stops reading, it says why.
        if n == 0 || dialog.send(&chunk[..n], wait).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        assert!(!SCRIPT.contains(['\'', '\n', '!']));
        let dir = tempfile::tempdir().unwrap();
        // `sh -n` reads it without running it.
        let script = dir.path().join("script");
        std::fs::write(&script, SCRIPT).unwrap();
        let read = std::process::Command::new("sh").arg("-n").arg(&script).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }

    /// What the script says in a home of its own; a program that is sent says the digest `d` of itself, and then `ran`.
    fn run_script(thin: &str, sudo_user: &str, home: &std::path::Path) -> String {
        let program = "#!/bin/sh\n[ \"$2\" = --digest ] && { echo d; exit; }\necho ran \"$0\"\n";
        let input = home.join("input");
        std::fs::write(&input, format!("{} d\n{program}", program.len())).unwrap();
        let uname = std::process::Command::new("uname").arg("-m").output().unwrap().stdout;
        let pair = format!("{}=d", String::from_utf8(uname).unwrap().trim());
        let ran = std::process::Command::new("sh")
            .args(["-c", SCRIPT, "zagent", MARK, "no", thin, "none", sudo_user, &pair])
            .env("HOME", home)
            .stdin(std::fs::File::open(&input).unwrap())
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap() + &String::from_utf8_lossy(&ran.stderr)
    }

    #[test]
    fn only_a_directory_of_our_own_is_changed() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let home = tempfile::tempdir().unwrap();
        let thin = home.path().join("shared");
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        std::fs::create_dir_all(thin.join("sub")).unwrap();
        let foreign = thin.join("sub/zagent-of-somebody-else");
        let old = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::create(&foreign).unwrap().set_modified(old).unwrap();
        std::fs::set_permissions(&thin, PermissionsExt::from_mode(0o1777)).unwrap();
        let own = thin.join(format!("zagent-{}", std::fs::metadata(&thin).unwrap().uid()));
        // One from long ago is removed, one in a directory below is not.
        std::fs::create_dir_all(own.join("files")).unwrap();
        for name in ["zagent-old", "files/zagent-old"] {
            std::fs::File::create(own.join(name)).unwrap().set_modified(old).unwrap();
        }
        let said = run_script(&thin.display().to_string(), "", home.path());
        assert!(said.contains(&format!("ran {}/zagent-d", own.display())), "{said}");
        assert_eq!((mode(&thin), mode(&own), foreign.exists()), (0o1777, 0o700, true));
        assert_eq!((own.join("zagent-old").exists(), own.join("files/zagent-old").exists()), (false, true));
        let again = run_script(&thin.display().to_string(), "deploy", home.path());
        assert!(again.starts_with("ran "), "{again}");
        assert_eq!((mode(&own), mode(&own.join("zagent-d"))), (0o711, 0o755), "for the user of sudo");
        // A link that somebody else put there first is not followed.
        let real = thin.join("real");
        std::fs::rename(&own, &real).unwrap();
        std::os::unix::fs::symlink(&real, &own).unwrap();
        let linked = run_script(&thin.display().to_string(), "", home.path());
        assert!(linked.contains("is a link") && !linked.contains("ran "), "{linked}");
    }

    #[test]
    fn words_of_the_script_are_read() {
        for (text, want) in [
            ("sudo", Some(ScriptWord::Sudo)),
            ("need riscv64", Some(ScriptWord::Need("riscv64".into()))),
            ("send", Some(ScriptWord::Send)),
            ("no /tmp is a link; ", Some(ScriptWord::Refused("/tmp is a link".into()))),
            ("hello", None),
        ] {
            assert_eq!(ScriptWord::parse(text), want);
        }
        assert!(binary_for("mips", &[]).unwrap_err().contains("zagent-mips"));
    }
}
