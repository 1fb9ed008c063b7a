//! All diagnostic codes, each with its explanation in `codes/ZA….md`.
//!
//! One file per range: 00 configuration, 01 templates, 02 YAML and renderers, 03 top file and targets, 04 include, extend
//! and exclude, 05 declarations, 06 requisites, 07 pillar, 08 functions and parameters, 09 limits, 10 the repository (sources,
//! inventory), 11 manifests. To add a code, add a line there and a file in `codes/`.

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// `ZA0107`.
    pub id: &'static str,
    /// Its title in a few words.
    pub title: &'static str,
    /// What it means and how to fix it, in Markdown.
    pub explanation: &'static str,
}

impl Code {
    /// Finds a code by its id, in any case, with or without `ZA`.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        let id = id.to_ascii_uppercase();
        let digits = id.strip_prefix("ZA").unwrap_or(&id);
        all().find(|c| &c.id[2..] == digits)
    }
}

macro_rules! codes {
    ($($name:ident $id:ident $title:literal;)*) => {
        use super::Code;
        $(
            #[doc = $title]
            pub const $name: Code = Code {
                id: stringify!($id),
                title: $title,
                explanation: include_str!(concat!("../../codes/", stringify!($id), ".md")),
            };
        )*
        /// Every code of this range.
        pub(super) const ALL: &[Code] = &[$($name),*];
    };
}

pub mod configuration;
pub mod declaration;
pub mod edge;
pub mod function;
pub mod limit;
pub mod manifest;
pub mod merge;
pub mod pillar;
pub mod requisite;
pub mod template;
pub mod top;
pub mod yaml;

/// Every code.
pub fn all() -> impl Iterator<Item = Code> {
    [
        configuration::ALL,
        template::ALL,
        yaml::ALL,
        top::ALL,
        merge::ALL,
        declaration::ALL,
        requisite::ALL,
        pillar::ALL,
        function::ALL,
        limit::ALL,
        edge::ALL,
        manifest::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_and_explained() {
        let all: Vec<Code> = all().collect();
        for (i, code) in all.iter().enumerate() {
            assert!(code.explanation.trim().len() > 40, "{} has no explanation", code.id);
            assert!(
                code.explanation.starts_with(&format!("# {}: {}", code.id, code.title)),
                "{}: heading",
                code.id
            );
            assert!(!all[..i].iter().any(|c| c.id == code.id), "{} twice", code.id);
        }
        assert_eq!(Code::find("za0107"), Some(template::UNDEFINED));
    }
}
