//! What databases, engines and volume managers keep in, the same restored by a revert out.
//!
//! Law: a check uses the password of a server, and no journal holds it (held by
//! `a_check_has_the_password_and_the_journal_has_not`).

use zagent_config::{Map, Value};

use crate::named_args::{NamedArgs, with_map_args};
use crate::{StateCtx, StateError, Undoable};

/// How a server is reached: which arguments the pillar may give for all states, and which of them is the password.
pub(crate) struct ServerLogin {
    /// Arguments, and where the pillar has them.
    pub(crate) pillar_defaults: &'static [(&'static str, &'static str)],
    /// The argument that replaces all defaults: a file that says everything.
    pub(crate) exclusive_arg: Option<&'static str>,
    /// The password as an argument.
    pub(crate) password_arg: &'static str,
    /// The password in an undo key.
    pub(crate) password_key: &'static str,
}

impl ServerLogin {
    /// The pillar key of an argument.
    fn pillar_key(&self, arg: &str) -> Option<&'static str> {
        self.pillar_defaults.iter().find(|(name, _)| *name == arg).map(|(_, key)| *key)
    }

    /// What the pillar says for an argument that is not among those given.
    pub(crate) fn default_arg<'a>(&self, given: &Map, arg: &str, pillar: &'a Value) -> Option<&'a Value> {
        if self.exclusive_arg.is_some_and(|exclusive| given.contains(exclusive)) {
            return None;
        }
        pillar.get(self.pillar_key(arg)?)
    }

    /// An undo key with the password in it.
    fn unlock(&self, key: &Value, password: &Value) -> Map {
        let mut key = key_map(key);
        key.remove(NEEDS_PASSWORD);
        key.insert(self.password_key, password.clone());
        key
    }
}

/// In a key: a check needs a password, which the key does not hold.
const NEEDS_PASSWORD: &str = "needs_password";

/// A key as a mapping.
fn key_map(key: &Value) -> Map {
    match key {
        Value::Map(map) => (**map).clone(),
        name => Map::from_iter([("name", name.clone())]),
    }
}

/// The key with a note that a check needs a password.
pub(crate) fn mark_needs_password(key: &Value) -> Value {
    let mut key = key_map(key);
    key.insert(NEEDS_PASSWORD, true);
    key.into()
}

/// An undoable while its password is known: checks use it, the journal never sees it.
pub(crate) struct UnlockedUndo {
    pub(crate) undoable: &'static dyn Undoable,
    pub(crate) login: &'static ServerLogin,
    pub(crate) password: Value,
}

impl Undoable for UnlockedUndo {
    fn kind(&self) -> &'static str {
        self.undoable.kind()
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        self.undoable.capture(&self.login.unlock(key, &self.password).into(), ctx)
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        self.undoable.restore(&self.login.unlock(key, &self.password).into(), to, ctx)
    }
}

/// Inspects what a key names.
type CaptureFn<T> = fn(&NamedArgs<'_>, &StateCtx<'_>) -> Result<T, StateError>;

/// An undoable that is described by functions.
pub(crate) struct StoreUndo {
    pub(crate) kind: &'static str,
    /// How its server is reached; nothing when there is none.
    pub(crate) login: Option<&'static ServerLogin>,
    pub(crate) capture: CaptureFn<Value>,
    pub(crate) restore: fn(&NamedArgs<'_>, &Value, &StateCtx<'_>) -> Result<(), StateError>,
    /// Why it is not removed: what it holds.
    pub(crate) keep_reason: Option<CaptureFn<Option<String>>>,
}

impl StoreUndo {
    /// Runs a body with the parts of a key; the password that it lacks comes from the pillar.
    fn with_key<T>(
        &self,
        key: &Value,
        ctx: &StateCtx<'_>,
        body: impl FnOnce(&NamedArgs<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let mut map = key_map(key);
        if let (true, Some(login)) = (map.contains(NEEDS_PASSWORD), self.login) {
            let place = login.pillar_key(login.password_arg).unwrap_or_default();
            let Some(password) = ctx.pillar.get(place).filter(|v| v.is_truthy()) else {
                return Err(StateError::new(format!(
                    "it takes a password, which is not kept: the pillar has none at `{place}`"
                )));
            };
            map = login.unlock(key, password);
        }
        with_map_args(&map, body)
    }
}

impl Undoable for StoreUndo {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        self.with_key(key, ctx, |given| (self.capture)(given, ctx))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        self.with_key(key, ctx, |given| (self.restore)(given, to, ctx))
    }

    fn removal_blocker(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        let Some(keep_reason) = self.keep_reason else { return Ok(None) };
        self.with_key(key, ctx, |given| keep_reason(given, ctx))
    }

    fn redacted(&self, how: &Value) -> Value {
        match how {
            Value::Map(map) => {
                let hide = |(k, v): (&Value, &Value)| match k.as_str() {
                    Some("password" | "hash") => (k.clone(), "(not shown)".into()),
                    _ => (k.clone(), v.clone()),
                };
                map.iter().map(hide).collect::<Map>().into()
            }
            // In a statement the password of an account comes after this word.
            Value::List(items) => {
                let cut = |v: &Value| {
                    v.as_str()
                        .map_or_else(|| v.clone(), |t| t.split(" IDENTIFIED").next().unwrap_or(t).into())
                };
                items.iter().map(cut).collect()
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::mysql::MYSQL_LOGIN;

    /// Returns the password that it was given.
    static SHOP: StoreUndo = StoreUndo {
        kind: "mysql_shop",
        login: Some(&MYSQL_LOGIN),
        capture: |given, _| Ok(given.text("connection_pass").map_or(Value::Null, Value::from)),
        restore: |_, _, _| Ok(()),
        keep_reason: None,
    };

    #[test]
    fn a_check_has_the_password_and_the_journal_has_not() {
        let test_bed = crate::testing::StateTestBed::new();
        let root = tempfile::tempdir().unwrap();
        let journal = zagent_host::undo::UndoJournal::create(root.path(), "one").unwrap();
        let ctx = StateCtx { journal: Some(&journal), tag: "t", ..test_bed.scene() };
        let unlocked = UnlockedUndo { undoable: &SHOP, login: &MYSQL_LOGIN, password: "pw".into() };
        let key = mark_needs_password(&"shop".into());
        assert_eq!(unlocked.capture(&key, &ctx).unwrap(), "pw".into());
        let noted = serde_json::to_string(&key).unwrap();
        assert_eq!(noted, r#"{"name":"shop","needs_password":true}"#);
        // A revert has only the key and the pillar.
        let failure = SHOP.capture(&key, &ctx).unwrap_err();
        assert!(failure.result.comment.contains("`mysql.pass`"), "{}", failure.result.comment);
        let pillar = Value::from_json_str(r#"{"mysql.pass": "kept"}"#).unwrap();
        let ctx = StateCtx { pillar: &pillar, ..ctx };
        assert_eq!(SHOP.capture(&key, &ctx).unwrap(), "kept".into());
        assert_eq!(SHOP.capture(&"shop".into(), &ctx).unwrap(), Value::Null);
    }

    #[test]
    fn what_is_kept_of_a_password_is_not_shown() {
        let shown = |json: &str| {
            let value = SHOP.redacted(&Value::from_json_str(json).unwrap());
            serde_json::to_string(&value).unwrap()
        };
        assert_eq!(
            shown(r#"{"password": "md5aa", "superuser": true}"#),
            r#"{"password":"(not shown)","superuser":true}"#
        );
        let lines = r#"["GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*14E6'", "GRANT SELECT ON `b`.* TO `a`@`%`"]"#;
        assert_eq!(shown(lines), r#"["GRANT USAGE ON *.* TO `a`@`%`","GRANT SELECT ON `b`.* TO `a`@`%`"]"#);
        assert_eq!(shown("null"), "null");
    }
}
