//! States of the module `selinux`, by the tools of the host.

use zagent_config::{Map, Value};

use crate::shared::command_plan;
use crate::shared::command_plan::{CommandPlan, CommandPlanSpec, to_strings};
use crate::{BuildResult, ChunkArgs, StateModule};
use crate::{Effects, StateCtx, StateError};
use zagent_host::command_options::value_text;
use zagent_host::text_file;

/// The module `selinux`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "selinux",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let look = match fun {
        "mode" => plan_mode,
        "boolean" => plan_boolean,
        "fcontext_policy_present" => context_present,
        "fcontext_policy_absent" => context_absent,
        "fcontext_policy_applied" => context_applied,
        "port_policy_present" => port_present,
        "port_policy_absent" => port_absent,
        "module" => plan_module,
        "module_install" => module_install,
        "module_remove" => module_remove,
        _ => return None,
    };
    let lasts = fun != "module_install" && fun != "module_remove";
    let veil = Effects::KERNEL | Effects::PACKAGES;
    Some(command_plan::build(
        CommandPlanSpec { plan: look, undoable: None, lock_path: Some("/etc/selinux"), reads: veil, lasts },
        args,
    ))
}

/// What a tool prints.
fn tool_output(ctx: &StateCtx<'_>, program: &str, told: &[&str]) -> Result<String, StateError> {
    let tools = ctx.tools();
    if tools.which(program).is_none() {
        return Err(StateError::new(format!(
            "selinux is not available: there is no `{program}` on this host"
        )));
    }
    Ok(tools.run_checked(program, told)?.stdout)
}

fn drift_plan(comment: String, done: String, old: Value, new: Value, acts: Vec<Vec<String>>) -> CommandPlan {
    CommandPlan {
        comment,
        done_comment: done,
        changes: Map::from_iter([("old", old), ("new", new)]),
        commands: acts,
        file: None,
    }
}

/// `Enforcing`, `Permissive` or `Disabled`, as people write them.
fn normalize_mode(mode: &str) -> Option<&'static str> {
    let mode = mode.to_ascii_lowercase();
    match mode.as_str() {
        "1" | "on" | "true" => Some("Enforcing"),
        "0" | "off" | "false" => Some("Permissive"),
        m if m.starts_with('e') => Some("Enforcing"),
        m if m.starts_with('p') => Some("Permissive"),
        m if m.starts_with('d') => Some("Disabled"),
        _ => None,
    }
}

fn plan_mode(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let name = args.name();
    let wanted =
        normalize_mode(&name).ok_or_else(|| StateError::new(format!("{name} is not an accepted mode")))?;
    let now = tool_output(ctx, "getenforce", &[])?.trim().to_owned();
    let config = "/etc/selinux/config";
    let text = String::from_utf8_lossy(&ctx.fs.read(config.as_ref())?).into_owned();
    let kept =
        text.lines().find_map(|l| l.strip_prefix("SELINUX=")).and_then(normalize_mode).unwrap_or_default();
    if kept == wanted && (now == wanted || wanted == "Disabled") {
        return Ok(CommandPlan::in_sync(format!("SELinux is already in {wanted} mode")));
    }
    let mut acts = Vec::new();
    if now != "Disabled" && wanted != "Disabled" {
        acts.push(to_strings(&["setenforce", if wanted == "Enforcing" { "1" } else { "0" }]));
    }
    let (comment, done) = (
        format!("SELinux mode is set to be changed to {wanted}"),
        format!("SELinux has been set to {wanted} mode"),
    );
    let file = Some((config, with_config_mode(&text, wanted)));
    Ok(CommandPlan { file, ..drift_plan(comment, done, now.into(), wanted.into(), acts) })
}

/// The text of the configuration with a mode for the next start.
fn with_config_mode(text: &str, mode: &str) -> String {
    let line = format!("SELINUX={}", mode.to_ascii_lowercase());
    let (new, is_found) = text_file::edit_lines(text, |l| l.starts_with("SELINUX=").then(|| line.clone()));
    if is_found { new } else { text_file::append_line(text, &line) }
}

fn parse_boolean_value(value: &Value) -> Option<&'static str> {
    match value_text(value).to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some("on"),
        "0" | "off" | "no" | "false" => Some("off"),
        _ => None,
    }
}

/// The switches of `semanage boolean -l`: `name (on , off) what it is`; or of `getsebool -a`: `name --> on`.
fn find_boolean(list: &str, name: &str) -> Option<(String, String)> {
    let line = list.lines().find(|l| l.split_whitespace().next() == Some(name))?;
    if let Some((_, state)) = line.split_once("-->") {
        return Some((state.trim().to_owned(), state.trim().to_owned()));
    }
    let (_, rest) = line.split_once('(')?;
    let (now, kept) = rest.split_once(')')?.0.split_once(',')?;
    Some((now.trim().to_owned(), kept.trim().to_owned()))
}

fn plan_boolean(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let persist = args.flag("persist", false);
    let list = if persist {
        tool_output(ctx, "semanage", &["boolean", "-l"])?
    } else {
        tool_output(ctx, "getsebool", &["-a"])?
    };
    let value = args.get("value").cloned().unwrap_or(Value::Null);
    let wanted: Vec<(String, Value)> = match args.get("booleans") {
        Some(Value::Map(map)) => map.iter().map(|(k, v)| (value_text(k), v.clone())).collect(),
        Some(Value::List(items)) => items
            .iter()
            .flat_map(|i| match i {
                Value::Map(map) => map.iter().map(|(k, v)| (value_text(k), v.clone())).collect(),
                other => vec![(value_text(other), value.clone())],
            })
            .collect(),
        _ => vec![(args.name(), value)],
    };
    let (mut old, mut new, mut acts) = (Map::new(), Map::new(), Vec::new());
    for (name, value) in &wanted {
        let (now, kept) = find_boolean(&list, name)
            .ok_or_else(|| StateError::new(format!("Boolean {name} is not available")))?;
        let to = parse_boolean_value(value).ok_or_else(|| {
            StateError::new(format!("{} is not a valid value for the boolean {name}", value_text(value)))
        })?;
        if now == to && (kept == to || !persist) {
            continue;
        }
        old.insert(name.as_str(), now);
        new.insert(name.as_str(), to);
        let kept: &[&str] = if persist { &["-P"] } else { &[] };
        acts.push(to_strings(&[&["setsebool"], kept, &[name, to]].concat()));
    }
    let names = |map: &Map| map.keys().map(value_text).collect::<Vec<_>>().join(", ");
    if acts.is_empty() {
        let all: Vec<&str> = wanted.iter().map(|(n, _)| n.as_str()).collect();
        return Ok(CommandPlan::in_sync(format!(
            "The following booleans were in the correct state: {}",
            all.join(", ")
        )));
    }
    let (comment, done) = (
        format!("The following booleans would be changed: {}", names(&new)),
        format!("The following booleans have been changed: {}", names(&new)),
    );
    Ok(drift_plan(comment, done, old.into(), new.into(), acts))
}

/// Kinds of files as `semanage` lists them.
const FILE_TYPES: [(&str, &str); 8] = [
    ("a", "all files"),
    ("f", "regular file"),
    ("d", "directory"),
    ("c", "character device"),
    ("b", "block device"),
    ("s", "socket"),
    ("l", "symbolic link"),
    ("p", "named pipe"),
];

/// The label that the policy gives to a pattern of paths.
fn find_label(list: &str, pattern: &str, files: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let rest = line.strip_prefix(pattern)?;
        let rest = rest.strip_prefix(char::is_whitespace)?.trim();
        Some(rest.strip_prefix(files)?.trim().to_owned())
    })
}

fn context_args(
    ctx: &StateCtx<'_>,
    args: &ChunkArgs<'_>,
) -> Result<(String, &'static str, Option<String>), StateError> {
    let kind = args.text("filetype")?.unwrap_or_else(|| "a".into());
    let files = FILE_TYPES.iter().find(|(id, _)| *id == kind).map(|(_, name)| *name);
    let files = files.ok_or_else(|| StateError::new(format!("`{kind}` is no kind of files")))?;
    let now = find_label(&tool_output(ctx, "semanage", &["fcontext", "-l"])?, &args.name(), files);
    Ok((kind, files, now))
}

fn context_present(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let (kind, files, now) = context_args(ctx, args)?;
    let name = args.name();
    let wanted = args.text("sel_type")?.ok_or_else(|| StateError::new("Missing parameter sel_type"))?;
    let (user, level) = (args.text("sel_user")?, args.text("sel_level")?);
    let is_so = |label: &str| {
        let parts: Vec<&str> = label.splitn(4, ':').collect();
        let says = |n: usize, want: &Option<String>| want.as_deref().is_none_or(|w| parts.get(n) == Some(&w));
        parts.get(2) == Some(&wanted.as_str()) && says(0, &user) && says(3, &level)
    };
    if now.as_deref().is_some_and(is_so) {
        let words = format!(
            "SELinux policy for \"{name}\" already present with specified filetype \"{files}\" and sel_type \"{wanted}\"."
        );
        return Ok(CommandPlan::in_sync(words));
    }
    let mut act = to_strings(&[
        "semanage",
        "fcontext",
        if now.is_some() { "-m" } else { "-a" },
        "-t",
        &wanted,
        "-f",
        &kind,
    ]);
    act.extend(user.iter().flat_map(|u| to_strings(&["-s", u])));
    act.extend(level.iter().flat_map(|l| to_strings(&["-r", l])));
    act.push(name.clone());
    let told =
        |to: &str| Map::from_iter([(name.as_str(), Map::from_iter([("filetype", files), ("sel_type", to)]))]);
    let old = now.map_or(Value::Null, |l| told(l.split(':').nth(2).unwrap_or_default()).into());
    let comment = format!("SELinux policy for \"{name}\" would be set to {wanted}");
    Ok(drift_plan(
        comment,
        format!("SELinux policy for \"{name}\" set to {wanted}"),
        old,
        told(&wanted).into(),
        vec![act],
    ))
}

/// Removes a rule of the policy.
fn removal_plan(name: &str, now: Value, act: Vec<String>) -> CommandPlan {
    let would = format!("SELinux policy for \"{name}\" would be removed");
    drift_plan(would, format!("SELinux policy for \"{name}\" removed"), now, Value::Null, vec![act])
}

fn context_absent(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let (kind, files, now) = context_args(ctx, args)?;
    let name = args.name();
    let Some(now) = now else {
        return Ok(CommandPlan::in_sync(format!(
            "SELinux policy for \"{name}\" already absent with specified filetype \"{files}\"."
        )));
    };
    let act = to_strings(&["semanage", "fcontext", "-d", "-f", &kind, &name]);
    Ok(removal_plan(&name, now.into(), act))
}

fn context_applied(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let name = args.name();
    let deep: &[&str] = if args.flag("recursive", false) { &["-R"] } else { &[] };
    let out = tool_output(ctx, "restorecon", &[&["-n", "-v", "-F"], deep, &[&name]].concat())?;
    if out.trim().is_empty() {
        return Ok(CommandPlan::in_sync(format!(
            "SELinux policies are already applied for filespec \"{name}\""
        )));
    }
    let act = to_strings(&[&["restorecon", "-F"], deep, &[&name]].concat());
    let comment = format!("SELinux policies would be applied for filespec \"{name}\"");
    let done = format!("SELinux policies applied for filespec \"{name}\"");
    Ok(drift_plan(comment, done, Value::Null, out.trim().into(), vec![act]))
}

/// The type that a port has in a list of `semanage port -l`.
fn port_type(list: &str, protocol: &str, port: &str) -> Option<String> {
    list.lines().find_map(|line| {
        let mut parts = line.split_whitespace();
        let (kind, own) = (parts.next()?, parts.next()?);
        let has = parts.any(|p| p.trim_end_matches(',') == port);
        (own == protocol && has).then(|| kind.to_owned())
    })
}

/// Protocol and port: `tcp/80`, or each for itself.
fn port_args(args: &ChunkArgs<'_>) -> Result<(String, String), StateError> {
    let name = args.name();
    let (protocol, number) = name.split_once('/').unwrap_or(("tcp", &name));
    Ok((
        args.text("protocol")?.unwrap_or_else(|| protocol.into()),
        args.text("port")?.unwrap_or_else(|| number.into()),
    ))
}

fn port_present(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let ((protocol, number), name) = (port_args(args)?, args.name());
    let wanted = args.text("sel_type")?.ok_or_else(|| StateError::new("Missing parameter sel_type"))?;
    let now = port_type(&tool_output(ctx, "semanage", &["port", "-l"])?, &protocol, &number);
    if now.as_deref() == Some(wanted.as_str()) {
        return Ok(CommandPlan::in_sync(format!(
            "SELinux policy for \"{name}\" already present with specified sel_type \"{wanted}\", protocol \"{protocol}\" and port \"{number}\"."
        )));
    }
    let how = if now.is_some() { "-m" } else { "-a" };
    let mut act = to_strings(&["semanage", "port", how, "-t", &wanted, "-p", &protocol]);
    act.extend(args.text("sel_range")?.iter().flat_map(|r| to_strings(&["-r", r])));
    act.push(number);
    let comment = format!("SELinux policy for \"{name}\" would be set to {wanted}");
    let old = now.map_or(Value::Null, Value::from);
    Ok(drift_plan(
        comment,
        format!("SELinux policy for \"{name}\" set to {wanted}"),
        old,
        wanted.into(),
        vec![act],
    ))
}

fn port_absent(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let ((protocol, number), name) = (port_args(args)?, args.name());
    let now = port_type(&tool_output(ctx, "semanage", &["port", "-l", "-C"])?, &protocol, &number);
    let Some(now) = now else {
        return Ok(CommandPlan::in_sync(format!(
            "SELinux policy for \"{name}\" already absent with specified protocol \"{protocol}\" and port \"{number}\"."
        )));
    };
    let act = to_strings(&["semanage", "port", "-d", "-p", &protocol, &number]);
    Ok(removal_plan(&name, now.into(), act))
}

/// Whether a module is in use, by `semodule -lfull`: `100 name pp disabled`; nothing when it is not there.
fn module_state(list: &str, name: &str) -> Option<bool> {
    let line = list.lines().find(|l| l.split_whitespace().nth(1) == Some(name))?;
    Some(!line.split_whitespace().any(|w| w == "disabled"))
}

fn plan_module(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    if args.flag("install", false) {
        return module_install(ctx, args);
    }
    if args.flag("remove", false) {
        return module_remove(ctx, args);
    }
    let name = args.name();
    let asked = args.text("module_state")?.unwrap_or_else(|| "Enabled".into());
    let wanted = match asked.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" | "enabled" => true,
        "0" | "off" | "no" | "false" | "disabled" => false,
        _ => return Err(StateError::new(format!("{asked} is not a valid state for the {name} module."))),
    };
    let now = module_state(&tool_output(ctx, "semodule", &["-lfull"])?, &name);
    let now = now.ok_or_else(|| StateError::new(format!("Module {name} is not available")))?;
    if now == wanted {
        return Ok(CommandPlan::in_sync(format!("Module {name} is in the desired state")));
    }
    let act = to_strings(&["semodule", if wanted { "-e" } else { "-d" }, &name]);
    let comment = format!("Module {name} is set to be toggled to {asked}");
    Ok(drift_plan(
        comment,
        format!("Module {name} has been set to {asked}"),
        now.into(),
        wanted.into(),
        vec![act],
    ))
}

fn module_install(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let path = args.text("source")?.unwrap_or_else(|| args.name());
    let file = path.rsplit('/').next().unwrap_or(&path);
    let name = file.split('.').next().unwrap_or(file);
    if module_state(&tool_output(ctx, "semodule", &["-lfull"])?, name).is_some() {
        return Ok(CommandPlan::in_sync(format!("Module {name} is already installed")));
    }
    let act = to_strings(&["semodule", "-i", &path]);
    let comment = format!("Module {path} would be installed");
    Ok(drift_plan(comment, format!("Module {path} has been installed"), Value::Null, name.into(), vec![act]))
}

fn module_remove(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let name = args.name();
    if module_state(&tool_output(ctx, "semodule", &["-lfull"])?, &name).is_none() {
        return Err(StateError::new(format!("Module {name} is not available")));
    }
    let act = to_strings(&["semodule", "-r", &name]);
    let comment = format!("Module {name} would be removed");
    Ok(drift_plan(comment, format!("Module {name} has been removed"), name.into(), Value::Null, vec![act]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_keeps_the_mode() {
        let text = "# SELINUX= how\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";
        let new = "# SELINUX= how\nSELINUX=permissive\nSELINUXTYPE=targeted\n";
        assert_eq!(with_config_mode(text, "Permissive"), new);
        assert_eq!(
            with_config_mode("SELINUXTYPE=targeted", "Disabled"),
            "SELINUXTYPE=targeted\nSELINUX=disabled\n"
        );
    }

    #[test]
    fn lists_of_the_tools_are_understood() {
        let booleans =
            "SELinux boolean   State  Default Description\nhttpd_can_network (off  ,   on)  Allow httpd\n";
        assert_eq!(find_boolean(booleans, "httpd_can_network"), Some(("off".into(), "on".into())));
        assert_eq!(find_boolean("a --> on\nb --> off\n", "b"), Some(("off".into(), "off".into())));
        assert_eq!(find_boolean(booleans, "httpd"), None);
        let contexts = "/srv/a(/.*)?      all files          system_u:object_r:httpd_t:s0 \n/srv/ab   directory  x:y:z:s0\n";
        assert_eq!(
            find_label(contexts, "/srv/a(/.*)?", "all files").as_deref(),
            Some("system_u:object_r:httpd_t:s0")
        );
        assert_eq!(find_label(contexts, "/srv/a", "all files"), None);
        let ports = "http_port_t                    tcp      80, 81, 443\nssh_port_t  tcp  22\n";
        assert_eq!(port_type(ports, "tcp", "81").as_deref(), Some("http_port_t"));
        assert_eq!(port_type(ports, "udp", "81"), None);
        assert_eq!(module_state("100 zebra pp\n400 my pp disabled\n", "my"), Some(false));
    }

    #[test]
    fn modes_are_written_in_many_ways() {
        let table = [
            ("enforcing", Some("Enforcing")),
            ("1", Some("Enforcing")),
            ("Off", Some("Permissive")),
            ("d", Some("Disabled")),
            ("x", None),
        ];
        for (text, expected) in table {
            assert_eq!(normalize_mode(text), expected, "{text}");
        }
    }
}
