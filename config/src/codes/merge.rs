//! Include, extend and exclude.

codes! {
    NOT_FOUND ZA0401 "SLS not found";
    INCLUDE_NOT_LIST ZA0402 "include is not a list";
    INCLUDE_ITEM ZA0403 "malformed include";
    ABOVE_ROOT ZA0404 "include above the root";
    UNKNOWN_ENV ZA0405 "unknown environment";
    AMBIGUOUS ZA0406 "ambiguous include";
    CONFLICT ZA0407 "id declared twice";
    EXTEND_NOT_MAPPING ZA0408 "malformed extend";
    EXTEND_UNKNOWN ZA0409 "extend of an unknown state";
    EXTEND_EMPTY ZA0410 "extend without a state";
    EXTEND_NOT_LIST ZA0411 "extend applies to something that is not a list";
    EXCLUDE_NOT_LIST ZA0412 "exclude is not a list";
    EXCLUDE_NOTHING ZA0414 "exclude matches nothing";
    NOT_A_MAPPING ZA0413 "SLS is not a mapping";
}
