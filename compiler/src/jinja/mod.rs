//! Jinja as Salt speaks it, on minijinja.

mod call;
mod context;
mod engine;
mod fault;
pub mod filters;
pub mod globals;
mod import;
mod lines;
pub mod methods;
mod missing;
pub mod object;
pub mod operators;
pub(crate) mod ops;
mod source;
mod sources;
pub mod tests;
mod told;

pub use self::engine::{Engine, Template};
pub use self::lines::LineMap;
pub(crate) use self::source::with_line_feeds;
pub use self::sources::SharedFiles;
