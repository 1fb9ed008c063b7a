//! SLS files of a tree and what every host read in, unused SLS files out.

use std::collections::HashSet;

use zagent_compiler::FileTree;
use zagent_config::codes::edge;
use zagent_config::{Diagnostic, Pos};

use super::CompiledHost;

/// One warning per SLS that no host uses. Silent while a host does not compile: it might use them.
pub(super) fn unused_sls(compiled: &[CompiledHost], files: &dyn FileTree) -> Vec<Diagnostic> {
    if compiled.iter().any(|one| one.plan().is_none()) {
        return Vec::new();
    }
    let read: HashSet<(&str, &str)> =
        compiled.iter().flat_map(|one| &one.read).map(|(env, path)| (env.as_str(), path.as_str())).collect();
    let mut out = Vec::new();
    for env in files.envs() {
        let Ok(list) = files.list(&env) else {
            continue;
        };
        for path in list.iter().filter(|p| p.ends_with(".sls") && p.as_str() != "top.sls") {
            if !read.contains(&(env.as_str(), path.as_str())) {
                let name = sls_name(path);
                out.push(
                    Diagnostic::new(edge::UNUSED_SLS, format!("no host uses the SLS `{name}`"))
                        .at(files.display(&env, path), Pos::new(1, 0))
                        .hint("add it to a top file or an include, or remove it"),
                );
            }
        }
    }
    out
}

fn sls_name(path: &str) -> String {
    let stem = path.strip_suffix("/init.sls").or_else(|| path.strip_suffix(".sls")).unwrap_or(path);
    stem.replace('/', ".")
}
