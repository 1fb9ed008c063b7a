//! Sources and repositories.

codes! {
    SILENT_TARGET ZA1010 "target matches no host";
    UNUSED_SLS ZA1011 "unused SLS";
}
