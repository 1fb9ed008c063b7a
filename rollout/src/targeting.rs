//! A report in, whether a target matches its node and which stratum it belongs to out.
//!
//! Law: a node that evaluates itself and a driver that evaluates its report get the same result (held by
//! `targets_are_compound_and_match_facts`).

use serde_json::Value as Json;
use zagent_config::target::{Target, TargetError, TargetSubject};
use zagent_config::value::{Map, Value};

use crate::report::NodeReport;

/// Whether a compound target matches a node.
///
/// # Errors
/// Fails when the target is not valid; pillar and groups are not available here.
pub fn is_targeted(target: &str, report: &NodeReport) -> Result<bool, TargetError> {
    Target::parse_reported(target)?.matches(&ReportSubject::new(report))
}

/// The nodes that a target matches.
pub(crate) fn targets<'r>(
    target: &str,
    reports: impl IntoIterator<Item = &'r NodeReport>,
) -> Result<Vec<&'r NodeReport>, TargetError> {
    let target = Target::parse_reported(target)?;
    let mut found = vec![];
    for report in reports {
        if target.matches(&ReportSubject::new(report))? {
            found.push(report);
        }
    }
    Ok(found)
}

/// The stratum of a node: the values of these facts, `-` for a missing one.
#[must_use]
pub fn stratum(report: &NodeReport, by: &[String]) -> String {
    let mut parts = by.iter().map(|name| {
        let word = match (report.facts.get(name), name.as_str()) {
            (Some(fact), _) => fact_text(fact),
            (None, "os") => report.os.clone(),
            (None, "arch") => report.arch.clone(),
            (None, _) => String::new(),
        };
        if word.is_empty() { "-".to_owned() } else { word }
    });
    let first = parts.next().unwrap_or_else(|| "all".to_owned());
    parts.fold(first, |all, part| all + "/" + &part)
}

fn fact_text(fact: &Json) -> String {
    match fact {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(list) => list.iter().map(fact_text).collect::<Vec<_>>().join("+"),
        other => other.to_string(),
    }
}

/// A node as its report shows it.
struct ReportSubject<'r> {
    report: &'r NodeReport,
    none: Map,
}

impl<'r> ReportSubject<'r> {
    fn new(report: &'r NodeReport) -> Self {
        Self { report, none: Map::new() }
    }
}

impl TargetSubject for ReportSubject<'_> {
    fn id(&self) -> &str {
        self.report.id.as_str()
    }

    fn grain(&self, name: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::from(text));
        match self.report.facts.get(name) {
            Some(fact) => serde_json::from_value(fact.clone()).ok(),
            None => match name {
                "id" => text(self.id()),
                "os" => text(&self.report.os),
                "arch" => text(&self.report.arch),
                _ => None,
            },
        }
    }

    fn grains(&self) -> Value {
        let mut all = Map::new();
        for name in ["id", "os", "arch"].into_iter().chain(self.report.facts.keys().map(String::as_str)) {
            if let Some(value) = self.grain(name) {
                all.insert(name, value);
            }
        }
        Value::from(all)
    }

    fn pillar(&self) -> Value {
        Value::empty_map()
    }

    fn nodegroups(&self) -> &Map {
        &self.none
    }

    fn resources(&self) -> Vec<(String, String)> {
        vec![]
    }
}
