//! `timezone.*`: the time zone of the host and how its hardware clock runs.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::Value;

use crate::exec_function::local_time::strftime;
use crate::exec_function::{ExecFunction, change_fn, fs_error, is_debian, query_fn, text_arg};
use crate::timezone::zoneinfo as timezone;
use zagent_host::Machine;

/// The execution functions of `timezone`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("timezone.zone_compare", "timezone", |m, a| {
        let now = timezone::current_zone(&m.disk(None)).map_err(fs_error)?;
        Ok((now.as_deref() == Some(text_arg(a, "timezone")?)).into())
    }),
    query_fn("timezone.get_hwclock", "", |m, _| {
        let local = timezone::is_hwclock_local(&m.disk(None)).map_err(fs_error)?;
        Ok(if local { "localtime" } else { "UTC" }.into())
    }),
    change_fn("timezone.set_zone", "timezone", set_timezone),
    query_fn("timezone.get_zone", "", |m, _| Ok(timezone_name(m)?.into())),
    query_fn("timezone.get_offset", "", |m, _| strftime(m, "%z")),
    query_fn("timezone.get_zonecode", "", |m, _| strftime(m, "%Z")),
];

/// The time zone's name: where `/etc/localtime` points, else what `/etc/timezone` says.
fn timezone_name(machine: &Machine) -> Result<String, FunctionError> {
    let link = machine.read_link("/etc/localtime");
    if let Some((_, zone)) = link.as_deref().and_then(|to| to.split_once("zoneinfo/")) {
        return Ok(zone.to_owned());
    }
    if let Some(zone) = machine.read("/etc/timezone")? {
        return Ok(zone.trim().to_owned());
    }
    Err(FunctionError::failed("neither `/etc/localtime` nor `/etc/timezone` tells the time zone"))
}

fn set_timezone(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (disk, name) = (machine.disk(None), text_arg(args, "timezone")?);
    let file = timezone::zone_file(&disk, name).map_err(fs_error)?;
    let file = file
        .ok_or_else(|| FunctionError::failed(format!("Zone does not exist: /usr/share/zoneinfo/{name}")))?;
    timezone::set_zone(&disk, &file, name, is_debian(machine)).map_err(fs_error)?;
    Ok(true.into())
}
