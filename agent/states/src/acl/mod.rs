//! States of the module `acl`: who besides the owner may use a file.

use zagent_config::{Map, Value};

use crate::shared::command_plan;
use crate::shared::command_plan::{CommandPlan, CommandPlanSpec, to_strings};
use crate::{BuildResult, ChunkArgs, StateModule, Undoable};
use crate::{Effects, StateCtx, StateError};
use zagent_host::Tools;

/// The module `acl`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "acl",
    build,
    functions: &[],
    undo: &[UNDOABLE],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let look = match fun {
        "present" | "list_present" => plan_present,
        "absent" | "list_absent" => plan_absent,
        _ => return None,
    };
    let kind = CommandPlanSpec {
        plan: look,
        undoable: Some(UNDOABLE),
        lock_path: None,
        reads: Effects::FILES | Effects::PACKAGE_FILES | Effects::USERS,
        lasts: true,
    };
    Some(command_plan::build(kind, args))
}

/// One line of an access list: `default:user:name`, and what is allowed.
type AclEntry = (String, String);

/// What `getfacl` printed: the lines of each file.
fn parse_getfacl(out: &str) -> Vec<(String, Vec<AclEntry>)> {
    let mut all: Vec<(String, Vec<AclEntry>)> = Vec::new();
    for line in out.lines() {
        if let Some(file) = line.strip_prefix("# file: ") {
            all.push((file.to_owned(), Vec::new()));
        } else if let (Some((_, lines)), false) = (all.last_mut(), line.starts_with('#')) {
            let line = line.split('\t').next().unwrap_or(line);
            lines.extend(line.rsplit_once(':').map(|(who, perms)| (who.to_owned(), perms.trim().to_owned())));
        }
    }
    all
}

/// What is asked for: the kind of the entries, their names, the files as they are.
struct AclRequest {
    kind: String,
    names: Vec<String>,
    recurse: bool,
    files: Vec<(String, Vec<AclEntry>)>,
}

impl AclRequest {
    fn from_args(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let name = args.name();
        if ctx.fs.stat(name.as_ref())?.is_none() {
            return Err(StateError::new(format!("{name} does not exist")));
        }
        let kind = args.text("acl_type")?.ok_or_else(|| StateError::new("Missing parameter acl_type"))?;
        let kind = kind.strip_prefix("d:").map_or(kind.clone(), |rest| format!("default:{rest}"));
        if !matches!(kind.trim_start_matches("default:"), "user" | "group" | "mask" | "other") {
            return Err(StateError::new("ACL Type does not exist"));
        }
        let names = match args.texts("acl_names")? {
            Some(names) => names,
            None => vec![args.text("acl_name")?.unwrap_or_default()],
        };
        let recurse = args.flag("recurse", false);
        let tools = ctx.tools();
        if tools.which("getfacl").is_none() {
            return Err(StateError::new("there is no `getfacl` on this host: install the package `acl`"));
        }
        let deep: &[&str] = if recurse { &["-R"] } else { &[] };
        let said = tools.run_checked("getfacl", &[deep, &["-p", "--", &name]].concat())?;
        Ok(Self { kind, names, recurse, files: parse_getfacl(&said.stdout) })
    }

    fn entry_key(&self, name: &str) -> String {
        format!("{}:{name}", self.kind)
    }

    /// What an entry allows on the first file that does not allow the same; nothing when all do.
    fn find_difference(&self, name: &str, perms: Option<&str>) -> Option<Option<String>> {
        let who = self.entry_key(name);
        let of = |lines: &[AclEntry]| lines.iter().find(|(w, _)| *w == who).map(|(_, p)| p.clone());
        self.files.iter().map(|(_, lines)| of(lines)).find(|now| now.as_deref() != perms)
    }

    fn setfacl_command(&self, file: &str, option: &str, entries: &[String]) -> Vec<String> {
        let mut act = to_strings(&["setfacl", option, &entries.join(",")]);
        act.extend(self.recurse.then(|| "-R".to_owned()));
        act.extend(["--".to_owned(), file.to_owned()]);
        act
    }
}

/// `rwx` with a dash for what is not allowed.
fn expand_perms(perms: &str) -> String {
    "rwx".chars().map(|c| if perms.to_ascii_lowercase().contains(c) { c } else { '-' }).collect()
}

fn acl_changes(request: &AclRequest, names: &[&String], perms: &str) -> Value {
    let names: Vec<&str> = names.iter().map(|n| n.as_str()).collect();
    Map::from_iter([
        ("acl_name", names.join(", ")),
        ("acl_type", request.kind.clone()),
        ("perms", perms.to_owned()),
    ])
    .into()
}

fn plan_present(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let request = AclRequest::from_args(ctx, args)?;
    let perms = expand_perms(&args.text("perms")?.unwrap_or_default());
    let wrong: Vec<&String> =
        request.names.iter().filter(|n| request.find_difference(n, Some(&perms)).is_some()).collect();
    let Some(first) = wrong.first() else {
        return Ok(CommandPlan::in_sync("Permissions are in the desired state"));
    };
    let names = wrong.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
    let mut changes = Map::from_iter([("new", acl_changes(&request, &wrong, &perms))]);
    let old = request.find_difference(first, Some(&perms)).flatten();
    let (comment, done) = match &old {
        Some(old) => {
            changes.insert("old", acl_changes(&request, &wrong, old));
            (
                format!("Updated permissions will be applied for {names}: {old} -> {perms}"),
                format!("Updated permissions for {names}"),
            )
        }
        None => (
            format!("New permissions will be applied for {names}: {perms}"),
            format!("Applied new permissions for {names}"),
        ),
    };
    let name = args.name();
    let mut acts = Vec::new();
    if args.flag("force", false) {
        let deep: &[&str] = if request.recurse { &["-R"] } else { &[] };
        acts.push(to_strings(&[&["setfacl", "-b"], deep, &["--", &name]].concat()));
    }
    let meant = if acts.is_empty() { wrong } else { request.names.iter().collect() };
    let entries: Vec<String> = meant.iter().map(|n| format!("{}:{perms}", request.entry_key(n))).collect();
    acts.push(request.setfacl_command(&name, "-m", &entries));
    Ok(CommandPlan { comment, done_comment: done, changes, commands: acts, file: None })
}

fn plan_absent(ctx: &StateCtx<'_>, args: &ChunkArgs<'_>) -> Result<CommandPlan, StateError> {
    let request = AclRequest::from_args(ctx, args)?;
    let wrong: Vec<&String> =
        request.names.iter().filter(|n| request.find_difference(n, None).is_some()).collect();
    if wrong.is_empty() {
        return Ok(CommandPlan::in_sync("Permissions are in the desired state"));
    }
    let old = request.find_difference(wrong[0], None).flatten().unwrap_or_default();
    let entries: Vec<String> = wrong.iter().map(|n| request.entry_key(n)).collect();
    Ok(CommandPlan {
        comment: "Removing permissions".into(),
        done_comment: "Removing permissions".into(),
        changes: Map::from_iter([("old", acl_changes(&request, &wrong, &old))]),
        commands: vec![request.setfacl_command(&args.name(), "-x", &entries)],
        file: None,
    })
}

/// The access lists of a path and of all below it.
struct AclUndo;

/// What a revert puts back.
pub const UNDOABLE: &dyn Undoable = &AclUndo;

impl Undoable for AclUndo {
    fn kind(&self) -> &'static str {
        "acl"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let said =
            ctx.tools().run_query("getfacl", &["-R", "-P", "-p", "--", key.as_str().unwrap_or_default()])?;
        Ok(if said.is_success() { said.stdout.into() } else { Value::Null })
    }

    fn restore(&self, _: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some(text) = to.as_str() else { return Ok(()) };
        let mut command = Tools::command("setfacl", &["--restore=-"], std::time::Duration::from_secs(600));
        command.stdin = text.as_bytes().to_vec();
        let said = ctx.tools().run(command)?;
        if said.is_success() { Ok(()) } else { Err(StateError::new(said.message())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "# file: /srv/a\n# owner: root\n# group: root\nuser::rwx\nuser:daemon:rwx\t\t#effective:r-x\ngroup::r-x\n\
                         mask::r-x\nother::r-x\ndefault:user::rwx\n\n# file: /srv/a/b\nuser::rw-\ngroup::r--\nother::r--\n";

    #[test]
    fn lists_are_read_and_compared() {
        let files = parse_getfacl(LISTS);
        assert_eq!(files.len(), 2);
        let request = |kind: &str, count: usize| AclRequest {
            kind: kind.into(),
            names: Vec::new(),
            recurse: false,
            files: files[..count].to_vec(),
        };
        assert_eq!(request("user", 1).find_difference("daemon", Some("rwx")), None);
        assert_eq!(request("user", 2).find_difference("daemon", Some("rwx")), Some(None));
        assert_eq!(request("user", 1).find_difference("daemon", Some("r--")), Some(Some("rwx".into())));
        assert_eq!(request("default:user", 1).find_difference("", Some("rwx")), None);
        assert_eq!(request("user", 1).find_difference("nobody", None), None);
        assert_eq!((expand_perms("rX"), expand_perms("")), ("r-x".into(), "---".into()));
    }
}
