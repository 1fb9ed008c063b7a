//! Data in, pages for a browser out: the page of a node, and what the pages of a fleet share with it.
//!
//! Law: pages are read-only, work without a script, and load nothing from elsewhere: the policy that every page carries
//! allows only our own style sheet, and on pages of a fleet our own script (held by `pages_load_nothing_from_elsewhere`).

pub mod html;
pub mod node_facts;
pub mod node_page;
#[cfg(test)]
mod tests;

pub use html::{Href, Html};
pub use node_facts::NodeFacts;
pub use node_page::{NodePage, PageDetail};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("style.css");
/// Policy of pages with files beside them.
pub const SITE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                               img-src 'self'; base-uri 'none'; form-action 'none'";

/// How a page carries its style sheet, and whether it has a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFiles {
    /// In the page itself; no script.
    Inside,
    /// In files, this many directories up.
    Beside(usize),
}

/// Policy of a page that carries its style sheet itself.
#[must_use]
pub fn single_page_policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
}

/// A whole page: title, policy, style sheet, and what `body` writes.
#[must_use]
pub fn document(title: &str, files: PageFiles, body: impl FnOnce(&mut Html)) -> String {
    let policy = match files {
        PageFiles::Inside => single_page_policy(),
        PageFiles::Beside(_) => SITE_POLICY.to_owned(),
    };
    let mut html = Html::default();
    html.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |html| {
            html.open("meta", &[("charset", "utf-8")]);
            html.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
            html.open("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
            html.open("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            html.open("meta", &[("name", "referrer"), ("content", "no-referrer")]);
            html.line("title", &[], title);
            match files {
                PageFiles::Inside => html.style(STYLE),
                PageFiles::Beside(up) => {
                    let dir = "../".repeat(up);
                    html.open("link", &[("rel", "stylesheet"), ("href", &format!("{dir}style.css"))]);
                    let script = format!("{dir}site.js");
                    html.line("script", &[("src", &script), ("defer", "")], "");
                }
            }
        });
        html.element("body", &[], |html| {
            html.element("a", &[("class", "skip"), ("href", "#main")], |html| html.text("Skip to content"));
            body(html);
        });
    });
    html.into_document()
}
