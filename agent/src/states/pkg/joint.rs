//! Packages of several states in one transaction: who may come along, and whose is what came.
//!
//! Law: a neighbour comes along only when it is done in the same way and can be had; it still answers for itself.

use zagent_compiler::Chunk;

use super::asked::{Asked, Wanted};
use super::desk::{Desk, changes};
use crate::host::packages::{Offers, Step, Target, fulfils, shown_spec};
use crate::states::{Args, Failure};

/// Whose a package is: the tag of a state and the name of the package.
pub(super) type Owners = Vec<(String, String)>;

/// A neighbour that is done in the same way, by its tag.
pub(super) fn alike(chunk: &Chunk, mine: &Asked) -> Option<(String, Asked)> {
    let asked = Asked::read(&Args::new(chunk)).ok()?;
    let is_plain = asked.wanted.iter().all(|w| w.source.is_none() && w.spec.as_deref() != Some("latest"));
    let is_same = asked.options == mine.options
        && asked.provider == mine.provider
        && asked.ignore_epoch == mine.ignore_epoch;
    (is_plain && is_same).then(|| (chunk.tag(), asked))
}

/// What neighbours lack and can have, and whose it is.
pub(super) fn along(
    desk: &Desk<'_>,
    asked: &Asked,
    neighbours: &[(String, Asked)],
    mine: &[Target],
) -> Result<(Vec<Target>, Owners), Failure> {
    let db = desk.db()?;
    let (mut targets, mut owners): (Vec<Target>, Owners) = (Vec::new(), Vec::new());
    let wanted: Vec<(&String, Wanted)> = neighbours
        .iter()
        .flat_map(|(tag, theirs)| theirs.wanted_in(&db).into_iter().map(move |w| (tag, w)))
        .filter(|(_, w)| db.get(&w.name).is_none() && !mine.iter().any(|t| t.name == w.name))
        .collect();
    let names: Vec<String> = wanted.iter().map(|(_, w)| w.name.clone()).collect();
    if names.is_empty() {
        return Ok((targets, owners));
    }
    let offers = desk.chosen.provider.offers(&desk.scene.tools(), &names, &asked.options)?;
    for (tag, w) in wanted {
        let is_new = !owners.iter().any(|(_, name)| *name == w.name);
        if let Ok(target) = resolve(desk, &offers, &w, asked)
            && is_new
        {
            targets.push(target);
            owners.push((tag.clone(), w.name));
        }
    }
    Ok((targets, owners))
}

/// The package with the best version that will do.
pub(super) fn resolve(
    desk: &Desk<'_>,
    offers: &Offers,
    wanted: &Wanted,
    asked: &Asked,
) -> Result<Target, String> {
    let offer =
        offers.get(&wanted.name).ok_or_else(|| format!("Unable to locate package {}", wanted.name))?;
    let Some(spec) = &wanted.spec else { return Ok(Target::named(&wanted.name)) };
    let scheme = desk.chosen.provider.scheme();
    let fits = |v: &&String| fulfils(v, spec, scheme, asked.ignore_epoch, false);
    let best = offer.versions.iter().filter(fits).max_by(|a, b| scheme.compare(a, b));
    let version = best.cloned().ok_or_else(|| {
        let available = if offer.versions.is_empty() { "None".into() } else { offer.versions.join(", ") };
        let wanted = shown_spec(&wanted.name, Some(spec));
        format!("No version matching '{wanted}' could be found (available: {available})")
    })?;
    Ok(Target { version: Some(version), ..Target::named(&wanted.name) })
}

/// Steps of two transactions as one.
pub(super) fn joined(mut first: Vec<Step>, then: Vec<Step>) -> Vec<Step> {
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
pub(super) fn share(desk: &Desk<'_>, steps: Vec<Step>, owners: &[(String, String)]) -> Vec<Step> {
    let owner = |step: &Step| owners.iter().find(|(_, name)| *name == step.name).map(|(tag, _)| tag.clone());
    let mut kept = desk.scene.shared.packages.lock();
    let mut mine = Vec::new();
    for step in steps {
        match owner(&step) {
            Some(tag) => {
                let change = changes(std::slice::from_ref(&step));
                let theirs = kept.brought.entry(tag).or_default();
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
        let step =
            |name: &str, old: &str, new: &str| Step { name: name.into(), old: old.into(), new: new.into() };
        let first = vec![step("a", "", "1"), step("b", "1", "2"), step("c", "1", "")];
        let all = joined(first, vec![step("b", "2", "3"), step("c", "", "1"), step("d", "", "1")]);
        assert_eq!(all, [step("a", "", "1"), step("b", "1", "3"), step("d", "", "1")]);
    }
}
