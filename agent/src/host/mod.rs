//! The edge to the host: what the agent asks of the machine beside its files.

mod ask;
pub mod exec;
mod external;
pub mod functions;
mod live;
mod recorded;
mod secrets;

pub use self::ask::Machine;
pub use self::live::{Live, LiveSettings};
pub use self::recorded::{ANSWERS, RecordedHost};
