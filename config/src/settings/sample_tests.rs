//! The sample configuration in dist/: it loads, lists every key, and shows the real defaults.

use std::fmt::Write;

use super::schema::{KEYS, SettingKind};
use super::*;

const SAMPLE: &str = include_str!("../../../dist/zagent.yaml");

/// Keys that have a default but show an example instead: a default of `[]` or unset does not show the format.
const EXAMPLES: &[&str] = &[
    "source.remotes",
    "environments",
    "health",
    "windows",
    "schedule",
    "webhooks",
    "ext_pillar",
    "master_tops",
    "nodegroups",
    "rollout.facts",
];

/// The sample with its settings uncommented: `#key` is a setting, `# word` is an explanation.
fn switched_on() -> String {
    let mut text = String::new();
    for line in SAMPLE.lines() {
        let indent = line.len() - line.trim_start().len();
        match line[indent..].strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| !c.is_whitespace()) => {
                let _ = writeln!(text, "{}{rest}", &line[..indent]);
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

fn settle(text: &str) -> Settings {
    let fragment = ConfigFragment::read("zagent.yaml", text).unwrap();
    let none = Vec::<(String, String)>::new();
    MergedConfig::new(vec![fragment], none, &[]).into_settings(Some("host-7")).unwrap()
}

#[test]
fn the_sample_changes_nothing() {
    let settings = settle(SAMPLE);
    assert!(
        settings
            .effective()
            .iter()
            .all(|e| matches!(e.origin, SettingOrigin::Default | SettingOrigin::HostName))
    );
}

#[test]
fn the_uncommented_sample_lists_every_key_and_the_real_defaults() {
    let (sample, plain) = (settle(&switched_on()), settle(""));
    let within = |key: &str, whole: &str| key.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
    for default in plain.effective() {
        // An entry with a name is shown by that name.
        let said = sample.effective().iter().find(|e| e.key == default.key || within(&e.key, &default.key));
        let said = said.unwrap_or_else(|| panic!("`{}` is not shown", default.key));
        assert!(
            !matches!(said.origin, SettingOrigin::Default | SettingOrigin::HostName),
            "`{}` is missing",
            said.key
        );
        let is_unset = default.value.is_null() || said.key == "id";
        if !is_unset && !EXAMPLES.contains(&default.key.as_str()) {
            assert_eq!(said.value, default.value, "{}", said.key);
        }
    }
}

#[test]
fn keys_of_records_are_listed_too() {
    let text = switched_on();
    for key in KEYS {
        let (SettingKind::Records(inner) | SettingKind::Named(inner)) = key.kind else { continue };
        for one in inner {
            let there = text.lines().any(|line| {
                let line = line.trim_start().trim_start_matches("- ");
                line.strip_prefix(one.path).is_some_and(|rest| rest.starts_with(':'))
            });
            assert!(there, "`{}` of `{}` is missing", one.path, key.path);
        }
    }
}
