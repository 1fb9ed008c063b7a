//! `user` and `group` of a state in, numbers out.
//!
//! Law: a name that nobody has is a failure in Salt's words; it is never taken for somebody else (held by
//! `who_is_missing_is_told_as_salt_does`).

use std::sync::Arc;

use zagent_config::Value;

use crate::assumed_accounts;
use crate::assumed_accounts::AccountKind;
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::Machine;
use zagent_host::fs::Stat;
use zagent_host::machine::account_ids;

/// Who should own something, as a state says it; what it does not say stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owner {
    user: Option<AccountRef>,
    group: Option<AccountRef>,
}

/// A user or group, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccountRef {
    /// By number.
    Number(u32),
    /// By name.
    Name(Arc<str>),
}

/// Who should own something, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerIds {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

impl Owner {
    /// Reads `user` and `group`; what is empty is not given.
    ///
    /// # Errors
    /// Fails when one is neither a name nor a number.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        // Salt takes `owner` for `user` when that is missing.
        let user = match AccountRef::read(args, "user")? {
            None => AccountRef::read(args, "owner")?,
            user => user,
        };
        Ok(Self { user, group: AccountRef::read(args, "group")? })
    }

    /// Who is asked for, with the user or the group left out.
    pub(crate) fn restrict_to(&self, user: bool, group: bool) -> Self {
        Self { user: self.user.clone().filter(|_| user), group: self.group.clone().filter(|_| group) }
    }

    /// The same, with these where nobody is asked for.
    pub(crate) fn or_ids(&self, uid: u32, gid: u32) -> Self {
        Self {
            user: Some(self.user.clone().unwrap_or(AccountRef::Number(uid))),
            group: Some(self.group.clone().unwrap_or(AccountRef::Number(gid))),
        }
    }

    /// The same, with who runs this where nobody is asked for: the user, and then the main group of the user.
    pub(crate) fn or_current_user(&self, machine: &Machine) -> Self {
        let user =
            self.user.clone().unwrap_or_else(|| AccountRef::Number(rustix::process::geteuid().as_raw()));
        let group = self.group.clone().or_else(|| {
            let account = user.uid(machine).and_then(|uid| account_ids::user_by_uid(machine, uid));
            account.and_then(|account| u32::try_from(account.gid).ok()).map(AccountRef::Number)
        });
        Self { user: Some(user), group }
    }

    /// `user:group` in words, what is not asked for as it is found.
    pub(crate) fn describe(&self, machine: &Machine, found: &Stat) -> String {
        let text = |value: Value| zagent_compiler::name_text(&value);
        let uid = self.user.as_ref().map_or(Some(found.uid), |who| who.uid(machine));
        let gid = self.group.as_ref().map_or(Some(found.gid), |who| who.gid(machine));
        let user = uid.map_or_else(String::new, |uid| text(user_name(machine, uid)));
        let group = gid.map_or_else(String::new, |gid| text(group_name(machine, gid)));
        format!("{user}:{group}")
    }

    /// The user that was asked for.
    pub(crate) const fn user(&self) -> Option<&AccountRef> {
        self.user.as_ref()
    }

    /// The group that was asked for.
    pub(crate) const fn group(&self) -> Option<&AccountRef> {
        self.group.as_ref()
    }

    /// True when an entry is owned as asked for; who does not exist owns nothing.
    pub(crate) fn matches(&self, machine: &Machine, found: &Stat) -> bool {
        self.user.as_ref().is_none_or(|who| who.uid(machine) == Some(found.uid))
            && self.group.as_ref().is_none_or(|who| who.gid(machine) == Some(found.gid))
    }

    /// The numbers.
    ///
    /// # Errors
    /// Fails with Salt's words when there is no such user or group.
    pub(crate) fn ids(&self, machine: &Machine) -> Result<OwnerIds, StateError> {
        let uid = self.user.as_ref().map(|who| who.uid(machine));
        let gid = self.group.as_ref().map(|who| who.gid(machine));
        let mut missing = String::new();
        if let (Some(user), Some(None)) = (&self.user, uid) {
            missing.push_str(&format!("User {user} is not available "));
        }
        if let (Some(group), Some(None)) = (&self.group, gid) {
            missing.push_str(&format!("Group {group} is not available"));
        }
        if missing.is_empty() {
            return Ok(OwnerIds { uid: uid.flatten(), gid: gid.flatten() });
        }
        Err(StateError::new(missing))
    }

    /// Lets a dry run assume that a missing user or group exists, and names them.
    pub(crate) fn assume_accounts(&self, ctx: &StateCtx<'_>) -> Vec<String> {
        let user = self.user.as_ref().filter(|who| who.uid(ctx.machine).is_none());
        let group = self.group.as_ref().filter(|who| who.gid(ctx.machine).is_none());
        let mut lacks = Vec::new();
        for (who, kind, word) in [(user, AccountKind::User, "user"), (group, AccountKind::Group, "group")] {
            let Some(who) = who else { continue };
            ctx.shared.assumed_accounts.add(kind, &who.to_string(), None);
            lacks.push(format!("the {word} {who}"));
        }
        lacks
    }
}

impl AccountRef {
    fn read(args: &ChunkArgs<'_>, key: &str) -> Result<Option<Self>, StateError> {
        match args.get(key) {
            None => Ok(None),
            Some(Value::Str(name)) if name.is_empty() => Ok(None),
            Some(Value::Str(name)) => Ok(Some(Self::Name(Arc::clone(name)))),
            Some(Value::Int(n)) => match u32::try_from(*n) {
                // -1 means "nobody" to the kernel's chown, which would silently leave the owner alone.
                Ok(n) if n != u32::MAX => Ok(Some(Self::Number(n))),
                _ => Err(StateError::new(format!("`{key}` must be a name or a number, not {n}"))),
            },
            Some(Value::Bool(false)) => Ok(None),
            Some(other) => {
                Err(StateError::new(format!("`{key}` must be a name or a number, not {}", other.kind())))
            }
        }
    }

    /// The user's number; nothing when there is no such user.
    pub(crate) fn uid(&self, machine: &Machine) -> Option<u32> {
        self.id(AccountKind::User, |name| account_ids::uid_of(machine, name))
    }

    /// The group's number; nothing when there is no such group.
    pub(crate) fn gid(&self, machine: &Machine) -> Option<u32> {
        self.id(AccountKind::Group, |name| account_ids::gid_of(machine, name))
    }

    fn id(&self, kind: AccountKind, by_name: impl Fn(&str) -> Option<u32>) -> Option<u32> {
        match self {
            Self::Number(n) => Some(*n),
            // Nobody else is 0, and most files are theirs.
            Self::Name(name) if &**name == "root" => Some(0),
            Self::Name(name) => {
                let number = || name.parse().ok().filter(|n| *n != u32::MAX);
                by_name(name).or_else(|| assumed_accounts::assumed_id(kind, name)).or_else(number)
            }
        }
    }
}

impl std::fmt::Display for AccountRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl From<&AccountRef> for Value {
    fn from(who: &AccountRef) -> Self {
        match who {
            AccountRef::Number(n) => Self::Int(i64::from(*n)),
            AccountRef::Name(name) => Self::Str(Arc::clone(name)),
        }
    }
}

/// The name of a user, or the number when it has none.
pub fn user_name(machine: &Machine, uid: u32) -> Value {
    match account_ids::user_by_uid(machine, uid) {
        Some(user) => user.name.into(),
        None => Value::Int(i64::from(uid)),
    }
}

/// The name of a group, or the number when it has none.
pub fn group_name(machine: &Machine, gid: u32) -> Value {
    match account_ids::group_by_gid(machine, gid) {
        Some(group) => group.name.into(),
        None => Value::Int(i64::from(gid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(user: Option<AccountRef>, group: Option<AccountRef>) -> Owner {
        Owner { user, group }
    }

    fn name(text: &str) -> Option<AccountRef> {
        Some(AccountRef::Name(text.into()))
    }

    #[test]
    fn names_become_numbers() {
        let ids = owner(name("root"), Some(AccountRef::Number(12_345)))
            .ids(&Machine::this_host())
            .expect("both are known");
        assert_eq!(ids, OwnerIds { uid: Some(0), gid: Some(12_345) });
        assert_eq!(owner(name("4242"), None).ids(&Machine::this_host()).expect("a number").uid, Some(4242));
        assert_eq!(owner(None, None).ids(&Machine::this_host()).expect("nothing asked"), OwnerIds::default());
    }

    #[test]
    fn who_is_missing_is_told_as_salt_does() {
        let missing = owner(name("nosuch"), name("nogroup-such"))
            .ids(&Machine::this_host())
            .expect_err("nobody has these names");
        assert_eq!(
            missing.result.comment,
            "User nosuch is not available Group nogroup-such is not available"
        );
        let missing =
            owner(name("nosuch"), None).ids(&Machine::this_host()).expect_err("nobody has this name");
        assert_eq!(missing.result.comment, "User nosuch is not available ");
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!(user_name(&Machine::this_host(), 0), Value::from("root"));
        assert_eq!(user_name(&Machine::this_host(), 4_000_000_001), Value::Int(4_000_000_001));
    }
}
