//! Elements and text in, HTML out.
//!
//! Law: text and attribute values enter only escaped, names of elements and attributes are literals of this program, and
//! a link leads only to a page of ours (held by `Html`, `Href`, `nothing_leaves_its_element`,
//! `hostile_text_is_escaped_in_every_field`).

use zagent_config::steers_terminal;

use crate::graph_drawing::Svg;

/// HTML under construction.
#[derive(Clone, Debug, Default)]
pub struct Html {
    out: String,
}

/// Attributes of an element.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

/// The address of a page of ours, relative to the page that links to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Href(String);

impl Href {
    /// `up` directories up, then down these segments; every byte with a meaning in addresses is encoded.
    #[must_use]
    pub fn relative(up: usize, segments: &[&str]) -> Self {
        let segments: Vec<String> = segments.iter().map(|segment| encode_segment(segment)).collect();
        Self(format!("{}{}", if up == 0 { "./".to_owned() } else { "../".repeat(up) }, segments.join("/")))
    }

    /// A place on the same page.
    #[must_use]
    pub fn anchor(name: &'static str) -> Self {
        Self(format!("#{name}"))
    }
}

/// One segment of a path, as an address spells it.
#[must_use]
pub fn encode_segment(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

impl Html {
    /// An element and what is inside.
    pub fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        inside(self);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// An element with nothing but text.
    pub fn line(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |html| html.text(text));
        self.out.push('\n');
    }

    /// An element that has no end, such as `meta`.
    pub fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            self.out.push(' ');
            self.out.push_str(key);
            self.out.push_str("=\"");
            self.text(value);
            self.out.push('"');
        }
        self.out.push('>');
    }

    /// A link to a page of ours.
    pub fn link(&mut self, to: &Href, text: &str) {
        self.element("a", &[("href", &to.0)], |html| html.text(text));
    }

    /// Text, escaped.
    pub fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                '\n' | '\t' => self.out.push(c),
                c if steers_terminal(c) => self.out.push(char::REPLACEMENT_CHARACTER),
                c => self.out.push(c),
            }
        }
    }

    /// A drawing, whose text is already escaped.
    pub fn drawing(&mut self, svg: &Svg) {
        self.out.push_str(svg.as_str());
    }

    /// A style sheet of this program; the policy of the page allows it by its digest.
    pub(super) fn style(&mut self, sheet: &'static str) {
        self.out.push_str("<style>");
        self.out.push_str(sheet);
        self.out.push_str("</style>");
    }

    /// The whole document.
    #[must_use]
    pub fn into_document(self) -> String {
        format!("<!DOCTYPE html>\n{}\n", self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_element() {
        let mut html = Html::default();
        let hostile = "</p><script>alert('x')</script>\" onclick=\"x\u{202e}\u{0}";
        html.line("p", &[("title", hostile)], hostile);
        html.link(&Href::relative(1, &["node", "javascript:alert(1)/../\"x"]), hostile);
        let text = html.into_document();
        assert_eq!(text.matches('<').count(), 5, "{text}");
        assert_eq!(text.matches('"').count(), 4, "{text}");
        assert!(!text.contains('\'') && !text.contains('\u{202e}') && !text.contains('\0'), "{text}");
        assert!(text.contains("href=\"../node/javascript%3Aalert%281%29%2F..%2F%22x\""), "{text}");
    }
}
