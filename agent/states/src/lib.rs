//! The state modules: a chunk of a plan in, something that can look at its machine and change it out.
//!
//! One folder a Salt module holds its states, execution functions, undo and description; [`registry`] is the one table of them.
//! Law: files that a state manages are changed through `StateCtx::fs`, which notes every change for undo first. Written
//! directly are only the agent's own temporary and downloaded files and kernel parameters (held by `tests/laws.rs`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod args;
pub mod assumed_accounts;
pub mod command;
pub mod ctx;
pub mod databases;
pub mod effects;
pub mod external;
pub mod file_tree;
pub mod functions;
pub mod named_args;
pub mod registry;
pub mod shared;
pub mod state;
pub mod template;
pub mod template_host;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod undoable;

pub mod acl;
pub mod alias;
pub mod alternatives;
pub mod apache_conf;
pub mod apache_module;
pub mod apache_site;
pub mod archive;
pub mod at;
pub mod cmd;
pub mod cron;
pub mod debconf;
pub mod docker_container;
pub mod docker_image;
pub mod docker_network;
pub mod docker_volume;
pub mod environ;
pub mod event;
pub mod exec;
pub mod file;
pub mod firewalld;
pub mod gem;
pub mod git;
pub mod grains;
pub mod group;
pub mod host;
pub mod http;
pub mod ini;
pub mod iptables;
pub mod kmod;
pub mod locale;
pub mod logrotate;
pub mod lvm;
pub mod module;
pub mod mount;
pub mod mysql_database;
pub mod mysql_grants;
pub mod mysql_query;
pub mod mysql_user;
pub mod network;
pub mod nftables;
pub mod npm;
pub mod pdbedit;
pub mod pip;
pub mod pkg;
pub mod pkgrepo;
pub mod postgres_database;
pub mod postgres_extension;
pub mod postgres_group;
pub mod postgres_language;
pub mod postgres_privileges;
pub mod postgres_schema;
pub mod postgres_tablespace;
pub mod postgres_user;
pub mod schedule;
pub mod selinux;
pub mod service;
pub mod ssh_auth;
pub mod ssh_known_hosts;
pub mod stateconf;
pub mod sysctl;
pub mod system;
pub mod test;
pub mod timezone;
pub mod user;
pub mod x509;

pub use args::ChunkArgs;
pub use ctx::{RunShared, StateCtx};
pub use effects::Effects;
pub use external::{ExternalUndoNote, revert as revert_external};
pub use registry::{StateModule, build, build_builtin, schema};
pub use state::{ApplyResult, BuildResult, CheckCost, CheckResult, LockKey, State, StateError, Verdict};
pub use template::{FileTemplate, RenderTemplate};
pub use undoable::{RestoreOutcome, UndoNote, UndoReplay, Undoable};
