//! A command that the agent runs for somebody else, on the terminal of an administrator: it reaches neither the terminal nor
//! the variables of the shell that started the agent, and it still ends with everything that it started.
//!
//! The commands run in a process that leads a session on a terminal of its own.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use zagent_host::Machine;
use zagent_host::exec::{ExecCommand, ExitReason};

/// Set for the process on the terminal: the path of the terminal.
const TERMINAL: &str = "ATTACK_TERMINAL";
/// Types a letter into a terminal, or tells why it cannot.
const TYPE_A_LETTER: &str = r#"open(my $t, "<", $ARGV[0]) or do { print "closed: $!"; exit };
    print defined(ioctl($t, 0x5412, my $letter = "x")) ? "typed" : "refused: $!""#;

fn output(command: &ExecCommand) -> String {
    let outcome = Machine::this_host().run(command).unwrap();
    String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).trim().to_owned()
}

fn sh(script: &str) -> ExecCommand {
    ExecCommand::new("/bin/sh").args(["-c", script])
}

/// Not a test: leads a session on a terminal, and runs commands there.
#[test]
fn on_a_terminal() {
    let Some(terminal) = std::env::var_os(TERMINAL) else { return };
    let terminal = terminal.to_string_lossy().into_owned();
    assert!(File::open("/dev/tty").is_ok(), "there is no terminal to keep away");
    let stat = output(&sh("cat /proc/$$/stat; echo $$"));
    let (line, pid) = stat.rsplit_once('\n').unwrap();
    let fields: Vec<&str> = line.rsplit_once(") ").unwrap().1.split(' ').collect();
    // Process group, session, terminal.
    assert_eq!(fields[2..5], [pid, pid, "0"], "{stat}");
    assert!(output(&sh(": < /dev/tty")).contains("No such device"), "/dev/tty opens");

    let perl = |path: &str| ExecCommand::new("perl").args(["-e", TYPE_A_LETTER, path]);
    let own = Command::new("perl").args(["-e", TYPE_A_LETTER, &terminal]).output().unwrap();
    eprintln!("a child that shares the terminal: {}", String::from_utf8_lossy(&own.stdout));
    assert_eq!(output(&perl("/dev/tty")), "closed: No such device or address");
    if rustix::process::geteuid().is_root() {
        let nobody = zagent_host::command_options::RunAsUser::find(&Machine::this_host(), "nobody").unwrap();
        let mut as_nobody = perl(&terminal);
        as_nobody.user = Some(nobody.ids);
        let typed = output(&as_nobody);
        assert!(typed.starts_with("refused: ") || typed.starts_with("closed: "), "{typed}");
    }

    let shown = output(&sh("env"));
    for name in ["ZAGENT_TOKEN", "CI_TOKEN", TERMINAL, "LD_PRELOAD"] {
        assert!(!shown.contains(name), "{shown}");
    }
    let mut own = sh("echo $CI_TOKEN");
    own.env = vec![("CI_TOKEN".into(), "given".into())];
    assert_eq!(output(&own), "given");

    let mut slow = sh("sleep 1000 & echo $!; wait");
    slow.timeout = Some(Duration::from_millis(100));
    let ended = Machine::this_host().run(&slow).unwrap();
    assert_eq!(ended.reason, ExitReason::TimedOut);
    let child = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    let is_gone =
        || fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z"));
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_gone() {
        assert!(Instant::now() < patience, "process {child} outlived its session");
        std::thread::yield_now();
    }
    println!("all is well on the terminal");
}

#[test]
fn a_command_has_neither_terminal_nor_environment_of_the_agent() {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let path = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    // Every user could open it.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let terminal = File::options().read(true).write(true).open(&path).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
    command.args(["attacks::terminal::on_a_terminal", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(TERMINAL, &path).env("CI_TOKEN", "t").env("ZAGENT_TOKEN", "t");
    let output = command.stdin(Stdio::from(terminal)).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && text.contains("all is well on the terminal"), "{text}");
}
