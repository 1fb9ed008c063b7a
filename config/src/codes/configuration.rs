//! Configuration files.

codes! {
    UNREADABLE ZA0001 "a configuration file cannot be read";
    SYNTAX ZA0002 "configuration syntax";
    UNKNOWN_KEY ZA0003 "unknown configuration key";
    WRONG_TYPE ZA0004 "a setting of the wrong type";
    OUT_OF_RANGE ZA0005 "a setting out of range";
    CHOICE ZA0006 "no such choice";
    UNITS ZA0007 "a time, size or address";
    UNKNOWN_VARIABLE ZA0008 "unknown variable";
    MISSING ZA0009 "a missing key";
    CONFLICT ZA0010 "settings that do not go together";
    NODE_ID ZA0011 "a name that cannot be used";
    SALT_CONFIG ZA0012 "a Salt configuration";
}
