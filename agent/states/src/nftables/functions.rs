//! `nftables.*`: tables and rules, by `nft`.

use crate::exec_function::{ExecFunction, query_fn_needing, string_list};
use zagent_host::Tools;

/// The execution functions of `nftables`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn_needing("nft", "nftables.version", "", |m, _| {
        let output = Tools::new(m).run_query("nft", &["--version"])?;
        Ok(output.stdout.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('v').into())
    }),
    query_fn_needing("nft", "nftables.list_tables", "family?", |m, _| {
        let out = Tools::new(m).run_checked("nft", &["list", "tables"])?.stdout;
        Ok(string_list(out.lines().filter_map(|l| l.strip_prefix("table "))))
    }),
    query_fn_needing("nft", "nftables.get_rules", "family?", |m, _| {
        Ok(string_list(Tools::new(m).run_checked("nft", &["list", "ruleset"])?.stdout.lines()))
    }),
];
