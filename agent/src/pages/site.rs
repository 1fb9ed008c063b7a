//! Fleet and path in, one file of its site out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_daemon::operator::span_text;
use zagent_daemon::pages::html::encode_segment;
use zagent_daemon::pages::node_page::table;
use zagent_daemon::pages::{Href, Html, PageFiles, STYLE, document};

use super::fleet::{FleetData, FleetNode, NodeCondition};
use super::{PAGE_SIZE, rollouts};

/// The script of all pages.
const SCRIPT: &str = include_str!("site.js");
/// Number of values of one kind on the first page.
const MAX_GROUPS: usize = 12;
/// Number of nodes named for one failure.
const MAX_NAMED: usize = 20;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFile {
    /// Its content type.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
}

/// The site of a fleet.
#[derive(Debug)]
pub struct FleetSite {
    data: FleetData,
    /// Nodes by index, per list of nodes: all of them, and every group.
    lists: BTreeMap<String, NodeList>,
    /// Set when pages update themselves: the number of this state.
    live: Option<u64>,
}

#[derive(Debug)]
struct NodeList {
    title: String,
    nodes: Vec<usize>,
}

impl FleetSite {
    /// The site; `live` is set when somebody serves it and tells of changes.
    #[must_use]
    pub fn new(data: FleetData, live: Option<u64>) -> Self {
        let mut lists: BTreeMap<String, NodeList> = BTreeMap::new();
        let all = NodeList { title: "All nodes".into(), nodes: (0..data.nodes.len()).collect() };
        lists.insert("nodes".into(), all);
        for (index, node) in data.nodes.iter().enumerate() {
            for (kind, value) in groups_of(node) {
                let list = lists.entry(list_name(kind, value)).or_insert_with(|| NodeList {
                    title: format!("Nodes by {kind}: {value}"),
                    nodes: Vec::new(),
                });
                list.nodes.push(index);
            }
        }
        // What needs attention comes first.
        for list in lists.values_mut() {
            list.nodes.sort_by_key(|index| (data.nodes[*index].condition, *index));
        }
        Self { data, lists, live }
    }

    /// The paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let fixed = ["index.html", "rollouts.html", "failures.html", "style.css", "site.js", "nodes.js"];
        let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
        for (name, list) in &self.lists {
            all.extend((0..page_count(list)).map(|page| page_name(name, page)));
        }
        all.extend(self.data.nodes.iter().map(|node| format!("node/{}.html", node.id)));
        all.extend(self.data.rollouts.iter().map(|rollout| format!("rollout/{}.html", rollout.id)));
        all
    }

    /// One file; none when there is none at this path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<SiteFile> {
        let html = |text| Some(SiteFile { kind: "text/html; charset=utf-8", text });
        match path {
            "" | "index.html" => html(self.overview()),
            "rollouts.html" => html(self.rollouts()),
            "failures.html" => html(self.failures()),
            "style.css" => Some(SiteFile { kind: "text/css; charset=utf-8", text: STYLE.to_owned() }),
            "site.js" => Some(SiteFile { kind: "text/javascript; charset=utf-8", text: SCRIPT.to_owned() }),
            "nodes.js" => Some(SiteFile { kind: "text/javascript; charset=utf-8", text: self.index() }),
            _ => html(self.other_page(path.strip_suffix(".html")?)?),
        }
    }

    fn other_page(&self, name: &str) -> Option<String> {
        if let Some(id) = name.strip_prefix("node/") {
            let place = self.data.nodes.binary_search_by(|node| node.id.as_str().cmp(id)).ok()?;
            return Some(self.node(&self.data.nodes[place]));
        }
        if let Some(id) = name.strip_prefix("rollout/") {
            let rollout = self.data.rollouts.iter().find(|rollout| rollout.id == id)?;
            return Some(self.page(&format!("Rollout {id}"), 1, |html| rollout.page(html, &self.data)));
        }
        let (list, page) = match name.rsplit_once("--") {
            Some((list, number)) => (list, number.parse::<usize>().ok()?.checked_sub(1)?),
            None => (name, 0),
        };
        let nodes = self.lists.get(list).filter(|nodes| page < page_count(nodes))?;
        Some(self.node_list(list, nodes, page))
    }

    /// A page with navigation and footer; `up` is its depth below the root of the site.
    fn page(&self, title: &str, up: usize, body: impl FnOnce(&mut Html)) -> String {
        let data = &self.data;
        let name = if data.name.is_empty() { "Fleet".to_owned() } else { format!("Fleet {}", data.name) };
        document(&format!("{title} - {name}"), PageFiles::Beside(up), |html| {
            html.element("header", &[], |html| {
                html.line("h1", &[], title);
                html.element("nav", &[("aria-label", "Site")], |html| {
                    let places = [
                        ("index.html", "Overview"),
                        ("nodes.html", "Nodes"),
                        ("rollouts.html", "Rollouts"),
                        ("failures.html", "Failures"),
                    ];
                    places.iter().for_each(|(to, words)| html.link(&Href::relative(up, &[to]), words));
                });
            });
            html.element("main", &[("id", "main")], |html| {
                html.element("div", &[("id", "content")], body);
            });
            html.element("footer", &[], |html| {
                html.text(&format!("{name}, as reported until "));
                time(html, data.at);
                if let Some(version) = self.live {
                    let (events, version) = (format!("{}events", "../".repeat(up)), version.to_string());
                    let attributes = [
                        ("id", "live"),
                        ("role", "status"),
                        ("data-events", &*events),
                        ("data-version", &*version),
                    ];
                    html.line("p", &attributes, "updated while it is open");
                }
            });
        })
    }

    fn overview(&self) -> String {
        let data = &self.data;
        self.page("Overview", 0, |html| {
            data.unread.iter().for_each(|unread| html.line("p", &[("class", "warn")], unread));
            html.line("h2", &[], &format!("{} nodes", data.nodes.len()));
            html.element("div", &[("class", "cards")], |html| {
                for kind in ["state", "version", "os"] {
                    self.group_card(html, kind);
                }
            });
            html.line("h2", &[], "Active rollouts");
            html.element("div", &[("class", "card")], |html| {
                let active: Vec<_> = data.rollouts.iter().filter(|rollout| !rollout.is_over).collect();
                if active.is_empty() {
                    html.line("p", &[], "none");
                }
                active.iter().take(MAX_GROUPS).for_each(|rollout| rollout.paragraph(html, 0));
            });
            html.line("h2", &[], "Most frequent failures");
            html.element("div", &[("class", "card")], |html| failure_list(html, data, 5));
        })
    }

    fn group_card(&self, html: &mut Html, kind: &'static str) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.data.nodes {
            let value = groups_of(node).into_iter().find(|(k, _)| *k == kind).map(|(_, value)| value);
            *counts.entry(value.unwrap_or_default()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        html.element("section", &[("class", "card")], |html| {
            html.line("h3", &[], &format!("By {kind}"));
            html.element("table", &[], |html| {
                html.element("tbody", &[], |html| {
                    for (value, count) in counts.iter().take(MAX_GROUPS) {
                        html.element("tr", &[], |html| {
                            html.element("td", &[], |html| {
                                let file = page_name(&list_name(kind, value), 0);
                                html.link(
                                    &Href::relative(0, &[&file]),
                                    if value.is_empty() { "unknown" } else { value },
                                );
                            });
                            html.line("td", &[("class", "num")], &count.to_string());
                        });
                    }
                });
            });
            if counts.len() > MAX_GROUPS {
                html.line("p", &[("class", "dim")], &format!("and {} more", counts.len() - MAX_GROUPS));
            }
        });
    }

    fn rollouts(&self) -> String {
        self.page("Rollouts", 0, |html| rollouts::list(html, &self.data.rollouts, self.data.at))
    }

    fn failures(&self) -> String {
        self.page("Failures", 0, |html| {
            html.element("div", &[("class", "card")], |html| {
                failure_list(html, &self.data, PAGE_SIZE);
            });
        })
    }

    fn node_list(&self, name: &str, list: &NodeList, page: usize) -> String {
        self.page(&list.title, 0, |html| {
            search_form(html);
            html.element("div", &[("id", "listed")], |html| {
                html.line("p", &[], &format!("{} nodes, those that need attention first", list.nodes.len()));
                html.element("div", &[("class", "card")], |html| {
                    let heads = ["Node", "State", "Version", "Revision", "System", "Report", "Note"];
                    table(html, &heads, |html| {
                        let shown = list.nodes.iter().skip(page * PAGE_SIZE).take(PAGE_SIZE);
                        shown.for_each(|index| self.node_row(html, &self.data.nodes[*index]));
                    });
                });
                page_links(html, name, page, page_count(list));
            });
        })
    }

    fn node_row(&self, html: &mut Html, node: &FleetNode) {
        html.element("tr", &[], |html| {
            html.element("td", &[("class", "id")], |html| {
                html.link(&Href::relative(0, &["node", &format!("{}.html", node.id)]), &node.id);
            });
            html.element("td", &[], |html| badge(html, node.condition));
            html.line("td", &[("data-label", "Version")], &node.version);
            html.line("td", &[("data-label", "Revision")], &node.revision);
            html.line("td", &[("data-label", "System")], &node.os);
            let report = node.reported.map(|at| format!("{} ago", age(at, self.data.at)));
            html.line("td", &[("data-label", "Report")], &report.unwrap_or_default());
            html.line("td", &[("data-label", "Note")], &node.errors.join("; "));
        });
    }

    fn node(&self, node: &FleetNode) -> String {
        self.page(&node.id, 1, |html| {
            html.element("p", &[], |html| badge(html, node.condition));
            if !node.errors.is_empty() {
                html.element("div", &[("class", "card bad")], |html| {
                    node.errors.iter().for_each(|error| html.line("p", &[], error));
                });
            }
            html.element("div", &[("class", "card")], |html| {
                html.element("dl", &[], |html| {
                    let known = [
                        ("agent", &node.version),
                        ("revision", &node.revision),
                        ("system", &node.os),
                        ("activity", &node.activity),
                    ];
                    let facts = node.facts.iter().map(|(name, words)| (name.as_str(), words));
                    for (name, words) in known.into_iter().chain(facts) {
                        html.line("dt", &[], name);
                        html.line("dd", &[], words);
                    }
                    if let Some(at) = node.reported {
                        html.line("dt", &[], "report");
                        html.element("dd", &[], |html| time(html, at));
                    }
                });
            });
            let mine = |rollout: &&super::FleetRollout| rollout.failures.iter().any(|(id, _)| *id == node.id);
            self.data
                .rollouts
                .iter()
                .filter(mine)
                .take(MAX_GROUPS)
                .for_each(|rollout| rollout.paragraph(html, 1));
        })
    }

    /// What the search reads: one list per node.
    fn index(&self) -> String {
        let row = |node: &FleetNode| {
            serde_json::json!([
                node.id,
                node.condition.word(),
                node.version,
                node.revision,
                node.os,
                node.errors.join("; ")
            ])
        };
        let rows: Vec<String> = self.data.nodes.iter().map(|node| row(node).to_string()).collect();
        zagent_config::escape_json(format!("window.zagentNodes = [\n{}\n];\n", rows.join(",\n")))
    }
}

/// The groups of a node, by kind.
fn groups_of(node: &FleetNode) -> [(&'static str, &str); 3] {
    [("state", node.condition.word()), ("version", &node.version), ("os", &node.os)]
}

/// File name of a list, safe on every file system and server.
fn list_name(kind: &str, value: &str) -> String {
    format!("{kind}-{}", encode_segment(value).replace('%', "_"))
}

fn page_name(list: &str, page: usize) -> String {
    if page == 0 { format!("{list}.html") } else { format!("{list}--{}.html", page + 1) }
}

fn page_count(list: &NodeList) -> usize {
    list.nodes.len().div_ceil(PAGE_SIZE).max(1)
}

fn page_links(html: &mut Html, name: &str, page: usize, count: usize) {
    if count < 2 {
        return;
    }
    html.element("nav", &[("class", "pages"), ("aria-label", "Pages")], |html| {
        for number in 0..count {
            let words = (number + 1).to_string();
            if number == page {
                html.line("strong", &[("aria-current", "page")], &words);
            } else {
                html.link(&Href::relative(0, &[&page_name(name, number)]), &words);
            }
        }
    });
}

/// Search over all nodes; the script shows it.
fn search_form(html: &mut Html) {
    let attributes = [("id", "search"), ("role", "search"), ("data-root", "./"), ("hidden", "")];
    html.element("form", &attributes, |html| {
        html.element("label", &[], |html| {
            html.text("Search all nodes");
            html.open("input", &[("name", "q"), ("type", "search"), ("autocomplete", "off")]);
        });
        html.element("label", &[], |html| {
            html.text("State");
            html.element("select", &[("name", "state")], |html| {
                html.line("option", &[("value", "")], "any");
                for condition in NodeCondition::ALL {
                    html.line("option", &[("value", condition.word())], condition.word());
                }
            });
        });
    });
    html.line("p", &[("id", "said"), ("role", "status")], "");
    html.line("ul", &[("id", "found")], "");
}

fn failure_list(html: &mut Html, data: &FleetData, most: usize) {
    let failures = data.failures();
    if failures.is_empty() {
        html.line("p", &[], "none");
    }
    for (error, nodes) in failures.iter().take(most) {
        html.element("details", &[], |html| {
            let count = if nodes.len() == 1 { "1 node".to_owned() } else { format!("{} nodes", nodes.len()) };
            html.line("summary", &[], &format!("{count}: {error}"));
            html.element("p", &[], |html| {
                for node in nodes.iter().take(MAX_NAMED) {
                    node_link(html, data, 0, node);
                    html.text(" ");
                }
                if nodes.len() > MAX_NAMED {
                    html.text(&format!("and {} more", nodes.len() - MAX_NAMED));
                }
            });
        });
    }
    if failures.len() > most {
        html.line("p", &[("class", "dim")], &format!("and {} more", failures.len() - most));
    }
}

/// The id of a node; a link when it reports, and so has a page.
pub(super) fn node_link(html: &mut Html, data: &FleetData, up: usize, id: &str) {
    match data.nodes.binary_search_by(|node| node.id.as_str().cmp(id)) {
        Ok(_) => html.link(&Href::relative(up, &["node", &format!("{id}.html")]), id),
        Err(_) => html.text(id),
    }
}

fn badge(html: &mut Html, condition: NodeCondition) {
    html.line("span", &[("class", condition.class())], condition.word());
}

/// A moment, in UTC.
pub(super) fn time(html: &mut Html, at: Timestamp) {
    let shown = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html.element("time", &[("datetime", &at.to_string())], |html| html.text(&shown));
}

/// How long ago.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    span_text(at.min(now), now)
}
