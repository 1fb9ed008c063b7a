//! Declarations of states.

codes! {
    ID_NOT_STRING ZA0501 "id is not a string";
    BODY ZA0502 "id without a state";
    SAME_MODULE ZA0503 "module declared twice under one id";
    TRAILING_COLON ZA0504 "nothing after the colon";
    NOT_A_LIST ZA0505 "state is not a list";
    FUNCTION_WHITESPACE ZA0506 "space in a function name";
    NAMES_NOT_LIST ZA0507 "names is not a list";
    NO_FUNCTION ZA0508 "no function";
    MANY_FUNCTIONS ZA0509 "more than one function";
    NAMES_ENTRY ZA0510 "malformed entry in names";
    EMPTY_ARGUMENT ZA0512 "empty argument";
    KEY_NOT_STRING ZA0511 "state key is not a string";
}
