//! Removes excluded ids from high data: by literal id, or by SLS with patterns.

use zagent_config::codes::merge as codes;
use zagent_config::{Diagnostic, Value, glob, suggest};

use crate::high::{Exclusion, HighData};
use crate::session::CompileSession;

/// What one exclusion removes.
enum ExcludeRule<'e> {
    Id(&'e str),
    Sls(&'e str),
    Nothing,
}

impl<'e> ExcludeRule<'e> {
    fn new(exclusion: &'e Exclusion) -> Self {
        match &exclusion.item {
            Value::Str(sls) => Self::Sls(sls),
            Value::Map(map) if map.len() == 1 => {
                if let Some(sls) = map.get("sls").and_then(Value::as_str) {
                    Self::Sls(sls)
                } else if let Some(id) = map.get("id").and_then(Value::as_str) {
                    Self::Id(id)
                } else {
                    Self::Nothing
                }
            }
            _ => Self::Nothing,
        }
    }

    fn matches(&self, id: &str, sls: &str) -> bool {
        match self {
            Self::Id(wanted) => *wanted == id,
            Self::Sls(pattern) => !id.starts_with("__") && glob::matches(pattern, sls),
            Self::Nothing => false,
        }
    }
}

/// Applies and clears the excludes; returns a warning for each that matched nothing.
pub(crate) fn exclude(session: &CompileSession, high: &mut HighData) -> Vec<Diagnostic> {
    let exclusions = std::mem::take(&mut high.exclude);
    let all: Vec<ExcludeRule<'_>> = exclusions.iter().map(ExcludeRule::new).collect();
    let mut used = vec![false; all.len()];
    if all.is_empty() {
        return Vec::new();
    }
    high.retain(|id, body| {
        let mut kept = true;
        for (takes, used) in all.iter().zip(&mut used) {
            if takes.matches(id, &body.sls) {
                *used = true;
                kept = false;
            }
        }
        kept
    });
    let unused = exclusions.iter().zip(&all).zip(used).filter(|(_, used)| !used);
    unused
        .map(|((e, takes), _)| {
            let mut diagnostic =
                session.diagnostic(codes::EXCLUDE_NOTHING, e.spot, "this exclude matches nothing");
            let near = match takes {
                ExcludeRule::Id(id) => suggest::nearest(id, high.iter().map(|(id, _)| &**id)),
                ExcludeRule::Sls(sls) => suggest::nearest(sls, high.iter().map(|(_, body)| &*body.sls)),
                ExcludeRule::Nothing => None,
            };
            diagnostic.hint = near.map(|near| format!("did you mean `{near}`?"));
            diagnostic
        })
        .collect()
}
