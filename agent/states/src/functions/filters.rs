//! What Salt's filters ask of the host. The names begin with `zagent.` and are no functions of templates.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::UNIX_EPOCH;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::{ExecFunction, flag_arg, query_fn, string_list, text_arg};
use zagent_host::Machine;
use zagent_host::facts::machine_system;
use zagent_host::machine::path_error;
use zagent_host::timezone::zone_of;

/// The execution functions of `zagent`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("zagent.random", "below count", random),
    query_fn("zagent.now", "", |m, _| {
        Ok(Value::Float(machine_system(m).now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())))
    }),
    query_fn("zagent.utc_offset", "seconds", utc_offset),
    query_fn("zagent.is_empty_file", "path", |m, a| {
        Ok(m.metadata(text_arg(a, "path")?).is_ok_and(|meta| meta.len() == 0).into())
    }),
    query_fn("zagent.is_text_file", "path blocksize?", |m, a| {
        let block = read_head(m, text_arg(a, "path")?, TEXT_BLOCK);
        Ok(block.is_some_and(|b| !is_binary(&b)).into())
    }),
    query_fn("zagent.is_binary_file", "path", |m, a| {
        let block = read_head(m, text_arg(a, "path")?, BINARY_BLOCK);
        Ok(block.is_some_and(|b| is_binary(&b)).into())
    }),
    query_fn("zagent.list_files", "directory", list_files),
    query_fn("zagent.dns_check", "addr port? safe? ipv6? attempt_connect?", dns_check),
];

/// How much of a file tells whether it is text.
const TEXT_BLOCK: u64 = 512;
/// How much of a file tells whether it is binary.
const BINARY_BLOCK: u64 = 2048;
/// The most numbers that are drawn at once, and the most files that are listed.
const MAX_ITEMS: i64 = 1_000_000;

/// Numbers by chance, each below a bound.
fn random(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let number = |name: &str| args.get(name).and_then(Value::as_int);
    let below = number("below").and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    let count = number("count").filter(|n| (0..=MAX_ITEMS).contains(n));
    let (Some(below), Some(count)) = (below, count) else {
        return Err(FunctionError::bad_arguments("`below` must be above zero and `count` at most a million"));
    };
    let source = fs::File::open("/dev/urandom").map_err(|e| path_error("open", "/dev/urandom", &e))?;
    let mut source = std::io::BufReader::new(source);
    // What lies beyond the last whole round would favour the first numbers.
    let limit = u64::MAX - u64::MAX % below;
    let mut out = Vec::new();
    while out.len() < usize::try_from(count).unwrap_or(0) {
        let mut drawn = [0; 8];
        source.read_exact(&mut drawn).map_err(|e| path_error("read", "/dev/urandom", &e))?;
        let drawn = u64::from_ne_bytes(drawn);
        if drawn < limit {
            out.push(Value::Int(i64::try_from(drawn % below).unwrap_or(0)));
        }
    }
    Ok(out.into())
}

/// How far local time is ahead of UTC at a time, in seconds.
fn utc_offset(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let seconds = args.get("seconds").and_then(Value::as_int);
    let at = seconds.and_then(|s| jiff::Timestamp::from_second(s).ok());
    let at = at.ok_or_else(|| FunctionError::bad_arguments("`seconds` is not a time"))?;
    Ok(Value::Int(zone_of(machine).to_offset(at).seconds().into()))
}

fn read_head(machine: &Machine, path: &str, bytes: u64) -> Option<Vec<u8>> {
    let file = machine.open(path).ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()))?;
    let mut block = Vec::new();
    file.take(bytes).read_to_end(&mut block).ok()?;
    Some(block)
}

/// True when a byte is zero or more than three in ten bytes are none of a text; in UTF-8, even when it is cut off at the
/// end of the block, the bytes of longer characters are.
fn is_binary(block: &[u8]) -> bool {
    let utf8 = std::str::from_utf8(block).map_or_else(|e| e.error_len().is_none(), |_| true);
    let plain = |b: &u8| matches!(b, b'\n' | b'\r' | b'\t' | 8 | 12 | 32..=126) || (utf8 && *b >= 128);
    let strange = block.iter().filter(|b| !plain(b)).count();
    block.contains(&0) || strange * 10 > block.len() * 3
}

/// A directory and everything below it, sorted.
fn list_files(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut found: Vec<String> = Vec::new();
    let mut todo = vec![text_arg(args, "directory")?.trim_end_matches('/').to_owned()];
    while let Some(path) = todo.pop() {
        let is_dir = machine.symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        if is_dir {
            todo.extend(machine.list_dir(&path).into_iter().map(|n| format!("{path}/{n}")));
        }
        found.push(path);
        if i64::try_from(found.len()).unwrap_or(i64::MAX) > MAX_ITEMS {
            return Err(FunctionError::failed("there are more than a million files"));
        }
    }
    found.sort_unstable();
    Ok(string_list(found))
}

/// The address of a name.
fn dns_check(_: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = text_arg(args, "addr")?;
    let found = (name, 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect::<Vec<_>>());
    let found = found.unwrap_or_default();
    let v6 = args.get("ipv6").and_then(Value::as_bool);
    let wanted = |ip: &&IpAddr| v6.is_none_or(|v6| ip.is_ipv6() == v6);
    match found.iter().find(wanted) {
        Some(IpAddr::V6(ip)) => Ok(format!("[{ip}]").into()),
        Some(ip) => Ok(ip.to_string().into()),
        None if flag_arg(args, "safe", false) => Ok(Value::Null),
        None => Err(FunctionError::failed(format!("`{name}` has no address"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SampleMachine;

    #[test]
    fn texts_and_binaries() {
        for (block, binary) in [
            (&b"plain\n"[..], false),
            ("gr\u{fc}n".as_bytes(), false),
            ("\u{65e5}\u{672c}".as_bytes(), false),
            (b"\xe6\x97", false),
            (b"a\0b", true),
            (b"latin \xfc text that is long enough", false),
            (b"\xff\xfe\xfd", true),
            (b"\x01\x02ab", true),
            (b"", false),
        ] {
            assert_eq!(is_binary(block), binary, "{block:?}");
        }
    }

    #[test]
    fn answers_for_filters() {
        let sample = SampleMachine::new().file("/d/a", "x").file("/d/s/b", "");
        for (function, args, want) in [
            ("zagent.is_empty_file", r#"["/d/s/b"]"#, "true"),
            ("zagent.is_empty_file", r#"["/no"]"#, "false"),
            ("zagent.is_text_file", r#"["/d/a"]"#, "true"),
            ("zagent.is_binary_file", r#"["/no"]"#, "false"),
            ("zagent.list_files", r#"["/d"]"#, r#"["/d","/d/a","/d/s","/d/s/b"]"#),
            ("zagent.random", "[1, 3]", "[0,0,0]"),
            ("zagent.random", "[0, 3]", "failed: `below` must be above zero and `count` at most a million"),
            ("zagent.dns_check", r#"["127.0.0.1"]"#, r#""127.0.0.1""#),
            ("zagent.dns_check", r#"["::1"]"#, r#""[::1]""#),
        ] {
            assert_eq!(sample.call(function, args), want, "{function} {args}");
        }
        assert!(!super::super::available_names(&sample.machine).iter().any(|n| n.starts_with("zagent.")));
    }
}
