//! `git.*`: each is a few words of the program.

use std::path::PathBuf;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, change_fn, flag_arg, optional_text_arg, query_fn, query_fn_needing, string_list, text_arg,
};
use zagent_config::mask::redact_logins;
use zagent_host::git::{GitCli, split_login};
use zagent_host::{Machine, Tools};

/// The execution functions of `git`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing(
        "git",
        "git.current_branch",
        "cwd user? password? ignore_retcode? output_encoding?",
        |m, a| run_git(m, a, &["rev-parse", "--abbrev-ref", "HEAD"]),
    ),
    query_fn_needing(
        "git",
        "git.revision",
        "cwd rev? short? user? password? ignore_retcode? output_encoding?",
        |m, a| {
            let rev = optional_text_arg(a, "rev").unwrap_or("HEAD");
            let short = if flag_arg(a, "short", false) { "--short" } else { "--verify" };
            run_git(m, a, &["rev-parse", short, "--end-of-options", rev])
        },
    ),
    query_fn_needing("git", "git.version", "versioninfo?", |m, _| {
        let out = m.run_query("git", &["--version"])?;
        let line = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(line.split_whitespace().nth(2).unwrap_or_default().into())
    }),
    query_fn("git.is_worktree", "cwd **", |m, a| {
        Ok(m.is_file(std::path::Path::new(text_arg(a, "cwd")?).join(".git")).into())
    }),
    query_fn_needing("git", "git.rev_parse", "cwd rev? opts? **", rev_parse),
    query_fn_needing("git", "git.describe", "cwd rev? **", |m, a| {
        run_line(m, a, &["describe", "--tags", "--always", optional_text_arg(a, "rev").unwrap_or("HEAD")])
    }),
    query_fn_needing("git", "git.status", "cwd **", status),
    query_fn_needing("git", "git.diff", "cwd item1? item2? **", |m, a| {
        let items = [optional_text_arg(a, "item1"), optional_text_arg(a, "item2")];
        run_line(m, a, &["diff"].into_iter().chain(items.into_iter().flatten()).collect::<Vec<_>>())
    }),
    query_fn_needing("git", "git.list_branches", "cwd remote? **", |m, a| {
        list_refs(m, a, if flag_arg(a, "remote", false) { "refs/remotes/" } else { "refs/heads/" })
    }),
    query_fn_needing("git", "git.list_tags", "cwd **", |m, a| list_refs(m, a, "refs/tags/")),
    query_fn_needing("git", "git.list_worktrees", "cwd **", |m, a| run_line(m, a, &["worktree", "list"])),
    query_fn_needing("git", "git.remotes", "cwd **", remotes),
    query_fn_needing("git", "git.remote_get", "cwd remote? **", remote_get),
    query_fn_needing("git", "git.ls_remote", "cwd? remote? ref? opts? **", ls_remote),
    query_fn_needing("git", "git.remote_refs", "url **", ls_remote),
    query_fn_needing("git", "git.config_get", "key cwd? global? all? user? **", config_get),
    query_fn_needing("git", "git.config_get_regexp", "key cwd? global? user? **", config_get_regexp),
    change_fn("git.config_set", "key value? cwd? global? multivar? user? **", config_set),
    change_fn("git.config_unset", "key cwd? global? user? **", config_unset),
    change_fn(
        "git.clone",
        "cwd url? name? opts? user? identity? https_user? https_pass? accept_new_host_key? **",
        clone,
    ),
    change_fn("git.init", "cwd bare? user? **", |m, a| {
        let words: &[&str] =
            if flag_arg(a, "bare", false) { &["init", "--bare", "."] } else { &["init", "."] };
        let cwd = std::path::Path::new(text_arg(a, "cwd")?);
        crate::file::functions::changes::create_directory(
            &m.disk(None),
            cwd,
            zagent_host::fs::FileMeta::default(),
        )?;
        run_line(m, a, words)
    }),
    change_fn("git.pull", "cwd opts? user? **", |m, a| run_subcommand(m, a, "pull", &[])),
    change_fn("git.fetch", "cwd remote? opts? user? **", |m, a| run_subcommand(m, a, "fetch", &["remote"])),
    change_fn("git.checkout", "cwd rev? force? opts? user? **", |m, a| {
        run_subcommand(m, a, "checkout", &["rev"])
    }),
    change_fn("git.reset", "cwd opts? user? **", |m, a| run_subcommand(m, a, "reset", &[])),
    change_fn("git.add", "cwd filename? opts? user? **", |m, a| run_subcommand(m, a, "add", &["filename"])),
    change_fn("git.commit", "cwd message opts? user? **", |m, a| {
        run_line(m, a, &["commit", "-m", text_arg(a, "message")?])
    }),
    change_fn("git.push", "cwd remote? ref? opts? user? **", |m, a| {
        run_subcommand(m, a, "push", &["remote", "ref"])
    }),
    change_fn("git.submodule", "cwd command opts? user? **", |m, a| {
        run_subcommand(m, a, "submodule", &["command"])
    }),
];

/// The program as the arguments ask for it.
fn git_client<'m>(machine: &'m Machine, args: &FunctionArgs<Value>) -> Result<GitCli<'m>, FunctionError> {
    let get = |name: &str| {
        optional_text_arg(args, name).or_else(|| args.named().iter().find(|(k, _)| k == name)?.1.as_str())
    };
    GitCli::new(Tools::new(machine), get("user"))
}

fn cwd_arg(args: &FunctionArgs<Value>) -> Option<PathBuf> {
    optional_text_arg(args, "cwd").filter(|d| !d.is_empty()).map(PathBuf::from)
}

/// What the words print, without the line end.
fn run_line(machine: &Machine, args: &FunctionArgs<Value>, words: &[&str]) -> Result<Value, FunctionError> {
    let out = git_client(machine, args)?.run_checked(cwd_arg(args).as_deref(), words)?;
    Ok(out.trim_end().into())
}

/// More words for the program: a text or a list of them.
fn opts_arg(args: &FunctionArgs<Value>) -> Vec<&str> {
    match args.get("opts") {
        Some(Value::Str(text)) => text.split_whitespace().collect(),
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A command with its options and the arguments of these names.
fn run_subcommand(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    verb: &str,
    names: &[&str],
) -> Result<Value, FunctionError> {
    let mut words = vec![verb];
    // The word of a subcommand comes before its options.
    if verb == "submodule" {
        words.extend(optional_text_arg(args, "command"));
    }
    if flag_arg(args, "force", false) {
        words.push("--force");
    }
    words.extend(opts_arg(args));
    words.extend(names.iter().filter(|n| **n != "command").filter_map(|n| optional_text_arg(args, n)));
    let (words, login) = strip_login(&words);
    let git = login
        .iter()
        .fold(git_client(machine, args)?, |git, (url, login)| git.with_url_login(url, Some(login)));
    let output = git.run(cwd_arg(args).as_deref(), &words)?;
    if output.is_success() {
        let all = format!("{}\n{}", output.stdout.trim(), output.stderr.trim());
        return Ok(all.trim().into());
    }
    Err(FunctionError::failed(redact_logins(output.message())))
}

/// A name and a password.
type UserPassword = (String, String);

/// The words without the name and password of an address among them, and these with the address: all processes of a host
/// can be asked for their words.
fn strip_login(words: &[&str]) -> (Vec<String>, Option<(String, UserPassword)>) {
    let mut found = None;
    let cut = |word: &&str| {
        let (url, login) = split_login(word);
        found = found.take().or(login.map(|login| (url.clone(), login)));
        url
    };
    (words.iter().map(cut).collect(), found)
}

fn rev_parse(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut words = vec!["rev-parse"];
    words.extend(opts_arg(args));
    words.extend(optional_text_arg(args, "rev"));
    run_line(machine, args, &words)
}

/// What changed in the working copy, by how.
fn status(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let out =
        git_client(machine, args)?.run_checked(cwd_arg(args).as_deref(), &["status", "-z", "--porcelain"])?;
    let mut found = Map::new();
    let mut entries = out.split_terminator('\0');
    while let Some(entry) = entries.next() {
        let Some((how, path)) = entry.split_at_checked(3) else { continue };
        // The name that it had before stands alone after it.
        if how.starts_with(['R', 'C']) {
            entries.next();
        }
        let how = match how.trim() {
            "M" | "MM" | "AM" => "modified",
            "A" => "new",
            "D" => "deleted",
            "??" => "untracked",
            _ => continue,
        };
        let mut list = found.get(how).and_then(Value::as_list).map(|l| l.to_vec()).unwrap_or_default();
        list.push(path.into());
        found.insert(how, list);
    }
    Ok(found.into())
}

fn list_refs(machine: &Machine, args: &FunctionArgs<Value>, below: &str) -> Result<Value, FunctionError> {
    let path = PathBuf::from(text_arg(args, "cwd")?);
    Ok(string_list(git_client(machine, args)?.list_refs(&path, below)?))
}

fn remotes(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let out = git_client(machine, args)?.run_checked(cwd_arg(args).as_deref(), &["remote", "--verbose"])?;
    let mut found = Map::new();
    for line in out.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(url), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let mut one = found.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
        one.insert(kind.trim_matches(['(', ')']), redact_logins(url));
        found.insert(name, one);
    }
    Ok(found.into())
}

fn remote_get(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let name = optional_text_arg(args, "remote").unwrap_or("origin");
    let missing = || FunctionError::failed(format!("Remote '{name}' not present in git checkout"));
    remotes(machine, args)?.get(name).cloned().ok_or_else(missing)
}

fn ls_remote(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let remote =
        optional_text_arg(args, "url").or_else(|| optional_text_arg(args, "remote")).unwrap_or("origin");
    let dir = cwd_arg(args);
    let (remote, login) = split_login(remote);
    let git = git_client(machine, args)?.with_url_login(&remote, login.as_ref());
    let mut refs = git.remote_refs(dir.as_deref(), &remote, &opts_arg(args))?;
    if let Some(wanted) = optional_text_arg(args, "ref") {
        refs.retain(|name, _| name == wanted || name.ends_with(&format!("/{wanted}")));
    }
    Ok(Map::from_iter(refs).into())
}

/// Where a key stands: in a repository, or with the user.
fn config_dir(args: &FunctionArgs<Value>) -> Result<Option<PathBuf>, FunctionError> {
    let dir = cwd_arg(args).filter(|_| !flag_arg(args, "global", false));
    if dir.is_none() && !flag_arg(args, "global", false) {
        return Err(FunctionError::bad_arguments("'cwd' argument required unless global=True"));
    }
    Ok(dir)
}

fn config_get(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let values =
        git_client(machine, args)?.config_values(config_dir(args)?.as_deref(), text_arg(args, "key")?)?;
    if flag_arg(args, "all", false) && !values.is_empty() {
        return Ok(string_list(values));
    }
    Ok(values.last().map_or(Value::Null, |v| v.as_str().into()))
}

fn config_get_regexp(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let at = config_dir(args)?;
    let place = if at.is_some() { "--local" } else { "--global" };
    let output = git_client(machine, args)?
        .run(at.as_deref(), &["config", place, "--null", "--get-regexp", text_arg(args, "key")?])?;
    let mut found = Map::new();
    for (key, value) in output.stdout.split_terminator('\0').filter_map(|e| e.split_once('\n')) {
        let mut list = found.get(key).and_then(Value::as_list).map(|l| l.to_vec()).unwrap_or_default();
        list.push(value.into());
        found.insert(key, list);
    }
    Ok(found.into())
}

fn config_set(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let show = |v: &Value| zagent_config::value::python_str(v);
    let values: Vec<String> = match (args.get("multivar"), args.get("value")) {
        (Some(Value::List(list)), _) => list.iter().map(show).collect(),
        (_, Some(value)) => vec![show(value)],
        _ => return Err(FunctionError::bad_arguments("One of 'value' and 'multivar' is required")),
    };
    let at = config_dir(args)?;
    git_client(machine, args)?.set_config(at.as_deref(), text_arg(args, "key")?, &values)?;
    Ok(string_list(values))
}

fn config_unset(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let at = config_dir(args)?;
    git_client(machine, args)?.set_config(at.as_deref(), text_arg(args, "key")?, &[])?;
    Ok(true.into())
}

fn clone(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (url, login) = split_login(text_arg(args, "url")?);
    let keys: Vec<String> = match args.get("identity") {
        Some(Value::Str(key)) => vec![key.to_string()],
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let accepts = args.get("accept_new_host_key").is_some_and(Value::is_truthy);
    let git = git_client(machine, args)?.with_new_host_keys(accepts).with_keys(&keys);
    let git = git.with_url_login(&url, login.as_ref());
    let git =
        git.with_login(&url, optional_text_arg(args, "https_user"), optional_text_arg(args, "https_pass"))?;
    let target = text_arg(args, "cwd")?;
    let mut words = vec!["clone"];
    words.extend(opts_arg(args));
    words.extend(["--", &url, target]);
    git.run_checked(None, &words)?;
    Ok(true.into())
}

fn run_git(machine: &Machine, args: &FunctionArgs<Value>, command: &[&str]) -> Result<Value, FunctionError> {
    let cwd = text_arg(args, "cwd")?;
    let mut full = vec!["-C", cwd];
    full.extend(command);
    let out = machine.run_query("git", &full)?;
    if !out.success() {
        return Err(FunctionError::failed(String::from_utf8_lossy(&out.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_among_the_words() {
        let (words, login) = strip_login(&["fetch", "https://u:hush@h/x", "main"]);
        assert_eq!(words, ["fetch", "https://h/x", "main"]);
        assert_eq!(login, Some(("https://h/x".to_owned(), ("u".to_owned(), "hush".to_owned()))));
        assert_eq!(strip_login(&["push", "origin"]), (vec!["push".to_owned(), "origin".to_owned()], None));
    }
}
