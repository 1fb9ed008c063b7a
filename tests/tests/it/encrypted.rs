//! What is decrypted is a secret: single values, and the values of a file that was encrypted as one.

use std::sync::Arc;

use zagent_compiler::{
    CallError, Cipher, CompileOptions, CompileTarget, Compiler, FunctionCall, TemplateHost,
};
use zagent_config::mask::Secret;
use zagent_config::{SecretMask, Value};
use zagent_tests::memory::{self, Tree};

/// A node whose messages are decrypted by taking the armour off.
struct OpenNode;

impl TemplateHost for OpenNode {
    fn grain(&self, _: &str) -> Option<Value> {
        None
    }

    fn grains(&self) -> Value {
        Value::empty_map()
    }

    fn call(&self, _: &FunctionCall) -> Result<Value, CallError> {
        Err(CallError::Unknown)
    }

    fn functions(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn decrypt(&self, _: Cipher, armoured: &str) -> Result<Secret, String> {
        let body =
            armoured.lines().filter(|line| !line.starts_with("-----")).map(|line| line.replace('_', " "));
        Ok(body.collect::<Vec<_>>().join("\n").into())
    }

    fn external_pillar(&self, _: &Value) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

fn compiler(sls: &str) -> Compiler {
    let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
    let states = Tree::base([
        file("top.sls", "base: {'*': [a]}\n"),
        file("a.sls", "{{ pillar.get('db', {}).get('note', 'x') | trim }}: {test.nop: []}\n"),
    ]);
    let pillar = Tree::base([file("top.sls", "base: {'*': [p]}\n"), file("p.sls", sls)]);
    let mut inputs = memory::inputs(states, pillar, Value::empty_map(), CompileOptions::default());
    inputs.host = Arc::new(OpenNode);
    Compiler::new(inputs)
}

fn armoured(text: &str, indent: &str) -> String {
    let lines = format!("-----BEGIN AGE ENCRYPTED FILE-----\n{text}\n-----END AGE ENCRYPTED FILE-----");
    lines.lines().map(|line| format!("{indent}{line}\n")).collect()
}

#[test]
fn single_values_are_secrets() {
    let sls =
        format!("#!yaml|age\ndb:\n  note: |\n{}  plain: visible-value\n", armoured("s3cret-value", "    "));
    let compiler = compiler(&sls);
    compiler.compile(&CompileTarget::Highstate).unwrap();
    let mask = SecretMask::new(&compiler.secrets());
    assert_eq!(mask.mask_str("a s3cret-value b visible-value"), "a ******** b visible-value");
}

#[test]
fn the_values_of_an_encrypted_file_are_secrets_and_its_words_are_not() {
    let document =
        armoured("db:\n__note:_first-secret\n__user:_appuser\n__mode:_enabled\n__path:_/etc/app/key.pem", "");
    let compiler = compiler(&format!("#!age|yaml\n{document}"));
    compiler.compile(&CompileTarget::Highstate).unwrap();
    let mask = SecretMask::new(&compiler.secrets());
    let text = "first-secret: note: user: appuser enabled /etc/app/key.pem db:";
    assert_eq!(mask.mask_str(text), "********: note: user: appuser enabled /etc/app/key.pem db:");
    assert_eq!(compiler.decrypted_secrets(), [Secret::from("first-secret")]);
}

/// A pillar value that is the name of a state module or function does not make reports unreadable.
#[test]
fn names_of_states_are_never_masked() {
    let schema = zagent_states::schema();
    let modules = schema.described_modules().map(str::to_owned);
    let functions = schema.described_functions().map(|function| function.name.to_owned());
    for name in modules.chain(functions).filter(|name| name.len() <= 24) {
        assert!(!zagent_config::mask::is_maskable(&name), "add `{name}` to config/src/mask/common_words.txt");
    }
}
