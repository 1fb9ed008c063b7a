//! The description of a module in, the documentation and parameters of each function out: the one source of checks,
//! `explain` and the reference.
//!
//! Text is parsed on demand only, and then only the block of one function.
//!
//! The format. A line without indentation starts a block: a function and its marks, or `@NAME`, parameters that several
//! functions share. `= …` at the top of the file is the purpose of the module. Inside a block, indented by one space:
//!
//! ```text
//!  : What the function does.
//!  mode mode|"keep" ='0644' - A parameter: its kinds, its default, what it is.
//!  text! text - A required parameter.
//!  @owner
//!  ! source contents           at most one of these
//!  + text source               at least one of these
//!  > a line of the example
//! ```

use std::sync::OnceLock;

use super::kind::ParamKinds;

const GLOBAL: &str = include_str!("global.txt");

/// The parameters of all states, by heading.
#[must_use]
pub fn keywords() -> &'static [FunctionDoc] {
    static KEYWORDS: OnceLock<Vec<FunctionDoc>> = OnceLock::new();
    KEYWORDS.get_or_init(|| blocks(GLOBAL).map(|block| block.describe("")).collect())
}

/// One parameter of all states.
#[must_use]
pub fn keyword(name: &str) -> Option<&'static StateParameter> {
    let all = sorted_keywords();
    all.binary_search_by(|p| p.name.cmp(name)).ok().map(|i| all[i])
}

/// The parameters of all states, by name.
#[must_use]
pub fn sorted_keywords() -> &'static [&'static StateParameter] {
    static SORTED: OnceLock<Vec<&'static StateParameter>> = OnceLock::new();
    SORTED.get_or_init(|| {
        let mut all: Vec<_> = keywords().iter().flat_map(|group| &group.parameters).collect();
        all.sort_unstable_by_key(|p| p.name);
        all
    })
}

/// The properties of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionTraits {
    /// A dry run predicts its effect, so that later states see it.
    pub is_predictable: bool,
    /// A revert undoes it.
    pub is_revertible: bool,
    /// It changes nothing on the host.
    pub is_read_only: bool,
    /// Salt has it, this agent does not.
    pub is_unimplemented: bool,
    /// It accepts undeclared parameters, unless they look like typing errors.
    pub takes_extra: bool,
    /// It accepts any parameter.
    pub takes_any: bool,
}

/// The documentation of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDoc {
    /// Its module; empty for the keywords of all states.
    pub module: &'static str,
    /// Its name without the module.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its properties.
    pub traits: FunctionTraits,
    /// Its parameters, in reading order.
    pub parameters: Vec<StateParameter>,
    /// Groups of which at most one parameter is allowed.
    pub exclusive: Vec<Vec<&'static str>>,
    /// Groups of which at least one parameter is required.
    pub needed: Vec<Vec<&'static str>>,
    /// An SLS that uses it.
    pub example: String,
}

impl FunctionDoc {
    /// One of its parameters.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&StateParameter> {
        self.parameters.iter().find(|p| p.name == name)
    }

    /// What a dry run reports for it.
    #[must_use]
    pub const fn dry_run_summary(&self) -> &'static str {
        match self.traits {
            FunctionTraits { is_read_only: true, .. } => "it changes nothing on the host",
            FunctionTraits { is_predictable: true, .. } => {
                "`--test` predicts its changes, and later states see the result"
            }
            _ => "`--test` shows what it would change; the effect on later states may be unknown",
        }
    }

    /// What a revert does for it.
    #[must_use]
    pub const fn undo_summary(&self) -> &'static str {
        match self.traits {
            FunctionTraits { is_read_only: true, .. } => "there is nothing to undo",
            FunctionTraits { is_revertible: true, .. } => "a revert restores what it changed",
            _ => "a revert cannot undo it",
        }
    }
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateParameter {
    /// Its name.
    pub name: &'static str,
    /// The kinds of values it accepts.
    pub kinds: ParamKinds,
    /// Its default, as written in an SLS.
    pub default: Option<&'static str>,
    /// It is required.
    pub is_required: bool,
    /// What it is, in a sentence.
    pub about: &'static str,
}

/// The text of one function, not parsed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptionBlock {
    /// The function.
    pub(super) name: &'static str,
    marks: &'static str,
    lines: &'static str,
    /// The whole file, for shared parameters.
    file: &'static str,
}

/// The functions of a module.
pub(super) fn blocks(file: &'static str) -> impl Iterator<Item = DescriptionBlock> {
    block_heads(file).filter(|block| !block.name.starts_with('@'))
}

/// One function of a module, without parsing the others.
pub(super) fn find_block(file: &'static str, name: &str) -> Option<DescriptionBlock> {
    let is_head = |&(at, _): &(usize, &str)| {
        let (before, after) = (&file.as_bytes()[..at], &file.as_bytes()[at + name.len()..]);
        !name.is_empty() && before.last() == Some(&b'\n') && matches!(after.first(), Some(b' ' | b'\n'))
    };
    let (at, _) = file.match_indices(name).find(is_head)?;
    block_heads(&file[at..])
        .next()
        .filter(|block| block.name == name)
        .map(|block| DescriptionBlock { file, ..block })
}

fn block_heads(file: &'static str) -> impl Iterator<Item = DescriptionBlock> {
    let mut rest = file;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let end = super::end_of_functions(after);
            let (lines, next) = after.split_at(end);
            rest = next;
            if head.starts_with('=') {
                continue;
            }
            let (name, marks) = head.split_once(' ').unwrap_or((head, ""));
            return Some(DescriptionBlock { name, marks, lines, file });
        }
        None
    })
}

/// The purpose of a module, in a sentence.
pub(super) fn purpose_of(file: &'static str) -> &'static str {
    file.lines().find_map(|line| line.strip_prefix("= ")).unwrap_or_default()
}

impl DescriptionBlock {
    /// Its marks.
    pub(super) fn parse_traits(&self) -> FunctionTraits {
        let has = |mark| self.marks.split(' ').any(|m| m == mark);
        FunctionTraits {
            is_predictable: has("foreseen"),
            is_revertible: has("undone"),
            is_read_only: has("still"),
            is_unimplemented: has("unbuilt"),
            takes_extra: has("more"),
            takes_any: has("open"),
        }
    }

    /// Parses all of it.
    pub(super) fn describe(&self, module: &'static str) -> FunctionDoc {
        let mut doc = FunctionDoc {
            module,
            name: self.name,
            summary: "",
            traits: self.parse_traits(),
            parameters: Vec::new(),
            exclusive: Vec::new(),
            needed: Vec::new(),
            example: String::new(),
        };
        self.parse_into(&mut doc);
        doc
    }

    fn parse_into(&self, doc: &mut FunctionDoc) {
        let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
        for line in self.lines.lines() {
            let line = &line[1..];
            match line.split_once(' ') {
                Some((":", summary)) => doc.summary = summary,
                Some((">", example)) => {
                    doc.example.push_str(example);
                    doc.example.push('\n');
                }
                Some(("!", names)) => doc.exclusive.push(words(names)),
                Some(("+", names)) => doc.needed.push(words(names)),
                Some(_) => doc.parameters.extend(StateParameter::parse_line(line)),
                None => {
                    if let Some(shared) =
                        find_block(self.file, line).filter(|shared| shared.name != self.name)
                    {
                        shared.parse_into(doc);
                    }
                }
            }
        }
    }
}

impl StateParameter {
    /// `NAME[!] KINDS [=DEFAULT] - ABOUT`.
    fn parse_line(line: &'static str) -> Option<Self> {
        let (head, about) = line.split_once(" - ")?;
        let (name, rest) = head.split_once(' ')?;
        let (kinds, default) = match rest.split_once(" =") {
            Some((kinds, default)) => (kinds, Some(default)),
            None => (rest, None),
        };
        let plain = name.strip_suffix('!');
        Some(Self {
            name: plain.unwrap_or(name),
            kinds: ParamKinds::read(kinds)?,
            default,
            is_required: plain.is_some(),
            about,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample_tests::sample_schema;
    use super::*;

    #[test]
    fn every_line_is_understood() {
        for (module, text) in sample_schema().descriptions.iter().copied().chain([("", GLOBAL)]) {
            assert!(purpose_of(text).ends_with('.'), "{module} has a purpose");
            for block in block_heads(text) {
                let known = ["foreseen", "undone", "still", "unbuilt", "more", "open"];
                let marks = block.marks.split(' ').filter(|m| !m.is_empty());
                assert!(marks.clone().all(|m| known.contains(&m)), "{module}.{} {}", block.name, block.marks);
                for line in block.lines.lines() {
                    let line = &line[1..];
                    let understood = match line.split_once(' ') {
                        Some((":" | ">" | "!" | "+", rest)) => !rest.is_empty(),
                        Some(_) => StateParameter::parse_line(line).is_some(),
                        None => block_heads(text).any(|b| b.name == line && line.starts_with('@')),
                    };
                    assert!(understood, "{module}.{}: {line:?}", block.name);
                }
            }
        }
    }

    #[test]
    fn every_function_is_documented_in_sentences() {
        let is_sentence = |text: &str| {
            text.ends_with('.')
                && text.starts_with(|c: char| c.is_uppercase() || c == '`')
                && text.len() < 200
        };
        for d in sample_schema().described_functions().chain(keywords().iter().cloned()) {
            let what = format!("{}.{}", d.module, d.name);
            assert!(is_sentence(d.summary), "{what}: {}", d.summary);
            assert_eq!(d.example.is_empty(), d.module.is_empty(), "{what} has an example");
            for (i, p) in d.parameters.iter().enumerate() {
                assert!(is_sentence(p.about), "{what}:{} {}", p.name, p.about);
                assert!(d.parameters[..i].iter().all(|q| q.name != p.name), "{what}:{} twice", p.name);
                assert!(
                    !p.is_required || p.default.is_none(),
                    "{what}:{} is required and has a default",
                    p.name
                );
            }
            for name in d.exclusive.iter().chain(&d.needed).flatten() {
                assert!(d.parameter(name).is_some(), "{what} has no {name}");
            }
        }
    }

    #[test]
    fn a_function_in_full() {
        let d = sample_schema().described_functions().find(|d| d.name == "serialize").unwrap();
        assert_eq!(
            (d.module, d.summary),
            ("file", "Keeps a file with data in a format such as YAML or JSON.")
        );
        assert!(
            d.traits.is_predictable && d.traits.is_revertible && d.traits.takes_extra && !d.traits.takes_any
        );
        let mode = d.parameter("mode").unwrap();
        assert_eq!(
            (mode.kinds.source_text(), mode.default, mode.is_required),
            ("mode|\"keep\"", None, false)
        );
        assert_eq!(d.parameter("serializer").unwrap().default, Some("yaml"));
        assert!(d.parameter("user").is_some(), "shared parameters are included");
        assert_eq!(d.exclusive, [["dataset", "dataset_pillar"], ["serializer", "formatter"]]);
        assert_eq!(d.needed, [["dataset", "dataset_pillar"]]);
        assert!(d.example.starts_with("/etc/app.json:\n  file.serialize:\n"));
    }

    #[test]
    fn a_block_is_found_by_its_whole_name_only() {
        for (_, text) in sample_schema().descriptions {
            for head in block_heads(text) {
                assert!(find_block(text, head.name) == Some(head), "{}", head.name);
            }
        }
        let file = sample_schema().description("file").unwrap();
        for name in ["", "manage", "name", "managed foreseen", " :", "=", "= Files", "managed\n", "é"] {
            assert!(find_block(file, name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn keywords_are_found_by_name() {
        assert_eq!(keywords().len(), 4);
        let sorted = sorted_keywords();
        assert!(sorted.windows(2).all(|w| w[0].name < w[1].name));
        assert_eq!(sorted.len(), 47);
        assert!(keyword("require").is_some() && keyword("requier").is_none());
    }
}
