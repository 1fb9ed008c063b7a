//! `ini.*`: options and sections of a file.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::exec_function::{
    ExecFunction, arg_or_empty, change_fn, edit_text_file, flag_arg, non_empty_arg, query_fn, text_arg,
};
use crate::ini::ini_file::{IniFile, IniFormat, ini_value_text};
use zagent_host::Machine;

/// The execution functions of `ini`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("ini.get_option", "file_name section option separator? encoding?", |m, a| {
        let section = non_empty_arg(a, "section");
        Ok(load_ini(m, a)?
            .get(section.as_deref(), &arg_or_empty(a, "option"))
            .map_or(Value::Null, Value::from))
    }),
    query_fn("ini.get_section", "file_name section separator? encoding?", |m, a| {
        let ini = load_ini(m, a)?;
        Ok(ini
            .section(non_empty_arg(a, "section").as_deref())
            .map_or_else(Value::empty_map, |s| s.to_map().into()))
    }),
    query_fn("ini.get_ini", "file_name separator? encoding?", |m, a| Ok(load_ini(m, a)?.to_map().into())),
    change_fn("ini.set_option", "file_name sections? separator? encoding? no_spaces?", set_ini_options),
    change_fn("ini.remove_option", "file_name section option separator? encoding?", |m, a| {
        let mut ini = load_ini(m, a)?;
        let was = ini.remove(non_empty_arg(a, "section").as_deref(), &arg_or_empty(a, "option"));
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
    change_fn("ini.remove_section", "file_name section separator? encoding?", |m, a| {
        let mut ini = load_ini(m, a)?;
        let was = ini.remove_section(text_arg(a, "section")?);
        save_ini(m, a, &ini)?;
        Ok(was.map_or(Value::Null, Value::from))
    }),
];

fn ini_separator(args: &FunctionArgs<Value>) -> String {
    non_empty_arg(args, "separator").unwrap_or_else(|| "=".into())
}

fn load_ini(machine: &Machine, args: &FunctionArgs<Value>) -> Result<IniFile, FunctionError> {
    let old = machine.read(text_arg(args, "file_name")?)?.unwrap_or_default();
    Ok(IniFile::parse(&old, &ini_separator(args)))
}

fn save_ini(machine: &Machine, args: &FunctionArgs<Value>, ini: &IniFile) -> Result<Value, FunctionError> {
    let spelling =
        IniFormat { separator: ini_separator(args), no_spaces: flag_arg(args, "no_spaces", false) };
    edit_text_file(machine, text_arg(args, "file_name")?, |_| ini.render(&spelling))
}

fn set_ini_options(machine: &Machine, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut ini = load_ini(machine, args)?;
    let before = ini.to_map();
    for (key, value) in args.get("sections").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let Value::Map(options) = value else {
            ini.set(None, &ini_value_text(key), &ini_value_text(value));
            continue;
        };
        ini.add_section(&ini_value_text(key));
        options
            .iter()
            .for_each(|(k, v)| ini.set(Some(&ini_value_text(key)), &ini_value_text(k), &ini_value_text(v)));
    }
    let mut changes = Map::new();
    for (key, value) in ini.to_map().iter() {
        let was = before.get_value(key);
        if was != Some(value) {
            let change = [("before", was.cloned().unwrap_or(Value::Null)), ("after", value.clone())];
            changes.insert(key.clone(), Value::from(Map::from_iter(change)));
        }
    }
    save_ini(machine, args, &ini)?;
    Ok(changes.into())
}
