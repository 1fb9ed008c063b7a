//! States of the modules `ssh_auth` and `ssh_known_hosts`.

use std::path::{Path, PathBuf};

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use super::text::{Edit, Texts, change, source};
use crate::fs::Meta;
use crate::host::accounts::User;
use crate::host::accounts::ssh::{self, AUTHORIZED, Key, Known};
use crate::states::{Args, Failure, Scene, Veil};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Present,
    Absent,
    /// These and no others.
    Manage,
}

/// Keys that may log in as a user.
pub(super) struct Auth {
    act: Act,
    chunk: Box<Chunk>,
    user: String,
    config: String,
}

impl Auth {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        let act = match fun {
            "present" => Act::Present,
            "absent" => Act::Absent,
            "manage" => Act::Manage,
            _ => return None,
        };
        Some((|| {
            let user = args.text("user")?.ok_or_else(|| Failure::new("`user` must be given"))?;
            let config = args.text("config")?.unwrap_or_else(|| AUTHORIZED.into());
            Ok(Self { act, chunk: Box::new(args.chunk.clone()), user, config })
        })())
    }

    fn home(&self, scene: &Scene<'_>) -> Result<(User, PathBuf), Failure> {
        let (user, path) = ssh::user_file(scene.tools().machine, &self.user, &self.config)?;
        Ok((user, path.into()))
    }

    /// The keys that are asked for.
    fn keys(&self, scene: &Scene<'_>) -> Result<Vec<Key>, Failure> {
        let args = Args::new(&self.chunk);
        let options = args.texts("options")?;
        if let Some(from) = args.text("source")?.filter(|s| !s.is_empty()) {
            let text = source(&args, &from, scene)
                .map_err(|e| Failure::new(format!("Failed to add the ssh key. {}", e.done.comment)))?;
            let mut keys: Vec<Key> = text.lines().filter_map(Key::parse).collect();
            if keys.is_empty() {
                return Err(Failure::new(format!("No keys detected in {from}. Is file properly formatted?")));
            }
            if let Some(options) = options {
                keys.iter_mut().for_each(|key| key.options.clone_from(&options));
            }
            return Ok(keys);
        }
        let written = match self.act {
            Act::Manage => args.texts("ssh_keys")?.unwrap_or_default(),
            Act::Present | Act::Absent => vec![args.name()],
        };
        let enc = args.text("enc")?.unwrap_or_else(|| "ssh-rsa".into());
        let comment = args.text("comment")?.unwrap_or_default();
        let lines =
            written.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.is_empty());
        let read = |line: &str| match Key::parse(line) {
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
                Key { options, enc: enc.clone(), key: key.to_owned(), comment }
            }
        };
        lines
            .map(|line| {
                let mut key = read(line);
                if let Some(fault) = key.fault() {
                    return Err(Failure::new(fault));
                }
                key.enc = ssh::kind(&key.enc)?.to_owned();
                Ok(key)
            })
            .collect()
    }
}

/// The text with a key; and whether it was there, in another line.
fn with_key(text: &str, key: &Key) -> Option<(String, bool)> {
    let is = |line: &str| Key::parse(line).filter(|found| found.key == key.key);
    let line = key.line();
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
    text.split_inclusive('\n').filter(|line| Key::parse(line).is_none_or(|found| found.key != key)).collect()
}

impl Auth {
    fn present(&self, keys: &[Key], old: &str) -> Edit {
        let (mut new, mut changes) = (old.to_owned(), Map::new());
        let (mut right, mut would, mut did) = (Vec::new(), Vec::new(), Vec::new());
        let user = &self.user;
        if self.act == Act::Manage {
            let others =
                old.lines().filter_map(Key::parse).filter(|k| !keys.iter().any(|key| key.key == k.key));
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
            return Edit::Right(right.join("\n"));
        }
        Edit::Change { new, would: would.join("\n"), did: did.join("\n"), changes }
    }

    fn absent(&self, keys: &[Key], old: &str) -> Edit {
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
            return Edit::Right("Key not present".into());
        }
        Edit::Change { new, would: would.join("\n"), did: "Key removed".into(), changes }
    }
}

impl Texts for Auth {
    fn path(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure> {
        Ok(self.home(scene)?.1)
    }

    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure> {
        let (user, path) = self.home(scene)?;
        if self.act != Act::Absent
            && path.starts_with(&user.home)
            && scene.fs.stat(Path::new(&user.home))?.is_none()
        {
            return Err(Failure::new(
                "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?",
            ));
        }
        let keys = self.keys(scene)?;
        let old = old.unwrap_or_default();
        Ok(if self.act == Act::Absent { self.absent(&keys, old) } else { self.present(&keys, old) })
    }

    fn prepare(&self, path: &Path, scene: &Scene<'_>) -> Result<Meta, Failure> {
        own_dir(&self.home(scene)?.0, path, scene)
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::USERS
    }

    fn asks(&self) -> bool {
        true
    }
}

/// Makes the directory of a file of a user; how the file is owned.
fn own_dir(user: &User, path: &Path, scene: &Scene<'_>) -> Result<Meta, Failure> {
    let (uid, gid) = (u32::try_from(user.uid).ok(), u32::try_from(user.gid).ok());
    if let Some(dir) = path.parent()
        && scene.fs.stat(dir)?.is_none()
    {
        if let Some(above) = dir.parent() {
            super::make_dirs(scene, above, Meta { mode: Some(0o755), ..Meta::default() })?;
        }
        scene.fs.make_dir(dir, Meta { mode: Some(0o700), uid, gid })?;
    }
    Ok(Meta { mode: Some(0o600), uid, gid })
}

/// A host whose key is known, or should not be.
pub(super) struct KnownHost {
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

impl KnownHost {
    pub(super) fn read(fun: &str, args: &Args<'_>) -> Option<Result<Self, Failure>> {
        let is_wanted = match fun {
            "present" => true,
            "absent" => false,
            _ => return None,
        };
        Some(Self::of(is_wanted, args))
    }

    fn of(is_wanted: bool, args: &Args<'_>) -> Result<Self, Failure> {
        let text = |key: &str| Ok::<_, Failure>(args.text(key)?.filter(|t| !t.is_empty()));
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
            return Err(Failure::new("Specify either \"key\" or \"fingerprint\", not both."));
        }
        if host.key.is_some() && host.enc.is_none() {
            return Err(Failure::new("Required argument \"enc\" if using \"key\" argument."));
        }
        if is_wanted && host.port.is_some() && host.is_hashed && args.get("hash_known_hosts").is_some() {
            return Err(Failure::new(
                "argument port can not be used in conjunction with argument hash_known_hosts",
            ));
        }
        Ok(host)
    }

    fn is_right(&self, found: &[&Known]) -> bool {
        found.iter().any(|known| match (&self.key, &self.fingerprint) {
            (Some(key), _) => known.key == *key,
            (None, Some(print)) => known.has_fingerprint(print),
            (None, None) => {
                self.enc.as_ref().is_none_or(|enc| known.enc == *enc || known.enc.contains(&**enc))
            }
        })
    }

    /// The lines that are put there.
    fn lines(&self, scene: &Scene<'_>) -> Result<Vec<Known>, Failure> {
        let mut lines = match (&self.key, &self.enc) {
            (Some(key), Some(enc)) => {
                vec![Known { hosts: String::new(), enc: ssh::kind(enc)?.to_owned(), key: key.clone() }]
            }
            _ => ssh::scan(
                &scene.tools(),
                &self.name,
                self.port.as_deref(),
                self.enc.as_deref(),
                &self.timeout,
            )?,
        };
        if lines.is_empty() {
            return Err(Failure::new("Unable to receive remote host keys"));
        }
        if let Some(print) = &self.fingerprint
            && !lines.iter().any(|known| known.has_fingerprint(print))
        {
            return Err(Failure::new(
                "Remote host public keys found but none of their fingerprints match the one you have provided",
            ));
        }
        let name = ssh::host_name(&self.name, self.port.as_deref());
        for known in &mut lines {
            known.hosts = if self.is_hashed { ssh::hashed(&name, &known.key) } else { name.clone() };
        }
        Ok(lines)
    }
}

impl Texts for KnownHost {
    fn path(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure> {
        let tools = scene.tools();
        Ok(ssh::known_hosts_file(tools.machine, self.user.as_deref(), self.config.as_deref())?.into())
    }

    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        let default = if self.user.is_some() { ".ssh/known_hosts" } else { "/etc/ssh/ssh_known_hosts" };
        let (name, config) = (&self.name, self.config.as_deref().unwrap_or(default));
        let host = ssh::host_name(name, self.port.as_deref());
        let own = |line: &str| Known::parse(line).filter(|known| known.is_for(&host));
        let found: Vec<Known> = old.lines().filter_map(own).collect();
        let shown = |all: &[Known]| -> Value {
            if all.is_empty() { Value::Null } else { all.iter().map(Known::shown).collect() }
        };
        if !self.is_wanted {
            if found.is_empty() {
                return Ok(Edit::Right("Host is already absent".into()));
            }
            let new = old.split_inclusive('\n').filter(|line| own(line).is_none()).collect();
            let mut changes = change("old", shown(&found));
            changes.insert("new", Value::Null);
            let would = format!("Key for {name} is set to be removed from {config}");
            return Ok(Edit::Change { new, would, did: format!("{name} removed from {config}"), changes });
        }
        if self.is_right(&found.iter().collect::<Vec<_>>()) {
            return Ok(Edit::Right(format!("{name} already exists in {config}")));
        }
        let lines = self.lines(scene)?;
        let replaced = |line: &str| own(line).is_some_and(|is| lines.iter().any(|known| known.enc == is.enc));
        let mut new: String = old.split_inclusive('\n').filter(|line| !replaced(line)).collect();
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        lines.iter().for_each(|known| new.push_str(&known.line()));
        let mut changes = change("old", shown(&found));
        changes.insert("new", shown(&lines));
        let act = if found.is_empty() { "added to" } else { "updated in" };
        let did = match (&self.key, &self.fingerprint) {
            (Some(key), _) => format!("{name}'s key saved to {config} (key: {key})"),
            (None, Some(print)) => format!("{name}'s key saved to {config} (fingerprint: {print})"),
            (None, None) => format!("{name}'s key(s) saved to {config}"),
        };
        Ok(Edit::Change { new, would: format!("Key for {name} is set to be {act} {config}"), did, changes })
    }

    fn prepare(&self, path: &Path, scene: &Scene<'_>) -> Result<Meta, Failure> {
        let Some(user) = &self.user else {
            if let Some(dir) = path.parent() {
                super::make_dirs(scene, dir, Meta { mode: Some(0o755), ..Meta::default() })?;
            }
            return Ok(Meta { mode: Some(0o600), ..Meta::default() });
        };
        own_dir(&ssh::user_file(scene.tools().machine, user, "%h")?.0, path, scene)
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::USERS
    }

    fn asks(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_put_beside_other_lines() {
        let key = Key { enc: "ssh-rsa".into(), key: "AAAA".into(), comment: "me".into(), ..Key::default() };
        let (text, is_update) = with_key("# own\n\nssh-rsa BBBB x", &key).expect("it is new");
        assert_eq!((&*text, is_update), ("# own\n\nssh-rsa BBBB x\nssh-rsa AAAA me\n", false));
        assert_eq!(with_key(&text, &key), None);
        let other = Key { options: vec!["no-pty".into()], ..key };
        let (text, is_update) = with_key(&text, &other).expect("it is another");
        assert_eq!((&*text, is_update), ("# own\n\nssh-rsa BBBB x\nno-pty ssh-rsa AAAA me\n", true));
        assert_eq!(without_key(&text, "BBBB"), "# own\n\nno-pty ssh-rsa AAAA me\n");
    }
}
