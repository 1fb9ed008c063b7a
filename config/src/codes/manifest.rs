//! Manifests.

codes! {
    SYNTAX ZA1101 "manifest syntax";
    UNKNOWN_KEY ZA1102 "unknown key in a manifest";
    WRONG_TYPE ZA1103 "a value of the wrong type in a manifest";
    MISSING ZA1104 "a missing key in a manifest";
    SCHEMA ZA1105 "a manifest of another schema";
    VALUE ZA1106 "a manifest value that cannot be used";
    PATH ZA1107 "a path that a manifest must not hold";
    TOO_LARGE ZA1108 "a manifest that is too large";
}
