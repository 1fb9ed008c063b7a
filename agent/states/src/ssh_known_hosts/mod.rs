//! States of the module `ssh_known_hosts`: hosts whose keys are known.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use crate::shared::accounts::{make_dir_all, make_user_dir};
use crate::shared::text_file::{TextEdit, TextFile, single_change, text_file_state};
use crate::{BuildResult, CheckResult, ChunkArgs, Effects, StateCtx, StateError, StateModule, Verdict};
use zagent_host::accounts::ssh_keys;
use zagent_host::accounts::ssh_keys::KnownHostsEntry;
use zagent_host::fs::FileMeta;

/// The module `ssh_known_hosts`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "ssh_known_hosts",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    text_file_state(SshKnownHostsState::for_function(fun, args))
}

/// A host whose key is known, or should not be.
pub(crate) struct SshKnownHostsState {
    is_wanted: bool,
    name: String,
    user: Option<String>,
    config: Option<String>,
    key: Option<String>,
    fingerprint: Option<String>,
    enc: Option<String>,
    port: Option<String>,
    is_hashed: bool,
    timeout: String,
}

impl SshKnownHostsState {
    pub(crate) fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        let is_wanted = match fun {
            "present" => true,
            "absent" => false,
            _ => return None,
        };
        Some(Self::from_args(is_wanted, args))
    }

    fn from_args(is_wanted: bool, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let text = |key: &str| Ok::<_, StateError>(args.text(key)?.filter(|t| !t.is_empty()));
        let host = Self {
            is_wanted,
            name: args.name(),
            user: text("user")?,
            config: text("config")?,
            key: text("key")?,
            fingerprint: text("fingerprint")?,
            enc: text("enc")?,
            port: text("port")?.filter(|p| p != "22"),
            is_hashed: args.flag("hash_known_hosts", true),
            timeout: text("timeout")?.unwrap_or_else(|| "5".into()),
        };
        if host.key.is_some() && host.fingerprint.is_some() {
            return Err(StateError::new("Specify either \"key\" or \"fingerprint\", not both."));
        }
        if host.key.is_some() && host.enc.is_none() {
            return Err(StateError::new("Required argument \"enc\" if using \"key\" argument."));
        }
        if is_wanted && host.port.is_some() && host.is_hashed && args.get("hash_known_hosts").is_some() {
            return Err(StateError::new(
                "argument port can not be used in conjunction with argument hash_known_hosts",
            ));
        }
        Ok(host)
    }

    fn is_in_sync(&self, found: &[&KnownHostsEntry]) -> bool {
        found.iter().any(|known| match (&self.key, &self.fingerprint) {
            (Some(key), _) => known.key == *key,
            (None, Some(print)) => known.has_fingerprint(print),
            (None, None) => {
                self.enc.as_ref().is_none_or(|enc| known.enc == *enc || known.enc.contains(&**enc))
            }
        })
    }

    /// The file as it is written, or the one that is meant.
    fn config_name(&self) -> &str {
        let default = if self.user.is_some() { ".ssh/known_hosts" } else { "/etc/ssh/ssh_known_hosts" };
        self.config.as_deref().unwrap_or(default)
    }

    /// How Salt shows a key that is written out: as it is written, without its fingerprint.
    fn salt_entry(&self) -> Option<Value> {
        let (key, enc) = (self.key.as_ref()?, self.enc.as_ref()?);
        let mut entry = Map::from_iter([("hostname", self.name.as_str()), ("enc", enc), ("key", key)]);
        if let Some(port) = &self.port {
            entry.insert("port", port.parse::<i64>().map_or_else(|_| Value::from(port.as_str()), Value::Int));
        }
        Some([Value::from(entry)].into_iter().collect())
    }

    /// The lines that are put there.
    fn fetch_lines(&self, ctx: &StateCtx<'_>) -> Result<Vec<KnownHostsEntry>, StateError> {
        let mut lines = match (&self.key, &self.enc) {
            (Some(key), Some(enc)) => {
                vec![KnownHostsEntry {
                    hosts: String::new(),
                    enc: ssh_keys::full_key_type(enc)?.to_owned(),
                    key: key.clone(),
                }]
            }
            _ => ssh_keys::scan_host_keys(
                &ctx.tools(),
                &self.name,
                self.port.as_deref(),
                self.enc.as_deref(),
                &self.timeout,
            )?,
        };
        if lines.is_empty() {
            return Err(StateError::new("Unable to receive remote host keys"));
        }
        if let Some(print) = &self.fingerprint
            && !lines.iter().any(|known| known.has_fingerprint(print))
        {
            return Err(StateError::new(
                "Remote host public keys found but none of their fingerprints match the one you have provided",
            ));
        }
        let name = ssh_keys::known_hosts_name(&self.name, self.port.as_deref());
        for known in &mut lines {
            known.hosts =
                if self.is_hashed { ssh_keys::hash_host_name(&name, &known.key) } else { name.clone() };
        }
        Ok(lines)
    }
}

impl TextFile for SshKnownHostsState {
    fn path(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        let tools = ctx.tools();
        let found = ssh_keys::known_hosts_file(tools.machine, self.user.as_deref(), self.config.as_deref());
        let error = match found {
            Ok(path) => return Ok(path.into()),
            Err(error) => StateError::from(error),
        };
        let is_missing = error.result.comment.contains("does not exist");
        Err(match self.user.as_ref().filter(|_| is_missing && ctx.compat == Compat::Salt) {
            Some(user) => StateError::new(format!("User {user} does not exist")),
            None => error,
        })
    }

    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<TextEdit, StateError> {
        let old = old.unwrap_or_default();
        let (name, config) = (&self.name, self.config_name());
        let host = ssh_keys::known_hosts_name(name, self.port.as_deref());
        let own = |line: &str| KnownHostsEntry::parse(line).filter(|known| known.matches_host(&host));
        let found: Vec<KnownHostsEntry> = old.lines().filter_map(own).collect();
        let shown = |all: &[KnownHostsEntry]| -> Value {
            if all.is_empty() { Value::Null } else { all.iter().map(KnownHostsEntry::to_salt_map).collect() }
        };
        if !self.is_wanted {
            if found.is_empty() {
                return Ok(TextEdit::InSync("Host is already absent".into()));
            }
            let new = old.split_inclusive('\n').filter(|line| own(line).is_none()).collect();
            let mut changes = single_change("old", shown(&found));
            changes.insert("new", Value::Null);
            let would = format!("Key for {name} is set to be removed from {config}");
            return Ok(TextEdit::Change {
                new,
                would,
                did: format!("{name} removed from {config}"),
                changes,
            });
        }
        if self.is_in_sync(&found.iter().collect::<Vec<_>>()) {
            return Ok(TextEdit::InSync(format!("{name} already exists in {config}")));
        }
        let lines = self.fetch_lines(ctx)?;
        let replaced = |line: &str| own(line).is_some_and(|is| lines.iter().any(|known| known.enc == is.enc));
        let mut new: String = old.split_inclusive('\n').filter(|line| !replaced(line)).collect();
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        lines.iter().for_each(|known| new.push_str(&known.to_line()));
        let mut changes = single_change("old", shown(&found));
        let written = self.salt_entry().filter(|_| ctx.compat == Compat::Salt);
        changes.insert("new", written.unwrap_or_else(|| shown(&lines)));
        let act = if found.is_empty() { "added to" } else { "updated in" };
        let did = match (&self.key, &self.fingerprint) {
            (Some(key), _) => format!("{name}'s key saved to {config} (key: {key})"),
            (None, Some(print)) => format!("{name}'s key saved to {config} (fingerprint: {print})"),
            (None, None) => format!("{name}'s key(s) saved to {config}"),
        };
        Ok(TextEdit::Change {
            new,
            would: format!("Key for {name} is set to be {act} {config}"),
            did,
            changes,
        })
    }

    fn preview(&self, mut checked: CheckResult, _: Option<&str>, ctx: &StateCtx<'_>) -> CheckResult {
        if ctx.compat == Compat::Strict {
            return checked;
        }
        checked.changes = Map::new();
        if self.is_wanted && checked.verdict == Verdict::InSync {
            checked.comment = format!("Host {} is already in {}", self.name, self.config_name());
        }
        checked
    }

    fn prepare_parent(&self, path: &Path, ctx: &StateCtx<'_>) -> Result<FileMeta, StateError> {
        let Some(user) = &self.user else {
            if let Some(dir) = path.parent() {
                make_dir_all(ctx, dir, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
            }
            return Ok(FileMeta { mode: Some(0o600), ..FileMeta::default() });
        };
        make_user_dir(&ssh_keys::resolve_user_file(ctx.tools().machine, user, "%h")?.0, path, ctx)
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::USERS
    }

    fn may_run_program(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
