//! Roles of PostgreSQL: what is asked for and what is there in, the statement that makes it so out.
//!
//! Law: a password is compared with what the server keeps of it, and only that form of it goes to the server (held
//! by `a_password_is_compared_in_the_form_that_is_kept`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use sha2::Sha256;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::psql::{PsqlClient, quote_ident, quote_literal};
use crate::named_args::NamedArgs;
use zagent_host::Tools;

/// What can be switched: the argument, its name among the attributes, its word in a statement.
pub(crate) const ROLE_FLAGS: [(&str, &str, &str); 6] = [
    ("createdb", "can create databases", "CREATEDB"),
    ("inherit", "inherits privileges", "INHERIT"),
    ("login", "can login", "LOGIN"),
    ("createroles", "can create roles", "CREATEROLE"),
    ("replication", "replication", "REPLICATION"),
    ("superuser", "superuser", "SUPERUSER"),
];

/// All roles with their attributes, as `postgres.user_list` shows them.
pub(crate) fn list_roles(
    psql: &PsqlClient,
    tools: &Tools<'_>,
    with_password: bool,
) -> Result<Map, FunctionError> {
    let (column, join) = match with_password {
        true => (", a.rolpassword AS \"password\"", " LEFT JOIN pg_authid a ON a.oid = r.oid"),
        false => ("", ""),
    };
    let query = format!(
        "SELECT r.rolname AS \"name\", r.rolsuper AS \"superuser\", r.rolinherit AS \"inherits privileges\", \
         r.rolcreaterole AS \"can create roles\", r.rolcreatedb AS \"can create databases\", \
         NULL AS \"can update system catalogs\", r.rolcanlogin AS \"can login\", r.rolreplication AS \"replication\", \
         r.rolconnlimit AS \"connections\", (SELECT array_to_json(array_agg(g.rolname)) FROM pg_auth_members m \
         JOIN pg_roles g ON m.roleid = g.oid WHERE m.member = r.oid) AS \"groups\", \
         r.rolvaliduntil::timestamp(0) AS \"expiry time\", r.rolconfig AS \"defaults variables\"{column} \
         FROM pg_roles r{join}"
    );
    let mut all = psql.rows_by_name(tools, &query)?;
    let names: Vec<String> = all.keys().map(Value::json_key).collect();
    for name in names {
        let Some(Value::Map(row)) = all.get(&name) else { continue };
        let row: Map = row.iter().map(|(k, v)| (k.clone(), typed_value(k, v))).collect();
        all.insert(name, row);
    }
    Ok(all)
}

/// What a column of a role holds.
fn typed_value(key: &Value, value: &Value) -> Value {
    let (key, text) = (key.as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
    match (key, text) {
        ("groups", "") => Value::empty_list(),
        ("groups", json) => Value::from_json_str(json).unwrap_or_else(|_| Value::empty_list()),
        ("connections", n) => n.parse::<i64>().map_or(Value::Null, Value::from),
        ("password" | "defaults variables", _) => value.clone(),
        (_, "t") => true.into(),
        (_, "f") => false.into(),
        (_, "") => Value::Null,
        _ => value.clone(),
    }
}

/// What of a role differs from what is asked for, in Salt's words; a password only as true.
pub(crate) fn role_differences(
    named_args: &NamedArgs<'_>,
    name: &str,
    now: &Map,
    password: Option<&str>,
    expiry: Option<&str>,
) -> Map {
    let mut update = Map::new();
    for (key, attribute, _) in ROLE_FLAGS {
        if let Some(wanted) = named_args.flag(key).filter(|w| now.get(attribute) != Some(&Value::from(*w))) {
            update.insert(key, wanted);
        }
    }
    let kept = now.get("password").and_then(Value::as_str).unwrap_or_default();
    if password.is_some_and(|p| {
        named_args.is_enabled("refresh_password") || !password_matches(named_args, name, p, kept)
    }) {
        update.insert("password", true);
    }
    if let (Some(wanted), Some(text)) = (expiry, named_args.text("valid_until"))
        && now.get("expiry time").and_then(Value::as_str) != Some(wanted)
    {
        update.insert("valid_until", text);
    }
    let groups = now.get("groups").and_then(Value::as_list);
    let is_in = |g: &String| groups.is_some_and(|all| all.iter().any(|v| v.as_str() == Some(g)));
    let missing: Vec<Value> = named_args
        .text_list("groups")
        .unwrap_or_default()
        .into_iter()
        .filter(|g| !is_in(g))
        .map(Value::from)
        .collect();
    if !missing.is_empty() {
        update.insert("groups", missing);
    }
    update
}

/// The statement that makes a new role; users may log in, groups may not.
pub(crate) fn create_role_sql(
    named_args: &NamedArgs<'_>,
    name: &str,
    is_user: bool,
    password: Option<String>,
) -> Result<String, FunctionError> {
    let mut words = String::new();
    for (key, _, word) in ROLE_FLAGS {
        let default = match key {
            "inherit" => Some(true),
            "login" => Some(is_user),
            _ => None,
        };
        words.push_str(&flag_clause(named_args.flag(key).or(default), word));
    }
    words.push_str(&password_clause(named_args, name, password)?);
    Ok(format!(
        "CREATE ROLE {}{words};\n{}",
        quote_ident(name),
        grant_groups_sql(name, named_args.text_list("groups").unwrap_or_default())
    ))
}

/// The statement that mends a role.
pub(crate) fn alter_role_sql(
    named_args: &NamedArgs<'_>,
    name: &str,
    update: &Map,
    password: Option<String>,
) -> Result<String, FunctionError> {
    let mut words = String::new();
    for (key, _, word) in ROLE_FLAGS {
        words.push_str(&flag_clause(update.get(key).and_then(Value::as_bool), word));
    }
    words.push_str(&password_clause(named_args, name, password.filter(|_| update.contains("password")))?);
    let groups = update.get("groups").and_then(Value::as_list);
    let groups = groups.map(|l| l.iter().map(Value::json_key).collect()).unwrap_or_default();
    let alter =
        if words.is_empty() { String::new() } else { format!("ALTER ROLE {}{words};\n", quote_ident(name)) };
    Ok(alter + &grant_groups_sql(name, groups))
}

/// The statement that makes a role as it was once listed.
pub(crate) fn restore_role_sql(name: &str, was: &Map, is_new: bool) -> String {
    let verb = if is_new { "CREATE" } else { "ALTER" };
    let mut words = String::new();
    for (_, attribute, word) in ROLE_FLAGS {
        words.push_str(&flag_clause(was.get(attribute).and_then(Value::as_bool), word));
    }
    let text = |key| was.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    words.push_str(
        &text("password").map_or(" PASSWORD NULL".into(), |p| format!(" PASSWORD {}", quote_literal(p))),
    );
    words.push_str(&format!(" VALID UNTIL {}", quote_literal(text("expiry time").unwrap_or("infinity"))));
    format!("{verb} ROLE {}{words};\n", quote_ident(name))
}

fn flag_clause(flag: Option<bool>, word: &str) -> String {
    flag.map_or_else(String::new, |on| format!(" {}{word}", if on { "" } else { "NO" }))
}

pub(crate) fn grant_groups_sql(name: &str, groups: Vec<String>) -> String {
    groups.iter().map(|g| format!("GRANT {} TO {};\n", quote_ident(g), quote_ident(name))).collect()
}

fn password_clause(
    named_args: &NamedArgs<'_>,
    name: &str,
    password: Option<String>,
) -> Result<String, FunctionError> {
    let mut words = String::new();
    if let Some(limit) = named_args.text("connlimit") {
        let limit: i64 =
            limit.parse().map_err(|_| FunctionError::bad_arguments("`connlimit` must be a whole number"))?;
        words.push_str(&format!(" CONNECTION LIMIT {limit}"));
    }
    if let Some(password) = password {
        let kept = match password_encryption(named_args)? {
            PasswordEncryption::Plain => password,
            PasswordEncryption::Scram if !password.starts_with("SCRAM-SHA-256") => {
                scram_verifier(&password, &random_salt()?, 4096)
            }
            PasswordEncryption::Md5
                if !password.starts_with("md5") && !password.starts_with("SCRAM-SHA-256$") =>
            {
                md5_password(name, &password)
            }
            PasswordEncryption::Scram | PasswordEncryption::Md5 => password,
        };
        words.push_str(&format!(" PASSWORD {}", quote_literal(&kept)));
    }
    if let Some(until) = named_args.text("valid_until") {
        words.push_str(&format!(" VALID UNTIL {}", quote_literal(&until)));
    }
    Ok(words)
}

/// How a password is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PasswordEncryption {
    Md5,
    Scram,
    Plain,
}

fn password_encryption(named_args: &NamedArgs<'_>) -> Result<PasswordEncryption, FunctionError> {
    match named_args.get("encrypted") {
        None | Some(Value::Bool(true)) => Ok(PasswordEncryption::Md5),
        Some(Value::Bool(false)) => Ok(PasswordEncryption::Plain),
        Some(other) => match &*other.json_key().to_ascii_lowercase() {
            "md5" | "true" => Ok(PasswordEncryption::Md5),
            "scram-sha-256" => Ok(PasswordEncryption::Scram),
            "false" => Ok(PasswordEncryption::Plain),
            word => Err(FunctionError::bad_arguments(format!("Unknown password algorithm: {word}"))),
        },
    }
}

/// True when what the server keeps is this password, in the form that is asked for or, when none is, in any.
fn password_matches(named_args: &NamedArgs<'_>, name: &str, password: &str, kept: &str) -> bool {
    if kept == password {
        return true;
    }
    let any = named_args.get("encrypted").is_none();
    match password_encryption(named_args) {
        Ok(PasswordEncryption::Md5) if kept.starts_with("md5") => kept == md5_password(name, password),
        Ok(PasswordEncryption::Md5) if !any => false,
        Ok(_) => match kept.strip_prefix("SCRAM-SHA-256$").and_then(|r| r.split_once(':')) {
            Some((rounds, rest)) => {
                let salt = rest.split('$').next().and_then(|s| BASE64.decode(s).ok()).unwrap_or_default();
                // More rounds than any server uses would only keep us busy.
                let rounds = rounds.parse().unwrap_or(0).min(10_000_000);
                kept == scram_verifier(password, &salt, rounds)
            }
            None => kept.starts_with("md5") && kept == md5_password(name, password),
        },
        Err(_) => false,
    }
}

fn md5_password(role: &str, password: &str) -> String {
    let digest = Md5::new().chain_update(password).chain_update(role).finalize();
    digest.iter().fold("md5".to_owned(), |text, b| text + &format!("{b:02x}"))
}

fn random_salt() -> Result<[u8; 16], FunctionError> {
    let mut salt = [0; 16];
    let got = rustix::rand::getrandom(&mut salt[..], rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(16) => Ok(salt),
        _ => Err(FunctionError::failed("the system has no random numbers for a password")),
    }
}

/// What PostgreSQL keeps of a password (RFC 5803).
fn scram_verifier(password: &str, salt: &[u8], rounds: u32) -> String {
    let mac = |key: &[u8], parts: &[&[u8]]| -> [u8; 32] {
        // Any length is a good key for HMAC.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
        parts.iter().for_each(|p| mac.update(p));
        mac.finalize().into_bytes().into()
    };
    let mut block = mac(password.as_bytes(), &[salt, &[0, 0, 0, 1]]);
    let mut salted = block;
    for _ in 1..rounds {
        block = mac(password.as_bytes(), &[&block]);
        salted.iter_mut().zip(block).for_each(|(a, b)| *a ^= b);
    }
    let stored = Sha256::digest(mac(&salted, &[b"Client Key"]));
    let server = mac(&salted, &[b"Server Key"]);
    let text = |bytes: &[u8]| BASE64.encode(bytes);
    format!("SCRAM-SHA-256${rounds}:{}${}:{}", text(salt), text(&stored), text(&server))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_args::with_map_args;

    const MD5: &str = "md5c0d0a2c5f48b91d8e16412ff4dc7b994";
    const SCRAM: &str = "SCRAM-SHA-256$4096:MDEyMzQ1Njc4OWFiY2RlZg==$bpSY5Ze9NUH+I35LC3gVq+DpBfK46iXBxvhAKqVu9pE=:VpYlBuxyzeCI1KnctrefdljpB1mk3Gp7sBI/t11+NkQ=";

    fn map(json: &str) -> Map {
        Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
    }

    #[test]
    fn a_password_is_compared_in_the_form_that_is_kept() {
        let is = |json: &str, password: &str, kept: &str| {
            with_map_args(&map(json), |g| password_matches(g, "frank", password, kept))
        };
        assert!(
            is("{}", "secret", MD5)
                && is("{}", "secret", SCRAM)
                && !is("{}", "other", MD5)
                && !is("{}", "other", SCRAM)
        );
        assert!(is(r#"{"encrypted": "scram-sha-256"}"#, "secret", SCRAM));
        assert!(!is(r#"{"encrypted": true}"#, "secret", SCRAM));
        assert!(
            is(r#"{"encrypted": false}"#, "secret", SCRAM) && is(r#"{"encrypted": false}"#, "secret", MD5)
        );
        assert!(is("{}", MD5, MD5) && !is("{}", "secret", ""));
    }

    #[test]
    fn a_new_role() {
        let sql = |json: &str, is_user: bool| {
            with_map_args(&map(json), |g| create_role_sql(g, "fr\"ank", is_user, g.text("password"))).unwrap()
        };
        assert_eq!(sql("{}", true), "CREATE ROLE \"fr\"\"ank\" INHERIT LOGIN;\n");
        assert_eq!(
            sql(r#"{"superuser": false}"#, false),
            "CREATE ROLE \"fr\"\"ank\" INHERIT NOLOGIN NOSUPERUSER;\n"
        );
        let all = sql(r#"{"password": "it's", "encrypted": false, "groups": "a,b", "connlimit": 3}"#, true);
        assert_eq!(
            all,
            "CREATE ROLE \"fr\"\"ank\" INHERIT LOGIN CONNECTION LIMIT 3 PASSWORD 'it''s';\n\
             GRANT \"a\" TO \"fr\"\"ank\";\nGRANT \"b\" TO \"fr\"\"ank\";\n"
        );
        assert!(!sql(r#"{"password": "secret"}"#, true).contains("secret"));
        assert!(
            with_map_args(&map(r#"{"encrypted": "rot13"}"#), |g| create_role_sql(
                g,
                "x",
                true,
                Some("p".into())
            ))
            .is_err()
        );
    }

    #[test]
    fn only_what_differs_is_changed() {
        let now = map(
            r#"{"can login": true, "can create databases": false, "superuser": false, "groups": ["a"], "expiry time": null}"#,
        );
        let args =
            map(r#"{"login": true, "createdb": true, "groups": ["a", "b"], "valid_until": "2030-01-01"}"#);
        let (update, sql) = with_map_args(&args, |g| {
            let update = role_differences(g, "frank", &now, None, Some("2030-01-01 00:00:00"));
            let sql = alter_role_sql(g, "frank", &update, None).unwrap();
            (update, sql)
        });
        let told = serde_json::to_string(&Value::from(update)).unwrap();
        assert_eq!(told, r#"{"createdb":true,"valid_until":"2030-01-01","groups":["b"]}"#);
        assert_eq!(
            sql,
            "ALTER ROLE \"frank\" CREATEDB VALID UNTIL '2030-01-01';\nGRANT \"b\" TO \"frank\";\n"
        );
    }
}
