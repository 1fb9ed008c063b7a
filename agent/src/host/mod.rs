//! The edge to the host: what the agent asks of the machine beside its files.

pub(crate) mod accounts;
mod answerer;
mod ask;
mod cancel;
pub mod command;
pub mod exec;
mod external;
pub mod functions;
pub(crate) mod git;
pub mod line;
mod live;
pub(crate) mod netfilter;
pub(crate) mod openssl;
pub(crate) mod packages;
mod recorded;
pub(crate) mod rotation;
pub(crate) mod scratch;
mod secrets;
pub(crate) mod services;
mod tools;
pub(crate) mod web;

pub use self::answerer::Answerer;
pub use self::ask::Machine;
pub use self::cancel::Cancel;
pub use self::live::{Live, LiveSettings};
pub use self::recorded::{ANSWERS, RecordedHost};
pub(crate) use self::tools::refuse_option;
pub use self::tools::{Said, Tools};
