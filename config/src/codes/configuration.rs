//! Configuration files.

codes! {
    UNREADABLE ZA0001 "configuration file cannot be read";
    SYNTAX ZA0002 "invalid configuration syntax";
    UNKNOWN_KEY ZA0003 "unknown configuration key";
    WRONG_TYPE ZA0004 "setting has the wrong type";
    OUT_OF_RANGE ZA0005 "setting out of range";
    CHOICE ZA0006 "unknown choice";
    UNITS ZA0007 "invalid time, size or address";
    UNKNOWN_VARIABLE ZA0008 "unknown variable";
    MISSING ZA0009 "missing key";
    CONFLICT ZA0010 "conflicting settings";
    NODE_ID ZA0011 "invalid name";
    SALT_CONFIG ZA0012 "invalid Salt configuration";
    UNTRUSTED ZA0013 "file can be changed by others";
    SALT_OPTION ZA0014 "Salt option is not used";
}
