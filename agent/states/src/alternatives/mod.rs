//! States of the module `alternatives`: which of several programs a name stands for.

pub(crate) mod functions;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::{ApplyResult, CheckResult, Effects, LockKey, State, StateCtx, StateError};
use crate::{BuildResult, ChunkArgs, StateModule, Undoable};
use zagent_host::{Machine, Tools, refuse_option};

/// What `update-alternatives` noted about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlternativesGroup {
    pub mode: String,
    pub link: String,
    /// Names and links of what goes along.
    pub(crate) followers: Vec<(String, String)>,
    pub choices: Vec<AlternativesChoice>,
}

/// One of several programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlternativesChoice {
    pub path: String,
    pub priority: i64,
    /// What goes along, in the order of the names; empty where nothing does.
    pub(crate) followers: Vec<String>,
}

impl AlternativesGroup {
    /// Reads the notes about a name; nothing when there are none.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    pub(crate) fn load(machine: &Machine, name: &str) -> Result<Option<Self>, FunctionError> {
        if name.contains('/') {
            return Ok(None);
        }
        for dir in ["/var/lib/dpkg/alternatives", "/var/lib/alternatives"] {
            if let Some(text) = machine.read(&format!("{dir}/{name}"))? {
                return Ok(Self::parse(&text));
            }
        }
        Ok(None)
    }

    /// Mode, link, followers in pairs, an empty line; then each choice: path, priority, one line a follower.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (mode, link) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let mut followers = Vec::new();
        while let Some(name) = lines.next().filter(|l| !l.is_empty()) {
            followers.push((name.to_owned(), lines.next()?.to_owned()));
        }
        let mut choices = Vec::new();
        while let Some(path) = lines.next().filter(|l| !l.is_empty()) {
            let priority = lines.next()?.trim().parse().ok()?;
            let of = followers.iter().map(|_| lines.next().unwrap_or_default().to_owned()).collect();
            choices.push(AlternativesChoice { path: path.to_owned(), priority, followers: of });
        }
        Some(Self { mode, link, followers, choices })
    }

    /// True when a program is one of the choices.
    pub(crate) fn has_choice(&self, path: &str) -> bool {
        self.choices.iter().any(|c| c.path == path)
    }
}

/// Where the link of a name points now.
pub(crate) fn current_target(machine: &Machine, name: &str) -> Option<String> {
    if name.contains('/') {
        return None;
    }
    machine.read_link(&format!("/etc/alternatives/{name}"))
}

/// Tells the program that keeps alternatives something.
///
/// # Errors
/// Fails when there is none, or as it does.
pub(crate) fn run_update_alternatives(tools: &Tools<'_>, words: &[&str]) -> Result<String, FunctionError> {
    // The verb comes first, and a priority may be below zero.
    let said = words.iter().skip(1).filter(|w| **w != "--slave" && w.parse::<i64>().is_err());
    said.into_iter().try_for_each(|word| refuse_option("name of an alternative", word))?;
    let program = ["update-alternatives", "alternatives"].into_iter().find(|p| tools.which(p).is_some());
    let program =
        program.ok_or_else(|| FunctionError::failed("there is no `update-alternatives` on this host"))?;
    Ok(tools.run_checked(program, words)?.message().to_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AlternativesFunction {
    Install,
    Remove,
    Auto,
    Set,
}

struct AlternativesState {
    function: AlternativesFunction,
    name: String,
    link: String,
    path: String,
    priority: i64,
}

/// The module `alternatives`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "alternatives",
    build,
    functions: functions::TABLE,
    undo: &[&ALTERNATIVES_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let (act, needs): (AlternativesFunction, &[&str]) = match fun {
        "install" => (AlternativesFunction::Install, &["link", "path", "priority"]),
        "remove" => (AlternativesFunction::Remove, &["path"]),
        "auto" => (AlternativesFunction::Auto, &[]),
        "set" => (AlternativesFunction::Set, &["path"]),
        _ => return None,
    };
    Some(state_from_args(act, needs, args))
}

fn state_from_args(act: AlternativesFunction, needs: &[&str], args: &ChunkArgs<'_>) -> BuildResult {
    if let Some(key) = needs.iter().find(|key| args.get(key).is_none()) {
        let words = format!("Missing parameter {key} for state alternatives.{}", args.chunk.fun);
        return Err(StateError::new(words));
    }
    let (name, link, path) = (args.name(), args.text("link")?, args.text("path")?);
    let (link, path) = (link.unwrap_or_default(), path.unwrap_or_default());
    [&name, &link, &path].into_iter().try_for_each(|word| refuse_option("name of an alternative", word))?;
    Ok(Box::new(AlternativesState {
        function: act,
        name,
        link,
        path,
        priority: args.int("priority")?.unwrap_or(0),
    }))
}

impl AlternativesState {
    fn check_group(
        &self,
        group: Option<&AlternativesGroup>,
        current: Option<&str>,
    ) -> Result<CheckResult, StateError> {
        let Self { name, path, priority, .. } = self;
        let is_choice = group.is_some_and(|n| n.has_choice(path));
        let path_change = || Map::from_iter([("path", path.as_str())]);
        match self.function {
            AlternativesFunction::Install if is_choice => {
                Ok(CheckResult::in_sync(format!("Alternative {path} for {name} is already registered")))
            }
            AlternativesFunction::Install => {
                let words = format!("Alternative will be set for {name} to {path} with priority {priority}");
                Ok(CheckResult::drifted(words, self.install_changes()))
            }
            AlternativesFunction::Remove if is_choice => {
                Ok(CheckResult::drifted(format!("Alternative for {name} will be removed"), path_change()))
            }
            AlternativesFunction::Remove => match current {
                Some(now) => Ok(CheckResult::in_sync(format!(
                    "Alternative for {name} is set to it's default path {now}"
                ))),
                None => Err(StateError::new(format!("Alternative for {name} doesn't exist"))),
            },
            AlternativesFunction::Auto if group.is_some_and(|n| n.mode == "auto") => {
                Ok(CheckResult::in_sync(format!("{name} already in auto mode")))
            }
            AlternativesFunction::Auto if group.is_none() => {
                Err(StateError::new(format!("Alternative for {name} doesn't exist")))
            }
            AlternativesFunction::Auto => {
                let words = format!("{name} will be put in auto mode");
                Ok(CheckResult::drifted(words.clone(), Map::from_iter([("result", words)])))
            }
            AlternativesFunction::Set if current == Some(path) => {
                Ok(CheckResult::in_sync(format!("Alternative for {name} already set to {path}")))
            }
            AlternativesFunction::Set if is_choice => Ok(CheckResult::drifted(
                format!("Alternative for {name} will be set to path {path}"),
                path_change(),
            )),
            AlternativesFunction::Set => {
                Err(StateError::new(format!("Alternative {path} for {name} doesn't exist")))
            }
        }
    }

    fn install_changes(&self) -> Map {
        Map::from_iter([
            ("name", Value::from(self.name.as_str())),
            ("link", self.link.as_str().into()),
            ("path", self.path.as_str().into()),
            ("priority", self.priority.into()),
        ])
    }
}

impl State for AlternativesState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let machine = ctx.tools().machine;
        self.check_group(
            AlternativesGroup::load(machine, &self.name)?.as_ref(),
            current_target(machine, &self.name).as_deref(),
        )
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let Self { name, link, path, .. } = &*self;
        let priority = self.priority.to_string();
        let words: &[&str] = match self.function {
            AlternativesFunction::Install => &["--install", link, name, path, &priority],
            AlternativesFunction::Remove => &["--remove", name, path],
            AlternativesFunction::Auto => &["--auto", name],
            AlternativesFunction::Set => &["--set", name, path],
        };
        let said =
            ctx.with_undo(&ALTERNATIVES_UNDO, name.as_str(), || Ok(run_update_alternatives(&tools, words)?))?;
        let now = current_target(tools.machine, name);
        Ok(match (self.function, now) {
            (AlternativesFunction::Install, _) => {
                let words = format!("Alternative for {name} set to path {path} with priority {priority}");
                ApplyResult::new(words, self.install_changes())
            }
            (AlternativesFunction::Remove, Some(now)) => {
                let words = format!("Alternative for {name} removed. Falling back to path {now}");
                ApplyResult::new(words, Map::from_iter([("path", now)]))
            }
            (AlternativesFunction::Remove, None) => {
                ApplyResult::new(format!("Alternative for {name} removed"), Map::from_iter([("path", "")]))
            }
            (AlternativesFunction::Auto, _) => {
                ApplyResult::new(format!("{name} put in auto mode"), Map::from_iter([("result", said)]))
            }
            (AlternativesFunction::Set, now) => {
                let now = now.unwrap_or_default();
                ApplyResult::new(
                    format!("Alternative for {name} set to path {now}"),
                    Map::from_iter([("path", now)]),
                )
            }
        })
    }

    /// Salt calls it a failure when what is removed was never there; afterwards it is right.
    fn is_convergent(&self) -> bool {
        self.function != AlternativesFunction::Remove
    }

    fn reads(&self) -> Effects {
        Effects::PACKAGE_FILES
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_FILES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path("/etc/alternatives".into())]
    }
}

/// All choices of a name.
struct AlternativesUndo;

const ALTERNATIVES_UNDO: AlternativesUndo = AlternativesUndo;

impl Undoable for AlternativesUndo {
    fn kind(&self) -> &'static str {
        "alternative"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let machine = ctx.tools().machine;
        let name = key.as_str().unwrap_or_default();
        let Some(group) = AlternativesGroup::load(machine, name)? else { return Ok(Value::Null) };
        let text = |t: &str| Value::from(t);
        let list = |all: Vec<Value>| all.into_iter().collect::<Value>();
        let choices = group.choices.iter().map(|c| {
            let followers = list(c.followers.iter().map(|f| text(f)).collect());
            list(vec![text(&c.path), c.priority.into(), followers])
        });
        let followers = group.followers.iter().map(|(name, link)| list(vec![text(name), text(link)]));
        Ok(Map::from_iter([
            ("mode", text(&group.mode)),
            ("link", text(&group.link)),
            ("current", text(&current_target(machine, name).unwrap_or_default())),
            ("followers", list(followers.collect())),
            ("choices", list(choices.collect())),
        ])
        .into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let tools = ctx.tools();
        let name = key.as_str().unwrap_or_default();
        let now = AlternativesGroup::load(tools.machine, name)?;
        let field = |key: &str| to.get(key).and_then(Value::as_str).unwrap_or_default();
        let items = |value: Option<&Value>| -> Vec<Value> {
            value.and_then(Value::as_list).map(|l| l.iter().cloned().collect()).unwrap_or_default()
        };
        let texts = |value: &Value| -> Vec<String> {
            items(Some(value)).iter().map(zagent_host::command_options::value_text).collect()
        };
        let choices = items(to.get("choices"));
        let wanted: Vec<Vec<String>> = choices.iter().map(texts).collect();
        for old in
            now.iter().flat_map(|n| &n.choices).filter(|c| !wanted.iter().any(|w| w.first() == Some(&c.path)))
        {
            run_update_alternatives(&tools, &["--remove", name, &old.path])?;
        }
        let followers: Vec<Vec<String>> = items(to.get("followers")).iter().map(texts).collect();
        for (choice, said) in wanted.iter().zip(&choices) {
            let [path, priority, ..] = choice.as_slice() else { continue };
            let own = items(Some(said)).last().map(texts).unwrap_or_default();
            let mut words = vec!["--install", field("link"), name, path, priority];
            for (follower, target) in followers.iter().zip(&own).filter(|(_, target)| !target.is_empty()) {
                let [name, link, ..] = follower.as_slice() else { continue };
                words.extend(["--slave", link, name, target]);
            }
            run_update_alternatives(&tools, &words)?;
        }
        match field("mode") {
            "" => {}
            "auto" => drop(run_update_alternatives(&tools, &["--auto", name])?),
            _ => drop(run_update_alternatives(&tools, &["--set", name, field("current")])?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunk;

    const NOTES: &str = "auto\n/usr/bin/editor\neditor.1.gz\n/usr/share/man/man1/editor.1.gz\n\n\
                         /bin/ed\n-100\n/usr/share/man/man1/ed.1.gz\n/usr/bin/vim\n30\n\n\n";

    fn said(fun: &str, path: &str, current: Option<&str>) -> String {
        let args = format!(r#"{{"path": "{path}", "link": "/usr/bin/editor", "priority": "40"}}"#);
        let chunk = chunk(&format!("alternatives.{fun}"), "editor", &args);
        let args = ChunkArgs::new(&chunk);
        let state = AlternativesState {
            function: match fun {
                "install" => AlternativesFunction::Install,
                "remove" => AlternativesFunction::Remove,
                "auto" => AlternativesFunction::Auto,
                _ => AlternativesFunction::Set,
            },
            name: args.name(),
            link: "/usr/bin/editor".into(),
            path: path.into(),
            priority: args.int("priority").unwrap_or_default().unwrap_or_default(),
        };
        let group = AlternativesGroup::parse(NOTES);
        crate::testing::check_line(state.check_group(group.as_ref(), current))
    }

    #[test]
    fn notes_are_read() {
        let group = AlternativesGroup::parse(NOTES).expect("notes");
        assert_eq!((group.mode.as_str(), group.choices.len()), ("auto", 2));
        assert_eq!(group.choices[1].followers, [""]);
        assert!(group.has_choice("/bin/ed") && !group.has_choice("/bin/nano"));
    }

    #[test]
    fn words_are_those_of_salt() {
        let vim = Some("/usr/bin/vim");
        let table = [
            (
                "install",
                "/usr/bin/vim",
                "true \"Alternative /usr/bin/vim for editor is already registered\" {}",
            ),
            ("set", "/usr/bin/vim", "true \"Alternative for editor already set to /usr/bin/vim\" {}"),
            (
                "set",
                "/bin/ed",
                "null \"Alternative for editor will be set to path /bin/ed\" {\"path\":\"/bin/ed\"}",
            ),
            ("set", "/bin/nano", "false \"Alternative /bin/nano for editor doesn't exist\" {}"),
            ("auto", "", "true \"editor already in auto mode\" {}"),
            ("remove", "/x", "true \"Alternative for editor is set to it's default path /usr/bin/vim\" {}"),
        ];
        for (fun, path, expected) in table {
            assert_eq!(said(fun, path, vim), expected, "{fun} {path}");
        }
        assert!(said("install", "/bin/nano", vim).contains("with priority 40"));
        assert!(said("remove", "/x", None).contains("doesn't exist"));
    }
}
