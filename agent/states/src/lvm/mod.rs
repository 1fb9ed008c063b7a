//! States of the module `lvm`: physical volumes, groups of them, and logical volumes.

use std::path::Path;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, Effects, StateCtx, StateError};
use zagent_host::Tools;

const VOLUME_LOST: &str = "what was on a volume that is removed cannot come back";

/// The module `lvm`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "lvm",
    build,
    functions: &[],
    undo: &[&LVM_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule {
    functions: &[
        StoreFunction::new("pv_present", pv_present),
        StoreFunction::new("pv_absent", |given, ctx| absent(given, ctx, "pv")).irreversible(VOLUME_LOST),
        StoreFunction::new("vg_present", vg_present),
        StoreFunction::new("vg_absent", |given, ctx| absent(given, ctx, "vg")).irreversible(VOLUME_LOST),
        StoreFunction::new("lv_present", lv_present),
        StoreFunction::new("lv_absent", |given, ctx| absent(given, ctx, "lv")).irreversible(VOLUME_LOST),
    ],
    login: None,
    reads: Effects::KERNEL.union(Effects::PACKAGE_FILES),
    writes: Effects::KERNEL,
};

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// A volume or group: one that was new is removed.
pub(crate) static LVM_UNDO: StoreUndo = StoreUndo {
    kind: "lvm",
    login: None,
    capture: |given, ctx| {
        let all = list_volumes(&ctx.tools(), &given.require_text("type")?)?;
        let found = all.into_iter().find(|row| given.text("name").as_ref() == row.first());
        Ok(found.map_or(Value::Null, |row| row.into_iter().map(Value::from).collect()))
    },
    restore: |given, to, ctx| {
        let (kind, name) = (given.require_text("type")?, given.require_text("name")?);
        if !to.is_null() {
            return Err(StateError::new(format!("{name} cannot be made as it was")));
        }
        ctx.tools().run_checked(&format!("{kind}remove"), &["--yes", "--", &name])?;
        Ok(())
    },
    keep_reason: Some(|given, ctx| {
        let (kind, name, tools) = (given.require_text("type")?, given.require_text("name")?, ctx.tools());
        if kind == "pv" {
            // One of a group is refused by the program.
            return Ok(None);
        }
        let args = ["--noheadings", "--separator", ",", "-o", "lv_full_name,lv_device_open,pool_lv,origin"];
        let said = tools.run_query("lvs", &args)?;
        if !said.is_success() {
            return Err(StateError::new(said.message()));
        }
        if let Some(why) = in_use(&kind, &name, &parse_rows(&said.stdout)) {
            return Ok(Some(why.to_owned()));
        }
        if kind == "vg" {
            return Ok(None);
        }
        let said = tools.run_query("blkid", &["-p", "--", &format!("/dev/{name}")])?;
        // Two: nothing was found on it.
        Ok((said.code != 2).then(|| "there is something on the volume".to_owned()))
    }),
};

/// Why a group or a logical volume is needed, by the listing of all logical volumes: name, whether open, pool, origin.
fn in_use(kind: &str, name: &str, all: &[Vec<String>]) -> Option<&'static str> {
    let (vg, lv) = name.split_once('/').unwrap_or((name, ""));
    let within = |row: &&Vec<String>| row.first().is_some_and(|n| n.split('/').next() == Some(vg));
    let is = |row: &Vec<String>, at: usize, text: &str| row.get(at).is_some_and(|t| t == text);
    let mut rows = all.iter().filter(within);
    if kind == "vg" {
        return rows.next().map(|_| "there are logical volumes in the group");
    }
    rows.find_map(|row| {
        if is(row, 0, name) && is(row, 1, "open") {
            Some("the volume is in use")
        } else if is(row, 2, lv) || is(row, 3, lv) {
            Some("other volumes are made of it")
        } else {
            None
        }
    })
}

fn kind_label(kind: &str) -> &'static str {
    match kind {
        "pv" => "Physical Volume",
        "vg" => "Volume Group",
        _ => "Logical Volume",
    }
}

/// All of a kind: name (`vg/lv` of a logical volume), then group, or size and size of an extent in bytes.
fn list_volumes(tools: &Tools<'_>, kind: &str) -> Result<Vec<Vec<String>>, FunctionError> {
    let fields = match kind {
        "pv" => "pv_name,vg_name",
        "vg" => "vg_name",
        _ => "lv_full_name,lv_size,vg_extent_size",
    };
    let args = ["--noheadings", "--nosuffix", "--units", "b", "--separator", ",", "-o", fields];
    let said = tools.run_query(&format!("{kind}s"), &args)?;
    if !said.is_success() {
        return Err(FunctionError::failed(said.message().to_owned()));
    }
    Ok(parse_rows(&said.stdout))
}

fn parse_rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    lines.map(|l| l.split(',').map(|f| f.trim().to_owned()).collect()).collect()
}

fn undo_key(kind: &str, name: &str) -> Value {
    Map::from_iter([("name", name), ("type", kind)]).into()
}

/// A device by its real name, as the listing has it.
fn real_device(name: &str) -> String {
    Path::new(name).canonicalize().map_or_else(|_| name.to_owned(), |p| p.display().to_string())
}

/// Options of the program that are passed on as they are.
fn extra_options(given: &NamedArgs<'_>) -> Vec<String> {
    const SWITCHES: [&str; 4] = ["nosync", "noudevsync", "ignoremonitoring", "clustered"];
    const OPTIONS: [&str; 27] = [
        "activate",
        "chunksize",
        "contiguous",
        "discards",
        "stripes",
        "stripesize",
        "minor",
        "persistent",
        "mirrors",
        "monitor",
        "permission",
        "poolmetadatasize",
        "readahead",
        "regionsize",
        "type",
        "virtualsize",
        "zero",
        "metadatasize",
        "dataalignment",
        "dataalignmentoffset",
        "pvmetadatacopies",
        "metadatacopies",
        "metadataignore",
        "labelsector",
        "maxlogicalvolumes",
        "maxphysicalvolumes",
        "physicalextentsize",
    ];
    let mut words: Vec<String> =
        SWITCHES.iter().filter(|k| given.is_enabled(k)).map(|k| format!("--{k}")).collect();
    words.extend(OPTIONS.iter().filter_map(|k| Some(format!("--{k}={}", given.text(k)?))));
    words
}

fn plan_create(
    kind: &'static str,
    name: &str,
    thing: &str,
    program: &'static str,
    args: Vec<String>,
) -> StatePlan {
    let noun = kind_label(kind);
    StatePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be created"),
        done_comment: format!("Created {noun} {name}"),
        failure_prefix: format!("Failed to create {noun} {name}"),
        changes: single_change("created", name),
        undoable: Some((&LVM_UNDO, undo_key(kind, thing))),
        run_change: Box::new(move |ctx| Ok(ctx.tools().run_checked(program, &args).map(|_| ())?)),
    })
}

fn pv_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let kind = "pv";
    let name = given.require_text("name")?;
    let real = real_device(&name);
    if list_volumes(&ctx.tools(), kind)?.iter().any(|row| row.first() == Some(&real)) {
        return Ok(StatePlan::InSync(format!("{} {name} already present", kind_label(kind))));
    }
    let mut args = vec!["--yes".to_owned()];
    args.extend(extra_options(given));
    args.extend(["--".to_owned(), real.clone()]);
    Ok(plan_create(kind, &name, &real, "pvcreate", args))
}

fn vg_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let devices = given.text_list("devices").unwrap_or_default();
    if !list_volumes(&tools, "vg")?.iter().any(|row| row.first() == Some(&name)) {
        let mut args = vec!["--yes".to_owned()];
        args.extend(extra_options(given));
        args.extend(["--".to_owned(), name.clone()]);
        args.extend(devices);
        return Ok(plan_create("vg", &name, &name, "vgcreate", args));
    }
    let (pvs, mut adding) = (list_volumes(&tools, "pv")?, Vec::new());
    for one in &devices {
        let real = real_device(one);
        match pvs.iter().find(|row| row.first() == Some(&real)).and_then(|row| row.get(1)) {
            None => {
                return Err(StateError::new(format!(
                    "Volume Group {name} already present\npv {one} is not present"
                )));
            }
            Some(group) if *group == name => {}
            Some(group) if group.is_empty() => adding.push(one.clone()),
            Some(group) => {
                return Err(StateError::new(format!(
                    "Volume Group {name} already present\n{one} is part of {group}"
                )));
            }
        }
    }
    if adding.is_empty() {
        let mut words = format!("Volume Group {name} already present");
        devices.iter().for_each(|d| words.push_str(&format!("\n{d} is part of Volume Group")));
        return Ok(StatePlan::InSync(words));
    }
    let mut args = vec!["--yes".to_owned(), "--".to_owned(), name.clone()];
    args.extend(adding.iter().cloned());
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("{} is set to be added to {name}", adding.join(", ")),
        done_comment: format!("Volume Group {name} already present"),
        failure_prefix: format!("{} could not be added", adding.join(", ")),
        changes: adding.iter().map(|d| (d.as_str(), Value::from(format!("added to {name}")))).collect(),
        undoable: None,
        run_change: Box::new(move |ctx| Ok(ctx.tools().run_checked("vgextend", &args).map(|_| ())?)),
    }))
}

/// Bytes of `10G`; megabytes without a unit.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['b', 'B', 'i']);
    let last = text.chars().last()?.to_ascii_lowercase();
    let (number, unit) = match "skmgtp".find(last) {
        Some(0) => (&text[..text.len() - 1], 512.0),
        Some(n) => (&text[..text.len() - 1], 1024_f64.powi(i32::try_from(n).ok()?)),
        None => (text, 1024.0 * 1024.0),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of disks fit")]
    number.trim().parse::<f64>().ok().filter(|n| *n >= 0.0).map(|n| (n * unit) as u64)
}

fn lv_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (own, vg) = (given.require_text("name")?, given.require_text("vgname")?);
    let (size, extents, snapshot) = (given.text("size"), given.text("extents"), given.text("snapshot"));
    if size.is_some() && extents.is_some() {
        return Err(StateError::new("Only one of extents or size can be specified."));
    }
    let name = snapshot.clone().unwrap_or_else(|| own.clone());
    let path = format!("{}/{name}", vg.split('/').next().unwrap_or_default());
    let all = list_volumes(&ctx.tools(), "lv")?;
    let Some(row) = all.iter().find(|row| row.first() == Some(&path)) else {
        let (thin, pool) = (given.is_enabled("thinvolume"), given.is_enabled("thinpool"));
        let mut args = vec![if given.is_enabled("force") { "--yes" } else { "-qq" }.to_owned()];
        args.extend(thin.then(|| "--thin".to_owned()));
        args.extend([if pool { "--thinpool" } else { "--name" }.to_owned(), name.clone()]);
        args.extend(extra_options(given));
        match (&size, &extents) {
            (Some(size), _) => {
                args.extend([if thin { "--virtualsize" } else { "--size" }.to_owned(), size.clone()]);
            }
            (None, Some(extents)) if !thin => args.extend(["--extents".to_owned(), extents.clone()]),
            _ => return Err(StateError::new("Either size or extents must be specified")),
        }
        match snapshot {
            Some(_) => args.extend(["--snapshot".to_owned(), "--".to_owned(), format!("{vg}/{own}")]),
            None => args.extend(["--".to_owned(), vg]),
        }
        args.extend(given.text("pv"));
        return Ok(plan_create("lv", &name, &path, "lvcreate", args));
    };
    let field = |n: usize| row.get(n).and_then(|t| t.parse::<u64>().ok()).unwrap_or_default();
    let (now, extent) = (field(1), field(2).max(1));
    let wanted = match (&size, &extents) {
        (Some(size), _) => {
            Some(parse_size(size).ok_or_else(|| StateError::new(format!("`{size}` is no size")))?)
        }
        (None, Some(e)) if !e.contains('%') => e.parse::<u64>().ok().map(|n| n * extent),
        _ => None,
    };
    let wanted = wanted.map(|n| n.div_ceil(extent) * extent);
    let Some(wanted) = wanted.filter(|w| *w != now) else {
        return Ok(StatePlan::InSync(format!("Logical Volume {name} already present")));
    };
    if wanted < now && !given.is_enabled("force") {
        return Err(StateError::new("To reduce a Logical Volume option 'force' must be True."));
    }
    let mut args = vec![if given.is_enabled("force") { "--force" } else { "-qq" }.to_owned()];
    args.extend(given.is_enabled("resizefs").then(|| "--resizefs".to_owned()));
    args.extend(["--size".to_owned(), format!("{wanted}b"), "--".to_owned(), path.clone()]);
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Logical Volume {name} is set to be resized"),
        done_comment: format!("Resized Logical Volume {name}"),
        failure_prefix: format!("Failed to resize Logical Volume {name}"),
        changes: single_change(
            "resized",
            Map::from_iter([("old", now.to_string()), ("new", wanted.to_string())]),
        ),
        undoable: Some((&LVM_UNDO, undo_key("lv", &path))),
        run_change: Box::new(move |ctx| Ok(ctx.tools().run_checked("lvresize", &args).map(|_| ())?)),
    }))
}

fn absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, kind: &'static str) -> Result<StatePlan, StateError> {
    let name = given.require_text("name")?;
    let path = match kind {
        "lv" => format!("{}/{name}", given.require_text("vgname")?),
        "pv" => real_device(&name),
        _ => name.clone(),
    };
    let noun = kind_label(kind);
    if !list_volumes(&ctx.tools(), kind)?.iter().any(|row| row.first() == Some(&path)) {
        let how = if kind == "pv" { "does not exist" } else { "already absent" };
        return Ok(StatePlan::InSync(format!("{noun} {name} {how}")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be removed"),
        done_comment: format!("Removed {noun} {name}"),
        failure_prefix: format!("Failed to remove {noun} {name}"),
        changes: single_change("removed", name),
        undoable: None,
        run_change: Box::new(move |ctx| {
            Ok(ctx.tools().run_checked(&format!("{kind}remove"), &["--yes", "--", &path]).map(|_| ())?)
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let all = [
            ("100", 104_857_600),
            ("10G", 10_737_418_240),
            ("4m", 4_194_304),
            ("8S", 4096),
            ("1.5GiB", 1_610_612_736),
        ];
        for (text, want) in all {
            assert_eq!(parse_size(text), Some(want), "{text}");
        }
        assert_eq!(parse_size("a lot"), None);
    }

    #[test]
    fn what_is_needed_stays() {
        let all = parse_rows("  vg0/a,open,,\n  vg0/b,,,\n  vg0/pool,,,\n  vg0/thin,,pool,\n  vg1/pool,,,\n");
        assert_eq!(in_use("lv", "vg0/a", &all), Some("the volume is in use"));
        assert_eq!(in_use("lv", "vg0/b", &all), None);
        assert_eq!(in_use("lv", "vg0/pool", &all), Some("other volumes are made of it"));
        assert_eq!(in_use("lv", "vg1/pool", &all), None);
        assert_eq!(in_use("vg", "vg0", &all), Some("there are logical volumes in the group"));
        assert_eq!(in_use("vg", "vg2", &all), None);
    }

    #[test]
    fn a_listing() {
        assert_eq!(
            parse_rows("  /dev/loop0,vg0\n  /dev/loop1,\n"),
            [["/dev/loop0", "vg0"], ["/dev/loop1", ""]]
        );
    }
}
