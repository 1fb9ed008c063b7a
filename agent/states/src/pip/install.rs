//! Packages and requirements in, pip run with them, and what it changed out.

use zagent_config::mask::{has_login, redact_logins};
use zagent_config::{Map, Value};

use super::{PipCheck, PipState};
use crate::{ApplyResult, ChunkArgs, StateCtx, StateError};
use zagent_host::command_options::value_text;
use zagent_host::temp_file::PrivateTempFile;

/// Arguments that switch an option of pip on.
const FLAGS: [(&str, &str); 9] = [
    ("upgrade", "--upgrade"),
    ("force_reinstall", "--force-reinstall"),
    ("ignore_installed", "--ignore-installed"),
    ("no_deps", "--no-deps"),
    ("no_index", "--no-index"),
    ("pre_releases", "--pre"),
    ("no_cache_dir", "--no-cache-dir"),
    ("no_install", "--no-install"),
    ("no_download", "--no-download"),
];

/// Arguments that are addresses, and the variables by which pip gets them.
pub(super) const ADDRESS_VARIABLES: [(&str, &str); 4] = [
    ("proxy", "PIP_PROXY"),
    ("find_links", "PIP_FIND_LINKS"),
    ("index_url", "PIP_INDEX_URL"),
    ("extra_index_url", "PIP_EXTRA_INDEX_URL"),
];

/// Arguments that are the value of an option of pip.
const VALUE_OPTIONS: [(&str, &str); 10] = [
    ("log", "--log"),
    ("timeout", "--timeout"),
    ("target", "--target"),
    ("source", "--source"),
    ("exists_action", "--exists-action"),
    ("global_options", "--global-option"),
    ("cert", "--cert"),
    ("trusted_host", "--trusted-host"),
    ("no_binary", "--no-binary"),
    ("cache_dir", "--cache-dir"),
];

impl PipState {
    /// What pip is told besides what to install.
    pub(super) fn cli_options(&self) -> Result<Vec<String>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let mut words = Vec::new();
        for (key, option) in FLAGS {
            words.extend(self.flag(key).then(|| option.to_owned()));
        }
        for (key, option) in VALUE_OPTIONS {
            for value in args.texts(key)?.unwrap_or_default() {
                words.extend([option.to_owned(), value]);
            }
        }
        if let Some(Value::List(extra)) = args.get("extra_args") {
            for item in extra.iter() {
                match item {
                    Value::Map(map) => {
                        words.extend(map.iter().flat_map(|(k, v)| [value_text(k), value_text(v)]));
                    }
                    other => words.push(value_text(other)),
                }
            }
        } else {
            words.extend(args.texts("extra_args")?.unwrap_or_default());
        }
        Ok(words)
    }

    /// The words of the program, and the files that they name.
    fn install_words(
        &self,
        ctx: &StateCtx<'_>,
        found: &PipCheck,
        files: &[String],
        by_name: bool,
    ) -> Result<(Vec<String>, Vec<PrivateTempFile>), StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let mut words = vec!["install".to_owned()];
        words.extend(self.cli_options()?);
        let mut kept = Vec::new();
        let owner = self.provider.run_as(ctx.machine)?.map(|account| account.ids.uid);
        for file in files {
            // A file of this host may name others beside it.
            if let Some(path) = self.local_path(file) {
                words.extend(["--requirement".into(), path]);
                continue;
            }
            let text = self.read_requirements(ctx, file)?;
            let scratch = PrivateTempFile::new_secret(ctx.machine, text.as_bytes(), ".txt", owner);
            let scratch = scratch.map_err(|e| StateError::new(format!("cannot keep {file}: {e}")))?;
            words.extend(["--requirement".into(), scratch.path().display().to_string()]);
            kept.push(scratch);
        }
        for path in args.texts("editable")?.unwrap_or_default() {
            words.extend(["--editable".into(), path]);
        }
        if by_name {
            let plain = |t: &String| t.split(';').next().unwrap_or(t).replace(' ', "");
            let (secret, open): (Vec<String>, Vec<String>) =
                found.targets.iter().map(plain).partition(|t| has_login(t));
            words.extend(open);
            if !secret.is_empty() {
                let file = PrivateTempFile::new_secret(
                    ctx.machine,
                    (secret.join("\n") + "\n").as_bytes(),
                    ".txt",
                    owner,
                );
                let file = file.map_err(|e| StateError::new(format!("cannot keep what to install: {e}")))?;
                words.extend(["--requirement".into(), file.path().display().to_string()]);
                kept.push(file);
            }
        }
        Ok((words, kept))
    }

    pub(super) fn install(&self, ctx: &StateCtx<'_>, found: &PipCheck) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let args = ChunkArgs::new(&self.chunk);
        let files = args.texts("requirements")?.unwrap_or_default();
        let by_name = files.is_empty() && args.get("editable").is_none();
        // The files are there as long as the program runs.
        let (words, _kept) = self.install_words(ctx, found, &files, by_name)?;
        let before = self.provider.list(&tools)?;
        let told = self
            .provider
            .change_packages(ctx, &found.names, &mut || Ok(self.provider.run_checked(&tools, &words)?));
        told.map_err(|f| {
            let what = if by_name {
                format!("Failed to install packages: {}.", found.targets.join(", "))
            } else {
                format!("Unable to process requirements file \"{}\"", files.join(", "))
            };
            StateError::new(redact_logins(&format!("{what} Error: {}", f.result.comment)))
        })?;
        let after = self.provider.list(&tools)?;
        let is_forced = self.flag("force_reinstall") || self.flag("ignore_installed");
        let mut changes = Map::new();
        for (name, versions) in &after {
            let is_new = before.get(name) != Some(versions);
            let is_meant = !by_name || found.names.contains(name);
            if is_meant && (is_new || (is_forced && by_name)) {
                changes.insert(format!("{name}=={}", versions.join(",")), "Installed");
            }
        }
        if by_name && found.names.len() < found.targets.len() && after != before {
            changes.insert(redact_logins(&format!("{}==???", found.targets.join(","))), "Installed");
        }
        let last = match (by_name, changes.is_empty()) {
            (true, _) => "All packages were successfully installed".to_owned(),
            (false, false) => format!("Successfully processed requirements file {}.", files.join(", ")),
            (false, true) => "Requirements were already installed.".to_owned(),
        };
        let already = if by_name { found.in_sync_comments.clone() } else { Vec::new() };
        let words = already.into_iter().chain([last]).collect::<Vec<_>>().join("\n");
        Ok(ApplyResult::new(redact_logins(&words), changes))
    }
}
