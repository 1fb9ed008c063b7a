//! The tables of execution functions and their summaries in, a description of each function out: for `explain` and the
//! reference.
//!
//! `summaries.txt` has a line per function, sorted: its name and what it does, in a sentence.

use std::collections::BTreeMap;

use zagent_compiler::functions::built_in_signatures;

const SUMMARIES: &str = include_str!("summaries.txt");

/// An execution function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSummary {
    /// `cmd.run`.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// It changes the host, so templates cannot call it.
    pub changes_host: bool,
    /// The program that it needs.
    pub needs_program: Option<&'static str>,
    signature: &'static str,
}

impl FunctionSummary {
    /// Its module: `cmd`.
    #[must_use]
    pub fn module(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// Its arguments as they are written in a call: `[NAME]` is optional, `…` stands for any number.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let words = self.signature.split(' ').filter(|word| !word.is_empty());
        words
            .map(|word| match (word, word.strip_suffix('?')) {
                ("*", _) => "…".to_owned(),
                ("**", _) => "key=value…".to_owned(),
                (_, Some(optional)) => format!("[{optional}]"),
                _ => word.to_owned(),
            })
            .collect()
    }
}

/// Every execution function that templates or the command line can call, sorted by name.
#[must_use]
pub fn described_functions() -> Vec<FunctionSummary> {
    let summaries: BTreeMap<&str, &str> = SUMMARIES.lines().filter_map(|line| line.split_once(' ')).collect();
    let built_in = built_in_signatures().map(|(name, signature)| (name, signature, false, None));
    let of_host = super::template_functions().map(|f| (f.name, f.signature, f.changes_host, f.needs_program));
    let all: BTreeMap<&'static str, FunctionSummary> = of_host
        .chain(built_in)
        .map(|(name, signature, changes_host, needs_program)| {
            let summary = summaries.get(name).copied().unwrap_or_default();
            (name, FunctionSummary { name, summary, changes_host, needs_program, signature })
        })
        .collect();
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_summary_and_every_summary_a_function() {
        let functions = described_functions();
        for one in &functions {
            let is_sentence = one.summary.ends_with('.') && one.summary.len() < 100;
            assert!(is_sentence, "`{}` needs a line in summaries.txt: {:?}", one.name, one.summary);
        }
        let mut names: Vec<&str> =
            SUMMARIES.lines().filter_map(|line| Some(line.split_once(' ')?.0)).collect();
        assert!(names.is_sorted(), "summaries.txt is sorted");
        names.retain(|name| !functions.iter().any(|f| f.name == *name));
        assert!(names.is_empty(), "summaries of no function: {names:?}");
    }

    #[test]
    fn arguments_are_written_as_in_a_call() {
        let functions = described_functions();
        let find = |name: &str| functions.iter().find(|f| f.name == name).unwrap();
        assert_eq!(find("pkg.version").arguments(), ["…", "[versions_as_list]", "key=value…"]);
        assert_eq!(find("file.chown").arguments(), ["path", "user", "group"]);
        assert!(find("file.chown").changes_host && !find("grains.get").changes_host);
        assert_eq!(find("cmd.run").module(), "cmd");
    }
}
