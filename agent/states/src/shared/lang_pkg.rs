//! Libraries of languages: a program that keeps them (pip, gem, npm) in, which there are and changes of them out.
//!
//! Law: a library is undoable like a package. An address may hold a password: it goes by the environment or a
//! private file, never into the words of a command, which everybody sees, nor into comments (held by
//! `no_login_is_shown`).

use std::collections::BTreeMap;
use std::time::Duration;
use zagent_config::mask::redact_logins;

use zagent_config::FunctionError;
use zagent_config::Value;

use crate::{ChunkArgs, StateCtx, StateError, Undoable};
use zagent_host::command_options::{RunAsUser, value_text};
use zagent_host::{CommandOutput, Machine, Tools};

/// How long a library may take.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(3600);

/// A program that keeps the libraries of a language.
pub(crate) trait LangPkgProgram: std::fmt::Debug + Sync {
    /// Its name, as undo keys hold it.
    fn name(&self) -> &'static str;

    /// The program at a location, and the words that always come first.
    ///
    /// # Errors
    /// Fails when there is none.
    fn base_command(&self, location: Option<&str>, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError>;

    /// The directory in which it runs, when the state says none.
    fn work_dir(&self, location: Option<&str>) -> Option<String> {
        let _ = location;
        None
    }

    /// Variables that it always gets.
    fn env(&self, location: Option<&str>, machine: &Machine) -> Vec<(&'static str, String)> {
        let _ = (location, machine);
        Vec::new()
    }

    /// More variables for a revert.
    fn undo_env(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What is installed.
    ///
    /// # Errors
    /// Fails when the program does.
    fn list(&self, provider: &LangPkgProvider, tools: &Tools<'_>)
    -> Result<InstalledVersions, FunctionError>;

    /// True when several versions of a library may be installed at the same time.
    fn keeps_versions(&self) -> bool {
        false
    }

    /// The words that install a version; `is_global` when no location is given.
    fn install_args(&self, name: &str, version: &str, is_global: bool) -> Vec<String>;

    /// The words that remove a version.
    fn uninstall_args(&self, name: &str, version: &str, is_global: bool) -> Vec<String>;

    /// The versions of a library as its `list` function returns them.
    fn version_value(&self, versions: Vec<String>) -> Value;
}

/// The error of a program that is missing.
pub(crate) fn missing_program(name: &str) -> FunctionError {
    FunctionError::failed(format!("there is no `{name}` on this host"))
}

/// Where libraries are kept: by which program, in which place, as whom.
#[derive(Clone, Debug)]
pub(crate) struct LangPkgProvider {
    /// The program that keeps them.
    pub(crate) program: &'static dyn LangPkgProgram,
    /// A virtual environment or a program (pip, gem), a directory (npm).
    pub(crate) location: Option<String>,
    /// Who runs the program.
    pub(crate) user: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) env: Vec<(String, String)>,
}

/// Versions by name.
pub(crate) type InstalledVersions = BTreeMap<String, Vec<String>>;

impl LangPkgProvider {
    /// The program with nothing else said about it.
    pub(crate) const fn new(program: &'static dyn LangPkgProgram) -> Self {
        Self { program, location: None, user: None, cwd: None, env: Vec::new() }
    }

    /// What a state says about it.
    pub(crate) fn from_args(
        program: &'static dyn LangPkgProgram,
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
            program,
            location: found.filter(|p| !p.is_empty()),
            user: args.text("user")?.filter(|u| !u.is_empty()),
            cwd: args.text("cwd")?,
            env: pairs.iter().map(|(k, v)| (value_text(k), value_text(v))).collect(),
        })
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
    pub(crate) fn run_command(
        &self,
        tools: &Tools<'_>,
        words: &[String],
    ) -> Result<CommandOutput, FunctionError> {
        let location = self.location.as_deref();
        let mut all = self.program.base_command(location, tools)?;
        let program = all.remove(0);
        all.extend(words.iter().cloned());
        let mut command = Tools::command(&program, &all, INSTALL_TIMEOUT);
        if let Some(cwd) = self.cwd.clone().or_else(|| self.program.work_dir(location)) {
            command.cwd = Some(cwd.into());
        }
        command
            .env
            .extend(self.program.env(location, tools.machine).into_iter().map(|(k, v)| (k.into(), v.into())));
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
    pub(crate) fn run_checked(&self, tools: &Tools<'_>, words: &[String]) -> Result<String, FunctionError> {
        let said = self.run_command(tools, words)?;
        if said.is_success() {
            return Ok(said.stdout);
        }
        Err(FunctionError::failed(redact_logins(
            format!("{} {}", said.stdout.trim(), said.stderr.trim()).trim(),
        )))
    }

    /// What is installed.
    ///
    /// # Errors
    /// Fails when the program does.
    pub(crate) fn list(&self, tools: &Tools<'_>) -> Result<InstalledVersions, FunctionError> {
        self.program.list(self, tools)
    }

    fn undo_key(&self, name: &str) -> Value {
        let text = |t: &Option<String>| t.as_deref().map_or(Value::Null, Value::from);
        [Value::from(self.program.name()), text(&self.location), text(&self.user), Value::from(name)]
            .into_iter()
            .collect()
    }

    fn from_key(program: &'static dyn LangPkgProgram, key: &Value) -> Option<(Self, String)> {
        let list = key.as_list()?;
        let text = |n: usize| list.get(n).and_then(Value::as_str).map(str::to_owned);
        Some((Self { location: text(1), user: text(2), ..Self::new(program) }, text(3)?))
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
                let undo = LangPkgUndo(self.program);
                ctx.with_undo(&undo, self.undo_key(first), || self.change_packages(ctx, rest, act))
            }
            None => act(),
        }
    }
}

/// A library of one program.
pub(crate) struct LangPkgUndo(pub(crate) &'static dyn LangPkgProgram);

impl Undoable for LangPkgUndo {
    fn kind(&self) -> &'static str {
        "library"
    }

    fn handles(&self, key: &Value) -> bool {
        let program = key.as_list().and_then(|list| list.first()).and_then(Value::as_str);
        program == Some(self.0.name())
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let Some((provider, name)) = LangPkgProvider::from_key(self.0, key) else { return Ok(Value::Null) };
        let found = provider.list(&ctx.tools())?.remove(&name);
        Ok(found.map_or(Value::Null, |all| all.into_iter().map(Value::from).collect()))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some((mut provider, name)) = LangPkgProvider::from_key(self.0, key) else { return Ok(()) };
        let program = provider.program;
        provider.env.extend(program.undo_env().iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let (tools, is_global) = (ctx.tools(), provider.location.is_none());
        let versions: Vec<String> =
            to.as_list().map(|l| l.iter().map(value_text).collect()).unwrap_or_default();
        if program.keeps_versions() || versions.is_empty() {
            let now = provider.list(&tools)?.remove(&name).unwrap_or_default();
            for version in now.iter().filter(|v| !versions.contains(v)) {
                provider.run_checked(&tools, &program.uninstall_args(&name, version, is_global))?;
            }
        }
        for version in &versions {
            provider.run_checked(&tools, &program.install_args(&name, version, is_global))?;
        }
        Ok(())
    }
}
