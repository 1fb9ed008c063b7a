//! Versions of Python's and Ruby's libraries, and what is asked of them (PEP 440).

use std::cmp::Ordering;

/// A version, as it is ordered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pep440Version {
    epoch: u64,
    release: Vec<u64>,
    /// Before the release: alpha, beta and candidate come before the release itself, a mere `dev` before all of them.
    before: (u8, u64),
    after: Option<u64>,
    /// A `dev` comes before what has none.
    dev: (bool, u64),
    local: Vec<(bool, u64, String)>,
}

impl Pep440Version {
    /// Reads a version; nothing when it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix('v').unwrap_or(&text);
        let (public, local) = text.split_once('+').map_or((text, None), |(p, l)| (p, Some(l)));
        let (epoch, public) = match public.split_once('!') {
            Some((epoch, rest)) => (epoch.parse().ok()?, rest),
            None => (0, public),
        };
        let mut words = tokens(public).into_iter().peekable();
        let mut release = Vec::new();
        while let Some(number) = words.peek().and_then(|w| w.parse().ok()) {
            release.push(number);
            words.next();
        }
        if release.is_empty() {
            return None;
        }
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        let mut version = Self {
            epoch,
            release,
            before: (4, 0),
            after: None,
            dev: (true, 0),
            local: local.map_or_else(Vec::new, |l| tokens(l).iter().map(|w| local_part(w)).collect()),
        };
        let mut is_pre = false;
        while let Some(word) = words.next() {
            let number =
                words.next_if(|w| w.parse::<u64>().is_ok()).and_then(|w| w.parse().ok()).unwrap_or(0);
            match word.as_str() {
                "a" | "alpha" => version.before = (1, number),
                "b" | "beta" => version.before = (2, number),
                "rc" | "c" | "pre" | "preview" => version.before = (3, number),
                "post" | "rev" | "r" => version.after = Some(number),
                "dev" => version.dev = (false, number),
                _ => return None,
            }
            is_pre |= word != "dev";
        }
        if !version.dev.0 && !is_pre {
            version.before = (0, 0);
        }
        Some(version)
    }
}

fn local_part(word: &str) -> (bool, u64, String) {
    word.parse().map_or_else(|_| (false, 0, word.to_owned()), |n| (true, n, String::new()))
}

/// Runs of digits and runs of letters.
fn tokens(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut last = None;
    for c in text.chars() {
        let kind = (c.is_ascii_digit(), c.is_ascii_alphabetic());
        if kind == (false, false) {
            last = None;
            continue;
        }
        match all.last_mut().filter(|_| last == Some(kind)) {
            Some(word) => word.push(c),
            None => all.push(c.to_string()),
        }
        last = Some(kind);
    }
    all
}

/// A library that is asked for: its name as it is compared, and what its version must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PipRequirement {
    pub(crate) name: String,
    pub(crate) specs: Vec<(String, String)>,
}

/// A name as names are compared: small letters, one dash for each run of dashes, dots and underlines.
pub(crate) fn normalize_name(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

impl PipRequirement {
    /// Reads `name[extra]>=1,<2; marker`; nothing for an address or a path.
    ///
    /// # Errors
    /// Fails in Salt's words when it is neither.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let text = text.split(';').next().unwrap_or(text).trim();
        if text.contains("://") || text.starts_with(['/', '.']) || text.contains(" @ ") {
            return Ok(None);
        }
        let end =
            text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let rest = rest.trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, r)| r) } else { rest };
        let mut specs = Vec::new();
        for spec in rest.trim().trim_matches(['(', ')']).split(',').map(str::trim).filter(|s| !s.is_empty()) {
            let length = spec.find(|c: char| !"=!<>~".contains(c)).unwrap_or(spec.len());
            let (operator, version) = spec.split_at(length);
            if operator == "=" {
                return Err(format!(
                    "Invalid version specification in package {text}. '=' is not supported, use '==' instead."
                ));
            }
            if !matches!(operator, "==" | "!=" | "<=" | ">=" | "<" | ">" | "~=" | "===") {
                return Err(format!(
                    "pip raised an exception while parsing '{text}': Invalid requirement: '{text}'"
                ));
            }
            specs.push((operator.to_owned(), version.trim().to_owned()));
        }
        if name.is_empty() {
            return Err(format!(
                "pip raised an exception while parsing '{text}': Invalid requirement: '{text}'"
            ));
        }
        Ok(Some(Self { name: normalize_name(name), specs }))
    }

    /// True when a version is as asked for.
    pub(crate) fn accepts_version(&self, version: &str) -> bool {
        self.specs.iter().all(|(operator, spec)| satisfies(version, operator, spec))
    }
}

/// True when a version stands so to another one.
pub(crate) fn satisfies(version: &str, operator: &str, spec: &str) -> bool {
    if operator == "===" {
        return version == spec;
    }
    if let Some(prefix) = spec.strip_suffix(".*") {
        let starts = Pep440Version::parse(version).zip(Pep440Version::parse(prefix)).is_some_and(|(v, p)| {
            let width = prefix.split('.').count();
            let padded = |r: &[u64]| (0..width).map(|n| r.get(n).copied().unwrap_or(0)).collect::<Vec<_>>();
            v.epoch == p.epoch && padded(&v.release) == padded(&p.release)
        });
        return starts == (operator == "==");
    }
    let Some((mut have, want)) = Pep440Version::parse(version).zip(Pep440Version::parse(spec)) else {
        return (version == spec) == matches!(operator, "==" | "<=" | ">=");
    };
    if want.local.is_empty() {
        have.local.clear();
    }
    let order = have.cmp(&want);
    match operator {
        "==" | "=" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<=" => order != Ordering::Greater,
        ">=" => order != Ordering::Less,
        "<" => {
            order == Ordering::Less
                && (want.before.0 < 4 || have.before.0 == 4 || have.release != want.release)
        }
        ">" => {
            order == Ordering::Greater
                && (want.after.is_some() || have.after.is_none() || have.release != want.release)
        }
        "~=" => {
            let Some((series, _)) = spec.rsplit_once('.') else { return false };
            order != Ordering::Less && satisfies(version, "==", &format!("{series}.*"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let order = [
            "1.0.dev1",
            "1.0a1.dev2",
            "1.0a1",
            "1.0b2",
            "1.0rc1",
            "1.0",
            "1.0+local.1",
            "1.0.post1",
            "1.1",
            "1.10",
            "1!0.1",
        ];
        for pair in order.windows(2) {
            assert!(Pep440Version::parse(pair[0]) < Pep440Version::parse(pair[1]), "{pair:?}");
        }
        assert_eq!(Pep440Version::parse("1.0"), Pep440Version::parse("v1"));
        assert_eq!(Pep440Version::parse("main"), None);
    }

    #[test]
    fn versions_are_as_asked_for() {
        let table = [
            ("1.4.2", "==", "1.4.2", true),
            ("1.4.2", "==", "1.4.*", true),
            ("1.5", "!=", "1.4.*", true),
            ("1.4.5", "~=", "1.4.2", true),
            ("1.5.0", "~=", "1.4.2", false),
            ("2.0rc1", "<", "2.0", false),
            ("1.0.post1", ">", "1.0", false),
            ("1.0", ">=", "1", true),
            ("1.0+deb1", "==", "1.0", true),
        ];
        for (version, operator, spec, expected) in table {
            assert_eq!(satisfies(version, operator, spec), expected, "{version} {operator} {spec}");
        }
    }

    #[test]
    fn requirements_are_read() {
        let wanted = PipRequirement::parse("Foo_Bar[x,y] >= 1.0, <2 ; python_version > '3'")
            .expect("a requirement")
            .expect("a name");
        assert_eq!(wanted.name, "foo-bar");
        assert!(wanted.accepts_version("1.5") && !wanted.accepts_version("2.0"));
        assert_eq!(PipRequirement::parse("git+https://h/x.git#egg=x"), Ok(None));
        assert!(PipRequirement::parse("foo=1").is_err_and(|e| e.contains("use '==' instead")));
        assert!(PipRequirement::parse(">=1").is_err());
    }
}
