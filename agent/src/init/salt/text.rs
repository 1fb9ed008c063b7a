//! The report for people: what does not work first in each part, the verdict last.

use std::fmt::Write;

use super::report::{Level, Outcome, Report, Spot, Use};
use crate::output::{Paint, count, harmless};

/// Lines of one part that are shown without `-v`.
const SHOWN: usize = 20;

/// The report as text; `all` leaves nothing out.
#[must_use]
pub fn text(report: &Report, all: bool, paint: Paint) -> String {
    let mut page = Page { out: String::new(), paint, most: if all { usize::MAX } else { SHOWN } };
    page.head(report);
    page.sls(report);
    page.uses("State functions", &report.states, "declaration");
    page.uses("Functions in templates", &report.functions, "call");
    let odd: Vec<Use> = report.renderers.iter().filter(|r| r.level != Level::Runs).cloned().collect();
    page.uses("Renderers that need Python", &odd, "file");
    page.features(report);
    page.targets(report);
    page.verdict(report);
    harmless(&page.out)
}

struct Page {
    out: String,
    paint: Paint,
    most: usize,
}

impl Page {
    fn line(&mut self, text: impl std::fmt::Display) {
        let _ = writeln!(self.out, "{text}");
    }

    fn title(&mut self, title: &str) {
        let title = self.paint.bold(title);
        let _ = writeln!(self.out, "\n{title}");
    }

    fn head(&mut self, report: &Report) {
        let dirs = |dirs: &[String]| if dirs.is_empty() { "nowhere".to_owned() } else { dirs.join(", ") };
        self.line(format!("states: {}", dirs(&report.roots.0)));
        self.line(format!("pillar: {}", dirs(&report.roots.1)));
        self.line(format!("compiled for {}, each SLS by itself; no command was run", report.node));
        for dir in &report.missing {
            self.line(format!(
                "{}: the configuration names `{dir}`, which is not there",
                self.paint.yellow("warning")
            ));
        }
    }

    fn sls(&mut self, report: &Report) {
        let (total, bad, lenient) = (report.sls.len(), report.failing(), report.lenient());
        self.title("SLS");
        let more = if lenient > 0 {
            format!(" ({lenient} of them with `compat: salt` only)")
        } else {
            String::new()
        };
        self.line(format!("  {} of {} compile{more}", total - bad, count(total, "file")));
        for message in report.top.iter().chain(&report.pillar) {
            self.line(format!("  {} {message}", self.paint.red("✗")));
        }
        let mut lines = Vec::new();
        for one in &report.sls {
            match &one.outcome {
                Outcome::Compiles => {}
                Outcome::WithCompat(why) => {
                    lines.push(format!("  {} {}: {why}", self.paint.yellow("~"), one.file));
                }
                Outcome::Fails { code, message, place } => {
                    let at = place.as_ref().map_or_else(|| one.file.clone(), shown);
                    lines.push(format!("  {} {at}: {code}: {message}", self.paint.red("✗")));
                }
            }
        }
        lines.sort_unstable();
        self.list(&lines);
    }

    fn uses(&mut self, title: &str, uses: &[Use], what: &str) {
        if uses.is_empty() {
            return;
        }
        self.title(title);
        let of = |level| uses.iter().filter(move |u| u.level == level);
        let total = |level| of(level).map(|u| u.places.len()).sum::<usize>();
        for (level, words) in [(Level::Unknown, "unknown here"), (Level::Known, "not in this version")] {
            let lines: Vec<String> = of(level)
                .map(|u| {
                    let first = u.places.first().map(shown).unwrap_or_default();
                    format!("    {:32} {:>5}  {first}", u.name, u.places.len())
                })
                .collect();
            if !lines.is_empty() {
                let mark =
                    if level == Level::Unknown { self.paint.red("✗") } else { self.paint.yellow("~") };
                self.line(format!(
                    "  {mark} {words}: {} in {}",
                    count(lines.len(), "name"),
                    count(total(level), what)
                ));
                self.list(&lines);
            }
        }
        let run: Vec<String> = of(Level::Runs).map(|u| format!("{} {}", u.name, u.places.len())).collect();
        if !run.is_empty() {
            let sum = count(total(Level::Runs), what);
            let rest = run.len().saturating_sub(self.most);
            let more = if rest > 0 { format!(", {rest} more") } else { String::new() };
            let names = run[..run.len() - rest].join(", ");
            self.line(format!("  {} works: {sum}: {names}{more}", self.paint.green("✓")));
        }
    }

    fn features(&mut self, report: &Report) {
        if report.features.is_empty() {
            return;
        }
        self.title("Beyond states");
        for feature in &report.features {
            let first = feature.places.first().map(shown).unwrap_or_default();
            let rest = feature.places.len().saturating_sub(1);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            self.line(format!("  {} {}: {first}{more}", self.paint.red("✗"), feature.name));
            self.line(format!("      {}", feature.advice));
        }
    }

    fn targets(&mut self, report: &Report) {
        if report.targets.is_empty() {
            return;
        }
        self.title("Top file");
        let lines: Vec<String> = report
            .targets
            .iter()
            .map(|(env, target, matched, _)| {
                let mark = if *matched { self.paint.green("●") } else { self.paint.dim("○") };
                format!("  {mark} {env}: {target}")
            })
            .collect();
        self.list(&lines);
    }

    fn verdict(&mut self, report: &Report) {
        let (all, run) = report.states_that_run();
        self.title("Verdict");
        let share = format!("{} %", report.percent());
        let share = if report.percent() >= 90 { self.paint.green(share) } else { self.paint.yellow(share) };
        self.line(format!(
            "  {share}: {run} of {} run as they are. {}",
            count(all, "state"),
            report.verdict()
        ));
    }

    fn list(&mut self, lines: &[String]) {
        let rest = lines.len().saturating_sub(self.most);
        for line in &lines[..lines.len() - rest] {
            self.line(line);
        }
        if rest > 0 {
            self.line(format!("    … {rest} more (-v)"));
        }
    }
}

fn shown(spot: &Spot) -> String {
    format!("{}:{}", spot.file, spot.line)
}
