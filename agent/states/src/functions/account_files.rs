//! Functions of the modules in `states/accounts`: crontabs, hosts, mail aliases, files of sections, keys, jobs of `at`.

use std::path::Path;

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::{ExecFunction, change_fn, flag_arg, query_fn, text_arg};
use crate::at::at_queue;
use crate::cron::crontab;
use crate::cron::crontab::{CronJob, Crontab, CrontabChange, TIME_FIELDS, job_to_map};
use crate::host::hosts_file;
use crate::ini::ini_file::{IniFile, IniFormat, ini_value_text};
use zagent_host::accounts::ssh_keys;
use zagent_host::exec::command_options::{text_list, value_text};
use zagent_host::fs::{FileMeta, FileSystem};
use zagent_host::{Machine, Tools};

const HOSTS: &str = "/etc/hosts";
const ALIASES: &str = "/etc/aliases";

pub const FUNCTIONS: &[ExecFunction] = &[
    query_fn("cron.raw_cron", "user", |m, a| Ok(read_raw_crontab(m, a)?.into())),
    query_fn("cron.list_tab", "user", |m, a| Ok(Crontab::parse(&read_raw_crontab(m, a)?).to_salt_map())),
    query_fn("cron.ls", "user", |m, a| Ok(Crontab::parse(&read_raw_crontab(m, a)?).to_salt_map())),
    query_fn("cron.get_entry", "user identifier? cmd?", |m, a| {
        let (id, cmd) = (non_empty_arg(a, "identifier"), non_empty_arg(a, "cmd"));
        let is = |job: &&CronJob| match &id {
            Some(_) => job.identifier == id,
            None => Some(&job.cmd) == cmd.as_ref(),
        };
        Ok(Crontab::parse(&read_raw_crontab(m, a)?)
            .jobs
            .iter()
            .find(is)
            .map_or(Value::Bool(false), |job| job_to_map(job).into()))
    }),
    change_fn(
        "cron.set_job",
        "user minute hour daymonth month dayweek cmd commented? comment? identifier?",
        |m, a| {
            set_cron_job(
                m,
                a,
                TIME_FIELDS.iter().map(|(key, ..)| arg_or_empty(a, key).to_lowercase()).collect(),
            )
        },
    ),
    change_fn("cron.set_special", "user special cmd commented? comment? identifier?", |m, a| {
        set_cron_job(m, a, vec![arg_or_empty(a, "special")])
    }),
    change_fn("cron.rm_job", "user cmd minute? hour? daymonth? month? dayweek? identifier?", |m, a| {
        edit_crontab(m, a, |tab, _| {
            tab.without_job(&arg_or_empty(a, "cmd"), non_empty_arg(a, "identifier").as_deref(), None)
        })
    }),
    change_fn("cron.rm_special", "user cmd special identifier?", |m, a| {
        let special = arg_or_empty(a, "special");
        edit_crontab(m, a, |tab, _| {
            tab.without_job(
                &arg_or_empty(a, "cmd"),
                non_empty_arg(a, "identifier").as_deref(),
                Some(&special),
            )
        })
    }),
    change_fn("cron.set_env", "user name value?", |m, a| {
        edit_crontab(m, a, |tab, _| tab.with_env(&arg_or_empty(a, "name"), &arg_or_empty(a, "value")))
    }),
    change_fn("cron.rm_env", "user name", |m, a| {
        edit_crontab(m, a, |tab, _| tab.without_env(&arg_or_empty(a, "name")))
    }),
    change_fn("hosts.set_host", "ip alias comment?", |m, a| {
        let comment = non_empty_arg(a, "comment").map_or_else(String::new, |c| format!("\t\t# {c}"));
        let names = format!("{}{comment}", arg_or_empty(a, "alias"));
        edit_text_file(m, HOSTS, |old| hosts_file::set_aliases(old, &arg_or_empty(a, "ip"), &names))
    }),
    change_fn("hosts.rm_host", "ip alias", |m, a| {
        edit_text_file(m, HOSTS, |old| {
            hosts_file::remove_alias(old, &arg_or_empty(a, "ip"), &arg_or_empty(a, "alias"))
        })
    }),
    change_fn("hosts.add_host", "ip alias", |m, a| {
        edit_text_file(m, HOSTS, |old| {
            let mut all = hosts_file::parse_hosts(old);
            if hosts_file::aliases_of(&all, &arg_or_empty(a, "ip")).contains(&arg_or_empty(a, "alias")) {
                return old.to_owned();
            }
            hosts_file::add_alias(&mut all, &arg_or_empty(a, "ip"), &arg_or_empty(a, "alias"));
            hosts_file::render_hosts(&all)
        })
    }),
    query_fn("aliases.list_aliases", "", |m, _| Ok(mail_aliases(m)?.into())),
    query_fn("aliases.get_target", "alias", |m, a| {
        Ok(mail_aliases(m)?.get(text_arg(a, "alias")?).cloned().unwrap_or_else(|| "".into()))
    }),
    query_fn("aliases.has_target", "alias target", |m, a| {
        let target = text_list(a.get("target")).join(", ");
        Ok((mail_aliases(m)?.get(text_arg(a, "alias")?).and_then(Value::as_str) == Some(&*target)).into())
    }),
    change_fn("aliases.set_target", "alias target", |m, a| {
        let target = text_list(a.get("target")).join(", ");
        edit_aliases(m, |old| hosts_file::set_mail_alias(old, &arg_or_empty(a, "alias"), Some(&target)))
    }),
    change_fn("aliases.rm_alias", "alias", |m, a| {
        edit_aliases(m, |old| hosts_file::set_mail_alias(old, &arg_or_empty(a, "alias"), None))
    }),
    query_fn("ini.get_option", "file_name section option separator? encoding?", |m, a| {
        let section = non_empty_arg(a, "section");
        Ok(load_ini(m, a)?
            .get(section.as_deref(), &arg_or_empty(a, "option"))
            .map_or(Value::Null, Value::from))
    }),
    query_fn("ini.get_section", "file_name section separator? encoding?", |m, a| {
        let ini = load_ini(m, a)?;
        Ok(ini
            .section(non_empty_arg(a, "section").as_deref())
            .map_or_else(Value::empty_map, |s| s.to_map().into()))
    }),
    query_fn("ini.get_ini", "file_name separator? encoding?", |m, a| Ok(load_ini(m, a)?.to_map().into())),
    change_fn("ini.set_option", "file_name sections? separator? encoding? no_spaces?", set_ini_options),
    change_fn("ini.remove_option", "file_name section option separator? encoding?", |m, a| {
        let mut ini = load_ini(m, a)?;
        let was = ini.remove(non_empty_arg(a, "section").as_deref(), &arg_or_empty(a, "option"));
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
    change_fn("ini.remove_section", "file_name section separator? encoding?", |m, a| {
        let mut ini = load_ini(m, a)?;
        let was = ini.remove_section(text_arg(a, "section")?);
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
    query_fn("ssh.auth_keys", "user config? fingerprint_hash_type?", |m, a| {
        let config = non_empty_arg(a, "config").unwrap_or_else(|| ssh_keys::AUTHORIZED_KEYS.into());
        let (_, path) = ssh_keys::resolve_user_file(m, text_arg(a, "user")?, &config)?;
        let old = m.read(&path)?.unwrap_or_default();
        let keys = old.lines().filter_map(ssh_keys::AuthorizedKey::parse);
        Ok(keys
            .map(|key| (Value::from(key.key.as_str()), Value::from(key.to_salt_map())))
            .collect::<Map>()
            .into())
    }),
    query_fn("ssh.get_known_host_entries", "user hostname config? port? fingerprint_hash_type?", |m, a| {
        let found = known_host_entries(m, a)?;
        Ok(if found.is_empty() {
            Value::Null
        } else {
            found.iter().map(ssh_keys::KnownHostsEntry::to_salt_map).collect()
        })
    }),
    query_fn(
        "ssh.check_known_host",
        "user? hostname? key? fingerprint? config? port? fingerprint_hash_type?",
        |m, a| {
            let found = known_host_entries(m, a)?;
            let is = |k: &ssh_keys::KnownHostsEntry| match (
                non_empty_arg(a, "key"),
                non_empty_arg(a, "fingerprint"),
            ) {
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
    query_fn(
        "ssh.recv_known_host_entries",
        "hostname enc? port? hash_known_hosts? timeout? fingerprint_hash_type?",
        |m, a| {
            let port = non_empty_arg(a, "port");
            let timeout = non_empty_arg(a, "timeout").unwrap_or_else(|| "5".into());
            let lines = ssh_keys::scan_host_keys(
                &Tools::new(m),
                text_arg(a, "hostname")?,
                port.as_deref(),
                non_empty_arg(a, "enc").as_deref(),
                &timeout,
            )?;
            Ok(if lines.is_empty() {
                Value::Null
            } else {
                lines.iter().map(ssh_keys::KnownHostsEntry::to_salt_map).collect()
            })
        },
    ),
    query_fn("at.atq", "tag?", |m, a| {
        let tag = non_empty_arg(a, "tag");
        let jobs = at_queue::list_jobs(&Tools::new(m))?.into_iter();
        let wanted =
            jobs.filter(|job| tag.as_ref().is_none_or(|t| *t == job.tag || *t == job.id.to_string()));
        Ok(Map::from_iter([("jobs", wanted.map(|j| Value::from(j.to_salt_map())).collect::<Value>())]).into())
    }),
    query_fn("at.atc", "jobid", |m, a| {
        let output = Tools::new(m).run_query("at", &["-c", &arg_or_empty(a, "jobid")])?;
        Ok(output.stdout.into())
    }),
    change_fn("at.atrm", "*", |m, a| {
        let tools = Tools::new(m);
        let wanted: Vec<String> = a.rest().iter().map(value_text).collect();
        let is_all = wanted.first().is_some_and(|w| w == "all");
        let jobs = at_queue::list_jobs(&tools)?.into_iter();
        let picked: Vec<i64> =
            jobs.map(|j| j.id).filter(|id| is_all || wanted.contains(&id.to_string())).collect();
        at_queue::remove_jobs(&tools, &picked)?;
        let removed: Value = picked.iter().map(|id| Value::from(id.to_string())).collect();
        let jobs = Map::from_iter([("removed", removed), ("tag", Value::Null)]);
        Ok(Map::from_iter([("jobs", Value::from(jobs))]).into())
    }),
    change_fn("at.at", "timespec cmd tag? runas?", |m, a| {
        let tools = Tools::new(m);
        let (tag, user) = (non_empty_arg(a, "tag"), non_empty_arg(a, "runas"));
        let job = at_queue::add_job(
            &tools,
            text_arg(a, "timespec")?,
            text_arg(a, "cmd")?,
            tag.as_deref(),
            user.as_deref(),
        )?;
        Ok(Map::from_iter([("jobs", Value::from_iter([Value::from(job.to_salt_map())]))]).into())
    }),
];

fn arg_or_empty(args: &FunctionArgs<Value>, name: &str) -> String {
    non_empty_arg(args, name).unwrap_or_default()
}

/// An argument that is there and says something.
fn non_empty_arg(args: &FunctionArgs<Value>, name: &str) -> Option<String> {
    args.get(name).filter(|v| v.is_truthy() || matches!(v, Value::Int(0))).map(value_text)
}

fn read_raw_crontab(machine: &Machine, args: &FunctionArgs<Value>) -> Result<String, FunctionError> {
    Ok(crontab::read_crontab(&Tools::new(machine), text_arg(args, "user")?)?.unwrap_or_default())
}

fn edit_crontab(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    edit: impl FnOnce(Crontab, &str) -> (CrontabChange, String),
) -> Result<Value, FunctionError> {
    let tools = Tools::new(machine);
    let user = text_arg(args, "user")?;
    let (became, new) =
        edit(Crontab::parse(&read_raw_crontab(machine, args)?), &crontab::random_seed(&tools, user));
    let words = match became {
        CrontabChange::Unchanged => return Ok("present".into()),
        CrontabChange::New => "new",
        CrontabChange::Updated => "updated",
        CrontabChange::Removed => "removed",
    };
    crontab::write_crontab(&tools, user, Some(&new))?;
    Ok(words.into())
}

fn set_cron_job(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    when: Vec<String>,
) -> Result<Value, FunctionError> {
    let job = CronJob {
        schedule: when,
        cmd: arg_or_empty(args, "cmd"),
        identifier: non_empty_arg(args, "identifier"),
        comment: non_empty_arg(args, "comment"),
        is_disabled: flag_arg(args, "commented", false),
        ..CronJob::default()
    };
    edit_crontab(machine, args, |tab, seed| tab.with_job(&job, seed))
}

fn mail_aliases(machine: &Machine) -> Result<Map, FunctionError> {
    let all = hosts_file::mail_aliases(&machine.read(ALIASES)?.unwrap_or_default());
    Ok(all.into_iter().map(|(name, target)| (Value::from(name), Value::from(target))).collect())
}

/// Edits a file of the machine.
fn edit_text_file(
    machine: &Machine,
    path: &str,
    edit: impl FnOnce(&str) -> String,
) -> Result<Value, FunctionError> {
    let old = machine.read(path)?;
    let new = edit(old.as_deref().unwrap_or_default());
    if old.as_deref() != Some(&*new) {
        let meta = if old.is_some() {
            FileMeta::default()
        } else {
            FileMeta { mode: Some(0o644), ..FileMeta::default() }
        };
        let disk = machine.disk(None);
        let end = disk.resolve_for_change(Path::new(path)).map_err(fs_error)?;
        disk.write(&end, new.as_bytes(), meta).map_err(fs_error)?;
    }
    Ok(true.into())
}

fn fs_error(error: zagent_host::fs::FsError) -> FunctionError {
    FunctionError::failed(zagent_config::error_chain(&error))
}

fn edit_aliases(machine: &Machine, change: impl FnOnce(&str) -> String) -> Result<Value, FunctionError> {
    edit_text_file(machine, ALIASES, change)?;
    let tools = Tools::new(machine);
    if tools.which("newaliases").is_some() {
        tools.run_change("newaliases", &[] as &[&str])?;
    }
    Ok(true.into())
}

fn ini_separator(args: &FunctionArgs<Value>) -> String {
    non_empty_arg(args, "separator").unwrap_or_else(|| "=".into())
}

fn load_ini(machine: &Machine, args: &FunctionArgs<Value>) -> Result<IniFile, FunctionError> {
    let old = machine.read(text_arg(args, "file_name")?)?.unwrap_or_default();
    Ok(IniFile::parse(&old, &ini_separator(args)))
}

fn save_ini(machine: &Machine, args: &FunctionArgs<Value>, ini: &IniFile) -> Result<Value, FunctionError> {
    let spelling =
        IniFormat { separator: ini_separator(args), no_spaces: flag_arg(args, "no_spaces", false) };
    edit_text_file(machine, text_arg(args, "file_name")?, |_| ini.render(&spelling))
}

fn set_ini_options(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut ini = load_ini(machine, args)?;
    let before = ini.to_map();
    for (key, value) in args.get("sections").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let Value::Map(options) = value else {
            ini.set(None, &ini_value_text(key), &ini_value_text(value));
            continue;
        };
        ini.add_section(&ini_value_text(key));
        options
            .iter()
            .for_each(|(k, v)| ini.set(Some(&ini_value_text(key)), &ini_value_text(k), &ini_value_text(v)));
    }
    let mut changes = Map::new();
    for (key, value) in ini.to_map().iter() {
        let was = before.get_value(key);
        if was != Some(value) {
            let change = [("before", was.cloned().unwrap_or(Value::Null)), ("after", value.clone())];
            changes.insert(key.clone(), Value::from(Map::from_iter(change)));
        }
    }
    save_ini(machine, args, &ini)?;
    Ok(changes.into())
}

fn known_host_entries(
    machine: &Machine,
    args: &FunctionArgs<Value>,
) -> Result<Vec<ssh_keys::KnownHostsEntry>, FunctionError> {
    let (user, config) = (non_empty_arg(args, "user"), non_empty_arg(args, "config"));
    let path = ssh_keys::known_hosts_file(machine, user.as_deref(), config.as_deref())?;
    let name =
        ssh_keys::known_hosts_name(text_arg(args, "hostname")?, non_empty_arg(args, "port").as_deref());
    let old = machine.read(&path)?.unwrap_or_default();
    Ok(old.lines().filter_map(ssh_keys::KnownHostsEntry::parse).filter(|k| k.matches_host(&name)).collect())
}
