//! Pillar.

codes! {
    NOT_FOUND ZA0701 "pillar SLS not found";
    INCLUDE_NOT_LIST ZA0702 "pillar include is not a list";
    NOT_A_MAPPING ZA0703 "pillar SLS is not a mapping";
    INCLUDE_ITEM ZA0704 "malformed pillar include";
    ENV ZA0705 "unknown pillar environment";
    EXTERNAL ZA0706 "external pillar failed";
    TOP ZA0707 "malformed pillar top file";
    RESOURCES ZA0708 "malformed resource declaration";
}
