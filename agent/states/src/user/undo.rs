//! Users as a revert puts them back: with the same number, groups, shell and hash.

use std::path::Path;

use zagent_config::{Map, Value};

use crate::shared::accounts::{int_field, list_field};
use crate::{StateCtx, StateError, Undoable};
use zagent_host::accounts;
use zagent_host::accounts::account_tools::{AccountTools, NewUser};
use zagent_host::accounts::{PasswdEntry, REDACTED, SHADOW_DAYS, ShadowEntry};
use zagent_host::fs::{FileKind, Stat};

/// Users.
pub(crate) const USER_UNDO: UserUndo = UserUndo;

/// What every new home gets.
const SKEL_DIR: &str = "/etc/skel";

pub(crate) struct UserUndo;

fn text_field(map: &Map, key: &str) -> String {
    map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Undoable for UserUndo {
    fn kind(&self) -> &'static str {
        "user"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let tools = ctx.tools();
        let name = zagent_compiler::name_text(key);
        let Some(user) = accounts::find_local_user(tools.machine, &name)? else { return Ok(Value::Null) };
        let all = accounts::read_groups(tools.machine)?;
        let extra = all.iter().filter(|g| g.members.contains(&name)).map(|g| Value::from(g.name.as_str()));
        let mut out = Map::new();
        out.insert("uid", user.uid);
        out.insert("gid", user.gid);
        out.insert("group", accounts::group_name(tools.machine, user.gid)?);
        out.insert("groups", extra.collect::<Value>());
        out.insert("gecos", user.gecos);
        out.insert("home", user.home);
        out.insert("shell", user.shell);
        if let Some(shadow) = accounts::find_shadow(tools.machine, &name)? {
            out.insert("hash", shadow.hash);
            for (key, value) in SHADOW_DAYS.into_iter().zip(shadow.days) {
                out.insert(key, value);
            }
        }
        Ok(out.into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let name = zagent_compiler::name_text(key);
        let acts = AccountTools(ctx.tools());
        let now = accounts::find_local_user(acts.0.machine, &name)?;
        let Value::Map(to) = to else {
            let Some(user) = now else { return Ok(()) };
            acts.delete_user(&name, false, false)?;
            return remove_untouched_home(ctx, &user, Path::new(SKEL_DIR));
        };
        let user = match now {
            Some(user) => user,
            None => recreate_user(&acts, &name, to)?,
        };
        for (key, is) in [
            ("uid", user.uid.to_string()),
            ("gid", user.gid.to_string()),
            ("gecos", user.gecos.clone()),
            ("home", user.home.clone()),
            ("shell", user.shell.clone()),
        ] {
            let was = to.get(key).map(zagent_compiler::name_text).unwrap_or_default();
            if was != is {
                acts.set_attribute(&name, key, &was, if key == "uid" { &["-o"] } else { &[] })?;
            }
        }
        acts.set_groups(&name, &list_field(to, "groups"), false)?;
        if to.contains("hash") {
            let was =
                ShadowEntry { hash: text_field(to, "hash"), days: SHADOW_DAYS.map(|key| int_field(to, key)) };
            restore_shadow(&acts, &name, &was)?;
        }
        Ok(())
    }

    fn simulate_restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        match accounts::find_local_user(ctx.tools().machine, &zagent_compiler::name_text(key))? {
            Some(user) if to.is_null() => remove_untouched_home(ctx, &user, Path::new(SKEL_DIR)),
            _ => Ok(()),
        }
    }

    fn leftovers(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        let found = accounts::find_local_user(ctx.tools().machine, &zagent_compiler::name_text(key))?;
        found.map_or(Ok(None), |user| remaining_home_note(ctx, &user, Path::new(SKEL_DIR)))
    }

    fn redacted(&self, how: &Value) -> Value {
        let Value::Map(map) = how else { return how.clone() };
        let mut map = (**map).clone();
        if !text_field(&map, "hash").is_empty() {
            map.insert("hash", REDACTED);
        }
        map.into()
    }
}

/// Makes a user that is gone, with the group that went with it.
fn recreate_user(acts: &AccountTools<'_>, name: &str, to: &Map) -> Result<PasswdEntry, StateError> {
    let machine = acts.0.machine;
    let gid = int_field(to, "gid");
    if !accounts::read_groups(machine)?.iter().any(|g| g.gid == gid) {
        acts.add_group(&text_field(to, "group"), Some(gid), false, false)?;
    }
    let new = NewUser {
        uid: Some(int_field(to, "uid")),
        gid: Some(gid.to_string()),
        usergroup: Some(false),
        home: Some(text_field(to, "home")),
        shell: Some(text_field(to, "shell")),
        gecos: text_field(to, "gecos"),
        ..NewUser::default()
    };
    acts.add_user(name, &new)?;
    let made = accounts::find_local_user(machine, name)?;
    made.ok_or_else(|| StateError::new(format!("the user {name} was made and is not there")))
}

fn restore_shadow(acts: &AccountTools<'_>, name: &str, was: &ShadowEntry) -> Result<(), StateError> {
    let is = accounts::find_shadow(acts.0.machine, name)?;
    if is.as_ref().is_none_or(|is| is.hash != was.hash) {
        acts.set_password_hash(name, &was.hash)?;
    }
    let is = accounts::find_shadow(acts.0.machine, name)?.map_or(was.days, |s| s.days);
    let days: Vec<(usize, i64)> =
        was.days.into_iter().enumerate().filter(|(at, day)| is[*at] != *day).collect();
    Ok(acts.set_shadow_days(name, &days)?)
}

/// What is to be said of the home of a user that was made.
#[derive(Debug, PartialEq, Eq)]
enum HomeState {
    /// There is none that is its own.
    None,
    /// It holds only files that every new home gets, as they were.
    Untouched,
    /// It holds something else, such as this.
    Used(String),
}

/// Looks at the home of a user.
fn inspect_home(ctx: &StateCtx<'_>, user: &PasswdEntry, skel: &Path) -> Result<HomeState, StateError> {
    let (fs, home) = (ctx.fs, Path::new(&user.home));
    let is_own = |s: &Stat| s.kind == FileKind::Dir && i64::from(s.uid) == user.uid && user.uid != 0;
    if !fs.lstat(home)?.as_ref().is_some_and(is_own) {
        return Ok(HomeState::None);
    }
    for (name, _) in fs.read_dir(home)? {
        let (own, plain) = (home.join(&name), skel.join(&name));
        let (is, was) = (fs.lstat(&own)?, fs.lstat(&plain)?);
        // What is no file of that size is not even opened: reading it may never end.
        let is_alike = is.zip(was).is_some_and(|(is, was)| {
            is.kind == FileKind::File && was.kind == FileKind::File && is.size == was.size
        });
        if !is_alike || fs.read_for_change(&own)? != fs.read(&plain)? {
            return Ok(HomeState::Used(name.to_string_lossy().into_owned()));
        }
    }
    Ok(HomeState::Untouched)
}

/// Removes the home of a user that is no more, when nothing was put there since.
fn remove_untouched_home(ctx: &StateCtx<'_>, user: &PasswdEntry, skel: &Path) -> Result<(), StateError> {
    match inspect_home(ctx, user, skel)? {
        HomeState::Untouched => Ok(ctx.fs.remove(Path::new(&user.home))?),
        HomeState::None | HomeState::Used(_) => Ok(()),
    }
}

/// Says that a home stays, and whose it was: its number may be given to somebody else.
fn remaining_home_note(
    ctx: &StateCtx<'_>,
    user: &PasswdEntry,
    skel: &Path,
) -> Result<Option<String>, StateError> {
    let HomeState::Used(file) = inspect_home(ctx, user, skel)? else { return Ok(None) };
    let PasswdEntry { name, uid, home, .. } = user;
    Ok(Some(format!(
        "its home {home} stays, for it holds `{file}`, which the run did not make. It belongs to the uid {uid}, \
         which was that of {name} and is free then: remove it or give it to somebody"
    )))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::testing::StateTestBed;

    #[test]
    fn a_home_goes_only_as_it_came() {
        let test_bed = StateTestBed::new();
        for dir in ["skel", "home"] {
            std::fs::create_dir(test_bed.path(dir)).expect("made");
            std::fs::write(test_bed.path(&format!("{dir}/.profile")), "x\n").expect("written");
        }
        let number = match nix::unistd::Uid::effective().as_raw() {
            0 => 54321,
            own => own,
        };
        std::os::unix::fs::chown(test_bed.path("home"), Some(number), None).expect("given");
        let user = |uid: i64| PasswdEntry {
            name: "x".into(),
            password: "x".into(),
            uid,
            gid: uid,
            gecos: String::new(),
            home: test_bed.path("home"),
            shell: String::new(),
        };
        let (own, skel) = (user(number.into()), test_bed.path("skel"));
        let forget = |user: &PasswdEntry| {
            remove_untouched_home(&test_bed.scene(), user, Path::new(&skel)).expect("looked at");
        };
        forget(&user(0));
        assert!(test_bed.exists("home"), "somebody else's stays");
        let pipe = test_bed.path("home/pipe");
        assert!(
            Command::new("mkfifo")
                .args([&pipe, &test_bed.path("skel/pipe")])
                .status()
                .expect("run")
                .success()
        );
        forget(&own);
        assert!(test_bed.exists("home"), "a pipe is not read");
        let told = |user: &PasswdEntry| {
            remaining_home_note(&test_bed.scene(), user, Path::new(&skel)).expect("looked at")
        };
        let words = told(&own).expect("it stays");
        let start = format!("its home {} stays, for it holds `pipe`", own.home);
        assert!(words.starts_with(&start) && words.contains(&format!("the uid {number}")), "{words}");
        assert_eq!(told(&user(0)), None);
        std::fs::remove_file(&pipe).expect("removed");
        assert_eq!(told(&own), None);
        forget(&own);
        assert!(!test_bed.exists("home"));
    }
}
