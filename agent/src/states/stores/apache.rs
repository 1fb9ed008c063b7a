//! States of the modules `apache_module`, `apache_site` and `apache_conf` (Debian's links and their programs), and those of
//! `stateconf`, which do nothing.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::{Act, Kept, Plan, Row};
use crate::host::functions::stores::Given;
use crate::states::{Failure, Scene};

pub(super) const TABLE: &[Row] = &[
    ("apache_module", "enabled", |g, s| link(g, s, "module", true), None),
    ("apache_module", "disabled", |g, s| link(g, s, "module", false), None),
    ("apache_site", "enabled", |g, s| link(g, s, "site", true), None),
    ("apache_site", "disabled", |g, s| link(g, s, "site", false), None),
    ("apache_conf", "enabled", |g, s| link(g, s, "conf", true), None),
    ("apache_conf", "disabled", |g, s| link(g, s, "conf", false), None),
    ("stateconf", "set", nothing, None),
    ("stateconf", "context", nothing, None),
];

/// Whether a module, site or configuration is enabled.
pub(super) static LINK: Kept = Kept {
    kind: "apache",
    look: |given, scene| Ok(is_enabled(scene, &given.must("type")?, &given.must("name")?)?.into()),
    put: |given, to, scene| tell(scene, &given.must("type")?, &given.must("name")?, to.is_truthy()),
    full: None,
};

/// The link that the programs make.
fn place(kind: &str, name: &str) -> PathBuf {
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

fn is_enabled(scene: &Scene<'_>, kind: &str, name: &str) -> Result<bool, Failure> {
    Ok(scene.fs.lstat(&place(kind, name))?.is_some())
}

fn tell(scene: &Scene<'_>, kind: &str, name: &str, enables: bool) -> Result<(), Failure> {
    let what = match kind {
        "module" => "mod",
        other => other,
    };
    let program = format!("a2{}{what}", if enables { "en" } else { "dis" });
    let args: &[&str] = if enables { &["--quiet", "--", name] } else { &["--quiet", "--force", "--", name] };
    Ok(scene.tools().must(&program, args).map(|_| ())?)
}

fn link(given: &Given<'_>, scene: &Scene<'_>, kind: &'static str, enables: bool) -> Result<Plan, Failure> {
    let name = given.must("name")?;
    if name.starts_with('-') || name.contains('/') {
        return Err(Failure::new(format!("`{name}` cannot be the name of an Apache {kind}")));
    }
    let (verb, past) = if enables { ("enable", "enabled") } else { ("disable", "disabled") };
    if is_enabled(scene, kind, &name)? == enables {
        return Ok(Plan::Right(format!("{name} already {past}.")));
    }
    let own = Value::from(name.as_str());
    let (old, new) = if enables { (Value::Null, own) } else { (own, Value::Null) };
    let key = Map::from_iter([("name", name.as_str()), ("type", kind)]);
    Ok(Plan::Act(Act {
        would: format!("Apache {kind} {name} is set to be {past}."),
        did: format!("Apache {kind} {name} {past}."),
        fails: format!("Failed to {verb} {name} Apache {kind}"),
        changes: Map::from_iter([("old", old), ("new", new)]),
        thing: Some((&LINK, key.into())),
        act: Box::new(move |scene| tell(scene, kind, &name, enables)),
    }))
}

/// `stateconf` only speaks to a renderer.
#[expect(clippy::unnecessary_wraps, reason = "it is a planner among others")]
fn nothing(_: &Given<'_>, _: &Scene<'_>) -> Result<Plan, Failure> {
    Ok(Plan::Right(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        let text = |kind, name| place(kind, name).display().to_string();
        assert_eq!(text("module", "rewrite"), "/etc/apache2/mods-enabled/rewrite.load");
        assert_eq!(text("site", "default"), "/etc/apache2/sites-enabled/000-default.conf");
        assert_eq!(text("conf", "security.conf"), "/etc/apache2/conf-enabled/security.conf");
    }
}
