//! States of the module `ssh_auth`: keys that may log in as a user.

use std::path::{Path, PathBuf};

use zagent_compiler::{Chunk, Compat};
use zagent_config::{Map, Value};

use crate::shared::accounts::make_user_dir;
use crate::shared::text_file::{TextEdit, TextFile, read_source, text_file_state};
use crate::{BuildResult, CheckResult, ChunkArgs, Effects, StateCtx, StateError, StateModule, Verdict};
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

/// What Salt says of a user without a home.
const NO_HOME: &str =
    "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?";

#[derive(Clone, Copy, PartialEq, Eq)]
enum SshAuthFunction {
    Present,
    Absent,
    /// These and no others.
    Manage,
}

/// Keys that may log in as a user.
pub(crate) struct SshAuthState {
    function: SshAuthFunction,
    chunk: Box<Chunk>,
    user: String,
    config: String,
}

impl SshAuthState {
    pub(crate) fn for_function(fun: &str, args: &ChunkArgs<'_>) -> Option<Result<Self, StateError>> {
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
        let found = ssh_keys::resolve_user_file(ctx.tools().machine, &self.user, &self.config);
        let is_salt = ctx.compat == Compat::Salt && self.function == SshAuthFunction::Present;
        let (user, path) = found.map_err(|e| if is_salt { StateError::new(NO_HOME) } else { e.into() })?;
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

    /// `source`, where it is given.
    fn source(&self) -> Option<&str> {
        self.chunk.args.get("source").and_then(Value::as_str).filter(|source| !source.is_empty())
    }

    /// Salt speaks of the keys of a source by the name of the state.
    fn name_by_state(&self, edit: TextEdit) -> TextEdit {
        let (name, user) = (ChunkArgs::new(&self.chunk).name(), &self.user);
        let is_absent = self.function == SshAuthFunction::Absent;
        let (new, changes) = match edit {
            TextEdit::Change { new, changes, .. } => (new, changes),
            absent @ TextEdit::InSync(_) if is_absent => return absent,
            TextEdit::InSync(_) => {
                let words = format!("The authorized host key {name} is already present for user {user}");
                return TextEdit::InSync(words);
            }
        };
        if is_absent {
            let lines =
                changes.keys().map(|key| format!("Set to remove: {}\n", key.as_str().unwrap_or_default()));
            let (would, changes) = (lines.collect(), Map::from_iter([(name, "Removed")]));
            return TextEdit::Change { new, would, did: "Key removed".into(), changes };
        }
        let is_updated = |word: &Value| word.as_str() == Some("Updated");
        let would = changes.iter().map(|(key, word)| {
            let act = if is_updated(word) { "update" } else { "add" };
            format!("Set to {act}: {}\n", key.as_str().unwrap_or_default())
        });
        let would = would.collect();
        let updates = changes.iter().any(|(_, word)| is_updated(word));
        let (act, word) = if updates { ("updated", "Updated") } else { ("added", "New") };
        let did = format!("The authorized host key {name} for user {user} was {act}");
        TextEdit::Change { new, would, did, changes: Map::from_iter([(name, word)]) }
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
            return Err(StateError::new(NO_HOME));
        }
        let keys = self.wanted_keys(ctx)?;
        let old = old.unwrap_or_default();
        let edit = match self.function {
            SshAuthFunction::Absent => self.edit_absent(&keys, old),
            SshAuthFunction::Present | SshAuthFunction::Manage => self.edit_present(&keys, old),
        };
        Ok(match edit {
            edit if ctx.compat == Compat::Strict => edit,
            // It calls the other two, and keeps what they say to itself.
            TextEdit::Change { new, would, changes, .. } if self.function == SshAuthFunction::Manage => {
                TextEdit::Change { new, would, did: String::new(), changes }
            }
            edit if self.source().is_some() => self.name_by_state(edit),
            edit => edit,
        })
    }

    fn preview(&self, mut checked: CheckResult, _: Option<&str>, ctx: &StateCtx<'_>) -> CheckResult {
        if ctx.compat == Compat::Strict {
            return checked;
        }
        checked.changes = Map::new();
        if checked.verdict == Verdict::InSync {
            checked.comment = match (self.function, self.source()) {
                (SshAuthFunction::Absent, None) => "Key is already absent".into(),
                (SshAuthFunction::Absent, Some(source)) => {
                    format!("All host keys in file {source} are already absent")
                }
                (SshAuthFunction::Present, Some(source)) => {
                    format!("All host keys in file {source} are already present")
                }
                _ => checked.comment,
            };
        }
        checked
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
    use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};

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

    #[test]
    fn dry_runs_and_sources_speak_as_salt_does() {
        let files = [("keys", "ssh-rsa AAAA me\n"), ("more", "ssh-rsa AAAA me\nssh-rsa BBBB x\n")];
        let test_bed = StateTestBed::with_files(&files, "{}");
        let path = test_bed.path("ak");
        let state = |fun: &str, source: &str| {
            let args = format!(r#"{{"user": "root", "config": "{path}", "source": "salt://{source}"}}"#);
            chunk(&format!("ssh_auth.{fun}"), "own", &args)
        };
        let table = [
            (
                "present",
                "keys",
                "Set to add: AAAA\\n",
                r#"true "The authorized host key own for user root was added" {"own":"New"}"#,
            ),
            ("absent", "more", "Set to remove: AAAA\\n", r#"true "Key removed" {"own":"Removed"}"#),
        ];
        for (fun, source, would, did) in table {
            let state = state(fun, source);
            assert_eq!(preview_chunk(&state, &test_bed.scene()), format!("null \"{would}\" {{}}"));
            assert_eq!(apply_chunk(&state, &test_bed.scene()), did);
            let again = format!("true \"All host keys in file salt://{source} are already {fun}\" {{}}");
            assert_eq!(preview_chunk(&state, &test_bed.scene()), again);
        }
    }
}
