//! Sites of small, hostile and large fleets.

use jiff::Timestamp;

use super::*;

const HOSTILE: &str = "</td><script>alert(1)</script>\"'<img src=x onerror=y>\u{202e}\u{1b}[2J";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn node(id: &str, condition: NodeCondition) -> FleetNode {
    let is_bad = condition == NodeCondition::Failed;
    FleetNode {
        id: id.into(),
        condition,
        version: "1.4.0".into(),
        revision: "3f2a1b9c0d1e".into(),
        os: "Debian 12, x86_64".into(),
        activity: "idle".into(),
        reported: Some("2026-11-16T11:58:00Z".parse().unwrap()),
        errors: if is_bad { vec!["health check fails: web: connection refused".into()] } else { Vec::new() },
        facts: vec![("last run".into(), "OK, 2 changed, 0 failed".into())],
    }
}

fn rollout(id: &str) -> FleetRollout {
    let batch =
        |nodes, confirmed, failed, doing: &str| FleetBatch { nodes, confirmed, failed, doing: doing.into() };
    FleetRollout {
        id: id.into(),
        order: "states to 9b8c7d6e5f4a from 3f2a1b9c0d1e".into(),
        state: "aborted: 1 node failed".into(),
        look: RolloutLook::Bad,
        is_over: true,
        created: "2026-11-16T10:00:00Z".parse().unwrap(),
        batches: vec![batch(1, 1, 0, "done"), batch(2, 0, 1, "aborted")],
        facts: vec![("soak".into(), "10m".into())],
        failures: vec![
            ("gone-01".into(), "health check web failed".into()),
            ("web-00000".into(), "health check web failed".into()),
        ],
    }
}

/// A fleet with failures of every kind.
pub(crate) fn fleet(count: usize) -> FleetData {
    let conditions = NodeCondition::ALL;
    let nodes = (0..count).map(|n| {
        let condition = if n % 40 == 7 { conditions[(n / 40) % 6] } else { NodeCondition::Ok };
        node(&format!("web-{n:05}"), condition)
    });
    let state = "paused: change freeze".into();
    let active = FleetRollout { is_over: false, state, look: RolloutLook::Warn, ..rollout("r2") };
    FleetData {
        name: "prod".into(),
        at: now(),
        nodes: nodes.collect(),
        rollouts: vec![rollout("r1"), active],
        unread: Vec::new(),
    }
}

#[test]
fn pages_of_a_small_fleet() {
    let site = FleetSite::new(fleet(8), None);
    for path in [
        "index.html",
        "nodes.html",
        "failures.html",
        "node/web-00007.html",
        "rollout/r1.html",
        "rollouts.html",
    ] {
        insta::assert_snapshot!(path.replace(['/', '.'], "_"), site.file(path).unwrap().text);
    }
}

#[test]
fn every_path_is_a_file_and_every_link_leads_to_one() {
    let site = FleetSite::new(fleet(600), None);
    let paths = site.paths();
    for path in &paths {
        let text = site.file(path).unwrap_or_else(|| panic!("no {path}")).text;
        let up = path.matches('/').count();
        for link in text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            let Some(to) =
                link.strip_prefix(if up == 0 { "./" } else { "../" }).filter(|to| !to.starts_with('#'))
            else {
                continue;
            };
            assert!(paths.iter().any(|path| path == to), "{path} links to {link}");
        }
    }
    for none in ["node/none.html", "nodes--9.html", "nodes--0.html", "../etc/passwd", "rollout/.html"] {
        assert_eq!(site.file(none), None, "{none}");
    }
}

#[test]
fn ten_thousand_nodes_stay_in_pages() {
    let site = FleetSite::new(fleet(10_000), None);
    let page = site.file("nodes.html").unwrap().text;
    assert_eq!(page.matches("<tr>").count(), PAGE_SIZE + 1);
    assert!(page.contains("web-00007") && !page.contains("web-00000"), "what needs attention comes first");
    assert!(site.file("nodes--2.html").unwrap().text.contains("web-00000"));
    assert!(page.len() < 200_000, "{}", page.len());
    assert!(site.file("index.html").unwrap().text.len() < 20_000);
    assert!(site.file("nodes--40.html").is_some() && site.file("nodes--41.html").is_none());
    let index = site.file("nodes.js").unwrap().text;
    assert_eq!(index.lines().count(), 10_002);
    assert!(index.len() < 1_500_000, "{}", index.len());
}

/// A fleet with hostile text in every field.
pub(crate) fn hostile_fleet() -> FleetData {
    let mut data = fleet(3);
    let hostile = || HOSTILE.to_owned();
    (data.name, data.unread) = (hostile(), vec![hostile()]);
    for node in &mut data.nodes {
        (node.version, node.revision, node.os, node.activity) = (hostile(), hostile(), hostile(), hostile());
        (node.errors, node.facts) = (vec![hostile()], vec![(hostile(), hostile())]);
    }
    data.nodes[2].id = format!("x{HOSTILE}");
    for rollout in &mut data.rollouts {
        (rollout.order, rollout.state) = (hostile(), hostile());
        (rollout.facts, rollout.failures) = (vec![(hostile(), hostile())], vec![(hostile(), hostile())]);
        rollout.batches[0].doing = hostile();
    }
    data.rollouts[0].id = hostile();
    data
}

#[test]
fn hostile_text_is_escaped_on_every_page() {
    let site = FleetSite::new(hostile_fleet(), Some(7));
    for path in site.paths().iter().filter(|path| *path != "site.js" && *path != "style.css") {
        let text = site.file(path).unwrap().text;
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{path}");
        if path == "nodes.js" {
            let json = text.strip_prefix("window.zagentNodes = ").unwrap().trim_end().trim_end_matches(';');
            let read: Vec<Vec<String>> = serde_json::from_str(json).unwrap();
            assert!(read[0][5].contains("<script>"), "a list of strings, nothing else");
            continue;
        }
        assert_eq!(text.matches("<script").count(), 1, "{path}: only our own\n{text}");
        assert!(!text.contains("<img") && !text.contains("</td><script"), "{path}\n{text}");
    }
}

#[test]
fn only_a_live_site_listens_for_changes() {
    assert!(!FleetSite::new(fleet(1), None).file("nodes.html").unwrap().text.contains("data-events"));
    let live = FleetSite::new(fleet(1), Some(3)).file("node/web-00000.html").unwrap().text;
    assert!(live.contains("data-events=\"../events\" data-version=\"3\""), "{live}");
    let later = FleetData { at: "2026-11-16T13:00:00Z".parse().unwrap(), ..fleet(1) };
    assert!(later.is_same(&fleet(1)) && !later.is_same(&fleet(2)));
}
