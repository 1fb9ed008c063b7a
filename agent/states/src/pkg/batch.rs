//! Packages of several states in one transaction: who may come along, and whose is what came.
//!
//! A neighbour comes along only when it is done in the same way and can be had; it still answers for itself.

use zagent_compiler::Chunk;

use super::args::{PkgArgs, PkgSpec};
use super::context::{PkgContext, steps_to_changes};
use crate::{ChunkArgs, StateError};
use zagent_host::packages::{AvailablePkgs, PkgChange, PkgTarget, display_spec, satisfies};

/// Whose a package is: the tag of a state and the name of the package.
pub(crate) type BatchOwners = Vec<(String, String)>;

/// A neighbour that is done in the same way, by its tag.
pub(crate) fn batchable(chunk: &Chunk, mine: &PkgArgs) -> Option<(String, PkgArgs)> {
    let pkg_args = PkgArgs::read(&ChunkArgs::new(chunk)).ok()?;
    let is_plain =
        pkg_args.wanted.iter().all(|w| w.source.is_none() && w.version_spec.as_deref() != Some("latest"));
    let is_same = pkg_args.options == mine.options
        && pkg_args.provider == mine.provider
        && pkg_args.ignore_epoch == mine.ignore_epoch;
    (is_plain && is_same).then(|| (chunk.tag(), pkg_args))
}

/// What neighbours lack and can have, and whose it is.
pub(crate) fn batch_targets(
    pkg_ctx: &PkgContext<'_>,
    pkg_args: &PkgArgs,
    neighbours: &[(String, PkgArgs)],
    mine: &[PkgTarget],
) -> Result<(Vec<PkgTarget>, BatchOwners), StateError> {
    let db = pkg_ctx.db()?;
    let (mut targets, mut owners): (Vec<PkgTarget>, BatchOwners) = (Vec::new(), Vec::new());
    let wanted: Vec<(&String, PkgSpec)> = neighbours
        .iter()
        .flat_map(|(tag, theirs)| theirs.resolve_names(&db).into_iter().map(move |w| (tag, w)))
        .filter(|(_, w)| db.get(&w.name).is_none() && !mine.iter().any(|t| t.name == w.name))
        .collect();
    let names: Vec<String> = wanted.iter().map(|(_, w)| w.name.clone()).collect();
    if names.is_empty() {
        return Ok((targets, owners));
    }
    let offers = pkg_ctx.manager.provider.query_available(&pkg_ctx.ctx.tools(), &names, &pkg_args.options)?;
    for (tag, w) in wanted {
        let is_new = !owners.iter().any(|(_, name)| *name == w.name);
        if let Ok(target) = resolve_target(pkg_ctx, &offers, &w, pkg_args)
            && is_new
        {
            targets.push(target);
            owners.push((tag.clone(), w.name));
        }
    }
    Ok((targets, owners))
}

/// The package with the best version that will do.
pub fn resolve_target(
    pkg_ctx: &PkgContext<'_>,
    offers: &AvailablePkgs,
    wanted: &PkgSpec,
    pkg_args: &PkgArgs,
) -> Result<PkgTarget, String> {
    let offer =
        offers.get(&wanted.name).ok_or_else(|| format!("Unable to locate package {}", wanted.name))?;
    let Some(spec) = &wanted.version_spec else { return Ok(PkgTarget::from_name(&wanted.name)) };
    let scheme = pkg_ctx.manager.provider.version_scheme();
    let fits = |v: &&String| satisfies(v, spec, scheme, pkg_args.ignore_epoch, false);
    let best = offer.versions.iter().filter(fits).max_by(|a, b| scheme.compare(a, b));
    let version = best.cloned().ok_or_else(|| {
        let available = if offer.versions.is_empty() { "None".into() } else { offer.versions.join(", ") };
        let wanted = display_spec(&wanted.name, Some(spec));
        format!("No version matching '{wanted}' could be found (available: {available})")
    })?;
    Ok(PkgTarget { version: Some(version), ..PkgTarget::from_name(&wanted.name) })
}

/// Steps of two transactions as one.
pub(crate) fn merge_steps(mut first: Vec<PkgChange>, then: Vec<PkgChange>) -> Vec<PkgChange> {
    for step in then {
        match first.iter_mut().find(|f| f.name == step.name) {
            Some(before) => before.new = step.new,
            None => first.push(step),
        }
    }
    first.retain(|s| s.old != s.new);
    first
}

/// Leaves to neighbours what came for them; the rest is mine.
pub(crate) fn distribute_steps(
    pkg_ctx: &PkgContext<'_>,
    steps: Vec<PkgChange>,
    owners: &[(String, String)],
) -> Vec<PkgChange> {
    let owner =
        |step: &PkgChange| owners.iter().find(|(_, name)| *name == step.name).map(|(tag, _)| tag.clone());
    let mut kept = pkg_ctx.ctx.shared.packages.lock();
    let mut mine = Vec::new();
    for step in steps {
        match owner(&step) {
            Some(tag) => {
                let change = steps_to_changes(std::slice::from_ref(&step));
                let theirs = kept.batch_changes.entry(tag).or_default();
                for (name, change) in change.iter() {
                    theirs.insert(name.clone(), change.clone());
                }
            }
            None => mine.push(step),
        }
    }
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_transactions_are_told_as_one() {
        let step = |name: &str, old: &str, new: &str| PkgChange {
            name: name.into(),
            old: old.into(),
            new: new.into(),
        };
        let first = vec![step("a", "", "1"), step("b", "1", "2"), step("c", "1", "")];
        let all = merge_steps(first, vec![step("b", "2", "3"), step("c", "", "1"), step("d", "", "1")]);
        assert_eq!(all, [step("a", "", "1"), step("b", "1", "3"), step("d", "", "1")]);
    }
}
