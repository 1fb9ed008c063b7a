//! Functions of the modules in `states/fetch`: `git`, `http`, `logrotate`, `event`; and those of `file` that act.

mod files;
mod git;
mod x509;

use std::time::{Duration, Instant};

use zagent_compiler::Call;
use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, needing, text, word};
use crate::host::Machine;
use crate::host::{rotation, web};

pub(super) const TABLE: &[Entry] = &[
    entry("git.is_worktree", "cwd **", |m, a| Ok(m.path(text(a, "cwd")?).join(".git").is_file().into())),
    needing("git", "git.rev_parse", "cwd rev? opts? **", git::rev_parse),
    needing("git", "git.describe", "cwd rev? **", |m, a| {
        git::line(m, a, &["describe", "--tags", "--always", word(a, "rev").unwrap_or("HEAD")])
    }),
    needing("git", "git.status", "cwd **", git::status),
    needing("git", "git.diff", "cwd item1? item2? **", |m, a| {
        let items = [word(a, "item1"), word(a, "item2")];
        git::line(m, a, &["diff"].into_iter().chain(items.into_iter().flatten()).collect::<Vec<_>>())
    }),
    needing("git", "git.list_branches", "cwd remote? **", |m, a| {
        git::names(m, a, if super::flag(a, "remote", false) { "refs/remotes/" } else { "refs/heads/" })
    }),
    needing("git", "git.list_tags", "cwd **", |m, a| git::names(m, a, "refs/tags/")),
    needing("git", "git.list_worktrees", "cwd **", |m, a| git::line(m, a, &["worktree", "list"])),
    needing("git", "git.remotes", "cwd **", git::remotes),
    needing("git", "git.remote_get", "cwd remote? **", git::remote_get),
    needing("git", "git.ls_remote", "cwd? remote? ref? opts? **", git::ls_remote),
    needing("git", "git.remote_refs", "url **", git::ls_remote),
    needing("git", "git.config_get", "key cwd? global? all? user? **", git::config_get),
    needing("git", "git.config_get_regexp", "key cwd? global? user? **", git::config_get_regexp),
    acting("git.config_set", "key value? cwd? global? multivar? user? **", git::config_set),
    acting("git.config_unset", "key cwd? global? user? **", git::config_unset),
    acting("git.clone", "cwd url? name? opts? user? identity? https_user? https_pass? **", git::clone),
    acting("git.init", "cwd bare? user? **", |m, a| {
        let words: &[&str] =
            if super::flag(a, "bare", false) { &["init", "--bare", "."] } else { &["init", "."] };
        std::fs::create_dir_all(m.path(text(a, "cwd")?))
            .map_err(|e| crate::host::ask::cannot("make", text(a, "cwd").unwrap_or_default(), &e))?;
        git::line(m, a, words)
    }),
    acting("git.pull", "cwd opts? user? **", |m, a| git::verb(m, a, "pull", &[])),
    acting("git.fetch", "cwd remote? opts? user? **", |m, a| git::verb(m, a, "fetch", &["remote"])),
    acting("git.checkout", "cwd rev? force? opts? user? **", |m, a| git::verb(m, a, "checkout", &["rev"])),
    acting("git.reset", "cwd opts? user? **", |m, a| git::verb(m, a, "reset", &[])),
    acting("git.add", "cwd filename? opts? user? **", |m, a| git::verb(m, a, "add", &["filename"])),
    acting("git.commit", "cwd message opts? user? **", |m, a| {
        git::line(m, a, &["commit", "-m", text(a, "message")?])
    }),
    acting("git.push", "cwd remote? ref? opts? user? **", |m, a| git::verb(m, a, "push", &["remote", "ref"])),
    acting("git.submodule", "cwd command opts? user? **", |m, a| git::verb(m, a, "submodule", &["command"])),
    acting("http.query", "url **", |_, a| query(a, 0.0)),
    acting("http.wait_for_successful_query", "url wait_for? **", |_, a| {
        query(a, a.get("wait_for").and_then(Value::as_number).unwrap_or(300.0))
    }),
    entry("logrotate.show_conf", "conf_file?", |m, a| Ok(rotation(m, a)?.into())),
    entry("logrotate.get", "key value? conf_file?", |m, a| {
        let found = rotation(m, a)?.get(text(a, "key")?).cloned();
        Ok(match word(a, "value") {
            Some(inner) => found.and_then(|f| f.get(inner).cloned()),
            None => found,
        }
        .unwrap_or(Value::Bool(false)))
    }),
    acting("event.send", "tag data? **", |_, a| fire(a)),
    acting("event.fire_master", "data tag **", |_, a| fire(a)),
    acting("event.fire", "data tag **", |_, a| fire(a)),
    // The agent reads pillars, facts and modules anew for every run: there is nothing to refresh.
    acting("saltutil.refresh_pillar", "**", |_, _| Ok(true.into())),
    acting("saltutil.pillar_refresh", "**", |_, _| Ok(true.into())),
    acting("saltutil.refresh_grains", "**", |_, _| Ok(true.into())),
    acting("saltutil.refresh_modules", "**", |_, _| Ok(true.into())),
    acting("saltutil.clear_cache", "**", |_, _| Ok(true.into())),
    acting("saltutil.sync_all", "**", |_, _| Ok(Value::empty_map())),
    acting("saltutil.sync_modules", "**", |_, _| Ok(Value::empty_list())),
    acting("saltutil.sync_states", "**", |_, _| Ok(Value::empty_list())),
    acting("saltutil.sync_grains", "**", |_, _| Ok(Value::empty_list())),
    acting("mine.update", "**", |_, _| Ok(true.into())),
    acting("mine.send", "name **", |_, _| Ok(true.into())),
    acting("file.write", "path * **", |m, a| files::lines(m, a, false)),
    acting("file.append", "path * **", |m, a| files::lines(m, a, true)),
    acting("file.touch", "name atime? mtime?", files::touch),
    acting("file.mkdir", "dir_path user? group? mode?", |m, a| files::directory(m, a, "dir_path")),
    acting("file.makedirs", "path user? group? mode?", files::makedirs),
    acting("file.makedirs_perms", "name user? group? mode?", |m, a| files::directory(m, a, "name")),
    acting("file.remove", "path **", |m, a| files::remove(m, a, "path")),
    acting("file.rmdir", "path **", |m, a| files::remove(m, a, "path")),
    acting("file.rename", "src dst", files::rename),
    acting("file.move", "src dst **", files::rename),
    acting("file.copy", "src dst recurse? remove_existing?", files::copy),
    acting("file.symlink", "src path force? **", files::symlink),
    acting("file.set_mode", "path mode", files::set_mode),
    acting("file.chown", "path user group", files::chown),
    acting("file.chgrp", "path group", files::chown),
    acting("file.truncate", "path length", files::truncate),
    acting(
        "file.replace",
        "path pattern repl count? flags? append_if_not_found? prepend_if_not_found? not_found_content? backup? show_changes? **",
        files::replace,
    ),
    needing("openssl", "x509.read_certificate", "certificate", x509::read),
    needing("openssl", "x509.read_csr", "csr", x509::read_csr),
    needing("openssl", "x509.expires", "certificate days?", x509::expires),
    needing("openssl", "x509.will_expire", "certificate days", x509::will_expire),
    needing("openssl", "x509.get_private_key_size", "private_key **", x509::key_size),
    needing("openssl", "x509.verify_private_key", "private_key public_key **", x509::verify_key),
];

/// True when a call of a function that may act only looks: a query whose method changes nothing at the other end.
pub(super) fn only_looks(call: &Call) -> bool {
    call.function.starts_with("http.") && call.kwargs.get("method").is_none_or(web::is_look)
}

/// The named arguments of a call, with those of its signature.
fn named(args: &Bound<Value>) -> Map {
    args.named().iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())).collect()
}

/// The time between two questions.
const PAUSE: Duration = Duration::from_secs(1);

fn is_on(options: &Map, name: &str) -> bool {
    options.get(name).is_some_and(Value::is_truthy)
}

/// Asks an address; waits for a good answer when there is time.
fn query(args: &Bound<Value>, wait: f64) -> Result<Value, Refusal> {
    let (url, options) = (text(args, "url")?, named(args));
    let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
    let end = Instant::now() + wait;
    loop {
        let answer = web::query(url, &options).map_err(Refusal::failed)?;
        let is_good = answer.status.is_some_and(|s| s < 400);
        if !is_good && Instant::now() + PAUSE < end {
            crate::host::Cancel::new().wait(PAUSE);
            continue;
        }
        let mut said = Map::new();
        if is_on(&options, "status") {
            said.insert("status", answer.status.map_or(Value::Null, |s| Value::Int(s.into())));
        }
        if is_on(&options, "headers") {
            said.insert("headers", answer.headers);
        }
        match answer.error {
            Some(error) => _ = said.insert("error", error),
            None if !is_good => {
                _ = said.insert("error", format!("HTTP {}", answer.status.unwrap_or_default()));
            }
            None => {}
        }
        said.insert("body", answer.text.as_str());
        if is_on(&options, "decode")
            && let Ok(value) = Value::from_json_str(&answer.text)
        {
            said.insert("dict", value);
        }
        return Ok(said.into());
    }
}

fn fire(args: &Bound<Value>) -> Result<Value, Refusal> {
    let data = args.get("data").map(|d| serde_json::to_string(d).unwrap_or_default()).unwrap_or_default();
    tracing::info!(event = text(args, "tag")?, data, "event");
    Ok(true.into())
}

/// What logrotate is told, with all that is included.
fn rotation(machine: &Machine, args: &Bound<Value>) -> Result<Map, Refusal> {
    let main = super::file::content(machine, word(args, "conf_file").unwrap_or(rotation::CONF))?;
    let mut all = rotation::all(&main);
    for included in rotation::includes(&main) {
        let mut paths: Vec<String> =
            machine.names(included).iter().map(|n| format!("{included}/{n}")).collect();
        if paths.is_empty() {
            paths.push(included.to_owned());
        }
        for path in paths {
            let text = machine.read(&path)?.unwrap_or_default();
            rotation::all(&text).iter().for_each(|(k, v)| _ = all.insert(k.clone(), v.clone()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;

    #[test]
    fn templates_ask_but_do_not_post() {
        let sample = Sample::new();
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
