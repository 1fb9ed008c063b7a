//! One entry of apt's sources: a line `deb [options] uri suite components`, or a stanza of a `.sources` file.

use std::ops::Range;

use zagent_config::{Map, Value};

/// What apt calls a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AptEntry {
    /// Which page it stands on.
    pub(crate) file_index: usize,
    /// Which lines of the page.
    pub lines: Range<usize>,
    /// It is a stanza of a `.sources` file.
    pub(crate) is_stanza: bool,
    /// `deb`, `deb-src`.
    pub types: Vec<String>,
    /// Addresses.
    pub(crate) uris: Vec<String>,
    /// Releases.
    pub(crate) suites: Vec<String>,
    /// Components.
    pub(crate) comps: Vec<String>,
    /// `arch`, `signed-by`, `trusted` and others, as a line names them.
    pub options: Vec<(String, String)>,
    /// It is commented out, or says that it is not enabled.
    pub(crate) is_disabled: bool,
    /// What stands behind it.
    pub comment: String,
}

impl AptEntry {
    /// Reads a line; nothing when it is no entry.
    pub(crate) fn parse_line(line: &str) -> Option<Self> {
        let line = line.trim();
        let (is_disabled, line) = match line.strip_prefix('#') {
            Some(rest) => (true, rest.trim()),
            None => (false, line),
        };
        let (line, comment) = line.split_once('#').unwrap_or((line, ""));
        let (kind, rest) = line.split_once(char::is_whitespace)?;
        if !matches!(kind, "deb" | "deb-src" | "rpm" | "rpm-src") {
            return None;
        }
        let mut rest = rest.trim();
        let mut options = Vec::new();
        if let Some(inner) = rest.strip_prefix('[') {
            let (inner, after) = inner.split_once(']')?;
            options = inner.split_whitespace().filter_map(parse_option).collect();
            rest = after.trim();
        }
        // The address of a disc has spaces in its name.
        let end = match rest.strip_prefix("cdrom:[") {
            Some(_) => rest.find("]/")? + 2,
            None => rest.find(char::is_whitespace)?,
        };
        let (uri, rest) = rest.split_at(end);
        let mut words = rest.split_whitespace().map(str::to_owned);
        let suite = words.next().filter(|_| uri.contains(':'))?;
        Some(Self {
            types: vec![kind.to_owned()],
            uris: vec![uri.to_owned()],
            suites: vec![suite],
            comps: words.collect(),
            options,
            is_disabled,
            comment: comment.to_owned(),
            ..Self::default()
        })
    }

    /// An entry as one line.
    pub(crate) fn to_line(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.is_disabled.then(|| "#".to_owned()));
        words.extend(self.types.first().cloned());
        if !self.options.is_empty() {
            let options: Vec<String> = self.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
            words.push(format!("[{}]", options.join(" ")));
        }
        words.extend(self.uris.first().cloned());
        words.extend(self.suites.first().cloned());
        words.extend(self.comps.iter().cloned());
        words.extend((!self.comment.is_empty()).then(|| format!("#{}", self.comment)));
        words.join(" ")
    }

    /// An entry as a new stanza.
    pub(crate) fn to_stanza(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.comment.lines().map(|l| format!("#{l}")).collect();
        for (field, value) in self.stanza_fields() {
            lines.extend(value.filter(|v| !v.is_empty()).map(|v| format!("{field}: {v}")));
        }
        lines
    }

    /// What the fields of its stanza should be; nothing takes a field away.
    pub(crate) fn stanza_fields(&self) -> [(&'static str, Option<String>); 8] {
        [
            ("Types", Some(self.types.join(" "))),
            ("URIs", Some(self.uris.join(" "))),
            ("Suites", Some(self.suites.join(" "))),
            ("Components", Some(self.comps.join(" "))),
            ("Trusted", self.option("trusted").map(str::to_owned)),
            ("Signed-By", self.option("signed-by").map(str::to_owned)),
            ("Architectures", self.option("arch").map(|a| a.replace(',', " "))),
            ("Enabled", self.is_disabled.then(|| "no".to_owned())),
        ]
    }

    /// An option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Gives it an option; an empty one is taken away.
    pub(crate) fn set_option(&mut self, name: &str, value: &str) {
        match self.options.iter_mut().find(|(key, _)| key == name) {
            _ if value.is_empty() => self.options.retain(|(key, _)| key != name),
            Some((_, old)) => value.clone_into(old),
            None => self.options.push((name.to_owned(), value.to_owned())),
        }
    }

    /// The architectures it is limited to, sorted.
    pub(crate) fn architectures(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.option("arch").into_iter().flat_map(|a| a.split(',')).collect();
        all.sort_unstable();
        all
    }

    /// True when it offers what `asked` names: type, address and release, and a component of those that are named.
    pub(crate) fn offers(&self, asked: &Self) -> bool {
        let first = |list: &[String]| list.first().cloned().unwrap_or_default();
        let uri = first(&asked.uris);
        self.types.contains(&first(&asked.types))
            && self.uris.iter().any(|u| is_same_uri(u, &uri))
            && self.suites.contains(&first(&asked.suites))
            && (asked.comps.is_empty() || asked.comps.iter().any(|c| self.comps.contains(c)))
    }

    /// True when it says nothing less, and nothing else, than `wanted`. A stanza may offer more besides.
    pub(crate) fn covers(&self, wanted: &Self) -> bool {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let others = |e: &Self| {
            let mut all: Vec<_> = e.options.iter().filter(|(k, _)| k != "arch").cloned().collect();
            all.sort_unstable();
            all
        };
        let holds = |have: &[String], want: &[String]| want.iter().all(|w| have.contains(w));
        let is_same = if self.is_stanza {
            holds(&self.types, &wanted.types)
                && wanted.uris.iter().all(|w| self.uris.iter().any(|u| is_same_uri(u, w)))
                && holds(&self.suites, &wanted.suites)
                && holds(&self.comps, &wanted.comps)
                && wanted.options.iter().all(|(k, v)| k == "arch" || self.option(k) == Some(v))
                && (wanted.option("arch").is_none() || self.architectures() == wanted.architectures())
        } else {
            self.types == wanted.types
                && self.uris == wanted.uris
                && self.suites == wanted.suites
                && sorted(&self.comps) == sorted(&wanted.comps)
                && others(self) == others(wanted)
                && self.architectures() == wanted.architectures()
        };
        is_same && self.is_disabled == wanted.is_disabled
    }

    /// An entry as `pkg.get_repo` tells it.
    pub(crate) fn to_map(&self, file: &str) -> Map {
        let list = |items: &[String]| -> Value { items.iter().map(|i| Value::from(i.as_str())).collect() };
        let first = |items: &[String]| Value::from(items.first().map_or("", String::as_str));
        let line = if self.is_stanza {
            self.to_line()
        } else {
            Self { comment: String::new(), ..self.clone() }.to_line()
        };
        let arch: Vec<String> =
            self.option("arch").into_iter().flat_map(|a| a.split(',')).map(str::to_owned).collect();
        Map::from_iter([
            ("file", Value::from(file)),
            ("comps", list(&self.comps)),
            ("disabled", self.is_disabled.into()),
            ("enabled", (!self.is_disabled).into()),
            ("dist", first(&self.suites)),
            ("suites", list(&self.suites)),
            ("type", first(&self.types)),
            ("types", list(&self.types)),
            ("uri", first(&self.uris)),
            ("uris", list(&self.uris)),
            ("line", line.into()),
            ("architectures", list(&arch)),
            ("signedby", self.option("signed-by").unwrap_or_default().into()),
        ])
    }
}

/// An option of a line; Salt also reads `signedby`.
fn parse_option(word: &str) -> Option<(String, String)> {
    let (key, value) = word.split_once('=')?;
    let key = match key {
        "signedby" => "signed-by",
        other => other,
    };
    Some((key.to_owned(), value.to_owned()))
}

/// True when two addresses differ at most in the slash at the end.
pub(crate) fn is_same_uri(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
