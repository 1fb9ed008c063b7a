//! `at.*`: the queue of jobs that run once.

use zagent_config::{Map, Value};

use crate::at::at_queue;
use crate::exec_function::{ExecFunction, arg_or_empty, change_fn, non_empty_arg, query_fn, text_arg};
use zagent_host::Tools;
use zagent_host::command_options::value_text;

/// The execution functions of `at`.
pub(crate) const TABLE: &[ExecFunction] = &[
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
