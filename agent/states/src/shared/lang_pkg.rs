//! Libraries of languages: which there are, and how the programs that keep them (pip, gem, npm) are told to change that.
//!
//! Law: a library that was changed is a thing like a package: how it was is noted, and it can be put back. An address may hold a
//! password: it goes by the environment or a file of our own, never among the words, which everybody sees, nor into what is said.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use zagent_config::FunctionError;
use zagent_config::Value;

pub(crate) use crate::groups::packages::{BuildResult, ChunkArgs, Undoable};
use crate::{StateCtx, StateError};
use zagent_host::exec::command_options::{RunAsUser, value_text};
use zagent_host::{CommandOutput, Machine, Tools};

/// How long a library may take.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(3600);

/// The state that a function of one of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "pip" => crate::pip::build(fun, args),
        "gem" => crate::gem::build(fun, args),
        _ => crate::npm::build(fun, args),
    }
}

/// Where libraries are kept: by which program, in which place, as whom.
#[derive(Clone, Debug, Default)]
pub struct LangPkgProvider {
    /// `pip`, `gem` or `npm`.
    pub kind: &'static str,
    /// A virtual environment or a program (pip, gem), a directory (npm).
    pub location: Option<String>,
    /// Who runs the program.
    pub user: Option<String>,
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
}

/// A text whose addresses hold no logins.
pub(crate) fn redact_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        shown += head;
        let end = tail.find(|c: char| c.is_whitespace() || "/'\"?#,".contains(c)).unwrap_or(tail.len());
        let login = tail[..end].rfind('@').unwrap_or(0);
        shown += if login > 0 { "<redacted>" } else { "" };
        rest = &tail[login..];
    }
    shown + rest
}

/// True when an address holds a login.
pub(crate) fn has_login(text: &str) -> bool {
    redact_logins(text) != text
}

/// Versions by name.
pub type InstalledVersions = BTreeMap<String, Vec<String>>;

impl LangPkgProvider {
    /// What a state says about it.
    pub(crate) fn from_args(
        kind: &'static str,
        args: &ChunkArgs<'_>,
        place: &[&str],
        env: &str,
    ) -> Result<Self, StateError> {
        let mut found = None;
        for key in place {
            found = found.or(args.text(key)?);
        }
        let pairs = args.map(env)?.unwrap_or_default();
        Ok(Self {
            kind,
            location: found.filter(|p| !p.is_empty()),
            user: args.text("user")?.filter(|u| !u.is_empty()),
            cwd: args.text("cwd")?,
            env: pairs.iter().map(|(k, v)| (value_text(k), value_text(v))).collect(),
        })
    }

    /// The program, and what it is always told.
    fn base_command(&self, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
        let missing = |name: &str| FunctionError::failed(format!("there is no `{name}` on this host"));
        match (self.kind, &self.location) {
            ("pip", Some(place)) if tools.machine.is_dir(place) => {
                let found = ["bin/python", "bin/python3", "python"].iter().map(|p| Path::new(place).join(p));
                let python = found.into_iter().find(|p| tools.machine.is_file(p));
                let python = python.ok_or_else(|| {
                    FunctionError::failed(format!("Could not find a `pip` binary in {place}"))
                })?;
                Ok(vec![python.display().to_string(), "-m".into(), "pip".into()])
            }
            ("pip", Some(place))
                if Path::new(place)
                    .file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with("python")) =>
            {
                Ok(vec![place.clone(), "-m".into(), "pip".into()])
            }
            ("pip" | "gem", Some(place)) => Ok(vec![place.clone()]),
            ("pip", None) => {
                let found = ["pip3", "pip"].into_iter().find(|p| tools.which(p).is_some());
                found.map(|p| vec![p.to_owned()]).ok_or_else(|| missing("pip3"))
            }
            (kind, _) => tools.which(kind).map(|p| vec![p]).ok_or_else(|| missing(kind)),
        }
    }

    /// Who it is run by; nothing for the agent itself.
    ///
    /// # Errors
    /// Fails when there is no such user.
    pub(crate) fn run_as(&self, machine: &Machine) -> Result<Option<RunAsUser>, FunctionError> {
        let find = |user: &String| {
            RunAsUser::find(machine, user)
                .map_err(|_| FunctionError::failed(format!("User {user} does not exist")))
        };
        self.user.as_ref().map(find).transpose()
    }

    /// Runs the program with these words.
    ///
    /// # Errors
    /// Fails when it cannot be started; a program that fails is an answer.
    pub fn run_command(&self, tools: &Tools<'_>, words: &[String]) -> Result<CommandOutput, FunctionError> {
        let mut all = self.base_command(tools)?;
        let program = all.remove(0);
        all.extend(words.iter().cloned());
        let mut command = Tools::command(&program, &all, INSTALL_TIMEOUT);
        let cwd = self
            .cwd
            .clone()
            .or_else(|| self.location.clone().filter(|p| self.kind == "npm" && tools.machine.is_dir(p)));
        if let Some(cwd) = cwd {
            command.cwd = Some(cwd.into());
        }
        if let Some(venv) = self.location.as_ref().filter(|p| self.kind == "pip" && tools.machine.is_dir(p)) {
            command.env.push(("VIRTUAL_ENV".into(), venv.into()));
        }
        command.env.push(("PIP_DISABLE_PIP_VERSION_CHECK".into(), "1".into()));
        if let Some(found) = self.run_as(tools.machine)? {
            command.user = Some(found.ids);
            command.env.push(("HOME".into(), found.home.into()));
        }
        command.env.extend(self.env.iter().map(|(k, v)| (k.into(), v.into())));
        tools.run(command)
    }

    /// The same, and a program that fails is a refusal.
    ///
    /// # Errors
    /// Fails when it does.
    pub fn run_checked(&self, tools: &Tools<'_>, words: &[String]) -> Result<String, FunctionError> {
        let said = self.run_command(tools, words)?;
        if said.is_success() {
            return Ok(said.stdout);
        }
        Err(FunctionError::failed(redact_logins(
            format!("{} {}", said.stdout.trim(), said.stderr.trim()).trim(),
        )))
    }

    /// What is on the shelf.
    ///
    /// # Errors
    /// Fails when the program does.
    pub fn list(&self, tools: &Tools<'_>) -> Result<InstalledVersions, FunctionError> {
        let words: &[&str] = match self.kind {
            "pip" => &["list", "--format=json"],
            "gem" => &["list", "--local"],
            _ if self.location.is_some() => &["list", "--json", "--depth=0"],
            _ => &["list", "--json", "--depth=0", "--global"],
        };
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        match self.kind {
            "pip" => crate::pip::parse_list(&self.run_checked(tools, &words)?),
            "gem" => Ok(crate::gem::parse_list(&self.run_checked(tools, &words)?)),
            // What npm misses is no reason not to tell what there is.
            _ => crate::npm::parse_list(&self.run_command(tools, &words)?.stdout),
        }
    }

    fn undo_key(&self, name: &str) -> Value {
        let text = |t: &Option<String>| t.as_deref().map_or(Value::Null, Value::from);
        [Value::from(self.kind), text(&self.location), text(&self.user), Value::from(name)]
            .into_iter()
            .collect()
    }

    fn from_key(key: &Value) -> Option<(Self, String)> {
        let list = key.as_list()?;
        let text = |n: usize| list.get(n).and_then(Value::as_str).map(str::to_owned);
        let kind = ["pip", "gem", "npm"].into_iter().find(|k| text(0).as_deref() == Some(k))?;
        Some((Self { kind, location: text(1), user: text(2), ..Self::default() }, text(3)?))
    }

    /// Changes libraries; how each was is noted.
    ///
    /// # Errors
    /// Fails as the act does.
    pub(crate) fn change_packages<T>(
        &self,
        ctx: &StateCtx<'_>,
        names: &[String],
        act: &mut dyn FnMut() -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        match names.split_first() {
            Some((first, rest)) => {
                ctx.with_undo(&LANG_PKG_UNDO, self.undo_key(first), || self.change_packages(ctx, rest, act))
            }
            None => act(),
        }
    }
}

/// A library.
struct LangPkgUndo;

const LANG_PKG_UNDO: LangPkgUndo = LangPkgUndo;
/// The same, for those who put things back.
pub const UNDOABLE: &dyn Undoable = &LANG_PKG_UNDO;

impl Undoable for LangPkgUndo {
    fn kind(&self) -> &'static str {
        "library"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let Some((provider, name)) = LangPkgProvider::from_key(key) else { return Ok(Value::Null) };
        let found = provider.list(&ctx.tools())?.remove(&name);
        Ok(found.map_or(Value::Null, |all| all.into_iter().map(Value::from).collect()))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some((mut provider, name)) = LangPkgProvider::from_key(key) else { return Ok(()) };
        // Whoever let pip change what the system manages wants it undone, too.
        provider.env.push(("PIP_BREAK_SYSTEM_PACKAGES".into(), "1".into()));
        let tools = ctx.tools();
        let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
        let place: &[&str] = if provider.location.is_none() { &["--global"] } else { &[] };
        let versions: Vec<String> =
            to.as_list().map(|l| l.iter().map(value_text).collect()).unwrap_or_default();
        if provider.kind == "gem" || versions.is_empty() {
            let now = provider.list(&tools)?.remove(&name).unwrap_or_default();
            for version in now.iter().filter(|v| !versions.contains(v)) {
                let told = match provider.kind {
                    "pip" => words(&["uninstall", "-y", &name]),
                    "gem" => words(&["uninstall", &name, "--version", version, "-x", "--force"]),
                    _ => words(&[&["uninstall", &name], place].concat()),
                };
                provider.run_checked(&tools, &told)?;
            }
        }
        for version in &versions {
            let told = match provider.kind {
                "pip" => words(&["install", &format!("{name}=={version}")]),
                "gem" => words(&["install", &name, "--version", version, "--no-document"]),
                _ => words(&[&["install", &format!("{name}@{version}")], place].concat()),
            };
            provider.run_checked(&tools, &told)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_login_is_shown() {
        for (text, shown) in [
            ("https://u:p@h/x", "https://<redacted>@h/x"),
            ("git+https://token@h/x@v1#egg=y", "git+https://<redacted>@h/x@v1#egg=y"),
            ("x @ https://t@h, https://u:p%40@h2 no", "x @ https://<redacted>@h, https://<redacted>@h2 no"),
            ("https://h/a@b", "https://h/a@b"),
            ("@scope/x", "@scope/x"),
        ] {
            assert_eq!(redact_logins(text), shown);
            assert_eq!(has_login(text), text != shown);
        }
    }
}
