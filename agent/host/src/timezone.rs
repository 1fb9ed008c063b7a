//! A machine in, its local time zone out.

#![expect(clippy::disallowed_methods, reason = "`TZ` overrides the zone of the host")]

use jiff::tz::TimeZone;

use crate::Machine;

/// Where the system defines its time zone.
const LOCAL: &str = "/etc/localtime";

/// The local time zone of this host.
///
/// ## Why not ask jiff
/// Its `TimeZone::system` needs the name of the zone and searches the whole zone database for it: a
/// millisecond per run, for a name that is never printed.
#[must_use]
pub fn local_zone() -> TimeZone {
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let rules = std::fs::read(LOCAL).ok().and_then(|bytes| TimeZone::tzif("Local", &bytes).ok());
    rules.unwrap_or(TimeZone::UTC)
}

/// The local time zone of a machine.
#[must_use]
pub fn zone_of(machine: &Machine) -> TimeZone {
    if machine.is_this_host() {
        return local_zone();
    }
    let rules = machine.read_bytes(LOCAL).ok().and_then(|bytes| TimeZone::tzif("Local", &bytes).ok());
    rules.unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_equals_the_system_time() {
        for second in [0, 1_794_818_712, 1_780_000_000] {
            let time = jiff::Timestamp::from_second(second).unwrap();
            assert_eq!(local_zone().to_datetime(time), TimeZone::system().to_datetime(time));
        }
    }
}
