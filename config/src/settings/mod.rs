//! zagent.yaml, conf.d, `ZAGENT_*` and flags in, settings out: [`ConfigFragment`] (as written), [`MergedConfig`] (each key
//! once, with its origin), [`Settings`] (typed and valid).
//!
//! Law: later wins; unknown keys, wrong types and values out of range are errors, all reported at once; an empty
//! configuration is valid (held by `later_wins_and_the_origin_is_recorded`, `every_fault_at_once`,
//! `an_empty_configuration_is_valid`).

mod builder;
mod check;
mod choices;
pub mod defaults;
mod fragment;
mod merge;
mod record;
mod schema;
mod sections;
mod text_checks;
mod units;

pub use self::choices::{
    ApplyMode, BoardKind, CompatMode, Day, FollowMode, ListenPages, ManifestRule, RebootPolicy,
    RequiredSignatures, ResourcePillar, RunSchedule, TemplatePermission, UnsignedRef, WebhookKind,
    WebhookOccasion,
};
pub use self::fragment::{ConfigFragment, ConfigLocation, SettingOrigin};
pub use self::merge::{FlagOverride, MergedConfig, OTHER_VARIABLES};
pub use self::schema::PRUNABLE_KINDS;
pub use self::sections::{
    BoardSettings, CompileLimits, EffectiveSetting, EnvironmentSettings, FirstContact, HealthProbe,
    HealthSettings, MaintenanceWindow, PillarSettings, PruneSettings, RebootSettings, RemoteSettings,
    ResourceSettings, RolloutSettings, RunConfig, ScheduleTrigger, ScheduledRun, Settings, SourceSettings,
    TrustSettings, WebhookSettings,
};
pub use self::units::{format_duration, format_size, parse_duration, parse_size};

use self::builder::SettingsBuilder;
use self::check::{CheckedRecord, CheckedValue, SettingsChecker, ValueLocation, default_value};
use self::schema::SettingKey;
use crate::codes::configuration as code;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::value::{Map, Pos, Value};

/// A key by its path: flags can set it, `zagent config show` prints it.
pub fn keys() -> impl Iterator<Item = &'static str> {
    schema::KEYS.iter().map(|key| key.path)
}

/// Reads the files, applies variables and flags, and checks everything.
///
/// # Errors
/// Fails with every error of the first stage that has any: reading first, then keys and values.
pub fn load(
    location: &ConfigLocation,
    variables: impl IntoIterator<Item = (String, String)>,
    flags: &[FlagOverride],
    host_name: Option<&str>,
) -> Result<Settings, Diagnostics> {
    MergedConfig::new(location.read_fragments()?, variables, flags).into_settings(host_name)
}

impl Settings {
    /// All configured keys, as one equivalent mapping.
    #[must_use]
    pub fn explicit_values(&self) -> Value {
        let mut top = Map::new();
        for EffectiveSetting { key, value, origin } in self.effective() {
            if matches!(origin, SettingOrigin::Default | SettingOrigin::HostName) {
                continue;
            }
            let adds_up = schema::KEYS.iter().filter(|known| known.kind.is_additive());
            let entry = adds_up
                .map(|known| known.path)
                .find_map(|path| Some((path, key.strip_prefix(path)?.strip_prefix('.')?)));
            let path: Vec<&str> = match entry {
                Some((path, name)) => path.split('.').chain([name]).collect(),
                None => key.split('.').collect(),
            };
            insert_at_path(&mut top, &path, value);
        }
        top.into()
    }
}

/// Sets the value at a path of keys.
fn insert_at_path(map: &mut Map, path: &[&str], value: &Value) {
    match path {
        [] => {}
        [last] => {
            map.insert(*last, value.clone());
        }
        [first, rest @ ..] => {
            let inner = map.get(first).and_then(Value::as_map).cloned();
            let mut inner = inner.unwrap_or_default();
            insert_at_path(&mut inner, rest, value);
            map.insert(*first, inner);
        }
    }
}

impl MergedConfig {
    /// Checks everything; `host_name` is the default for the node id.
    ///
    /// # Errors
    /// Fails with every error.
    pub fn into_settings(mut self, host_name: Option<&str>) -> Result<Settings, Diagnostics> {
        let mut checker = SettingsChecker {
            fragments: &self.fragments,
            diagnostics: std::mem::take(&mut self.diagnostics),
        };
        let mut effective = Vec::new();
        let mut all = CheckedRecord::default();
        for key in schema::KEYS {
            let checked = self.check_key(key, &mut checker, &mut effective);
            all.0.push((key.path, checked));
        }
        let settings =
            SettingsBuilder { merged: &self, record: &all, host_name }.build(&mut checker, effective);
        let mut diagnostics = checker.diagnostics;
        crate::sorted::sort_by_key(&mut diagnostics.0, |diagnostic| self.sort_key(diagnostic));
        diagnostics.into_result().map(|()| settings)
    }

    /// The sort position of a diagnostic: by file and line, then variables and flags.
    fn sort_key(&self, diagnostic: &Diagnostic) -> (usize, Pos) {
        let Some(place) = &diagnostic.location else { return (usize::MAX, Pos::NONE) };
        let file = self.fragments.iter().position(|f| *f.file == *place.file);
        (file.unwrap_or(usize::MAX), place.pos)
    }

    /// The value of one key, or its default; errors are reported.
    fn check_key(
        &self,
        key: &'static SettingKey,
        checker: &mut SettingsChecker<'_>,
        effective: &mut Vec<EffectiveSetting>,
    ) -> CheckedValue {
        let mut out = default_value(key);
        let mut show = |key: String, value, origin| effective.push(EffectiveSetting { key, value, origin });
        let mut is_explicit = false;
        for assigned in self.assigned.iter().filter(|s| s.key.path == key.path) {
            let path = match &assigned.entry {
                Some(entry) => format!("{}.{entry}", key.path),
                None => key.path.to_owned(),
            };
            let at = ValueLocation::from_origin(&assigned.origin);
            if key.kind.is_additive() && assigned.entry.is_none() {
                let diagnostic = Diagnostic::new(
                    code::WRONG_TYPE,
                    format!("`{path}` must be a mapping of names, not {}", assigned.value.kind()),
                );
                checker.report(at, diagnostic);
                continue;
            }
            let Some(checked) = checker.check(&path, key.kind, &assigned.value, at) else { continue };
            is_explicit = true;
            show(
                path,
                if key.kind.is_additive() { shown_value(&checked, assigned) } else { checked.to_value() },
                assigned.origin.clone(),
            );
            match (&mut out, checked, &assigned.entry) {
                (CheckedValue::Named(named), CheckedValue::Records(records), Some(entry)) => {
                    named.extend(records.into_iter().map(|record| (entry.clone(), record)));
                }
                (CheckedValue::Groups(groups), CheckedValue::Groups(_), Some(entry)) => {
                    groups.insert(entry.as_str(), assigned.value.clone());
                }
                (out, checked, _) => *out = checked,
            }
        }
        if !is_explicit {
            show(key.path.to_owned(), out.to_value(), SettingOrigin::Default);
        }
        out
    }
}

fn shown_value(checked: &CheckedValue, assigned: &merge::AssignedSetting) -> Value {
    match checked {
        CheckedValue::Records(records) => records.first().map(CheckedRecord::to_value).unwrap_or_default(),
        _ => assigned.value.clone(),
    }
}

#[cfg(test)]
mod sample_tests;
#[cfg(test)]
mod tests;
