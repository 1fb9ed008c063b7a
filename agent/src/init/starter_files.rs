//! Files of a new states repository, built into the binary.

/// A file of a new repository.
pub(super) struct StarterFile {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
    pub(super) mode: u32,
}

macro_rules! starter {
    ($path:literal, $from:literal, $mode:literal) => {
        StarterFile { path: $path, text: include_str!(concat!("repository/", $from)), mode: $mode }
    };
    ($path:literal) => {
        starter!($path, $path, 0o644)
    };
}

/// Files that every repository needs.
pub(super) const BASE_FILES: &[StarterFile] =
    &[starter!(".gitignore", "gitignore", 0o644), starter!("README.md"), starter!("ci.sh", "ci.sh", 0o755)];

/// Sample states, pillar and host.
pub(super) const EXAMPLE_FILES: &[StarterFile] = &[
    starter!("states/top.sls"),
    starter!("states/motd/init.sls"),
    starter!("states/motd/motd.jinja"),
    starter!("pillar/top.sls"),
    starter!("pillar/motd.sls"),
    starter!("inventory/example.yaml"),
];
