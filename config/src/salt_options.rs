//! The options of a Salt minion in, a warning for each that would change a result in Salt and is not used here out.

use crate::codes::configuration as code;
use crate::diagnostic::Diagnostic;
use crate::value::{Map, Value};

/// The value with which an option changes nothing.
#[derive(Clone, Copy)]
enum Idle {
    /// Anything that is false or empty.
    Empty,
    /// `true`.
    True,
    /// This text, or a list of it alone.
    Text(&'static str),
}

impl Idle {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Empty => !value.is_truthy(),
            Self::True => value.is_null() || value.as_bool() == Some(true),
            Self::Text(text) => match value {
                Value::List(list) => list.iter().all(|item| item.as_str() == Some(text)),
                other => !other.is_truthy() || other.as_str() == Some(text),
            },
        }
    }
}

/// Options that zagent does not use: the name, when it changes nothing, and what to use instead.
const UNUSED: [(&str, Idle, &str); 41] = [
    ("autoload_dynamic_modules", Idle::True, "modules of `_states` are always used"),
    ("backup_mode", Idle::Empty, "set `backup: minion` on the states, or use `zagent run --revert`"),
    ("clean_dynamic_modules", Idle::True, "modules of `_states` are read from the tree in every run"),
    ("cmd_blacklist_glob", Idle::Empty, "remove it: every command of a state runs"),
    ("cmd_safe", Idle::True, "remove it: `cmd.run` of a template runs a shell as `cmd.shell` does"),
    ("cmd_whitelist_glob", Idle::Empty, "remove it: every command of a state runs"),
    ("decrypt_pillar_default", Idle::Text("gpg"), "name the renderer in each entry of `decrypt_pillar`"),
    ("disable_grains", Idle::Empty, "remove it: all facts are available"),
    ("disable_modules", Idle::Empty, "remove it: all modules are available"),
    ("ext_pillar", Idle::Empty, "use `ext_pillar` of zagent.yaml: executables that print pillar data"),
    ("ext_pillar_first", Idle::Empty, "remove it: external pillars are merged last"),
    ("file_ignore_glob", Idle::Empty, "remove these files from the tree, or use `exclude_pat`"),
    ("file_ignore_regex", Idle::Empty, "remove these files from the tree, or use `exclude_pat`"),
    ("fileserver_backend", Idle::Text("roots"), "the tree is the Git remote, or `--states`"),
    ("fileserver_followsymlinks", Idle::True, "remove it: links inside the tree are followed"),
    ("fileserver_ignoresymlinks", Idle::Empty, "remove these links from the tree"),
    ("fips_mode", Idle::Empty, "remove it"),
    ("grains", Idle::Empty, "put these facts into a file of `/etc/zagent/facts.d`"),
    ("grains_blacklist", Idle::Empty, "remove it: all facts are available"),
    ("grains_dirs", Idle::Empty, "use executables in `/etc/zagent/facts.d`"),
    ("hash_type", Idle::Text("sha256"), "write the kind of digest in front of it: `md5=…`"),
    ("lock_saltenv", Idle::Empty, "remove it, and set the environment on the command line"),
    ("master_tops", Idle::Empty, "use `master_tops` of zagent.yaml: executables that print tops"),
    ("mock", Idle::Empty, "use `--test`"),
    ("module_dirs", Idle::Empty, "put modules into `_states` of the tree"),
    ("pillar_opts", Idle::Empty, "use `opts` in templates"),
    ("pillar_safe_render_error", Idle::True, "remove it: errors of the pillar always show their place"),
    ("providers", Idle::Empty, "remove it: the provider follows from the facts of the host"),
    ("proxy_host", Idle::Empty, "set `https_proxy` in the environment of the agent"),
    ("render_dirs", Idle::Empty, "use the renderers that zagent has"),
    ("renderer_blacklist", Idle::Empty, "remove it"),
    ("renderer_whitelist", Idle::Empty, "remove it"),
    ("snapper_states", Idle::Empty, "use `zagent run --revert`"),
    ("startup_states", Idle::Empty, "the agent applies the states when it starts"),
    ("state_aggregate", Idle::Empty, "set `aggregate: true` on the states"),
    ("state_top", Idle::Text("top.sls"), "rename the top file to `top.sls`"),
    ("states_dirs", Idle::Empty, "put modules into `_states` of the tree"),
    ("sudo_user", Idle::Empty, "run the agent as root"),
    ("test", Idle::Empty, "run with `--test`: without it the states are applied"),
    ("user", Idle::Text("root"), "run the agent as this user"),
    ("whitelist_modules", Idle::Empty, "remove it: all modules are available"),
];

/// A warning for each option that is not used, in the order of the file.
pub(crate) fn unused(file: &str, opts: &Map) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, idle, hint) in UNUSED {
        let Some(entry) = opts.entry(name).filter(|entry| !idle.holds(&entry.value)) else { continue };
        let message = format!("the Salt option `{name}` changes results in Salt and is not used here");
        found.push(Diagnostic::new(code::SALT_OPTION, message).at(file, entry.at).hint(hint));
    }
    crate::sorted::sort_by_key(&mut found, |diagnostic| diagnostic.location.as_ref().map(|place| place.pos));
    found
}

#[cfg(test)]
mod tests {
    use crate::salt_config::SaltConfig;

    #[test]
    fn options_that_change_results_are_named() {
        let text = "test: true\nlog_level: debug\nhash_type: sha256\nfileserver_backend: [roots]\n\
                    state_aggregate: [pkg]\nfile_ignore_glob: []\ncmd_safe: false\nuser: root\nfailhard: true\n";
        let config = SaltConfig::read("minion", text).unwrap();
        let lines: Vec<String> = config.unused.iter().map(ToString::to_string).collect();
        let line = |at: &str, name: &str| {
            format!(
                "minion:{at}: ZA0014: the Salt option `{name}` changes results in Salt and is not used here"
            )
        };
        assert_eq!(lines, [line("1:1", "test"), line("5:1", "state_aggregate"), line("7:1", "cmd_safe")]);
    }
}
