//! Functions of the modules in `states/accounts`: crontabs, hosts, mail aliases, files of sections, keys, jobs of `at`.

use std::path::Path;

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, acting, entry, flag, text};
use crate::fs::{Disk, FileSystem, Meta};
use crate::host::accounts::cron::{self, Became, Job, TIMES, Tab, job_info};
use crate::host::accounts::ini::{Ini, Spelling, written};
use crate::host::accounts::{at, hosts, ssh};
use crate::host::command::{shown, words_of};
use crate::host::{Machine, Tools};

const HOSTS: &str = "/etc/hosts";
const ALIASES: &str = "/etc/aliases";

pub(super) const TABLE: &[Entry] = &[
    entry("cron.raw_cron", "user", |m, a| Ok(raw(m, a)?.into())),
    entry("cron.list_tab", "user", |m, a| Ok(Tab::parse(&raw(m, a)?).shown())),
    entry("cron.ls", "user", |m, a| Ok(Tab::parse(&raw(m, a)?).shown())),
    entry("cron.get_entry", "user identifier? cmd?", |m, a| {
        let (id, cmd) = (given(a, "identifier"), given(a, "cmd"));
        let is = |job: &&Job| match &id {
            Some(_) => job.identifier == id,
            None => Some(&job.cmd) == cmd.as_ref(),
        };
        Ok(Tab::parse(&raw(m, a)?)
            .jobs
            .iter()
            .find(is)
            .map_or(Value::Bool(false), |job| job_info(job).into()))
    }),
    acting(
        "cron.set_job",
        "user minute hour daymonth month dayweek cmd commented? comment? identifier?",
        |m, a| set_job(m, a, TIMES.iter().map(|(key, ..)| word(a, key).to_lowercase()).collect()),
    ),
    acting("cron.set_special", "user special cmd commented? comment? identifier?", |m, a| {
        set_job(m, a, vec![word(a, "special")])
    }),
    acting("cron.rm_job", "user cmd minute? hour? daymonth? month? dayweek? identifier?", |m, a| {
        edit_tab(m, a, |tab, _| tab.without_job(&word(a, "cmd"), given(a, "identifier").as_deref(), None))
    }),
    acting("cron.rm_special", "user cmd special identifier?", |m, a| {
        let special = word(a, "special");
        edit_tab(m, a, |tab, _| {
            tab.without_job(&word(a, "cmd"), given(a, "identifier").as_deref(), Some(&special))
        })
    }),
    acting("cron.set_env", "user name value?", |m, a| {
        edit_tab(m, a, |tab, _| tab.with_env(&word(a, "name"), &word(a, "value")))
    }),
    acting("cron.rm_env", "user name", |m, a| edit_tab(m, a, |tab, _| tab.without_env(&word(a, "name")))),
    acting("hosts.set_host", "ip alias comment?", |m, a| {
        let comment = given(a, "comment").map_or_else(String::new, |c| format!("\t\t# {c}"));
        let names = format!("{}{comment}", word(a, "alias"));
        edit(m, HOSTS, |old| hosts::with_only(old, &word(a, "ip"), &names))
    }),
    acting("hosts.rm_host", "ip alias", |m, a| {
        edit(m, HOSTS, |old| hosts::without(old, &word(a, "ip"), &word(a, "alias")))
    }),
    acting("hosts.add_host", "ip alias", |m, a| {
        edit(m, HOSTS, |old| {
            let mut all = hosts::parse(old);
            if hosts::aliases(&all, &word(a, "ip")).contains(&word(a, "alias")) {
                return old.to_owned();
            }
            hosts::add(&mut all, &word(a, "ip"), &word(a, "alias"));
            hosts::render(&all)
        })
    }),
    entry("aliases.list_aliases", "", |m, _| Ok(mail_aliases(m)?.into())),
    entry("aliases.get_target", "alias", |m, a| {
        Ok(mail_aliases(m)?.get(text(a, "alias")?).cloned().unwrap_or_else(|| "".into()))
    }),
    entry("aliases.has_target", "alias target", |m, a| {
        let target = words_of(a.get("target")).join(", ");
        Ok((mail_aliases(m)?.get(text(a, "alias")?).and_then(Value::as_str) == Some(&*target)).into())
    }),
    acting("aliases.set_target", "alias target", |m, a| {
        let target = words_of(a.get("target")).join(", ");
        edit_aliases(m, |old| hosts::with_mail_alias(old, &word(a, "alias"), Some(&target)))
    }),
    acting("aliases.rm_alias", "alias", |m, a| {
        edit_aliases(m, |old| hosts::with_mail_alias(old, &word(a, "alias"), None))
    }),
    entry("ini.get_option", "file_name section option separator? encoding?", |m, a| {
        let section = given(a, "section");
        Ok(ini(m, a)?.get(section.as_deref(), &word(a, "option")).map_or(Value::Null, Value::from))
    }),
    entry("ini.get_section", "file_name section separator? encoding?", |m, a| {
        let ini = ini(m, a)?;
        Ok(ini.section(given(a, "section").as_deref()).map_or_else(Value::empty_map, |s| s.shown().into()))
    }),
    entry("ini.get_ini", "file_name separator? encoding?", |m, a| Ok(ini(m, a)?.shown().into())),
    acting("ini.set_option", "file_name sections? separator? encoding? no_spaces?", set_options),
    acting("ini.remove_option", "file_name section option separator? encoding?", |m, a| {
        let mut ini = ini(m, a)?;
        let was = ini.remove(given(a, "section").as_deref(), &word(a, "option"));
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
    acting("ini.remove_section", "file_name section separator? encoding?", |m, a| {
        let mut ini = ini(m, a)?;
        let was = ini.remove_section(text(a, "section")?);
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
    entry("ssh.auth_keys", "user config? fingerprint_hash_type?", |m, a| {
        let config = given(a, "config").unwrap_or_else(|| ssh::AUTHORIZED.into());
        let (_, path) = ssh::user_file(m, text(a, "user")?, &config)?;
        let old = m.read(&path)?.unwrap_or_default();
        let keys = old.lines().filter_map(ssh::Key::parse);
        Ok(keys.map(|key| (Value::from(key.key.as_str()), Value::from(key.shown()))).collect::<Map>().into())
    }),
    entry("ssh.get_known_host_entries", "user hostname config? port? fingerprint_hash_type?", |m, a| {
        let found = known(m, a)?;
        Ok(if found.is_empty() { Value::Null } else { found.iter().map(ssh::Known::shown).collect() })
    }),
    entry(
        "ssh.check_known_host",
        "user? hostname? key? fingerprint? config? port? fingerprint_hash_type?",
        |m, a| {
            let found = known(m, a)?;
            let is = |k: &ssh::Known| match (given(a, "key"), given(a, "fingerprint")) {
                (Some(key), _) => k.key == key,
                (None, Some(print)) => k.has_fingerprint(&print),
                (None, None) => true,
            };
            Ok(if found.is_empty() {
                "add"
            } else if found.iter().any(is) {
                "exists"
            } else {
                "update"
            }
            .into())
        },
    ),
    entry(
        "ssh.recv_known_host_entries",
        "hostname enc? port? hash_known_hosts? timeout? fingerprint_hash_type?",
        |m, a| {
            let port = given(a, "port");
            let timeout = given(a, "timeout").unwrap_or_else(|| "5".into());
            let lines = ssh::scan(
                &Tools::new(m),
                text(a, "hostname")?,
                port.as_deref(),
                given(a, "enc").as_deref(),
                &timeout,
            )?;
            Ok(if lines.is_empty() { Value::Null } else { lines.iter().map(ssh::Known::shown).collect() })
        },
    ),
    entry("at.atq", "tag?", |m, a| {
        let tag = given(a, "tag");
        let jobs = at::list(&Tools::new(m))?.into_iter();
        let wanted =
            jobs.filter(|job| tag.as_ref().is_none_or(|t| *t == job.tag || *t == job.id.to_string()));
        Ok(Map::from_iter([("jobs", wanted.map(|j| Value::from(j.shown())).collect::<Value>())]).into())
    }),
    entry("at.atc", "jobid", |m, a| {
        let said = Tools::new(m).ask("at", &["-c", &word(a, "jobid")])?;
        Ok(said.out.into())
    }),
    acting("at.atrm", "*", |m, a| {
        let tools = Tools::new(m);
        let wanted: Vec<String> = a.rest().iter().map(shown).collect();
        let is_all = wanted.first().is_some_and(|w| w == "all");
        let jobs = at::list(&tools)?.into_iter();
        let picked: Vec<i64> =
            jobs.map(|j| j.id).filter(|id| is_all || wanted.contains(&id.to_string())).collect();
        at::remove(&tools, &picked)?;
        let removed: Value = picked.iter().map(|id| Value::from(id.to_string())).collect();
        let jobs = Map::from_iter([("removed", removed), ("tag", Value::Null)]);
        Ok(Map::from_iter([("jobs", Value::from(jobs))]).into())
    }),
    acting("at.at", "timespec cmd tag? runas?", |m, a| {
        let tools = Tools::new(m);
        let (tag, user) = (given(a, "tag"), given(a, "runas"));
        let job = at::add(&tools, text(a, "timespec")?, text(a, "cmd")?, tag.as_deref(), user.as_deref())?;
        Ok(Map::from_iter([("jobs", Value::from_iter([Value::from(job.shown())]))]).into())
    }),
];

fn word(args: &Bound<Value>, name: &str) -> String {
    given(args, name).unwrap_or_default()
}

/// An argument that is there and says something.
fn given(args: &Bound<Value>, name: &str) -> Option<String> {
    args.get(name).filter(|v| v.is_truthy() || matches!(v, Value::Int(0))).map(shown)
}

fn raw(machine: &Machine, args: &Bound<Value>) -> Result<String, Refusal> {
    Ok(cron::read(&Tools::new(machine), text(args, "user")?)?.unwrap_or_default())
}

fn edit_tab(
    machine: &Machine,
    args: &Bound<Value>,
    edit: impl FnOnce(Tab, &str) -> (Became, String),
) -> Result<Value, Refusal> {
    let tools = Tools::new(machine);
    let user = text(args, "user")?;
    let (became, new) = edit(Tab::parse(&raw(machine, args)?), &cron::seed(&tools, user));
    let words = match became {
        Became::Same => return Ok("present".into()),
        Became::New => "new",
        Became::Updated => "updated",
        Became::Removed => "removed",
    };
    cron::write(&tools, user, Some(&new))?;
    Ok(words.into())
}

fn set_job(machine: &Machine, args: &Bound<Value>, when: Vec<String>) -> Result<Value, Refusal> {
    let job = Job {
        when,
        cmd: word(args, "cmd"),
        identifier: given(args, "identifier"),
        comment: given(args, "comment"),
        commented: flag(args, "commented", false),
        ..Job::default()
    };
    edit_tab(machine, args, |tab, seed| tab.with_job(&job, seed))
}

fn mail_aliases(machine: &Machine) -> Result<Map, Refusal> {
    let all = hosts::mail_aliases(&machine.read(ALIASES)?.unwrap_or_default());
    Ok(all.into_iter().map(|(name, target)| (Value::from(name), Value::from(target))).collect())
}

/// Edits a file of the machine.
fn edit(machine: &Machine, path: &str, edit: impl FnOnce(&str) -> String) -> Result<Value, Refusal> {
    let old = machine.read(path)?;
    let new = edit(old.as_deref().unwrap_or_default());
    if old.as_deref() != Some(&*new) {
        let meta =
            if old.is_some() { Meta::default() } else { Meta { mode: Some(0o644), ..Meta::default() } };
        let file = machine.path(path);
        let disk = Disk::default();
        let end = disk.end_for_change(Path::new(&file)).map_err(refused)?;
        disk.write(&end, new.as_bytes(), meta).map_err(refused)?;
    }
    Ok(true.into())
}

fn refused(error: crate::fs::FsError) -> Refusal {
    Refusal::failed(crate::report::chain(&error))
}

fn edit_aliases(machine: &Machine, change: impl FnOnce(&str) -> String) -> Result<Value, Refusal> {
    edit(machine, ALIASES, change)?;
    let tools = Tools::new(machine);
    if tools.which("newaliases").is_some() {
        tools.tell("newaliases", &[] as &[&str])?;
    }
    Ok(true.into())
}

fn separator(args: &Bound<Value>) -> String {
    given(args, "separator").unwrap_or_else(|| "=".into())
}

fn ini(machine: &Machine, args: &Bound<Value>) -> Result<Ini, Refusal> {
    let old = machine.read(text(args, "file_name")?)?.unwrap_or_default();
    Ok(Ini::parse(&old, &separator(args)))
}

fn save_ini(machine: &Machine, args: &Bound<Value>, ini: &Ini) -> Result<Value, Refusal> {
    let spelling = Spelling { separator: separator(args), no_spaces: flag(args, "no_spaces", false) };
    edit(machine, text(args, "file_name")?, |_| ini.render(&spelling))
}

fn set_options(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut ini = ini(machine, args)?;
    let before = ini.shown();
    for (key, value) in args.get("sections").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let Value::Map(options) = value else {
            ini.set(None, &written(key), &written(value));
            continue;
        };
        ini.add_section(&written(key));
        options.iter().for_each(|(k, v)| ini.set(Some(&written(key)), &written(k), &written(v)));
    }
    let mut changes = Map::new();
    for (key, value) in ini.shown().iter() {
        let was = before.get_value(key);
        if was != Some(value) {
            let change = [("before", was.cloned().unwrap_or(Value::Null)), ("after", value.clone())];
            changes.insert(key.clone(), Value::from(Map::from_iter(change)));
        }
    }
    save_ini(machine, args, &ini)?;
    Ok(changes.into())
}

fn known(machine: &Machine, args: &Bound<Value>) -> Result<Vec<ssh::Known>, Refusal> {
    let (user, config) = (given(args, "user"), given(args, "config"));
    let path = ssh::known_hosts_file(machine, user.as_deref(), config.as_deref())?;
    let name = ssh::host_name(text(args, "hostname")?, given(args, "port").as_deref());
    let old = machine.read(&path)?.unwrap_or_default();
    Ok(old.lines().filter_map(ssh::Known::parse).filter(|k| k.is_for(&name)).collect())
}
