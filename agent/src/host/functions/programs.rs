//! Functions that are there only when a program is: git, psql, mysql, dig. Each only asks.

use zagent_compiler::functions::{Bound, Refusal};
use zagent_config::{Map, Value};

use super::{Entry, needing, strings, text, users, word};
use crate::host::Machine;
use crate::host::ask::words;
use crate::host::exec::{self, Command};

pub(super) const TABLE: &[Entry] = &[
    needing("git", "git.current_branch", "cwd user? password? ignore_retcode? output_encoding?", |m, a| {
        git(m, a, &["rev-parse", "--abbrev-ref", "HEAD"])
    }),
    needing(
        "git",
        "git.revision",
        "cwd rev? short? user? password? ignore_retcode? output_encoding?",
        |m, a| {
            let rev = word(a, "rev").unwrap_or("HEAD");
            let short = if super::flag(a, "short", false) { "--short" } else { "--verify" };
            git(m, a, &["rev-parse", short, "--end-of-options", rev])
        },
    ),
    needing("git", "git.version", "versioninfo?", |m, _| {
        let out = m.look("git", &["--version"])?;
        let line = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(line.split_whitespace().nth(2).unwrap_or_default().into())
    }),
    needing("psql", "postgres.psql_query", QUERY, psql_query),
    needing("psql", "postgres.user_create", "username **", |_, _| Err(changes("postgres_user.present"))),
    needing("psql", "postgres.db_create", "name **", |_, _| Err(changes("postgres_database.present"))),
    needing("mysql", "mysql.db_list", "**", |m, _| mysql(m, "SHOW DATABASES")),
    needing("mysql", "mysql.db_tables", "name **", |m, a| {
        mysql(m, &format!("SHOW TABLES IN `{}`", text(a, "name")?.replace('`', "``")))
    }),
    needing("dig", "dig.A", DIG, |m, a| dig(m, a, "A")),
    needing("dig", "dig.AAAA", DIG, |m, a| dig(m, a, "AAAA")),
    needing("dig", "dig.CNAME", DIG, |m, a| dig(m, a, "CNAME")),
    needing("dig", "dig.NS", "domain resolve? nameserver?", |m, a| dig(m, a, "NS")),
    needing("dig", "dig.TXT", DIG, |m, a| dig(m, a, "TXT")),
];

const QUERY: &str = "query user? host? port? maintenance_db? password? runas? write?";
const DIG: &str = "host nameserver?";

fn changes(state: &str) -> Refusal {
    Refusal::failed(format!("it changes the host, and compiling never does: use the state `{state}`"))
}

fn git(machine: &Machine, args: &Bound<Value>, command: &[&str]) -> Result<Value, Refusal> {
    let cwd = text(args, "cwd")?;
    let mut full = vec!["-C", cwd];
    full.extend(command);
    let out = machine.look("git", &full)?;
    if !out.success() {
        return Err(Refusal::failed(String::from_utf8_lossy(&out.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().into())
}

/// The rows of a query as mappings; no rows when the server does not answer, as in Salt.
fn psql_query(machine: &Machine, args: &Bound<Value>) -> Result<Value, Refusal> {
    if super::flag(args, "write", false) {
        return Err(changes("cmd.run"));
    }
    let query = text(args, "query")?.trim().trim_end_matches(';');
    let csv = format!("COPY ({query}) TO STDOUT WITH CSV HEADER");
    let user = word(args, "runas").unwrap_or("postgres");
    let mut argv: Vec<String> = Vec::new();
    if users::find(machine, user)?.is_some_and(|u| u.uid != i64::from(rustix::process::geteuid().as_raw())) {
        argv.extend(["runuser", "-u", user, "--"].map(str::to_owned));
    }
    argv.extend(["psql", "--no-align", "--no-readline", "--no-psqlrc", "--no-password"].map(str::to_owned));
    let port = args.get("port").filter(|p| p.is_truthy()).map(|p| p.json_key());
    let options = [
        ("--username", word(args, "user").or(Some(user))),
        ("--host", word(args, "host")),
        ("--port", port.as_deref()),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            argv.extend([option.to_owned(), value.to_owned()]);
        }
    }
    argv.extend(["--dbname", word(args, "maintenance_db").unwrap_or("postgres")].map(str::to_owned));
    argv.extend(["-v", "datestyle=ISO,MDY", "-c", &csv].map(str::to_owned));
    let program = argv.remove(0);
    let mut command = Command::new(program).args(argv);
    command.timeout = Some(machine.timeout);
    command.cwd = Some("/".into());
    // An empty transaction mode would let a function in the query write.
    command.env.push(("PGOPTIONS".into(), "-c default_transaction_read_only=on".into()));
    if let Some(password) = word(args, "password") {
        command.env.push(("PGPASSWORD".into(), password.into()));
    }
    let out = exec::run(&command).map_err(|e| Refusal::failed(words(&e)))?;
    if !out.success() {
        return Ok(Value::empty_list());
    }
    let mut rows = csv_rows(&String::from_utf8_lossy(&out.stdout)).into_iter();
    let header = rows.next().unwrap_or_default();
    Ok(rows.map(|row| Value::from(header.iter().map(String::as_str).zip(row).collect::<Map>())).collect())
}

/// Comma separated rows with double quotes.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !quoted => {}
            c => field.push(c),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}

fn mysql(machine: &Machine, query: &str) -> Result<Value, Refusal> {
    let out = machine.look("mysql", &["--batch", "--skip-column-names", "--execute", query])?;
    if !out.success() {
        return Ok(Value::empty_list());
    }
    Ok(strings(String::from_utf8_lossy(&out.stdout).lines()))
}

fn dig(machine: &Machine, args: &Bound<Value>, kind: &str) -> Result<Value, Refusal> {
    let host = word(args, "host").or_else(|| word(args, "domain")).unwrap_or_default();
    if host.is_empty() || host.starts_with(['-', '+', '@']) {
        return Err(Refusal::failed(format!("`{host}` is not the name of a host")));
    }
    let server = word(args, "nameserver").filter(|s| !s.is_empty()).map(|s| format!("@{s}"));
    let mut full = vec!["+short", host, kind];
    full.extend(server.as_deref());
    let out = machine.look("dig", &full)?;
    if !out.success() {
        return Err(Refusal::failed(format!("dig ended with code {}", out.code())));
    }
    Ok(strings(String::from_utf8_lossy(&out.stdout).lines()))
}

#[cfg(test)]
mod tests {
    use super::csv_rows;

    #[test]
    fn rows_with_quotes_and_line_ends() {
        assert_eq!(csv_rows("a,b\n1,\"x, \"\"y\"\"\nz\"\n"), [["a", "b"], ["1", "x, \"y\"\nz"]]);
        assert!(csv_rows("").is_empty());
    }
}
