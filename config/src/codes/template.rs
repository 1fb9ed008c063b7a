//! Templates.

codes! {
    TEMPLATE_SYNTAX ZA0101 "invalid template syntax";
    UNKNOWN_TAG ZA0102 "unknown tag";
    UNKNOWN_FILTER ZA0103 "unknown filter";
    UNKNOWN_TEST ZA0104 "unknown test";
    NOT_FOUND ZA0105 "template not found";
    IMPORT_NAME ZA0106 "imported name not found";
    UNDEFINED ZA0107 "undefined variable";
    UNDEFINED_KEY ZA0108 "undefined attribute or key";
    CALL ZA0109 "invalid call in a template";
    TYPE ZA0110 "operation not supported";
    DIVISION ZA0111 "division by zero";
    RAISED ZA0112 "error raised by the template";
    LOAD ZA0113 "loaded text is not valid";
    SANDBOX ZA0114 "unsafe attribute";
    METHOD ZA0115 "unknown method";
    CYCLE ZA0116 "templates import each other";
    OPTIONS ZA0117 "invalid template option";
    UNREADABLE ZA0118 "template cannot be read";
}
