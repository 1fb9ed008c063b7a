//! What programs keep: databases, containers, volumes.
//!
//! Law: a state function is a planner, a look that says what is to be done; the one state here carries it out. What was there
//! before is noted, so that a revert takes away only what was new.

mod apache;
mod docker;
mod lvm;
mod mysql;
mod pdbedit;
mod postgres;

use std::path::Path;

use zagent_config::{Map, Value};

use super::{Args, Built, Done, Failure, Look, Resource, Scene, State, Thing, Veil};
use crate::fs::Meta;
use crate::host::functions::stores::{Given, of_map};

/// What a planner found out.
enum Plan {
    /// Nothing is to be done.
    Right(String),
    /// Something is.
    Act(Act),
}

/// Does what is to be done.
type Deed = Box<dyn Fn(&Scene<'_>) -> Result<(), Failure>>;

/// What is to be done.
struct Act {
    /// What a dry run says.
    would: String,
    /// What is said after it.
    did: String,
    /// What is said before the reason when it failed.
    fails: String,
    changes: Map,
    /// What it changes, for a revert.
    thing: Option<(&'static dyn Thing, Value)>,
    act: Deed,
}

/// Looks, and says what is to be done.
type Planner = fn(&Given<'_>, &Scene<'_>) -> Result<Plan, Failure>;

/// A state function: its planner, and why what it does cannot be undone.
type Row = (&'static str, &'static str, Planner, Option<&'static str>);

const TABLES: [&[Row]; 6] =
    [postgres::TABLE, mysql::TABLE, docker::TABLE, lvm::TABLE, apache::TABLE, pdbedit::TABLE];

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    let (_, _, planner, irreversible) =
        TABLES.into_iter().flatten().find(|(module, name, _, _)| *module == state && *name == fun)?;
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
    Some(Ok(Box::new(Planned { planner: *planner, module, args: all, is_act, replaces, irreversible })))
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[
    &postgres::ROLE,
    &postgres::DATABASE,
    &postgres::OBJECT,
    &postgres::PRIVILEGES,
    &mysql::USER,
    &mysql::DATABASE,
    &mysql::GRANTS,
    &docker::CONTAINER,
    &docker::OTHER,
    &lvm::VOLUME,
    &apache::LINK,
    &pdbedit::ACCOUNT,
];

/// Arguments that the pillar may give for all states of a module.
const DEFAULTS: [(&str, &str, &str); 12] = [
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
fn preset<'a>(module: &str, key: &str, scene: &'a Scene<'_>) -> Option<&'a Value> {
    let (_, _, from) = DEFAULTS.iter().find(|(m, k, _)| *k == key && *m == module)?;
    scene.pillar.get(from)
}

/// What a module's password is called as an argument, and in the key of a thing.
fn secret(module: &str) -> Option<(&'static str, &'static str)> {
    match module {
        "mysql" => Some(("connection_pass", "connection_pass")),
        "postgres" => Some(("db_password", "password")),
        _ => None,
    }
}

struct Planned {
    planner: Planner,
    /// `mysql` of `mysql_user`.
    module: String,
    args: Map,
    /// It is done every time, whatever a look finds.
    is_act: bool,
    /// It answers a watch by making the thing anew.
    replaces: bool,
    irreversible: Option<&'static str>,
}

impl Planned {
    fn plan(&self, scene: &Scene<'_>) -> Result<Plan, Failure> {
        (self.planner)(&Given::new(&|key| self.find(key, scene)), scene)
    }

    fn find<'a>(&'a self, key: &str, scene: &'a Scene<'_>) -> Option<&'a Value> {
        // A file that is asked for says all that there is to say.
        let is_alone = self.args.contains("connection_default_file");
        self.args.get(key).or_else(|| if is_alone { None } else { preset(&self.module, key, scene) })
    }

    /// The password that a look needs and that no journal may hold.
    fn password(&self, scene: &Scene<'_>) -> Option<Value> {
        let (argument, _) = secret(&self.module)?;
        self.find(argument, scene).filter(|v| v.is_truthy()).cloned()
    }
}

impl Planned {
    /// Takes note that somebody watched: a container is replaced, or gets the signal that is asked for.
    fn answer_watch(&mut self) {
        if !self.replaces {
            return;
        }
        match self.args.get("watch_action").and_then(Value::as_str).filter(|action| *action != "force") {
            Some(signal) => self.args.insert(docker::SIGNAL, signal.to_owned()),
            None => self.args.insert("force", true),
        };
    }
}

impl State for Planned {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        Ok(match self.plan(scene)? {
            Plan::Right(comment) => Look::right(comment),
            Plan::Act(act) => Look::drift(act.would, act.changes),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let Act { did, fails, changes, thing, act, .. } = match self.plan(scene)? {
            Plan::Right(comment) => return Ok(Done::new(comment, Map::new())),
            Plan::Act(act) => act,
        };
        let done = match thing {
            Some((thing, key)) => match self.password(scene) {
                Some(password) => scene.change(&Open { thing, password }, locked(key), || act(scene)),
                None => scene.change(thing, key, || act(scene)),
            },
            None => act(scene),
        };
        done.map_err(|f| Failure::new(format!("{fails}: {}", f.done.comment)))?;
        Ok(Done::new(did, changes))
    }

    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.answer_watch();
        self.check(scene)
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.answer_watch();
        let done = self.apply(scene);
        self.args.remove("force");
        self.args.remove(docker::SIGNAL);
        done
    }

    fn sees(&self) -> Veil {
        match &*self.module {
            "stateconf" => Veil::NONE,
            "apache" => Veil::FILES | Veil::BROUGHT,
            "lvm" => Veil::KERNEL | Veil::BROUGHT,
            _ => Veil::STORES | Veil::USERS | Veil::SERVICES,
        }
    }

    fn veils(&self) -> Veil {
        match &*self.module {
            "stateconf" => Veil::NONE,
            "apache" => Veil::BROUGHT,
            "lvm" => Veil::KERNEL,
            _ => Veil::STORES,
        }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Stores]
    }

    fn is_lasting(&self) -> bool {
        !self.is_act
    }

    fn irreversible(&self) -> Option<&'static str> {
        self.irreversible
    }
}

/// One change, in Salt's shape.
fn changed(name: &str, what: impl Into<Value>) -> Map {
    Map::from_iter([(name, what.into())])
}

/// The bytes of a file of the tree (`salt://…`) or of the host.
fn source(text: &str, given: &Given<'_>, scene: &Scene<'_>) -> Result<Vec<u8>, Failure> {
    let Some(path) = text.strip_prefix("salt://") else { return Ok(scene.fs.read(Path::new(text))?) };
    let env = given.text("saltenv").unwrap_or_else(|| "base".to_owned());
    let found = scene.files.read(&env, path).map_err(Failure::new)?;
    found.map(|bytes| bytes.to_vec()).ok_or_else(|| Failure::new(format!("there is no {text} in the tree")))
}

/// Writes a value as JSON.
fn write(scene: &Scene<'_>, path: &Path, value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|e| Failure::new(e.to_string()))?;
    Ok(scene.fs.write(path, format!("{text}\n").as_bytes(), Meta::default())?)
}

/// In a key: it takes a password to look, which the key does not hold.
const LOCKED: &str = "needs_password";

/// A key as a mapping.
fn as_map(key: &Value) -> Map {
    match key {
        Value::Map(map) => (**map).clone(),
        name => Map::from_iter([("name", name.clone())]),
    }
}

fn locked(key: Value) -> Value {
    let mut key = as_map(&key);
    key.insert(LOCKED, true);
    key.into()
}

/// A thing while its password is known: looks use it, the journal never sees it.
struct Open {
    thing: &'static dyn Thing,
    password: Value,
}

impl Thing for Open {
    fn kind(&self) -> &'static str {
        self.thing.kind()
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        self.thing.look(&unlocked(self.kind(), key, &self.password), scene)
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        self.thing.put(&unlocked(self.kind(), key, &self.password), to, scene)
    }
}

fn module_of(kind: &str) -> &str {
    kind.split('_').next().unwrap_or_default()
}

fn unlocked(kind: &str, key: &Value, password: &Value) -> Value {
    let mut key = as_map(key);
    key.remove(LOCKED);
    if let Some((_, name)) = secret(module_of(kind)) {
        key.insert(name, password.clone());
    }
    key.into()
}

/// Looks at what a key speaks of.
type Glance<T> = fn(&Given<'_>, &Scene<'_>) -> Result<T, Failure>;

/// A kind of things that is told by functions.
struct Kept {
    kind: &'static str,
    look: Glance<Value>,
    put: fn(&Given<'_>, &Value, &Scene<'_>) -> Result<(), Failure>,
    /// Why it is not taken away: what it holds.
    full: Option<Glance<Option<String>>>,
}

impl Kept {
    /// Lets a body see a key; the password that it lacks is the pillar's.
    fn with<T>(
        &self,
        key: &Value,
        scene: &Scene<'_>,
        body: impl FnOnce(&Given<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut map = as_map(key);
        let module = module_of(self.kind);
        if let (true, Some((argument, _))) = (map.contains(LOCKED), secret(module)) {
            let Some(password) = preset(module, argument, scene).filter(|v| v.is_truthy()) else {
                return Err(Failure::new(format!(
                    "it takes a password, which is not kept: the pillar has none at `{module}.pass`"
                )));
            };
            map = as_map(&unlocked(self.kind, key, password));
        }
        of_map(&map, body)
    }
}

impl Thing for Kept {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        self.with(key, scene, |given| (self.look)(given, scene))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        self.with(key, scene, |given| (self.put)(given, to, scene))
    }

    fn full(&self, key: &Value, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
        let Some(full) = self.full else { return Ok(None) };
        self.with(key, scene, |given| full(given, scene))
    }

    fn shown(&self, how: &Value) -> Value {
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
    static SHOP: Kept = Kept {
        kind: "mysql_shop",
        look: |given, _| Ok(given.text("connection_pass").map_or(Value::Null, Value::from)),
        put: |_, _, _| Ok(()),
        full: None,
    };

    #[test]
    fn a_look_has_the_password_and_the_journal_has_not() {
        let stage = crate::states::stage::Stage::new();
        let root = tempfile::tempdir().unwrap();
        let journal = crate::undo::Journal::create(root.path(), "one").unwrap();
        let scene = Scene { journal: Some(&journal), tag: "t", ..stage.scene() };
        let open = Open { thing: &SHOP, password: "pw".into() };
        let key = locked("shop".into());
        assert_eq!(open.look(&key, &scene).unwrap(), "pw".into());
        let told = serde_json::to_string(&key).unwrap();
        assert_eq!(told, r#"{"name":"shop","needs_password":true}"#);
        // A revert has only the key and the pillar.
        let failure = SHOP.look(&key, &scene).unwrap_err();
        assert!(failure.done.comment.contains("`mysql.pass`"), "{}", failure.done.comment);
        let pillar = Value::from_json_str(r#"{"mysql.pass": "kept"}"#).unwrap();
        let scene = Scene { pillar: &pillar, ..scene };
        assert_eq!(SHOP.look(&key, &scene).unwrap(), "kept".into());
        assert_eq!(SHOP.look(&"shop".into(), &scene).unwrap(), Value::Null);
    }

    #[test]
    fn what_is_kept_of_a_password_is_not_shown() {
        let shown = |json: &str| {
            let value = postgres::ROLE.shown(&Value::from_json_str(json).unwrap());
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
