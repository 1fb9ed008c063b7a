//! Pages of a good, a failed and a hostile node.

use std::time::Duration;

use jiff::tz::TimeZone;
use zagent_compiler::{Chunk, Plan, Requisite, RequisiteEdge, RequisiteGraph};
use zagent_config::Map;
use zagent_config::paths::Paths;
use zagent_run::history::History;
use zagent_run::samples as runs;

use super::*;
use crate::graph_drawing::{StateMark, render_marked_svg};
use crate::status::samples::{fine, now, verdict};
use crate::status::{AgentStatus, StatusInputs};

const HOSTILE: &str = "</dd><script>alert(1)</script>\"'<img src=x onerror=y>\u{202e}\u{1b}[2J";

fn render(inputs: StatusInputs, facts: &NodeFacts, detail: PageDetail) -> String {
    let status = AgentStatus::from_inputs(inputs);
    NodePage { status: &status, facts, now: now(), zone: TimeZone::UTC, detail }.render()
}

/// What a host keeps of these runs.
fn facts_of(reports: &[zagent_run::RunReport]) -> NodeFacts {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    let history = History::new(&paths, 10);
    reports.iter().for_each(|report| drop(history.record(report).unwrap()));
    NodeFacts::read(&paths, 10)
}

fn failed_node() -> StatusInputs {
    let mut inputs = fine();
    let run = inputs.memory.last_run.as_mut().unwrap();
    (run.success, run.errors) = (false, vec!["pkg.installed postgres: E: Unable to locate package".into()]);
    inputs.health = vec![verdict("web", true, false), verdict("disk", false, true)];
    inputs
}

/// Two states, one of which waits for the other.
fn plan(ids: [&str; 2]) -> Plan {
    let chunks = ids.map(|id| Chunk::single("pkg", "installed", id, Map::new())).to_vec();
    let edges = vec![RequisiteEdge { from: 0, to: 1, kind: Requisite::Require }];
    Plan { chunks, graph: RequisiteGraph { edges, levels: vec![vec![0], vec![1]] } }
}

#[test]
fn a_failed_node_shows_its_failure_first_and_its_diffs() {
    let mut report = runs::failed();
    report.duration = Duration::from_millis(1200);
    let page = render(failed_node(), &facts_of(&[report]), PageDetail::Full);
    insta::assert_snapshot!("failed_node", page.replace(STYLE, "STYLE\n"));
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(at("the last run failed") < at("Status") && at("Status") < at("Recent runs"));
    assert!(at("<details open") < at("E: Unable to locate package postgresql"));
    assert!(page.contains("<ins>+password=********</ins>") && page.contains("<del>-password=old</del>"));
}

#[test]
fn a_summary_tells_no_messages_and_no_diffs() {
    let facts = facts_of(&[runs::failed()]);
    let page = render(failed_node(), &facts, PageDetail::Summary);
    for hidden in ["Unable to locate", "nginx", "password", "git.example.org", "/etc", "refused"] {
        assert!(!page.contains(hidden), "{hidden}");
    }
    assert!(page.contains("alice@example.org") && page.contains("<dd>web</dd>"), "{page}");
}

#[test]
fn hostile_text_is_escaped_in_every_field() {
    let mut inputs = failed_node();
    inputs.node = HOSTILE.into();
    let run = inputs.memory.last_run.as_mut().unwrap();
    (run.errors, run.trigger) = (vec![HOSTILE.into()], HOSTILE.into());
    inputs.unread = vec![HOSTILE.into()];
    inputs.trust = vec![HOSTILE.into()];
    inputs.health.iter_mut().for_each(|check| {
        (check.name, check.message) = (HOSTILE.into(), HOSTILE.into());
    });
    let current = inputs.current.as_mut().unwrap();
    (current.signed_by, current.source) = (vec![HOSTILE.into()], HOSTILE.into());
    let mut report = runs::failed();
    report.revision = HOSTILE.into();
    for state in &mut report.states {
        (state.id, state.comment, state.diff) =
            (HOSTILE.into(), HOSTILE.into(), format!("+{HOSTILE}\n-{HOSTILE}\n"));
        (state.name, state.sls, state.resource) = (HOSTILE.into(), HOSTILE.into(), Some(HOSTILE.into()));
    }
    let mut facts = facts_of(&[report]);
    facts.unread = vec![HOSTILE.into()];
    let drawn = plan([HOSTILE, "b"]);
    let marks = [(drawn.chunks[0].tag(), StateMark::Failed)].into();
    facts.graph = Some(render_marked_svg(&drawn, HOSTILE, &marks));
    for detail in [PageDetail::Full, PageDetail::Summary] {
        let page = render(inputs.clone(), &facts, detail);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("</dd><"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    }
}

#[test]
fn the_path_of_a_failure_is_drawn_thick_and_named() {
    let drawn = plan(["postgres", "app"]);
    let marks =
        [(drawn.chunks[0].tag(), StateMark::Failed), (drawn.chunks[1].tag(), StateMark::Skipped)].into();
    let svg = render_marked_svg(&drawn, "x", &marks);
    assert!(svg.as_str().contains("FAILED pkg.installed") && svg.as_str().contains("SKIPPED pkg.installed"));
    assert!(svg.as_str().contains("stroke=\"#b91c1c\" stroke-width=\"3\""), "{}", svg.as_str());
    let plain = render_marked_svg(&drawn, "x", &Default::default());
    assert!(!plain.as_str().contains("stroke-width=\"3\""));
}

#[test]
fn pages_load_nothing_from_elsewhere() {
    for detail in [PageDetail::Full, PageDetail::Summary] {
        let page = render(failed_node(), &facts_of(&[runs::failed()]), detail);
        let policy = single_page_policy().replace('\'', "&#39;");
        assert!(page.contains(&policy), "{page}");
        for foreign in ["src=", "href=\"http", "url(", "@import", "<script", " style="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
    assert!(!SITE_POLICY.contains("unsafe") && !SITE_POLICY.contains("http"));
}

/// `just pages` opens them in a browser; PAGES_DIR says where they go.
#[test]
fn sample_pages_are_whole() {
    let mut inputs = failed_node();
    inputs.node = "db-01.example.org".into();
    let mut quiet = runs::quiet();
    quiet.run = "20261116T074512-11111".into();
    let mut facts = facts_of(&[quiet, runs::failed()]);
    let drawn = plan(["postgres", "app"]);
    let marks =
        [(drawn.chunks[0].tag(), StateMark::Failed), (drawn.chunks[1].tag(), StateMark::Skipped)].into();
    facts.graph = Some(render_marked_svg(&drawn, "States of the last run", &marks));
    for (name, detail) in [("node.html", PageDetail::Full), ("node-summary.html", PageDetail::Summary)] {
        let page = render(inputs.clone(), &facts, detail);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
        if let Some(dir) = std::env::var_os("PAGES_DIR") {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(std::path::Path::new(&dir).join(name), page).unwrap();
        }
    }
}
