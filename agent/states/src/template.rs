//! Templates of managed files, as states hand them to the compiler.

use zagent_config::Map;

/// Renders the template of a file.
pub trait RenderTemplate {
    /// The text that a template gives.
    ///
    /// # Errors
    /// Fails with words when it does not render.
    fn render(&self, template: &FileTemplate) -> Result<String, String>;
}

/// A template of a managed file.
#[derive(Clone, Debug)]
pub struct FileTemplate {
    /// Its environment.
    pub env: String,
    /// Its path in the tree, or on the host.
    pub path: String,
    /// Its text.
    pub source: String,
    /// `defaults` and `context` of the state, merged.
    pub variables: Map,
}
