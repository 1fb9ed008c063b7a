//! The edge to the host: what the agent asks of the machine beside its files.

pub(crate) mod accounts;
mod cancel;
pub mod command_options;
pub mod exec;
mod external_pillar;
mod function_host;
pub mod functions;
pub(crate) mod git;
pub(crate) mod http_client;
mod live_host;
pub(crate) mod logrotate;
mod machine;
pub(crate) mod netfilter;
pub(crate) mod openssl;
pub(crate) mod packages;
pub mod reboot;
mod recorded_host;
mod secrets;
pub(crate) mod services;
pub mod shell_words;
pub(crate) mod temp_file;
mod tools;

pub use self::cancel::CancelToken;
pub use self::function_host::FunctionHost;
pub use self::live_host::{LiveHost, LiveHostSettings};
pub use self::machine::Machine;
pub use self::recorded_host::{RECORDED_FUNCTIONS_KEY, RecordedHost};
pub(crate) use self::tools::refuse_option;
pub use self::tools::{CommandOutput, Tools};
