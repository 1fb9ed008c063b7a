//! Acts on users and groups, by whatever programs the host has: those of `shadow`, or those of busybox.
//!
//! Law: what busybox has no program for (it cannot change a user) is an edit of one line, written whole.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zagent_compiler::functions::Refusal;

use super::{DAYS, User, find_local, find_local_group};
use crate::fs::{Disk, FileSystem, Meta};
use crate::host::{Said, Tools};

/// The attributes of a user: the name, how `usermod` calls it, where it stands in `/etc/passwd`.
const FIELDS: [(&str, &str, usize); 5] =
    [("uid", "-u", 2), ("gid", "-g", 3), ("gecos", "-c", 4), ("home", "-d", 5), ("shell", "-s", 6)];
/// How `chage` calls [`DAYS`].
const CHAGE: [&str; 6] = ["-d", "-m", "-M", "-W", "-I", "-E"];
/// What `userdel` and `usermod` end with when the user has processes.
const IN_USE: i32 = 8;

/// A user that is to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewUser {
    pub(crate) uid: Option<i64>,
    /// Name or number.
    pub(crate) gid: Option<String>,
    pub(crate) groups: Vec<String>,
    /// A group of its own: by what the host thinks right when it is not said.
    pub(crate) usergroup: Option<bool>,
    pub(crate) home: Option<String>,
    pub(crate) createhome: bool,
    pub(crate) shell: Option<String>,
    pub(crate) gecos: String,
    pub(crate) unique: bool,
    pub(crate) system: bool,
    pub(crate) nologinit: bool,
}

/// The programs that change users and groups.
pub(crate) struct Accounts<'t>(pub(crate) Tools<'t>);

impl Accounts<'_> {
    /// True when there are only the programs of busybox.
    fn is_busybox(&self) -> bool {
        self.0.which("usermod").is_none() && self.0.which("adduser").is_some()
    }

    fn must(&self, program: &str, args: &[&str], name: &str) -> Result<(), Refusal> {
        for word in args.last().into_iter().chain([&name]) {
            verify_name(word)?;
        }
        let said = self.0.tell(program, args)?;
        if said.is_fine() {
            return Ok(());
        }
        Err(self.refusal(program, &said, name))
    }

    fn refusal(&self, program: &str, said: &Said, name: &str) -> Refusal {
        let words = format!("`{program}` ended with code {}: {}", said.code, said.words());
        let busy = if said.code == IN_USE { self.processes(name) } else { Vec::new() };
        if busy.is_empty() {
            return Refusal::failed(words);
        }
        let logins = self.0.ask("who", &[] as &[&str]).map(|who| who.out).unwrap_or_default();
        let count = logins.lines().filter(|l| l.split_whitespace().next() == Some(name)).count();
        let logged = if count > 0 { format!(", {count} times logged in") } else { String::new() };
        Refusal::failed(format!("the user {name} is in use{logged}; processes: {}. {words}", busy.join(", ")))
    }

    /// The processes of a user, as `pid (command)`.
    fn processes(&self, name: &str) -> Vec<String> {
        let machine = self.0.machine;
        let Ok(Some(user)) = super::find(machine, name) else { return Vec::new() };
        let mut pids: Vec<u32> = machine.names("/proc").iter().filter_map(|n| n.parse().ok()).collect();
        pids.sort_unstable();
        let own = |pid: u32| {
            let status = machine.read(&format!("/proc/{pid}/status")).ok().flatten()?;
            let field = |key: &str| status.lines().find_map(|l| l.strip_prefix(key));
            let uid: i64 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
            (uid == user.uid).then(|| format!("{pid} ({})", field("Name:").unwrap_or_default().trim()))
        };
        pids.into_iter().filter_map(own).take(10).collect()
    }

    /// Makes a user.
    pub(crate) fn add_user(&self, name: &str, new: &NewUser) -> Result<(), Refusal> {
        let uid = new.uid.map(|n| n.to_string());
        let busybox = self.is_busybox();
        let mut args: Vec<&str> = Vec::new();
        let groups = new.groups.join(",");
        let gecos = Some(&*new.gecos).filter(|g| !g.is_empty());
        put(&mut args, "-u", uid.as_deref());
        put(&mut args, "-s", new.shell.as_deref());
        if busybox {
            put(&mut args, "-G", new.gid.as_deref());
            put(&mut args, "-h", new.home.as_deref());
            put(&mut args, "-g", Some(gecos.unwrap_or_default()));
            args.push("-D");
            args.extend(
                [(!new.createhome).then_some("-H"), new.system.then_some("-S")].into_iter().flatten(),
            );
            args.push(name);
            self.must("adduser", &args, name)?;
            return self.set_groups(name, &new.groups, true);
        }
        put(&mut args, "-g", new.gid.as_deref());
        put(&mut args, "-d", new.home.as_deref());
        put(&mut args, "-c", gecos);
        put(&mut args, "-G", Some(&*groups).filter(|g| !g.is_empty()));
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
        self.must("useradd", &args, name)
    }

    /// Takes a user away.
    pub(crate) fn delete_user(&self, name: &str, purge: bool, force: bool) -> Result<(), Refusal> {
        if self.is_busybox() {
            let purge = purge.then_some("--remove-home");
            return self.must("deluser", &purge.into_iter().chain([name]).collect::<Vec<_>>(), name);
        }
        verify_name(name)?;
        let flags = [purge.then_some("-r"), force.then_some("-f"), Some(name)];
        let args: Vec<&str> = flags.into_iter().flatten().collect();
        let said = self.0.tell("userdel", &args)?;
        // 12: the home directory could not be removed. A mail box that is not there counts as that, and is none.
        let is_mail =
            said.code == 12 && (said.err.contains("var/mail") || said.err.contains("var/spool/mail"));
        if said.is_fine() || is_mail {
            return Ok(());
        }
        Err(self.refusal("userdel", &said, name))
    }

    /// Sets `uid`, `gid`, `gecos`, `home` or `shell`. `more` are flags of `usermod` besides.
    pub(crate) fn set(&self, name: &str, key: &str, value: &str, more: &[&str]) -> Result<(), Refusal> {
        let Some((_, flag, at)) = FIELDS.into_iter().find(|f| f.0 == key) else { return Ok(()) };
        if self.is_busybox() {
            let group = if key == "gid" { find_local_group(self.0.machine, value)? } else { None };
            let gid = group.map(|g| g.gid.to_string());
            let before = find_local(self.0.machine, name)?;
            self.edit("/etc/passwd", name, at, gid.as_deref().unwrap_or(value))?;
            return if key == "uid" { self.hand_over(before, value) } else { Ok(()) };
        }
        let mut args = more.to_vec();
        args.extend([flag, value, name]);
        self.must("usermod", &args, name)
    }

    /// Gives what a user has in its home to its new number, as `usermod` does.
    fn hand_over(&self, before: Option<User>, uid: &str) -> Result<(), Refusal> {
        // A home that was not its own, such as `/`, stays as it is.
        let owner = |home: &str| Some(std::fs::metadata(self.0.machine.path(home)).ok()?.uid());
        let is_own = |u: &User| owner(&u.home).map(i64::from) == Some(u.uid);
        let Some(user) = before.filter(is_own) else { return Ok(()) };
        let old = user.uid.to_string();
        let words = [&*user.home, "-xdev", "-user", &old, "-exec", "chown", "-h", uid, "{}", "+"];
        self.must("find", &words, &user.name)
    }

    /// Puts a user into groups: these alone, or these too.
    pub(crate) fn set_groups(&self, name: &str, groups: &[String], append: bool) -> Result<(), Refusal> {
        if !self.is_busybox() {
            let list = groups.join(",");
            let args: &[&str] = if append { &["-a", "-G", &list, name] } else { &["-G", &list, name] };
            return self.must("usermod", args, name);
        }
        for group in super::groups(self.0.machine)? {
            let (is, wanted) = (group.members.iter().any(|m| m == name), groups.contains(&group.name));
            if wanted && !is {
                self.join(&group.name, name)?;
            } else if is && !wanted && !append {
                self.leave(&group.name, name)?;
            }
        }
        Ok(())
    }

    /// Sets the hash of a password; an empty one lets everybody in.
    pub(crate) fn set_hash(&self, name: &str, hash: &str) -> Result<(), Refusal> {
        if hash.contains([':', '\n']) {
            return Err(Refusal::failed(format!("what is given as password of {name} is no hash")));
        }
        if hash.is_empty() {
            return self.must("passwd", &["-d", name], name);
        }
        let timeout = self.0.machine.timeout;
        let mut command = Tools::command("chpasswd", &["-e"], timeout);
        command.stdin = format!("{name}:{hash}\n").into_bytes();
        let said = self.0.run(command)?;
        if said.is_fine() { Ok(()) } else { Err(self.refusal("chpasswd", &said, name)) }
    }

    /// Locks a password, or opens it again.
    pub(crate) fn lock(&self, name: &str, is_locked: bool) -> Result<(), Refusal> {
        self.must("passwd", &[if is_locked { "-l" } else { "-u" }, name], name)
    }

    /// Sets days of a password: places in [`DAYS`] and values; -1 takes one away.
    pub(crate) fn set_days(&self, name: &str, days: &[(usize, i64)]) -> Result<(), Refusal> {
        if days.is_empty() {
            return Ok(());
        }
        if self.0.which("chage").is_some() {
            let values: Vec<String> = days.iter().map(|(_, n)| n.to_string()).collect();
            let mut args: Vec<&str> = Vec::new();
            for ((at, _), value) in days.iter().zip(&values) {
                args.extend([CHAGE[*at], value]);
            }
            args.push(name);
            return self.must("chage", &args, name);
        }
        for (at, value) in days {
            let text = if *value < 0 { String::new() } else { value.to_string() };
            self.edit("/etc/shadow", name, at + 2, &text)?;
        }
        Ok(())
    }

    /// Makes a group.
    pub(crate) fn add_group(
        &self,
        name: &str,
        gid: Option<i64>,
        system: bool,
        non_unique: bool,
    ) -> Result<(), Refusal> {
        let busybox = self.is_busybox();
        let gid = gid.map(|n| n.to_string());
        let mut args: Vec<&str> = gid.iter().flat_map(|n| ["-g", n]).collect();
        if non_unique && !busybox && gid.is_some() {
            args.push("-o");
        }
        args.extend(system.then_some(if busybox { "-S" } else { "-r" }));
        args.push(name);
        self.must(if busybox { "addgroup" } else { "groupadd" }, &args, name)
    }

    /// Takes a group away.
    pub(crate) fn delete_group(&self, name: &str) -> Result<(), Refusal> {
        self.must(if self.is_busybox() { "delgroup" } else { "groupdel" }, &[name], name)
    }

    /// Changes the number of a group.
    pub(crate) fn set_gid(&self, name: &str, gid: i64, non_unique: bool) -> Result<(), Refusal> {
        let gid = gid.to_string();
        if self.is_busybox() {
            return self.edit("/etc/group", name, 2, &gid);
        }
        let more: &[&str] = if non_unique { &["-o"] } else { &[] };
        self.must("groupmod", &[more, &["-g", &gid, name]].concat(), name)
    }

    /// Puts a user into a group.
    pub(crate) fn join(&self, group: &str, user: &str) -> Result<(), Refusal> {
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.must("addgroup", &[user, group], user);
        }
        self.must("gpasswd", &["--add", user, group], user)
    }

    /// Takes a user out of a group.
    pub(crate) fn leave(&self, group: &str, user: &str) -> Result<(), Refusal> {
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.must("delgroup", &[user, group], user);
        }
        self.must("gpasswd", &["--del", user, group], user)
    }

    /// Says who is in a group.
    pub(crate) fn set_members(&self, group: &str, members: &[String]) -> Result<(), Refusal> {
        let list = members.join(",");
        if self.0.which("gpasswd").is_none() && self.is_busybox() {
            return self.edit("/etc/group", group, 3, &list);
        }
        self.must("gpasswd", &["--members", &list, group], group)
    }

    /// Sets one field of the line of a name.
    fn edit(&self, file: &str, name: &str, at: usize, value: &str) -> Result<(), Refusal> {
        let text = self.0.machine.read(file)?.unwrap_or_default();
        let Some(new) = with_field(&text, name, at, value) else {
            return Err(Refusal::failed(format!(
                "`{file}` has no line for {name}, or `{value}` cannot stand in it"
            )));
        };
        Disk::default()
            .write(Path::new(file), new.as_bytes(), Meta::default())
            .map_err(|e| Refusal::failed(crate::report::chain(&e)))
    }
}

/// Refuses a name that programs would take for an option.
fn verify_name(name: &str) -> Result<(), Refusal> {
    if name.starts_with('-') {
        return Err(Refusal::failed(format!("`{name}` is no name of a user or group")));
    }
    Ok(())
}

fn put<'a>(args: &mut Vec<&'a str>, flag: &'static str, value: Option<&'a str>) {
    args.extend(value.into_iter().flat_map(|value| [flag, value]));
}

/// A text of lines such as `name:x:…` with one field of one name set; nothing when there is no such line or field.
fn with_field(text: &str, name: &str, at: usize, value: &str) -> Option<String> {
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
pub(crate) fn day(text: &str) -> Option<i64> {
    if let Ok(days) = text.trim().parse() {
        return Some(days);
    }
    let date: jiff::civil::Date = text.trim().parse().ok()?;
    let days = date.since((jiff::Unit::Day, jiff::civil::date(1970, 1, 1))).ok()?;
    Some(days.get_days().into())
}

/// The place of a day among [`DAYS`] by its name.
pub(crate) fn day_named(name: &str) -> usize {
    DAYS.iter().position(|d| *d == name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_no_names() {
        assert!(verify_name("-o").is_err() && verify_name("www-data").is_ok());
        let machine = crate::host::Machine::new();
        let acts = Accounts(Tools::new(&machine));
        for told in [
            acts.delete_user("-f", false, false),
            acts.must("false", &["-g", "1", "--root=/x"], "x"),
            acts.must("false", &["--add", "-x", "group"], "-x"),
        ] {
            assert!(told.is_err_and(|e| e.words().contains("is no name of a user or group")));
        }
    }

    #[test]
    fn one_field_of_one_line_is_set() {
        let text = "a:x:1:1::/a:/bin/sh\nab:x:2:2::/ab:/bin/sh\n";
        let new = with_field(text, "ab", 6, "/bin/ash").expect("set");
        assert_eq!(new, "a:x:1:1::/a:/bin/sh\nab:x:2:2::/ab:/bin/ash\n");
        assert_eq!(with_field(text, "b", 6, "/bin/ash"), None);
        assert_eq!(with_field(text, "a", 7, "x"), None);
        assert_eq!(with_field(text, "a", 6, "/bin/sh:0"), None);
    }

    #[test]
    fn days_are_numbers_or_dates() {
        assert_eq!(day("19000"), Some(19000));
        assert_eq!(day("-1"), Some(-1));
        assert_eq!(day("1970-01-02"), Some(1));
        assert_eq!(day("2022-01-08"), Some(19000));
        assert_eq!(day("soon"), None);
    }
}
