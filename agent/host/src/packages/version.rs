//! `>=1.2, <2` and an installed version in, yes or no out.
//!
//! Law: as Salt reads it. An epoch that is not written counts only where an order is asked for (held by
//! `versions_are_judged_as_salt_judges_them`).

use std::cmp::Ordering;

use zagent_config::glob;
use zagent_config::pkg_version::VersionScheme;

/// One condition on a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VersionCondition {
    /// `==`, `!=`, `<`, `<=`, `>` or `>=`.
    pub(crate) oper: &'static str,
    /// What it is compared with.
    pub version: String,
}

const OPERATORS: [&str; 8] = ["<=", ">=", "==", "!=", "<>", "<", ">", "="];

impl VersionCondition {
    /// All conditions of a text.
    pub(crate) fn parse(text: &str) -> Vec<Self> {
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        parts
            .map(|part| {
                let oper = OPERATORS.into_iter().find(|o| part.starts_with(o)).unwrap_or("");
                let version = part[oper.len()..].trim().to_owned();
                let oper = match oper {
                    "" | "=" => "==",
                    "<>" => "!=",
                    other => other,
                };
                Self { oper, version }
            })
            .collect()
    }

    fn is_met(&self, version: &str, scheme: VersionScheme, ignore_epoch: Option<bool>) -> bool {
        if self.oper == "==" && glob::matches(&self.version, version) {
            return true;
        }
        let is_order = self.oper.contains(['<', '>']);
        let ignore = ignore_epoch.unwrap_or(!is_order && !self.version.contains(':'));
        let bare = |v: &str| match v.split_once(':') {
            Some((_, rest)) if ignore => rest.to_owned(),
            _ => v.to_owned(),
        };
        let order = scheme.compare(&bare(version), &bare(&self.version));
        match self.oper {
            "==" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            "<" => order == Ordering::Less,
            "<=" => order != Ordering::Greater,
            ">" => order == Ordering::Greater,
            _ => order != Ordering::Less,
        }
    }
}

/// True when a version fulfils all conditions of a text. `allow_updates`: a newer one than the only one named is fine.
pub fn satisfies(
    version: &str,
    wanted: &str,
    scheme: VersionScheme,
    ignore_epoch: Option<bool>,
    allow_updates: bool,
) -> bool {
    let mut all = VersionCondition::parse(wanted);
    if let [only] = &mut all[..]
        && allow_updates
        && only.oper == "=="
    {
        only.oper = ">=";
    }
    all.iter().all(|c| c.is_met(version, scheme, ignore_epoch))
}

/// A package and the version that is asked for, as results show it.
pub fn display_spec(name: &str, wanted: Option<&str>) -> String {
    match wanted {
        Some(v) if v.starts_with(['<', '>', '=']) => format!("{name}{v}"),
        Some(v) if !v.is_empty() => format!("{name}={v}"),
        _ => name.to_owned(),
    }
}
