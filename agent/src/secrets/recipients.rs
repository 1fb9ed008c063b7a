//! The text of `recipients.yaml` in, the readers of each file out.
//!
//! ```yaml
//! people: {NAME: KEY or [KEY, …]}
//! hosts: {NODE: KEY}
//! rules:
//!   - {path: GLOB, target: TARGET, people: [NAME, …]}
//! ```
//!
//! The first rule whose `path` matches decides. `target` selects hosts, `people` people; without them, all. A file that no
//! rule matches has no readers, and without rules every file is for everybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use zagent_compiler::TreeLimits;
use zagent_config::glob::Glob;
use zagent_config::target::{Target, TargetSubject};
use zagent_config::{Map, Pos, Value, suggest};
use zagent_host::secrets::AgeRecipient;

/// The file, at the root of a states repository.
pub const RECIPIENTS_FILE: &str = "recipients.yaml";

const TOP_KEYS: [&str; 3] = ["people", "hosts", "rules"];
const RULE_KEYS: [&str; 3] = ["path", "target", "people"];

/// Who may read the secrets of a repository.
#[derive(Debug, Default)]
pub struct Recipients {
    people: BTreeMap<String, Vec<AgeRecipient>>,
    hosts: BTreeMap<String, Vec<AgeRecipient>>,
    rules: Vec<RecipientRule>,
}

#[derive(Debug)]
struct RecipientRule {
    path: String,
    target: Option<Target>,
    people: Option<Vec<String>>,
}

/// One person or host that may read a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    /// Person or host.
    pub kind: ReaderKind,
    /// Its name.
    pub name: String,
    /// Its public keys.
    pub keys: Vec<AgeRecipient>,
}

/// What a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReaderKind {
    /// A person, who edits.
    Person,
    /// A host, which decrypts when it compiles.
    Host,
}

/// An error in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{RECIPIENTS_FILE}:{line}: {message}")]
pub struct RecipientsError {
    /// Its line, from 1.
    pub line: u32,
    /// What is wrong, and how to correct it.
    pub message: String,
}

/// The recorded grains of a host.
pub type GrainsByHost = BTreeMap<String, Arc<Value>>;

impl Recipients {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails with every error of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<RecipientsError>> {
        let top = zagent_compiler::yaml::load(text, &TreeLimits::default())
            .map_err(|e| vec![RecipientsError { line: e.pos.line, message: e.message }])?;
        let mut parser = Parser::default();
        let mut found = Self::default();
        match &top {
            Value::Null => {}
            Value::Map(map) => parser.read_top(map, &mut found),
            other => parser.fail(Pos::new(1, 1), format!("expected a mapping, found {}", other.kind())),
        }
        parser.check_names(&found);
        if parser.errors.is_empty() { Ok(found) } else { Err(parser.errors) }
    }

    /// Everybody in the file.
    #[must_use]
    pub fn all(&self) -> Vec<Reader> {
        self.named_people(None).into_iter().chain(self.readers(ReaderKind::Host, &self.hosts)).collect()
    }

    /// Who may read a file, by its path from the root of the repository. `None` when no rule covers it.
    ///
    /// # Errors
    /// Fails when a target needs the grains of a host that are not recorded.
    pub fn for_file(&self, path: &str, grains: &GrainsByHost) -> Result<Option<Vec<Reader>>, String> {
        if self.rules.is_empty() {
            return Ok(Some(self.all()));
        }
        let Some(rule) = self.rules.iter().find(|rule| Glob::new(&rule.path).matches(path)) else {
            return Ok(None);
        };
        let mut readers = self.named_people(rule.people.as_deref());
        for host in self.readers(ReaderKind::Host, &self.hosts) {
            let is_selected = match &rule.target {
                None => true,
                Some(target) => is_selected(target, &host.name, grains)?,
            };
            if is_selected {
                readers.push(host);
            }
        }
        Ok(Some(readers))
    }

    fn named_people(&self, names: Option<&[String]>) -> Vec<Reader> {
        let is_named = |name: &String| names.is_none_or(|names| names.contains(name));
        self.readers(ReaderKind::Person, &self.people).filter(|reader| is_named(&reader.name)).collect()
    }

    fn readers<'r>(
        &self,
        kind: ReaderKind,
        map: &'r BTreeMap<String, Vec<AgeRecipient>>,
    ) -> impl Iterator<Item = Reader> + use<'r> {
        map.iter().map(move |(name, keys)| Reader { kind, name: name.clone(), keys: keys.clone() })
    }
}

/// Adds a person or a host to the text of the file; what was there stays as it is.
#[must_use]
pub fn with_reader(text: &str, kind: ReaderKind, name: &str, key: &AgeRecipient) -> String {
    let section = match kind {
        ReaderKind::Person => "people:",
        ReaderKind::Host => "hosts:",
    };
    let entry = format!("  {name}: {}\n", key.as_str());
    let mut out = String::with_capacity(text.len() + entry.len() + section.len() + 2);
    let mut is_added = false;
    for line in text.split_inclusive('\n') {
        out.push_str(line);
        if !is_added && line.trim_end() == section {
            if !line.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(&entry);
            is_added = true;
        }
    }
    if !is_added {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("{section}\n{entry}"));
    }
    out
}

fn is_selected(target: &Target, host: &str, grains: &GrainsByHost) -> Result<bool, String> {
    let recorded = grains.get(host);
    let subject = RecordedHost { id: host, grains: recorded.map_or(&Value::Null, |grains| &**grains) };
    let has_grains = recorded.is_some();
    if !has_grains && needs_grains(target.text()) {
        return Err(format!(
            "the target `{}` needs the grains of `{host}`: record them with `zagent show grains --out yaml > inventory/{host}.yaml` on that host",
            target.text()
        ));
    }
    target.matches(&subject).map_err(|error| format!("the target `{}`: {error}", target.text()))
}

/// True for targets that look at grains or addresses.
fn needs_grains(target: &str) -> bool {
    target
        .split_whitespace()
        .any(|word| matches!(word.as_bytes(), [b'G' | b'P' | b'S' | b'J', ..] if word[1..].contains('@')))
}

struct RecordedHost<'h> {
    id: &'h str,
    grains: &'h Value,
}

static NO_GROUPS: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);

impl TargetSubject for RecordedHost<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.grains.clone()
    }

    fn pillar(&self) -> Value {
        Value::Null
    }

    fn nodegroups(&self) -> &Map {
        &NO_GROUPS
    }

    fn resources(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Collects every error.
#[derive(Default)]
struct Parser {
    errors: Vec<RecipientsError>,
    /// People that rules name, with their position.
    named: Vec<(String, Pos)>,
}

impl Parser {
    fn fail(&mut self, at: Pos, message: String) {
        self.errors.push(RecipientsError { line: at.line.max(1), message });
    }

    fn read_top(&mut self, map: &Map, found: &mut Recipients) {
        for entry in map.entries() {
            match entry.key.as_str() {
                Some("people") => found.people = self.read_readers(&entry.value, entry.at, "people"),
                Some("hosts") => found.hosts = self.read_readers(&entry.value, entry.at, "hosts"),
                Some("rules") => found.rules = self.read_rules(&entry.value, entry.at),
                _ => self.unknown_key(&entry.key.json_key(), &TOP_KEYS, entry.at),
            }
        }
    }

    fn unknown_key(&mut self, key: &str, known: &[&'static str], at: Pos) {
        let near = suggest::nearest(key, known.iter().copied());
        let hint = near.map_or_else(
            || format!("known keys: {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        self.fail(at, format!("unknown key `{}`; {hint}", zagent_config::sanitize(key)));
    }

    fn read_readers(&mut self, value: &Value, at: Pos, section: &str) -> BTreeMap<String, Vec<AgeRecipient>> {
        let mut found = BTreeMap::new();
        let map = match value {
            Value::Null => return found,
            Value::Map(map) => map,
            other => {
                self.fail(
                    at,
                    format!("`{section}` is {}, expected a mapping of names to public keys", other.kind()),
                );
                return found;
            }
        };
        for entry in map.entries() {
            let name = entry.key.json_key();
            let keys: Vec<(Value, Pos)> = match &entry.value {
                Value::List(list) => {
                    list.iter().enumerate().map(|(i, key)| (key.clone(), list.pos(i))).collect()
                }
                other => vec![(other.clone(), entry.at)],
            };
            let mut parsed = Vec::new();
            for (key, at) in &keys {
                match key.as_str().map(AgeRecipient::parse) {
                    Some(Ok(key)) => parsed.push(key),
                    Some(Err(why)) => self.fail(*at, format!("the key of `{name}` is {why}")),
                    None => self
                        .fail(*at, format!("the key of `{name}` is {}, expected a public key", key.kind())),
                }
            }
            if keys.is_empty() {
                self.fail(entry.at, format!("`{name}` has no key"));
            }
            found.insert(name, parsed);
        }
        found
    }

    fn read_rules(&mut self, value: &Value, at: Pos) -> Vec<RecipientRule> {
        let list = match value {
            Value::Null => return Vec::new(),
            Value::List(list) => list,
            other => {
                self.fail(at, format!("`rules` is {}, expected a list", other.kind()));
                return Vec::new();
            }
        };
        let mut rules = Vec::new();
        for (i, rule) in list.iter().enumerate() {
            match rule {
                Value::Map(map) => rules.extend(self.read_rule(map, list.pos(i))),
                other => {
                    self.fail(list.pos(i), format!("a rule is {}, expected `path:` and more", other.kind()));
                }
            }
        }
        rules
    }

    fn read_rule(&mut self, map: &Map, at: Pos) -> Option<RecipientRule> {
        let (mut path, mut target, mut people) = (None, None, None);
        for entry in map.entries() {
            match (entry.key.as_str(), &entry.value) {
                (Some("path"), Value::Str(text)) => path = Some(text.to_string()),
                (Some("target"), Value::Str(text)) => match Target::parse_reported(text) {
                    Ok(parsed) => target = Some(parsed),
                    Err(error) => self.fail(entry.at, format!("the target `{text}`: {error}")),
                },
                (Some("people"), Value::List(list)) => {
                    let mut names = Vec::new();
                    for (i, name) in list.iter().enumerate() {
                        let name = name.json_key();
                        self.named.push((
                            name.clone(),
                            if list.pos(i).is_known() { list.pos(i) } else { entry.at },
                        ));
                        names.push(name);
                    }
                    people = Some(names);
                }
                (Some(key @ ("path" | "target")), other) => {
                    self.fail(entry.at, format!("`{key}` is {}, expected text", other.kind()));
                }
                (Some("people"), other) => {
                    self.fail(entry.at, format!("`people` is {}, expected a list of names", other.kind()));
                }
                _ => self.unknown_key(&entry.key.json_key(), &RULE_KEYS, entry.at),
            }
        }
        if path.is_none() {
            self.fail(at, "a rule needs `path`, such as `path: pillar/web/*`".into());
        }
        Some(RecipientRule { path: path?, target, people })
    }

    fn check_names(&mut self, found: &Recipients) {
        for (name, at) in std::mem::take(&mut self.named) {
            if !found.people.contains_key(&name) {
                let near = suggest::nearest(&name, found.people.keys().map(String::as_str));
                let hint = near.map_or_else(
                    || "add it to `people`".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                self.fail(at, format!("`{}` is not one of `people`; {hint}", zagent_config::sanitize(&name)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> String {
        zagent_host::secrets::generate_identity().1.as_str().to_owned()
    }

    fn names(recipients: &Recipients, path: &str, grains: &GrainsByHost) -> Vec<String> {
        let readers = recipients.for_file(path, grains).unwrap().unwrap_or_default();
        readers.into_iter().map(|reader| reader.name).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = format!(
            "people: {{ops: {}, dev: [{}, {}]}}\nhosts:\n  web-01: {}\n  db-01: {}\nrules:\n\
             - {{path: 'pillar/web/*', target: 'web-*', people: [ops]}}\n\
             - {{path: 'pillar/deb*', target: 'G@os:Debian'}}\n- {{path: 'pillar/*'}}\n",
            key(),
            key(),
            key(),
            key(),
            key()
        );
        let recipients = Recipients::parse(&text).unwrap();
        let none = GrainsByHost::new();
        assert_eq!(names(&recipients, "pillar/web/a.sls", &none), ["ops", "web-01"]);
        assert_eq!(names(&recipients, "pillar/all.sls", &none), ["dev", "ops", "db-01", "web-01"]);
        assert_eq!(recipients.for_file("states/x", &none), Ok(None));
        let missing = recipients.for_file("pillar/deb.sls", &none).unwrap_err();
        assert!(missing.contains("needs the grains of `db-01`"), "{missing}");
        let grains = |os: &str| Arc::new(Value::from_json_str(&format!("{{\"os\": \"{os}\"}}")).unwrap());
        let recorded: GrainsByHost =
            [("db-01".to_owned(), grains("Debian")), ("web-01".to_owned(), grains("Fedora"))].into();
        assert_eq!(names(&recipients, "pillar/deb.sls", &recorded), ["dev", "ops", "db-01"]);
        assert_eq!(names(&Recipients::parse("").unwrap(), "any", &none), Vec::<String>::new());
    }

    #[test]
    fn every_error_is_reported_with_its_line() {
        let text = format!(
            "poeple: {{}}\npeople:\n  ops: {}\n  dev: nonsense\nrules:\n  - path: a\n    people: [op]\n  - target: '('\n",
            key()
        );
        let errors = Recipients::parse(&text).unwrap_err();
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 5, "{texts:#?}");
        assert_eq!(texts[0], "recipients.yaml:1: unknown key `poeple`; did you mean `people`?");
        assert!(
            texts[1].starts_with("recipients.yaml:4: the key of `dev` is not a public key"),
            "{texts:#?}"
        );
        assert!(texts.iter().any(|text| text.contains("a rule needs `path`")));
        assert_eq!(texts[4], "recipients.yaml:7: `op` is not one of `people`; did you mean `ops`?");
        let list = Recipients::parse("- a\n").unwrap_err();
        assert!(list[0].message.contains("expected a mapping"));
    }

    #[test]
    fn a_reader_is_added_to_the_text() {
        let key = AgeRecipient::parse(&key()).unwrap();
        let new = with_reader("", ReaderKind::Person, "ops", &key);
        assert_eq!(new, format!("people:\n  ops: {}\n", key.as_str()));
        let text = with_reader(&format!("# ours\n{new}"), ReaderKind::Host, "web-01", &key);
        let text = with_reader(&text, ReaderKind::Person, "dev", &key);
        let recipients = Recipients::parse(&text).unwrap();
        assert!(text.starts_with("# ours\n"));
        assert_eq!(recipients.all().len(), 3, "{text}");
    }
}
