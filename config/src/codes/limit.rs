//! Limits.

codes! {
    FUEL ZA0901 "template takes too long";
    RECURSION ZA0902 "template nested too deep";
    OUTPUT ZA0903 "template output too large";
    SOURCE ZA0940 "file too large";
    REQUISITES ZA0942 "too many requisites";
    INCLUDES ZA0941 "too many includes";
    YAML_NODES ZA0920 "too many YAML nodes";
    YAML_DEPTH ZA0921 "YAML nested too deep";
}
