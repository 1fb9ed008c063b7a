//! The schema of the state modules in, a JSON schema of SLS files out, for editors.
//!
//! It never calls a valid file wrong: values pass by kind as they do in a compile, and null, true and false always pass, because
//! templates produce them.

use serde_json::{Map, Value, json};
use zagent_compiler::schema::{FunctionDoc, Schema, StateParameter, sorted_keywords};

/// Where the published schema says it is from.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of an SLS file in YAML, after its templates were rendered.
#[must_use]
pub fn sls_schema(schema: &Schema) -> Value {
    let functions: Vec<FunctionDoc> =
        schema.described_functions().filter(|function| !function.name.starts_with('@')).collect();
    let mut definitions = Map::new();
    let mut declaration = Map::new();
    for function in functions.iter().filter(|function| !function.traits.is_unimplemented) {
        let name = format!("{}.{}", function.module, function.name);
        declaration.insert(name.clone(), json!({"$ref": format!("#/$defs/{name}")}));
        definitions.insert(format!("{name} arguments"), arguments_schema(function));
        let schema = function_schema(function, &name);
        definitions.insert(name, schema);
    }
    definitions.insert("keywords".into(), json!({"properties": keyword_schemas()}));
    definitions.insert(
        "declaration".into(),
        json!({"type": ["object", "string", "null"], "properties": declaration}),
    );
    json!({
        "$schema": DIALECT,
        "title": "SLS file of zagent and Salt",
        "type": ["object", "null"],
        "properties": {
            "include": {"type": ["array", "null"], "description": "Other SLS files whose states come first."},
            "exclude": {"type": ["array", "null"], "description": "SLS files and ids that are left out."},
            "extend": {
                "type": ["object", "null"],
                "description": "Changes of states that other SLS files declare.",
                "additionalProperties": {"$ref": "#/$defs/declaration"},
            },
        },
        "additionalProperties": {"$ref": "#/$defs/declaration"},
        "$defs": definitions,
    })
}

fn keyword_schemas() -> Map<String, Value> {
    sorted_keywords()
        .iter()
        .map(|keyword| (keyword.name.to_owned(), json!({"description": keyword.about})))
        .collect()
}

/// The parameters of a function, in one mapping.
fn arguments_schema(function: &FunctionDoc) -> Value {
    let parameters: Map<String, Value> =
        function.parameters.iter().map(|one| (one.name.to_owned(), parameter_schema(one))).collect();
    json!({"type": "object", "properties": parameters, "allOf": [{"$ref": "#/$defs/keywords"}]})
}

/// A list of arguments, each a mapping with one key; Salt takes one mapping as well.
fn function_schema(function: &FunctionDoc, name: &str) -> Value {
    let arguments = json!({"$ref": format!("#/$defs/{name} arguments").replace(' ', "%20")});
    json!({
        "description": function.summary,
        "anyOf": [
            {"type": "null"},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, arguments.clone()]}},
            arguments,
        ],
    })
}

fn parameter_schema(parameter: &StateParameter) -> Value {
    let mut schema = Map::from_iter([("description".to_owned(), json!(parameter.about))]);
    let kinds: Vec<&str> = parameter.kinds.source_text().split('|').collect();
    let words: Vec<&str> = parameter.kinds.allowed_words().collect();
    let is_words_only = kinds.len() == words.len();
    let mut types = vec!["null", "boolean"];
    for kind in &kinds {
        match *kind {
            "any" => return Value::Object(schema),
            // 0 and 1 are false and true.
            "bool" => types.extend(["string", "number"]),
            "list" => types.push("array"),
            // A list of mappings is one mapping.
            "map" => types.extend(["object", "array"]),
            // A number may come as a text, and a text may look like a number.
            _ => types.extend(["string", "number"]),
        }
    }
    if kinds.contains(&"map") && !kinds.contains(&"list") {
        schema.insert("items".into(), json!({"type": "object"}));
    }
    types.sort_unstable();
    types.dedup();
    if is_words_only {
        schema.insert("anyOf".into(), json!([{"enum": words}, {"type": ["null", "boolean"]}, {"const": ""}]));
    } else {
        schema.insert("type".into(), json!(types));
        if !words.is_empty() {
            schema.insert("examples".into(), json!(words));
        }
    }
    Value::Object(schema)
}
