//! The top file and targets.

codes! {
    NOT_A_MAPPING ZA0301 "top file is not a mapping";
    ENV_NOT_STRING ZA0302 "environment is not a string";
    NO_TARGETS ZA0303 "environment without targets";
    NOT_A_LIST ZA0304 "target has no list of SLS files";
    EMPTY_SLS ZA0305 "SLS without a name";
    BAD_OPTION ZA0306 "empty option under a target";
    EXTERNAL ZA0307 "external top failed";
    TARGET_SYNTAX ZA0320 "invalid target syntax";
    TARGET_KEY ZA0321 "target without a value";
    TARGET_PATTERN ZA0322 "invalid regular expression in a target";
    TARGET_ADDRESS ZA0323 "invalid address in a target";
    TARGET_GROUP ZA0324 "invalid node group";
    TARGET_COSTLY ZA0325 "target too expensive to match";
    UNKNOWN_MATCHER ZA0326 "unknown matcher";
}
