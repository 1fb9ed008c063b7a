//! Manifests.

codes! {
    SYNTAX ZA1101 "invalid manifest syntax";
    UNKNOWN_KEY ZA1102 "unknown key in a manifest";
    WRONG_TYPE ZA1103 "manifest value has the wrong type";
    MISSING ZA1104 "missing key in a manifest";
    SCHEMA ZA1105 "unsupported manifest schema";
    VALUE ZA1106 "invalid manifest value";
    PATH ZA1107 "path not allowed in a manifest";
    TOO_LARGE ZA1108 "manifest too large";
}
