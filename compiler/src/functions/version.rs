//! `pkg.version_cmp`: which of two package versions is later, as dpkg and rpm compare them.

use zagent_config::Value as Data;
use zagent_config::pkg_version::VersionScheme;

use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};

pub(super) const TABLE: &[FunctionEntry] =
    &[data_function("pkg.version_cmp", "pkg1 pkg2 ignore_epoch? **", version_cmp)];

fn version_cmp(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let family = inner.inputs.host.grain("os_family");
    let scheme = VersionScheme::for_family(family.as_ref().and_then(Data::as_str).unwrap_or("Debian"));
    let ignore_epoch = args.get("ignore_epoch").is_some_and(Data::is_truthy);
    let read = |name: &str| {
        let text = match args.get(name) {
            Some(Data::Str(s)) => s.to_string(),
            Some(other) => other.json_key(),
            None => String::new(),
        };
        if ignore_epoch { text.split_once(':').map_or(text.clone(), |(_, v)| v.to_owned()) } else { text }
    };
    let (a, b) = (read("pkg1"), read("pkg2"));
    if [&a, &b].into_iter().any(|v| v.trim().contains(char::is_whitespace)) {
        return Ok(Data::Null);
    }
    Ok(Data::Int(scheme.compare(a.trim(), b.trim()) as i64))
}
