//! The options of a line: `namespaces="git",valid-before="20300101Z"`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The options of a key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SignerOptions {
    pub(super) authority: bool,
    pub(super) namespaces: Option<String>,
    pub(super) after: Option<Timestamp>,
    pub(super) before: Option<Timestamp>,
}

impl SignerOptions {
    /// Reads the options at the start of `text`; returns the rest.
    pub(super) fn parse<'t>(text: &'t str, zone: &TimeZone) -> Result<(Self, &'t str), String> {
        let mut found = Self::default();
        let mut rest = text;
        loop {
            rest = found.parse_option(rest, zone)?;
            match rest.strip_prefix(',') {
                Some(more) if more.starts_with([' ', '\t']) || more.is_empty() => {
                    return Err("the options end with a comma".into());
                }
                Some(more) => rest = more,
                None if rest.starts_with([' ', '\t']) => break,
                None if rest.is_empty() => return Err("the line has no key".into()),
                None => return Err("separate options with a comma, and end them with a blank".into()),
            }
        }
        if let (Some(after), Some(before)) = (found.after, found.before)
            && before <= after
        {
            return Err("`valid-before` does not come after `valid-after`".into());
        }
        Ok((found, rest.trim_start_matches([' ', '\t'])))
    }

    fn parse_option<'t>(&mut self, text: &'t str, zone: &TimeZone) -> Result<&'t str, String> {
        let name = text.split([',', '=', ' ', '\t', '"']).next().unwrap_or_default();
        let rest = &text[name.len()..];
        let lower = name.to_ascii_lowercase();
        if lower == "cert-authority" && !rest.starts_with('=') {
            self.authority = true;
            return Ok(rest);
        }
        if !matches!(lower.as_str(), "namespaces" | "valid-after" | "valid-before") || !rest.starts_with('=')
        {
            let shown: String = name.chars().take(40).collect();
            return Err(format!("`{shown}` is neither a key nor an option"));
        }
        let (value, rest) = dequote(&rest[1..]).ok_or(format!("the value of `{lower}` must be in quotes"))?;
        let twice = match lower.as_str() {
            "namespaces" => self.namespaces.replace(value).is_some(),
            "valid-after" => self.after.replace(parse_time(&value, zone)?).is_some(),
            _ => self.before.replace(parse_time(&value, zone)?).is_some(),
        };
        if twice { Err(format!("`{lower}` appears twice")) } else { Ok(rest) }
    }
}

/// A text in double quotes, with `\"` for a quote; and the rest.
fn dequote(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut letters = inner.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        match c {
            '"' => return Some((value, &inner[at + 1..])),
            '\\' if letters.peek().is_some_and(|(_, next)| *next == '"') => {
                letters.next();
                value.push('"');
            }
            c => value.push(c),
        }
    }
    None
}

/// `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, in UTC with a trailing `Z` or `UTC`, else in the zone.
fn parse_time(text: &str, zone: &TimeZone) -> Result<Timestamp, String> {
    let upper = text.to_ascii_uppercase();
    let utc = upper.strip_suffix('Z').or_else(|| upper.strip_suffix("UTC"));
    let digits = utc.unwrap_or(&upper);
    let bad = || {
        format!(
            "`{}` is not a time; write it as 20300131, 203001311200 or 20300131120000Z",
            text.escape_debug()
        )
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let number = |from: usize, to: usize| digits.get(from..to).map_or(Ok(0), |d| d.parse::<i8>());
    let read = || {
        let year = digits[..4].parse::<i16>().ok()?;
        let part = |from| number(from, from + 2).ok();
        DateTime::new(year, part(4)?, part(6)?, part(8)?, part(10)?, part(12)?, 0).ok()
    };
    let civil = read().ok_or_else(bad)?;
    let zone = if utc.is_some() { &TimeZone::UTC } else { zone };
    zone.to_timestamp(civil).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_a_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, want) in [
            ("20300131", Some("2030-01-30T22:00:00Z")),
            ("20300131Z", Some("2030-01-31T00:00:00Z")),
            ("20300131UTC", Some("2030-01-31T00:00:00Z")),
            ("203001311205z", Some("2030-01-31T12:05:00Z")),
            ("20300131120507", Some("2030-01-31T10:05:07Z")),
            ("20300230", None),
            ("2030013112", None),
            ("2030-01-31", None),
            ("", None),
            ("Z", None),
            ("²⁰³⁰", None),
        ] {
            let want = want.map(|w| w.parse::<Timestamp>().unwrap());
            assert_eq!(parse_time(text, &zone).ok(), want, "{text}");
        }
    }

    #[test]
    fn options_in_quotes() {
        let read = |text| SignerOptions::parse(text, &TimeZone::UTC);
        let (options, rest) =
            read("cert-authority,NAMESPACES=\"a b,\\\"c\",valid-after=\"20200101\" \t ssh-x").unwrap();
        assert!(options.authority && rest == "ssh-x");
        assert_eq!(options.namespaces.as_deref(), Some("a b,\"c"));
        for bad in [
            "namespaces=git ssh-x",
            "namespaces=\"git ssh-x",
            "namespaces=\"git\"",
            "namespaces=\"git\", ssh-x",
            "namespaces=\"git\"x ssh-x",
            "namespaces=\"a\",namespaces=\"b\" ssh-x",
            "valid-after=\"20300101\",valid-before=\"20200101\" ssh-x",
            "foo ssh-x",
            "cert-authority=\"x\" ssh-x",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
