//! The top file and targets.

codes! {
    NOT_A_MAPPING ZA0301 "top file is not a mapping";
    ENV_NOT_STRING ZA0302 "environment is not a string";
    NO_TARGETS ZA0303 "environment without targets";
    NOT_A_LIST ZA0304 "target without a list";
    EMPTY_SLS ZA0305 "SLS without a name";
    BAD_OPTION ZA0306 "empty option under a target";
    EXTERNAL ZA0307 "external top failed";
    TARGET_SYNTAX ZA0320 "target syntax";
    TARGET_KEY ZA0321 "a target without a value";
    TARGET_PATTERN ZA0322 "a target's regular expression";
    TARGET_ADDRESS ZA0323 "a target's address";
    TARGET_GROUP ZA0324 "node groups";
    TARGET_COSTLY ZA0325 "a target too costly";
    UNKNOWN_MATCHER ZA0326 "unknown matcher";
}
