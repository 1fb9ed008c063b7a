//! States of the module `lvm`: physical volumes, groups of them, and logical volumes.

use std::path::Path;

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::{Act, Kept, Plan, Planner, Row, changed};
use crate::host::Tools;
use crate::host::functions::stores::Given;
use crate::states::{Failure, Scene};

const GONE: Option<&str> = Some("what was on a volume that is removed cannot come back");

pub(super) const TABLE: &[Row] = &[
    ("lvm", "pv_present", |g, s| present(g, s, "pv"), None),
    ("lvm", "pv_absent", |g, s| absent(g, s, "pv"), GONE),
    ("lvm", "vg_present", vg_present as Planner, None),
    ("lvm", "vg_absent", |g, s| absent(g, s, "vg"), GONE),
    ("lvm", "lv_present", lv_present, None),
    ("lvm", "lv_absent", |g, s| absent(g, s, "lv"), GONE),
];

/// A volume or group: one that was new is removed.
pub(super) static VOLUME: Kept = Kept {
    kind: "lvm",
    look: |given, scene| {
        let all = list(&scene.tools(), &given.must("type")?)?;
        let found = all.into_iter().find(|row| given.text("name").as_ref() == row.first());
        Ok(found.map_or(Value::Null, |row| row.into_iter().map(Value::from).collect()))
    },
    put: |given, to, scene| {
        let (kind, name) = (given.must("type")?, given.must("name")?);
        if !to.is_null() {
            return Err(Failure::new(format!("{name} cannot be made as it was")));
        }
        scene.tools().must(&format!("{kind}remove"), &["--yes", "--", &name])?;
        Ok(())
    },
    full: Some(|given, scene| {
        let (kind, name, tools) = (given.must("type")?, given.must("name")?, scene.tools());
        if kind == "pv" {
            // One of a group is refused by the program.
            return Ok(None);
        }
        let args = ["--noheadings", "--separator", ",", "-o", "lv_full_name,lv_device_open,pool_lv,origin"];
        let said = tools.ask("lvs", &args)?;
        if !said.is_fine() {
            return Err(Failure::new(said.words()));
        }
        if let Some(why) = in_use(&kind, &name, &rows(&said.out)) {
            return Ok(Some(why.to_owned()));
        }
        if kind == "vg" {
            return Ok(None);
        }
        let said = tools.ask("blkid", &["-p", "--", &format!("/dev/{name}")])?;
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

fn noun(kind: &str) -> &'static str {
    match kind {
        "pv" => "Physical Volume",
        "vg" => "Volume Group",
        _ => "Logical Volume",
    }
}

/// All of a kind: name (`vg/lv` of a logical volume), then group, or size and size of an extent in bytes.
fn list(tools: &Tools<'_>, kind: &str) -> Result<Vec<Vec<String>>, Refusal> {
    let fields = match kind {
        "pv" => "pv_name,vg_name",
        "vg" => "vg_name",
        _ => "lv_full_name,lv_size,vg_extent_size",
    };
    let args = ["--noheadings", "--nosuffix", "--units", "b", "--separator", ",", "-o", fields];
    let said = tools.ask(&format!("{kind}s"), &args)?;
    if !said.is_fine() {
        return Err(Refusal::failed(said.words().to_owned()));
    }
    Ok(rows(&said.out))
}

fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    lines.map(|l| l.split(',').map(|f| f.trim().to_owned()).collect()).collect()
}

fn key(kind: &str, name: &str) -> Value {
    Map::from_iter([("name", name), ("type", kind)]).into()
}

/// A device by its real name, as the listing has it.
fn device(name: &str) -> String {
    Path::new(name).canonicalize().map_or_else(|_| name.to_owned(), |p| p.display().to_string())
}

/// Options of the program that are passed on as they are.
fn extra(given: &Given<'_>) -> Vec<String> {
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
    let mut words: Vec<String> = SWITCHES.iter().filter(|k| given.is(k)).map(|k| format!("--{k}")).collect();
    words.extend(OPTIONS.iter().filter_map(|k| Some(format!("--{k}={}", given.text(k)?))));
    words
}

fn make(kind: &'static str, name: &str, thing: &str, program: &'static str, args: Vec<String>) -> Plan {
    let noun = noun(kind);
    Plan::Act(Act {
        would: format!("{noun} {name} is set to be created"),
        did: format!("Created {noun} {name}"),
        fails: format!("Failed to create {noun} {name}"),
        changes: changed("created", name),
        thing: Some((&VOLUME, key(kind, thing))),
        act: Box::new(move |scene| Ok(scene.tools().must(program, &args).map(|_| ())?)),
    })
}

fn present(given: &Given<'_>, scene: &Scene<'_>, kind: &'static str) -> Result<Plan, Failure> {
    let name = given.must("name")?;
    let real = device(&name);
    if list(&scene.tools(), kind)?.iter().any(|row| row.first() == Some(&real)) {
        return Ok(Plan::Right(format!("{} {name} already present", noun(kind))));
    }
    let mut args = vec!["--yes".to_owned()];
    args.extend(extra(given));
    args.extend(["--".to_owned(), real.clone()]);
    Ok(make(kind, &name, &real, "pvcreate", args))
}

fn vg_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let devices = given.texts("devices").unwrap_or_default();
    if !list(&tools, "vg")?.iter().any(|row| row.first() == Some(&name)) {
        let mut args = vec!["--yes".to_owned()];
        args.extend(extra(given));
        args.extend(["--".to_owned(), name.clone()]);
        args.extend(devices);
        return Ok(make("vg", &name, &name, "vgcreate", args));
    }
    let (pvs, mut adding) = (list(&tools, "pv")?, Vec::new());
    for one in &devices {
        let real = device(one);
        match pvs.iter().find(|row| row.first() == Some(&real)).and_then(|row| row.get(1)) {
            None => {
                return Err(Failure::new(format!(
                    "Volume Group {name} already present\npv {one} is not present"
                )));
            }
            Some(group) if *group == name => {}
            Some(group) if group.is_empty() => adding.push(one.clone()),
            Some(group) => {
                return Err(Failure::new(format!(
                    "Volume Group {name} already present\n{one} is part of {group}"
                )));
            }
        }
    }
    if adding.is_empty() {
        let mut words = format!("Volume Group {name} already present");
        devices.iter().for_each(|d| words.push_str(&format!("\n{d} is part of Volume Group")));
        return Ok(Plan::Right(words));
    }
    let mut args = vec!["--yes".to_owned(), "--".to_owned(), name.clone()];
    args.extend(adding.iter().cloned());
    Ok(Plan::Act(Act {
        would: format!("{} is set to be added to {name}", adding.join(", ")),
        did: format!("Volume Group {name} already present"),
        fails: format!("{} could not be added", adding.join(", ")),
        changes: adding.iter().map(|d| (d.as_str(), Value::from(format!("added to {name}")))).collect(),
        thing: None,
        act: Box::new(move |scene| Ok(scene.tools().must("vgextend", &args).map(|_| ())?)),
    }))
}

/// Bytes of `10G`; megabytes without a unit.
fn bytes(text: &str) -> Option<u64> {
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

fn lv_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (own, vg) = (given.must("name")?, given.must("vgname")?);
    let (size, extents, snapshot) = (given.text("size"), given.text("extents"), given.text("snapshot"));
    if size.is_some() && extents.is_some() {
        return Err(Failure::new("Only one of extents or size can be specified."));
    }
    let name = snapshot.clone().unwrap_or_else(|| own.clone());
    let path = format!("{}/{name}", vg.split('/').next().unwrap_or_default());
    let all = list(&scene.tools(), "lv")?;
    let Some(row) = all.iter().find(|row| row.first() == Some(&path)) else {
        let (thin, pool) = (given.is("thinvolume"), given.is("thinpool"));
        let mut args = vec![if given.is("force") { "--yes" } else { "-qq" }.to_owned()];
        args.extend(thin.then(|| "--thin".to_owned()));
        args.extend([if pool { "--thinpool" } else { "--name" }.to_owned(), name.clone()]);
        args.extend(extra(given));
        match (&size, &extents) {
            (Some(size), _) => {
                args.extend([if thin { "--virtualsize" } else { "--size" }.to_owned(), size.clone()]);
            }
            (None, Some(extents)) if !thin => args.extend(["--extents".to_owned(), extents.clone()]),
            _ => return Err(Failure::new("Either size or extents must be specified")),
        }
        match snapshot {
            Some(_) => args.extend(["--snapshot".to_owned(), "--".to_owned(), format!("{vg}/{own}")]),
            None => args.extend(["--".to_owned(), vg]),
        }
        args.extend(given.text("pv"));
        return Ok(make("lv", &name, &path, "lvcreate", args));
    };
    let field = |n: usize| row.get(n).and_then(|t| t.parse::<u64>().ok()).unwrap_or_default();
    let (now, extent) = (field(1), field(2).max(1));
    let wanted = match (&size, &extents) {
        (Some(size), _) => Some(bytes(size).ok_or_else(|| Failure::new(format!("`{size}` is no size")))?),
        (None, Some(e)) if !e.contains('%') => e.parse::<u64>().ok().map(|n| n * extent),
        _ => None,
    };
    let wanted = wanted.map(|n| n.div_ceil(extent) * extent);
    let Some(wanted) = wanted.filter(|w| *w != now) else {
        return Ok(Plan::Right(format!("Logical Volume {name} already present")));
    };
    if wanted < now && !given.is("force") {
        return Err(Failure::new("To reduce a Logical Volume option 'force' must be True."));
    }
    let mut args = vec![if given.is("force") { "--force" } else { "-qq" }.to_owned()];
    args.extend(given.is("resizefs").then(|| "--resizefs".to_owned()));
    args.extend(["--size".to_owned(), format!("{wanted}b"), "--".to_owned(), path.clone()]);
    Ok(Plan::Act(Act {
        would: format!("Logical Volume {name} is set to be resized"),
        did: format!("Resized Logical Volume {name}"),
        fails: format!("Failed to resize Logical Volume {name}"),
        changes: changed("resized", Map::from_iter([("old", now.to_string()), ("new", wanted.to_string())])),
        thing: Some((&VOLUME, key("lv", &path))),
        act: Box::new(move |scene| Ok(scene.tools().must("lvresize", &args).map(|_| ())?)),
    }))
}

fn absent(given: &Given<'_>, scene: &Scene<'_>, kind: &'static str) -> Result<Plan, Failure> {
    let name = given.must("name")?;
    let path = match kind {
        "lv" => format!("{}/{name}", given.must("vgname")?),
        "pv" => device(&name),
        _ => name.clone(),
    };
    let noun = noun(kind);
    if !list(&scene.tools(), kind)?.iter().any(|row| row.first() == Some(&path)) {
        let how = if kind == "pv" { "does not exist" } else { "already absent" };
        return Ok(Plan::Right(format!("{noun} {name} {how}")));
    }
    Ok(Plan::Act(Act {
        would: format!("{noun} {name} is set to be removed"),
        did: format!("Removed {noun} {name}"),
        fails: format!("Failed to remove {noun} {name}"),
        changes: changed("removed", name),
        thing: None,
        act: Box::new(move |scene| {
            Ok(scene.tools().must(&format!("{kind}remove"), &["--yes", "--", &path]).map(|_| ())?)
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
            assert_eq!(bytes(text), Some(want), "{text}");
        }
        assert_eq!(bytes("a lot"), None);
    }

    #[test]
    fn what_is_needed_stays() {
        let all = rows("  vg0/a,open,,\n  vg0/b,,,\n  vg0/pool,,,\n  vg0/thin,,pool,\n  vg1/pool,,,\n");
        assert_eq!(in_use("lv", "vg0/a", &all), Some("the volume is in use"));
        assert_eq!(in_use("lv", "vg0/b", &all), None);
        assert_eq!(in_use("lv", "vg0/pool", &all), Some("other volumes are made of it"));
        assert_eq!(in_use("lv", "vg1/pool", &all), None);
        assert_eq!(in_use("vg", "vg0", &all), Some("there are logical volumes in the group"));
        assert_eq!(in_use("vg", "vg2", &all), None);
    }

    #[test]
    fn a_listing() {
        assert_eq!(rows("  /dev/loop0,vg0\n  /dev/loop1,\n"), [["/dev/loop0", "vg0"], ["/dev/loop1", ""]]);
    }
}
