//! A node and a tree for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use minijinja::{Environment, UndefinedBehavior, context};
use zagent_config::mask::Secret;
use zagent_config::{Diagnostic, Map, Value};

use super::{FunctionRenderer, Functions, RenderRequest, RenderSource, salt};
use crate::jinja::object::to_template;
use crate::schema::sample_tests::sample_schema;
use crate::{CallError, Cipher, CompileInputs, CompileOptions, FileTree, FunctionCall, TemplateHost};

/// Files in memory, in one environment.
#[derive(Default)]
pub(crate) struct SampleFiles(BTreeMap<String, String>);

impl FileTree for SampleFiles {
    fn envs(&self) -> Vec<String> {
        vec!["base".into()]
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        Ok(self.0.get(path).filter(|_| env == "base").map(|text| Arc::from(text.as_bytes())))
    }

    fn list(&self, _: &str) -> Result<Arc<[String]>, String> {
        Ok(self.0.keys().cloned().collect())
    }

    fn display(&self, _: &str, path: &str) -> String {
        format!("/tree/{path}")
    }
}

/// A node with recorded grains and two functions.
pub(crate) struct SampleHost {
    grains: Value,
    pub(crate) said: Mutex<Vec<String>>,
}

impl TemplateHost for SampleHost {
    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.grains.clone()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        match call.function.as_str() {
            "cmd.run" => Err(CallError::Forbidden("`templates.cmd_run` is off".into())),
            "file.file_exists" => Ok((call.args == [Value::from("/etc/passwd")]).into()),
            "file.contains" => Err(CallError::Failed("cannot read `/x`".into())),
            "random.get_str" => Ok("0123".into()),
            name if name.starts_with("log.") => {
                let text = call.args.first().and_then(Value::as_str).unwrap_or_default();
                self.said.lock().unwrap().push(format!("{name} {text}"));
                Ok(true.into())
            }
            _ => Err(CallError::Unknown),
        }
    }

    fn functions(&self) -> Vec<&'static str> {
        vec!["cmd.run", "file.file_exists", "file.contains"]
    }

    fn decrypt(&self, _: Cipher, _: &str) -> Result<Secret, String> {
        Err("no key".into())
    }

    fn external_pillar(&self, _: &Value) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

struct EchoRenderer;

impl FunctionRenderer for EchoRenderer {
    fn render(&self, request: &RenderRequest) -> Result<Value, Box<Diagnostic>> {
        let text = match &request.source {
            RenderSource::File { env, path } => format!("{env}:{path}"),
            RenderSource::Text(text) => text.clone(),
        };
        let mut out = Map::new();
        out.insert(request.renderer.as_str(), text);
        out.insert("vars", request.variables.clone());
        Ok(out.into())
    }
}

/// Functions over the sample, and templates that call them.
pub(crate) struct SampleFunctions {
    pub(crate) functions: Functions,
    pub(crate) node: Arc<SampleHost>,
    renderer: Arc<dyn FunctionRenderer>,
}

fn json(text: &str) -> Value {
    Value::from_json_str(text).unwrap()
}

impl SampleFunctions {
    /// The node on which real Salt's results were recorded.
    pub(crate) fn new() -> Self {
        let node = Arc::new(SampleHost {
            grains: json(
                r#"{"id": "testminion", "os": "Debian", "os_family": "Debian", "roles": ["web", "db"],
                    "rack": {"row": "A", "slot": 7}, "env_type": "staging", "nullg": null, "init": "sysvinit",
                    "ipv4": ["127.0.0.1", "192.0.2.2"]}"#,
            ),
            said: Mutex::default(),
        });
        let mut pillar = json(
            r#"{"a": {"x": 1, "n": {"y": 2}}, "l": [1, 2, {"k": "v"}], "nul": null, "s": "secret",
                "env_type": "frompillar", "mm": {"a": {"y": 2}, "l": [2], "extra": 1}, "master": {"mk": "mv"}}"#,
        );
        if let Value::Map(map) = &mut pillar {
            let map = Arc::make_mut(map);
            let mut ports = Map::new();
            ports.insert(Value::Int(80), "http");
            ports.insert(Value::Bool(true), true);
            ports.insert(Value::Float(1.5), "f");
            map.insert("ports", ports);
        }
        let tree = SampleFiles(
            [
                ("top.sls", ""),
                ("m1.sls", ""),
                ("web/init.sls", ""),
                ("web/app.sls", ""),
                ("core/defaults.json", r#"{"x": {"y": 5}}"#),
                ("core/sub/f", "a"),
                ("core/x.txt", "hi\n"),
            ]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
        );
        let opts = json(r#"{"mycfg": "fromopts", "nestcfg": {"k": "v"}, "mm": {"a": {"x": 1}, "l": [1]}}"#);
        let options = CompileOptions {
            id: "testminion".into(),
            opts: opts.as_map().cloned().unwrap_or_default(),
            ..CompileOptions::default()
        };
        let inputs = CompileInputs {
            states: Arc::new(tree),
            pillar: Arc::new(SampleFiles::default()),
            host: Arc::clone(&node) as Arc<dyn TemplateHost>,
            schema: sample_schema(),
            options: Arc::new(options),
        };
        let functions = Functions::new(inputs, pillar);
        let renderer: Arc<dyn FunctionRenderer> = Arc::new(EchoRenderer);
        functions.set_renderer(Arc::downgrade(&renderer));
        Self { functions, node, renderer }
    }

    /// Renders a template with `salt`, `d` and `u`; errors are returned as `code: message (hint)`.
    pub(crate) fn render(&self, template: &str) -> String {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        let d = to_template(&json(r#"{"n": {"x": 1}, "l": [1], "Debian": {"a": 1}}"#));
        let u = to_template(&json(r#"{"n": {"y": 1}, "m": {"t": 1}, "l": [1, 3]}"#));
        let answer = env.render_str(template, context! { salt => salt(&self.functions), d, u });
        assert!(Arc::strong_count(&self.renderer) > 0);
        answer.unwrap_or_else(|e| match self.functions.diagnostic_of(&e) {
            Some(f) => {
                let hint = f.hint.map(|h| format!(" ({h})")).unwrap_or_default();
                format!("{}: {}{hint}", f.code.id, f.message)
            }
            None => format!("error: {e}"),
        })
    }
}
