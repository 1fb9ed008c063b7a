//! States of the module `debconf`: answers that packages of Debian ask for.
//!
//! Law: answers are read from debconf's own files and given by its own program.

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::{Args, Built, Thing};
use crate::host::command::shown;
use crate::host::{Machine, Tools};
use crate::states::file::{asked, source};
use crate::states::{Done, Failure, Look, Scene, State, Template, Veil};

/// An answer: who asks, the question, its kind, what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) package: String,
    pub(crate) question: String,
    pub(crate) kind: String,
    pub(crate) value: String,
}

impl Answer {
    /// The line that `debconf-set-selections` reads.
    fn line(&self) -> String {
        format!("{} {} {} {}\n", self.package, self.question, self.kind, self.value)
    }

    /// Refuses what would be more than one line: each line is an answer of its own.
    fn verify(&self) -> Result<(), Refusal> {
        let fields = [&self.package, &self.question, &self.kind, &self.value];
        if fields.iter().any(|f| f.contains('\n')) {
            return Err(Refusal::failed(format!("the answer to `{}` is more than one line", self.question)));
        }
        Ok(())
    }

    /// A line of a file of answers; nothing for comments.
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim_start();
        if line.starts_with('#') {
            return None;
        }
        let next = |text: &str| {
            let (word, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
            (!word.is_empty()).then(|| (word.to_owned(), rest.trim_start().to_owned()))
        };
        let (package, rest) = next(line.trim_end())?;
        let (question, rest) = next(&rest)?;
        let (kind, value) = next(&rest)?;
        Some(Self { package, question, kind, value })
    }
}

/// All answers that are given.
///
/// # Errors
/// Fails when debconf's files cannot be read.
pub(crate) fn answers(machine: &Machine) -> Result<Vec<Answer>, Refusal> {
    let read = |name: &str| machine.read(&format!("/var/cache/debconf/{name}.dat"));
    let templates = read("templates")?.unwrap_or_default();
    let mut texts = read("config")?.unwrap_or_default();
    texts.push_str("\n\n");
    texts.push_str(&read("passwords")?.unwrap_or_default());
    Ok(parse(&texts, &templates))
}

fn parse(texts: &str, templates: &str) -> Vec<Answer> {
    let get = |stanza: &str, key: &str| {
        let line = stanza.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'));
        line.map(|v| v.trim().to_owned())
    };
    let kinds: std::collections::HashMap<String, String> =
        templates.split("\n\n").filter_map(|s| Some((get(s, "Name")?, get(s, "Type")?))).collect();
    let mut all = Vec::new();
    for stanza in texts.split("\n\n") {
        let (Some(question), Some(owners)) = (get(stanza, "Name"), get(stanza, "Owners")) else { continue };
        let template = get(stanza, "Template").unwrap_or_else(|| question.clone());
        let kind = kinds.get(&template).cloned().unwrap_or_default();
        let value = get(stanza, "Value").unwrap_or_default();
        for package in owners.split(',').map(|o| o.trim().to_owned()) {
            all.push(Answer {
                package,
                question: question.clone(),
                kind: kind.clone(),
                value: value.clone(),
            });
        }
    }
    all
}

/// Gives answers.
///
/// # Errors
/// Fails when there is no debconf here, or as it does.
pub(crate) fn give(tools: &Tools<'_>, answers: &[Answer]) -> Result<(), Refusal> {
    answers.iter().try_for_each(Answer::verify)?;
    let words: [&str; 0] = [];
    let mut command = Tools::command("debconf-set-selections", &words, std::time::Duration::from_secs(60));
    command.stdin = answers.iter().map(Answer::line).collect::<String>().into_bytes();
    let said = tools.run(command)?;
    if said.is_fine() {
        return Ok(());
    }
    Err(Refusal::failed(format!("Some settings failed to be applied. {}", said.words())))
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    Some(match fun {
        "set" => read(args).map(|wanted| boxed(From::Given(wanted))),
        "set_file" => args.text("source").and_then(|source| {
            let source =
                source.ok_or_else(|| Failure::new("Missing parameter source for state debconf.set_file"))?;
            Ok(boxed(From::File { source, args: args.chunk.clone() }))
        }),
        _ => return None,
    })
}

fn boxed(from: From) -> Box<dyn State> {
    Box::new(Set { from })
}

fn read(args: &Args<'_>) -> Result<Vec<Answer>, Failure> {
    let data =
        args.map("data")?.ok_or_else(|| Failure::new("Missing parameter data for state debconf.set"))?;
    let answer = |(key, said): (&Value, &Value)| {
        let (kind, value) = (said.get("type").map(shown), said.get("value"));
        let (Some(kind), Some(value)) = (kind, value) else {
            return Err(Failure::new(format!("the answer to `{}` needs `type` and `value`", shown(key))));
        };
        // What debconf takes for true is written in small letters.
        let value = match kind.as_str() {
            "boolean" => truth(value).to_string(),
            _ => shown(value),
        };
        let answer = Answer { package: args.name(), question: shown(key), kind, value };
        answer.verify()?;
        Ok(answer)
    };
    data.iter().map(answer).collect()
}

/// A text says what it says; anything else counts by Python's truth.
fn truth(value: &Value) -> bool {
    match value {
        Value::Str(text) => !text.is_empty() && !text.eq_ignore_ascii_case("false"),
        other => other.is_truthy(),
    }
}

enum From {
    Given(Vec<Answer>),
    File { source: String, args: zagent_compiler::Chunk },
}

struct Set {
    from: From,
}

impl Set {
    fn wanted(&self, scene: &Scene<'_>) -> Result<Vec<Answer>, Failure> {
        let (source, chunk) = match &self.from {
            From::Given(answers) => return Ok(answers.clone()),
            From::File { source, args } => (source, args),
        };
        let args = Args::new(chunk);
        let env = asked::env(&args)?;
        let sources = source::Sources::unverified(source.as_str().into());
        let found = sources.find(scene, &env, source).map_err(Failure::new)?;
        let mut text = String::from_utf8_lossy(&found.bytes).into_owned();
        if args.get("template").is_some() {
            let mut variables = args.map("defaults")?.unwrap_or_default();
            for (key, value) in args.map("context")?.unwrap_or_default().iter() {
                variables.insert(key.clone(), value.clone());
            }
            let template = Template { env: env.to_string(), path: source.clone(), source: text, variables };
            text = scene.templates.render(&template).map_err(Failure::new)?;
        }
        Ok(text.lines().filter_map(Answer::parse).collect())
    }

    fn missing(&self, scene: &Scene<'_>) -> Result<Vec<Answer>, Failure> {
        let given = answers(scene.tools().machine)?;
        Ok(self.wanted(scene)?.into_iter().filter(|w| !given.contains(w)).collect())
    }
}

impl State for Set {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let missing = self.missing(scene)?;
        if missing.is_empty() {
            return Ok(Look::right("All specified answers are already set"));
        }
        let told = |a: &Answer| (a.question.clone(), format!("New value: {}", hidden(a)));
        Ok(Look::drift("Debconf selections would have been set.", missing.iter().map(told).collect()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let missing = self.missing(scene)?;
        let tools = scene.tools();
        for answer in &missing {
            let key: Value =
                [answer.package.as_str(), &answer.question].into_iter().map(Value::from).collect();
            scene.change(&ANSWER, key, || Ok(give(&tools, std::slice::from_ref(answer))?))?;
        }
        let told = |a: &Answer| (a.question.clone(), hidden(a).to_owned());
        Ok(Done::new("Debconf selections were set.", missing.iter().map(told).collect::<Map>()))
    }

    fn sees(&self) -> Veil {
        Veil::PACKAGES
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }

    /// A package that comes or goes leaves an answer that was given alone.
    fn holds(&self, _: &Look, _: Veil) -> bool {
        true
    }

    fn resources(&self) -> Vec<crate::states::Resource> {
        vec![crate::states::Resource::Packages]
    }
}

const HIDDEN: &str = "(password hidden)";

fn hidden(answer: &Answer) -> &str {
    if answer.kind == "password" { HIDDEN } else { &answer.value }
}

/// An answer of a package to a question.
struct One;

const ANSWER: One = One;
/// The same, for those who put things back.
pub(super) const THING: &dyn Thing = &ANSWER;

fn named(key: &Value) -> (String, String) {
    let text = |n: usize| key.as_list().and_then(|l| l.get(n)).map(shown).unwrap_or_default();
    (text(0), text(1))
}

impl Thing for One {
    fn kind(&self) -> &'static str {
        "debconf"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let (package, question) = named(key);
        let all = answers(scene.tools().machine)?;
        let found = all.into_iter().find(|a| a.package == package && a.question == question);
        Ok(found.map_or(Value::Null, |a| Map::from_iter([("type", a.kind), ("value", a.value)]).into()))
    }

    fn shown(&self, how: &Value) -> Value {
        let kind = how.get("type").map(shown).unwrap_or_default();
        if kind != "password" {
            return how.clone();
        }
        Map::from_iter([("type", kind.as_str()), ("value", HIDDEN)]).into()
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let tools = scene.tools();
        let (package, question) = named(key);
        let field = |key: &str| to.get(key).map(shown).unwrap_or_default();
        if !to.is_null() {
            return Ok(give(
                &tools,
                &[Answer { package, question, kind: field("type"), value: field("value") }],
            )?);
        }
        let mut command =
            Tools::command("debconf-communicate", &[&package], std::time::Duration::from_secs(60));
        command.stdin = format!("UNREGISTER {question}\n").into_bytes();
        let said = tools.run(command)?;
        if said.out.starts_with("0 ") || said.out.trim() == "0" {
            return Ok(());
        }
        Err(Failure::new(format!("debconf does not forget `{question}`: {}", said.words())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::stage::chunk;

    #[test]
    fn answers_are_read_from_the_files() {
        let config = "Name: app/port\nTemplate: app/port\nValue: 80\nOwners: app, other\nFlags: seen\n\n\
                      Name: app/on\nTemplate: app/on\nOwners: app\n";
        let templates =
            "Name: app/port\nType: string\nDescription: x\n Type: no\n\nName: app/on\nType: boolean\n";
        let all: Vec<String> = parse(config, templates).iter().map(Answer::line).collect();
        assert_eq!(all, ["app app/port string 80\n", "other app/port string 80\n", "app app/on boolean \n"]);
    }

    #[test]
    fn lines_of_a_file_are_answers() {
        let line = |text: &str| Answer::parse(text).map(|a| a.line());
        assert_eq!(line("app\tapp/x  string").as_deref(), Some("app app/x string \n"));
        assert_eq!(line("app app/x"), None);
        assert_eq!(line("app app/x string a b").as_deref(), Some("app app/x string a b\n"));
        assert_eq!(line("# app app/x string a"), None);
        assert_eq!(line(""), None);
    }

    #[test]
    fn data_are_answers() {
        let data = r#"{"data": {"a/on": {"type": "boolean", "value": true}, "a/n": {"type": "string", "value": 8}}}"#;
        let one = chunk("debconf.set", "a", data);
        let all: Vec<String> = read(&Args::new(&one)).unwrap_or_default().iter().map(Answer::line).collect();
        assert_eq!(all, ["a a/on boolean true\n", "a a/n string 8\n"]);
        let bad = chunk("debconf.set", "a", r#"{"data": {"a/on": {"value": true}}}"#);
        assert!(read(&Args::new(&bad)).is_err());
        let two = chunk(
            "debconf.set",
            "a",
            r#"{"data": {"a/x": {"type": "string", "value": "1\nb b/y string 2"}}}"#,
        );
        assert!(read(&Args::new(&two)).is_err_and(|f| f.done.comment.contains("more than one line")));
    }

    #[test]
    fn a_password_is_not_shown() {
        let how = |kind: &str| Value::from(Map::from_iter([("type", kind), ("value", "secret")]));
        assert_eq!(ANSWER.shown(&how("string")), how("string"));
        assert!(!shown(&ANSWER.shown(&how("password"))).contains("secret"));
        assert_eq!(ANSWER.shown(&Value::Null), Value::Null);
    }
}
