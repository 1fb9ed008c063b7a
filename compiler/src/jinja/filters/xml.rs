//! Salt's `xml` filter: nested dictionaries and lists as an XML document with indentation.

use zagent_config::Value;

use crate::jinja::object::{py_str, to_template};

struct XmlElement {
    tag: String,
    attributes: Vec<(String, String)>,
    text: Option<String>,
    children: Vec<Self>,
}

/// Writes a document.
///
/// # Errors
/// Fails with a message when the value has no single root or is neither a dictionary nor a list.
pub(super) fn write_document(value: &Value) -> Result<String, String> {
    let mut roots = Vec::new();
    for (tag, attributes) in entries(value)? {
        build(tag, attributes, &mut roots)?;
    }
    let root = roots.pop().ok_or("an empty value cannot be written as XML")?;
    let mut out = String::from("<?xml version=\"1.0\" ?>\n");
    write(&root, 0, &mut out);
    Ok(out)
}

fn plain_text(value: &Value) -> String {
    py_str(&to_template(value))
}

fn entries(value: &Value) -> Result<Vec<(&Value, &Value)>, String> {
    match value {
        Value::Map(map) => Ok(map.iter().collect()),
        Value::List(items) => match items.first() {
            Some(Value::Str(_)) => Err("a list of strings cannot be written as XML".into()),
            Some(_) => Ok(Vec::new()),
            None => Err("an empty list cannot be written as XML".into()),
        },
        _ => Err("the value is not a dict or a list and cannot be written as XML".into()),
    }
}

fn build(tag: &Value, value: &Value, into: &mut Vec<XmlElement>) -> Result<(), String> {
    if let Value::List(items) = value {
        for item in items.iter() {
            build(tag, item, into)?;
        }
        return Ok(());
    }
    let mut element =
        XmlElement { tag: plain_text(tag), attributes: Vec::new(), text: None, children: Vec::new() };
    match value {
        Value::Map(map) => {
            for (key, item) in map.iter() {
                match item {
                    Value::Map(_) | Value::List(_) => build(key, item, &mut element.children)?,
                    other => element.attributes.push((plain_text(key), plain_text(other))),
                }
            }
        }
        Value::Null => return Err("a null value cannot be written as XML".into()),
        other => element.text = Some(plain_text(other)),
    }
    into.push(element);
    Ok(())
}

fn escape(text: &str, in_attribute: bool) -> String {
    let out = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    if in_attribute { out.replace('\r', "&#13;").replace('\n', "&#10;").replace('\t', "&#9;") } else { out }
}

fn write(element: &XmlElement, depth: usize, out: &mut String) {
    let indent = " ".repeat(depth);
    out.push_str(&format!("{indent}<{}", element.tag));
    for (name, value) in &element.attributes {
        out.push_str(&format!(" {name}=\"{}\"", escape(value, true)));
    }
    match (&element.text, element.children.is_empty()) {
        (Some(text), _) if !text.is_empty() => {
            out.push_str(&format!(">{}</{}>\n", escape(text, false), element.tag));
        }
        (_, true) => out.push_str("/>\n"),
        _ => {
            out.push_str(">\n");
            for child in &element.children {
                write(child, depth + 1, out);
            }
            out.push_str(&format!("{indent}</{}>\n", element.tag));
        }
    }
}
