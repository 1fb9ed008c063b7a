//! `/etc/passwd` and `/etc/group` of a machine in, users and groups out.

use zagent_config::FunctionError;

use crate::Machine;

/// One line of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswdEntry {
    /// Login name.
    pub name: String,
    /// Password field; mostly `x`, as the hash is in `/etc/shadow`.
    pub password: String,
    /// Number of the user.
    pub uid: i64,
    /// Number of its primary group.
    pub gid: i64,
    /// Comment: full name, room, telephone numbers.
    pub gecos: String,
    /// Home directory.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

impl PasswdEntry {
    /// The parts of its comment.
    pub fn gecos_fields(&self) -> [String; 5] {
        let mut parts = self.gecos.splitn(5, ',').map(str::to_owned);
        std::array::from_fn(|_| parts.next().unwrap_or_default())
    }
}

impl From<nix::unistd::User> for PasswdEntry {
    fn from(user: nix::unistd::User) -> Self {
        Self {
            name: user.name,
            password: user.passwd.to_string_lossy().into_owned(),
            uid: user.uid.as_raw().into(),
            gid: user.gid.as_raw().into(),
            gecos: user.gecos.to_string_lossy().into_owned(),
            home: user.dir.to_string_lossy().into_owned(),
            shell: user.shell.to_string_lossy().into_owned(),
        }
    }
}

/// One line of the group database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Name of the group.
    pub name: String,
    /// Password field; mostly `x`.
    pub password: String,
    /// Number of the group.
    pub gid: i64,
    /// Names of the users in it.
    pub members: Vec<String>,
}

impl From<nix::unistd::Group> for GroupEntry {
    fn from(group: nix::unistd::Group) -> Self {
        Self {
            name: group.name,
            password: group.passwd.to_string_lossy().into_owned(),
            gid: group.gid.as_raw().into(),
            members: group.mem,
        }
    }
}

/// All users of the file.
pub fn read_passwd(machine: &Machine) -> Result<Vec<PasswdEntry>, FunctionError> {
    let text = machine.read("/etc/passwd")?.unwrap_or_default();
    Ok(text.lines().filter_map(parse_passwd_line).collect())
}

fn parse_passwd_line(line: &str) -> Option<PasswdEntry> {
    let f: Vec<&str> = line.split(':').collect();
    let [name, password, uid, gid, gecos, home, shell] = f[..] else { return None };
    Some(PasswdEntry {
        name: name.into(),
        password: password.into(),
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        gecos: gecos.into(),
        home: home.into(),
        shell: shell.into(),
    })
}

/// All groups of the file.
pub fn read_groups(machine: &Machine) -> Result<Vec<GroupEntry>, FunctionError> {
    let text = machine.read("/etc/group")?.unwrap_or_default();
    Ok(text.lines().filter_map(parse_group_line).collect())
}

fn parse_group_line(line: &str) -> Option<GroupEntry> {
    let f: Vec<&str> = line.split(':').collect();
    let [name, password, gid, members] = f[..] else { return None };
    let members = members.split(',').filter(|m| !m.is_empty()).map(str::to_owned).collect();
    Some(GroupEntry { name: name.into(), password: password.into(), gid: gid.parse().ok()?, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_databases_are_read() {
        let found = parse_passwd_line("web:x:33:34:Web, Inc,2,,,a,b:/var/www:/bin/sh").expect("a user");
        assert_eq!((found.uid, found.gid, &*found.home), (33, 34, "/var/www"));
        assert_eq!(found.gecos_fields(), ["Web", " Inc", "2", "", ",a,b"]);
        assert_eq!(parse_passwd_line("+nis::::"), None);
        assert_eq!(parse_group_line("adm:x:4:a,,b").expect("a group").members, ["a", "b"]);
        assert_eq!(parse_group_line("adm:x:four:"), None);
    }
}
