//! The kinds of values that a parameter accepts: `mode|"keep"` parsed into kinds that check a value.
//!
//! Law: a value passes unless it is certain that the state would reject or misread it. Null, `false` and empty
//! values always pass: templates produce them for "not given". A relative path passes too: one failed state is
//! better than a tree that does not run (held by `values_pass_by_kind`).

use super::crontab;
use zagent_config::Value;
use zagent_config::suggest::nearest;

const TEXT: u16 = 1;
const BOOL: u16 = 1 << 1;
const INT: u16 = 1 << 2;
const NUMBER: u16 = 1 << 3;
const MODE: u16 = 1 << 4;
const PATH: u16 = 1 << 5;
const LIST: u16 = 1 << 6;
const MAP: u16 = 1 << 7;
const DURATION: u16 = 1 << 8;
const WORD: u16 = 1 << 9;
const ANY: u16 = 1 << 10;
const MINUTE: u16 = 1 << 11;
const HOUR: u16 = 1 << 12;
const DAYMONTH: u16 = 1 << 13;
const MONTH: u16 = 1 << 14;
const DAYWEEK: u16 = 1 << 15;
/// The fields of a crontab.
const FIELDS: u16 = MINUTE | HOUR | DAYMONTH | MONTH | DAYWEEK;

/// Names in descriptions, names for users, and their bits.
const KINDS: [(&str, &str, u16); 15] = [
    ("text", "text", TEXT),
    ("bool", "true or false", BOOL),
    ("int", "a whole number", INT),
    ("number", "a number", NUMBER),
    ("mode", "a mode such as '0644'", MODE),
    ("path", "an absolute path", PATH),
    ("list", "a list", LIST),
    ("map", "a mapping", MAP),
    ("duration", "a duration such as 30s", DURATION),
    ("any", "anything", ANY),
    ("minute", "crontab minutes (0 to 59)", MINUTE),
    ("hour", "crontab hours (0 to 23)", HOUR),
    ("daymonth", "crontab days of the month (1 to 31)", DAYMONTH),
    ("month", "crontab months (1 to 12, or jan to dec)", MONTH),
    ("dayweek", "crontab days of the week (0 to 7, or mon to sun)", DAYWEEK),
];

/// The highest valid mode.
const MODE_LIMIT: u32 = 0o7777;

/// The kinds of values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamKinds {
    bits: u16,
    written: &'static str,
}

/// Why a value does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMismatch {
    /// It is of another kind; the text says how to fix it.
    Kind(Option<&'static str>),
    /// It is a text, but not one of the allowed words; the text is the nearest of them.
    Choice(Option<&'static str>),
}

impl ParamKinds {
    /// Any value.
    pub const ANY: Self = Self { bits: ANY, written: "any" };

    /// Reads `text|list` or `mode|"keep"`; `None` when a kind is unknown.
    #[must_use]
    pub fn read(written: &'static str) -> Option<Self> {
        let mut bits = 0;
        for one in written.split('|') {
            bits |= if one.len() > 2 && one.starts_with('"') && one.ends_with('"') {
                WORD
            } else {
                KINDS.iter().find(|(name, ..)| *name == one)?.2
            };
        }
        Some(Self { bits, written })
    }

    /// As written in the description: `mode|"keep"`.
    #[must_use]
    pub const fn source_text(&self) -> &'static str {
        self.written
    }

    /// The allowed literal words.
    pub fn allowed_words(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.written.split('|').filter_map(|one| one.strip_prefix('"')?.strip_suffix('"'))
    }

    /// In words: "a mode such as '0644' or `keep`".
    #[must_use]
    pub fn describe(&self) -> String {
        let named =
            KINDS.iter().filter(|(_, _, bit)| self.bits & bit != 0).map(|(_, words, _)| (*words).into());
        let all: Vec<String> = named.chain(self.allowed_words().map(|word| format!("`{word}`"))).collect();
        match all.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    /// Whether the value is one of them.
    ///
    /// # Errors
    /// Fails with the reason when it is not.
    pub fn check_value(&self, value: &Value) -> Result<(), ValueMismatch> {
        if self.has(ANY) {
            return Ok(());
        }
        let fits = match value {
            Value::Null => true,
            Value::Str(text) => text.is_empty() || self.has(TEXT) || self.fits_text(text),
            Value::Bool(yes) => !yes || self.has(BOOL | TEXT),
            Value::Int(n) => self.fits_int(*n),
            Value::Big(_) | Value::Float(_) => self.has(TEXT | NUMBER | DURATION),
            Value::List(items) => {
                items.is_empty()
                    || self.has(LIST)
                    || self.has(MAP) && items.iter().all(|i| i.as_map().is_some())
            }
            Value::Map(map) => map.is_empty() || self.has(MAP),
        };
        if fits { Ok(()) } else { Err(self.mismatch(value)) }
    }

    fn has(self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    fn fits_int(self, n: i64) -> bool {
        self.has(TEXT | INT | NUMBER | DURATION)
            || self.has(BOOL) && (n == 0 || n == 1)
            || self.has(MODE) && is_mode(&n.to_string())
            || self.has(FIELDS) && self.fits_field(&n.to_string())
            || self.has(WORD) && self.allows(&n.to_string())
    }

    fn fits_field(self, text: &str) -> bool {
        let fields = [MINUTE, HOUR, DAYMONTH, MONTH, DAYWEEK].into_iter().zip(crontab::FIELDS);
        fields.filter(|(bit, _)| self.has(*bit)).any(|(_, field)| field.accepts(text))
    }

    fn fits_text(self, text: &str) -> bool {
        self.has(PATH)
            || self.has(WORD) && self.allows(text)
            || self.has(MODE) && is_mode(text)
            || self.has(FIELDS) && self.fits_field(text)
            || self.has(BOOL) && ["true", "yes", "on", "1"].iter().any(|word| word.eq_ignore_ascii_case(text))
            || self.has(INT) && text.trim().parse::<i64>().is_ok()
            || self.has(NUMBER) && text.trim().parse::<f64>().is_ok()
            || self.has(DURATION) && is_duration(text.trim())
    }

    fn allows(self, text: &str) -> bool {
        self.allowed_words().any(|word| word.eq_ignore_ascii_case(text))
    }

    fn mismatch(self, value: &Value) -> ValueMismatch {
        if let Value::Str(text) = value {
            let near = nearest(text, self.allowed_words());
            if near.is_some() || self.bits == WORD {
                return ValueMismatch::Choice(near);
            }
        }
        match value {
            Value::Str(text) if self.has(BOOL) && is_false_word(text) => {
                ValueMismatch::Kind(Some("remove the quotes: a text that is not empty counts as true"))
            }
            Value::Str(_) if self.has(LIST) => {
                ValueMismatch::Kind(Some("put each item on its own line, after a dash"))
            }
            _ if self.has(MODE) => {
                ValueMismatch::Kind(Some("write the mode in octal digits, in quotes: '0644'"))
            }
            _ if self.has(FIELDS) => ValueMismatch::Kind(Some(
                "use `*`, a number, a range `1-5`, a step `*/15`, a list `1,3` of these, `random`, or `5:10` for a random one",
            )),
            Value::List(_) if self.has(MAP) => {
                ValueMismatch::Kind(Some("write `key: value` lines without dashes"))
            }
            _ => ValueMismatch::Kind(None),
        }
    }
}

fn is_false_word(text: &str) -> bool {
    ["false", "no", "off", "0", "none"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Permission bits as states read them: octal digits, with or without `0o`.
fn is_mode(text: &str) -> bool {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    !digits.starts_with('+') && u32::from_str_radix(digits, 8).is_ok_and(|mode| mode <= MODE_LIMIT)
}

/// `30`, `30s`, `1h30m`, `1.5s`.
fn is_duration(text: &str) -> bool {
    if text.parse::<f64>().is_ok_and(|n| n >= 0.0) {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let after = &rest[digits..];
        let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        if digits == 0 || !["ns", "us", "ms", "s", "m", "h", "d", "w"].contains(&&after[..unit]) {
            return false;
        }
        rest = &after[unit..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: serde_json::Value) -> Value {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn values_pass_by_kind() {
        use serde_json::json;
        for (kinds, good, bad) in [
            ("text", json!(["a", 1, 1.5, true, null, ""]), json!([{"a": 1}, ["a"]])),
            (
                "bool",
                json!([true, false, 0, 1, "True", "yes", "", null]),
                json!(["false", "No", "maybe", 2, 1.0, ["a"], {"a": 1}]),
            ),
            ("int", json!([1, -1, "7", null]), json!(["x", 1.5, true, [1]])),
            ("number", json!([1, 1.5, "0.5"]), json!(["x", true, {"a": 1}])),
            (
                "mode",
                json!([644, "0644", "644", "0o755", 1777, "1777"]),
                json!([648, "rwx", "u+x", "99999", -1, "-644", "+644", true, [644]]),
            ),
            ("mode|\"keep\"", json!(["keep", "Keep", "0600"]), json!(["kep", {"a": 1}])),
            ("path", json!(["/a", "~/a", "a", ""]), json!([1, true, ["/a"]])),
            ("list", json!([[], ["a"], {}, false]), json!(["a", 1, {"a": 1}, true])),
            ("map", json!([{}, {"a": 1}, [{"a": 1}]]), json!(["a", ["a"], 1])),
            (
                "duration",
                json!(["30s", "1h30m", "1.5s", 30, 0.5, "30", "100ms"]),
                json!(["30x", "s", "-1", "soon", true, [1]]),
            ),
            (
                "minute",
                json!([0, 59, "*/5", "1-5,30", "random", "5:10", ""]),
                json!([60, 99, "abc", "*/0", true, [5]]),
            ),
            ("dayweek", json!([7, "MON-fri", "sun"]), json!([8, "jan"])),
            ("\"b\"|\"c\"", json!(["b", "C"]), json!(["d", 1, true, ["b"]])),
            ("text|list", json!(["a", ["a"], 1]), json!([{"a": 1}])),
            ("any", json!([[], {}, "a", 1, null]), json!([])),
        ] {
            let kinds = ParamKinds::read(kinds).unwrap();
            for (list, want) in [(good, true), (bad, false)] {
                for item in list.as_array().unwrap() {
                    assert_eq!(
                        kinds.check_value(&value(item.clone())).is_ok(),
                        want,
                        "{} {item}",
                        kinds.source_text()
                    );
                }
            }
        }
    }

    #[test]
    fn mismatches_say_how_to_fix_them() {
        let misfit = |kinds, json| ParamKinds::read(kinds).unwrap().check_value(&value(json)).unwrap_err();
        assert_eq!(misfit("\"posix\"|\"shell\"", "shel".into()), ValueMismatch::Choice(Some("shell")));
        assert_eq!(misfit("\"posix\"|\"shell\"", "python".into()), ValueMismatch::Choice(None));
        assert_eq!(misfit("mode|\"keep\"", "kep".into()), ValueMismatch::Choice(Some("keep")));
        assert!(
            matches!(misfit("bool", "no".into()), ValueMismatch::Kind(Some(hint)) if hint.contains("quotes"))
        );
        assert!(
            matches!(misfit("hour", "abc".into()), ValueMismatch::Kind(Some(hint)) if hint.contains("range"))
        );
        assert_eq!(misfit("\"@daily\"|\"@reboot\"", "daily".into()), ValueMismatch::Choice(Some("@daily")));
        assert!(
            matches!(misfit("mode", 888.into()), ValueMismatch::Kind(Some(hint)) if hint.contains("octal"))
        );
    }

    #[test]
    fn kinds_are_described_in_words() {
        for (written, words) in [
            ("text", "text"),
            ("text|list", "text or a list"),
            ("mode|\"keep\"", "a mode such as '0644' or `keep`"),
            ("\"b\"|\"c\"|\"p\"", "`b`, `c` or `p`"),
        ] {
            assert_eq!(ParamKinds::read(written).unwrap().describe(), words);
        }
        assert_eq!(ParamKinds::read("txt"), None);
        assert_eq!(ParamKinds::read("\"\""), None);
    }
}
