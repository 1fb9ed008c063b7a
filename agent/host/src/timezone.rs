//! The clock on the wall of this host.

use jiff::tz::TimeZone;

/// Where the system says in which zone it is.
const LOCAL: &str = "/etc/localtime";

/// The zone that people here live in.
///
/// ## Why not ask jiff
/// Its `TimeZone::system` wants the name of the zone and walks the whole zone database for it: a millisecond of each run, for a
/// name that nobody prints.
#[must_use]
pub fn local_zone() -> TimeZone {
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let rules = std::fs::read(LOCAL).ok().and_then(|bytes| TimeZone::tzif("Local", &bytes).ok());
    rules.unwrap_or(TimeZone::UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_the_same_time_as_the_system() {
        for second in [0, 1_794_818_712, 1_780_000_000] {
            let time = jiff::Timestamp::from_second(second).unwrap();
            assert_eq!(local_zone().to_datetime(time), TimeZone::system().to_datetime(time));
        }
    }
}
