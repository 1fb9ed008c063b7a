//! The arguments of package states: names, versions and how it is done.

use zagent_config::{Map, Value};

use crate::{ChunkArgs, StateError};
use zagent_host::command_options::value_text;
use zagent_host::packages::{PkgActionOptions, PkgDb, verify_pkg_name};

/// A package and the versions that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkgSpec {
    /// Its name.
    pub name: String,
    /// Conditions such as `>=1.2`; nothing when any version will do.
    pub(crate) version_spec: Option<String>,
    /// Where its file is, when it comes from one.
    pub source: Option<String>,
}

/// What all package states are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PkgArgs {
    /// The packages.
    pub wanted: Vec<PkgSpec>,
    /// True when `pkgs` or `sources` is there and empty.
    pub(crate) is_empty_list: bool,
    /// True when they stand in `pkgs` or `sources`.
    pub is_list: bool,
    /// Whose package manager.
    pub provider: Option<String>,
    /// Fetches the catalogue first, never, or when it is needed.
    pub refresh: Option<bool>,
    /// A catalogue that is not older than so many seconds is not fetched again.
    pub(crate) cache_valid_time: i64,
    /// Epochs do not count.
    pub ignore_epoch: Option<bool>,
    /// Newer versions than the one that is named will do.
    pub allow_updates: bool,
    /// Names without the machine's own architecture.
    pub normalize: bool,
    /// A name may be one that another package provides.
    pub(crate) resolve_capabilities: bool,
    /// How it is done.
    pub options: PkgActionOptions,
}

impl PkgArgs {
    /// Reads them.
    pub fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let (pkgs, sources) = (args.get("pkgs"), args.get("sources"));
        if pkgs.is_some_and(Value::is_truthy) && sources.is_some_and(Value::is_truthy) {
            return Err(StateError::new("Only one of \"pkgs\" and \"sources\" is permitted."));
        }
        let mut wanted = Vec::new();
        let version = args.text("version")?.filter(|v| !v.is_empty());
        match (pkgs, sources) {
            (_, Some(list)) if list.is_truthy() => for_each_entry(list, "sources", &mut |name, value| {
                let source = Some(value.map(value_text).unwrap_or_default());
                wanted.push(PkgSpec { name, version_spec: None, source });
            })?,
            (Some(list), _) => for_each_entry(list, "pkgs", &mut |name, value| {
                let spec = value.map(value_text).filter(|v| !v.is_empty());
                wanted.push(PkgSpec { name, version_spec: spec, source: None });
            })?,
            _ => wanted.push(PkgSpec { name: args.name(), version_spec: version, source: None }),
        }
        let mut known = std::collections::BTreeSet::new();
        wanted.retain(|w| !w.name.is_empty() && known.insert(w.name.clone()));
        wanted.iter().try_for_each(|w| verify_pkg_name(&w.name))?;
        let refresh = args.get("refresh").map(Value::is_truthy);
        Ok(Self {
            is_empty_list: wanted.is_empty(),
            is_list: pkgs.is_some() || sources.is_some(),
            wanted,
            provider: args.text("provider")?,
            refresh,
            cache_valid_time: args.int("cache_valid_time")?.unwrap_or(0),
            ignore_epoch: args.get("ignore_epoch").map(Value::is_truthy),
            allow_updates: args.flag("allow_updates", false),
            normalize: args.flag("normalize", true),
            resolve_capabilities: args.flag("resolve_capabilities", false),
            options: manager_options(args)?,
        })
    }
}

impl PkgArgs {
    /// The packages by the names that the database has for them: one of the machine's own architecture goes without it.
    pub(crate) fn resolve_names(&self, db: &PkgDb) -> Vec<PkgSpec> {
        if !self.normalize {
            return self.wanted.clone();
        }
        let mut known = std::collections::BTreeSet::new();
        let own = self.wanted.iter().map(|w| PkgSpec { name: db.without_native_arch(&w.name), ..w.clone() });
        own.filter(|w| known.insert(w.name.clone())).collect()
    }
}

fn manager_options(args: &ChunkArgs<'_>) -> Result<PkgActionOptions, StateError> {
    let text = |key: &str| args.text(key).map(|t| t.filter(|t| !t.is_empty()));
    Ok(PkgActionOptions {
        fromrepo: text("fromrepo")?.or(text("repo")?),
        skip_verify: args.flag("skip_verify", false),
        recommends: args.get("install_recommends").map(Value::is_truthy),
        force: args.flag("force_yes", false),
        replace_config: args.flag("force_conf_new", false),
        only_upgrade: args.flag("only_upgrade", false),
        dist_upgrade: args.flag("dist_upgrade", false),
        respect_holds: args.get("update_holds").is_some_and(|v| !v.is_truthy()),
        enablerepo: text("enablerepo")?,
        disablerepo: text("disablerepo")?,
        disable_excludes: text("disable_excludes")?,
        ..PkgActionOptions::default()
    })
}

/// Calls with each name and what stands beside it: `- vim`, `- vim: 1.2`, or a mapping of them.
fn for_each_entry(
    list: &Value,
    key: &str,
    take: &mut dyn FnMut(String, Option<&Value>),
) -> Result<(), StateError> {
    fn visit_map(map: &Map, take: &mut dyn FnMut(String, Option<&Value>)) {
        for (name, value) in map.iter() {
            take(value_text(name), Some(value).filter(|v| !matches!(v, Value::Null)));
        }
    }
    match list {
        Value::List(items) => {
            for item in items.iter() {
                match item {
                    Value::Map(map) => visit_map(map, take),
                    Value::List(_) | Value::Null => return Err(malformed_error(key)),
                    name => take(value_text(name), None),
                }
            }
        }
        Value::Map(map) => visit_map(map, take),
        Value::Str(_) if key == "sources" => return Err(malformed_error(key)),
        name => take(value_text(name), None),
    }
    Ok(())
}

fn malformed_error(key: &str) -> StateError {
    StateError::new(format!(
        "Invalidly formatted '{key}' parameter: it must be a list of names or of `name: value`"
    ))
}
