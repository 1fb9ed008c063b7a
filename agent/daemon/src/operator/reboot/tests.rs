//! A host made of files and small programs.

use std::os::unix::fs::PermissionsExt;

use std::sync::Arc;

use zagent_config::paths::Paths;

use super::*;
use zagent_host::CancelToken;
use zagent_host::reboot::*;

struct RebootFixture {
    dir: tempfile::TempDir,
    host: RebootHost,
}

impl RebootFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let host = RebootHost {
            required: at("reboot-required"),
            boot_id: at("boot_id"),
            scheduled: at("scheduled"),
            shutdown: at("shutdown").into(),
            at_once: vec![vec![at("systemctl").into(), "reboot".into()], vec![at("reboot").into()]],
        };
        std::fs::write(at("boot_id"), "boot-1\n").unwrap();
        Self { dir, host }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path().join("root"))
    }

    /// A program that records its arguments and exits with this code.
    fn program(&self, name: &str, code: i32) {
        let path = self.dir.path().join(name);
        let noted = self.dir.path().join("noted");
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"{name}\" \"$@\" >> '{}'\necho no >&2\nexit {code}\n",
            noted.display()
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn noted(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("noted")).unwrap_or_default()
    }
}

fn policy(policy: RebootPolicy) -> RebootSettings {
    RebootSettings { policy, notice: Duration::from_secs(60) }
}

#[test]
fn packages_and_states_can_need_a_reboot() {
    let made = RebootFixture::new();
    let paths = made.paths();
    assert_eq!(reboot_needed(&paths, &made.host).unwrap(), None);
    std::fs::write(&made.host.required, "").unwrap();
    let reason = || reboot_needed(&paths, &made.host).unwrap().unwrap().reason;
    assert_eq!(reason(), "the system requires a restart");
    std::fs::write(made.dir.path().join("reboot-required.pkgs"), "linux-image\nlibc6\nlinux-image\n")
        .unwrap();
    assert_eq!(reason(), "packages were updated: libc6, linux-image");
    let now = Timestamp::UNIX_EPOCH;
    request_reboot(&paths, &made.host, "new\nkernel \u{1b}[31mparameters", now).unwrap();
    request_reboot(&paths, &made.host, "another reason", Timestamp::MAX).unwrap();
    let need = reboot_needed(&paths, &made.host).unwrap().unwrap();
    assert_eq!(
        need,
        RebootNeed { reason: "new kernel \u{fffd}[31mparameters".into(), asked: true, since: Some(now) }
    );
    std::fs::remove_file(&made.host.required).unwrap();
    std::fs::write(&made.host.boot_id, "boot-2\n").unwrap();
    assert_eq!(reboot_needed(&paths, &made.host).unwrap(), None, "it was done");
    assert!(!paths.reboot().exists());
}

#[test]
fn a_reboot_follows_the_policy() {
    let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let need = |asked| RebootNeed { reason: "x".into(), asked, since: None };
    let window = [MaintenanceWindow { days: vec![], from: 0, to: 60, timezone: "local".into() }];
    let open = |seconds| WindowState::Open { until: Some(now + Duration::from_secs(seconds)) };
    let closed = WindowState::Closed { opens: Some(now + Duration::from_secs(60)) };
    let always = WindowState::Open { until: None };
    let why = |p, asked, windows: &[MaintenanceWindow], standing| match decide(
        &policy(p),
        Some(&need(asked)),
        windows,
        standing,
        now,
    ) {
        RebootDecision::Wait { why } => why,
        RebootDecision::Reboot { notice } => format!("reboot in {}", notice.as_secs()),
        RebootDecision::Nothing => "nothing".into(),
    };
    use RebootPolicy::{Never, OnRequest, Window as InWindow};
    assert_eq!(decide(&policy(InWindow), None, &window, open(600), now), RebootDecision::Nothing);
    assert_eq!(why(Never, true, &window, open(600)), "`reboot.policy` is `never`");
    assert_eq!(why(InWindow, false, &window, open(600)), "reboot in 60");
    assert_eq!(
        why(InWindow, false, &window, closed),
        "the next maintenance window opens at 2026-11-16T12:01:00Z"
    );
    assert_eq!(
        why(InWindow, false, &window, open(60)),
        "the maintenance window closes before the notice is over"
    );
    assert!(why(InWindow, true, &[], always).contains("there is no maintenance window"));
    assert!(why(OnRequest, false, &[], always).contains("no state requested"));
    assert_eq!(why(OnRequest, true, &[], always), "reboot in 60");
    assert!(why(OnRequest, true, &window, closed).contains("opens at"));
}

#[test]
fn users_are_notified_once_before_a_reboot() {
    let made = RebootFixture::new();
    let cancel = Arc::new(CancelToken::new());
    made.program("shutdown", 0);
    let done = made.host.reboot("new\nkernel", Duration::from_secs(61), &cancel).unwrap();
    assert_eq!(
        (done, made.noted().as_str()),
        (RebootResult::Scheduled, "shutdown\n-r\n+2\nzagent: new kernel\n")
    );
    std::fs::write(&made.host.scheduled, "USEC=1\n").unwrap();
    assert_eq!(made.host.reboot("again", Duration::ZERO, &cancel).unwrap(), RebootResult::Pending);
    assert!(!made.noted().contains("again"));
}

#[test]
fn without_shutdown_other_programs_are_used_and_failures_are_reported() {
    let made = RebootFixture::new();
    let cancel = Arc::new(CancelToken::new());
    let carry_out = || made.host.reboot("x", Duration::ZERO, &cancel);
    assert!(matches!(carry_out(), Err(RebootError::NoProgram)));
    made.program("reboot", 0);
    assert_eq!(carry_out().unwrap(), RebootResult::AtOnce);
    assert_eq!(made.noted(), "reboot\n");
    made.program("shutdown", 3);
    let told = carry_out().unwrap_err().to_string();
    assert!(told.ends_with("shutdown` exited with 3: no"), "{told}");
    cancel.cancel();
    std::fs::remove_file(made.dir.path().join("shutdown")).unwrap();
    assert!(carry_out().is_err(), "an agent that stops does not reboot the host");
    assert_eq!(made.noted(), "reboot\nshutdown\n-r\n+0\nzagent: x\n");
}
