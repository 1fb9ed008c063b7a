//! Lines of a table of file systems: what states say and what they leave.

use crate::testing::{StateTestBed, apply_chunk, chunk};

#[test]
fn a_line_of_the_table_comes_and_goes() {
    let test_bed = StateTestBed::strict();
    let table = test_bed.path("fstab");
    std::fs::write(&table, "# a remark\n").unwrap();
    let args =
        format!(r#"{{"fs_file": "/srv/", "fs_vfstype": "ext4", "mount": false, "config": {table:?}}}"#);
    let present = chunk("mount.fstab_present", "/dev/sdx9", &args);
    let absent = chunk("mount.fstab_absent", "/dev/sdx9", &args);
    let ctx = test_bed.scene();
    assert_eq!(
        apply_chunk(&present, &ctx),
        format!(r#"true "/srv entry added in {table}." {{"persist":"new"}}"#)
    );
    let text = "# a remark\n/dev/sdx9\t\t/srv\text4\tdefaults\t0 0\n";
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    assert_eq!(apply_chunk(&present, &ctx), format!(r#"true "/srv entry was already in {table}." {{}}"#));
    assert_eq!(
        apply_chunk(&absent, &ctx),
        format!(r#"true "/srv entry removed from {table}." {{"persist":"removed"}}"#)
    );
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "# a remark\n");
    assert_eq!(
        apply_chunk(&absent, &ctx),
        format!(r#"true "/srv entry is already missing in {table}." {{}}"#)
    );
}
