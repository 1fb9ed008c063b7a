//! What is asked of users and groups in, why the programs that change them would refuse it out.
//!
//! Law: only what every such program refuses is refused here, before anything is changed. Who would be there by
//! then counts: the host's own, and in a dry run those that states before would have made (held by
//! `names_that_no_program_takes_are_refused`, `who_would_be_there_by_then_counts`).

use crate::StateError;
use crate::assumed_accounts;
use crate::assumed_accounts::AccountKind;
use zagent_host::Machine;
use zagent_host::accounts;
use zagent_host::accounts::{GroupEntry, PasswdEntry};

/// The longest name of a user or group.
const MAX_NAME_LEN: usize = 32;

/// Refuses a name that no program makes a user or group of.
pub(crate) fn verify_name(what: &str, name: &str) -> Result<(), StateError> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '/');
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains(is_odd) {
        "it must not hold spaces, `:`, `,` or `/`"
    } else if name.starts_with(['-', '+', '~']) {
        "it must not begin with `-`, `+` or `~`"
    } else if name.len() > MAX_NAME_LEN {
        "it is longer than 32 characters"
    } else {
        return Ok(());
    };
    Err(StateError::new(format!("`{name}` cannot be the name of a {what}: {why}")))
}

/// True when there is such a user, or would be by then.
fn user_exists(machine: &Machine, name: &str) -> Result<bool, StateError> {
    Ok(assumed_accounts::assumed_id(AccountKind::User, name).is_some()
        || accounts::find_user(machine, name)?.is_some())
}

/// True when there is such a group, or would be by then.
pub(crate) fn group_exists(machine: &Machine, name: &str) -> Result<bool, StateError> {
    Ok(assumed_accounts::assumed_id(AccountKind::Group, name).is_some()
        || accounts::find_group(machine, name)?.is_some())
}

/// Refuses a main group that is not there, by name or number.
pub(crate) fn verify_main_group(machine: &Machine, group: &str) -> Result<(), StateError> {
    let is_there = match group.parse::<i64>() {
        Ok(gid) => {
            assumed_accounts::assumed_name(AccountKind::Group, gid).is_some()
                || accounts::has_gid(machine, gid)?
        }
        Err(_) => group_exists(machine, group)?,
    };
    if is_there || group_exists(machine, group)? {
        return Ok(());
    }
    Err(StateError::new(format!(
        "the main group `{group}` is not present: make it before, with a `group.present` that this state requires"
    )))
}

/// Refuses the number of another user.
pub(crate) fn verify_uid(machine: &Machine, name: &str, uid: i64) -> Result<(), StateError> {
    let imagined = assumed_accounts::assumed_name(AccountKind::User, uid);
    let other = accounts::user_name(machine, uid)?.or(imagined).filter(|other| other != name);
    match other {
        None => Ok(()),
        Some(other) => Err(StateError::new(format!(
            "uid {uid} is already taken by user {other}: give {name} another one, or set `unique: False`"
        ))),
    }
}

/// Refuses the number of another group.
pub(crate) fn verify_gid(machine: &Machine, name: &str, gid: i64) -> Result<(), StateError> {
    let found = accounts::read_groups(machine)?.into_iter().find(|g| g.gid == gid && g.name != name);
    let imagined = assumed_accounts::assumed_name(AccountKind::Group, gid).filter(|other| other != name);
    match found.map(|g| g.name).or(imagined) {
        None => Ok(()),
        Some(other) => Err(StateError::new(format!(
            "gid {gid} is already taken by group {other}: give {name} another one, or set `non_unique: True`"
        ))),
    }
}

/// Refuses members who are nobody.
pub(crate) fn verify_members(machine: &Machine, group: &str, users: &[String]) -> Result<(), StateError> {
    let mut missing = Vec::new();
    for user in users {
        if !user_exists(machine, user)? {
            missing.push(user.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(StateError::new(format!(
        "the following user(s) cannot be put into group {group}, for they are not present: {}",
        missing.join(", ")
    )))
}

/// Refuses a group of the same name that is in the way of the one that a new user gets where the host is set up so.
pub(crate) fn verify_own_group(machine: &Machine, name: &str) -> Result<(), StateError> {
    if !creates_user_groups(machine)? || !group_exists(machine, name)? {
        return Ok(());
    }
    Err(StateError::new(format!(
        "there is a group {name} already, and {name} would get one of its own: set `usergroup: True` or `gid: {name}` to \
         make it the main group"
    )))
}

/// True when the host gives every new user a group of its own.
fn creates_user_groups(machine: &Machine) -> Result<bool, StateError> {
    let text = machine.read("/etc/login.defs")?.unwrap_or_default();
    let said = text.lines().filter_map(|l| l.trim().strip_prefix("USERGROUPS_ENAB")).next_back();
    Ok(said.is_some_and(|said| said.trim().eq_ignore_ascii_case("yes")))
}

/// Refuses to take a group away that is the main one of somebody.
pub(crate) fn verify_group_unused(machine: &Machine, group: &GroupEntry) -> Result<(), StateError> {
    let his: Vec<PasswdEntry> =
        accounts::read_passwd(machine)?.into_iter().filter(|u| u.gid == group.gid).collect();
    let Some(user) = his.first() else { return Ok(()) };
    Err(StateError::new(format!(
        "group {} cannot be removed: it is the main group of user {}; remove the user or give it another one before",
        group.name, user.name
    )))
}

/// The home that a new user gets when nobody says where.
pub(crate) fn default_home(machine: &Machine, name: &str) -> Result<String, StateError> {
    let text = machine.read("/etc/default/useradd")?.unwrap_or_default();
    let base = text.lines().filter_map(|l| l.trim().strip_prefix("HOME=")).next_back();
    Ok(format!("{}/{name}", base.map_or("/home", str::trim).trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::assumed_accounts::{AssumedAccounts, AssumedScope};

    /// A host with `root` (0) and `bob` (1000), and with groups `root`, `bob` and `staff` (50).
    fn host() -> (tempfile::TempDir, Machine) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/default")).unwrap();
        for (file, text) in [
            ("passwd", "root:x:0:0::/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n"),
            ("group", "root:x:0:\nbob:x:1000:\nstaff:x:50:\n"),
            ("login.defs", "# x\nUSERGROUPS_ENAB yes\n"),
            ("default/useradd", "SHELL=/bin/sh\nHOME=/srv/home/\n"),
        ] {
            std::fs::write(dir.path().join("etc").join(file), text).unwrap();
        }
        let machine = Machine::at_root(dir.path()).unwrap();
        (dir, machine)
    }

    fn said(answer: Result<(), StateError>) -> String {
        answer.map_or_else(|failure| failure.result.comment, |()| "fine".to_owned())
    }

    #[test]
    fn names_that_no_program_takes_are_refused() {
        for good in ["www-data", "_apt", "Carl", "bob$", "a.b", "7zip"] {
            assert!(verify_name("user", good).is_ok(), "{good}");
        }
        for bad in
            ["Carl X", "", "-x", "+x", "a:b", "a,b", "a/b", "a\nb", "abcdefghijklmnopqrstuvwxyz1234567"]
        {
            assert!(verify_name("user", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_programs_would_refuse_is_foretold() {
        let (_dir, host) = host();
        let members = |users: &[&str]| {
            let users: Vec<String> = users.iter().map(|u| (*u).to_owned()).collect();
            verify_members(&host, "staff", &users)
        };
        let group = |name: &str| accounts::find_local_group(&host, name).unwrap().unwrap();
        for (answer, words) in [
            (verify_main_group(&host, "nosuch"), "the main group `nosuch` is not present"),
            (verify_main_group(&host, "4242"), "the main group `4242` is not present"),
            (verify_main_group(&host, "50"), "fine"),
            (verify_main_group(&host, "staff"), "fine"),
            (verify_uid(&host, "new", 1000), "uid 1000 is already taken by user bob"),
            (verify_uid(&host, "bob", 1000), "fine"),
            (verify_uid(&host, "new", 1001), "fine"),
            (verify_gid(&host, "new", 50), "gid 50 is already taken by group staff"),
            (verify_gid(&host, "staff", 50), "fine"),
            (members(&["root", "nosuch", "nor"]), "the following user(s) cannot be put into group staff"),
            (members(&["root", "bob"]), "fine"),
            (verify_own_group(&host, "staff"), "there is a group staff already"),
            (verify_own_group(&host, "new"), "fine"),
            (
                verify_group_unused(&host, &group("root")),
                "group root cannot be removed: it is the main group of user root",
            ),
            (verify_group_unused(&host, &group("staff")), "fine"),
        ] {
            let told = said(answer);
            assert!(told.starts_with(words), "{told}: {words}");
        }
        assert_eq!(default_home(&host, "new").unwrap(), "/srv/home/new");
    }

    #[test]
    fn who_would_be_there_by_then_counts() {
        let (_dir, host) = host();
        let names = Arc::new(AssumedAccounts::default());
        names.add(AccountKind::User, "carl", Some(1001));
        names.add(AccountKind::Group, "app", Some(950));
        let _known = AssumedScope::enter(&names);
        assert!(verify_main_group(&host, "app").is_ok() && verify_main_group(&host, "950").is_ok());
        assert!(group_exists(&host, "app").unwrap() && !group_exists(&host, "nosuch").unwrap());
        assert!(verify_members(&host, "staff", &["carl".to_owned()]).is_ok());
        assert!(verify_uid(&host, "new", 1001).is_err() && verify_gid(&host, "new", 950).is_err());
        assert!(verify_own_group(&host, "app").is_err());
    }
}
