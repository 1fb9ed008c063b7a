//! A template as a tree: what the parser makes and the writer turns into minijinja's dialect.

use std::ops::Range;

/// A call's arguments: positional, named, `*rest` and `**rest`.
#[derive(Debug, Default)]
pub(super) struct Args {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
    pub(super) rest: Option<Box<Expr>>,
    pub(super) named_rest: Option<Box<Expr>>,
}

/// An expression and the byte where its deciding token stands.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

/// A filter of a chain.
#[derive(Debug)]
pub(super) struct FilterCall {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) args: Args,
}

#[derive(Debug)]
pub(super) enum Kind {
    Str(String),
    /// A number as minijinja writes it.
    Number(String),
    True,
    False,
    None,
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Args),
    Filter(Box<Expr>, FilterCall),
    Test {
        value: Box<Expr>,
        name: String,
        args: Args,
        negated: bool,
    },
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Math(Box<Expr>, &'static str, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Condition {
        test: Box<Expr>,
        yes: Box<Expr>,
        no: Option<Box<Expr>>,
    },
}

/// What a value is assigned to.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    /// `namespace.attribute`.
    Attribute(String, String),
    Tuple(Vec<Self>),
}

/// A macro's or a call block's parameters.
#[derive(Debug, Default)]
pub(super) struct Signature {
    pub(super) names: Vec<String>,
    /// Defaults of the last names.
    pub(super) defaults: Vec<Expr>,
}

/// A statement, and the byte where its word stands.
#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) at: usize,
    pub(super) kind: Box<StmtKind>,
}

pub(super) type Body = Vec<Stmt>;

/// How a loaded text becomes a value: `load_yaml`, `import_json`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Json,
    Text,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    Data(Range<usize>),
    Print(Vec<Expr>),
    Set(Target, Expr),
    SetBlock {
        target: Target,
        filters: Vec<FilterCall>,
        body: Body,
    },
    For {
        target: Target,
        iter: Expr,
        test: Option<Expr>,
        recursive: bool,
        body: Body,
        otherwise: Body,
    },
    If {
        branches: Vec<(Expr, Body)>,
        otherwise: Option<Body>,
    },
    With {
        assigns: Vec<(Target, Expr)>,
        body: Body,
    },
    FilterBlock {
        filters: Vec<FilterCall>,
        body: Body,
    },
    AutoEscape {
        enabled: Expr,
        body: Body,
    },
    Block {
        name: String,
        scoped: bool,
        required: bool,
        body: Body,
    },
    Extends(Expr),
    Include {
        name: Expr,
        ignore_missing: bool,
        context: bool,
    },
    Import {
        name: Expr,
        target: String,
        context: bool,
    },
    From {
        name: Expr,
        names: Vec<(String, String)>,
        context: bool,
    },
    ImportData {
        format: Format,
        name: Expr,
        target: String,
        context: bool,
    },
    Load {
        format: Format,
        target: Target,
        body: Body,
    },
    /// `rest` says whether the body reads `varargs` and `kwargs`.
    Macro {
        name: String,
        signature: Signature,
        rest: [bool; 2],
        body: Body,
    },
    CallBlock {
        call: Expr,
        signature: Signature,
        body: Body,
    },
    Do(Expr),
    Profile {
        label: Expr,
        body: Body,
    },
    Break,
    Continue,
}
