//! Functions of the modules in `states/fetch`: `git`, `http`, `logrotate`, `event`; and those of `file` that act.

use std::time::{Duration, Instant};

use zagent_compiler::FunctionCall;
use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{ExecFunction, change_fn, optional_text_arg, query_fn, query_fn_needing, text_arg};
use crate::file::functions::changes;
use crate::logrotate::config as logrotate;
use zagent_host::Machine;
use zagent_host::fs::FileMeta;
use zagent_host::http_client;

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("git.is_worktree", "cwd **", |m, a| {
        Ok(m.is_file(std::path::Path::new(text_arg(a, "cwd")?).join(".git")).into())
    }),
    query_fn_needing("git", "git.rev_parse", "cwd rev? opts? **", crate::git::functions::rev_parse),
    query_fn_needing("git", "git.describe", "cwd rev? **", |m, a| {
        crate::git::functions::run_line(
            m,
            a,
            &["describe", "--tags", "--always", optional_text_arg(a, "rev").unwrap_or("HEAD")],
        )
    }),
    query_fn_needing("git", "git.status", "cwd **", crate::git::functions::status),
    query_fn_needing("git", "git.diff", "cwd item1? item2? **", |m, a| {
        let items = [optional_text_arg(a, "item1"), optional_text_arg(a, "item2")];
        crate::git::functions::run_line(
            m,
            a,
            &["diff"].into_iter().chain(items.into_iter().flatten()).collect::<Vec<_>>(),
        )
    }),
    query_fn_needing("git", "git.list_branches", "cwd remote? **", |m, a| {
        crate::git::functions::list_refs(
            m,
            a,
            if super::flag_arg(a, "remote", false) { "refs/remotes/" } else { "refs/heads/" },
        )
    }),
    query_fn_needing("git", "git.list_tags", "cwd **", |m, a| {
        crate::git::functions::list_refs(m, a, "refs/tags/")
    }),
    query_fn_needing("git", "git.list_worktrees", "cwd **", |m, a| {
        crate::git::functions::run_line(m, a, &["worktree", "list"])
    }),
    query_fn_needing("git", "git.remotes", "cwd **", crate::git::functions::remotes),
    query_fn_needing("git", "git.remote_get", "cwd remote? **", crate::git::functions::remote_get),
    query_fn_needing("git", "git.ls_remote", "cwd? remote? ref? opts? **", crate::git::functions::ls_remote),
    query_fn_needing("git", "git.remote_refs", "url **", crate::git::functions::ls_remote),
    query_fn_needing(
        "git",
        "git.config_get",
        "key cwd? global? all? user? **",
        crate::git::functions::config_get,
    ),
    query_fn_needing(
        "git",
        "git.config_get_regexp",
        "key cwd? global? user? **",
        crate::git::functions::config_get_regexp,
    ),
    change_fn(
        "git.config_set",
        "key value? cwd? global? multivar? user? **",
        crate::git::functions::config_set,
    ),
    change_fn("git.config_unset", "key cwd? global? user? **", crate::git::functions::config_unset),
    change_fn(
        "git.clone",
        "cwd url? name? opts? user? identity? https_user? https_pass? **",
        crate::git::functions::clone,
    ),
    change_fn("git.init", "cwd bare? user? **", |m, a| {
        let words: &[&str] =
            if super::flag_arg(a, "bare", false) { &["init", "--bare", "."] } else { &["init", "."] };
        let cwd = std::path::Path::new(text_arg(a, "cwd")?);
        changes::create_directory(&m.disk(None), cwd, FileMeta::default())?;
        crate::git::functions::run_line(m, a, words)
    }),
    change_fn("git.pull", "cwd opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "pull", &[])
    }),
    change_fn("git.fetch", "cwd remote? opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "fetch", &["remote"])
    }),
    change_fn("git.checkout", "cwd rev? force? opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "checkout", &["rev"])
    }),
    change_fn("git.reset", "cwd opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "reset", &[])
    }),
    change_fn("git.add", "cwd filename? opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "add", &["filename"])
    }),
    change_fn("git.commit", "cwd message opts? user? **", |m, a| {
        crate::git::functions::run_line(m, a, &["commit", "-m", text_arg(a, "message")?])
    }),
    change_fn("git.push", "cwd remote? ref? opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "push", &["remote", "ref"])
    }),
    change_fn("git.submodule", "cwd command opts? user? **", |m, a| {
        crate::git::functions::run_subcommand(m, a, "submodule", &["command"])
    }),
    change_fn("http.query", "url **", |_, a| http_query(a, 0.0)),
    change_fn("http.wait_for_successful_query", "url wait_for? **", |_, a| {
        http_query(a, a.get("wait_for").and_then(Value::as_number).unwrap_or(300.0))
    }),
    query_fn("logrotate.show_conf", "conf_file?", |m, a| Ok(read_logrotate(m, a)?.into())),
    query_fn("logrotate.get", "key value? conf_file?", |m, a| {
        let found = read_logrotate(m, a)?.get(text_arg(a, "key")?).cloned();
        Ok(match optional_text_arg(a, "value") {
            Some(inner) => found.and_then(|f| f.get(inner).cloned()),
            None => found,
        }
        .unwrap_or(Value::Bool(false)))
    }),
    change_fn("event.send", "tag data? **", |_, a| fire_event(a)),
    change_fn("event.fire_master", "data tag **", |_, a| fire_event(a)),
    change_fn("event.fire", "data tag **", |_, a| fire_event(a)),
    // The agent reads pillars, facts and modules anew for every run: there is nothing to refresh.
    change_fn("saltutil.refresh_pillar", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.pillar_refresh", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.refresh_grains", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.refresh_modules", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.clear_cache", "**", |_, _| Ok(true.into())),
    change_fn("saltutil.sync_all", "**", |_, _| Ok(Value::empty_map())),
    change_fn("saltutil.sync_modules", "**", |_, _| Ok(Value::empty_list())),
    change_fn("saltutil.sync_states", "**", |_, _| Ok(Value::empty_list())),
    change_fn("saltutil.sync_grains", "**", |_, _| Ok(Value::empty_list())),
    change_fn("mine.update", "**", |_, _| Ok(true.into())),
    change_fn("mine.send", "name **", |_, _| Ok(true.into())),
    change_fn("file.write", "path * **", |m, a| crate::file::functions::changes::write_lines(m, a, false)),
    change_fn("file.append", "path * **", |m, a| crate::file::functions::changes::write_lines(m, a, true)),
    change_fn("file.touch", "name atime? mtime?", crate::file::functions::changes::touch),
    change_fn("file.mkdir", "dir_path user? group? mode?", |m, a| {
        crate::file::functions::changes::make_directory(m, a, "dir_path")
    }),
    change_fn("file.makedirs", "path user? group? mode?", crate::file::functions::changes::makedirs),
    change_fn("file.makedirs_perms", "name user? group? mode?", |m, a| {
        crate::file::functions::changes::make_directory(m, a, "name")
    }),
    change_fn("file.remove", "path **", |m, a| crate::file::functions::changes::remove(m, a, "path")),
    change_fn("file.rmdir", "path **", |m, a| crate::file::functions::changes::remove(m, a, "path")),
    change_fn("file.rename", "src dst", crate::file::functions::changes::rename),
    change_fn("file.move", "src dst **", crate::file::functions::changes::rename),
    change_fn("file.copy", "src dst recurse? remove_existing?", crate::file::functions::changes::copy),
    change_fn("file.symlink", "src path force? **", crate::file::functions::changes::symlink),
    change_fn("file.set_mode", "path mode", crate::file::functions::changes::set_mode),
    change_fn("file.chown", "path user group", crate::file::functions::changes::chown),
    change_fn("file.chgrp", "path group", crate::file::functions::changes::chown),
    change_fn("file.truncate", "path length", crate::file::functions::changes::truncate),
    change_fn(
        "file.replace",
        "path pattern repl count? flags? append_if_not_found? prepend_if_not_found? not_found_content? backup? show_changes? **",
        crate::file::functions::changes::replace,
    ),
    query_fn_needing(
        "openssl",
        "x509.read_certificate",
        "certificate",
        crate::x509::functions::read_certificate,
    ),
    query_fn_needing("openssl", "x509.read_csr", "csr", crate::x509::functions::read_csr),
    query_fn_needing("openssl", "x509.expires", "certificate days?", crate::x509::functions::expires),
    query_fn_needing("openssl", "x509.will_expire", "certificate days", crate::x509::functions::will_expire),
    query_fn_needing(
        "openssl",
        "x509.get_private_key_size",
        "private_key **",
        crate::x509::functions::key_size,
    ),
    query_fn_needing(
        "openssl",
        "x509.verify_private_key",
        "private_key public_key **",
        crate::x509::functions::verify_key,
    ),
];

/// True when a call of a function that may act only looks: a query whose method changes nothing at the other end.
pub fn is_read_only_call(call: &FunctionCall) -> bool {
    call.function.starts_with("http.") && call.kwargs.get("method").is_none_or(http_client::is_read_only)
}

/// The named arguments of a call, with those of its signature.
fn named_args(args: &FunctionArgs<Value>) -> Map {
    args.named().iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())).collect()
}

/// The time between two questions.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

fn is_enabled(options: &Map, name: &str) -> bool {
    options.get(name).is_some_and(Value::is_truthy)
}

/// Asks an address; waits for a good answer when there is time.
fn http_query(args: &FunctionArgs<Value>, wait: f64) -> Result<Value, FunctionError> {
    let (url, options) = (text_arg(args, "url")?, named_args(args));
    let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
    let end = Instant::now() + wait;
    loop {
        let answer = http_client::query(url, &options).map_err(FunctionError::failed)?;
        let is_good = answer.status.is_some_and(|s| s < 400);
        if !is_good && Instant::now() + RETRY_INTERVAL < end {
            zagent_host::CancelToken::new().wait(RETRY_INTERVAL);
            continue;
        }
        let mut output = Map::new();
        if is_enabled(&options, "status") {
            output.insert("status", answer.status.map_or(Value::Null, |s| Value::Int(s.into())));
        }
        if is_enabled(&options, "headers") {
            output.insert("headers", answer.headers);
        }
        match answer.error {
            Some(error) => _ = output.insert("error", error),
            None if !is_good => {
                _ = output.insert("error", format!("HTTP {}", answer.status.unwrap_or_default()));
            }
            None => {}
        }
        output.insert("body", answer.body.as_str());
        if is_enabled(&options, "decode")
            && let Ok(value) = Value::from_json_str(&answer.body)
        {
            output.insert("dict", value);
        }
        return Ok(output.into());
    }
}

fn fire_event(args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let data = args.get("data").map(|d| serde_json::to_string(d).unwrap_or_default()).unwrap_or_default();
    tracing::info!(event = text_arg(args, "tag")?, data, "event");
    Ok(true.into())
}

/// What logrotate is told, with all that is included.
fn read_logrotate(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Map, FunctionError> {
    let main = crate::file::functions::read_required(
        machine,
        optional_text_arg(args, "conf_file").unwrap_or(logrotate::LOGROTATE_CONF),
    )?;
    let mut all = logrotate::parse_config(&main);
    for included in logrotate::includes(&main) {
        let mut paths: Vec<String> =
            machine.list_dir(included).iter().map(|n| format!("{included}/{n}")).collect();
        if paths.is_empty() {
            paths.push(included.to_owned());
        }
        for path in paths {
            let text = machine.read(&path)?.unwrap_or_default();
            logrotate::parse_config(&text).iter().for_each(|(k, v)| _ = all.insert(k.clone(), v.clone()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::testing::SampleMachine;

    #[test]
    fn templates_ask_but_do_not_post() {
        let sample = SampleMachine::new();
        let call = |method: &str| {
            let args = format!(r#"["http://127.0.0.1:1/", "**", {{"method": "{method}", "timeout": 5}}]"#);
            sample.call("http.query", &args)
        };
        assert!(call("POST").starts_with("forbidden: "), "{}", call("POST"));
        assert!(call("delete").starts_with("forbidden: "));
        assert!(call("head").contains(r#""error":"#), "{}", call("head"));
        assert!(sample.call("http.query", r#"["http://127.0.0.1:1/"]"#).contains(r#""error":"#));
    }
}
