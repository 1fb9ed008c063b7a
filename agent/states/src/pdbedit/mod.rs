//! States of the module `pdbedit`: accounts of Samba.
//!
//! Law: neither a password nor what is kept of one is a word of a program, and no account is open to everybody, not
//! even for a moment (held by `a_new_account_is_proven_by_something`).

#![expect(clippy::disallowed_methods, reason = "a changed password gets the current time")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zagent_config::{Map, Value};

use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};
use zagent_host::Tools;
use zagent_host::temp_file::PrivateTempFile;

const ACCOUNT_DELETED: &str = "an account of Samba that is deleted cannot come back";

/// The module `pdbedit`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "pdbedit",
    build,
    functions: &[],
    undo: &[&PDBEDIT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("managed", plan_managed),
        StoreFunction::new("present", plan_managed),
        StoreFunction::new("absent", plan_absent).irreversible(ACCOUNT_DELETED),
    ],
    None,
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// An account: one that was new is deleted, one that was changed gets its fields and its hash back.
pub(crate) static PDBEDIT_UNDO: StoreUndo = StoreUndo {
    kind: "samba_account",
    login: None,
    capture: |given, ctx| {
        Ok(find_account(&ctx.tools(), &given.require_text("name")?)?.map_or(Value::Null, Value::from))
    },
    restore: |given, to, ctx| {
        let (tools, name) = (ctx.tools(), given.require_text("name")?);
        let Some(was) = to.as_map() else {
            return Ok(tools.run_checked("pdbedit", &["-x", "-u", &name]).map(|_| ())?);
        };
        let Some(now) = find_account(&tools, &name)? else {
            return Err(StateError::new(ACCOUNT_DELETED));
        };
        let hash = was.get("hash").and_then(Value::as_str).unwrap_or_default();
        if !has_field_value(&now, "hash", hash) {
            return import_account(&tools, &name, hash, Some(was));
        }
        Ok(tools.run_checked("pdbedit", &restore_args(&name, was, &now)).map(|_| ())?)
    },
    keep_reason: None,
};

/// The words that make an account as it was, but for its password.
fn restore_args(name: &str, was: &Map, now: &Map) -> Vec<String> {
    let mut args = vec!["-u".to_owned(), name.to_owned()];
    let lost =
        |label: &str| was.get(label).and_then(Value::as_str).filter(|v| !has_field_value(now, label, v));
    for (_, option, label) in FIELDS {
        let value =
            lost(label).map(|v| if label == ACCOUNT_FLAGS { settable_flags(v) } else { v.to_owned() });
        args.extend(value.map(|value| format!("{option}={value}")));
    }
    args.extend(lost("User SID").map(|sid| format!("-U{sid}")));
    args
}

const ACCOUNT_FLAGS: &str = "Account Flags";

/// Of an account's flags those that can be set; the others say what kind of account it is.
fn settable_flags(flags: &str) -> String {
    format!("[{}]", flags.chars().filter(|c| "NDHLX".contains(*c)).collect::<String>())
}

/// How an account is proven.
enum SambaCredential {
    Password(String),
    /// What Samba keeps of one, as good as the password itself.
    Hash(String),
    /// Nobody can.
    Nothing,
}

/// What no hash is like: nothing matches it.
const NO_HASH: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX";

impl SambaCredential {
    /// What is declared; an account that is open to everybody is refused.
    fn from_args(given: &NamedArgs<'_>, is_new: bool) -> Result<Self, StateError> {
        match given.text("password") {
            Some(text) if given.is_enabled("password_hashed") => {
                if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(StateError::new("`password` is no hash: it must have 32 hexadecimal digits"));
                }
                Ok(Self::Hash(text.to_ascii_uppercase()))
            }
            Some(text) if text.contains(['\n', '\0']) => Err(StateError::new("`password` must be one line")),
            Some(text) => Ok(Self::Password(text)),
            None if is_new && !given.text("account_control").is_some_and(|c| c.contains('D')) => {
                Err(StateError::new(
                    "a new account needs a `password`, unless it is made disabled (`account_control: '[D]'`)",
                ))
            }
            None => Ok(Self::Nothing),
        }
    }

    fn nt_hash_value(&self) -> Option<String> {
        match self {
            Self::Password(text) => Some(nt_hash(text)),
            Self::Hash(hash) => Some(hash.clone()),
            Self::Nothing => None,
        }
    }

    /// Gives it to an account that is so now, or makes one.
    fn set(&self, tools: &Tools<'_>, name: &str, now: Option<&Map>) -> Result<(), StateError> {
        match self {
            Self::Hash(hash) => import_account(tools, name, hash, now),
            Self::Nothing => import_account(tools, name, NO_HASH, now),
            Self::Password(password) => {
                let mut command =
                    Tools::command("pdbedit", &["-a", "-t", "-u", name], Duration::from_secs(60));
                command.stdin = format!("{password}\n{password}\n").into_bytes();
                let said = tools.run(command)?;
                if said.is_success() { Ok(()) } else { Err(StateError::new(said.message())) }
            }
        }
    }
}

/// Makes an account by what is kept of its password, through a file that only we can read: everybody sees words. What
/// there was of it is lost by that and is given back.
fn import_account(tools: &Tools<'_>, name: &str, hash: &str, was: Option<&Map>) -> Result<(), StateError> {
    let account =
        zagent_host::command_options::RunAsUser::find(tools.machine, name).map_err(StateError::new)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let line = smbpasswd_line(name, account.ids.uid, hash, now)?;
    let file = PrivateTempFile::new(tools.machine, line.as_bytes(), ".smb", None)
        .map_err(|e| StateError::new(format!("cannot write the account: {e}")))?;
    tools.run_checked("pdbedit", &["-i", &format!("smbpasswd:{}", file.path().display())])?;
    if let Some(was) = was {
        tools.run_checked("pdbedit", &restore_args(name, was, &Map::new()))?;
    }
    Ok(())
}

/// A line of a file of accounts.
fn smbpasswd_line(name: &str, uid: u32, hash: &str, seconds: u64) -> Result<String, StateError> {
    if name.contains([':', '\n']) || hash.contains([':', '\n']) {
        return Err(StateError::new(format!("`{name}` cannot be the name of an account")));
    }
    let flags = if hash == NO_HASH { "DU" } else { "U" };
    Ok(format!("{name}:{uid}:{NO_HASH}:{hash}:[{flags:11}]:LCT-{:08X}:\n", seconds & 0xFFFF_FFFF))
}

fn has_field_value(account: &Map, label: &str, value: &str) -> bool {
    account.get(label).and_then(Value::as_str) == Some(value)
}

/// What can be set: the argument, the option, and what the program calls it.
const FIELDS: [(&str, &str, &str); 8] = [
    ("fullname", "--fullname", "Full Name"),
    ("homedir", "--homedir", "Home Directory"),
    ("drive", "--drive", "HomeDir Drive"),
    ("script", "--script", "Logon Script"),
    ("profile", "--profile", "Profile Path"),
    ("domain", "--domain", "Domain"),
    ("account_desc", "--account-desc", "Account desc"),
    ("account_control", "--account-control", ACCOUNT_FLAGS),
];

/// What the program says of an account, with `hash` from its other listing; none when there is none.
fn find_account(tools: &Tools<'_>, name: &str) -> Result<Option<Map>, StateError> {
    let said = tools.run_query("pdbedit", &["-L", "-v", "-u", name])?;
    if !said.is_success() {
        let is_missing = said.message().contains("not found");
        return if is_missing { Ok(None) } else { Err(StateError::new(said.message())) };
    }
    let mut all: Map = said
        .stdout
        .lines()
        .filter_map(|l| l.split_once(':'))
        .map(|(k, v)| (k.trim(), Value::from(v.trim())))
        .collect();
    let line = tools.run_checked("pdbedit", &["-L", "-w", "-u", name])?.stdout;
    all.insert("hash", line.split(':').nth(3).unwrap_or_default());
    all.retain(|e| !matches!(e.key.as_str(), Some(k) if k.contains("time") || k.contains("assword")));
    Ok(Some(all))
}

fn plan_managed(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.text("login").map_or_else(|| given.require_text("name"), Ok)?);
    let now = find_account(&tools, &name)?;
    let flags = |text: &str| {
        let mut all: Vec<char> = settable_flags(text).chars().collect();
        all.sort_unstable();
        all
    };
    let (mut args, mut differing) = (vec!["-u".to_owned(), name.clone()], Map::new());
    for (key, option, label) in FIELDS {
        let Some(wanted) = given.text(key) else { continue };
        let has = now.as_ref().and_then(|n| n.get(label)).and_then(Value::as_str).unwrap_or_default();
        if if key == "account_control" { flags(has) != flags(&wanted) } else { has != wanted } {
            differing.insert(key, wanted.as_str());
            args.push(format!("{option}={wanted}"));
        }
    }
    let proof = SambaCredential::from_args(given, now.is_none())?;
    let has = now.as_ref().and_then(|n| n.get("hash")).and_then(Value::as_str).unwrap_or_default();
    let sets = now.is_none() || proof.nt_hash_value().is_some_and(|hash| hash != has);
    if sets && !matches!(proof, SambaCredential::Nothing) {
        differing.insert("password", true);
    }
    if now.is_some() && differing.is_empty() {
        return Ok(StatePlan::InSync(format!("account {name} already in desired state")));
    }
    let past = if now.is_some() { "updated" } else { "created" };
    let (is_new, own) = (now.is_none(), name.clone());
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("account {name} would be {past}"),
        done_comment: format!("account {name} {past}"),
        failure_prefix: format!("account {name} could not be {past}"),
        changes: single_change(&name, if is_new { Value::from("created") } else { differing.into() }),
        undoable: Some((&PDBEDIT_UNDO, Value::from(name.as_str()))),
        run_change: Box::new(move |ctx| {
            let tools = ctx.tools();
            if sets {
                proof.set(&tools, &own, now.as_ref())?;
            }
            let done = if args.len() > 2 { tools.run_checked("pdbedit", &args).map(|_| ()) } else { Ok(()) };
            if done.is_err() && is_new {
                // Half of an account is not left open; why it could not be made is said.
                let _ = tools.run_change("pdbedit", &["-x", "-u", &own]);
            }
            Ok(done?)
        }),
    }))
}

fn plan_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let name = given.require_text("name")?;
    if find_account(&ctx.tools(), &name)?.is_none() {
        return Ok(StatePlan::InSync(format!("account {name} is absent")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("account {name} would be deleted"),
        done_comment: format!("account {name} deleted"),
        failure_prefix: format!("account {name} could not be deleted"),
        changes: single_change(&name, "deleted"),
        undoable: None,
        run_change: Box::new(move |ctx| {
            Ok(ctx.tools().run_checked("pdbedit", &["-x", "-u", &name]).map(|_| ())?)
        }),
    }))
}

/// What Samba keeps of a password: MD4 (RFC 1320) of its UTF-16.
fn nt_hash(password: &str) -> String {
    let mut data: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bits = (data.len() as u64) * 8;
    data.push(0x80);
    data.resize(data.len().next_multiple_of(64) + if data.len() % 64 > 56 { 64 } else { 0 }, 0);
    let end = data.len() - 8;
    data[end..].copy_from_slice(&bits.to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in data.chunks_exact(64) {
        let word = |i: usize| {
            u32::from_le_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
        };
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..48_usize {
            let (row, col) = (step % 16 / 4, step % 4);
            let (mixed, index, turn) = match step / 16 {
                0 => ((b & c) | (!b & d), step % 16, [3, 7, 11, 19][col]),
                1 => (
                    ((b & c) | (b & d) | (c & d)).wrapping_add(0x5a82_7999),
                    col * 4 + row,
                    [3, 5, 9, 13][col],
                ),
                _ => (
                    (b ^ c ^ d).wrapping_add(0x6ed9_eba1),
                    [0, 8, 4, 12][col] + [0, 2, 1, 3][row],
                    [3, 9, 11, 15][col],
                ),
            };
            let next = a.wrapping_add(mixed).wrapping_add(word(index)).rotate_left(turn);
            (a, b, c, d) = (d, next, b, c);
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d]) {
            *old = old.wrapping_add(new);
        }
    }
    state.iter().flat_map(|w| w.to_le_bytes()).fold(String::new(), |text, b| text + &format!("{b:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_put_back() {
        let account = |name: &str| Map::from_iter([("Full Name", name), ("Domain", "D"), ("hash", "AA")]);
        assert_eq!(restore_args("a", &account("Old"), &account("New")), ["-u", "a", "--fullname=Old"]);
        let was = Map::from_iter([(ACCOUNT_FLAGS, "[DU         ]"), ("User SID", "S-1")]);
        assert_eq!(restore_args("a", &was, &Map::new()), ["-u", "a", "--account-control=[D]", "-US-1"]);
    }

    #[test]
    fn a_new_account_is_proven_by_something() {
        let read = |json: &str, is_new: bool| {
            let map = Value::from_json_str(json).unwrap().as_map().cloned().unwrap();
            crate::named_args::with_map_args(&map, |g| {
                SambaCredential::from_args(g, is_new).map(|p| p.nt_hash_value())
            })
        };
        assert!(read("{}", true).is_err());
        assert!(read(r#"{"account_control": "[U]", "password": ""}"#, true).is_err());
        assert_eq!(read(r#"{"account_control": "[DU]"}"#, true).unwrap(), None);
        assert_eq!(read("{}", false).unwrap(), None);
        assert!(read(r#"{"password": "pw", "password_hashed": true}"#, true).is_err());
        assert!(read(r#"{"password": "a\nb"}"#, true).is_err());
        let hash = "8cc19b6a8cfeac299c2871c86b38de28";
        let json = format!(r#"{{"password": "{hash}", "password_hashed": true}}"#);
        assert_eq!(read(&json, true).unwrap(), Some(nt_hash("pw")));
    }

    #[test]
    fn a_line_of_an_account() {
        assert_eq!(
            smbpasswd_line("frank", 1000, "8846F7EAEE8FB117AD06BDD830B7586C", 0x6AFB_35A5).unwrap(),
            format!("frank:1000:{NO_HASH}:8846F7EAEE8FB117AD06BDD830B7586C:[U          ]:LCT-6AFB35A5:\n")
        );
        assert!(smbpasswd_line("dora", 1, NO_HASH, 0).unwrap().contains(":[DU         ]:"));
        assert!(smbpasswd_line("a:b", 1, NO_HASH, 0).is_err());
    }

    #[test]
    fn hashes_as_samba_keeps_them() {
        assert_eq!(nt_hash(""), "31D6CFE0D16AE931B73C59D7E0C089C0");
        assert_eq!(nt_hash("pw"), "8CC19B6A8CFEAC299C2871C86B38DE28");
        assert_eq!(nt_hash("password"), "8846F7EAEE8FB117AD06BDD830B7586C");
        // Lengths on both sides of a block.
        assert_ne!(nt_hash(&"a".repeat(27)), nt_hash(&"a".repeat(28)));
        assert_ne!(nt_hash(&"a".repeat(28)), nt_hash(&"a".repeat(32)));
    }
}
