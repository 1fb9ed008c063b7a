//! What is asked of users and groups in, why the programs that change them would refuse it out.
//!
//! Law: only what every such program refuses is refused here, before anything is changed. Who would be there by then counts:
//! the host's own, and in a dry run those that states before would have made.

use crate::host::Machine;
use crate::host::accounts::{self, Group, User};
use crate::states::Failure;
use crate::states::imagined::{self, Whose};

/// The longest name of a user or group.
const LONGEST: usize = 32;

/// Refuses a name that no program makes a user or group of.
pub(super) fn verify_name(what: &str, name: &str) -> Result<(), Failure> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '/');
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains(is_odd) {
        "it must not hold spaces, `:`, `,` or `/`"
    } else if name.starts_with(['-', '+', '~']) {
        "it must not begin with `-`, `+` or `~`"
    } else if name.len() > LONGEST {
        "it is longer than 32 characters"
    } else {
        return Ok(());
    };
    Err(Failure::new(format!("`{name}` cannot be the name of a {what}: {why}")))
}

/// True when there is such a user, or would be by then.
fn is_user(machine: &Machine, name: &str) -> Result<bool, Failure> {
    Ok(imagined::id(Whose::User, name).is_some() || accounts::find(machine, name)?.is_some())
}

/// True when there is such a group, or would be by then.
pub(super) fn is_group(machine: &Machine, name: &str) -> Result<bool, Failure> {
    Ok(imagined::id(Whose::Group, name).is_some() || accounts::find_group(machine, name)?.is_some())
}

/// Refuses a main group that is not there, by name or number.
pub(super) fn verify_main(machine: &Machine, group: &str) -> Result<(), Failure> {
    let is_there = match group.parse::<i64>() {
        Ok(gid) => imagined::name(Whose::Group, gid).is_some() || accounts::has_gid(machine, gid)?,
        Err(_) => is_group(machine, group)?,
    };
    if is_there || is_group(machine, group)? {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the main group `{group}` is not present: make it before, with a `group.present` that this state requires"
    )))
}

/// Refuses the number of another user.
pub(super) fn verify_uid(machine: &Machine, name: &str, uid: i64) -> Result<(), Failure> {
    let imagined = imagined::name(Whose::User, uid);
    let other = accounts::user_name(machine, uid)?.or(imagined).filter(|other| other != name);
    match other {
        None => Ok(()),
        Some(other) => Err(Failure::new(format!(
            "uid {uid} is already taken by user {other}: give {name} another one, or set `unique: False`"
        ))),
    }
}

/// Refuses the number of another group.
pub(super) fn verify_gid(machine: &Machine, name: &str, gid: i64) -> Result<(), Failure> {
    let found = accounts::groups(machine)?.into_iter().find(|g| g.gid == gid && g.name != name);
    let imagined = imagined::name(Whose::Group, gid).filter(|other| other != name);
    match found.map(|g| g.name).or(imagined) {
        None => Ok(()),
        Some(other) => Err(Failure::new(format!(
            "gid {gid} is already taken by group {other}: give {name} another one, or set `non_unique: True`"
        ))),
    }
}

/// Refuses members who are nobody.
pub(super) fn verify_members(machine: &Machine, group: &str, users: &[String]) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for user in users {
        if !is_user(machine, user)? {
            missing.push(user.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the following user(s) cannot be put into group {group}, for they are not present: {}",
        missing.join(", ")
    )))
}

/// Refuses a group of the same name that is in the way of the one that a new user gets where the host is set up so.
pub(super) fn verify_own_group(machine: &Machine, name: &str) -> Result<(), Failure> {
    if !gives_own_group(machine)? || !is_group(machine, name)? {
        return Ok(());
    }
    Err(Failure::new(format!(
        "there is a group {name} already, and {name} would get one of its own: set `usergroup: True` or `gid: {name}` to \
         make it the main group"
    )))
}

/// True when the host gives every new user a group of its own.
fn gives_own_group(machine: &Machine) -> Result<bool, Failure> {
    let text = machine.read("/etc/login.defs")?.unwrap_or_default();
    let said = text.lines().filter_map(|l| l.trim().strip_prefix("USERGROUPS_ENAB")).next_back();
    Ok(said.is_some_and(|said| said.trim().eq_ignore_ascii_case("yes")))
}

/// Refuses to take a group away that is the main one of somebody.
pub(super) fn verify_free(machine: &Machine, group: &Group) -> Result<(), Failure> {
    let his: Vec<User> = accounts::users(machine)?.into_iter().filter(|u| u.gid == group.gid).collect();
    let Some(user) = his.first() else { return Ok(()) };
    Err(Failure::new(format!(
        "group {} cannot be removed: it is the main group of user {}; remove the user or give it another one before",
        group.name, user.name
    )))
}

/// The home that a new user gets when nobody says where.
pub(super) fn usual_home(machine: &Machine, name: &str) -> Result<String, Failure> {
    let text = machine.read("/etc/default/useradd")?.unwrap_or_default();
    let base = text.lines().filter_map(|l| l.trim().strip_prefix("HOME=")).next_back();
    Ok(format!("{}/{name}", base.map_or("/home", str::trim).trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::states::imagined::{Known, Names};

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
        let machine = Machine::at(dir.path());
        (dir, machine)
    }

    fn said(answer: Result<(), Failure>) -> String {
        answer.map_or_else(|failure| failure.done.comment, |()| "fine".to_owned())
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
            (verify_main(&host, "nosuch"), "the main group `nosuch` is not present"),
            (verify_main(&host, "4242"), "the main group `4242` is not present"),
            (verify_main(&host, "50"), "fine"),
            (verify_main(&host, "staff"), "fine"),
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
                verify_free(&host, &group("root")),
                "group root cannot be removed: it is the main group of user root",
            ),
            (verify_free(&host, &group("staff")), "fine"),
        ] {
            let told = said(answer);
            assert!(told.starts_with(words), "{told}: {words}");
        }
        assert_eq!(usual_home(&host, "new").unwrap(), "/srv/home/new");
    }

    #[test]
    fn who_would_be_there_by_then_counts() {
        let (_dir, host) = host();
        let names = Arc::new(Names::default());
        names.add(Whose::User, "carl", Some(1001));
        names.add(Whose::Group, "app", Some(950));
        let _known = Known::here(&names);
        assert!(verify_main(&host, "app").is_ok() && verify_main(&host, "950").is_ok());
        assert!(is_group(&host, "app").unwrap() && !is_group(&host, "nosuch").unwrap());
        assert!(verify_members(&host, "staff", &["carl".to_owned()]).is_ok());
        assert!(verify_uid(&host, "new", 1001).is_err() && verify_gid(&host, "new", 950).is_err());
        assert!(verify_own_group(&host, "app").is_err());
    }
}
