//! A Salt minion configuration in, the options that zagent uses out; all other options stay visible to templates.

use std::str::FromStr;
use std::sync::Arc;

use crate::codes::configuration as code;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::salt_options;
use crate::suggest;
use crate::value::{Map, MergeStrategy, Pos, Value};
use crate::yaml::{self, ScalarSchema};

/// The renderer pipe of a file without a shebang, in Salt as here.
pub const RENDERER: &str = "jinja|yaml";

/// How the top files of several environments are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopMerge {
    /// Each environment from its own top file, otherwise from the first top file that names it.
    #[default]
    Merge,
    /// All of them, with lists concatenated.
    MergeAll,
    /// Only the top file of the requested environment.
    Same,
}

impl FromStr for TopMerge {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "merge" => Ok(Self::Merge),
            "merge_all" => Ok(Self::MergeAll),
            "same" => Ok(Self::Same),
            _ => Err(()),
        }
    }
}

/// The Salt minion options that zagent uses, with Salt's defaults.
#[derive(Clone, Debug)]
pub struct SaltConfig {
    /// `id`.
    pub id: Option<String>,
    /// `nodegroups`.
    pub nodegroups: Map,
    /// `failhard`.
    pub failhard: bool,
    /// `state_auto_order`.
    pub state_auto_order: bool,
    /// `jinja_env`, with the older `jinja_trim_blocks` and `jinja_lstrip_blocks` merged in.
    pub jinja_env: Map,
    /// `jinja_sls_env`, with the same options merged in.
    pub jinja_sls_env: Map,
    /// `pillar_merge_lists`.
    pub pillar_merge_lists: bool,
    /// `pillar_source_merging_strategy`.
    pub pillar_source_merging_strategy: MergeStrategy,
    /// `pillar_includes_override_sls`.
    pub pillar_includes_override_sls: bool,
    /// `disabled_requisites`.
    pub disabled_requisites: Vec<String>,
    /// `saltenv`, or the older `environment`.
    pub saltenv: Option<String>,
    /// `pillarenv`; the state environment with `pillarenv_from_saltenv`.
    pub pillarenv: Option<String>,
    /// `renderer`.
    pub renderer: String,
    /// `state_top`.
    pub state_top: String,
    /// `top_file_merging_strategy`.
    pub top_file_merging_strategy: TopMerge,
    /// `env_order`.
    pub env_order: Vec<String>,
    /// `default_top`.
    pub default_top: String,
    /// `master_tops_first`.
    pub master_tops_first: bool,
    /// `grains`: facts set by hand.
    pub grains: Map,
    /// `file_roots`, directories by environment.
    pub file_roots: Vec<(String, Vec<String>)>,
    /// `pillar_roots`, directories by environment.
    pub pillar_roots: Vec<(String, Vec<String>)>,
    /// The whole configuration as written, for `opts` in templates.
    pub opts: Map,
    /// A warning for every option that would change a result in Salt and is not used here.
    pub unused: Vec<Diagnostic>,
}

impl Default for SaltConfig {
    fn default() -> Self {
        Self {
            id: None,
            nodegroups: Map::new(),
            failhard: false,
            state_auto_order: true,
            jinja_env: Map::new(),
            jinja_sls_env: Map::new(),
            pillar_merge_lists: false,
            pillar_source_merging_strategy: MergeStrategy::Smart,
            pillar_includes_override_sls: false,
            disabled_requisites: Vec::new(),
            saltenv: None,
            pillarenv: None,
            renderer: RENDERER.into(),
            state_top: "top.sls".into(),
            top_file_merging_strategy: TopMerge::Merge,
            env_order: Vec::new(),
            default_top: "base".into(),
            master_tops_first: false,
            grains: Map::new(),
            file_roots: Vec::new(),
            pillar_roots: Vec::new(),
            opts: Map::new(),
            unused: Vec::new(),
        }
    }
}

impl SaltConfig {
    /// Reads the text of a file, YAML or JSON; an empty one gives Salt's defaults.
    ///
    /// # Errors
    /// Fails when the text is not a mapping, and with every used option that has an invalid value.
    pub fn read(file: &str, text: &str) -> Result<Self, Diagnostics> {
        let value = match Value::from_json_str(text) {
            Ok(value) => value,
            Err(_) => yaml::load(text, ScalarSchema::Salt).map_err(|diagnostic| {
                Diagnostic::new(code::SALT_CONFIG, diagnostic.message).at(file, diagnostic.pos)
            })?,
        };
        let opts = match value {
            Value::Null => Arc::default(),
            Value::Map(map) => map,
            other => {
                let message = format!("a Salt configuration must be a mapping, not {}", other.kind());
                return Err(Diagnostic::new(code::SALT_CONFIG, message).at(file, Pos::NONE).into());
            }
        };
        Self::from_opts(file, &opts)
    }

    /// Reads the options from a parsed configuration.
    ///
    /// # Errors
    /// Fails with every used option that has an invalid value.
    pub fn from_opts(file: &str, opts: &Map) -> Result<Self, Diagnostics> {
        let mut reader = OptionReader { file, opts, diagnostics: Diagnostics::default() };
        let mut config = Self::default();
        config.id = reader.text("id");
        config.nodegroups = reader.map("nodegroups");
        config.failhard = reader.flag("failhard", config.failhard);
        config.state_auto_order = reader.flag("state_auto_order", config.state_auto_order);
        config.jinja_env = reader.map("jinja_env");
        config.jinja_sls_env = reader.map("jinja_sls_env");
        for (old, new) in [("jinja_trim_blocks", "trim_blocks"), ("jinja_lstrip_blocks", "lstrip_blocks")] {
            if reader.flag(old, false) {
                config.jinja_env.insert(new, true);
                config.jinja_sls_env.insert(new, true);
            }
        }
        config.pillar_merge_lists = reader.flag("pillar_merge_lists", false);
        config.pillar_source_merging_strategy =
            reader.choice("pillar_source_merging_strategy", &MergeStrategy::NAMES);
        config.pillar_includes_override_sls = reader.flag("pillar_includes_override_sls", false);
        config.disabled_requisites = reader.texts("disabled_requisites");
        config.saltenv = reader.text("saltenv").or_else(|| reader.text("environment"));
        config.pillarenv = reader.text("pillarenv");
        if config.pillarenv.is_none() && reader.flag("pillarenv_from_saltenv", false) {
            config.pillarenv.clone_from(&config.saltenv);
        }
        config.renderer = reader.text("renderer").unwrap_or(config.renderer);
        config.state_top = reader.text("state_top").unwrap_or(config.state_top);
        config.top_file_merging_strategy =
            reader.choice("top_file_merging_strategy", &["merge", "merge_all", "same"]);
        config.env_order = reader.texts("env_order");
        config.default_top = reader.text("default_top").unwrap_or(config.default_top);
        config.master_tops_first = reader.flag("master_tops_first", false);
        config.grains = reader.map("grains");
        config.file_roots = reader.roots("file_roots");
        config.pillar_roots = reader.roots("pillar_roots");
        reader.check_flow_options();
        config.unused = salt_options::unused(file, opts);
        config.opts = opts.clone();
        let mut diagnostics = reader.diagnostics;
        crate::sorted::sort_by_key(&mut diagnostics.0, |diagnostic| {
            diagnostic.location.as_ref().map(|place| place.pos)
        });
        diagnostics.into_result().map(|()| config)
    }
}

struct OptionReader<'o> {
    file: &'o str,
    opts: &'o Map,
    diagnostics: Diagnostics,
}

impl OptionReader<'_> {
    /// The value of an option that is present and not null.
    fn get(&self, name: &str) -> Option<&Value> {
        self.opts.get(name).filter(|value| !value.is_null())
    }

    fn report_wrong_type(&mut self, name: &str, want: &str) {
        let pos = self.opts.entry(name).map_or(Pos::NONE, |entry| entry.at);
        let message = format!("the option `{name}` must be {want}");
        self.diagnostics.push(Diagnostic::new(code::SALT_CONFIG, message).at(self.file, pos));
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.get(name)? {
            Value::Str(text) => Some(text.to_string()),
            Value::Int(n) => Some(n.to_string()),
            _ => {
                self.report_wrong_type(name, "text");
                None
            }
        }
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.get(name) {
            None => default,
            Some(Value::Bool(b)) => *b,
            Some(Value::Int(n)) => *n != 0,
            Some(_) => {
                self.report_wrong_type(name, "true or false");
                default
            }
        }
    }

    fn map(&mut self, name: &str) -> Map {
        match self.get(name) {
            None => Map::new(),
            Some(Value::Map(map)) => (**map).clone(),
            Some(_) => {
                self.report_wrong_type(name, "a mapping");
                Map::new()
            }
        }
    }

    /// Options that the run reads from `opts`.
    fn check_flow_options(&mut self) {
        if self.get("global_state_conditions").is_some_and(|value| value.as_map().is_none()) {
            self.report_wrong_type("global_state_conditions", "a mapping of states to targets");
        }
        if self.get("state_max_parallel").is_some_and(|value| value.as_int().is_none()) {
            self.report_wrong_type("state_max_parallel", "a number");
        }
    }

    /// A list of texts, or one text.
    fn texts(&mut self, name: &str) -> Vec<String> {
        match self.get(name).map(texts) {
            None => Vec::new(),
            Some(Some(texts)) => texts,
            Some(None) => {
                self.report_wrong_type(name, "a list of texts");
                Vec::new()
            }
        }
    }

    fn choice<T: FromStr + Default>(&mut self, name: &str, names: &[&'static str]) -> T {
        let Some(value) = self.get(name) else { return T::default() };
        let text = value.as_str().unwrap_or_default().to_owned();
        text.parse().unwrap_or_else(|_| {
            let near = suggest::nearest(&text, names.iter().copied());
            self.report_wrong_type(name, &format!("one of {}", names.join(", ")));
            if let (Some(near), Some(diagnostic)) = (near, self.diagnostics.0.last_mut()) {
                diagnostic.hint = Some(format!("did you mean `{near}`?"));
            }
            T::default()
        })
    }

    fn roots(&mut self, name: &str) -> Vec<(String, Vec<String>)> {
        let map = self.map(name);
        let mut roots = Vec::with_capacity(map.len());
        for (env, dirs) in map.iter() {
            match texts(dirs) {
                Some(dirs) => roots.push((env.json_key(), dirs)),
                None => self.report_wrong_type(name, "a list of directories for each environment"),
            }
        }
        roots
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Str(text) => Some(vec![text.to_string()]),
        Value::List(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_salts_defaults() {
        let text = |config: SaltConfig| format!("{config:?}");
        assert_eq!(text(SaltConfig::read("minion", "").unwrap()), text(SaltConfig::default()));
        assert_eq!(text(SaltConfig::read("minion", "{}").unwrap()), text(SaltConfig::default()));
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = SaltConfig::read(
            "minion",
            "id: web1\nfailhard: yes\njinja_trim_blocks: on\njinja_sls_env: {lstrip_blocks: true}\n\
             pillar_source_merging_strategy: overwrite\nenvironment: dev\npillarenv_from_saltenv: True\n\
             disabled_requisites: require\nnodegroups:\n  a: L@web1,b\nfile_roots:\n  base:\n    - /srv/salt\nmine: [1]\n",
        )
        .unwrap();
        let json = SaltConfig::read(
            "minion.json",
            r#"{"id": "web1", "failhard": true, "jinja_trim_blocks": true, "jinja_sls_env": {"lstrip_blocks": true},
            "pillar_source_merging_strategy": "overwrite", "environment": "dev", "pillarenv_from_saltenv": true,
            "disabled_requisites": "require", "nodegroups": {"a": "L@web1,b"},
            "file_roots": {"base": ["/srv/salt"]}, "mine": [1]}"#,
        )
        .unwrap();
        let without_places =
            |config: &SaltConfig| format!("{:?}", SaltConfig { opts: Map::new(), ..config.clone() });
        assert_eq!(without_places(&yaml), without_places(&json));
        assert_eq!(yaml.opts, json.opts);
        assert!(yaml.failhard && yaml.state_auto_order);
        assert_eq!(yaml.pillar_source_merging_strategy, MergeStrategy::Overwrite);
        assert_eq!((yaml.saltenv.as_deref(), yaml.pillarenv.as_deref()), (Some("dev"), Some("dev")));
        assert_eq!(yaml.jinja_env.get("trim_blocks"), Some(&Value::Bool(true)));
        assert_eq!(yaml.jinja_sls_env.len(), 2);
        assert_eq!(yaml.disabled_requisites, ["require"]);
        assert_eq!(yaml.file_roots, [("base".to_owned(), vec!["/srv/salt".to_owned()])]);
        assert!(yaml.opts.contains("mine"));
    }

    #[test]
    fn invalid_values_are_reported_together() {
        let text = "failhard: maybe\nnodegroups: 5\npillar_source_merging_strategy: smrt\n";
        let diagnostics = SaltConfig::read("minion", text).unwrap_err();
        let lines: Vec<String> = diagnostics.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "minion:1:1: ZA0012: the option `failhard` must be true or false",
                "minion:2:1: ZA0012: the option `nodegroups` must be a mapping",
                "minion:3:1: ZA0012: the option `pillar_source_merging_strategy` must be one of smart, recurse, \
                 aggregate, overwrite, none",
            ]
        );
        assert_eq!(diagnostics.0[2].hint.as_deref(), Some("did you mean `smart`?"));
        assert!(SaltConfig::read("minion", "[1]").is_err());
        assert!(SaltConfig::read("minion", "a: [").is_err());
    }
}
