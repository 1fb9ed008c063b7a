//! Rules, chains and tables of a packet filter in, a state out: the logic that `iptables` and `nftables` share.
//!
//! Law: the syntax of rules and the calls of programs are behind [`FirewallItem`] (held by `FirewallItem`).

use std::path::PathBuf;

use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::file::parents;
use crate::{ApplyResult, CheckResult, Effects, LockKey, State, StateCtx, StateError, Undoable, Verdict};
use zagent_host::Tools;
use zagent_host::fs::FileMeta;

/// What a state does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirewallFunction {
    Append,
    Insert,
    Delete,
    Policy,
    Flush,
    ChainPresent,
    ChainAbsent,
    TablePresent,
    TableAbsent,
}

impl FirewallFunction {
    /// The function with Salt's name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "append" => Self::Append,
            "insert" => Self::Insert,
            "delete" => Self::Delete,
            "set_policy" => Self::Policy,
            "flush" => Self::Flush,
            "chain_present" => Self::ChainPresent,
            "chain_absent" => Self::ChainAbsent,
            "table_present" => Self::TablePresent,
            "table_absent" => Self::TableAbsent,
            _ => return None,
        })
    }

    /// True when it only adds: one more rule removes no other one.
    const fn only_adds(self) -> bool {
        !matches!(self, Self::Delete | Self::Flush | Self::ChainAbsent | Self::TableAbsent)
    }

    /// What is said when there is nothing to do, before something is done, and after it.
    const fn comments(self) -> [&'static str; 3] {
        match self {
            Self::Append => [
                "{module} rule for {name} already set ({command}) for {family}",
                "{module} rule for {name} needs to be set ({command}) for {family}",
                "Set {module} rule for {name} to: {command} for {family}",
            ],
            Self::Insert => [
                "{module} rule for {name} already set for {family} ({command})",
                "{module} rule for {name} needs to be set for {family} ({command})",
                "Set {module} rule for {name} to: {command} for {family}",
            ],
            Self::Delete => [
                "{module} rule for {name} already absent for {family} ({command})",
                "{module} rule for {name} needs to be deleted for {family} ({command})",
                "Delete {module} rule for {name} {command}",
            ],
            Self::Policy => [
                "{module} default policy for chain {chain} on table {table} for {family} already set to {policy}",
                "{module} default policy for chain {chain} on table {table} for {family} needs to be set to {policy}",
                "Set default policy for {chain} to {policy} family {family}",
            ],
            Self::Flush => [
                "There are no {module} rules in {table} table {chain} chain {family} family",
                "{module} rules in {table} table {chain} chain {family} family needs to be flushed",
                "Flush {module} rules in {table} table {chain} chain {family} family",
            ],
            Self::ChainPresent => [
                "{module} {chain} chain is already exist in {table} table for {family}",
                "{module} {chain} chain in {table} table needs to be set for {family}",
                "{module} {chain} chain in {table} table create success for {family}",
            ],
            Self::ChainAbsent => [
                "{module} {chain} chain is already absent in {table} table for {family}",
                "{module} {chain} chain in {table} table needs to be removed {family}",
                "{module} {chain} chain in {table} table delete success for {family}",
            ],
            Self::TablePresent => [
                "{module} table {name} already exists in family {family}",
                "{module} table {name} would be created in family {family}",
                "{module} table {name} successfully created in family {family}",
            ],
            Self::TableAbsent => [
                "{module} table {name} is already absent from family {family}",
                "{module} table {name} would be deleted from family {family}",
                "{module} table {name} successfully deleted from family {family}",
            ],
        }
    }
}

/// Which comment of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirewallComment {
    InSync,
    Preview,
    Applied,
}

/// What a state names.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirewallNames {
    pub(crate) name: String,
    /// As it is written.
    pub(crate) family: String,
    pub(crate) table: String,
    pub(crate) chain: String,
    pub(crate) policy: String,
}

/// Where rules are saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SaveTarget {
    /// Where the system keeps them.
    System,
    File(PathBuf),
}

/// A rule, chain or table of one program, and how that program is told about it.
pub(crate) trait FirewallItem: Send {
    /// What a change tells the program.
    type Commands;

    /// The name of the module.
    const MODULE: &'static str;

    /// What it names.
    fn names(&self) -> &FirewallNames;

    /// The command of a rule, for comments.
    fn command_text(&self, function: FirewallFunction) -> String;

    /// What a dry run says, where it differs from the other modules.
    fn preview_comment(function: FirewallFunction) -> Option<&'static str> {
        let _ = function;
        None
    }

    /// True when there is nothing to do.
    ///
    /// # Errors
    /// Fails when the program does.
    fn is_in_sync(&self, function: FirewallFunction, tools: &Tools<'_>) -> Result<bool, StateError>;

    /// What the program has to be told.
    ///
    /// # Errors
    /// Fails when the program cannot say where things are.
    fn commands(&self, function: FirewallFunction, tools: &Tools<'_>) -> Result<Self::Commands, StateError>;

    /// Tells the program.
    ///
    /// # Errors
    /// Fails when the program does.
    fn run(&self, commands: &Self::Commands, tools: &Tools<'_>) -> Result<(), StateError>;

    /// What a revert restores.
    fn undo_target(&self) -> (&'static dyn Undoable, Value);

    /// The file and the text that are to be saved before (`is_applied` false) or after a change; nothing when the file is
    /// right.
    ///
    /// # Errors
    /// Fails when the rules cannot be listed.
    fn find_unsaved(
        &self,
        target: &SaveTarget,
        is_applied: bool,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<(PathBuf, String)>, StateError>;
}

/// A state of a packet filter.
pub(crate) struct FirewallState<I> {
    pub(crate) function: FirewallFunction,
    pub(crate) items: Vec<I>,
    pub(crate) save: Option<SaveTarget>,
}

impl<I: FirewallItem> FirewallState<I> {
    fn comment(&self, item: &I, which: FirewallComment) -> String {
        let own = I::preview_comment(self.function).filter(|_| which == FirewallComment::Preview);
        let template = own.unwrap_or(self.function.comments()[which as usize]);
        let names = item.names();
        fill_template(template, |key| match key {
            "module" => I::MODULE.to_owned(),
            "name" => names.name.clone(),
            "family" => names.family.clone(),
            "table" => names.table.clone(),
            "chain" => names.chain.clone(),
            "policy" => names.policy.clone(),
            _ => item.command_text(self.function),
        })
    }

    fn find_unsaved(
        &self,
        is_applied: bool,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<(PathBuf, String)>, StateError> {
        match (&self.save, self.items.first()) {
            (Some(target), Some(item)) => item.find_unsaved(target, is_applied, ctx),
            _ => Ok(None),
        }
    }
}

/// A template with its `{keys}` replaced.
fn fill_template(template: &str, value_of: impl Fn(&str) -> String) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once('}').unwrap_or((part, ""));
        text += &value_of(key);
        text += rest;
    }
    text
}

impl<I: FirewallItem> State for FirewallState<I> {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let tools = ctx.tools();
        let (mut comments, mut names) = (Vec::new(), Vec::new());
        for item in &self.items {
            let is_right = item.is_in_sync(self.function, &tools)?;
            let which = if is_right { FirewallComment::InSync } else { FirewallComment::Preview };
            comments.push(self.comment(item, which));
            if !is_right {
                names.push(Value::from(item.names().name.as_str()));
            }
        }
        let mut changes = Map::new();
        if let Some(first) = names.first().cloned() {
            changes.insert("locale", if self.items.len() == 1 { first } else { names.into() });
        } else if let Some((path, _)) = self.find_unsaved(false, ctx)? {
            changes.insert("saved", path.display().to_string());
            comments.push(format!("The rules would be saved in {}", path.display()));
        }
        let comment = comments.join("\n");
        Ok(if changes.is_empty() {
            CheckResult::in_sync(comment)
        } else {
            CheckResult::drifted(comment, changes)
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let checked = self.check(ctx)?;
        let tools = ctx.tools();
        let mut comments = Vec::new();
        for item in &self.items {
            if item.is_in_sync(self.function, &tools)? {
                comments.push(self.comment(item, FirewallComment::InSync));
                continue;
            }
            let commands = item.commands(self.function, &tools)?;
            let (undoable, key) = item.undo_target();
            ctx.with_undo(undoable, key, || item.run(&commands, &tools))?;
            comments.push(self.comment(item, FirewallComment::Applied));
        }
        if let Some((path, rules)) = self.find_unsaved(true, ctx)? {
            parents::make_parents(ctx, &path, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
            ctx.fs.write(&path, rules.as_bytes(), FileMeta::default())?;
            comments.push(format!("Saved in {}", path.display()));
        }
        Ok(ApplyResult::new(comments.join("\n"), checked.changes))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Firewall]
    }

    fn reads(&self) -> Effects {
        Effects::KERNEL | Effects::PACKAGE_FILES | Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        if self.function.only_adds() { Effects::NONE } else { Effects::KERNEL }
    }

    fn still_valid(&self, checked: &CheckResult, hidden: Effects) -> bool {
        checked.verdict == Verdict::Drifted
            && self.function.only_adds()
            && (hidden & (Effects::PACKAGE_FILES | Effects::PACKAGES)).is_none()
    }
}

/// A value as text; an empty one stands for an option without a value.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::List(items) => items.iter().map(python_str).collect::<Vec<_>>().join(","),
        other => python_str(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_once() {
        let value_of = |key: &str| if key == "name" { "{chain}".to_owned() } else { key.to_owned() };
        assert_eq!(fill_template("a {name} in {table}.", value_of), "a {chain} in table.");
        assert_eq!(fill_template("", value_of), "");
    }
}
