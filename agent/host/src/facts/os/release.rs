//! The files in which a distribution names itself into key and value pairs.

use std::collections::BTreeMap;
use zagent_config::sorted::CollectSorted;

/// Pairs of an `os-release` file, quotes and escapes taken off.
pub(crate) fn os_release(text: &str) -> BTreeMap<&str, String> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            is_name.then(|| (key, unescaped(unquoted(value.trim_end()))))
        })
        .into_map()
}

fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\'
            && let Some(next) = chars.next_if(|n| matches!(n, '\\' | '$' | '"' | '\'' | '`'))
        {
            out.push(next);
        } else {
            out.push(c);
        }
    }
    out
}

/// The `DISTRIB_` pairs of an `lsb-release` file, under lower case keys without that prefix.
pub(crate) fn lsb_release(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.strip_prefix("DISTRIB_")?.split_once('=')?;
            if !matches!(key, "ID" | "RELEASE" | "CODENAME" | "DESCRIPTION") {
                return None;
            }
            let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
            let is_plain = |c: char| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '.' | '-' | '_');
            let end = value.find(|c| !is_plain(c)).unwrap_or(value.len());
            (end > 0).then(|| (key.to_ascii_lowercase(), value[..end].trim_end().to_owned()))
        })
        .into_map()
}

/// `NAME release VERSION (CODENAME)`, as in `/etc/centos-release` and in `PRETTY_NAME`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseLine<'a> {
    pub version: &'a str,
    pub(crate) codename: &'a str,
}

/// Takes such a line apart; `None` when it names no version.
pub(crate) fn parse_release_line(line: &str) -> Option<ReleaseLine<'_>> {
    let line = line.lines().next()?.trim();
    let (rest, codename) = match (line.rfind(')'), line.find('(')) {
        (Some(close), Some(open)) if open < close => (&line[..open], &line[open + 1..close]),
        _ => (line, ""),
    };
    let rest = rest.trim_end();
    let rest = rest.strip_suffix(" LTS").unwrap_or(rest);
    let is_part = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || matches!(c, '.' | '+' | '-');
    let start = rest.trim_end_matches(is_part).len();
    // A version starts with a digit and is not the whole line.
    let first_digit = rest[start..].find(|c: char| c.is_ascii_digit())? + start;
    (first_digit > 0).then(|| ReleaseLine { version: &rest[first_digit..], codename })
}

/// Vendor and version out of a CPE name, in its URI and its string form.
pub(crate) fn parse_cpe(name: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = name.split(':').collect();
    if parts.len() <= 4 || parts[0] != "cpe" {
        return None;
    }
    let (vendor, version) = match parts[1] {
        uri if uri.starts_with('/') => (parts[2], parts[4]),
        "2.3" if parts.len() == 6 || (8..=13).contains(&parts.len()) => (parts[3], parts[5]),
        _ => return None,
    };
    let plain = |part| if part == "*" { "" } else { part };
    Some((plain(vendor), plain(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_values_lose_quotes_and_escapes() {
        let pairs = os_release(
            "A=plain\nB=\"two words\"\nC='it'\n# D=no\nE=\"a \\\"b\\\" \\x\"\nF=\"open\n=x\nG H=1\nI=\n",
        );
        let want = [
            ("A", "plain"),
            ("B", "two words"),
            ("C", "it"),
            ("E", "a \"b\" \\x"),
            ("F", "\"open"),
            ("I", ""),
        ];
        assert_eq!(pairs, want.map(|(k, v)| (k, v.to_owned())).into());
    }

    #[test]
    fn lsb_values_are_plain_words() {
        let pairs = lsb_release(
            "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE='22.04'\nDISTRIB_DESCRIPTION=\"Ubuntu 22.04.4 LTS\"\nDISTRIB_CODENAME=!\nOTHER=1\n",
        );
        let want = [("id", "Ubuntu"), ("release", "22.04"), ("description", "Ubuntu 22.04.4 LTS")];
        assert_eq!(pairs, want.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn release_lines() {
        for (line, version, codename) in [
            ("CentOS Linux release 7.9.2009 (Core)\n", "7.9.2009", "Core"),
            ("CentOS Stream release 9", "9", ""),
            ("Gentoo Base System release 2.14", "2.14", ""),
            ("Debian GNU/Linux 12 (bookworm)", "12", "bookworm"),
            ("Ubuntu 22.04.4 LTS", "22.04.4", ""),
            ("SUSE Linux Enterprise Server 15 SP5", "5", ""),
        ] {
            assert_eq!(parse_release_line(line), Some(ReleaseLine { version, codename }), "{line}");
        }
        for line in ["Arch Linux", "3.19.1", "", ")(", "é1é"] {
            assert_eq!(parse_release_line(line), None, "{line}");
        }
    }

    #[test]
    fn cpe_names() {
        assert_eq!(parse_cpe("cpe:/o:opensuse:leap:15.5"), Some(("opensuse", "15.5")));
        assert_eq!(parse_cpe("cpe:2.3:o:amazon:amazon_linux:2"), Some(("amazon", "2")));
        assert_eq!(parse_cpe("cpe:2.3:o:amazon:amazon_linux:*"), Some(("amazon", "")));
        assert_eq!(parse_cpe("cpe:/o:x"), None);
        assert_eq!(parse_cpe("nonsense"), None);
    }
}
