//! The interface between `slsutil.renderer` and the renderer pipe of the compiler.

use zagent_config::{Diagnostic, Map, Value};

/// What to render, and how.
#[derive(Clone, Debug)]
pub struct RenderRequest {
    /// The source.
    pub source: RenderSource,
    /// The pipe of a text without a shebang: `jinja|yaml`.
    pub renderer: String,
    /// More variables for the template.
    pub variables: Map,
}

/// Where a text to render comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderSource {
    /// A file of the state tree; it exists.
    File {
        /// Its environment.
        env: String,
        /// Its path in it.
        path: String,
    },
    /// A text.
    Text(String),
}

/// Renders on behalf of a function; the compiler's pipe implements it.
pub trait FunctionRenderer: Send + Sync {
    /// Renders a text or a file: a mapping or another value, or a string when the pipe ends in text.
    ///
    /// # Errors
    /// Fails with the error in the text.
    fn render(&self, request: &RenderRequest) -> Result<Value, Box<Diagnostic>>;
}
