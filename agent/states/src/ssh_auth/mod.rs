//! States of the module `ssh_auth`: keys that may log in as a user.

use std::path::{Path, PathBuf};

use zagent_compiler::Chunk;
use zagent_config::Map;

use crate::shared::accounts::make_user_dir;
use crate::shared::text_file::{TextEdit, TextFile, read_source, text_file_state};
use crate::{BuildResult, ChunkArgs, Effects, StateCtx, StateError, StateModule};
use zagent_host::accounts::PasswdEntry;
use zagent_host::accounts::ssh_keys;
use zagent_host::accounts::ssh_keys::{AUTHORIZED_KEYS, AuthorizedKey};
use zagent_host::fs::FileMeta;

/// The module `ssh_auth`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "ssh_auth",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    text_file_state(SshAuthState::for_function(fun, args))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SshAuthFunction {
    Present,
    Absent,
    /// These and no others.
    Manage,
}

/// Keys that may log in as a user.
pub struct SshAuthState {
    function: SshAuthFunction,
    chunk: Box<Chunk>,
    user: String,
    config: String,
}

impl SshAuthState {
    pub fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
        let act = match fun {
            "present" => SshAuthFunction::Present,
            "absent" => SshAuthFunction::Absent,
            "manage" => SshAuthFunction::Manage,
            _ => return None,
        };
        Some((|| {
            let user = args.text("user")?.ok_or_else(|| StateError::new("`user` must be given"))?;
            let config = args.text("config")?.unwrap_or_else(|| AUTHORIZED_KEYS.into());
            Ok(Self { function: act, chunk: Box::new(args.chunk.clone()), user, config })
        })())
    }

    fn user_and_home(&self, ctx: &StateCtx<'_>) -> Result<(PasswdEntry, PathBuf), StateError> {
        let (user, path) = ssh_keys::resolve_user_file(ctx.tools().machine, &self.user, &self.config)?;
        Ok((user, path.into()))
    }

    /// The keys that are asked for.
    fn wanted_keys(&self, ctx: &StateCtx<'_>) -> Result<Vec<AuthorizedKey>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let options = args.texts("options")?;
        if let Some(from) = args.text("source")?.filter(|s| !s.is_empty()) {
            let text = read_source(&args, &from, ctx)
                .map_err(|e| StateError::new(format!("Failed to add the ssh key. {}", e.result.comment)))?;
            let mut keys: Vec<AuthorizedKey> = text.lines().filter_map(AuthorizedKey::parse).collect();
            if keys.is_empty() {
                return Err(StateError::new(format!(
                    "No keys detected in {from}. Is file properly formatted?"
                )));
            }
            if let Some(options) = options {
                keys.iter_mut().for_each(|key| key.options.clone_from(&options));
            }
            return Ok(keys);
        }
        let written = match self.function {
            SshAuthFunction::Manage => args.texts("ssh_keys")?.unwrap_or_default(),
            SshAuthFunction::Present | SshAuthFunction::Absent => vec![args.name()],
        };
        let enc = args.text("enc")?.unwrap_or_else(|| "ssh-rsa".into());
        let comment = args.text("comment")?.unwrap_or_default();
        let lines =
            written.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.is_empty());
        let read = |line: &str| match AuthorizedKey::parse(line) {
            Some(mut key) => {
                if key.comment.is_empty() {
                    key.comment.clone_from(&comment);
                }
                if key.options.is_empty() {
                    key.options = options.clone().unwrap_or_default();
                }
                key
            }
            None => {
                let (key, own) = line.split_once(char::is_whitespace).unwrap_or((line, &comment));
                let (options, comment) = (options.clone().unwrap_or_default(), own.trim().to_owned());
                AuthorizedKey { options, enc: enc.clone(), key: key.to_owned(), comment }
            }
        };
        lines
            .map(|line| {
                let mut key = read(line);
                if let Some(fault) = key.validation_error() {
                    return Err(StateError::new(fault));
                }
                key.enc = ssh_keys::full_key_type(&key.enc)?.to_owned();
                Ok(key)
            })
            .collect()
    }
}

/// The text with a key; and whether it was there, in another line.
fn with_key(text: &str, key: &AuthorizedKey) -> Option<(String, bool)> {
    let is = |line: &str| AuthorizedKey::parse(line).filter(|found| found.key == key.key);
    let line = key.to_line();
    if let Some(found) = text.lines().find_map(is) {
        if found == *key {
            return None;
        }
        let each = |old: &str| if is(old).is_some() { line.clone() } else { old.to_owned() };
        return Some((text.split_inclusive('\n').map(each).collect(), true));
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Some((format!("{text}{end}{line}"), false))
}

fn without_key(text: &str, key: &str) -> String {
    text.split_inclusive('\n')
        .filter(|line| AuthorizedKey::parse(line).is_none_or(|found| found.key != key))
        .collect()
}

impl SshAuthState {
    fn edit_present(&self, keys: &[AuthorizedKey], old: &str) -> TextEdit {
        let (mut new, mut changes) = (old.to_owned(), Map::new());
        let (mut right, mut would, mut did) = (Vec::new(), Vec::new(), Vec::new());
        let user = &self.user;
        if self.function == SshAuthFunction::Manage {
            let others = old
                .lines()
                .filter_map(AuthorizedKey::parse)
                .filter(|k| !keys.iter().any(|key| key.key == k.key));
            for other in others {
                new = without_key(&new, &other.key);
                would.push(format!("{} Key set for removal", other.key));
                changes.insert(other.key, "Key removed");
            }
        }
        for key in keys {
            let name = &key.key;
            match with_key(&new, key) {
                None => {
                    right.push(format!("The authorized host key {name} is already present for user {user}"));
                }
                Some((text, is_update)) => {
                    new = text;
                    let (act, word) = if is_update { ("updated", "Updated") } else { ("added", "New") };
                    would.push(format!("Key {name} for user {user} is set to be {act}"));
                    did.push(format!("The authorized host key {name} for user {user} was {act}"));
                    changes.insert(name.as_str(), word);
                }
            }
        }
        if changes.is_empty() {
            return TextEdit::InSync(right.join("\n"));
        }
        TextEdit::Change { new, would: would.join("\n"), did: did.join("\n"), changes }
    }

    fn edit_absent(&self, keys: &[AuthorizedKey], old: &str) -> TextEdit {
        let (mut new, mut changes, mut would) = (old.to_owned(), Map::new(), Vec::new());
        for key in keys {
            let text = without_key(&new, &key.key);
            if text != new {
                new = text;
                would.push(format!("Key {} for user {} is set for removal", key.key, self.user));
                changes.insert(key.key.as_str(), "Removed");
            }
        }
        if changes.is_empty() {
            return TextEdit::InSync("Key not present".into());
        }
        TextEdit::Change { new, would: would.join("\n"), did: "Key removed".into(), changes }
    }
}

impl TextFile for SshAuthState {
    fn path(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        Ok(self.user_and_home(ctx)?.1)
    }

    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<TextEdit, StateError> {
        let (user, path) = self.user_and_home(ctx)?;
        if self.function != SshAuthFunction::Absent
            && path.starts_with(&user.home)
            && ctx.fs.stat(Path::new(&user.home))?.is_none()
        {
            return Err(StateError::new(
                "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?",
            ));
        }
        let keys = self.wanted_keys(ctx)?;
        let old = old.unwrap_or_default();
        Ok(if self.function == SshAuthFunction::Absent {
            self.edit_absent(&keys, old)
        } else {
            self.edit_present(&keys, old)
        })
    }

    fn prepare_parent(&self, path: &Path, ctx: &StateCtx<'_>) -> Result<FileMeta, StateError> {
        make_user_dir(&self.user_and_home(ctx)?.0, path, ctx)
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::USERS
    }

    fn may_run_program(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_put_beside_other_lines() {
        let key = AuthorizedKey {
            enc: "ssh-rsa".into(),
            key: "AAAA".into(),
            comment: "me".into(),
            ..AuthorizedKey::default()
        };
        let (text, is_update) = with_key("# own\n\nssh-rsa BBBB x", &key).expect("it is new");
        assert_eq!((&*text, is_update), ("# own\n\nssh-rsa BBBB x\nssh-rsa AAAA me\n", false));
        assert_eq!(with_key(&text, &key), None);
        let other = AuthorizedKey { options: vec!["no-pty".into()], ..key };
        let (text, is_update) = with_key(&text, &other).expect("it is another");
        assert_eq!((&*text, is_update), ("# own\n\nssh-rsa BBBB x\nno-pty ssh-rsa AAAA me\n", true));
        assert_eq!(without_key(&text, "BBBB"), "# own\n\nno-pty ssh-rsa AAAA me\n");
    }
}
