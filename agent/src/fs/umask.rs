//! What a new entry gets when nobody says.

use std::cell::Cell;
use std::sync::OnceLock;

/// The mask of a process that nobody told otherwise.
const USUAL: u32 = 0o022;

thread_local! {
    /// The mask of the state that runs on this thread, when it has one.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// While it lives, new entries that this thread makes get another mask. The mask of a process is one for all its threads,
/// so it is not touched.
#[derive(Debug)]
pub(crate) struct Masked(Option<u32>);

impl Masked {
    /// Sets the mask for this thread; none leaves it as it is.
    pub(crate) fn set(mask: Option<u32>) -> Self {
        Self(OWN.with(|own| own.replace(mask.or_else(|| own.get()))))
    }

    /// True when this thread has a mask of its own.
    pub(super) fn is_set() -> bool {
        OWN.with(|own| own.get().is_some())
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        OWN.with(|own| own.set(self.0));
    }
}

/// The mask for new entries: that of the state, else that of the process. Read, not asked for: asking the kernel means setting it, and that races.
pub(crate) fn umask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    if let Some(own) = OWN.with(Cell::get) {
        return own;
    }
    *MASK.get_or_init(|| {
        std::fs::read_to_string("/proc/self/status").ok().and_then(|text| parse(&text)).unwrap_or(USUAL)
    })
}

fn parse(status: &str) -> Option<u32> {
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
            let _outer = Masked::set(Some(0o077));
            assert_eq!(umask(), 0o077);
            let _inner = Masked::set(None);
            assert_eq!(umask(), 0o077);
        }
        assert_eq!(umask(), before);
    }

    #[test]
    fn the_mask_is_read_from_the_status() {
        assert_eq!(parse("Name:\tx\nUmask:\t0027\nState:\tR\n"), Some(0o27));
        assert_eq!(parse("Name:\tx\n"), None);
        assert_eq!(parse("Umask:\t9999\n"), None);
    }
}
