//! Daemon state in, one datagram to systemd out.
//!
//! Law: without `NOTIFY_SOCKET` nothing happens, and an unresponsive service manager never stops the daemon (held
//! by `a_missing_listener_is_ignored`, `a_stuck_service_manager_does_not_block`).

#![expect(clippy::disallowed_methods, reason = "the service manager passes its socket in the environment")]

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Maximum length of a status; systemd shows one line.
const MAX_STATUS_CHARS: usize = 200;

/// Notifies the service manager.
#[derive(Debug, Default)]
pub(crate) struct SdNotify {
    destination: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl SdNotify {
    /// From the environment of this process.
    #[must_use]
    pub(crate) fn from_env() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let watchdog = parse_watchdog(
            variable("WATCHDOG_USEC").as_deref(),
            variable("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        match Self::with_socket(std::env::var_os("NOTIFY_SOCKET").as_deref(), watchdog) {
            Ok(notify) => notify,
            Err(e) => {
                tracing::warn!(error = %e, "cannot notify the service manager on NOTIFY_SOCKET");
                Self::default()
            }
        }
    }

    /// To a socket: a path, or a name that starts with `@`.
    ///
    /// # Errors
    /// Fails when the name cannot be used.
    pub(crate) fn with_socket(socket: Option<&OsStr>, watchdog: Option<Duration>) -> io::Result<Self> {
        let Some(name) = socket.filter(|name| !name.is_empty()) else { return Ok(Self::default()) };
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is neither a path nor starts with `@`",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A stuck service manager must not block the daemon.
        socket.set_nonblocking(true)?;
        Ok(Self { destination: Some((socket, address)), watchdog })
    }

    /// True when notifications are enabled.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn is_enabled(&self) -> bool {
        self.destination.is_some()
    }

    /// Interval for [`Self::ping_watchdog`]; never when none.
    #[must_use]
    pub(crate) const fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The daemon is ready.
    pub(crate) fn ready(&self, words: &str) {
        self.send(&format!("READY=1\nSTATUS={}", status_line(words)));
    }

    /// Activity of the daemon.
    pub(crate) fn status(&self, words: &str) {
        self.send(&format!("STATUS={}", status_line(words)));
    }

    /// The event loop is alive.
    pub(crate) fn ping_watchdog(&self) {
        if self.watchdog.is_some() {
            self.send("WATCHDOG=1");
        }
    }

    /// The configuration is being reloaded; [`Self::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading the configuration"));
    }

    /// The daemon is stopping.
    pub(crate) fn stopping(&self, words: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", status_line(words)));
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = &self.destination else { return };
        if let Err(e) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::debug!(error = %e, "the service manager did not receive a notification");
        }
    }
}

/// Half of the time after which systemd kills the process.
fn parse_watchdog(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 1)?;
    Some(Duration::from_micros(micros / 2))
}

/// One line of limited length: a line break would start another message.
fn status_line(words: &str) -> String {
    let mut line = String::new();
    for c in words.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > MAX_STATUS_CHARS {
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bytes = [0; 1024];
        let n = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..n].to_vec()).unwrap()
    }

    #[test]
    fn notifications_arrive_on_a_path_and_on_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("zagent-notify-test-{}", std::process::id());
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.into_os_string()),
            (UnixDatagram::bind_addr(&at).unwrap(), format!("@{name}").into()),
        ];
        for (socket, name) in sockets {
            let notify = SdNotify::with_socket(Some(&name), Some(Duration::from_secs(5))).unwrap();
            assert!(notify.is_enabled() && notify.watchdog_interval() == Some(Duration::from_secs(5)));
            notify.ready("idle");
            assert_eq!(heard(&socket), "READY=1\nSTATUS=idle");
            notify.status("applying\nREADY=0");
            assert_eq!(heard(&socket), "STATUS=applying READY=0");
            notify.ping_watchdog();
            assert_eq!(heard(&socket), "WATCHDOG=1");
            notify.reloading();
            let reloading = heard(&socket);
            let micros =
                reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().split_once('\n').unwrap().0;
            assert!(micros.parse::<u64>().unwrap() > 0);
            notify.stopping(&"é".repeat(500));
            assert_eq!(heard(&socket).len(), "STOPPING=1\nSTATUS=".len() + MAX_STATUS_CHARS);
        }
    }

    #[test]
    fn a_missing_listener_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let gone = SdNotify::with_socket(Some(dir.path().join("gone").as_os_str()), None).unwrap();
        gone.ready("idle");
        gone.ping_watchdog();
        for silent in [
            SdNotify::default(),
            SdNotify::with_socket(None, None).unwrap(),
            SdNotify::with_socket(Some(OsStr::new("")), None).unwrap(),
        ] {
            assert!(!silent.is_enabled());
            silent.ready("idle");
        }
        assert!(SdNotify::with_socket(Some(OsStr::new("relative")), None).is_err());
    }

    #[test]
    fn a_stuck_service_manager_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _deaf = UnixDatagram::bind(&path).unwrap();
        let notify = SdNotify::with_socket(Some(path.as_os_str()), None).unwrap();
        for _ in 0..10_000 {
            notify.status("still here");
        }
    }

    #[test]
    fn the_watchdog_interval_is_half_the_timeout_and_only_for_its_process() {
        let half = Some(Duration::from_millis(1500));
        assert_eq!(parse_watchdog(Some("3000000"), None, 7), half);
        assert_eq!(parse_watchdog(Some("3000000"), Some("7"), 7), half);
        for (micros, pid) in [
            (Some("3000000"), Some("8")),
            (None, None),
            (Some("x"), None),
            (Some("0"), None),
            (Some("1"), None),
        ] {
            assert_eq!(parse_watchdog(micros, pid, 7), None);
        }
    }
}
