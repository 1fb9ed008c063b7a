//! Requisites.

codes! {
    NOT_A_LIST ZA0601 "requisite is not a list";
    NOT_ONE ZA0602 "malformed reference";
    DOTTED ZA0603 "function in a reference";
    ILLEGAL ZA0604 "reference to something that is not an id";
    SHARED_ITEM ZA0605 "more than one key in a requisite item";
    MISSING ZA0606 "reference to a state that does not exist";
    NOT_A_STRING ZA0607 "reference is not a string";
    CYCLE ZA0608 "requisite cycle";
}
