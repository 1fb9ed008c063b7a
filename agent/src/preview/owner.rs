//! `user`, `group` and `mode` of a state in, how a path differs from them out.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde_json::{Map, json};
use zagent_compiler::Chunk;
use zagent_config::Value;

/// What differs, key by key; `Err` says why nobody can tell.
pub(super) fn differs(
    chunk: &Chunk,
    found: &Metadata,
    mode_keys: &[&str],
) -> Result<Map<String, serde_json::Value>, String> {
    let mut changes = Map::new();
    if let Some(want) = mode(chunk, mode_keys)? {
        let have = found.mode() & 0o7777;
        if have != want {
            changes
                .insert("mode".into(), json!({"old": format!("{have:04o}"), "new": format!("{want:04o}")}));
        }
    }
    for (key, have, look) in
        [("user", found.uid(), user as fn(&str) -> Option<u32>), ("group", found.gid(), group)]
    {
        let Some(want) = chunk.args.get(key).filter(|v| v.is_truthy()) else {
            continue;
        };
        let (text, id) = match want {
            Value::Int(i) => (i.to_string(), u32::try_from(*i).ok()),
            Value::Str(name) => (name.to_string(), look(name).or_else(|| name.parse().ok())),
            other => return Err(format!("`{key}` is {}", other.kind())),
        };
        match id {
            None => return Err(format!("the {key} `{text}` does not exist on this host yet")),
            Some(id) if id != have => {
                changes.insert(key.into(), json!({"old": have, "new": text}));
            }
            Some(_) => {}
        }
    }
    Ok(changes)
}

/// The mode that a state wants: `'0644'`, or a number whose decimal digits are the octal ones.
pub(super) fn mode(chunk: &Chunk, keys: &[&str]) -> Result<Option<u32>, String> {
    let Some(want) = keys.iter().find_map(|k| chunk.args.get(k)).filter(|v| !v.is_null()) else {
        return Ok(None);
    };
    let text = match want {
        Value::Str(s) if &**s == "keep" => return Ok(None),
        Value::Str(s) => s.trim_start_matches("0o").to_owned(),
        Value::Int(i) => i.to_string(),
        other => return Err(format!("the mode is {}", other.kind())),
    };
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(Some(mode)),
        _ => Err(format!("`{text}` is no mode")),
    }
}

fn user(name: &str) -> Option<u32> {
    nix::unistd::User::from_name(name).ok().flatten().map(|u| u.uid.as_raw())
}

fn group(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name).ok().flatten().map(|g| g.gid.as_raw())
}
