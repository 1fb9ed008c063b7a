//! `git.*`: each is a few words of the program.

use std::path::PathBuf;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::super::{flag, strings, text, word};
use crate::host::git::{Git, cut_login, redact};
use crate::host::{Machine, Tools};

/// The program as the arguments ask for it.
fn git<'m>(machine: &'m Machine, args: &Bound<Value>) -> Result<Git<'m>, Refusal> {
    let get =
        |name: &str| word(args, name).or_else(|| args.named().iter().find(|(k, _)| k == name)?.1.as_str());
    Git::new(Tools::new(machine), get("user"))
}

fn dir(machine: &Machine, args: &Bound<Value>) -> Option<PathBuf> {
    word(args, "cwd").filter(|d| !d.is_empty()).map(|d| machine.path(d))
}

/// What the words print, without the line end.
pub(super) fn line(machine: &Machine, args: &Bound<Value>, words: &[&str]) -> Result<Value, Refusal> {
    let out = git(machine, args)?.must(dir(machine, args).as_deref(), words)?;
    Ok(out.trim_end().into())
}

/// More words for the program: a text or a list of them.
fn opts(args: &Bound<Value>) -> Vec<&str> {
    match args.get("opts") {
        Some(Value::Str(text)) => text.split_whitespace().collect(),
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A command with its options and the arguments of these names.
pub(super) fn verb(
    machine: &Machine,
    args: &Bound<Value>,
    verb: &str,
    names: &[&str],
) -> Result<Value, Refusal> {
    let mut words = vec![verb];
    // The word of a subcommand comes before its options.
    if verb == "submodule" {
        words.extend(word(args, "command"));
    }
    if flag(args, "force", false) {
        words.push("--force");
    }
    words.extend(opts(args));
    words.extend(names.iter().filter(|n| **n != "command").filter_map(|n| word(args, n)));
    let (words, login) = without_login(&words);
    let git = login.iter().fold(git(machine, args)?, |git, (url, login)| git.with_cut(url, Some(login)));
    let said = git.ask(dir(machine, args).as_deref(), &words)?;
    if said.is_fine() {
        let all = format!("{}\n{}", said.out.trim(), said.err.trim());
        return Ok(all.trim().into());
    }
    Err(Refusal::failed(redact(said.words())))
}

/// A name and a password.
type Login = (String, String);

/// The words without the name and password of an address among them, and these with the address: all processes of a host
/// can be asked for their words.
fn without_login(words: &[&str]) -> (Vec<String>, Option<(String, Login)>) {
    let mut found = None;
    let cut = |word: &&str| {
        let (url, login) = cut_login(word);
        found = found.take().or(login.map(|login| (url.clone(), login)));
        url
    };
    (words.iter().map(cut).collect(), found)
}

pub(super) fn rev_parse(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut words = vec!["rev-parse"];
    words.extend(opts(args));
    words.extend(word(args, "rev"));
    line(machine, args, &words)
}

/// What changed in the working copy, by how.
pub(super) fn status(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let out = git(machine, args)?.must(dir(machine, args).as_deref(), &["status", "-z", "--porcelain"])?;
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

pub(super) fn names(machine: &Machine, args: &Bound<Value>, below: &str) -> Result<Value, Refusal> {
    let path = machine.path(text(args, "cwd")?);
    Ok(strings(git(machine, args)?.names(&path, below)?))
}

pub(super) fn remotes(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let out = git(machine, args)?.must(dir(machine, args).as_deref(), &["remote", "--verbose"])?;
    let mut found = Map::new();
    for line in out.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(url), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let mut one = found.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
        one.insert(kind.trim_matches(['(', ')']), redact(url));
        found.insert(name, one);
    }
    Ok(found.into())
}

pub(super) fn remote_get(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let name = word(args, "remote").unwrap_or("origin");
    let missing = || Refusal::failed(format!("Remote '{name}' not present in git checkout"));
    remotes(machine, args)?.get(name).cloned().ok_or_else(missing)
}

pub(super) fn ls_remote(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let remote = word(args, "url").or_else(|| word(args, "remote")).unwrap_or("origin");
    let dir = dir(machine, args);
    let (remote, login) = cut_login(remote);
    let git = git(machine, args)?.with_cut(&remote, login.as_ref());
    let mut refs = git.remote_refs(dir.as_deref(), &remote, &opts(args))?;
    if let Some(wanted) = word(args, "ref") {
        refs.retain(|name, _| name == wanted || name.ends_with(&format!("/{wanted}")));
    }
    Ok(Map::from_iter(refs).into())
}

/// Where a key stands: in a repository, or with the user.
fn scope(machine: &Machine, args: &Bound<Value>) -> Result<Option<PathBuf>, Refusal> {
    let dir = dir(machine, args).filter(|_| !flag(args, "global", false));
    if dir.is_none() && !flag(args, "global", false) {
        return Err(Refusal::arguments("'cwd' argument required unless global=True"));
    }
    Ok(dir)
}

pub(super) fn config_get(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let values = git(machine, args)?.config(scope(machine, args)?.as_deref(), text(args, "key")?)?;
    if flag(args, "all", false) && !values.is_empty() {
        return Ok(strings(values));
    }
    Ok(values.last().map_or(Value::Null, |v| v.as_str().into()))
}

pub(super) fn config_get_regexp(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let at = scope(machine, args)?;
    let place = if at.is_some() { "--local" } else { "--global" };
    let said = git(machine, args)?
        .ask(at.as_deref(), &["config", place, "--null", "--get-regexp", text(args, "key")?])?;
    let mut found = Map::new();
    for (key, value) in said.out.split_terminator('\0').filter_map(|e| e.split_once('\n')) {
        let mut list = found.get(key).and_then(Value::as_list).map(|l| l.to_vec()).unwrap_or_default();
        list.push(value.into());
        found.insert(key, list);
    }
    Ok(found.into())
}

pub(super) fn config_set(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let show = |v: &Value| zagent_compiler::yaml::python_str(v);
    let values: Vec<String> = match (args.get("multivar"), args.get("value")) {
        (Some(Value::List(list)), _) => list.iter().map(show).collect(),
        (_, Some(value)) => vec![show(value)],
        _ => return Err(Refusal::arguments("One of 'value' and 'multivar' is required")),
    };
    let at = scope(machine, args)?;
    git(machine, args)?.set_config(at.as_deref(), text(args, "key")?, &values)?;
    Ok(strings(values))
}

pub(super) fn config_unset(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let at = scope(machine, args)?;
    git(machine, args)?.set_config(at.as_deref(), text(args, "key")?, &[])?;
    Ok(true.into())
}

pub(super) fn clone(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let (url, login) = cut_login(text(args, "url")?);
    let keys: Vec<String> = match args.get("identity") {
        Some(Value::Str(key)) => vec![key.to_string()],
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let git = git(machine, args)?.with_keys(&keys);
    let git = git.with_cut(&url, login.as_ref());
    let git = git.with_login(&url, word(args, "https_user"), word(args, "https_pass"))?;
    let target = machine.path(text(args, "cwd")?).display().to_string();
    let mut words = vec!["clone"];
    words.extend(opts(args));
    words.extend(["--", &url, &target]);
    git.must(None, &words)?;
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_among_the_words() {
        let (words, login) = without_login(&["fetch", "https://u:hush@h/x", "main"]);
        assert_eq!(words, ["fetch", "https://h/x", "main"]);
        assert_eq!(login, Some(("https://h/x".to_owned(), ("u".to_owned(), "hush".to_owned()))));
        assert_eq!(without_login(&["push", "origin"]), (vec!["push".to_owned(), "origin".to_owned()], None));
    }
}
