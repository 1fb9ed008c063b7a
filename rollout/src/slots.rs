//! Agent binaries on disk: a fetched file in, a complete slot that can run out.
//!
//! `slots/<version>/` contains the program and its metadata, and the symlink `slots/current` names the running one. The
//! program from the package is the slot `built-in`; it stays where the package installed it.
//!
//! Law: the content of a slot is synced before the slot gets its name, and hashed again before it runs. A slot that
//! changed never runs: there is always another one, at least the built-in one (held by `every_sync_of_a_slot_is_needed`,
//! `damaged_or_missing_slots_are_skipped`).

#![expect(clippy::disallowed_methods, reason = "owns the program slots: a slot is published by a rename")]

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fail_point;
use zagent_config::durable;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// The name of the program from the package in lists of slots.
pub const BUILT_IN: &str = "built-in";
/// The program in a slot.
const PROGRAM_FILE: &str = "zagent";
/// Its metadata.
const SLOT_FILE: &str = "slot.json";
/// The symlink to the running slot.
const CURRENT_LINK: &str = "current";
/// The longest version name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The metadata of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinarySlot {
    /// Its version.
    pub version: String,
    /// The digest of the program, in hex.
    pub blake3: String,
    /// Its size in bytes.
    pub size: u64,
    /// Where it came from.
    pub source: String,
}

/// A program that can be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProgram {
    /// Its version.
    pub version: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Why a slot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The version cannot be a directory name.
    #[error(
        "`{0}` is not a version: use letters, digits, `.`, `+`, `-` and `_`, and start with a letter or a digit"
    )]
    BadName(String),
    /// The slot does not exist.
    #[error("version {0} is not on this host")]
    Missing(String),
    /// The program changed.
    #[error("the program of version {version} is damaged: {why}")]
    Damaged {
        /// Which.
        version: String,
        /// The problem.
        why: String,
    },
    /// It cannot run on this machine.
    #[error("version {version} cannot run on this machine: {why}")]
    WrongMachine {
        /// Which.
        version: String,
        /// Why.
        why: String,
    },
    /// A disk operation failed.
    #[error("cannot {act} `{}`", path.display())]
    Disk {
        /// The operation.
        act: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its metadata cannot be written or read.
    #[error(transparent)]
    JsonFile(#[from] JsonFileError),
}

fn disk_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SlotError {
    let path = path.to_owned();
    move |source| SlotError::Disk { act, path, source }
}

/// The slots of a node.
#[derive(Clone, Debug)]
pub struct Slots {
    dir: PathBuf,
    built_in: AgentProgram,
}

impl Slots {
    /// The slots in a directory, beside the installed program.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, built_in: AgentProgram) -> Self {
        Self { dir: dir.into(), built_in }
    }

    /// The program that was installed.
    #[must_use]
    pub const fn built_in(&self) -> &AgentProgram {
        &self.built_in
    }

    /// The version of the symlink; the built-in program's version when there is none.
    #[must_use]
    pub fn current(&self) -> String {
        let named = fs::read_link(self.dir.join(CURRENT_LINK)).ok();
        let named = named.as_deref().and_then(Path::to_str).filter(|name| is_version(name));
        named.unwrap_or(&self.built_in.version).to_owned()
    }

    /// True when a version was ever installed here.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.names().iter().any(|name| name == CURRENT_LINK || is_version(name))
    }

    /// The programs in the slots, whether they can run or not, and the built-in one.
    #[must_use]
    pub fn programs(&self) -> Vec<AgentProgram> {
        let versions = self.names().into_iter().filter(|name| is_version(name));
        let in_slot =
            |version: String| AgentProgram { path: self.dir.join(&version).join(PROGRAM_FILE), version };
        versions.map(in_slot).chain([self.built_in.clone()]).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The path for a fetched file. Removes what an earlier attempt left there.
    ///
    /// # Errors
    /// Fails on a disk error.
    pub fn incoming_path(&self) -> Result<PathBuf, SlotError> {
        let dir = &self.dir;
        durable::create_dirs(dir, 0o700).map_err(disk_error("create the directory", dir))?;
        let path = dir.join(".incoming");
        remove_path(&path)?;
        Ok(path)
    }

    /// Creates a slot from a fetched file, which is moved there. It must have this digest.
    ///
    /// # Errors
    /// Fails when the version is not a valid name, the file has a wrong digest or is for another machine, or on a disk
    /// error.
    pub fn install(&self, version: &str, file: &Path, blake3: &str, source: &str) -> Result<(), SlotError> {
        check_version_name(version)?;
        let size = fs::metadata(file).map_err(disk_error("stat", file))?.len();
        let found = file_digest(file).map_err(disk_error("read", file))?;
        if !found.eq_ignore_ascii_case(blake3) {
            let why = format!("its digest is {found}, and the rollout expects {blake3}");
            return Err(SlotError::Damaged { version: version.into(), why });
        }
        let foreign = |why| SlotError::WrongMachine { version: version.into(), why };
        check_machine(file, Path::new("/proc/self/exe"))
            .map_err(disk_error("read", file))?
            .map_err(foreign)?;
        let new = self.dir.join(".new");
        remove_path(&new)?;
        DirBuilder::new().mode(0o700).create(&new).map_err(disk_error("create the directory", &new))?;
        let program = new.join(PROGRAM_FILE);
        fs::rename(file, &program).map_err(disk_error("move", file))?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))
            .and_then(|()| durable::sync_file(&File::open(&program)?, &program))
            .map_err(disk_error("sync", &program))?;
        let slot = BinarySlot { version: version.into(), blake3: found, size, source: source.into() };
        // This syncs the directory, and so the name of the program too.
        json_file::write(&new.join(SLOT_FILE), &slot)?;
        fail_point("slots::written").map_err(disk_error("write", &new))?;
        let place = self.dir.join(version);
        remove_path(&place)?;
        fs::rename(&new, &place).map_err(disk_error("move", &new))?;
        fail_point("slots::named").map_err(disk_error("write", &place))?;
        self.sync_dir()
    }

    /// Finds the program of a version and hashes it again.
    ///
    /// # Errors
    /// Fails when it does not exist, or when it changed.
    pub fn verify(&self, version: &str) -> Result<AgentProgram, SlotError> {
        check_version_name(version)?;
        let dir = self.dir.join(version);
        let Some(slot) = json_file::read::<BinarySlot>(&dir.join(SLOT_FILE))? else {
            let is_built_in = version == self.built_in.version && self.built_in.path.exists();
            return is_built_in
                .then(|| self.built_in.clone())
                .ok_or_else(|| SlotError::Missing(version.into()));
        };
        let damaged = |why: String| SlotError::Damaged { version: version.into(), why };
        if slot.version != version {
            return Err(damaged(format!("its metadata is of version {}", slot.version)));
        }
        let path = dir.join(PROGRAM_FILE);
        let found = file_digest(&path).map_err(|error| damaged(format!("it cannot be read: {error}")))?;
        if found != slot.blake3 {
            return Err(damaged(format!("its digest is {found}, and it was {}", slot.blake3)));
        }
        Ok(AgentProgram { version: version.into(), path })
    }

    /// True when a slot contains exactly this.
    #[must_use]
    pub fn contains(&self, version: &str, blake3: &str) -> bool {
        let slot = json_file::read::<BinarySlot>(&self.dir.join(version).join(SLOT_FILE));
        is_version(version)
            && matches!(slot, Ok(Some(slot)) if slot.blake3.eq_ignore_ascii_case(blake3))
            && self.verify(version).is_ok()
    }

    /// The first of these versions that can run, else the built-in program; and why the others cannot.
    #[must_use]
    pub fn pick_runnable<'a>(
        &self,
        wanted: impl IntoIterator<Item = &'a str>,
    ) -> (AgentProgram, Vec<SlotError>) {
        let mut passed_over = Vec::new();
        for version in wanted {
            match self.verify(version) {
                Ok(program) => return (program, passed_over),
                Err(error) => passed_over.push(error),
            }
        }
        (self.built_in.clone(), passed_over)
    }

    /// Points the symlink to a program; the built-in one has no symlink.
    ///
    /// # Errors
    /// Fails on a disk error; the symlink is then unchanged.
    pub fn set_current(&self, program: &AgentProgram) -> Result<(), SlotError> {
        let link = self.dir.join(CURRENT_LINK);
        if program.path == self.built_in.path {
            return if remove_path(&link)? { self.sync_dir() } else { Ok(()) };
        }
        if fs::read_link(&link).is_ok_and(|named| named == Path::new(&program.version)) {
            return Ok(());
        }
        let new = self.dir.join(".current");
        remove_path(&new)?;
        if fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
            // A rename does not replace a directory.
            remove_path(&link)?;
        }
        std::os::unix::fs::symlink(&program.version, &new).map_err(disk_error("create the symlink", &new))?;
        fs::rename(&new, &link).map_err(disk_error("move", &new))?;
        self.sync_dir()
    }

    /// Removes slots that are not kept, and leftovers of a crash; returns the removed names.
    ///
    /// # Errors
    /// Fails on a disk error.
    pub fn prune(&self, keep: &BTreeSet<&str>) -> Result<Vec<String>, SlotError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(disk_error("read the directory", &self.dir)(error)),
        };
        let mut gone = Vec::new();
        for entry in entries {
            let name = entry.map_err(disk_error("read the directory", &self.dir))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if name != CURRENT_LINK && !keep.contains(name.as_str()) {
                remove_path(&self.dir.join(&name))?;
                gone.push(name);
            }
        }
        gone.sort();
        if gone.is_empty() { Ok(gone) } else { self.sync_dir().map(|()| gone) }
    }

    fn sync_dir(&self) -> Result<(), SlotError> {
        durable::sync_dir(&self.dir).map_err(disk_error("sync the directory", &self.dir))
    }
}

/// True when a version is a valid slot name.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-' | b'_');
    text.len() <= MAX_NAME_BYTES
        && text.bytes().all(plain)
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && !matches!(text, CURRENT_LINK | BUILT_IN)
}

fn check_version_name(version: &str) -> Result<(), SlotError> {
    if is_version(version) { Ok(()) } else { Err(SlotError::BadName(version.into())) }
}

/// The digest of a file, in hex; read in pieces.
fn file_digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Removes a file, a symlink or a directory; false when it did not exist.
fn remove_path(path: &Path) -> Result<bool, SlotError> {
    let gone = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(disk_error("remove", path)(error)),
    }
}

/// Whether a program is built for the machine that another one runs on; if not, why.
///
/// The first twenty bytes of an ELF file contain its class, its byte order and its machine.
fn check_machine(program: &Path, ours: &Path) -> io::Result<Result<(), String>> {
    let head = |path: &Path| -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        File::open(path)?.take(20).read_to_end(&mut head)?;
        Ok(head)
    };
    let (found, ours) = (head(program)?, head(ours)?);
    let kind = |head: &[u8]| Some((*head.get(4)?, *head.get(5)?, head.get(18..20)?.to_vec()));
    Ok(match found.as_slice() {
        [b'#', b'!', ..] => Ok(()),
        [0x7f, b'E', b'L', b'F', ..] if kind(&found) == kind(&ours) => Ok(()),
        [0x7f, b'E', b'L', b'F', ..] => Err("it is built for another processor type".into()),
        _ => Err("it is not a program".into()),
    })
}

#[cfg(test)]
mod tests {
    use zagent_config::durable::testing::{check_cuts, check_syncs};

    use super::*;

    struct SlotsFixture {
        dir: tempfile::TempDir,
        slots: Slots,
    }

    fn place() -> SlotsFixture {
        let dir = tempfile::tempdir().unwrap();
        let built_in = AgentProgram { version: "0.1.0".into(), path: dir.path().join("usr-bin-zagent") };
        fs::write(&built_in.path, "#!/bin/sh\n").unwrap();
        let slots = Slots::new(dir.path().join("slots"), built_in);
        SlotsFixture { dir, slots }
    }

    impl SlotsFixture {
        fn install(&self, version: &str, text: &str) -> Result<(), SlotError> {
            let file = self.slots.incoming_path()?;
            fs::write(&file, text).unwrap();
            let digest = blake3::hash(text.as_bytes()).to_hex().to_string();
            self.slots.install(version, &file, &digest, "https://example.org/zagent")
        }

        fn program(&self, version: &str) -> PathBuf {
            self.dir.path().join("slots").join(version).join(PROGRAM_FILE)
        }
    }

    #[test]
    fn installed_verified_promoted_and_back_to_the_built_in_one() {
        let place = place();
        let slots = &place.slots;
        assert_eq!(slots.current(), "0.1.0");
        place.install("0.2.0", "#!/bin/sh\necho two\n").unwrap();
        assert_eq!(fs::metadata(place.program("0.2.0")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(slots.current(), "0.1.0", "a slot that is only installed does not run");
        let two = slots.verify("0.2.0").unwrap();
        assert_eq!(two, AgentProgram { version: "0.2.0".into(), path: place.program("0.2.0") });
        slots.set_current(&two).unwrap();
        slots.set_current(&two).unwrap();
        assert_eq!(slots.current(), "0.2.0");
        slots.set_current(&slots.verify("0.1.0").unwrap()).unwrap();
        slots.set_current(slots.built_in()).unwrap();
        assert_eq!(slots.current(), "0.1.0");
        assert!(!slots.incoming_path().unwrap().exists());
    }

    #[test]
    fn damaged_or_missing_slots_are_skipped() {
        let place = place();
        place.install("0.2.0", "#!/bin/sh\n2").unwrap();
        place.install("0.3.0", "#!/bin/sh\n3").unwrap();
        let slot_file = place.dir.path().join("slots/0.3.0").join(SLOT_FILE);
        let metadata = fs::read_to_string(&slot_file).unwrap();
        fs::write(&slot_file, metadata.replace("0.3.0", "0.3.1")).unwrap();
        assert!(matches!(place.slots.verify("0.3.0"), Err(SlotError::Damaged { .. })), "another version");
        fs::write(&slot_file, metadata).unwrap();
        let picked = |wanted: &[&str]| {
            let (program, passed_over) = place.slots.pick_runnable(wanted.iter().copied());
            (program.version, passed_over.len())
        };
        assert_eq!(picked(&["0.3.0", "0.2.0"]), ("0.3.0".into(), 0));
        fs::write(place.program("0.3.0"), "#!/bin/sh\n4").unwrap();
        assert!(matches!(place.slots.verify("0.3.0"), Err(SlotError::Damaged { .. })));
        assert_eq!(picked(&["0.3.0", "0.2.0"]), ("0.2.0".into(), 1));
        fs::remove_file(place.program("0.2.0")).unwrap();
        assert_eq!(picked(&["0.3.0", "0.2.0"]), ("0.1.0".into(), 2));
        assert_eq!(picked(&["0.9.0"]), ("0.1.0".into(), 1));
        // A slot that is installed again is complete again.
        place.install("0.3.0", "#!/bin/sh\n3").unwrap();
        assert_eq!(picked(&["0.3.0"]), ("0.3.0".into(), 0));
        assert!(place.slots.contains("0.3.0", blake3::hash(b"#!/bin/sh\n3").to_hex().as_str()));
        assert!(!place.slots.contains("0.3.0", "another"));
        assert!(!place.slots.contains("0.4.0", "any"));
    }

    #[test]
    fn a_wrong_digest_a_wrong_machine_and_a_text_file_are_refused() {
        let place = place();
        let file = place.slots.incoming_path().unwrap();
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let refused = place.slots.install("0.2.0", &file, "00", "here");
        assert!(matches!(refused, Err(SlotError::Damaged { .. })));
        assert!(matches!(place.install("0.2.0", "hello"), Err(SlotError::WrongMachine { .. })));
        let mut ours = fs::read("/proc/self/exe").unwrap();
        ours.truncate(64);
        fs::write(place.dir.path().join("ours"), &ours).unwrap();
        let judged = |head: &[u8]| {
            let path = place.dir.path().join("theirs");
            fs::write(&path, head).unwrap();
            check_machine(&path, &place.dir.path().join("ours")).unwrap().is_ok()
        };
        assert!(judged(&ours));
        for at in [4, 5, 18, 19] {
            let mut theirs = ours.clone();
            theirs[at] ^= 0x55;
            assert!(!judged(&theirs), "byte {at}");
        }
        assert!(!judged(&ours[..10]));
        assert!(matches!(place.slots.verify("0.2.0"), Err(SlotError::Missing(_))));
    }

    /// A node in a directory that loses its power.
    fn power_site() -> (SlotsFixture, PathBuf) {
        let place = place();
        let root = place.dir.path().to_owned();
        (place, root)
    }

    #[test]
    fn every_sync_of_a_slot_is_needed() {
        let points = check_syncs(
            power_site,
            |place| place.install("0.2.0", "#!/bin/sh\n2"),
            |place| place.slots.verify("0.2.0").map(drop).map_err(|error| error.to_string()),
        );
        let expected = [
            "dir .",
            "file slots/.new/zagent",
            "file slots/.new/slot.json.new",
            "dir slots/.new",
            "dir slots",
        ];
        assert_eq!(points, expected);
    }

    #[test]
    fn a_power_cut_at_any_moment_of_an_install_leaves_no_half_slot_that_runs() {
        let cuts = check_cuts(
            power_site,
            |place| place.install("0.2.0", "#!/bin/sh\n2"),
            |place| {
                let picked = place.slots.pick_runnable(["0.2.0"]).0;
                let is_whole = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == b"#!/bin/sh\n2");
                match picked.version.as_str() {
                    "0.2.0" if !is_whole(&picked.path) => Err(format!("{picked:?} is not whole")),
                    // Whatever is left, the next try succeeds.
                    _ => place.install("0.2.0", "#!/bin/sh\n2").map_err(|error| error.to_string()),
                }
            },
        );
        assert!(cuts > 5, "{cuts}");
    }

    #[test]
    fn every_sync_of_the_link_and_of_a_removal_is_needed() {
        let installed = || {
            let (place, root) = power_site();
            place.install("0.2.0", "#!/bin/sh\n2").unwrap();
            (place, root)
        };
        let linked = || {
            let (place, root) = installed();
            place.slots.set_current(&place.slots.verify("0.2.0").unwrap()).unwrap();
            (place, root)
        };
        let names = |place: &SlotsFixture, version: &str| match place.slots.current() {
            found if found == version => Ok(()),
            found => Err(format!("the link names {found}")),
        };
        let points = check_syncs(
            installed,
            |place| place.slots.set_current(&place.slots.verify("0.2.0")?),
            |place| names(place, "0.2.0"),
        );
        assert_eq!(points, ["dir slots"]);
        let points = check_syncs(
            linked,
            |place| place.slots.set_current(place.slots.built_in()),
            |place| names(place, "0.1.0"),
        );
        assert_eq!(points, ["dir slots"]);
        let points = check_syncs(
            installed,
            |place| place.slots.prune(&BTreeSet::new()),
            |place| if place.slots.has_any() { Err("it is back".into()) } else { Ok(()) },
        );
        assert_eq!(points, ["dir slots"]);
    }

    #[test]
    fn the_link_replaces_whatever_is_there() {
        let place = place();
        assert!(!place.slots.has_any());
        place.install("0.2.0", "#!/bin/sh\n").unwrap();
        assert!(place.slots.has_any());
        let link = place.dir.path().join("slots").join(CURRENT_LINK);
        let two = place.slots.verify("0.2.0").unwrap();
        for damage in ["directory", "file", "link"] {
            remove_path(&link).unwrap();
            match damage {
                "directory" => fs::create_dir_all(link.join("inside")).unwrap(),
                "file" => fs::write(&link, [0; 5]).unwrap(),
                _ => std::os::unix::fs::symlink("nowhere/else", &link).unwrap(),
            }
            place.slots.set_current(&two).unwrap();
            assert_eq!(place.slots.current(), "0.2.0", "{damage}");
        }
        let versions: Vec<_> = place.slots.programs().into_iter().map(|program| program.version).collect();
        assert_eq!(versions, ["0.2.0", "0.1.0"]);
    }

    #[test]
    fn only_safe_names_are_versions() {
        for good in ["0.1.0", "1.2.3-rc.1+build_7", "v2", "20260101"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", ".", "..", ".new", "-1", "a/b", "a b", "current", "built-in", "é", &"1".repeat(65)] {
            assert!(!is_version(bad), "{bad}");
            assert!(matches!(place().slots.verify(bad), Err(SlotError::BadName(_))), "{bad}");
        }
    }

    #[test]
    fn pruning_keeps_what_is_named_and_the_link() {
        let place = place();
        for version in ["0.2.0", "0.3.0", "0.4.0"] {
            place.install(version, "#!/bin/sh\n").unwrap();
        }
        place.slots.set_current(&place.slots.verify("0.4.0").unwrap()).unwrap();
        fs::write(place.slots.incoming_path().unwrap(), "half").unwrap();
        let keep = BTreeSet::from(["0.3.0", "0.4.0"]);
        assert_eq!(place.slots.prune(&keep).unwrap(), [".incoming", "0.2.0"]);
        assert_eq!(place.slots.prune(&keep).unwrap(), Vec::<String>::new());
        assert_eq!(place.slots.current(), "0.4.0");
        assert!(place.slots.verify("0.3.0").is_ok());
    }
}
