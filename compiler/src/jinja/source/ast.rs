//! The syntax tree of a template: the parser builds it, the writer converts it to minijinja's dialect.

use std::ops::Range;

/// A call's arguments: positional, named, `*rest` and `**rest`.
#[derive(Debug, Default)]
pub(super) struct AstArgs {
    pub(super) positional: Vec<AstExpr>,
    pub(super) named: Vec<(String, AstExpr)>,
    pub(super) rest: Option<Box<AstExpr>>,
    pub(super) named_rest: Option<Box<AstExpr>>,
}

/// An expression and the byte position of its main token.
#[derive(Debug)]
pub(super) struct AstExpr {
    pub(super) at: usize,
    pub(super) kind: ExprKind,
}

/// A filter of a chain.
#[derive(Debug)]
pub(super) struct FilterCall {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) args: AstArgs,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Str(String),
    /// A number as minijinja writes it.
    Number(String),
    True,
    False,
    None,
    Name(String),
    List(Vec<AstExpr>),
    Tuple(Vec<AstExpr>),
    Dict(Vec<(AstExpr, AstExpr)>),
    Attribute(Box<AstExpr>, String),
    Item(Box<AstExpr>, Box<AstExpr>),
    Slice(Box<AstExpr>, [Option<Box<AstExpr>>; 3]),
    Call(Box<AstExpr>, AstArgs),
    Filter(Box<AstExpr>, FilterCall),
    Test {
        value: Box<AstExpr>,
        name: String,
        args: AstArgs,
        negated: bool,
    },
    Not(Box<AstExpr>),
    Negative(Box<AstExpr>),
    Positive(Box<AstExpr>),
    Math(Box<AstExpr>, &'static str, Box<AstExpr>),
    Concat(Vec<AstExpr>),
    Compare(Box<AstExpr>, Vec<(&'static str, AstExpr)>),
    And(Box<AstExpr>, Box<AstExpr>),
    Or(Box<AstExpr>, Box<AstExpr>),
    Condition {
        test: Box<AstExpr>,
        yes: Box<AstExpr>,
        no: Option<Box<AstExpr>>,
    },
}

/// What a value is assigned to.
#[derive(Debug)]
pub(super) enum AssignTarget {
    Name(String),
    /// `namespace.attribute`.
    Attribute(String, String),
    Tuple(Vec<Self>),
}

/// A macro's or a call block's parameters.
#[derive(Debug, Default)]
pub(super) struct MacroSignature {
    pub(super) names: Vec<String>,
    /// Defaults of the last names.
    pub(super) defaults: Vec<AstExpr>,
}

/// A statement and the byte position of its keyword.
#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) at: usize,
    pub(super) kind: Box<StmtKind>,
}

pub(super) type StmtList = Vec<Stmt>;

/// How a loaded text is parsed: `load_yaml`, `import_json`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadFormat {
    Yaml,
    Json,
    Text,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    Data(Range<usize>),
    Print(Vec<AstExpr>),
    Set(AssignTarget, AstExpr),
    SetBlock {
        target: AssignTarget,
        filters: Vec<FilterCall>,
        body: StmtList,
    },
    For {
        target: AssignTarget,
        iter: AstExpr,
        test: Option<AstExpr>,
        recursive: bool,
        body: StmtList,
        otherwise: StmtList,
    },
    If {
        branches: Vec<(AstExpr, StmtList)>,
        otherwise: Option<StmtList>,
    },
    With {
        assigns: Vec<(AssignTarget, AstExpr)>,
        body: StmtList,
    },
    FilterBlock {
        filters: Vec<FilterCall>,
        body: StmtList,
    },
    AutoEscape {
        enabled: AstExpr,
        body: StmtList,
    },
    Block {
        name: String,
        scoped: bool,
        required: bool,
        body: StmtList,
    },
    Extends(AstExpr),
    Include {
        name: AstExpr,
        ignore_missing: bool,
        context: bool,
    },
    Import {
        name: AstExpr,
        target: String,
        context: bool,
    },
    From {
        name: AstExpr,
        names: Vec<(String, String)>,
        context: bool,
    },
    ImportData {
        format: LoadFormat,
        name: AstExpr,
        target: String,
        context: bool,
    },
    Load {
        format: LoadFormat,
        target: AssignTarget,
        body: StmtList,
    },
    /// `rest` says whether the body reads `varargs` and `kwargs`.
    Macro {
        name: String,
        signature: MacroSignature,
        rest: [bool; 2],
        body: StmtList,
    },
    CallBlock {
        call: AstExpr,
        signature: MacroSignature,
        body: StmtList,
    },
    Do(AstExpr),
    Profile {
        label: AstExpr,
        body: StmtList,
    },
    Break,
    Continue,
}
