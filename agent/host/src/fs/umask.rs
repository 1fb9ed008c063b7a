//! What a new entry gets when nobody says.

use std::cell::Cell;
use std::sync::OnceLock;

/// The mask of a process that nobody told otherwise.
const DEFAULT_UMASK: u32 = 0o022;

thread_local! {
    /// The mask of the state that runs on this thread, when it has one.
    static THREAD_UMASK: Cell<Option<u32>> = const { Cell::new(None) };
}

/// While it lives, new entries that this thread makes get another mask. The mask of a process is one for all its threads,
/// so it is not touched.
#[derive(Debug)]
pub struct UmaskGuard(Option<u32>);

impl UmaskGuard {
    /// Sets the mask for this thread; none leaves it as it is.
    pub fn set(mask: Option<u32>) -> Self {
        Self(THREAD_UMASK.with(|own| own.replace(mask.or_else(|| own.get()))))
    }

    /// True when this thread has a mask of its own.
    pub fn is_set() -> bool {
        THREAD_UMASK.with(|own| own.get().is_some())
    }
}

impl Drop for UmaskGuard {
    fn drop(&mut self) {
        THREAD_UMASK.with(|own| own.set(self.0));
    }
}

/// The mask for new entries: that of the state, else that of the process. Read, not asked for: asking the kernel means setting it, and that races.
pub fn umask() -> u32 {
    static PROCESS_UMASK: OnceLock<u32> = OnceLock::new();
    if let Some(own) = THREAD_UMASK.with(Cell::get) {
        return own;
    }
    *PROCESS_UMASK.get_or_init(|| {
        std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| parse_umask(&text))
            .unwrap_or(DEFAULT_UMASK)
    })
}

fn parse_umask(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok().filter(|mask| *mask <= 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_may_have_a_mask_of_its_own() {
        let before = umask();
        {
            let _outer = UmaskGuard::set(Some(0o077));
            assert_eq!(umask(), 0o077);
            let _inner = UmaskGuard::set(None);
            assert_eq!(umask(), 0o077);
        }
        assert_eq!(umask(), before);
    }

    #[test]
    fn the_mask_is_read_from_the_status() {
        assert_eq!(parse_umask("Name:\tx\nUmask:\t0027\nState:\tR\n"), Some(0o27));
        assert_eq!(parse_umask("Name:\tx\n"), None);
        assert_eq!(parse_umask("Umask:\t9999\n"), None);
    }
}
