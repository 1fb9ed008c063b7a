//! What the modules `apache_*` share: Debian's links for modules, sites and configurations, and the programs that make them.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::planned_state::{PlannedChange, StatePlan};
use super::store_plan::{StoreFunction, StoreModule};
use super::store_undo::StoreUndo;
use crate::named_args::NamedArgs;
use crate::{Effects, StateCtx, StateError};

/// The state functions of a module.
pub(crate) const fn link_states(functions: &'static [StoreFunction]) -> StoreModule {
    let reads = Effects::FILES.union(Effects::PACKAGE_FILES);
    StoreModule { functions, login: None, reads, writes: Effects::PACKAGE_FILES }
}

/// Whether a module, site or configuration is enabled.
pub(crate) static APACHE_UNDO: StoreUndo = StoreUndo {
    kind: "apache",
    login: None,
    capture: |given, ctx| {
        Ok(is_enabled(ctx, &given.require_text("type")?, &given.require_text("name")?)?.into())
    },
    restore: |given, to, ctx| {
        run_a2_program(ctx, &given.require_text("type")?, &given.require_text("name")?, to.is_truthy())
    },
    keep_reason: None,
};

/// The link that the programs make.
fn link_path(kind: &str, name: &str) -> PathBuf {
    let (dir, ending) = match kind {
        "module" => ("mods", "load"),
        "site" => ("sites", "conf"),
        _ => ("conf", "conf"),
    };
    let name = match (kind, name) {
        ("site", "default") => "000-default",
        (_, name) => name.strip_suffix(".load").or_else(|| name.strip_suffix(".conf")).unwrap_or(name),
    };
    PathBuf::from(format!("/etc/apache2/{dir}-enabled/{name}.{ending}"))
}

fn is_enabled(ctx: &StateCtx<'_>, kind: &str, name: &str) -> Result<bool, StateError> {
    Ok(ctx.fs.lstat(&link_path(kind, name))?.is_some())
}

fn run_a2_program(ctx: &StateCtx<'_>, kind: &str, name: &str, enables: bool) -> Result<(), StateError> {
    let what = match kind {
        "module" => "mod",
        other => other,
    };
    let program = format!("a2{}{what}", if enables { "en" } else { "dis" });
    let args: &[&str] = if enables { &["--quiet", "--", name] } else { &["--quiet", "--force", "--", name] };
    Ok(ctx.tools().run_checked(&program, args).map(|_| ())?)
}

/// Plans a link that has to be there or to go.
pub(crate) fn plan_link(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    kind: &'static str,
    enables: bool,
) -> Result<StatePlan, StateError> {
    let name = given.require_text("name")?;
    if name.starts_with('-') || name.contains('/') {
        return Err(StateError::new(format!("`{name}` cannot be the name of an Apache {kind}")));
    }
    let (verb, past) = if enables { ("enable", "enabled") } else { ("disable", "disabled") };
    if is_enabled(ctx, kind, &name)? == enables {
        return Ok(StatePlan::InSync(format!("{name} already {past}.")));
    }
    let own = Value::from(name.as_str());
    let (old, new) = if enables { (Value::Null, own) } else { (own, Value::Null) };
    let key = Map::from_iter([("name", name.as_str()), ("type", kind)]);
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Apache {kind} {name} is set to be {past}."),
        done_comment: format!("Apache {kind} {name} {past}."),
        failure_prefix: format!("Failed to {verb} {name} Apache {kind}"),
        changes: Map::from_iter([("old", old), ("new", new)]),
        undoable: Some((&APACHE_UNDO, key.into())),
        run_change: Box::new(move |ctx| run_a2_program(ctx, kind, &name, enables)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        let text = |kind, name| link_path(kind, name).display().to_string();
        assert_eq!(text("module", "rewrite"), "/etc/apache2/mods-enabled/rewrite.load");
        assert_eq!(text("site", "default"), "/etc/apache2/sites-enabled/000-default.conf");
        assert_eq!(text("conf", "security.conf"), "/etc/apache2/conf-enabled/security.conf");
    }
}
