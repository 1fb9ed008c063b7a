//! Diagnostics in, text to fix them by out: message, position, source line with a caret, include path, help.
//!
//! Law: every diagnostic of a stage is drawn, in the order it was found; text from a file cannot control the
//! terminal (held by `a_fault_in_a_template`, `the_summary_counts`).

use std::fmt::Write;

use zagent_config::{Diagnostic, Excerpt};

use crate::output::{Paint, pluralize};
use zagent_config::sanitize;

/// Maximum number of characters shown of a long line.
const MAX_LINE_CHARS: usize = 140;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Stops the command.
    Error,
    /// Stops nothing.
    Warning,
}

impl Severity {
    /// The printed word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Draws one diagnostic.
#[must_use]
pub fn render_diagnostic(fault: &Diagnostic, severity: Severity, paint: Paint) -> String {
    let mut out = String::new();
    let head = format!("{}[{}]", severity.as_str(), fault.code.id);
    let head = if severity == Severity::Error { paint.red(head) } else { paint.yellow(head) };
    let _ = writeln!(out, "{head}: {}", paint.bold(sanitize(&fault.message)));
    let gutter = gutter_width(fault);
    if let Some(place) = &fault.location {
        let arrow = format!("{:gutter$}-->", "");
        let _ = writeln!(out, "{} {}", paint.blue(arrow), sanitize(&place.to_string()));
    }
    for (i, excerpt) in fault.excerpts.iter().enumerate() {
        write_excerpt(&mut out, excerpt, gutter, i > 0, paint);
    }
    let margin = format!("{:gutter$} {}", "", paint.blue("="));
    for step in &fault.chain {
        let _ = writeln!(out, "{margin} {} ({})", sanitize(&step.what), sanitize(&step.location.to_string()));
    }
    for note in &fault.notes {
        let _ = writeln!(out, "{margin} {}: {}", paint.bold("note"), indent_lines(note, gutter));
    }
    if let Some(hint) = &fault.hint {
        let _ = writeln!(out, "{margin} {}: {}", paint.bold("help"), indent_lines(hint, gutter));
    }
    out
}

/// Width of the line numbers.
fn gutter_width(fault: &Diagnostic) -> usize {
    fault.excerpts.iter().map(|e| e.line.to_string().len()).max().unwrap_or(1).max(2)
}

/// Aligns further lines of a text under its first line.
fn indent_lines(text: &str, gutter: usize) -> String {
    sanitize(text).replace('\n', &format!("\n{:width$}", "", width = gutter + 9))
}

fn write_excerpt(out: &mut String, excerpt: &Excerpt, gutter: usize, again: bool, paint: Paint) {
    let bar = paint.blue("|");
    if excerpt.label.is_empty() {
        if again {
            let _ = writeln!(out, "{}", paint.blue(format!("{:gutter$} ...", "")));
        } else {
            let _ = writeln!(out, "{:gutter$} {bar}", "");
        }
    } else {
        let label = paint.blue(format!("{:gutter$}:::", ""));
        let _ = writeln!(out, "{label} {}", sanitize(&excerpt.label));
    }
    let (text, caret) = excerpt_window(&excerpt.text, excerpt.column);
    let number = paint.blue(format!("{:>gutter$}", excerpt.line));
    let _ = writeln!(out, "{number} {bar} {text}");
    if let Some(caret) = caret {
        let _ = writeln!(out, "{:gutter$} {bar} {:caret$}{}", "", "", paint.red("^"));
    }
}

/// The part of a line around a column, sanitised, and the offset of the caret.
fn excerpt_window(text: &str, column: u32) -> (String, Option<usize>) {
    let text = text.trim_end();
    let at = (column as usize).checked_sub(1);
    let chars: Vec<char> = text.chars().collect();
    let from = at
        .map_or(0, |at| if at > MAX_LINE_CHARS * 3 / 4 { at - MAX_LINE_CHARS / 2 } else { 0 })
        .min(chars.len());
    let to = (from + MAX_LINE_CHARS).min(chars.len());
    let piece = |a: usize, b: usize| sanitize(&chars[a..b].iter().collect::<String>()).replace('\n', " ");
    let lead = if from > 0 { "…" } else { "" };
    let tail = if to < chars.len() { "…" } else { "" };
    let caret = at.map(|at| {
        let at = at.clamp(from, to);
        lead.chars().count() + piece(from, at).chars().count()
    });
    (format!("{lead}{}{tail}", piece(from, to)), caret)
}

/// The last line: number of errors and warnings, and how to get an explanation.
#[must_use]
pub fn fault_summary(errors: &[&Diagnostic], warnings: usize, paint: Paint) -> String {
    let mut text = format!("{}: {}", paint.red("error"), pluralize(errors.len(), "fault"));
    if warnings > 0 {
        let _ = write!(text, ", {}", pluralize(warnings, "warning"));
    }
    if let Some(first) = errors.first() {
        let _ = write!(text, "; zagent explain {}", first.code.id);
    }
    text
}

#[cfg(test)]
mod tests {
    use zagent_config::codes::{template, yaml};
    use zagent_config::{FileLocation, Pos, TraceStep};

    use super::*;

    fn sample() -> Diagnostic {
        let mut fault = Diagnostic::new(template::UNDEFINED, "`pillar.nginx` has no `workrs`")
            .at("states/web/conf.sls", Pos::new(12, 31))
            .hint("did you mean `workers`? pillar/web.sls:3")
            .note("strict undefined: a missing key is an error");
        fault.excerpts.push(Excerpt {
            label: String::new(),
            line: 12,
            column: 31,
            text: "\t- contents: workers {{ pillar.nginx.workrs }}".into(),
        });
        fault.chain.push(TraceStep {
            what: "included by `web`".into(),
            location: FileLocation::new("states/web/init.sls", Pos::new(2, 5)),
        });
        fault.chain.push(TraceStep {
            what: "matched by `*`".into(),
            location: FileLocation::new("states/top.sls", Pos::new(3, 7)),
        });
        fault
    }

    #[test]
    fn a_fault_in_a_template() {
        insta::assert_snapshot!(render_diagnostic(&sample(), Severity::Error, Paint::default()));
    }

    #[test]
    fn a_fault_in_what_a_template_made() {
        let mut fault = Diagnostic::new(yaml::YAML_SYNTAX, "mapping values are not allowed here")
            .at("states/a.sls", Pos::new(104, 1));
        fault.excerpts.push(Excerpt {
            label: String::new(),
            line: 104,
            column: 0,
            text: "  - name: {{ title }}".into(),
        });
        fault.excerpts.push(Excerpt {
            label: "rendered".into(),
            line: 7,
            column: 14,
            text: "  - name: a: b\u{1b}[31m".into(),
        });
        insta::assert_snapshot!(render_diagnostic(&fault, Severity::Error, Paint::default()));
    }

    #[test]
    fn a_warning_without_a_place() {
        let fault = Diagnostic::new(yaml::YAML_SYNTAX, "nothing here").hint("first line\nsecond line");
        insta::assert_snapshot!(render_diagnostic(&fault, Severity::Warning, Paint::default()));
    }

    #[test]
    fn colours_only_when_enabled() {
        assert!(!render_diagnostic(&sample(), Severity::Error, Paint::default()).contains('\x1b'));
        assert!(render_diagnostic(&sample(), Severity::Error, Paint::new(true)).contains("\x1b[1;31m"));
    }

    #[test]
    fn the_caret_stands_under_its_column() {
        for (text, column, want) in [
            ("abc", 1, ("abc".to_owned(), Some(0))),
            ("a\tbc", 3, ("a    bc".to_owned(), Some(5))),
            ("abc", 0, ("abc".to_owned(), None)),
            ("abc", 99, ("abc".to_owned(), Some(3))),
            ("", 1, (String::new(), Some(0))),
        ] {
            assert_eq!(excerpt_window(text, column), want, "{text:?}:{column}");
        }
        let long = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let (text, caret) = excerpt_window(&long, 501);
        assert!(text.chars().count() <= MAX_LINE_CHARS + 2);
        assert_eq!(text.chars().nth(caret.unwrap()), Some('X'));
    }

    #[test]
    fn the_summary_counts() {
        let (a, b) = (sample(), sample());
        assert_eq!(
            fault_summary(&[&a, &b], 1, Paint::default()),
            "error: 2 faults, 1 warning; zagent explain ZA0107"
        );
    }
}
