//! A site and a directory in, its files out.
//!
//! Law: only a directory that is empty, or that an earlier site was written to, is used, and only files of that earlier
//! site are removed (held by `a_site_replaces_only_its_own_files`).

use std::collections::BTreeSet;
use std::path::Path;

use zagent_config::atomic_file::AtomicFile;
use zagent_config::json_file;
use zagent_daemon::error::AgentError;

use crate::pages::FleetSite;

/// The list of the files of a site, in its directory.
const LIST: &str = "zagent-report.json";

/// Writes all files and removes those of an earlier site; returns their number.
pub(super) fn write_site(site: &FleetSite, dir: &Path) -> Result<usize, AgentError> {
    let failed = |act: &str, path: &Path, error: &dyn std::error::Error| {
        AgentError::failed(format!(
            "cannot {act} `{}`: {}",
            path.display(),
            zagent_config::error_chain(error)
        ))
    };
    let list = dir.join(LIST);
    for sub in ["node", "rollout"] {
        if !list.exists() && dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            break;
        }
        let path = dir.join(sub);
        std::fs::create_dir_all(&path).map_err(|error| failed("create", &path, &error))?;
        // The list comes first: a site that is half written can be written again.
        if !list.exists() {
            json_file::write(&list, &BTreeSet::<String>::new())
                .map_err(|error| failed("write", &list, &error))?;
        }
    }
    let earlier: Option<BTreeSet<String>> =
        json_file::read(&list).map_err(|error| failed("read", &list, &error))?;
    let Some(earlier) = earlier else {
        let message = format!("`{}` has files that are not of a report", dir.display());
        return Err(AgentError::usage_hint(message, "use an empty or a new directory"));
    };
    let paths: BTreeSet<String> = site.paths().into_iter().collect();
    let all: BTreeSet<&String> = paths.union(&earlier).collect();
    json_file::write(&list, &all).map_err(|error| failed("write", &list, &error))?;
    for path in &paths {
        let file = site.file(path).map(|file| file.text).unwrap_or_default();
        let target = dir.join(path);
        let written = AtomicFile::cached(0o644).write(&target, file.as_bytes());
        written.map_err(|error| failed("write", &target, &error))?;
    }
    for gone in earlier.difference(&paths).filter(|path| is_site_path(path)) {
        // A file that somebody else removed is gone as well.
        let _ = std::fs::remove_file(dir.join(gone));
    }
    json_file::write(&list, &paths).map_err(|error| failed("write", &list, &error))?;
    Ok(paths.len())
}

/// True for a path that a site can have: the list is only a file, and may say anything.
fn is_site_path(path: &str) -> bool {
    let name = path.strip_prefix("node/").or_else(|| path.strip_prefix("rollout/")).unwrap_or(path);
    name.ends_with(".html") && !name.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::FleetData;

    fn site(ids: &[&str]) -> FleetSite {
        let node = |id: &&str| crate::pages::FleetNode {
            id: (*id).to_owned(),
            condition: crate::pages::NodeCondition::Ok,
            version: "1.4.0".into(),
            revision: String::new(),
            os: String::new(),
            activity: String::new(),
            reported: None,
            errors: Vec::new(),
            facts: Vec::new(),
        };
        let nodes = ids.iter().map(node).collect();
        let at = jiff::Timestamp::UNIX_EPOCH;
        FleetSite::new(
            FleetData { name: String::new(), at, nodes, rollouts: Vec::new(), unread: Vec::new() },
            None,
        )
    }

    #[test]
    fn a_site_replaces_only_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("site");
        write_site(&site(&["a", "b"]), &out).unwrap();
        std::fs::write(out.join("node/mine.txt"), "mine").unwrap();
        write_site(&site(&["b"]), &out).unwrap();
        assert!(!out.join("node/a.html").exists() && out.join("node/b.html").exists());
        assert!(out.join("node/mine.txt").exists());
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("index.html"), "mine").unwrap();
        assert!(write_site(&site(&["a"]), &other).is_err());
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1, "nothing was added");
        std::fs::write(dir.path().join("victim.html"), "x").unwrap();
        json_file::write(&out.join(LIST), &["../victim.html", "node/../../victim.html"]).unwrap();
        write_site(&site(&["b"]), &out).unwrap();
        assert!(dir.path().join("victim.html").exists(), "a list cannot name files elsewhere");
    }

    /// `just pages` opens them in a browser; PAGES_DIR says where they go.
    #[test]
    fn sample_sites_have_all_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let dir = std::env::var_os("PAGES_DIR").map_or_else(|| dir.path().to_owned(), Into::into);
        let fleets =
            [1, 500, 10_000].map(|count| (format!("fleet-{count}"), crate::pages::tests::fleet(count)));
        let mut hostile = crate::pages::tests::hostile_fleet();
        // Ids are checked where they are read; these two would be paths.
        (hostile.nodes[2].id, hostile.rollouts[0].id) = ("web-00002".into(), "r1".into());
        for (name, data) in fleets.into_iter().chain([("fleet-hostile".to_owned(), hostile)]) {
            let (count, site) = (data.nodes.len(), FleetSite::new(data, None));
            let out = dir.join(name);
            let files = write_site(&site, &out).unwrap();
            assert!(files > count && site.paths().iter().all(|path| out.join(path).is_file()));
        }
    }
}
