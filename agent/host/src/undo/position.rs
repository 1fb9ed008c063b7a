//! Where a revert stands before its first step: how much of the run is still there to be undone.
//!
//! Law: paths that depend on each other (one is in the other, or moved to it) are judged together. A path alone may
//! look the same before and after a run; all of them together tell whether a revert was here before (held by
//! `a_revert_may_be_cut_off_and_repeated`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::path_history::PathHistories;
use crate::fs::{FileSystem, FsError};

/// For each path the number of the last change that is still to be undone; none where nobody can tell, because other hands
/// were there or a revert was cut off in the middle of a step.
#[derive(Debug, Default)]
pub(crate) struct Positions<'a>(HashMap<&'a Path, u64>);

impl<'a> Positions<'a> {
    /// Looks at everything that the run touched.
    pub(crate) fn find(histories: &PathHistories<'a>, fs: &dyn FileSystem) -> Result<Self, FsError> {
        let mut found = HashMap::new();
        for family in related_paths(histories) {
            let mut position = find_position(histories, fs, &family, true)?;
            if position.is_none() {
                position = self::find_position(histories, fs, &family, false)?;
            }
            if let Some(position) = position {
                found.extend(family.into_iter().map(|path| (path, position)));
            }
        }
        Ok(Self(found))
    }

    /// The last change that is still to be undone.
    pub(crate) fn for_path(&self, path: &Path) -> Option<u64> {
        self.0.get(path).copied()
    }
}

/// Paths that depend on each other.
fn related_paths<'a>(histories: &PathHistories<'a>) -> Vec<Vec<&'a Path>> {
    let paths: Vec<_> = histories.paths().collect();
    let index: HashMap<_, _> = paths.iter().enumerate().map(|(at, path)| (*path, at)).collect();
    let mut heads: Vec<usize> = (0..paths.len()).collect();
    fn find_root(heads: &mut [usize], mut at: usize) -> usize {
        while heads[at] != at {
            heads[at] = heads[heads[at]];
            at = heads[at];
        }
        at
    }
    let above = paths.iter().flat_map(|path| path.ancestors().skip(1).map(move |above| (*path, above)));
    for (one, other) in above.chain(histories.moves().iter().copied()) {
        if let (Some(one), Some(other)) = (index.get(one), index.get(other)) {
            let (one, other) = (find_root(&mut heads, *one), find_root(&mut heads, *other));
            heads[one] = other;
        }
    }
    let mut families: BTreeMap<usize, Vec<&'a Path>> = BTreeMap::new();
    for (at, path) in paths.iter().enumerate() {
        families.entry(find_root(&mut heads, at)).or_default().push(path);
    }
    families.into_values().collect()
}

/// The earliest point of the run at which all these paths were as they are now.
fn find_position(
    histories: &PathHistories<'_>,
    fs: &dyn FileSystem,
    family: &[&Path],
    with_time: bool,
) -> Result<Option<u64>, FsError> {
    // How many more paths fit from each point on than fitted before it.
    let mut steps: BTreeMap<u64, i64> = BTreeMap::from([(0, 0)]);
    for path in family {
        let mut points = BTreeSet::from([0]);
        path.ancestors().for_each(|part| points.extend(histories.change_seqs(part)));
        let mut did_fit = false;
        for point in points {
            let does_fit = histories.matches_after(fs, path, point, with_time)?;
            *steps.entry(point).or_default() += i64::from(does_fit) - i64::from(did_fit);
            did_fit = does_fit;
        }
    }
    let mut fitting = 0;
    for (point, more) in steps {
        fitting += more;
        if usize::try_from(fitting) == Ok(family.len()) {
            return Ok(Some(point));
        }
    }
    Ok(None)
}
