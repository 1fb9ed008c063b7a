//! What no file and no signature may cause, whatever its content: a panic, a hang, or acceptance.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::allowed_signers;
use super::ssh::SshSignature;
use super::{AllowedSigners, RevokedKeys, commit};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoRo0kCw/9bPZRVGWqyEnQzxGgoU3CvV5yl8O9QwtxY";

/// Words for generated lines.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(KEY.to_owned()),
        Just("alice".to_owned()),
        Just("cert-authority".to_owned()),
        Just("namespaces=\"git\"".to_owned()),
        Just("valid-after=\"20200101Z\"".to_owned()),
        "[a-z*?!,\"=\\\\ #-]{0,12}",
        "\\PC{0,6}",
    ]
}

proptest! {
    #[test]
    fn no_signers_file_panics(lines in prop::collection::vec(prop::collection::vec(word(), 0..5), 0..5)) {
        let text = lines.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join("\n");
        let read = allowed_signers::parse_file(Path::new("allowed_signers"), &text, &TimeZone::UTC);
        if let Ok(read) = read {
            // A line counts once, and every accepted line has its key.
            prop_assert!(read.len() <= text.lines().count());
            prop_assert!(read.is_empty() || text.contains("AAAAC3NzaC1lZDI1NTE5"));
        }
    }

    #[test]
    fn options_and_order_do_not_matter_to_whom_a_line_names(
        names in prop::collection::vec("[a-z]{1,8}", 1..4),
        note in "[a-z ]{0,10}",
        quoted in any::<bool>(),
    ) {
        let names = names.join(",");
        let field = if quoted { format!("\"{names}\"") } else { names };
        for options in ["", "namespaces=\"git\" ", "valid-before=\"20990101\",namespaces=\"*\" "] {
            let text = format!("\t{field}  {options}{KEY} {note}\n");
            let read = allowed_signers::parse_file(Path::new("f"), &text, &TimeZone::UTC).unwrap();
            prop_assert_eq!(read.len(), 1);
            prop_assert!(read[0].allows("git", &[Timestamp::UNIX_EPOCH], Path::new("f")).is_ok());
        }
    }

    #[test]
    fn no_commit_and_no_signature_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), body in "[A-Za-z0-9+/=\n-]{0,200}") {
        let signers = AllowedSigners { path: "f".into(), lines: Vec::new(), revoked: RevokedKeys::default(), keyring: None };
        prop_assert!(signers.verify_commit(&bytes, Timestamp::UNIX_EPOCH).is_err());
        let _ = commit::parse_commit(&bytes);
        let signature_block = format!("-----BEGIN SSH SIGNATURE-----\n{body}\n-----END SSH SIGNATURE-----\n");
        prop_assert!(SshSignature::read(signature_block.as_bytes()).is_err());
        prop_assert!(SshSignature::read(&bytes).is_err());
    }
}
