//! `global_state_conditions` of a Salt minion in, which states may run on this node out.

use zagent_compiler::{Chunk, FunctionCall, TemplateHost};
use zagent_config::{Map, Value};

/// The option of a Salt minion.
const OPTION: &str = "global_state_conditions";
/// Matches every state.
const EVERY_STATE: &str = "*";

/// Each entry of the option: what it applies to, and whether one of its targets matches this node.
#[derive(Debug, Default)]
pub struct GlobalConditions(Vec<(String, bool)>);

impl GlobalConditions {
    /// Evaluates the option: a mapping of `*`, `module` or `module.function` to compound targets.
    ///
    /// # Errors
    /// Fails with the text of a target that cannot be evaluated.
    pub fn evaluate(opts: &Map, host: &dyn TemplateHost) -> Result<Self, String> {
        let entries = opts.get(OPTION).and_then(Value::as_map);
        let mut all = Vec::new();
        for (key, targets) in entries.into_iter().flat_map(|map| map.iter()) {
            let targets: Vec<&Value> = match targets {
                Value::Str(_) => vec![targets],
                Value::List(list) => list.iter().collect(),
                _ => Vec::new(),
            };
            let mut is_met = false;
            for target in &targets {
                let call = FunctionCall {
                    function: "match.compound".into(),
                    args: vec![(*target).clone()],
                    kwargs: Map::new(),
                };
                let answer = host.call(&call).map_err(|error| {
                    format!(
                        "cannot evaluate `{}` of `{OPTION}`: {error:?}",
                        zagent_compiler::name_text(target)
                    )
                })?;
                is_met |= answer.is_truthy();
            }
            if !targets.is_empty() {
                all.push((key.json_key(), is_met));
            }
        }
        Ok(Self(all))
    }

    /// True when no entry is about this function, or a target of one that is matches.
    pub(crate) fn allow(&self, chunk: &Chunk, fun: &str) -> bool {
        let is_about = |key: &str| {
            key == EVERY_STATE
                || key == &*chunk.state
                || key.strip_prefix(&*chunk.state).and_then(|k| k.strip_prefix('.')) == Some(fun)
        };
        let mut about = self.0.iter().filter(|(key, _)| is_about(key)).peekable();
        about.peek().is_none() || about.any(|(_, is_met)| *is_met)
    }
}
