//! A directory in, its content as one value out: kinds, modes, contents and link targets.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::stage::SCRATCH;
use super::{Verdict, differs};

/// Everything below `root`, by relative path; `root` itself is named as in recorded files.
///
/// # Errors
/// Fails when something cannot be read.
pub fn snapshot(root: &Path) -> io::Result<Value> {
    let mut tree = Map::new();
    walk(root, root, &mut tree)?;
    Ok(Value::Object(tree))
}

fn walk(root: &Path, dir: &Path, tree: &mut Map<String, Value>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let at = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let meta = path.symlink_metadata()?;
        let mode = format!("{:04o}", meta.permissions().mode() & 0o7777);
        let found = if meta.is_symlink() {
            json!({"type": "link", "target": neutral(&fs::read_link(&path)?.to_string_lossy(), root)})
        } else if meta.is_dir() {
            walk(root, &path, tree)?;
            json!({"type": "dir", "mode": mode})
        } else {
            json!({"type": "file", "mode": mode, "content": content(fs::read(&path)?, root)})
        };
        tree.insert(at, found);
    }
    Ok(())
}

fn neutral(text: &str, root: &Path) -> String {
    text.replace(&*root.to_string_lossy(), SCRATCH)
}

fn content(bytes: Vec<u8>, root: &Path) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => neutral(&text, root),
        Err(binary) => {
            binary.as_bytes().iter().fold("hex:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
    }
}

/// The first entry that two snapshots differ in.
pub(crate) fn compare(expected: &Value, got: &Value) -> Verdict {
    let keys =
        |tree: &Value| tree.as_object().into_iter().flat_map(|t| t.keys().cloned()).collect::<Vec<_>>();
    let mut all = keys(expected);
    all.extend(keys(got));
    all.sort();
    match all.iter().find(|key| expected.get(key) != got.get(key)) {
        None => Ok(()),
        Some(key) => differs(format!("tree: {key}: expected {:?} got {:?}", expected.get(key), got.get(key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_modes_contents_and_targets_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::set_permissions(at("d"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::write(at("d/f"), format!("in {}", dir.path().display())).unwrap();
        fs::set_permissions(at("d/f"), fs::Permissions::from_mode(0o4711)).unwrap();
        fs::write(at("b"), [0xff, 0x00]).unwrap();
        fs::set_permissions(at("b"), fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(at("gone"), at("l")).unwrap();
        let expected = json!({
            "d": {"type": "dir", "mode": "0750"},
            "d/f": {"type": "file", "mode": "4711", "content": "in @TMP@"},
            "b": {"type": "file", "mode": "0600", "content": "hex:ff00"},
            "l": {"type": "link", "target": "@TMP@/gone"},
        });
        assert!(compare(&expected, &snapshot(dir.path()).unwrap()).is_ok());
        for wrong in ["d", "b", "l"] {
            fs::rename(at(wrong), at("moved")).unwrap();
            assert!(compare(&expected, &snapshot(dir.path()).unwrap()).is_err(), "{wrong}");
            fs::rename(at("moved"), at(wrong)).unwrap();
        }
    }
}
