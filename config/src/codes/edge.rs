//! Sources and repositories.

codes! {
    SILENT_TARGET ZA1010 "target matches no host";
    UNUSED_SLS ZA1011 "unused SLS";
    MISSING_SOURCE ZA1012 "missing source";
    BROKEN_TEMPLATE ZA1013 "template of a file does not render";
}
