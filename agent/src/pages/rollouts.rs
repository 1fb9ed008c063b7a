//! Rollouts in, their list and a page per rollout out.

use jiff::Timestamp;
use zagent_daemon::pages::node_page::table;
use zagent_daemon::pages::{Href, Html};

use super::FleetData;
use super::site::{age, node_link, time};

/// How a rollout looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutLook {
    /// As it should be.
    Good,
    /// Under way.
    Plain,
    /// Somebody has to do something.
    Warn,
    /// It was aborted, or nodes failed.
    Bad,
}

impl RolloutLook {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "badge good",
            Self::Plain => "badge",
            Self::Warn => "badge warn",
            Self::Bad => "badge bad",
        }
    }
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetBatch {
    /// Number of its nodes.
    pub nodes: usize,
    /// How many have confirmed.
    pub confirmed: usize,
    /// How many have failed or do not answer.
    pub failed: usize,
    /// What it does, with its timer.
    pub doing: String,
}

/// One rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRollout {
    /// Its name.
    pub id: String,
    /// What is rolled out.
    pub order: String,
    /// Its state, and why.
    pub state: String,
    /// How it looks.
    pub look: RolloutLook,
    /// True when it is over.
    pub is_over: bool,
    /// When it was ordered.
    pub created: Timestamp,
    /// Its batches.
    pub batches: Vec<FleetBatch>,
    /// Timers and limits, by name.
    pub facts: Vec<(String, String)>,
    /// Nodes that failed, and why.
    pub failures: Vec<(String, String)>,
}

impl FleetRollout {
    fn counts(&self) -> (usize, usize, usize) {
        let sum = |of: fn(&FleetBatch) -> usize| self.batches.iter().map(of).sum();
        (sum(|b| b.nodes), sum(|b| b.confirmed), sum(|b| b.failed))
    }

    /// Its state as a badge.
    pub(super) fn badge(&self, html: &mut Html) {
        let word = self.state.split(':').next().unwrap_or_default();
        html.line("span", &[("class", self.look.class())], word);
    }

    /// One paragraph: the link, the state and how far it is.
    pub(super) fn paragraph(&self, html: &mut Html, up: usize) {
        let (nodes, confirmed, failed) = self.counts();
        html.element("p", &[], |html| {
            html.link(&Href::relative(up, &["rollout", &format!("{}.html", self.id)]), &self.id);
            html.text(" ");
            self.badge(html);
            html.text(&format!(" {}: {confirmed} of {nodes} nodes confirmed, {failed} failed", self.order));
        });
    }

    /// Its page.
    pub(super) fn page(&self, html: &mut Html, data: &FleetData) {
        html.element("p", &[], |html| {
            self.badge(html);
            html.text(self.state.split_once(':').map_or("", |(_, reason)| reason));
        });
        html.element("div", &[("class", "card")], |html| {
            html.element("dl", &[], |html| {
                html.line("dt", &[], "order");
                html.line("dd", &[], &self.order);
                for (name, words) in &self.facts {
                    html.line("dt", &[], name);
                    html.line("dd", &[], words);
                }
            });
        });
        html.line("h2", &[], "Batches");
        html.element("div", &[("class", "card")], |html| {
            table(html, &["Batch", "Nodes", "Confirmed", "Failed", "Now"], |html| {
                for (number, batch) in self.batches.iter().enumerate() {
                    html.element("tr", &[], |html| {
                        let cells = [
                            ("Batch", (number + 1).to_string()),
                            ("Nodes", batch.nodes.to_string()),
                            ("Confirmed", batch.confirmed.to_string()),
                            ("Failed", batch.failed.to_string()),
                            ("Now", batch.doing.clone()),
                        ];
                        cells
                            .iter()
                            .for_each(|(name, words)| html.line("td", &[("data-label", name)], words));
                    });
                }
            });
        });
        if self.failures.is_empty() {
            return;
        }
        html.line("h2", &[], "Failed nodes");
        html.element("div", &[("class", "card")], |html| {
            table(html, &["Node", "Why"], |html| {
                for (node, why) in self.failures.iter().take(super::PAGE_SIZE) {
                    html.element("tr", &[], |html| {
                        html.element("td", &[("class", "id")], |html| {
                            node_link(html, data, 1, node);
                        });
                        html.line("td", &[("class", "bad")], why);
                    });
                }
            });
        });
    }
}

/// The list of all rollouts: active ones, then the history.
pub(super) fn list(html: &mut Html, rollouts: &[FleetRollout], now: Timestamp) {
    for (title, is_over) in [("Active", false), ("History", true)] {
        html.line("h2", &[], title);
        let chosen: Vec<_> = rollouts.iter().filter(|rollout| rollout.is_over == is_over).collect();
        if chosen.is_empty() {
            html.line("p", &[], "none");
            continue;
        }
        html.element("div", &[("class", "card")], |html| {
            table(html, &["Rollout", "State", "Order", "Nodes", "Ordered"], |html| {
                for rollout in chosen.into_iter().take(super::PAGE_SIZE) {
                    row(html, rollout, now);
                }
            });
        });
    }
}

fn row(html: &mut Html, rollout: &FleetRollout, now: Timestamp) {
    let (nodes, confirmed, failed) = rollout.counts();
    html.element("tr", &[], |html| {
        html.element("td", &[("class", "id")], |html| {
            html.link(&Href::relative(0, &["rollout", &format!("{}.html", rollout.id)]), &rollout.id);
        });
        html.element("td", &[], |html| rollout.badge(html));
        html.line("td", &[("data-label", "Order")], &rollout.order);
        let words = format!("{confirmed} of {nodes} confirmed, {failed} failed");
        html.line("td", &[("data-label", "Nodes")], &words);
        html.element("td", &[("data-label", "Ordered")], |html| {
            time(html, rollout.created);
            html.text(&format!(" ({} ago)", age(rollout.created, now)));
        });
    });
}
