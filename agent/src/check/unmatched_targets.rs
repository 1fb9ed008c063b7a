//! Targets of top files in, those that match no host out.

use std::collections::BTreeMap;

use zagent_config::Diagnostic;
use zagent_config::codes::edge;

use super::CompiledHost;

/// One warning per target that no recorded host matches. Silent while a host's top files cannot be read.
pub(super) fn unmatched_targets(compiled: &[CompiledHost]) -> Vec<Diagnostic> {
    if compiled.iter().any(|one| one.plan().is_none() && one.targets.is_empty()) {
        return Vec::new();
    }
    let mut targets = BTreeMap::new();
    for target in compiled.iter().flat_map(|one| &one.targets) {
        let key = (target.place.file.clone(), target.place.pos, target.env.clone(), target.target.clone());
        *targets.entry(key).or_insert(false) |= target.matched;
    }
    let silent = targets.into_iter().filter(|(_, matched)| !matched);
    silent
        .map(|((file, pos, env, target), _)| {
            Diagnostic::new(
                edge::SILENT_TARGET,
                format!("the target `{target}` of environment `{env}` matches no host"),
            )
            .at(file, pos)
            .hint("fix or remove the pattern, or record the grains of a host that it should match")
        })
        .collect()
}
