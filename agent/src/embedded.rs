//! Starter tree built into the binary, compiled by `zagent demo`.

use std::sync::Arc;

use zagent_compiler::FileTree;

use zagent_compiler::BASE_ENV;

/// Files embedded at build time.
pub(crate) struct EmbeddedFiles {
    root: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! starter {
    ($tree:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../starter/", $tree, "/", $path)))),*]
    };
}

/// The starter states, sorted by path.
#[must_use]
pub(crate) const fn starter_states() -> EmbeddedFiles {
    EmbeddedFiles {
        root: "starter/states",
        files: starter!("states": "motd.jinja", "site/init.sls", "site/map.jinja", "top.sls", "welcome.sls"),
    }
}

/// The starter pillar, sorted by path.
#[must_use]
pub(crate) const fn starter_pillar() -> EmbeddedFiles {
    EmbeddedFiles { root: "starter/pillar", files: starter!("pillar": "site.sls", "top.sls") }
}

impl FileTree for EmbeddedFiles {
    fn envs(&self) -> Vec<String> {
        vec![BASE_ENV.into()]
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        let found = self.files.iter().find(|(name, _)| env == BASE_ENV && *name == path);
        Ok(found.map(|(_, text)| text.as_bytes().into()))
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        let all = self.files.iter().filter(|_| env == BASE_ENV);
        Ok(all.map(|(name, _)| (*name).to_owned()).collect())
    }

    fn display(&self, _env: &str, path: &str) -> String {
        format!("{}/{path}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_in_the_binary_is_the_tree_in_the_source() {
        for (baked, sub) in [(starter_states(), "states"), (starter_pillar(), "pillar")] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("starter").join(sub);
            let disk = zagent_states::file_tree::DirFiles::base(root);
            assert_eq!(baked.list(BASE_ENV).unwrap(), disk.list(BASE_ENV).unwrap(), "{sub}");
        }
    }
}
