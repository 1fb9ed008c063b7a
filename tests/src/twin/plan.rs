//! The table of formulas in, a plan for each of them out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_yaml::{Mapping, Value};

/// The plan for one formula.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, without `-formula`.
    pub name: String,
    /// Its checkout.
    pub dir: PathBuf,
    /// What is applied.
    pub sls: Vec<String>,
    /// True to use its example pillar.
    pub example: bool,
    /// Pillar that is merged over the example, as JSON: Salt reads more plain words as other types than YAML 1.2 does.
    pub pillar: String,
    /// Options of the run, for a formula that only Salt accepts without them.
    pub options: String,
    /// Prepares the host for it, as a shell script.
    pub setup: String,
    /// Why it cannot run here.
    pub out: String,
    /// Differences with a reason: a part of the difference line, and the reason.
    pub explained: Vec<(String, String)>,
}

impl Plan {
    /// What a recording depends on.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{:?} {} {} {}", self.sls, self.example, self.pillar, self.setup)
    }

    /// Its example pillar.
    #[must_use]
    pub fn example_text(&self) -> String {
        let names = ["pillar.example", "pillar.example.yaml"];
        names.iter().find_map(|name| fs::read_to_string(self.dir.join(name)).ok()).unwrap_or_default()
    }
}

/// All formulas below a directory, by name.
///
/// # Panics
/// When the table is wrong, or names something that does not exist.
#[must_use]
pub fn plans(dir: &Path) -> Vec<Plan> {
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/formulas.yaml")).expect("the table");
    let table: Mapping = serde_yaml::from_str(&table).unwrap_or_else(|e| panic!("formulas.yaml: {e}"));
    let plan = |(name, told): (&Value, &Value)| {
        let name = name.as_str().expect("a formula has a name").to_owned();
        let empty = Mapping::new();
        let told = told.as_mapping().unwrap_or(&empty);
        let text = |key: &str| told.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |value: &Value| {
            value.as_sequence().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let pairs = |value: &Value| {
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            value.as_mapping().into_iter().flatten().map(|(k, v)| (text(k), text(v))).collect()
        };
        let plan = Plan {
            dir: dir.join(format!("{name}-formula")),
            sls: told.get("sls").map_or_else(|| vec![name.clone()], list),
            example: told.get("example").and_then(Value::as_bool).unwrap_or(true),
            pillar: told
                .get("pillar")
                .map_or_else(String::new, |v| serde_json::to_string(v).expect("it was YAML")),
            options: text("options"),
            setup: text("setup"),
            out: text("out"),
            explained: told.get("explained").map_or_else(Vec::new, pairs),
            name,
        };
        assert!(!plan.out.is_empty() || plan.dir.is_dir(), "no {}", plan.dir.display());
        plan
    };
    table.iter().map(plan).collect()
}
