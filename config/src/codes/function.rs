//! State functions and their parameters, execution functions.

codes! {
    UNKNOWN_FUNCTION ZA0801 "unknown execution function";
    FUNCTION_FAILED ZA0802 "execution function failed";
    FUNCTION_FORBIDDEN ZA0803 "execution function forbidden";
    FUNCTION_ARGUMENTS ZA0804 "wrong arguments for an execution function";
    UNKNOWN_STATE_MODULE ZA0811 "unknown state module";
    UNKNOWN_STATE_FUNCTION ZA0812 "unknown state function";
    UNKNOWN_PARAMETER ZA0813 "unknown parameter";
    MISSING_PARAMETER ZA0814 "missing parameter";
    WRONG_KIND ZA0815 "parameter value has the wrong type";
    UNKNOWN_CHOICE ZA0816 "parameter value is not one of the choices";
    CONFLICT ZA0817 "conflicting parameters";
    UNBUILT ZA0818 "state not implemented by zagent";
    SECRET_IN_ARGV ZA0819 "secret in a command line";
    EXTRA_PARAMETER ZA0820 "parameter that no state reads";
    PYTHON_MODULE ZA0821 "state module written in Python for Salt";
}
