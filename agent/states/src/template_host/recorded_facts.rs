//! A text in, a host's facts out: facts that were written down, instead of a machine.

use zagent_compiler::TreeLimits;
use zagent_compiler::yaml::{self, YamlError};
use zagent_config::{Map, Value};

use zagent_host::facts::{FactOrigin, FactWarning, Grains};

/// Facts given whole: `--grains FILE` and `inventory/NODE.yaml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedFacts {
    facts: Map,
}

/// Why a text holds no facts.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// It is not JSON.
    #[error("cannot read facts as JSON")]
    Json(#[source] serde_json::Error),
    /// It is something else.
    #[error("facts are a mapping of names, and this is {0}")]
    Kind(&'static str),
}

impl RecordedFacts {
    /// Facts that are already a mapping.
    #[must_use]
    pub const fn new(facts: Map) -> Self {
        Self { facts }
    }

    /// Reads JSON.
    ///
    /// # Errors
    /// Fails when the text is not JSON or not a mapping.
    pub fn from_json(text: &str) -> Result<Self, RecordedError> {
        Self::from_value(Value::from_json_str(text).map_err(RecordedError::Json)?)
    }

    fn from_value(value: Value) -> Result<Self, RecordedError> {
        match value {
            Value::Map(facts) => Ok(Self::new(std::sync::Arc::unwrap_or_clone(facts))),
            other => Err(RecordedError::Kind(other.kind())),
        }
    }
}

impl Grains for RecordedFacts {
    fn get(&self, name: &str) -> Option<Value> {
        self.facts.get(name).cloned()
    }

    fn all(&self) -> Value {
        self.facts.clone().into()
    }

    fn origin(&self, name: &str) -> Option<FactOrigin> {
        self.facts.contains(name).then_some(FactOrigin::Recorded)
    }

    fn warnings(&self) -> Vec<FactWarning> {
        Vec::new()
    }
}

/// Reads YAML as states and pillars are read, and says what is wrong with a text and where.
///
/// # Errors
/// Fails when the text is not YAML.
pub fn parse_facts(text: &str) -> Result<Value, String> {
    parse_yaml(text).map_err(|error| describe_error(&error))
}

/// Reads YAML as states and pillars are read, of which JSON is a part.
pub fn parse_yaml(text: &str) -> Result<Value, Box<YamlError>> {
    yaml::load(text, &TreeLimits::default()).map_err(Box::new)
}

/// What is wrong with a text, and where.
pub(crate) fn describe_error(error: &YamlError) -> String {
    format!("{} (line {}, column {})", error.message, error.pos.line, error.pos.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_given_back_as_recorded() {
        let facts = RecordedFacts::from_json(r#"{"os": "Debian", "osrelease_info": [12]}"#).unwrap();
        assert_eq!(facts.get("os"), Some("Debian".into()));
        assert_eq!(facts.get("kernel"), None);
        assert_eq!(facts.origin("os"), Some(FactOrigin::Recorded));
        assert_eq!(facts.origin("kernel"), None);
        assert_eq!(facts.all().get("os"), Some(&"Debian".into()));
    }

    #[test]
    fn a_text_without_facts() {
        assert!(parse_facts("a: 1\nb: [\n").is_err_and(|error| error.contains("line ")));
        assert!(matches!(RecordedFacts::from_json("{"), Err(RecordedError::Json(_))));
        assert!(matches!(RecordedFacts::from_json("1"), Err(RecordedError::Kind("an integer"))));
    }
}
