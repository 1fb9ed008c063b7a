//! The facts directory and the configuration into facts of one's own, each with its origin.
//!
//! A file that cannot be used is a warning. It keeps no other fact away and holds nobody up.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zagent_config::{Map, Value, trusted_path};

use super::tree::has_extension;
use super::{FactOrigin, FactSources};
use crate::Machine;
use crate::exec::{ExecCommand, ExitReason};
use crate::fs::FileSystem;

/// The most that a file of facts, or what an executable prints, may hold.
const MAX_BYTES: u64 = 1 << 20;
/// How much of what an executable complained about goes into a warning.
const COMPLAINT: usize = 200;

/// Why a file of the facts directory was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactWarning {
    /// The file, or the directory itself.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

impl std::fmt::Display for FactWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "facts of `{}` are left out: {}", self.path.display(), self.message)
    }
}

/// Facts of one's own.
#[derive(Debug, Default)]
pub(crate) struct CustomFacts {
    pub facts: Map,
    pub origins: BTreeMap<String, FactOrigin>,
    pub warnings: Vec<FactWarning>,
}

impl CustomFacts {
    /// Files in the order of their names, then the configuration; later wins, key by key.
    pub(crate) fn read(sources: &FactSources) -> Self {
        let mut custom = Self::default();
        if let Some(dir) = &sources.facts_dir {
            custom.read_dir(dir, sources);
        }
        custom.add(&sources.grains, &FactOrigin::Configuration);
        custom
    }

    fn read_dir(&mut self, dir: &Path, sources: &FactSources) {
        if let Err(why) = verify_owner(dir, &sources.machine) {
            return self.warn(dir, why);
        }
        let entries = match sources.machine.disk(None).read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.is_not_found() => return,
            Err(e) => return self.warn(dir, e.source.to_string()),
        };
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|(name, _)| dir.join(name)).collect();
        paths.sort_unstable();
        for path in paths.iter().filter(|p| !is_hidden(p)) {
            match load_facts(path, sources) {
                Ok(facts) => self.add(&facts, &FactOrigin::File(path.clone())),
                Err(message) => self.warn(path, message),
            }
        }
    }

    fn add(&mut self, facts: &Map, origin: &FactOrigin) {
        for (name, value) in facts.iter() {
            if let Some(text) = name.as_str() {
                self.origins.insert(text.to_owned(), origin.clone());
                self.facts.insert(name.clone(), value.clone());
            }
        }
    }

    fn warn(&mut self, path: &Path, message: String) {
        let warning = FactWarning { path: path.to_owned(), message };
        tracing::warn!("{warning}");
        self.warnings.push(warning);
    }
}

/// Editors and package managers leave such names behind.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.ends_with('~') || name.contains(".dpkg-") || name.ends_with(".rpmnew")
}

/// Refuses what somebody else can change. Of another machine only the path itself is looked at: who owns the way to it is
/// nobody of this host.
fn verify_owner(path: &Path, machine: &Machine) -> Result<(), String> {
    if machine.is_this_host() {
        return trusted_path::verify(path).map_err(|error| format!("{error}; {}", error.hint()));
    }
    let is_open = machine.metadata(path).is_ok_and(|meta| meta.mode() & 0o002 != 0);
    if is_open { Err("everybody may write to it".into()) } else { Ok(()) }
}

fn load_facts(path: &Path, sources: &FactSources) -> Result<Map, String> {
    let metadata = sources.machine.metadata(path).map_err(|e| e.to_string())?;
    if metadata.is_dir() {
        return Ok(Map::new());
    }
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    verify_owner(path, &sources.machine)?;
    let text = if ["yaml", "yml", "json"].iter().any(|e| has_extension(path, e)) {
        read_text(path, &metadata, &sources.machine)?
    } else if metadata.mode() & 0o111 != 0 {
        run_executable(path, sources)?
    } else {
        return Err("it is neither executable nor a .yaml, .yml or .json file".into());
    };
    match (sources.parse_yaml)(&text)? {
        Value::Null => Ok(Map::new()),
        Value::Map(map) if map.keys().all(|k| k.as_str().is_some()) => Ok((*map).clone()),
        Value::Map(_) => Err("the name of a fact is not a string".into()),
        other => Err(format!("it holds {}, not a mapping", other.kind())),
    }
}

fn read_text(path: &Path, metadata: &Metadata, machine: &Machine) -> Result<String, String> {
    if metadata.len() > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let bytes = machine.read_bytes(path).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

fn run_executable(path: &Path, sources: &FactSources) -> Result<String, String> {
    let command = ExecCommand {
        timeout: Some(sources.time_limit),
        output_cap: usize::try_from(MAX_BYTES).unwrap_or(usize::MAX),
        cwd: Some("/".into()),
        env: vec![("ZAGENT_ID".into(), sources.id.as_str().into())],
        ..ExecCommand::new(path)
    };
    let outcome = sources.machine.run(&command).map_err(|e| {
        let cause = std::error::Error::source(&e).map(|c| format!(": {c}")).unwrap_or_default();
        format!("{e}{cause}")
    })?;
    match outcome.reason {
        ExitReason::Exited(0) if outcome.truncated => Err(format!("it printed more than {MAX_BYTES} bytes")),
        ExitReason::Exited(0) => {
            String::from_utf8(outcome.stdout).map_err(|_| "what it printed is not UTF-8".into())
        }
        ExitReason::Cancelled => Err("it was stopped".into()),
        ExitReason::TimedOut => Err(format!("it was ended after {:?}", sources.time_limit)),
        ExitReason::Exited(code) => {
            Err(format!("it exited with code {code}{}", stderr_excerpt(&outcome.stderr)))
        }
        ExitReason::Signaled(signal) => {
            Err(format!("signal {signal} ended it{}", stderr_excerpt(&outcome.stderr)))
        }
    }
}

fn stderr_excerpt(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.trim().lines().next().unwrap_or_default();
    let line: String = line.chars().take(COMPLAINT).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::super::testing::FactsFixture;
    use super::super::{Facts, Grains};
    use super::*;

    fn facts(host: &FactsFixture) -> Facts {
        let grains = Map::from_iter([("site", "from configuration")]);
        let time_limit = Duration::from_millis(200);
        Facts::new(FactSources { facts_dir: Some(host.path("/d")), grains, time_limit, ..host.sources() })
    }

    #[test]
    fn later_files_win_and_the_configuration_over_all() {
        let host = FactsFixture::new()
            .file("/d/10-a.yaml", "roles: [web]\nos: Plan9\nsite: a\nonly_a: 1\n")
            .file("/d/20-b.json", r#"{"roles": ["db"], "deep": {"x": [1, null]}}"#)
            .script("/d/30-c", "#!/bin/sh\necho 'from_script: '$ZAGENT_ID\necho 'roles: [cache]'\n")
            .file("/d/.hidden.yaml", "hidden: 1\n")
            .dir("/d/sub");
        let facts = facts(&host);
        for (name, want) in [
            ("roles", r#"["cache"]"#),
            ("os", r#""Plan9""#),
            ("site", r#""from configuration""#),
            ("only_a", "1"),
            ("deep", r#"{"x": [1, null]}"#),
            ("from_script", r#""web-01""#),
        ] {
            assert_eq!(facts.get(name), Some(Value::from_json_str(want).unwrap()), "{name}");
            assert_eq!(facts.all().get(name).cloned(), facts.get(name), "{name}");
        }
        assert_eq!(facts.get("hidden"), None);
        assert_eq!(facts.warnings(), []);
        assert_eq!(facts.origin("roles"), Some(FactOrigin::File(host.path("/d/30-c"))));
        assert_eq!(facts.origin("site"), Some(FactOrigin::Configuration));
        assert_eq!(facts.origin("kernel"), Some(FactOrigin::System));
    }

    #[test]
    fn what_is_unusable_is_a_warning_and_no_more() {
        let host = FactsFixture::new()
            .file("/d/a.yaml", "x: [1\n")
            .file("/d/b.yaml", "- 1\n")
            .file("/d/c.json", "nonsense\n")
            .file("/d/d.txt", "x: 1\n")
            .script("/d/e", "#!/bin/sh\necho boom >&2\nexit 3\n")
            .script("/d/f", "#!/bin/sh\nexec sleep 1000\n")
            .script("/d/g", "#!/nonexistent/interpreter\n")
            .script("/d/h", "#!/bin/sh\nhead -c 2000000 /dev/zero\n")
            .file("/d/i.yaml", "1: x\n")
            .file("/d/j.yaml", "open: 1\n")
            .file("/d/k.yaml", "")
            .link("/d/l.yaml", "/nonexistent")
            .file("/d/z.yaml", "good: true\n");
        std::fs::set_permissions(host.path("/d/j.yaml"), PermissionsExt::from_mode(0o666)).unwrap();
        let facts = facts(&host);
        assert_eq!(facts.get("good"), Some(true.into()));
        let warnings = facts.warnings();
        let said: Vec<(String, &str)> = warnings
            .iter()
            .map(|w| (w.path.file_name().unwrap().to_string_lossy().into_owned(), &*w.message))
            .collect();
        for (name, part) in [
            ("a.yaml", ""),
            ("b.yaml", "a list, not a mapping"),
            ("c.json", "a string, not a mapping"),
            ("d.txt", "neither executable"),
            ("e", "code 3: boom"),
            ("f", "ended after 200ms"),
            ("g", "cannot start"),
            ("h", "more than 1048576 bytes"),
            ("i.yaml", "not a string"),
            ("j.yaml", "fix it with `chmod go-w /"),
            ("l.yaml", ""),
        ] {
            assert!(said.iter().any(|(n, m)| n == name && m.contains(part)), "{name}: {said:?}");
        }
        assert_eq!(said.len(), 11, "{said:?}");
        assert!(warnings[0].to_string().starts_with("facts of `"));
    }

    #[test]
    fn a_directory_that_others_may_write_gives_no_facts() {
        let host = FactsFixture::new().file("/d/a.yaml", "a: 1\n").script("/d/b", "#!/bin/sh\necho 'b: 1'\n");
        assert_eq!(facts(&host).get("b"), Some(1.into()));
        for mode in [0o777, 0o757] {
            std::fs::set_permissions(host.path("/d"), PermissionsExt::from_mode(mode)).unwrap();
            let facts = facts(&host);
            assert_eq!((facts.get("a"), facts.get("b")), (None, None));
            let warnings = facts.warnings();
            assert!(
                warnings.len() == 1 && warnings[0].message.contains("fix it with `chmod go-w"),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn no_directory_is_no_matter() {
        let host = FactsFixture::new();
        assert_eq!(facts(&host).warnings(), []);
        let host = host.file("/d", "");
        assert_eq!(facts(&host).warnings().len(), 1);
    }
}
