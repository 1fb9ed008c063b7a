//! A pillar in, the texts that no message may show out.

use zagent_config::{Value, mask, secret_keys};

/// The texts of a pillar under keys that mark secrets; every line separately.
pub(crate) fn collect_secrets(value: &Value, secrets: &mut Vec<String>) {
    collect_nested(value, false, secrets);
}

fn collect_nested(value: &Value, is_secret: bool, secrets: &mut Vec<String>) {
    match value {
        Value::Str(text) if is_secret => secrets.extend(mask::long_lines(text).map(str::to_owned)),
        Value::List(list) => list.iter().for_each(|v| collect_nested(v, is_secret, secrets)),
        Value::Map(map) => {
            for (key, value) in map.iter() {
                collect_nested(
                    value,
                    is_secret || key.as_str().is_some_and(secret_keys::is_secret_key),
                    secrets,
                );
            }
        }
        _ => {}
    }
}
