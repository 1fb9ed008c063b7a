//! Configuration files, environment variables and a Salt configuration in, settings and compiler options out.

#![expect(clippy::disallowed_methods, reason = "the environment is part of the settings")]

use std::path::{Path, PathBuf};

use zagent_compiler::{Compat, CompileOptions, FileTree, TreeLimits};
use zagent_config::paths::{CONFIG_DIR, DEFAULT_ROOT, FRAGMENTS_DIR, Paths};
use zagent_config::salt_config::SaltConfig;
use zagent_config::settings::{self, CompatMode, ConfigLocation, Settings};
use zagent_config::{Map, Value, trusted_path};

use crate::error::AgentError;
use zagent_config::error_chain;
use zagent_config::json_file;

/// Reads the settings: `--config FILE`, otherwise `ZAGENT_CONFIG`, otherwise /etc/zagent; then `ZAGENT_*`.
///
/// # Errors
/// The configuration errors.
pub fn load(config: Option<&Path>) -> Result<Settings, AgentError> {
    let location =
        config_file(config).map_or_else(|| ConfigLocation::Dir(CONFIG_DIR.into()), ConfigLocation::File);
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables = std::env::vars_os().filter_map(text);
    let mut settings = settings::load(&location, variables, &[], host_name().as_deref())
        .map_err(AgentError::Configuration)?;
    if let Some(root) = user_root(&settings.root) {
        settings.set_default_root(root);
    }
    verify_paths(&settings)?;
    Ok(settings)
}

/// Refuses a root or a key that somebody else can change. The signers and their keyring are refused where they are used: the
/// last good revision keeps converging.
fn verify_paths(settings: &Settings) -> Result<(), AgentError> {
    let remotes = settings.source.remotes.iter();
    let of_remotes =
        remotes.flat_map(|remote| [&remote.key, &remote.token_file, &remote.known_hosts, &remote.ca]);
    let (board, rollout) = (&settings.board, &settings.rollout);
    let optional = [
        &board.credentials,
        &board.known_hosts,
        &board.ca,
        &board.allowed_nodes,
        &rollout.credentials,
        &rollout.key,
    ];
    let hooks = settings.webhooks.iter().filter_map(|hook| hook.secret_file.as_ref());
    for path in std::iter::once(&settings.root)
        .chain(optional.into_iter().flatten())
        .chain(of_remotes.flatten())
        .chain(hooks)
    {
        trusted_path::verify(path)
            .map_err(|error| AgentError::usage_hint(error.to_string(), error.hint()))?;
    }
    Ok(())
}

/// The configuration file, when a single one is given.
fn config_file(config: Option<&Path>) -> Option<PathBuf> {
    config.map(PathBuf::from).or_else(|| std::env::var_os("ZAGENT_CONFIG").map(PathBuf::from))
}

/// Directories of files that states write for the agent: `facts_dir`, and `fragments_dir` unless the
/// configuration is a single file.
pub(crate) fn add_dir_opts(settings: &Settings, config: Option<&Path>, opts: &mut Map) {
    opts.insert("facts_dir", settings.facts_dir.display().to_string());
    if config_file(config).is_none() {
        opts.insert("fragments_dir", format!("{CONFIG_DIR}/{FRAGMENTS_DIR}"));
    }
}

/// Settings for an unattended run: when the configuration is invalid, the last good one (at `last`) is used,
/// so that a run can fix what an earlier run broke.
///
/// # Errors
/// As [`load`], when there is no last good configuration either.
pub fn load_or_last_good(
    config: Option<&Path>,
    last: Option<&Path>,
    warn: &mut dyn FnMut(&str),
) -> Result<Settings, AgentError> {
    let error = match load(config) {
        Err(error @ AgentError::Configuration(_)) => error,
        other => return other,
    };
    let last = last.map_or_else(|| Paths::new(DEFAULT_ROOT).last_config(), Path::to_owned);
    let Ok(settings) = load(Some(&last)) else { return Err(error) };
    warn(&format!("the configuration is invalid, using the last good one: {}", error.summary()));
    Ok(settings)
}

/// Saves the settings as the last good configuration.
pub fn save_last_good(settings: &Settings) {
    let path = settings.paths().last_config();
    let said = settings.explicit_values();
    if matches!(json_file::read::<Value>(&path), Ok(Some(same)) if same == said) {
        return;
    }
    if let Err(error) = json_file::write(&path, &said) {
        tracing::debug!(error = error_chain(&error), "cannot save the last good configuration");
    }
}

/// Root for a user without write access to the system root: `$XDG_STATE_HOME/zagent`, otherwise
/// `~/.local/state/zagent`.
fn user_root(root: &Path) -> Option<PathBuf> {
    use nix::unistd::{AccessFlags, access, geteuid};
    if geteuid().is_root() || access(root, AccessFlags::W_OK).is_ok() {
        return None;
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("zagent"))
}

fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok())
}

/// Compile options from the settings.
#[must_use]
pub(crate) fn compile_options(settings: &Settings) -> CompileOptions {
    let limits = &settings.limits;
    CompileOptions {
        id: settings.id.as_str().into(),
        compat: match settings.compat {
            CompatMode::Salt => Compat::Salt,
            _ => Compat::Strict,
        },
        pillar_merge: settings.pillar.merge,
        pillar_merge_lists: settings.pillar.merge_lists,
        pillar_env: settings.pillar.env.as_ref().map(|e| e.as_str().to_owned()),
        state_env: settings.env.as_ref().map(|e| e.as_str().to_owned()),
        nodegroups: settings.nodegroups.clone(),
        resources_key: settings.resources_key.clone(),
        limits: TreeLimits {
            fuel: limits.fuel,
            recursion: limits.recursion,
            output: limits.output,
            source: limits.source,
            yaml_nodes: limits.yaml_nodes,
            yaml_depth: limits.yaml_depth,
            files: limits.files,
        },
        ..CompileOptions::default()
    }
}

/// Applies a Salt minion configuration on top of the options.
///
/// # Errors
/// Fails when it cannot be read.
pub(crate) fn apply_salt_config(path: &Path, options: CompileOptions) -> Result<CompileOptions, AgentError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| AgentError::usage(format!("cannot read `{shown}`: {e}")))?;
    let config = SaltConfig::read(&shown, &text).map_err(AgentError::Configuration)?;
    Ok(CompileOptions {
        id: config.id.unwrap_or(options.id),
        auto_order: config.state_auto_order,
        pillar_merge: config.pillar_source_merging_strategy,
        pillar_merge_lists: config.pillar_merge_lists,
        pillar_includes_override: config.pillar_includes_override_sls,
        pillar_env: config.pillarenv.or(options.pillar_env),
        state_env: config.saltenv.or(options.state_env),
        nodegroups: config.nodegroups,
        disabled_requisites: config.disabled_requisites,
        renderer: config.renderer,
        jinja_env: config.jinja_env,
        jinja_sls_env: config.jinja_sls_env,
        opts: config.opts,
        warnings: config.unused,
        ..options
    })
}

/// What templates see in `opts`: the defaults of a masterless Salt minion, overridden by the configuration.
#[must_use]
pub fn salt_opts(options: &CompileOptions, roots: &[(&str, &dyn FileTree)], test: bool) -> Map {
    let mut opts = Map::new();
    opts.insert("id", &*options.id);
    opts.insert("test", test);
    opts.insert("file_client", "local");
    opts.insert("local", true);
    opts.insert("master", "salt");
    opts.insert("root_dir", "/");
    opts.insert("hash_type", "sha256");
    opts.insert("state_top", "top.sls");
    opts.insert("failhard", false);
    opts.insert("renderer", options.renderer.as_str());
    opts.insert("state_auto_order", options.auto_order);
    opts.insert("nodegroups", options.nodegroups.clone());
    opts.insert("saltenv", options.state_env.clone());
    opts.insert("pillarenv", options.pillar_env.clone());
    for (key, files) in roots {
        let dirs = files.envs().into_iter().map(|env| {
            let root = Value::from(files.display(&env, "").trim_end_matches('/'));
            (env, Value::from(vec![root]))
        });
        opts.insert(*key, dirs.collect::<Map>());
    }
    for (key, value) in options.opts.iter() {
        opts.insert(key.clone(), value.clone());
    }
    opts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_or_a_key_that_others_can_change_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let [root, key, config] = ["root", "key", "zagent.yaml"].map(|name| dir.path().join(name));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&key, "").unwrap();
        let text = format!(
            "root: {}\nsource: {{remotes: [{{url: 'ssh://git@h/x', key: {}}}]}}\n",
            root.display(),
            key.display()
        );
        std::fs::write(&config, text).unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in [&root, &key, &config] {
            set_mode(path, 0o700);
        }
        assert!(load(Some(&config)).is_ok());
        for path in [&root, &key] {
            set_mode(path, 0o777);
            let Err(AgentError::Usage { message, hint }) = load(Some(&config)) else {
                panic!("{} is believed", path.display());
            };
            assert!(message.contains("can be written by others"), "{message}");
            assert_eq!(hint, Some(format!("fix it with `chmod go-w {}`", path.display())));
            set_mode(path, 0o700);
        }
    }

    #[test]
    fn without_configured_limits_the_compiler_uses_its_defaults() {
        let nowhere = ConfigLocation::Dir(tempfile::tempdir().unwrap().path().join("none"));
        let settings = settings::load(&nowhere, [], &[], Some("web-01")).unwrap();
        assert_eq!(compile_options(&settings).limits, TreeLimits::default());
    }
}
