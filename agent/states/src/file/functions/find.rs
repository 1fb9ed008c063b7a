//! `file.find`, `file.grep` and `file.path_exists_glob`: looking for files and lines.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::glob::Glob;
use zagent_config::py_regex::PyRegex;
use zagent_config::{Map, Value};

use crate::exec_function::{optional_text_arg, text_arg};
use crate::file::functions as file;
use zagent_host::Machine;

/// The most paths that one search gives.
const MAX_RESULTS: usize = 100_000;

struct FileFindOptions {
    name: Option<Glob>,
    regex: Option<PyRegex>,
    kinds: Option<String>,
    depths: (i64, i64),
    print: Vec<String>,
}

pub(super) fn find(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let depth = |name: &str, default| args.get(name).and_then(Value::as_int).unwrap_or(default);
    let name = match (optional_text_arg(args, "name"), optional_text_arg(args, "iname")) {
        (Some(name), _) => Some(Glob::new(name)),
        (None, Some(name)) => Some(Glob::new(&name.to_lowercase())),
        (None, None) => None,
    };
    let search = FileFindOptions {
        name,
        regex: optional_text_arg(args, "regex")
            .map(PyRegex::new)
            .transpose()
            .map_err(|e| FunctionError::failed(e.to_string()))?,
        kinds: optional_text_arg(args, "type").map(str::to_owned),
        depths: (depth("mindepth", 0), depth("maxdepth", i64::MAX)),
        print: optional_text_arg(args, "print").unwrap_or("path").split(',').map(str::to_owned).collect(),
    };
    let folded = optional_text_arg(args, "name").is_none() && optional_text_arg(args, "iname").is_some();
    let mut found = Vec::new();
    let mut todo = vec![(text_arg(args, "path")?.to_owned(), 0_i64)];
    while let Some((path, depth)) = todo.pop() {
        let Ok(meta) = machine.symlink_metadata(&path) else { continue };
        if search.matches(&path, depth, &meta, folded)? {
            found.push(search.result_value(&path, &meta)?);
            if found.len() > MAX_RESULTS {
                return Err(FunctionError::failed(format!("more than {MAX_RESULTS} paths were found")));
            }
        }
        if meta.is_dir() && depth < search.depths.1 {
            let inside = machine.list_dir(&path).into_iter().rev();
            todo.extend(inside.map(|n| (format!("{}/{n}", path.trim_end_matches('/')), depth + 1)));
        }
    }
    Ok(found.into())
}

impl FileFindOptions {
    fn matches(
        &self,
        path: &str,
        depth: i64,
        meta: &fs::Metadata,
        folded: bool,
    ) -> Result<bool, FunctionError> {
        let base = path.rsplit('/').next().unwrap_or_default();
        let base = if folded { base.to_lowercase() } else { base.to_owned() };
        if depth < self.depths.0
            || self.name.as_ref().is_some_and(|g| !g.matches(&base))
            || self.kinds.as_ref().is_some_and(|k| !k.contains(type_letter(meta)))
        {
            return Ok(false);
        }
        match &self.regex {
            Some(pattern) => pattern
                .regex()
                .is_match(path)
                .map_err(|_| FunctionError::failed("the expression takes too many steps")),
            None => Ok(true),
        }
    }

    fn result_value(&self, path: &str, meta: &fs::Metadata) -> Result<Value, FunctionError> {
        let mut parts = Vec::new();
        for what in &self.print {
            parts.push(match what.as_str() {
                "path" => Value::from(path),
                "name" => Value::from(path.rsplit('/').next().unwrap_or_default()),
                "type" => Value::from(type_letter(meta).to_string()),
                "size" => Value::Int(i64::try_from(meta.len()).unwrap_or(i64::MAX)),
                other => {
                    return Err(FunctionError::failed(format!(
                        "`print` knows `path`, `name`, `type`, `size`, not `{other}`"
                    )));
                }
            });
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { parts.into() })
    }
}

fn type_letter(meta: &fs::Metadata) -> char {
    let t = meta.file_type();
    match () {
        () if t.is_dir() => 'd',
        () if t.is_symlink() => 'l',
        () if t.is_char_device() => 'c',
        () if t.is_block_device() => 'b',
        () if t.is_fifo() => 'p',
        () if t.is_socket() => 's',
        () => 'f',
    }
}

/// The lines that match, in the shape of a command that found them.
pub(super) fn grep(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let path = text_arg(args, "path")?;
    let pattern =
        PyRegex::new(text_arg(args, "pattern")?).map_err(|e| FunctionError::failed(e.to_string()))?;
    let file = file::read_required(machine, path)?;
    let mut lines = Vec::new();
    for line in file.lines() {
        if pattern
            .regex()
            .is_match(line)
            .map_err(|_| FunctionError::failed("the expression takes too many steps"))?
        {
            lines.push(line);
        }
    }
    let mut out = Map::new();
    out.insert("pid", i64::from(std::process::id()));
    out.insert("retcode", i64::from(lines.is_empty()));
    out.insert("stdout", lines.join("\n"));
    out.insert("stderr", "");
    Ok(out.into())
}

/// The paths that a shell pattern names; a star stays within its directory.
pub(super) fn expand_glob(machine: &Machine, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/').filter(|p| !p.is_empty()) {
        let plain = !part.contains(['*', '?', '[']);
        let glob = Glob::new(part);
        found = found
            .iter()
            .flat_map(|dir| {
                let names = if plain { vec![part.to_owned()] } else { machine.list_dir(&format!("{dir}/")) };
                names
                    .into_iter()
                    .filter(|n| plain || (glob.matches(n) && !n.starts_with('.')))
                    .map(move |n| format!("{dir}/{n}"))
            })
            .filter(|p| machine.symlink_metadata(p).is_ok())
            .take(MAX_RESULTS)
            .collect();
    }
    found
}
