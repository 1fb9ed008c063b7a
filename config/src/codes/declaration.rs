//! Declarations of states.

codes! {
    ID_NOT_STRING ZA0501 "id is not a string";
    BODY ZA0502 "id without states";
    SAME_MODULE ZA0503 "module declared twice under one id";
    TRAILING_COLON ZA0504 "colon with nothing behind it";
    NOT_A_LIST ZA0505 "state is not a list";
    FUNCTION_WHITESPACE ZA0506 "function with a space";
    NAMES_NOT_LIST ZA0507 "names is not a list";
    NO_FUNCTION ZA0508 "no function";
    MANY_FUNCTIONS ZA0509 "several functions";
    NAMES_ENTRY ZA0510 "malformed entry of names";
    EMPTY_ARGUMENT ZA0512 "empty argument";
    KEY_NOT_STRING ZA0511 "state key is not a string";
}
