//! Acts on users and groups, by whatever programs the host has: those of `shadow`, or those of busybox.
//!
//! Law: what busybox has no program for (it cannot change a user) is an edit of one line, written whole (held by
//! `one_field_of_one_line_is_set`).

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zagent_config::FunctionError;

use super::{PasswdEntry, SHADOW_DAYS, find_local_group, find_local_user};
use crate::fs::{FileMeta, FileSystem};
use crate::{CommandOutput, Tools};

/// The attributes of a user: the name, how `usermod` calls it, where it stands in `/etc/passwd`.
const PASSWD_FIELDS: [(&str, &str, usize); 5] =
    [("uid", "-u", 2), ("gid", "-g", 3), ("gecos", "-c", 4), ("home", "-d", 5), ("shell", "-s", 6)];
/// How `chage` calls [`SHADOW_DAYS`].
const CHAGE_FLAGS: [&str; 6] = ["-d", "-m", "-M", "-W", "-I", "-E"];
/// What `userdel` and `usermod` end with when the user has processes.
const EXIT_USER_BUSY: i32 = 8;

/// A user that is to be made.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// Its number; the next free one when none.
    pub uid: Option<i64>,
    /// Name or number.
    pub gid: Option<String>,
    /// Further groups that it is a member of.
    pub groups: Vec<String>,
    /// A group of its own: by what the host thinks right when it is not said.
    pub usergroup: Option<bool>,
    /// Its home directory.
    pub home: Option<String>,
    /// Whether the home directory is made.
    pub createhome: bool,
    /// Its login shell.
    pub shell: Option<String>,
    /// Its comment.
    pub gecos: String,
    /// Whether nobody else may have its number.
    pub unique: bool,
    /// True for a system account.
    pub system: bool,
    /// True to leave it out of the login logs.
    pub nologinit: bool,
}

/// The programs that change users and groups.
pub struct AccountTools<'t>(pub Tools<'t>);

impl AccountTools<'_> {
    /// True when there are only the programs of busybox.
    fn is_busybox(&self) -> bool {
        self.0.which("usermod").is_none() && self.0.which("adduser").is_some()
    }

    fn run_checked(&self, program: &str, args: &[&str], name: &str) -> Result<(), FunctionError> {
        for word in args.last().into_iter().chain([&name]) {
            verify_name(word)?;
        }
        let output = self.0.run_change(program, args)?;
        if output.is_success() {
            return Ok(());
        }
        Err(self.command_error(program, &output, name))
    }

    fn command_error(&self, program: &str, output: &CommandOutput, name: &str) -> FunctionError {
        let words = format!("`{program}` ended with code {}: {}", output.code, output.message());
        let busy = if output.code == EXIT_USER_BUSY { self.user_processes(name) } else { Vec::new() };
        if busy.is_empty() {
            return FunctionError::failed(words);
        }
        let logins = self.0.run_query("who", &[] as &[&str]).map(|who| who.stdout).unwrap_or_default();
        let count = logins.lines().filter(|l| l.split_whitespace().next() == Some(name)).count();
        let logged = if count > 0 { format!(", {count} times logged in") } else { String::new() };
        FunctionError::failed(format!(
            "the user {name} is in use{logged}; processes: {}. {words}",
            busy.join(", ")
        ))
    }

    /// The processes of a user, as `pid (command)`.
    fn user_processes(&self, name: &str) -> Vec<String> {
        let machine = self.0.machine;
        let Ok(Some(user)) = super::find_user(machine, name) else { return Vec::new() };
        let mut pids: Vec<u32> = machine.list_dir("/proc").iter().filter_map(|n| n.parse().ok()).collect();
        pids.sort_unstable();
        let own = |pid: u32| {
            let status = machine.read(&format!("/proc/{pid}/status")).ok().flatten()?;
            let field = |key: &str| status.lines().find_map(|l| l.strip_prefix(key));
            let uid: i64 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
            (uid == user.uid).then(|| format!("{pid} ({})", field("Name:").unwrap_or_default().trim()))
        };
        pids.into_iter().filter_map(own).take(10).collect()
    }

    /// The primary group of a new user, and the other groups: the primary one is not among them. A group with the name of the
    /// user is the primary one when it exists already.
    fn split_groups(
        &self,
        name: &str,
        new: &NewUser,
    ) -> Result<(Option<String>, Vec<String>), FunctionError> {
        let is_own = new.gid.is_none()
            && new.usergroup.is_none()
            && new.groups.iter().any(|group| group == name)
            && super::find_group(self.0.machine, name)?.is_some();
        let primary = if is_own { Some(name.to_owned()) } else { new.gid.clone() };
        let Some(gid) = &primary else { return Ok((None, new.groups.clone())) };
        let mut others = Vec::new();
        for group in &new.groups {
            let number = super::find_group(self.0.machine, group)?.map(|found| found.gid.to_string());
            if group != gid && number.as_ref() != Some(gid) {
                others.push(group.clone());
            }
        }
        Ok((primary, others))
    }

    /// Makes a user.
    pub fn add_user(&self, name: &str, new: &NewUser) -> Result<(), FunctionError> {
        let uid = new.uid.map(|n| n.to_string());
        let busybox = self.is_busybox();
        let mut args: Vec<&str> = Vec::new();
        let (primary, groups) = self.split_groups(name, new)?;
        let groups = groups.join(",");
        let gecos = Some(&*new.gecos).filter(|g| !g.is_empty());
        push_flag(&mut args, "-u", uid.as_deref());
        push_flag(&mut args, "-s", new.shell.as_deref());
        if busybox {
            push_flag(&mut args, "-G", new.gid.as_deref());
            push_flag(&mut args, "-h", new.home.as_deref());
            push_flag(&mut args, "-g", Some(gecos.unwrap_or_default()));
            args.push("-D");
            args.extend(
                [(!new.createhome).then_some("-H"), new.system.then_some("-S")].into_iter().flatten(),
            );
            args.push(name);
            self.run_checked("adduser", &args, name)?;
            return self.set_groups(name, &new.groups, true);
        }
        push_flag(&mut args, "-g", primary.as_deref());
        push_flag(&mut args, "-d", new.home.as_deref());
        push_flag(&mut args, "-c", gecos);
        push_flag(&mut args, "-G", Some(&*groups).filter(|g| !g.is_empty()));
        let own_group = match new.usergroup {
            Some(true) if new.gid.is_none() => Some("-U"),
            Some(false) => Some("-N"),
            _ => None,
        };
        let flags = [
            own_group,
            Some(if new.createhome { "-m" } else { "-M" }),
            new.nologinit.then_some("-l"),
            (!new.unique).then_some("-o"),
            new.system.then_some("-r"),
        ];
        args.extend(flags.into_iter().flatten());
        args.push(name);
        self.run_checked("useradd", &args, name)
    }

    /// Takes a user away.
    pub fn delete_user(&self, name: &str, purge: bool, force: bool) -> Result<(), FunctionError> {
        if self.is_busybox() {
            let purge = purge.then_some("--remove-home");
            return self.run_checked("deluser", &purge.into_iter().chain([name]).collect::<Vec<_>>(), name);
        }
        verify_name(name)?;
        let flags = [purge.then_some("-r"), force.then_some("-f"), Some(name)];
        let args: Vec<&str> = flags.into_iter().flatten().collect();
        let output = self.0.run_change("userdel", &args)?;
        // 12: the home directory could not be removed. A mail box that is not there counts as that, and is none.
        let is_mail = output.code == 12
            && (output.stderr.contains("var/mail") || output.stderr.contains("var/spool/mail"));
        if output.is_success() || is_mail {
            return Ok(());
        }
        Err(self.command_error("userdel", &output, name))
    }

    /// Sets `uid`, `gid`, `gecos`, `home` or `shell`. `more` are flags of `usermod` besides.
    pub fn set_attribute(
        &self,
        name: &str,
        key: &str,
        value: &str,
        more: &[&str],
    ) -> Result<(), FunctionError> {
        let Some((_, flag, at)) = PASSWD_FIELDS.into_iter().find(|f| f.0 == key) else { return Ok(()) };
        if self.is_busybox() {
            let group = if key == "gid" { find_local_group(self.0.machine, value)? } else { None };
            let gid = group.map(|g| g.gid.to_string());
            let before = find_local_user(self.0.machine, name)?;
            self.edit_field("/etc/passwd", name, at, gid.as_deref().unwrap_or(value))?;
            return if key == "uid" { self.chown_home(before, value) } else { Ok(()) };
        }
        let mut args = more.to_vec();
        args.extend([flag, value, name]);
        self.run_checked("usermod", &args, name)
    }

    /// Gives what a user has in its home to its new number, as `usermod` does.
    fn chown_home(&self, before: Option<PasswdEntry>, uid: &str) -> Result<(), FunctionError> {
        // A home that was not its own, such as `/`, stays as it is.
        let owner = |home: &str| Some(self.0.machine.metadata(home).ok()?.uid());
        let is_own = |u: &PasswdEntry| owner(&u.home).map(i64::from) == Some(u.uid);
        let Some(user) = before.filter(is_own) else { return Ok(()) };
        let old = user.uid.to_string();
        let words = [&*user.home, "-xdev", "-user", &old, "-exec", "chown", "-h", uid, "{}", "+"];
        self.run_checked("find", &words, &user.name)
    }

    /// Puts a user into groups: these alone, or these too.
    pub fn set_groups(&self, name: &str, groups: &[String], append: bool) -> Result<(), FunctionError> {
        if !self.is_busybox() {
            let list = groups.join(",");
            let args: &[&str] = if append { &["-a", "-G", &list, name] } else { &["-G", &list, name] };
            return self.run_checked("usermod", args, name);
        }
        for group in super::read_groups(self.0.machine)? {
            let (is, wanted) = (group.members.iter().any(|m| m == name), groups.contains(&group.name));
            if wanted && !is {
                self.add_to_group(&group.name, name)?;
            } else if is && !wanted && !append {
                self.remove_from_group(&group.name, name)?;
            }
        }
        Ok(())
    }

    /// Sets the hash of a password; an empty one lets everybody in.
    pub fn set_password_hash(&self, name: &str, hash: &str) -> Result<(), FunctionError> {
        if hash.contains([':', '\n']) {
            return Err(FunctionError::failed(format!("what is given as password of {name} is no hash")));
        }
        if hash.is_empty() {
            return self.run_checked("passwd", &["-d", name], name);
        }
        let timeout = self.0.machine.timeout;
        let mut command = Tools::command("chpasswd", &["-e"], timeout);
        command.stdin = format!("{name}:{hash}\n").into_bytes();
        let output = self.0.run(command)?;
        if output.is_success() { Ok(()) } else { Err(self.command_error("chpasswd", &output, name)) }
    }

    /// Locks a password, or opens it again.
    pub fn set_password_lock(&self, name: &str, is_locked: bool) -> Result<(), FunctionError> {
        self.run_checked("passwd", &[if is_locked { "-l" } else { "-u" }, name], name)
    }

    /// Sets days of a password: places in [`SHADOW_DAYS`] and values; -1 takes one away.
    pub fn set_shadow_days(&self, name: &str, days: &[(usize, i64)]) -> Result<(), FunctionError> {
        if days.is_empty() {
            return Ok(());
        }
        if self.0.which("chage").is_some() {
            let values: Vec<String> = days.iter().map(|(_, n)| n.to_string()).collect();
            let mut args: Vec<&str> = Vec::new();
            for ((at, _), value) in days.iter().zip(&values) {
                args.extend([CHAGE_FLAGS[*at], value]);
            }
            args.push(name);
            return self.run_checked("chage", &args, name);
        }
        for (at, value) in days {
            let text = if *value < 0 { String::new() } else { value.to_string() };
            self.edit_field("/etc/shadow", name, at + 2, &text)?;
        }
        Ok(())
    }

    /// Makes a group.
    pub fn add_group(
        &self,
        name: &str,
        gid: Option<i64>,
        system: bool,
        non_unique: bool,
    ) -> Result<(), FunctionError> {
        let busybox = self.is_busybox();
        let gid = gid.map(|n| n.to_string());
        let mut args: Vec<&str> = gid.iter().flat_map(|n| ["-g", n]).collect();
        if non_unique && !busybox && gid.is_some() {
            args.push("-o");
        }
        args.extend(system.then_some(if busybox { "-S" } else { "-r" }));
        args.push(name);
        self.run_checked(if busybox { "addgroup" } else { "groupadd" }, &args, name)
    }

    /// Takes a group away.
    pub fn delete_group(&self, name: &str) -> Result<(), FunctionError> {
        self.run_checked(if self.is_busybox() { "delgroup" } else { "groupdel" }, &[name], name)
    }

    /// Changes the number of a group.
    pub fn set_gid(&self, name: &str, gid: i64, non_unique: bool) -> Result<(), FunctionError> {
        let gid = gid.to_string();
        if self.is_busybox() {
            return self.edit_field("/etc/group", name, 2, &gid);
        }
        let more: &[&str] = if non_unique { &["-o"] } else { &[] };
        self.run_checked("groupmod", &[more, &["-g", &gid, name]].concat(), name)
    }

    /// Puts a user into a group.
    pub fn add_to_group(&self, group: &str, user: &str) -> Result<(), FunctionError> {
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.run_checked("addgroup", &[user, group], user);
        }
        self.run_checked("gpasswd", &["--add", user, group], user)
    }

    /// Takes a user out of a group.
    pub fn remove_from_group(&self, group: &str, user: &str) -> Result<(), FunctionError> {
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.run_checked("delgroup", &[user, group], user);
        }
        self.run_checked("gpasswd", &["--del", user, group], user)
    }

    /// Says who is in a group.
    pub fn set_members(&self, group: &str, members: &[String]) -> Result<(), FunctionError> {
        let list = members.join(",");
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.edit_field("/etc/group", group, 3, &list);
        }
        self.run_checked("gpasswd", &["--members", &list, group], group)
    }

    /// Sets one field of the line of a name.
    fn edit_field(&self, file: &str, name: &str, at: usize, value: &str) -> Result<(), FunctionError> {
        let text = self.0.machine.read(file)?.unwrap_or_default();
        let Some(new) = replace_field(&text, name, at, value) else {
            return Err(FunctionError::failed(format!(
                "`{file}` has no line for {name}, or `{value}` cannot stand in it"
            )));
        };
        let disk = self.0.machine.disk(None);
        disk.write(Path::new(file), new.as_bytes(), FileMeta::default())
            .map_err(|e| FunctionError::failed(zagent_config::error_chain(&e)))
    }
}

/// Refuses a name that programs would take for an option.
fn verify_name(name: &str) -> Result<(), FunctionError> {
    if name.starts_with('-') {
        return Err(FunctionError::failed(format!("`{name}` is no name of a user or group")));
    }
    Ok(())
}

fn push_flag<'a>(args: &mut Vec<&'a str>, flag: &'static str, value: Option<&'a str>) {
    args.extend(value.into_iter().flat_map(|value| [flag, value]));
}

/// A text of lines such as `name:x:…` with one field of one name set; nothing when there is no such line or field.
fn replace_field(text: &str, name: &str, at: usize, value: &str) -> Option<String> {
    if value.contains([':', '\n']) {
        return None;
    }
    let mut is_set = false;
    let mut set = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.first() == Some(&name) && fields.len() > at {
            fields[at] = value;
            is_set = true;
        }
        fields.join(":")
    };
    let lines: Vec<String> = text.split('\n').map(&mut set).collect();
    is_set.then(|| lines.join("\n"))
}

/// A day as `chage` counts it: a number of days since 1970, also written as a date.
pub fn parse_day(text: &str) -> Option<i64> {
    if let Ok(days) = text.trim().parse() {
        return Some(days);
    }
    let date: jiff::civil::Date = text.trim().parse().ok()?;
    let days = date.since((jiff::Unit::Day, jiff::civil::date(1970, 1, 1))).ok()?;
    Some(days.get_days().into())
}

/// The place of a day among [`SHADOW_DAYS`] by its name.
pub fn shadow_day_index(name: &str) -> usize {
    SHADOW_DAYS.iter().position(|d| *d == name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_no_names() {
        assert!(verify_name("-o").is_err() && verify_name("www-data").is_ok());
        let machine = crate::Machine::this_host();
        let acts = AccountTools(Tools::new(&machine));
        for told in [
            acts.delete_user("-f", false, false),
            acts.run_checked("false", &["-g", "1", "--root=/x"], "x"),
            acts.run_checked("false", &["--add", "-x", "group"], "-x"),
        ] {
            assert!(told.is_err_and(|e| e.message().contains("is no name of a user or group")));
        }
    }

    #[test]
    fn the_primary_group_is_not_among_the_others() {
        let machine = crate::Machine::this_host();
        let acts = AccountTools(Tools::new(&machine));
        let groups = ["root", "daemon"].map(str::to_owned).to_vec();
        let split = |name: &str, gid: Option<&str>| {
            let new = NewUser { groups: groups.clone(), gid: gid.map(str::to_owned), ..NewUser::default() };
            let (primary, others) = acts.split_groups(name, &new).expect("groups");
            (primary.unwrap_or_default(), others.join(","))
        };
        for gid in ["root", "0"] {
            assert_eq!(split("x", Some(gid)), (gid.to_owned(), "daemon".to_owned()));
        }
        assert_eq!(split("daemon", None), ("daemon".to_owned(), "root".to_owned()));
        assert_eq!(split("x", None), (String::new(), "root,daemon".to_owned()));
    }

    #[test]
    fn one_field_of_one_line_is_set() {
        let text = "a:x:1:1::/a:/bin/sh\nab:x:2:2::/ab:/bin/sh\n";
        let new = replace_field(text, "ab", 6, "/bin/ash").expect("set");
        assert_eq!(new, "a:x:1:1::/a:/bin/sh\nab:x:2:2::/ab:/bin/ash\n");
        assert_eq!(replace_field(text, "b", 6, "/bin/ash"), None);
        assert_eq!(replace_field(text, "a", 7, "x"), None);
        assert_eq!(replace_field(text, "a", 6, "/bin/sh:0"), None);
    }

    #[test]
    fn days_are_numbers_or_dates() {
        assert_eq!(parse_day("19000"), Some(19000));
        assert_eq!(parse_day("-1"), Some(-1));
        assert_eq!(parse_day("1970-01-02"), Some(1));
        assert_eq!(parse_day("2022-01-08"), Some(19000));
        assert_eq!(parse_day("soon"), None);
    }
}
