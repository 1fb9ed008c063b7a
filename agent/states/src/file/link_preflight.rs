//! What `file.symlink` and `file.hardlink` look at first, in words of their own.

use std::path::Path;

use super::owner::Owner;
use crate::StateError;
use zagent_host::Machine;

/// Fails in Salt's words when a user or group does not exist.
///
/// # Errors
/// Fails then.
pub fn verify_owner(machine: &Machine, owner: &Owner) -> Result<(), StateError> {
    let user =
        owner.user().filter(|who| who.uid(machine).is_none()).map(|who| format!("User {who} does not exist"));
    let group = owner
        .group()
        .filter(|who| who.gid(machine).is_none())
        .map(|who| format!("Group {who} does not exist"));
    fail_with_faults(&user.into_iter().chain(group).collect::<Vec<_>>())
}

/// Fails when there are faults, with all of them.
///
/// # Errors
/// Fails then.
pub fn fail_with_faults(faults: &[String]) -> Result<(), StateError> {
    match faults {
        [] => Ok(()),
        [only] => Err(StateError::new(only.as_str())),
        several => Err(StateError::new(format!("{}.", several.join(". ")))),
    }
}

/// The words of a failure in a dry run: Salt has others for what stands in the way of a link.
pub fn dry_run_error(path: &Path, what: &str) -> impl FnOnce(StateError) -> StateError {
    move |failure| {
        let path = path.display();
        if !failure.result.comment.ends_with(&format!("exists where the {what} {path} should be")) {
            return failure;
        }
        StateError::new(format!(
            "File or directory exists where the {what} {path} should be. Did you mean to use force?"
        ))
    }
}
