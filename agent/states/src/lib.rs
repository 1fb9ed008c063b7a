//! The state modules: a chunk of a plan in, something that can look at its machine and change it out.
//!
//! One folder a Salt module holds its states, execution functions, undo and description; [`registry`] is the one table of them.
//! Law: files that a state manages are changed through `StateCtx::fs`, which notes every change for undo first.
//! Written directly are only the agent's own temporary and downloaded files and kernel parameters (held by
//! `each_act_has_its_owners`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod args;
pub mod assumed_accounts;
pub mod command;
pub mod ctx;
pub(crate) mod databases;
pub(crate) mod effects;
pub(crate) mod exec_function;
pub mod external;
pub mod file_tree;
pub mod functions;
pub mod managed;
pub(crate) mod named_args;
pub(crate) mod package_cache;
pub mod registry;
pub mod shared;
pub mod state;
pub(crate) mod state_module;
pub mod template;
mod template_args;
pub mod template_host;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub(crate) mod undo_replay;
pub(crate) mod undoable;

pub(crate) mod acl;
pub mod alias;
pub(crate) mod alternatives;
pub(crate) mod apache_conf;
pub(crate) mod apache_module;
pub(crate) mod apache_site;
pub(crate) mod archive;
pub mod at;
pub mod cmd;
pub mod cron;
pub(crate) mod debconf;
pub(crate) mod docker_container;
pub(crate) mod docker_image;
pub(crate) mod docker_network;
pub(crate) mod docker_volume;
pub mod environ;
pub mod event;
pub mod exec;
pub mod file;
pub(crate) mod firewalld;
pub(crate) mod gem;
pub mod git;
pub mod grains;
pub mod group;
pub mod host;
pub mod http;
pub(crate) mod ini;
pub(crate) mod iptables;
pub(crate) mod kmod;
pub mod locale;
pub(crate) mod logrotate;
pub mod lvm;
pub mod module;
pub(crate) mod mount;
pub(crate) mod mysql_database;
pub(crate) mod mysql_grants;
pub(crate) mod mysql_query;
pub(crate) mod mysql_user;
pub mod network;
pub(crate) mod nftables;
pub(crate) mod npm;
pub(crate) mod pdbedit;
pub(crate) mod pip;
pub mod pkg;
pub(crate) mod pkgrepo;
pub(crate) mod postgres_database;
pub(crate) mod postgres_extension;
pub(crate) mod postgres_group;
pub(crate) mod postgres_language;
pub(crate) mod postgres_privileges;
pub(crate) mod postgres_schema;
pub(crate) mod postgres_tablespace;
pub(crate) mod postgres_user;
pub mod schedule;
pub mod selinux;
pub mod service;
pub(crate) mod ssh_auth;
pub(crate) mod ssh_known_hosts;
pub(crate) mod stateconf;
pub(crate) mod sysctl;
pub mod system;
pub mod test;
pub mod timezone;
pub mod user;
pub(crate) mod x509;

pub(crate) use args::ChunkArgs;
pub use ctx::{RunShared, StateCtx};
pub use effects::Effects;
pub use external::{ExternalUndoNote, revert as revert_external};
pub use registry::{build, build_builtin, schema};
pub(crate) use state::BuildResult;
pub use state::{ApplyResult, CheckCost, CheckResult, LockKey, State, StateError, Verdict};
pub(crate) use state_module::StateModule;
pub use template::{FileTemplate, RenderTemplate};
pub use undo_replay::{RestoreOutcome, UndoReplay};
pub use undoable::UndoNote;
pub(crate) use undoable::Undoable;

/// Every state module, sorted by name: a new one is a folder with its `mod` line above, a row here, and a file in
/// `tests/matrix`.
pub(crate) const MODULES: &[StateModule] = &[
    acl::MODULE,
    alias::MODULE,
    alternatives::MODULE,
    apache_conf::MODULE,
    apache_module::MODULE,
    apache_site::MODULE,
    archive::MODULE,
    at::MODULE,
    cmd::MODULE,
    cron::MODULE,
    debconf::MODULE,
    docker_container::MODULE,
    docker_image::MODULE,
    docker_network::MODULE,
    docker_volume::MODULE,
    environ::MODULE,
    event::MODULE,
    exec::MODULE,
    file::MODULE,
    firewalld::MODULE,
    gem::MODULE,
    git::MODULE,
    grains::MODULE,
    group::MODULE,
    host::MODULE,
    http::MODULE,
    ini::MODULE,
    iptables::MODULE,
    kmod::MODULE,
    locale::MODULE,
    logrotate::MODULE,
    lvm::MODULE,
    module::MODULE,
    mount::MODULE,
    mysql_database::MODULE,
    mysql_grants::MODULE,
    mysql_query::MODULE,
    mysql_user::MODULE,
    network::MODULE,
    nftables::MODULE,
    npm::MODULE,
    pdbedit::MODULE,
    pip::MODULE,
    pkg::MODULE,
    pkgrepo::MODULE,
    postgres_database::MODULE,
    postgres_extension::MODULE,
    postgres_group::MODULE,
    postgres_language::MODULE,
    postgres_privileges::MODULE,
    postgres_schema::MODULE,
    postgres_tablespace::MODULE,
    postgres_user::MODULE,
    schedule::MODULE,
    selinux::MODULE,
    service::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    stateconf::MODULE,
    sysctl::MODULE,
    system::MODULE,
    test::MODULE,
    timezone::MODULE,
    user::MODULE,
    x509::MODULE,
];
