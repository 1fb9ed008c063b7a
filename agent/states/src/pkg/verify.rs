//! `pkg_verify`: files that are no longer as their package brought them.

use super::context::PkgContext;
use crate::{ChunkArgs, StateError};
use zagent_config::Value;
use zagent_host::command_options::value_text;
use zagent_host::packages;

/// What is left out.
#[derive(Debug, Default)]
pub(crate) struct PkgVerify {
    /// Letters of kinds of files, such as `c` for configuration.
    ignore_types: Vec<String>,
    /// Further words for `rpm -V`, such as `nofiles`.
    options: Vec<String>,
}

impl PkgVerify {
    /// Reads it; nothing when it is not asked for.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Option<Self>, StateError> {
        let mut verify = Self::default();
        match args.get("pkg_verify") {
            Some(Value::List(list)) => {
                for (key, value) in list.iter().filter_map(Value::as_map).flat_map(|m| m.iter()) {
                    let Value::List(items) = value else { continue };
                    let items = items.iter().map(value_text).collect();
                    match key.as_str() {
                        Some("ignore_types") => verify.ignore_types = items,
                        Some("verify_options") => verify.options = items,
                        _ => {}
                    }
                }
                Ok(Some(verify))
            }
            Some(value) if value.is_truthy() => Ok(Some(verify)),
            _ => Ok(None),
        }
    }

    /// The files of a package that are not as they came.
    pub(crate) fn modified_files(
        &self,
        pkg_ctx: &PkgContext<'_>,
        name: &str,
    ) -> Result<Vec<String>, StateError> {
        let line = pkg_ctx.manager.provider.verify_command(&[name.to_owned()], &self.options);
        let line = line.ok_or_else(|| StateError::new("pkg.verify not implemented"))?;
        let said = packages::run_query_line(&pkg_ctx.ctx.tools(), &line)?;
        Ok(parse_rpm_verify(&said.stdout, &self.ignore_types))
    }
}

/// Lines of `S.5....T.  c /etc/x`: what differs, the kind of the file, the file.
fn parse_rpm_verify(said: &str, ignore_types: &[String]) -> Vec<String> {
    let is_left_out = |line: &str| {
        let kind = line.split_whitespace().nth(1).filter(|w| w.len() == 1);
        kind.is_some_and(|kind| ignore_types.iter().any(|t| t == kind))
    };
    let differs = |line: &&str| line.contains('/') && !is_left_out(line);
    said.lines().filter(differs).filter_map(|l| l.find('/').map(|at| l[at..].to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::parse_rpm_verify;

    #[test]
    fn kinds_that_are_left_out_do_not_count() {
        let said =
            "??5?????? c /etc/nginx/nginx.conf\n??5??????   /usr/sbin/nginx\nmissing     /usr/share/x y\n";
        assert_eq!(parse_rpm_verify(said, &["c".into()]), ["/usr/sbin/nginx", "/usr/share/x y"]);
        assert_eq!(parse_rpm_verify(said, &[]).len(), 3);
    }
}
