//! Values as Python's `pprint` lays them out: keys in order, and one entry per line where a line is too short for all.

use super::{Value, python_repr};

/// Columns of a line.
const WIDTH: usize = 80;

/// What Python's `pprint.pformat` gives.
#[must_use]
pub fn python_pprint(value: &Value) -> String {
    let mut out = String::new();
    write_value(&with_sorted_keys(value), &mut out, 0, 0, 1);
    out
}

/// `pprint` prints a dictionary in the order of its keys.
fn with_sorted_keys(value: &Value) -> Value {
    match value {
        Value::List(list) => list.iter().map(with_sorted_keys).collect(),
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), with_sorted_keys(v))).collect();
            entries.sort_by_cached_key(|(key, _)| super::python_str(key));
            Value::Map(entries.into_iter().collect::<super::Map>().into())
        }
        other => other.clone(),
    }
}

/// Writes a value that begins in column `indent`; `allowance` columns after it are taken.
fn write_value(value: &Value, out: &mut String, indent: usize, allowance: usize, level: usize) {
    let whole = python_repr(value);
    if indent + allowance + whole.chars().count() <= WIDTH {
        out.push_str(&whole);
        return;
    }
    match value {
        Value::List(list) if list.iter().next().is_some() => {
            out.push('[');
            let items: Vec<&Value> = list.iter().collect();
            for (i, item) in items.iter().enumerate() {
                let is_last = i + 1 == items.len();
                write_value(item, out, indent + 1, if is_last { allowance + 1 } else { 1 }, level + 1);
                out.push_str(&if is_last { "]".to_owned() } else { line_break(indent + 1) });
            }
        }
        Value::Map(map) if !map.is_empty() => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                let is_last = i + 1 == map.len();
                let key = python_repr(key);
                out.push_str(&key);
                out.push_str(": ");
                let column = indent + key.chars().count() + 3;
                write_value(value, out, column, if is_last { allowance + 1 } else { 1 }, level + 1);
                out.push_str(&if is_last { "}".to_owned() } else { line_break(indent + 1) });
            }
        }
        Value::Str(text) => write_text(text, out, indent, allowance, level),
        _ => out.push_str(&whole),
    }
}

fn line_break(column: usize) -> String {
    format!(",\n{}", " ".repeat(column))
}

/// A long text becomes several, one per line or as many words as fit.
fn write_text(text: &str, out: &mut String, indent: usize, allowance: usize, level: usize) {
    let (indent, allowance) = if level == 1 { (indent + 1, allowance + 1) } else { (indent, allowance) };
    let repr = |text: &str| python_repr(&Value::from(text));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut parts = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let end = if i + 1 == lines.len() { allowance } else { 0 };
        let whole = repr(line);
        if whole.chars().count() + indent + end <= WIDTH {
            parts.push(whole);
            continue;
        }
        let words: Vec<&str> = words_with_space(line);
        let mut current = String::new();
        for (j, word) in words.iter().enumerate() {
            let longer = format!("{current}{word}");
            let taken = if j + 1 == words.len() { end } else { 0 };
            if !current.is_empty() && repr(&longer).chars().count() + indent + taken > WIDTH {
                parts.push(repr(&current));
                current = (*word).to_owned();
            } else {
                current = longer;
            }
        }
        if !current.is_empty() {
            parts.push(repr(&current));
        }
    }
    let is_grouped = level == 1 && parts.len() > 1;
    out.push_str(if is_grouped { "(" } else { "" });
    out.push_str(&parts.join(&format!("\n{}", " ".repeat(indent))));
    out.push_str(if is_grouped { ")" } else { "" });
}

/// Words, each with the white space behind it.
fn words_with_space(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let space = rest[word..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - word);
        let (head, tail) = rest.split_at(word + space);
        words.push(head);
        rest = tail;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of `pprint.pformat`.
    #[test]
    fn layouts_are_those_of_python() {
        let table = [
            (r#"{"b": 1, "a": [true, null]}"#, "{'a': [True, None], 'b': 1}"),
            (
                r#"{"local": {"file_|-a_|-/tmp/a_|-managed": {"name": "/tmp/a", "changes": {"diff": "New file", "mode": "0644"}, "result": true, "comment": "File /tmp/a updated"}}}"#,
                "{'local': {'file_|-a_|-/tmp/a_|-managed': {'changes': {'diff': 'New file',\n                                                       'mode': '0644'},\n                                           'comment': 'File /tmp/a updated',\n                                           'name': '/tmp/a',\n                                           'result': True}}}",
            ),
            (
                r#"["one two three four five six seven eight nine ten eleven twelve thirteen fourteen", "b"]"#,
                "['one two three four five six seven eight nine ten eleven twelve thirteen '\n 'fourteen',\n 'b']",
            ),
            (
                r#"{"a": "first line that is quite long for a line\nsecond line that is quite long, too\n"}"#,
                "{'a': 'first line that is quite long for a line\\n'\n      'second line that is quite long, too\\n'}",
            ),
        ];
        for (json, expected) in table {
            let value = Value::from_json_str(json).expect("JSON");
            assert_eq!(python_pprint(&value), expected, "{json}");
        }
    }
}
