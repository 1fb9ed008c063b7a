//! `urlize`: addresses in a text become HTML links.

use minijinja::value::Value;
use minijinja::{Error, State};

use super::markup::escape;
use crate::jinja::methods::args::{CallArgs, not_none};

pub(super) fn urlize(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, limit, no_follow, target, rel, schemes] =
        args.bind(["value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"], 1)?;
    let text = args.text(&value.unwrap_or_default())?;
    let limit = not_none(limit).map(|v| args.int("trim_url_limit", &v)).transpose()?;
    let mut relations: Vec<String> = Vec::new();
    if let Some(rel) = not_none(rel) {
        relations.extend(args.text(&rel)?.split_whitespace().map(str::to_owned));
    }
    if no_follow.is_some_and(|v| v.is_true()) {
        relations.push("nofollow".into());
    }
    relations.push("noopener".into());
    relations.sort_unstable();
    relations.dedup();
    let mut attributes = format!(" rel=\"{}\"", escape(&relations.join(" ")));
    if let Some(target) = not_none(target) {
        attributes.push_str(&format!(" target=\"{}\"", escape(&args.text(&target)?)));
    }
    let schemes = match not_none(schemes) {
        Some(schemes) => args.items(&schemes)?.iter().map(|s| args.text(s)).collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let address = super::regex::compile(args, ADDRESS, true, false)?;
    let linker =
        UrlLinker { limit: limit.and_then(|n| usize::try_from(n).ok()), attributes, schemes, address };
    let escaped = escape(&text);
    let mut out = String::new();
    for piece in escaped.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        out.push_str(&linker.word(word));
        out.push_str(&piece[word.len()..]);
    }
    Ok(Value::from_safe_string(out))
}

struct UrlLinker {
    limit: Option<usize>,
    attributes: String,
    schemes: Vec<String>,
    address: fancy_regex::Regex,
}

/// A host name with a likely top level domain or an IP address, then a port and a path.
const ADDRESS: &str = concat!(
    r"^(?:(?:https?://|www\.)(?:[\w%-]+\.)*(?:[a-z]{2,63}|xn--[\w%]{2,59})",
    r"|(?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)",
    r"|https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\]))",
    r"(?::\d{1,5})?(?:[/?#]\S*)?$",
);

impl UrlLinker {
    fn word(&self, word: &str) -> String {
        let middle = word.trim_start_matches(['(', '<']).trim_start_matches("&lt;");
        let head = &word[..word.len() - middle.len()];
        let mut middle = middle;
        // Punctuation after an address is not part of it.
        loop {
            let shorter =
                middle.strip_suffix("&gt;").unwrap_or_else(|| middle.trim_end_matches(['.', ',', '>', '\n']));
            let shorter = if shorter.ends_with(')') && !shorter.contains('(') {
                &shorter[..shorter.len() - 1]
            } else {
                shorter
            };
            if shorter.len() == middle.len() {
                break;
            }
            middle = shorter;
        }
        let tail = &word[head.len() + middle.len()..];
        format!("{head}{}{tail}", self.link(middle))
    }

    fn link(&self, text: &str) -> String {
        let shown = match self.limit {
            Some(n) if text.chars().count() > n => text.chars().take(n).collect::<String>() + "...",
            _ => text.to_owned(),
        };
        let attributes = &self.attributes;
        if self.address.is_match(text).unwrap_or(false) {
            let has_scheme = text.starts_with("http://") || text.starts_with("https://");
            let scheme = if has_scheme { "" } else { "https://" };
            return format!("<a href=\"{scheme}{text}\"{attributes}>{shown}</a>");
        }
        if let Some(mail) = text.strip_prefix("mailto:").filter(|m| is_mail(m)) {
            return format!("<a href=\"{text}\">{mail}</a>");
        }
        if is_mail(text) {
            return format!("<a href=\"mailto:{text}\">{text}</a>");
        }
        if self.schemes.iter().any(|s| text != s && text.starts_with(s.as_str())) {
            return format!("<a href=\"{text}\"{attributes}>{text}</a>");
        }
        text.to_owned()
    }
}

fn is_mail(text: &str) -> bool {
    text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty()
            && !text.starts_with("www.")
            && !text.contains(':')
            && host.contains('.')
            && host
                .split('.')
                .all(|p| !p.is_empty() && p.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_'))
    })
}
