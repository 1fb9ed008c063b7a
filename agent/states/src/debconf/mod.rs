//! States of the module `debconf`: answers that packages of Debian ask for.
//!
//! Answers are read from debconf's own files and given by its own program.

pub(crate) mod functions;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::file::{args, sources};
use crate::{ApplyResult, CheckResult, Effects, FileTemplate, State, StateCtx, StateError};
use crate::{BuildResult, ChunkArgs, StateModule, Undoable};
use zagent_host::command_options::value_text;
use zagent_host::{Machine, Tools};

/// An answer: who asks, the question, its kind, what is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebconfAnswer {
    pub package: String,
    pub question: String,
    pub kind: String,
    pub value: String,
}

impl DebconfAnswer {
    /// The line that `debconf-set-selections` reads.
    fn selection_line(&self) -> String {
        format!("{} {} {} {}\n", self.package, self.question, self.kind, self.value)
    }

    /// Refuses what would be more than one line: each line is an answer of its own.
    fn verify_one_line(&self) -> Result<(), FunctionError> {
        let fields = [&self.package, &self.question, &self.kind, &self.value];
        if fields.iter().any(|f| f.contains('\n')) {
            return Err(FunctionError::failed(format!(
                "the answer to `{}` is more than one line",
                self.question
            )));
        }
        Ok(())
    }

    /// A line of a file of answers; nothing for comments.
    fn parse_line(line: &str) -> Option<Self> {
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
pub(crate) fn load_answers(machine: &Machine) -> Result<Vec<DebconfAnswer>, FunctionError> {
    let read = |name: &str| machine.read(&format!("/var/cache/debconf/{name}.dat"));
    let templates = read("templates")?.unwrap_or_default();
    let mut texts = read("config")?.unwrap_or_default();
    texts.push_str("\n\n");
    texts.push_str(&read("passwords")?.unwrap_or_default());
    Ok(parse_database(&texts, &templates))
}

fn parse_database(texts: &str, templates: &str) -> Vec<DebconfAnswer> {
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
            all.push(DebconfAnswer {
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
pub(crate) fn set_selections(tools: &Tools<'_>, answers: &[DebconfAnswer]) -> Result<(), FunctionError> {
    answers.iter().try_for_each(DebconfAnswer::verify_one_line)?;
    let words: [&str; 0] = [];
    let mut command = Tools::command("debconf-set-selections", &words, std::time::Duration::from_secs(60));
    command.stdin = answers.iter().map(DebconfAnswer::selection_line).collect::<String>().into_bytes();
    let said = tools.run(command)?;
    if said.is_success() {
        return Ok(());
    }
    Err(FunctionError::failed(format!("Some settings failed to be applied. {}", said.message())))
}

/// The module `debconf`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "debconf",
    build,
    functions: functions::TABLE,
    undo: &[&DEBCONF_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    Some(match fun {
        "set" => answers_from_args(args).map(|wanted| boxed(AnswerSource::Given(wanted))),
        "set_file" => args.text("source").and_then(|source| {
            let source = source
                .ok_or_else(|| StateError::new("Missing parameter source for state debconf.set_file"))?;
            Ok(boxed(AnswerSource::File { source, args: args.chunk.clone() }))
        }),
        _ => return None,
    })
}

fn boxed(from: AnswerSource) -> Box<dyn State> {
    Box::new(DebconfSet { source: from })
}

fn answers_from_args(args: &ChunkArgs<'_>) -> Result<Vec<DebconfAnswer>, StateError> {
    let data =
        args.map("data")?.ok_or_else(|| StateError::new("Missing parameter data for state debconf.set"))?;
    let answer = |(key, said): (&Value, &Value)| {
        let (kind, value) = (said.get("type").map(value_text), said.get("value"));
        let (Some(kind), Some(value)) = (kind, value) else {
            return Err(StateError::new(format!(
                "the answer to `{}` needs `type` and `value`",
                value_text(key)
            )));
        };
        // What debconf takes for true is written in small letters.
        let value = match kind.as_str() {
            "boolean" => is_true(value).to_string(),
            _ => value_text(value),
        };
        let answer = DebconfAnswer { package: args.name(), question: value_text(key), kind, value };
        answer.verify_one_line()?;
        Ok(answer)
    };
    data.iter().map(answer).collect()
}

/// A text says what it says; anything else counts by Python's truth.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Str(text) => !text.is_empty() && !text.eq_ignore_ascii_case("false"),
        other => other.is_truthy(),
    }
}

enum AnswerSource {
    Given(Vec<DebconfAnswer>),
    File { source: String, args: zagent_compiler::Chunk },
}

struct DebconfSet {
    source: AnswerSource,
}

impl DebconfSet {
    fn wanted_answers(&self, ctx: &StateCtx<'_>) -> Result<Vec<DebconfAnswer>, StateError> {
        let (source, chunk) = match &self.source {
            AnswerSource::Given(answers) => return Ok(answers.clone()),
            AnswerSource::File { source, args } => (source, args),
        };
        let args = ChunkArgs::new(chunk);
        let env = args::saltenv(&args)?;
        let sources = sources::FileSources::without_verification(source.as_str().into());
        let found = sources.find_source(ctx, &env, source).map_err(StateError::new)?;
        let mut text = String::from_utf8_lossy(&found.bytes).into_owned();
        if args.get("template").is_some() {
            let variables = crate::template_args::template_variables(&args)?;
            let template =
                FileTemplate { env: env.to_string(), path: source.clone(), source: text, variables };
            text = ctx.templates.render(&template).map_err(StateError::new)?;
        }
        Ok(text.lines().filter_map(DebconfAnswer::parse_line).collect())
    }

    fn missing_answers(&self, ctx: &StateCtx<'_>) -> Result<Vec<DebconfAnswer>, StateError> {
        let given = load_answers(ctx.tools().machine)?;
        Ok(self.wanted_answers(ctx)?.into_iter().filter(|w| !given.contains(w)).collect())
    }
}

impl State for DebconfSet {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let missing = self.missing_answers(ctx)?;
        if missing.is_empty() {
            return Ok(CheckResult::in_sync("All specified answers are already set"));
        }
        let told = |a: &DebconfAnswer| (a.question.clone(), format!("New value: {}", masked_value(a)));
        Ok(CheckResult::drifted(
            "Debconf selections would have been set.",
            missing.iter().map(told).collect(),
        ))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let missing = self.missing_answers(ctx)?;
        let tools = ctx.tools();
        for answer in &missing {
            let key: Value =
                [answer.package.as_str(), &answer.question].into_iter().map(Value::from).collect();
            ctx.with_undo(&DEBCONF_UNDO, key, || Ok(set_selections(&tools, std::slice::from_ref(answer))?))?;
        }
        let told = |a: &DebconfAnswer| (a.question.clone(), masked_value(a).to_owned());
        Ok(ApplyResult::new("Debconf selections were set.", missing.iter().map(told).collect::<Map>()))
    }

    fn reads(&self) -> Effects {
        Effects::PACKAGES
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }

    /// A package that comes or goes leaves an answer that was given alone.
    fn still_valid(&self, _: &CheckResult, _: Effects) -> bool {
        true
    }

    fn lock_keys(&self) -> Vec<crate::LockKey> {
        vec![crate::LockKey::Packages]
    }
}

const MASKED_VALUE: &str = "(password hidden)";

fn masked_value(answer: &DebconfAnswer) -> &str {
    if answer.kind == "password" { MASKED_VALUE } else { &answer.value }
}

/// An answer of a package to a question.
struct DebconfUndo;

const DEBCONF_UNDO: DebconfUndo = DebconfUndo;

fn parse_key(key: &Value) -> (String, String) {
    let text = |n: usize| key.as_list().and_then(|l| l.get(n)).map(value_text).unwrap_or_default();
    (text(0), text(1))
}

impl Undoable for DebconfUndo {
    fn kind(&self) -> &'static str {
        "debconf"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let (package, question) = parse_key(key);
        let all = load_answers(ctx.tools().machine)?;
        let found = all.into_iter().find(|a| a.package == package && a.question == question);
        Ok(found.map_or(Value::Null, |a| Map::from_iter([("type", a.kind), ("value", a.value)]).into()))
    }

    fn redacted(&self, how: &Value) -> Value {
        let kind = how.get("type").map(value_text).unwrap_or_default();
        if kind != "password" {
            return how.clone();
        }
        Map::from_iter([("type", kind.as_str()), ("value", MASKED_VALUE)]).into()
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let tools = ctx.tools();
        let (package, question) = parse_key(key);
        let field = |key: &str| to.get(key).map(value_text).unwrap_or_default();
        if !to.is_null() {
            return Ok(set_selections(
                &tools,
                &[DebconfAnswer { package, question, kind: field("type"), value: field("value") }],
            )?);
        }
        let mut command =
            Tools::command("debconf-communicate", &[&package], std::time::Duration::from_secs(60));
        command.stdin = format!("UNREGISTER {question}\n").into_bytes();
        let said = tools.run(command)?;
        if said.stdout.starts_with("0 ") || said.stdout.trim() == "0" {
            return Ok(());
        }
        Err(StateError::new(format!("debconf does not forget `{question}`: {}", said.message())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunk;

    #[test]
    fn answers_are_read_from_the_files() {
        let config = "Name: app/port\nTemplate: app/port\nValue: 80\nOwners: app, other\nFlags: seen\n\n\
                      Name: app/on\nTemplate: app/on\nOwners: app\n";
        let templates =
            "Name: app/port\nType: string\nDescription: x\n Type: no\n\nName: app/on\nType: boolean\n";
        let all: Vec<String> =
            parse_database(config, templates).iter().map(DebconfAnswer::selection_line).collect();
        assert_eq!(all, ["app app/port string 80\n", "other app/port string 80\n", "app app/on boolean \n"]);
    }

    #[test]
    fn lines_of_a_file_are_answers() {
        let line = |text: &str| DebconfAnswer::parse_line(text).map(|a| a.selection_line());
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
        let all: Vec<String> = answers_from_args(&ChunkArgs::new(&one))
            .unwrap_or_default()
            .iter()
            .map(DebconfAnswer::selection_line)
            .collect();
        assert_eq!(all, ["a a/on boolean true\n", "a a/n string 8\n"]);
        let bad = chunk("debconf.set", "a", r#"{"data": {"a/on": {"value": true}}}"#);
        assert!(answers_from_args(&ChunkArgs::new(&bad)).is_err());
        let two = chunk(
            "debconf.set",
            "a",
            r#"{"data": {"a/x": {"type": "string", "value": "1\nb b/y string 2"}}}"#,
        );
        assert!(
            answers_from_args(&ChunkArgs::new(&two))
                .is_err_and(|f| f.result.comment.contains("more than one line"))
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let how = |kind: &str| Value::from(Map::from_iter([("type", kind), ("value", "secret")]));
        assert_eq!(DEBCONF_UNDO.redacted(&how("string")), how("string"));
        assert!(!value_text(&DEBCONF_UNDO.redacted(&how("password"))).contains("secret"));
        assert_eq!(DEBCONF_UNDO.redacted(&Value::Null), Value::Null);
    }
}
