//! Jinja as Salt uses it, implemented on minijinja.

mod call;
mod context;
mod diagnostic;
mod engine;
mod error;
pub mod filters;
pub mod globals;
mod import;
mod lines;
pub mod methods;
pub mod object;
pub(crate) mod operator_filters;
pub mod operators;
mod source;
mod template_sources;
pub mod tests;
mod undefined;

pub use self::engine::{JinjaEngine, JinjaTemplate};
pub use self::lines::LineMap;
pub(crate) use self::source::with_line_feeds;
pub use self::template_sources::SharedFileTree;
