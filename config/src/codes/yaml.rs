//! YAML and the renderer pipe.

codes! {
    YAML_SYNTAX ZA0201 "invalid YAML syntax";
    UNREADABLE ZA0240 "file cannot be read";
    UNKNOWN_RENDERER ZA0241 "unknown renderer";
    PYTHON_RENDERER ZA0242 "renderer needs Python";
    PIPE_ORDER ZA0243 "renderers in the wrong order";
    JSON_SYNTAX ZA0244 "invalid JSON syntax";
    NOT_UTF8 ZA0245 "file is not UTF-8";
    DECRYPT ZA0246 "value cannot be decrypted";
    STATECONF ZA0247 "the stateconf renderer refuses the file";
    TAB ZA0202 "tab in the indentation";
    RESERVED_START ZA0203 "value starts with a reserved character";
    COLON_IN_VALUE ZA0204 "colon inside a value";
    MISSING_COLON ZA0205 "key without a colon";
    INDENTATION ZA0206 "wrong indentation";
    UNCLOSED ZA0207 "unclosed bracket";
    UNCLOSED_QUOTE ZA0208 "unclosed quote";
    BAD_ESCAPE ZA0209 "unknown escape sequence";
    ALIAS ZA0210 "invalid anchor or alias";
    UNKNOWN_TAG ZA0211 "unknown tag";
    WRONG_TAG ZA0212 "value does not fit its tag";
    UNHASHABLE_KEY ZA0213 "list or mapping as a key";
    DUPLICATE_KEY ZA0214 "duplicate key";
    SECOND_DOCUMENT ZA0215 "more than one document";
    MERGE ZA0216 "invalid merge key";
    CONTROL_CHARACTER ZA0217 "character not allowed in YAML";
    BLOCK_SCALAR ZA0218 "invalid block scalar";
    DIRECTIVE ZA0219 "invalid YAML directive";
}
