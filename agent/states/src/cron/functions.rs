//! `cron.*`: a crontab as Salt shows it, and changes of its jobs and variables.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::cron::crontab;
use crate::cron::crontab::{CronJob, Crontab, CrontabChange, TIME_FIELDS, job_to_map};
use crate::exec_function::{
    ExecFunction, arg_or_empty, change_fn, flag_arg, non_empty_arg, query_fn, text_arg,
};
use zagent_host::{Machine, Tools};

/// The execution functions of `cron`.
pub(crate) const TABLE: &[ExecFunction] = &[
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
];

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
