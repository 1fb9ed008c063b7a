//! The edge to the host: what the agent asks of the machine beside its files.

mod answerer;
mod ask;
mod cancel;
pub mod command;
pub mod exec;
mod external;
pub mod functions;
pub mod line;
mod live;
mod recorded;
pub(crate) mod scratch;
mod secrets;

pub use self::answerer::Answerer;
pub use self::ask::Machine;
pub use self::cancel::Cancel;
pub use self::live::{Live, LiveSettings};
pub use self::recorded::{ANSWERS, RecordedHost};
