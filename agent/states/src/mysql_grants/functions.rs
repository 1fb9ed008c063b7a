//! `mysql.grant_*`: arguments as Salt names them in, what the accounts of the server may do out.

use crate::databases::mysql_grant::{self, MysqlGrant};
use crate::exec_function::ExecFunction;
use crate::shared::mysql_functions::{
    change_fn, execute_statement, mysql_signature, query_fn, with_account, with_client,
};

const GRANT_SIGNATURE: &str = mysql_signature!("grant database user host? grant_option? escape? ssl_option?");

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("mysql.user_grants", mysql_signature!("user host?"), |m, a| {
        with_account(m, a, |sql, tools, _, (user, host)| {
            let lines = mysql_grant::show_grants(sql, tools, user, host)?;
            Ok(if lines.is_empty() { false.into() } else { mysql_grant::grants_value(lines) })
        })
    }),
    query_fn("mysql.grant_exists", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            Ok(mysql_grant::is_granted(sql, tools, &MysqlGrant::new(named_args)?)?.into())
        })
    }),
    change_fn("mysql.grant_add", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(sql, tools, &MysqlGrant::new(named_args)?.grant_sql())
        })
    }),
    change_fn("mysql.grant_revoke", GRANT_SIGNATURE, |m, a| {
        with_client(m, a, |sql, tools, named_args| {
            execute_statement(sql, tools, &MysqlGrant::new(named_args)?.revoke_sql())
        })
    }),
];
