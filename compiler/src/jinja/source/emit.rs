//! The statements of a template in minijinja's words.
//!
//! Law: a block hides what Jinja2 hides. Where minijinja would let a name out of a block, an empty `with` keeps it in;
//! an import without context runs inside a macro, which sees the render's own variables and nothing of the importer.

use super::ast::{Body, Expr, FilterCall, Format, Kind, Signature, Stmt, StmtKind, Target};
use super::line_mark;
use super::scan::{Needs, assigns, controls_loop, is_literal, plain_bytes};
use super::write::{Level, Writer, safe};

/// Bytes of plain text in a body that are not worth counting at run time.
const FREE_BYTES: usize = 32;

const IMPORTER: &str = "{%macro _za_imp(_za_n)%}{%with tpldir=\"tpldir\"|_za_here,tplfile=\"tplfile\"|_za_here,\
    tpldot=\"tpldot\"|_za_here%}{%import _za_n as _za_m%}{%if _za_m|_za_keep%}{%endif%}{%endwith%}{%endmacro%}";
const INCLUDER: &str = "{%macro _za_inc(_za_n)%}{%with tpldir=\"tpldir\"|_za_here,tplfile=\"tplfile\"|_za_here,\
    tpldot=\"tpldot\"|_za_here%}{%include _za_n%}{%endwith%}{%endmacro%}";

impl Writer<'_> {
    pub(super) fn template(&mut self, body: &Body) {
        let mut needs = Needs::default();
        needs.see(body);
        if needs.import {
            self.put(IMPORTER);
        }
        if needs.include {
            self.put(INCLUDER);
        }
        self.hide(body);
        self.tick(body);
        self.body(body);
    }

    /// Which names of the top level were last given by an import.
    fn hide(&mut self, body: &Body) {
        for stmt in body {
            match &*stmt.kind {
                StmtKind::Import { target, .. } => {
                    self.hidden.insert(target.clone());
                }
                StmtKind::From { names, .. } => {
                    self.hidden.extend(names.iter().map(|(_, alias)| alias.clone()));
                }
                StmtKind::Set(target, _)
                | StmtKind::SetBlock { target, .. }
                | StmtKind::Load { target, .. } => {
                    self.unhide(target);
                }
                StmtKind::ImportData { target, .. } | StmtKind::Macro { name: target, .. } => {
                    self.hidden.remove(target);
                }
                StmtKind::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.hide(body));
                    otherwise.iter().for_each(|body| self.hide(body));
                }
                StmtKind::Profile { body, .. } => self.hide(body),
                _ => {}
            }
        }
    }

    fn unhide(&mut self, target: &Target) {
        match target {
            Target::Name(name) => {
                self.hidden.remove(name);
            }
            Target::Tuple(items) => items.iter().for_each(|t| self.unhide(t)),
            Target::Attribute(..) => {}
        }
    }

    /// Counts the plain text that a body prints each time it runs.
    fn tick(&mut self, body: &Body) {
        let bytes = plain_bytes(body);
        if bytes > FREE_BYTES {
            self.put(&format!("{{%if {bytes}|_za_tick%}}{{%endif%}}"));
        }
    }

    fn body(&mut self, body: &Body) {
        body.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// A body whose names stay inside.
    fn scoped(&mut self, body: &Body) {
        if !assigns(body) {
            return self.body(body);
        }
        self.put("{%with%}");
        self.body(body);
        self.put("{%endwith%}");
    }

    fn open(&mut self, at: usize, words: &str) {
        self.mark_outside(at);
        self.put("{%");
        self.mark(at);
        self.put(words);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let at = stmt.at;
        match &*stmt.kind {
            StmtKind::Data(range) => self.text_of(range.clone()),
            StmtKind::Print(exprs) => {
                for expr in exprs {
                    self.mark_outside(at);
                    self.put("{{ ");
                    self.expr(expr, Level::Condition);
                    self.put(" }}");
                }
            }
            StmtKind::Set(target, value) => {
                self.open(at, "set ");
                self.target(target);
                self.put("=");
                self.assigned(value);
                self.put("%}");
            }
            StmtKind::SetBlock { target, filters, body } => self.set_block(at, target, filters, body),
            StmtKind::For { .. } => self.for_loop(at, &stmt.kind),
            StmtKind::If { branches, otherwise } => self.if_chain(at, branches, otherwise.as_ref()),
            StmtKind::With { assigns, body } => self.with(at, assigns, body),
            StmtKind::FilterBlock { filters, body } => self.filter_block(at, filters, body),
            StmtKind::AutoEscape { enabled, body } => {
                self.open(at, "autoescape ");
                self.expr(enabled, Level::Condition);
                self.put("%}");
                self.scoped(body);
                self.put("{%endautoescape%}");
            }
            StmtKind::Block { name, scoped, required, body } => {
                self.open(at, "block ");
                self.put(name);
                self.put(if *scoped { " scoped" } else { "" });
                self.put(if *required { " required" } else { "" });
                self.put("%}");
                if !required {
                    self.tick(body);
                }
                self.body(body);
                self.put("{%endblock%}");
            }
            StmtKind::Macro { .. } | StmtKind::CallBlock { .. } => self.callable(at, &stmt.kind),
            StmtKind::Do(value) => self.evaluate(at, value),
            StmtKind::Profile { label, body } => {
                self.evaluate(at, label);
                self.body(body);
            }
            StmtKind::Break => self.open(at, "break%}"),
            StmtKind::Continue => self.open(at, "continue%}"),
            StmtKind::Load { format, target, body } => {
                self.open(at, "set _za_l%}");
                self.scoped(body);
                self.put("{%endset%}{%set ");
                self.target(target);
                self.put("=_za_l");
                self.loaded(at, *format);
                self.put("%}");
            }
            _ => self.other_template(at, &stmt.kind),
        }
    }

    fn set_block(&mut self, at: usize, target: &Target, filters: &[FilterCall], body: &Body) {
        self.open(at, "set ");
        self.target(target);
        for filter in filters {
            self.put("|");
            self.filter(filter);
        }
        self.put("%}");
        self.scoped(body);
        self.put("{%endset%}");
    }

    fn text_of(&mut self, range: std::ops::Range<usize>) {
        self.mark_outside(range.start);
        let text = &self.source[range.clone()];
        let Some(template) = self.marks else { return self.data(text) };
        let mut at = range.start;
        for line in text.split_inclusive('\n') {
            let mark = line_mark(template, self.line_of(at) + 1);
            self.put(&mark);
            self.data(line);
            at += line.len();
        }
        // What stands next on the new line may be a value, which has no mark of its own.
        if text.ends_with('\n') {
            let mark = line_mark(template, self.line_of(at) + 1);
            self.put(&mark);
        }
    }

    /// A value on its way into a variable: what the engine made itself becomes something that can be changed.
    fn assigned(&mut self, value: &Expr) {
        let changeable = matches!(
            value.kind,
            Kind::Filter(..) | Kind::Call(..) | Kind::Condition { .. } | Kind::And(..) | Kind::Or(..)
        );
        self.expr(value, if changeable { Level::Filter } else { Level::Condition });
        if changeable {
            self.put("|_za_own");
        }
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Name(name) => self.put(&safe(name)),
            Target::Attribute(name, attribute) => {
                self.put(&safe(name));
                self.put(".");
                self.put(attribute);
            }
            Target::Tuple(items) => {
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.put(",");
                    }
                    let nested = matches!(item, Target::Tuple(_));
                    self.put(if nested { "(" } else { "" });
                    self.target(item);
                    self.put(if nested { ")" } else { "" });
                }
                if items.len() == 1 {
                    self.put(",");
                }
            }
        }
    }

    /// Evaluates an expression and forgets it.
    fn evaluate(&mut self, at: usize, value: &Expr) {
        self.open(at, "if ");
        self.expr(value, Level::Filter);
        self.put("|_za_do%}{%endif%}");
    }

    fn for_loop(&mut self, at: usize, kind: &StmtKind) {
        let StmtKind::For { target, iter, test, recursive, body, otherwise } = kind else { return };
        self.open(at, "for ");
        self.target(target);
        self.put(" in ");
        self.iterated(iter);
        if let Some(test) = test {
            self.put(" if ");
            self.expr(test, Level::Condition);
        }
        self.put(if *recursive { " recursive%}" } else { "%}" });
        self.tick(body);
        self.body(body);
        if !otherwise.is_empty() {
            self.put("{%else%}");
            if controls_loop(otherwise) { self.body(otherwise) } else { self.scoped(otherwise) }
        }
        self.put("{%endfor%}");
    }

    /// What a loop runs over.
    fn iterated(&mut self, iter: &Expr) {
        match &iter.kind {
            // Nobody can change, or see again, a literal that is only run over.
            Kind::List(items) | Kind::Tuple(items) => self.sequence(iter.at, items, '[', ']'),
            _ => {
                self.expr(iter, Level::Filter);
                self.put("|_za_iter");
            }
        }
    }

    fn if_chain(&mut self, at: usize, branches: &[(Expr, Body)], otherwise: Option<&Body>) {
        for (i, (test, body)) in branches.iter().enumerate() {
            if i == 0 {
                self.open(at, "if ");
            } else {
                self.put("{%elif ");
            }
            self.expr(test, Level::Or);
            self.put("%}");
            self.body(body);
        }
        if let Some(body) = otherwise {
            self.put("{%else%}");
            self.body(body);
        }
        self.put("{%endif%}");
    }

    fn with(&mut self, at: usize, assigns: &[(Target, Expr)], body: &Body) {
        // The engine loses count of its frames when a loop is left from inside a `with`; names that are set in the
        // loop's own frame vanish with the turn all the same.
        if controls_loop(body) {
            for (target, value) in assigns {
                self.open(at, "set ");
                self.target(target);
                self.put("=");
                self.assigned(value);
                self.put("%}");
            }
            return self.body(body);
        }
        self.open(at, "with ");
        let many = assigns.len() > 1;
        for (i, (target, value)) in assigns.iter().enumerate() {
            self.put(if i > 0 { "," } else { "" });
            if many {
                self.put(&format!("_za_w{i}"));
            } else {
                self.target(target);
            }
            self.put("=");
            self.assigned(value);
        }
        if many {
            for (i, (target, _)) in assigns.iter().enumerate() {
                self.put(",");
                self.target(target);
                self.put(&format!("=_za_w{i}"));
            }
        }
        self.put("%}");
        self.body(body);
        self.put("{%endwith%}");
    }

    fn filter_block(&mut self, at: usize, filters: &[FilterCall], body: &Body) {
        self.open(at, "filter ");
        for (i, filter) in filters.iter().enumerate() {
            self.put(if i > 0 { "|" } else { "" });
            self.filter(filter);
        }
        self.put("%}");
        self.scoped(body);
        self.put("{%endfilter%}");
    }

    /// Parameters in parentheses. Says whether the defaults are left for the body: they may name other parameters.
    fn signature(&mut self, signature: &Signature, rest: [bool; 2]) -> bool {
        let late = signature.defaults.iter().any(|d| !is_literal(d));
        let first_default = signature.names.len() - signature.defaults.len();
        self.put("(");
        for (i, name) in signature.names.iter().enumerate() {
            self.put(&safe(name));
            if i >= first_default && !late {
                self.put("=");
                self.expr(&signature.defaults[i - first_default], Level::Condition);
            }
            self.put(",");
        }
        for (name, wanted) in ["varargs", "kwargs"].into_iter().zip(rest) {
            if wanted && !signature.names.iter().any(|n| n == name) {
                self.put(name);
                self.put(if late { "," } else { "=none," });
            }
        }
        self.put(")");
        late
    }

    fn late_defaults(&mut self, signature: &Signature) {
        let first = signature.names.len() - signature.defaults.len();
        for (name, default) in signature.names[first..].iter().zip(&signature.defaults) {
            self.put("{%set ");
            self.put(name);
            self.put("=");
            self.expr(default, Level::Or);
            self.put(&format!(" if {name} is undefined() else {name}%}}"));
        }
    }

    fn callable(&mut self, at: usize, kind: &StmtKind) {
        match kind {
            StmtKind::Macro { name, signature, rest, body } => {
                self.open(at, "macro ");
                self.put(name);
                let late = self.signature(signature, *rest);
                self.put("%}");
                if late {
                    self.late_defaults(signature);
                }
                self.tick(body);
                self.body(body);
                let rest = rest.map(|r| if r { "true" } else { "false" });
                self.put(&format!(
                    "{{%endmacro%}}{{%set {name}={name}|_za_macro({},{})%}}",
                    rest[0], rest[1]
                ));
            }
            StmtKind::CallBlock { call, signature, body } => {
                self.open(at, "call");
                let late = self.signature(signature, [false; 2]);
                self.put(" ");
                self.expr(call, Level::Condition);
                self.put("%}");
                if late {
                    self.late_defaults(signature);
                }
                self.tick(body);
                self.body(body);
                self.put("{%endcall%}");
            }
            _ => {}
        }
    }

    fn loaded(&mut self, at: usize, format: Format) {
        self.put("|");
        self.mark(at);
        self.put(match format {
            Format::Yaml => "_za_load(\"yaml\")",
            Format::Json => "_za_load(\"json\")",
            Format::Text => "_za_load(\"text\")",
        });
    }

    /// The module of another template, left in a variable of ours.
    fn module(&mut self, at: usize, name: &Expr, context: bool) {
        if context {
            self.open(at, "set _za_p=");
            self.expr(name, Level::Filter);
            self.mark(name.at);
            self.put("|_za_path%}{%import _za_p as _za_m%}{%set _za_f=_za_m|_za_module(_za_p)%}");
        } else {
            self.open(at, "set _za_f=");
            self.expr(name, Level::Filter);
            self.mark(name.at);
            self.put("|_za_import(_za_imp)%}");
        }
    }

    fn other_template(&mut self, at: usize, kind: &StmtKind) {
        match kind {
            StmtKind::Extends(name) => {
                self.open(at, "extends ");
                self.expr(name, Level::Filter);
                self.put("|_za_path%}");
            }
            StmtKind::Include { name, ignore_missing, context: true } => {
                self.mark_outside(at);
                self.put("{%with%}");
                self.open(at, "include ");
                self.expr(name, Level::Filter);
                self.mark(name.at);
                self.put(if *ignore_missing { "|_za_paths(false)" } else { "|_za_paths(true)" });
                self.put("%}{%endwith%}");
            }
            StmtKind::Include { name, ignore_missing, .. } => {
                self.mark_outside(at);
                self.put("{{ ");
                self.expr(name, Level::Filter);
                self.mark(name.at);
                self.put(&format!("|_za_include(_za_inc,{})}}}}", !ignore_missing));
            }
            StmtKind::Import { name, target, context } => {
                self.module(at, name, *context);
                self.put(&format!("{{%set {target}=_za_f%}}"));
            }
            StmtKind::From { name, names, context } => {
                self.module(at, name, *context);
                for (word, alias) in names {
                    self.put(&format!("{{%set {alias}=_za_f.{word}%}}"));
                }
            }
            StmtKind::ImportData { format, name, target, context } => {
                self.module(at, name, *context);
                self.put(&format!("{{%set {target}=_za_f|_za_body"));
                self.loaded(at, *format);
                self.put("%}");
            }
            _ => {}
        }
    }
}
