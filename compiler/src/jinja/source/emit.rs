//! The statements of a template in, minijinja's dialect out.
//!
//! Law: a block hides what Jinja2 hides. Where minijinja would leak a name from a block, an empty `with` keeps it
//! inside; an import without context runs inside a macro, which sees the render's own variables and nothing from
//! the importer (held by `tests/corpus`).

use super::ast::{
    AssignTarget, AstExpr, ExprKind, FilterCall, LoadFormat, MacroSignature, Stmt, StmtKind, StmtList,
};
use super::line_mark;
use super::scan::{HelperNeeds, assigns, controls_loop, is_literal, plain_bytes};
use super::write::{Precedence, TemplateWriter, safe_name};

/// Plain text in a body below this size is not counted at run time.
const FREE_BYTES: usize = 32;

const IMPORTER: &str = "{%macro _za_imp(_za_n)%}{%with tpldir=\"tpldir\"|_za_here,tplfile=\"tplfile\"|_za_here,\
    tpldot=\"tpldot\"|_za_here%}{%import _za_n as _za_m%}{%if _za_m|_za_keep%}{%endif%}{%endwith%}{%endmacro%}";
const INCLUDER: &str = "{%macro _za_inc(_za_n)%}{%with tpldir=\"tpldir\"|_za_here,tplfile=\"tplfile\"|_za_here,\
    tpldot=\"tpldot\"|_za_here%}{%include _za_n%}{%endwith%}{%endmacro%}";

impl TemplateWriter<'_> {
    pub(super) fn template(&mut self, body: &StmtList) {
        let mut needs = HelperNeeds::default();
        needs.scan(body);
        if needs.import {
            self.push_str(IMPORTER);
        }
        if needs.include {
            self.push_str(INCLUDER);
        }
        self.hide_imports(body);
        self.count_plain_text(body);
        self.body(body);
    }

    /// Top-level names last assigned by an import.
    fn hide_imports(&mut self, body: &StmtList) {
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
                    self.unhide_target(target);
                }
                StmtKind::ImportData { target, .. } | StmtKind::Macro { name: target, .. } => {
                    self.hidden.remove(target);
                }
                StmtKind::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.hide_imports(body));
                    otherwise.iter().for_each(|body| self.hide_imports(body));
                }
                StmtKind::Profile { body, .. } => self.hide_imports(body),
                _ => {}
            }
        }
    }

    fn unhide_target(&mut self, target: &AssignTarget) {
        match target {
            AssignTarget::Name(name) => {
                self.hidden.remove(name);
            }
            AssignTarget::Tuple(items) => items.iter().for_each(|t| self.unhide_target(t)),
            AssignTarget::Attribute(..) => {}
        }
    }

    /// Counts the plain text that a body prints each time it runs.
    fn count_plain_text(&mut self, body: &StmtList) {
        let bytes = plain_bytes(body);
        if bytes > FREE_BYTES {
            self.push_str(&format!("{{%if {bytes}|_za_tick%}}{{%endif%}}"));
        }
    }

    fn body(&mut self, body: &StmtList) {
        body.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// A body whose names stay local.
    fn scoped(&mut self, body: &StmtList) {
        if !assigns(body) {
            return self.body(body);
        }
        self.push_str("{%with%}");
        self.body(body);
        self.push_str("{%endwith%}");
    }

    fn open_tag(&mut self, at: usize, words: &str) {
        self.mark_outside(at);
        self.push_str("{%");
        self.mark(at);
        self.push_str(words);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let at = stmt.at;
        match &*stmt.kind {
            StmtKind::Data(range) => self.source_text(range.clone()),
            StmtKind::Print(exprs) => {
                for expr in exprs {
                    self.mark_outside(at);
                    self.push_str("{{ ");
                    self.expr(expr, Precedence::Condition);
                    self.push_str(" }}");
                }
            }
            StmtKind::Set(target, value) => {
                self.open_tag(at, "set ");
                self.target(target);
                self.push_str("=");
                self.assigned_value(value);
                self.push_str("%}");
            }
            StmtKind::SetBlock { target, filters, body } => self.set_block(at, target, filters, body),
            StmtKind::For { .. } => self.for_loop(at, &stmt.kind),
            StmtKind::If { branches, otherwise } => self.if_chain(at, branches, otherwise.as_ref()),
            StmtKind::With { assigns, body } => self.with(at, assigns, body),
            StmtKind::FilterBlock { filters, body } => self.filter_block(at, filters, body),
            StmtKind::AutoEscape { enabled, body } => {
                self.open_tag(at, "autoescape ");
                self.expr(enabled, Precedence::Condition);
                self.push_str("%}");
                self.scoped(body);
                self.push_str("{%endautoescape%}");
            }
            StmtKind::Block { name, scoped, required, body } => {
                self.open_tag(at, "block ");
                self.push_str(name);
                self.push_str(if *scoped { " scoped" } else { "" });
                self.push_str(if *required { " required" } else { "" });
                self.push_str("%}");
                if !required {
                    self.count_plain_text(body);
                }
                self.body(body);
                self.push_str("{%endblock%}");
            }
            StmtKind::Macro { .. } | StmtKind::CallBlock { .. } => self.callable(at, &stmt.kind),
            StmtKind::Do(value) => self.evaluate(at, value),
            StmtKind::Profile { label, body } => {
                self.evaluate(at, label);
                self.body(body);
            }
            StmtKind::Break => self.open_tag(at, "break%}"),
            StmtKind::Continue => self.open_tag(at, "continue%}"),
            StmtKind::Load { format, target, body } => {
                self.open_tag(at, "set _za_l%}");
                self.scoped(body);
                self.push_str("{%endset%}{%set ");
                self.target(target);
                self.push_str("=_za_l");
                self.load_block(at, *format);
                self.push_str("%}");
            }
            _ => self.other_template(at, &stmt.kind),
        }
    }

    fn set_block(&mut self, at: usize, target: &AssignTarget, filters: &[FilterCall], body: &StmtList) {
        self.open_tag(at, "set ");
        self.target(target);
        for filter in filters {
            self.push_str("|");
            self.filter(filter);
        }
        self.push_str("%}");
        self.scoped(body);
        self.push_str("{%endset%}");
    }

    fn source_text(&mut self, range: std::ops::Range<usize>) {
        self.mark_outside(range.start);
        let text = &self.source[range.clone()];
        let Some(template) = self.marks else { return self.literal_text(text) };
        let mut at = range.start;
        for line in text.split_inclusive('\n') {
            let mark = line_mark(template, self.line_of(at) + 1);
            self.push_str(&mark);
            self.literal_text(line);
            at += line.len();
        }
        // The next item on the new line may be a value, which has no mark.
        if text.ends_with('\n') {
            let mark = line_mark(template, self.line_of(at) + 1);
            self.push_str(&mark);
        }
    }

    /// A value to be assigned: containers made by the engine become mutable ones.
    fn assigned_value(&mut self, value: &AstExpr) {
        let changeable = matches!(
            value.kind,
            ExprKind::Filter(..)
                | ExprKind::Call(..)
                | ExprKind::Condition { .. }
                | ExprKind::And(..)
                | ExprKind::Or(..)
        );
        self.expr(value, if changeable { Precedence::Filter } else { Precedence::Condition });
        if changeable {
            self.push_str("|_za_own");
        }
    }

    fn target(&mut self, target: &AssignTarget) {
        match target {
            AssignTarget::Name(name) => self.push_str(&safe_name(name)),
            AssignTarget::Attribute(name, attribute) => {
                self.push_str(&safe_name(name));
                self.push_str(".");
                self.push_str(attribute);
            }
            AssignTarget::Tuple(items) => {
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.push_str(",");
                    }
                    let nested = matches!(item, AssignTarget::Tuple(_));
                    self.push_str(if nested { "(" } else { "" });
                    self.target(item);
                    self.push_str(if nested { ")" } else { "" });
                }
                if items.len() == 1 {
                    self.push_str(",");
                }
            }
        }
    }

    /// Evaluates an expression and discards the result.
    fn evaluate(&mut self, at: usize, value: &AstExpr) {
        self.open_tag(at, "if ");
        self.expr(value, Precedence::Filter);
        self.push_str("|_za_do%}{%endif%}");
    }

    fn for_loop(&mut self, at: usize, kind: &StmtKind) {
        let StmtKind::For { target, iter, test, recursive, body, otherwise } = kind else { return };
        self.open_tag(at, "for ");
        self.target(target);
        self.push_str(" in ");
        self.iterated(iter);
        if let Some(test) = test {
            self.push_str(" if ");
            self.expr(test, Precedence::Condition);
        }
        self.push_str(if *recursive { " recursive%}" } else { "%}" });
        self.count_plain_text(body);
        self.body(body);
        if !otherwise.is_empty() {
            self.push_str("{%else%}");
            if controls_loop(otherwise) { self.body(otherwise) } else { self.scoped(otherwise) }
        }
        self.push_str("{%endfor%}");
    }

    /// The iterable of a loop.
    fn iterated(&mut self, iter: &AstExpr) {
        match &iter.kind {
            // A literal that is only iterated cannot be changed or used again.
            ExprKind::List(items) | ExprKind::Tuple(items) => self.sequence(iter.at, items, '[', ']'),
            _ => {
                self.expr(iter, Precedence::Filter);
                self.push_str("|_za_iter");
            }
        }
    }

    fn if_chain(&mut self, at: usize, branches: &[(AstExpr, StmtList)], otherwise: Option<&StmtList>) {
        for (i, (test, body)) in branches.iter().enumerate() {
            if i == 0 {
                self.open_tag(at, "if ");
            } else {
                self.push_str("{%elif ");
            }
            self.expr(test, Precedence::Or);
            self.push_str("%}");
            self.body(body);
        }
        if let Some(body) = otherwise {
            self.push_str("{%else%}");
            self.body(body);
        }
        self.push_str("{%endif%}");
    }

    fn with(&mut self, at: usize, assigns: &[(AssignTarget, AstExpr)], body: &StmtList) {
        // The engine miscounts its frames when a loop is left from inside a `with`; names that are set in the
        // loop's own frame disappear after the iteration anyway.
        if controls_loop(body) {
            for (target, value) in assigns {
                self.open_tag(at, "set ");
                self.target(target);
                self.push_str("=");
                self.assigned_value(value);
                self.push_str("%}");
            }
            return self.body(body);
        }
        self.open_tag(at, "with ");
        let many = assigns.len() > 1;
        for (i, (target, value)) in assigns.iter().enumerate() {
            self.push_str(if i > 0 { "," } else { "" });
            if many {
                self.push_str(&format!("_za_w{i}"));
            } else {
                self.target(target);
            }
            self.push_str("=");
            self.assigned_value(value);
        }
        if many {
            for (i, (target, _)) in assigns.iter().enumerate() {
                self.push_str(",");
                self.target(target);
                self.push_str(&format!("=_za_w{i}"));
            }
        }
        self.push_str("%}");
        self.body(body);
        self.push_str("{%endwith%}");
    }

    fn filter_block(&mut self, at: usize, filters: &[FilterCall], body: &StmtList) {
        self.open_tag(at, "filter ");
        for (i, filter) in filters.iter().enumerate() {
            self.push_str(if i > 0 { "|" } else { "" });
            self.filter(filter);
        }
        self.push_str("%}");
        self.scoped(body);
        self.push_str("{%endfilter%}");
    }

    /// Parameters in parentheses. Returns whether the body sets the defaults: they may use other parameters.
    fn signature(&mut self, signature: &MacroSignature, rest: [bool; 2]) -> bool {
        let late = signature.defaults.iter().any(|d| !is_literal(d));
        let first_default = signature.names.len() - signature.defaults.len();
        self.push_str("(");
        for (i, name) in signature.names.iter().enumerate() {
            self.push_str(&safe_name(name));
            if i >= first_default && !late {
                self.push_str("=");
                self.expr(&signature.defaults[i - first_default], Precedence::Condition);
            }
            self.push_str(",");
        }
        for (name, wanted) in ["varargs", "kwargs"].into_iter().zip(rest) {
            if wanted && !signature.names.iter().any(|n| n == name) {
                self.push_str(name);
                self.push_str(if late { "," } else { "=none," });
            }
        }
        self.push_str(")");
        late
    }

    fn late_defaults(&mut self, signature: &MacroSignature) {
        let first = signature.names.len() - signature.defaults.len();
        for (name, default) in signature.names[first..].iter().zip(&signature.defaults) {
            self.push_str("{%set ");
            self.push_str(name);
            self.push_str("=");
            self.expr(default, Precedence::Or);
            self.push_str(&format!(" if {name} is undefined() else {name}%}}"));
        }
    }

    fn callable(&mut self, at: usize, kind: &StmtKind) {
        match kind {
            StmtKind::Macro { name, signature, rest, body } => {
                self.open_tag(at, "macro ");
                self.push_str(name);
                let late = self.signature(signature, *rest);
                self.push_str("%}");
                if late {
                    self.late_defaults(signature);
                }
                self.count_plain_text(body);
                self.body(body);
                let rest = rest.map(|r| if r { "true" } else { "false" });
                self.push_str(&format!(
                    "{{%endmacro%}}{{%set {name}={name}|_za_macro({},{})%}}",
                    rest[0], rest[1]
                ));
            }
            StmtKind::CallBlock { call, signature, body } => {
                self.open_tag(at, "call");
                let late = self.signature(signature, [false; 2]);
                self.push_str(" ");
                self.expr(call, Precedence::Condition);
                self.push_str("%}");
                if late {
                    self.late_defaults(signature);
                }
                self.count_plain_text(body);
                self.body(body);
                self.push_str("{%endcall%}");
            }
            _ => {}
        }
    }

    fn load_block(&mut self, at: usize, format: LoadFormat) {
        self.push_str("|");
        self.mark(at);
        self.push_str(match format {
            LoadFormat::Yaml => "_za_load(\"yaml\")",
            LoadFormat::Json => "_za_load(\"json\")",
            LoadFormat::Text => "_za_load(\"text\")",
        });
    }

    /// The module of another template, stored in an internal variable.
    fn import_module(&mut self, at: usize, name: &AstExpr, context: bool) {
        if context {
            self.open_tag(at, "set _za_p=");
            self.expr(name, Precedence::Filter);
            self.mark(name.at);
            self.push_str("|_za_path%}{%import _za_p as _za_m%}{%set _za_f=_za_m|_za_module(_za_p)%}");
        } else {
            self.open_tag(at, "set _za_f=");
            self.expr(name, Precedence::Filter);
            self.mark(name.at);
            self.push_str("|_za_import(_za_imp)%}");
        }
    }

    fn other_template(&mut self, at: usize, kind: &StmtKind) {
        match kind {
            StmtKind::Extends(name) => {
                self.open_tag(at, "extends ");
                self.expr(name, Precedence::Filter);
                self.push_str("|_za_path%}");
            }
            StmtKind::Include { name, ignore_missing, context: true } => {
                self.mark_outside(at);
                self.push_str("{%with%}");
                self.open_tag(at, "include ");
                self.expr(name, Precedence::Filter);
                self.mark(name.at);
                self.push_str(if *ignore_missing { "|_za_paths(false)" } else { "|_za_paths(true)" });
                self.push_str("%}{%endwith%}");
            }
            StmtKind::Include { name, ignore_missing, .. } => {
                self.mark_outside(at);
                self.push_str("{{ ");
                self.expr(name, Precedence::Filter);
                self.mark(name.at);
                self.push_str(&format!("|_za_include(_za_inc,{})}}}}", !ignore_missing));
            }
            StmtKind::Import { name, target, context } => {
                self.import_module(at, name, *context);
                self.push_str(&format!("{{%set {target}=_za_f%}}"));
            }
            StmtKind::From { name, names, context } => {
                self.import_module(at, name, *context);
                for (word, alias) in names {
                    self.push_str(&format!("{{%set {alias}=_za_f.{word}%}}"));
                }
            }
            StmtKind::ImportData { format, name, target, context } => {
                self.import_module(at, name, *context);
                self.push_str(&format!("{{%set {target}=_za_f|_za_body"));
                self.load_block(at, *format);
                self.push_str("%}");
            }
            _ => {}
        }
    }
}
