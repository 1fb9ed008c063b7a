//! The schema in, the states of the agent out: every described state is implemented, and every implemented one is
//! described.

use zagent_compiler::schema::FunctionDoc;
use zagent_compiler::{Chunk, CompileOptions, CompileTarget, Compiler};
use zagent_config::{Map, Value};
use zagent_states as states;
use zagent_tests::memory::{Tree, inputs};

/// The state of the example that uses the function.
fn example(told: &FunctionDoc) -> Chunk {
    let files = vec![("example.sls".to_owned(), told.example.clone().into_bytes())];
    let inputs = inputs(Tree::base(files), Tree::default(), Value::empty_map(), CompileOptions::default());
    let want = CompileTarget::Sls { names: vec!["example".to_owned()], env: "base".to_owned() };
    let plan = Compiler::new(inputs).compile(&want).unwrap_or_else(|faults| panic!("{faults:?}")).plan;
    let uses = |c: &Chunk| *c.state == *told.module && *c.fun == *told.name;
    plan.chunks.into_iter().find(uses).expect("the example uses its function")
}

#[test]
fn every_described_state_is_implemented() {
    let mut wrong = Vec::new();
    for told in states::schema().described_functions() {
        let what = format!("{}.{}", told.module, told.name);
        match (states::build_builtin(&example(&told)), told.traits.is_unimplemented) {
            (Some(Ok(_)), true) => wrong.push(format!("{what} is built, and marked as unbuilt")),
            (None, false) => wrong.push(format!("{what} is not built")),
            (Some(Err(failure)), false) => wrong.push(format!("{what}: {}", failure.result.comment)),
            (Some(Ok(state)), false)
                if !told.traits.is_read_only && state.is_predictable() != told.traits.is_predictable =>
            {
                wrong.push(format!("{what}: its mark `foreseen` is wrong"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Modules with arbitrary actions: what they touch is unknown, and Salt does not order them either.
const ACTS: [&str; 7] = ["cmd", "exec", "module", "test", "event", "http", "environ"];

#[test]
fn a_state_that_writes_names_its_resources() {
    let mut wrong = Vec::new();
    for told in
        states::schema().described_functions().filter(|t| !t.traits.is_read_only && !ACTS.contains(&t.module))
    {
        if let Some(Ok(state)) = states::build_builtin(&example(&told))
            && state.lock_keys().is_empty()
        {
            wrong.push(format!("{}.{} names no resource", told.module, told.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_implemented_state_is_described() {
    let any = states::schema().described_functions().next().expect("something is described");
    let template = example(&any);
    let mut wrong = Vec::new();
    // An undescribed module is left to the tree's own modules.
    let described: Vec<_> = states::schema().described_modules().collect();
    for module in states::schema().modules().iter().filter(|m| described.contains(&m.name)) {
        for function in module.functions().filter(|f| f.describe().is_none()) {
            let mut chunk = template.clone();
            (chunk.state, chunk.fun, chunk.args) = (module.name.into(), function.name.into(), Map::new());
            if states::build_builtin(&chunk).is_some() {
                wrong.push(format!("{}.{} is built, and not described", module.name, function.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The codes of the warnings that a tree gets, each once.
fn warnings(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let inputs = inputs(Tree::base(files), Tree::default(), Value::empty_map(), CompileOptions::default());
    let want = CompileTarget::Sls { names: vec!["web".to_owned()], env: "base".to_owned() };
    let compiled = Compiler::new(inputs).compile(&want).unwrap_or_else(|faults| panic!("{faults:?}"));
    compiled.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_function_that_only_salt_has_is_a_warning() {
    let sls = "a:\n  lxd_container.present: []\nb:\n  lxd_container.present: []\nc:\n  test.nop: []\n";
    let told = warnings(&[("web.sls", sls)]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("ZA0818") && told[0].contains("web.sls:2"), "{told:?}");
    // A module in the tree is used instead.
    assert_eq!(warnings(&[("web.sls", sls), ("_states/lxd_container", "#!/bin/sh\n")]), [""; 0]);
}
