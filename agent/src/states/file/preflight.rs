//! What `file.symlink` and `file.hardlink` look at first, in words of their own.

use std::path::Path;

use super::owner::Owner;
use crate::states::Failure;

/// Fails in Salt's words when a user or group does not exist.
///
/// # Errors
/// Fails then.
pub(super) fn preflight(owner: &Owner) -> Result<(), Failure> {
    let user = owner.user().filter(|who| who.uid().is_none()).map(|who| format!("User {who} does not exist"));
    let group =
        owner.group().filter(|who| who.gid().is_none()).map(|who| format!("Group {who} does not exist"));
    told(&user.into_iter().chain(group).collect::<Vec<_>>())
}

/// Fails when there are faults, with all of them.
///
/// # Errors
/// Fails then.
pub(super) fn told(faults: &[String]) -> Result<(), Failure> {
    match faults {
        [] => Ok(()),
        [only] => Err(Failure::new(only.as_str())),
        several => Err(Failure::new(format!("{}.", several.join(". ")))),
    }
}

/// The words of a failure in a dry run: Salt has others for what stands in the way of a link.
pub(super) fn as_dry_run(path: &Path, what: &str) -> impl FnOnce(Failure) -> Failure {
    move |failure| {
        let path = path.display();
        if !failure.done.comment.ends_with(&format!("exists where the {what} {path} should be")) {
            return failure;
        }
        Failure::new(format!(
            "File or directory exists where the {what} {path} should be. Did you mean to use force?"
        ))
    }
}
