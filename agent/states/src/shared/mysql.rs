//! What the modules `mysql_*` share: how the server is reached, and a statement as a change.

use super::planned_state::ChangeFn;
use super::store_undo::ServerLogin;
use crate::databases::mysql::MysqlClient;
use crate::named_args::NamedArgs;

/// How a server of MySQL is reached.
pub(crate) static MYSQL_LOGIN: ServerLogin = ServerLogin {
    pillar_defaults: &[
        ("connection_host", "mysql.host"),
        ("connection_user", "mysql.user"),
        ("connection_pass", "mysql.pass"),
        ("connection_port", "mysql.port"),
        ("connection_unix_socket", "mysql.unix_socket"),
        ("connection_default_file", "mysql.default_file"),
        ("connection_charset", "mysql.charset"),
    ],
    exclusive_arg: Some("connection_default_file"),
    password_arg: "connection_pass",
    password_key: "connection_pass",
};

/// An account: `user` of a grant, else the name.
pub(crate) fn user_and_host(given: &NamedArgs<'_>) -> (String, String) {
    let user = given
        .get("user")
        .or_else(|| given.get("name"))
        .map(zagent_host::command_options::value_text)
        .unwrap_or_default();
    (user, given.text("host").unwrap_or_else(|| "localhost".to_owned()))
}

/// A change by one text of statements.
pub(crate) fn run_statement(sql: MysqlClient, text: String) -> ChangeFn {
    Box::new(move |ctx| Ok(sql.execute(&ctx.tools(), &text)?))
}
