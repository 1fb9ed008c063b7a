//! The commands that are understood: what each looks at, changes and answers.

use std::path::{Path, PathBuf};

use super::{Done, Shell};
use crate::exec::builtin_test;
use crate::fs::{FileKind, FileMeta};

/// The name of a command, without the directories that hold the usual programs.
fn name(words: &[String]) -> &str {
    let first = words.first().map_or("", String::as_str);
    first.strip_prefix("/usr/bin/").or_else(|| first.strip_prefix("/bin/")).unwrap_or(first)
}

/// True when a command may be understood.
pub(super) fn is_known(words: &[String]) -> bool {
    is_query(words) || matches!(name(words), "touch" | "mkdir" | "rm" | "cp" | "mv" | "chmod" | "cd" | "sh")
}

/// True when a command only looks.
pub(super) fn is_query(words: &[String]) -> bool {
    match name(words) {
        "true" | ":" | "false" | "exit" | "echo" | "test" | "[" | "cat" | "ls" | "grep" => true,
        "sh" => inner(words).is_some_and(|preview| preview.is_query()),
        _ => false,
    }
}

/// The line that `sh -c` runs.
fn inner(words: &[String]) -> Option<super::ShellPreview> {
    match words {
        [_, option, line] if option == "-c" => super::parse(line, None),
        _ => None,
    }
}

/// Does what a command would do; nothing when that cannot be told.
pub(super) fn run(shell: &mut Shell<'_>, words: &[String]) -> Option<Done> {
    let args = words.get(1..)?;
    Some(match name(words) {
        "true" | ":" => Done::code(0),
        "false" => Done::code(1),
        "exit" => exit(args)?,
        "echo" => echo(args)?,
        "test" => Done::code(i32::from(!test(shell, args)?)),
        "[" => {
            let (last, inside) = args.split_last()?;
            (last == "]").then_some(())?;
            Done::code(i32::from(!test(shell, inside)?))
        }
        "cat" => cat(shell, args)?,
        "ls" => ls(shell, args)?,
        "grep" => grep(shell, args)?,
        "touch" => touch(shell, args)?,
        "mkdir" => mkdir(shell, args)?,
        "rm" => rm(shell, args)?,
        "cp" => cp(shell, args)?,
        "mv" => mv(shell, args)?,
        "chmod" => chmod(shell, args)?,
        "cd" => cd(shell, args)?,
        "sh" => Done::unseen(super::ShellPreview { cwd: shell.cwd.clone(), ..inner(words)? }.run(shell.fs)?),
        _ => return None,
    })
}

fn exit(args: &[String]) -> Option<Done> {
    let code = match args {
        [code] => code.parse::<u8>().ok()?.into(),
        _ => return None,
    };
    Some(Done { exits: true, ..Done::code(code) })
}

fn echo(args: &[String]) -> Option<Done> {
    let (ends, args) = match args {
        [first, rest @ ..] if first == "-n" => ("", rest),
        [first, ..] if first.starts_with('-') => return None,
        all => ("\n", all),
    };
    // Shells do not agree about these.
    if args.iter().any(|word| word.contains('\\')) {
        return None;
    }
    Some(Done::printed((args.join(" ") + ends).into_bytes()))
}

fn test(shell: &Shell<'_>, args: &[String]) -> Option<bool> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    Some(builtin_test::parse_test(&words, shell.cwd.as_deref())?.evaluate(shell.fs))
}

fn cat(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let mut all = Vec::new();
    for word in args {
        match file_kind(shell, word)? {
            Some(FileKind::File) => all.extend(shell.fs.read(&shell.path(word)?).ok()?),
            None | Some(FileKind::Dir) => return Some(Done::unseen(1)),
            Some(_) => return None,
        }
    }
    (!args.is_empty()).then(|| Done::printed(all))
}

fn ls(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let (options, paths): (Vec<&String>, Vec<&String>) = args.iter().partition(|a| a.starts_with('-'));
    let is_plain = |o: &&String| o.len() > 1 && o[1..].chars().all(|c| "1adlA".contains(c));
    (options.iter().all(is_plain) && !paths.is_empty()).then_some(())?;
    let mut code = 0;
    for word in paths {
        let path = shell.path(word)?;
        if shell.lstat(&path)?.is_none() {
            code = 2;
        }
    }
    Some(Done::unseen(code))
}

/// `grep` for a text without patterns in files.
fn grep(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let (options, rest): (Vec<&String>, Vec<&String>) = args.iter().partition(|a| a.starts_with('-'));
    let is_plain = |o: &&String| o.len() > 1 && o[1..].chars().all(|c| "qcsFx".contains(c));
    let [text, files @ ..] = &rest[..] else { return None };
    let is_text = text.chars().all(|c| c.is_alphanumeric() || " _-=:/,@".contains(c)) && !text.is_empty();
    (options.iter().all(is_plain) && is_text && !files.is_empty()).then_some(())?;
    let (whole, quiet) = (options.iter().any(|o| o.contains('x')), options.iter().any(|o| o.contains('q')));
    let (mut found, mut missing) = (false, false);
    for word in files {
        match file_kind(shell, word)? {
            None => missing = true,
            Some(FileKind::File) => {
                let content = String::from_utf8(shell.fs.read(&shell.path(word)?).ok()?).ok()?;
                (!content.contains('\0')).then_some(())?;
                found |= content.lines().any(|l| if whole { l == **text } else { l.contains(&***text) });
            }
            Some(_) => return None,
        }
    }
    let code = match (found, missing) {
        (true, false) => 0,
        (true, true) if quiet => 0,
        (_, true) => 2,
        (false, false) => 1,
    };
    Some(if quiet { Done::code(code) } else { Done::unseen(code) })
}

fn touch(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let mut code = i32::from(args.is_empty());
    for word in plain_words(args)? {
        let path = shell.path(word)?;
        match shell.lstat(&path)? {
            Some(FileKind::Link) => return None,
            Some(_) => {}
            None if word.ends_with('/') || !shell.is_dir(path.parent()?)? => code = 1,
            None => shell.fs.write(&path, b"", FileMeta::default()).ok()?,
        }
    }
    Some(Done::code(code))
}

fn mkdir(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let (parents, dirs) = match args {
        [option, rest @ ..] if option == "-p" => (true, rest),
        all => (false, all),
    };
    let mut code = i32::from(dirs.is_empty());
    for word in plain_words(dirs)? {
        let path = shell.path(word)?;
        let mut missing: Vec<PathBuf> = Vec::new();
        for dir in path.ancestors() {
            match shell.fs.stat(dir).ok()? {
                Some(stat) if stat.kind == FileKind::Dir => break,
                Some(_) => return Some(Done::code(1)),
                None if shell.lstat(dir)?.is_some() => return None,
                None => missing.push(dir.to_owned()),
            }
        }
        match missing.len() {
            0 if !parents => code = 1,
            n if n > 1 && !parents => code = 1,
            _ => {
                for dir in missing.iter().rev() {
                    shell.fs.make_dir(dir, FileMeta::default()).ok()?;
                }
            }
        }
    }
    Some(Done::code(code))
}

fn rm(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let (options, paths): (Vec<&String>, Vec<&String>) = args.iter().partition(|a| a.starts_with('-'));
    let is_plain = |o: &&String| o.len() > 1 && o[1..].chars().all(|c| "rRf".contains(c));
    options.iter().all(is_plain).then_some(())?;
    let (force, deep) =
        (options.iter().any(|o| o.contains('f')), options.iter().any(|o| o.contains(['r', 'R'])));
    let mut code = i32::from(paths.is_empty() && !force);
    for word in paths {
        let path = shell.path(word)?;
        (path.parent().is_some() && !word.ends_with('/')).then_some(())?;
        match shell.lstat(&path)? {
            None if force => {}
            None => code = 1,
            Some(FileKind::Dir) if !deep => code = 1,
            Some(_) => shell.fs.remove(&path).ok()?,
        }
    }
    Some(Done::code(code))
}

/// The two paths of a copy or move: a file, and a name in a directory that is there and has no directory of that name.
enum Pair {
    Missing,
    Files(PathBuf, PathBuf),
}

fn pair(shell: &Shell<'_>, args: &[String]) -> Option<Pair> {
    let [from, to] = args else { return None };
    let (source, target) = (shell.path(from)?, shell.path(to)?);
    (!from.starts_with('-') && !to.ends_with('/') && source != target).then_some(())?;
    match shell.lstat(&source)? {
        Some(FileKind::File) => {}
        None => return Some(Pair::Missing),
        Some(_) => return None,
    }
    match shell.lstat(&target)? {
        Some(FileKind::File) => {}
        None if !shell.is_dir(target.parent()?)? => return Some(Pair::Missing),
        None => {}
        Some(_) => return None,
    }
    Some(Pair::Files(source, target))
}

fn cp(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let Pair::Files(from, to) = pair(shell, args)? else { return Some(Done::code(1)) };
    let content = shell.fs.read(&from).ok()?;
    let mode = match shell.lstat(&to)? {
        Some(_) => None,
        None => Some(shell.fs.stat(&from).ok()??.mode & 0o777 & !crate::fs::umask::umask()),
    };
    shell.fs.write(&to, &content, FileMeta { mode, ..FileMeta::default() }).ok()?;
    Some(Done::code(0))
}

fn mv(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let Pair::Files(from, to) = pair(shell, args)? else { return Some(Done::code(1)) };
    shell.fs.rename(&from, &to).ok()?;
    Some(Done::code(0))
}

fn chmod(shell: &Shell<'_>, args: &[String]) -> Option<Done> {
    let [mode, path] = args else { return None };
    let mode = u32::from_str_radix(mode, 8).ok().filter(|m| *m <= 0o7777)?;
    let path = shell.path(path)?;
    match shell.lstat(&path)? {
        None => return Some(Done::code(1)),
        Some(FileKind::File) => {}
        Some(_) => return None,
    }
    shell.fs.set_meta(&path, FileMeta { mode: Some(mode), ..FileMeta::default() }, true).ok()?;
    Some(Done::code(0))
}

fn cd(shell: &mut Shell<'_>, args: &[String]) -> Option<Done> {
    let [dir] = args else { return None };
    let path = shell.path(dir)?;
    if !shell.is_dir(&path)? {
        return Some(Done::code(2));
    }
    shell.cwd = Some(path);
    Some(Done::code(0))
}

/// What stands where a word leads, links followed.
fn file_kind(shell: &Shell<'_>, word: &str) -> Option<Option<FileKind>> {
    let path: PathBuf = shell.path(word)?;
    Some(shell.fs.stat(Path::new(&path)).ok()?.map(|stat| stat.kind))
}

/// The words when none is an option.
fn plain_words(args: &[String]) -> Option<impl Iterator<Item = &String>> {
    (!args.iter().any(|word| word.starts_with('-'))).then(|| args.iter())
}
