//! What programs keep: databases, containers, volumes.
//!
//! Law: a state function is a planner, a look that says what is to be done; the one state here carries it out. What was there
//! before is noted, so that a revert takes away only what was new.

use std::path::Path;

use zagent_config::{Map, Value};

pub(crate) use crate::databases::{NamedArgs, with_map_args};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Undoable,
};
use zagent_host::fs::FileMeta;

/// What a planner found out.
pub(crate) enum StorePlan {
    /// Nothing is to be done.
    InSync(String),
    /// Something is.
    Change(PlannedChange),
}

/// Does what is to be done.
pub(crate) type ChangeFn = Box<dyn Fn(&StateCtx<'_>) -> Result<(), StateError>>;

/// What is to be done.
pub(crate) struct PlannedChange {
    /// What a dry run says.
    pub(crate) preview_comment: String,
    /// What is said after it.
    pub(crate) done_comment: String,
    /// What is said before the reason when it failed.
    pub(crate) failure_prefix: String,
    pub(crate) changes: Map,
    /// What it changes, for a revert.
    pub(crate) undoable: Option<(&'static dyn Undoable, Value)>,
    pub(crate) run_change: ChangeFn,
}

/// Looks, and says what is to be done.
pub(crate) type StorePlanner = fn(&NamedArgs<'_>, &StateCtx<'_>) -> Result<StorePlan, StateError>;

/// A state function: its planner, and why what it does cannot be undone.
pub(crate) type StorePlannerRow = (&'static str, &'static str, StorePlanner, Option<&'static str>);

const ALL_PLANNERS: [&[StorePlannerRow]; 6] = [
    crate::groups::postgres::PLANNERS,
    crate::groups::mysql::PLANNERS,
    crate::docker_container::PLANNERS,
    crate::lvm::PLANNERS,
    crate::groups::apache::PLANNERS,
    crate::pdbedit::PLANNERS,
];

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let (_, _, planner, irreversible) =
        ALL_PLANNERS.into_iter().flatten().find(|(module, name, _, _)| *module == state && *name == fun)?;
    let mut all = args.chunk.args.clone();
    all.insert("name", args.name());
    let module = state.split('_').next().unwrap_or_default().to_owned();
    let is_act = match (state, fun) {
        ("mysql_query", _) | ("docker_container", "run") => true,
        ("docker_image", "present") | ("docker_container", "running") => args.flag("force", false),
        _ => false,
    };
    let replaces = state == "docker_container" && fun == "running";
    let irreversible = *irreversible;
    Some(Ok(Box::new(PlannedState {
        planner: *planner,
        module,
        args: all,
        runs_always: is_act,
        replaces_container: replaces,
        irreversible,
    })))
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[
    &crate::groups::postgres::POSTGRES_ROLE_UNDO,
    &crate::groups::postgres::POSTGRES_DATABASE_UNDO,
    &crate::groups::postgres::POSTGRES_OBJECT_UNDO,
    &crate::groups::postgres::POSTGRES_PRIVILEGES_UNDO,
    &crate::groups::mysql::MYSQL_USER_UNDO,
    &crate::groups::mysql::MYSQL_DATABASE_UNDO,
    &crate::groups::mysql::MYSQL_GRANTS_UNDO,
    &crate::docker_container::DOCKER_CONTAINER_UNDO,
    &crate::docker_container::DOCKER_OBJECT_UNDO,
    &crate::lvm::LVM_UNDO,
    &crate::groups::apache::APACHE_UNDO,
    &crate::pdbedit::PDBEDIT_UNDO,
];

/// Arguments that the pillar may give for all states of a module.
const PILLAR_DEFAULTS: [(&str, &str, &str); 12] = [
    ("mysql", "connection_host", "mysql.host"),
    ("mysql", "connection_user", "mysql.user"),
    ("mysql", "connection_pass", "mysql.pass"),
    ("mysql", "connection_port", "mysql.port"),
    ("mysql", "connection_unix_socket", "mysql.unix_socket"),
    ("mysql", "connection_default_file", "mysql.default_file"),
    ("mysql", "connection_charset", "mysql.charset"),
    ("postgres", "db_host", "postgres.host"),
    ("postgres", "db_port", "postgres.port"),
    ("postgres", "db_user", "postgres.user"),
    ("postgres", "db_password", "postgres.pass"),
    ("postgres", "maintenance_db", "postgres.maintenance_db"),
];

/// What the pillar says for all states of a module.
fn pillar_default<'a>(module: &str, key: &str, ctx: &'a StateCtx<'_>) -> Option<&'a Value> {
    let (_, _, from) = PILLAR_DEFAULTS.iter().find(|(m, k, _)| *k == key && *m == module)?;
    ctx.pillar.get(from)
}

/// What a module's password is called as an argument, and in the key of a thing.
fn password_arg(module: &str) -> Option<(&'static str, &'static str)> {
    match module {
        "mysql" => Some(("connection_pass", "connection_pass")),
        "postgres" => Some(("db_password", "password")),
        _ => None,
    }
}

struct PlannedState {
    planner: StorePlanner,
    /// `mysql` of `mysql_user`.
    module: String,
    args: Map,
    /// It is done every time, whatever a look finds.
    runs_always: bool,
    /// It answers a watch by making the thing anew.
    replaces_container: bool,
    irreversible: Option<&'static str>,
}

impl PlannedState {
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
        (self.planner)(&NamedArgs::new(&|key| self.find_arg(key, ctx)), ctx)
    }

    fn find_arg<'a>(&'a self, key: &str, ctx: &'a StateCtx<'_>) -> Option<&'a Value> {
        // A file that is asked for says all that there is to say.
        let is_alone = self.args.contains("connection_default_file");
        self.args.get(key).or_else(|| if is_alone { None } else { pillar_default(&self.module, key, ctx) })
    }

    /// The password that a look needs and that no journal may hold.
    fn password(&self, ctx: &StateCtx<'_>) -> Option<Value> {
        let (argument, _) = password_arg(&self.module)?;
        self.find_arg(argument, ctx).filter(|v| v.is_truthy()).cloned()
    }
}

impl PlannedState {
    /// Takes note that somebody watched: a container is replaced, or gets the signal that is asked for.
    fn mark_watched(&mut self) {
        if !self.replaces_container {
            return;
        }
        match self.args.get("watch_action").and_then(Value::as_str).filter(|action| *action != "force") {
            Some(signal) => self.args.insert(crate::docker_container::SIGNAL_ARG, signal.to_owned()),
            None => self.args.insert("force", true),
        };
    }
}

impl State for PlannedState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.plan(ctx)? {
            StorePlan::InSync(comment) => CheckResult::in_sync(comment),
            StorePlan::Change(act) => CheckResult::drifted(act.preview_comment, act.changes),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let PlannedChange {
            done_comment: did,
            failure_prefix: fails,
            changes,
            undoable: thing,
            run_change: act,
            ..
        } = match self.plan(ctx)? {
            StorePlan::InSync(comment) => return Ok(ApplyResult::new(comment, Map::new())),
            StorePlan::Change(act) => act,
        };
        let done = match thing {
            Some((thing, key)) => match self.password(ctx) {
                Some(password) => ctx.with_undo(
                    &UnlockedUndo { undoable: thing, password },
                    mark_needs_password(key),
                    || act(ctx),
                ),
                None => ctx.with_undo(thing, key, || act(ctx)),
            },
            None => act(ctx),
        };
        done.map_err(|f| StateError::new(format!("{fails}: {}", f.result.comment)))?;
        Ok(ApplyResult::new(did, changes))
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.mark_watched();
        self.check(ctx)
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.mark_watched();
        let done = self.apply(ctx);
        self.args.remove("force");
        self.args.remove(crate::docker_container::SIGNAL_ARG);
        done
    }

    fn reads(&self) -> Effects {
        match &*self.module {
            "stateconf" => Effects::NONE,
            "apache" => Effects::FILES | Effects::PACKAGE_FILES,
            "lvm" => Effects::KERNEL | Effects::PACKAGE_FILES,
            _ => Effects::STORES | Effects::USERS | Effects::SERVICES,
        }
    }

    fn writes(&self) -> Effects {
        match &*self.module {
            "stateconf" => Effects::NONE,
            "apache" => Effects::PACKAGE_FILES,
            "lvm" => Effects::KERNEL,
            _ => Effects::STORES,
        }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Stores]
    }

    fn is_convergent(&self) -> bool {
        !self.runs_always
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.irreversible
    }
}

/// One change, in Salt's shape.
pub(crate) fn single_change(name: &str, what: impl Into<Value>) -> Map {
    Map::from_iter([(name, what.into())])
}

/// The bytes of a file of the tree (`salt://…`) or of the host.
pub(crate) fn read_source(
    text: &str,
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
) -> Result<Vec<u8>, StateError> {
    let Some(path) = text.strip_prefix("salt://") else { return Ok(ctx.fs.read(Path::new(text))?) };
    let env = given.text("saltenv").unwrap_or_else(|| "base".to_owned());
    let found = ctx.files.read(&env, path).map_err(StateError::new)?;
    found
        .map(|bytes| bytes.to_vec())
        .ok_or_else(|| StateError::new(format!("there is no {text} in the tree")))
}

/// Writes a value as JSON.
pub(crate) fn write_json(ctx: &StateCtx<'_>, path: &Path, value: &Value) -> Result<(), StateError> {
    let text = serde_json::to_string(value).map_err(|e| StateError::new(e.to_string()))?;
    Ok(ctx.fs.write(path, format!("{text}\n").as_bytes(), FileMeta::default())?)
}

/// In a key: it takes a password to look, which the key does not hold.
const NEEDS_PASSWORD: &str = "needs_password";

/// A key as a mapping.
fn as_map(key: &Value) -> Map {
    match key {
        Value::Map(map) => (**map).clone(),
        name => Map::from_iter([("name", name.clone())]),
    }
}

fn mark_needs_password(key: Value) -> Value {
    let mut key = as_map(&key);
    key.insert(NEEDS_PASSWORD, true);
    key.into()
}

/// A thing while its password is known: looks use it, the journal never sees it.
struct UnlockedUndo {
    undoable: &'static dyn Undoable,
    password: Value,
}

impl Undoable for UnlockedUndo {
    fn kind(&self) -> &'static str {
        self.undoable.kind()
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        self.undoable.capture(&with_password(self.kind(), key, &self.password), ctx)
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        self.undoable.restore(&with_password(self.kind(), key, &self.password), to, ctx)
    }
}

fn module_of_kind(kind: &str) -> &str {
    kind.split('_').next().unwrap_or_default()
}

fn with_password(kind: &str, key: &Value, password: &Value) -> Value {
    let mut key = as_map(key);
    key.remove(NEEDS_PASSWORD);
    if let Some((_, name)) = password_arg(module_of_kind(kind)) {
        key.insert(name, password.clone());
    }
    key.into()
}

/// Looks at what a key speaks of.
type CaptureFn<T> = fn(&NamedArgs<'_>, &StateCtx<'_>) -> Result<T, StateError>;

/// A kind of things that is told by functions.
pub(crate) struct StoreUndo {
    pub(crate) kind: &'static str,
    pub(crate) capture: CaptureFn<Value>,
    pub(crate) restore: fn(&NamedArgs<'_>, &Value, &StateCtx<'_>) -> Result<(), StateError>,
    /// Why it is not taken away: what it holds.
    pub(crate) keep_reason: Option<CaptureFn<Option<String>>>,
}

impl StoreUndo {
    /// Lets a body see a key; the password that it lacks is the pillar's.
    fn with_key<T>(
        &self,
        key: &Value,
        ctx: &StateCtx<'_>,
        body: impl FnOnce(&NamedArgs<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let mut map = as_map(key);
        let module = module_of_kind(self.kind);
        if let (true, Some((argument, _))) = (map.contains(NEEDS_PASSWORD), password_arg(module)) {
            let Some(password) = pillar_default(module, argument, ctx).filter(|v| v.is_truthy()) else {
                return Err(StateError::new(format!(
                    "it takes a password, which is not kept: the pillar has none at `{module}.pass`"
                )));
            };
            map = as_map(&with_password(self.kind, key, password));
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
        let Some(full) = self.keep_reason else { return Ok(None) };
        self.with_key(key, ctx, |given| full(given, ctx))
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
            // Statements say how an account is proven after this word.
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

    /// Tells the password that it was given.
    static SHOP: StoreUndo = StoreUndo {
        kind: "mysql_shop",
        capture: |given, _| Ok(given.text("connection_pass").map_or(Value::Null, Value::from)),
        restore: |_, _, _| Ok(()),
        keep_reason: None,
    };

    #[test]
    fn a_look_has_the_password_and_the_journal_has_not() {
        let test_bed = crate::testing::StateTestBed::new();
        let root = tempfile::tempdir().unwrap();
        let journal = zagent_host::undo::UndoJournal::create(root.path(), "one").unwrap();
        let ctx = StateCtx { journal: Some(&journal), tag: "t", ..test_bed.scene() };
        let open = UnlockedUndo { undoable: &SHOP, password: "pw".into() };
        let key = mark_needs_password("shop".into());
        assert_eq!(open.capture(&key, &ctx).unwrap(), "pw".into());
        let told = serde_json::to_string(&key).unwrap();
        assert_eq!(told, r#"{"name":"shop","needs_password":true}"#);
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
            let value =
                super::super::postgres::POSTGRES_ROLE_UNDO.redacted(&Value::from_json_str(json).unwrap());
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
