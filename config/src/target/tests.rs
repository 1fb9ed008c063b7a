//! `truth.tsv` holds the results of Salt 3008's own matchers for the node below.

use super::*;

pub(super) struct Node {
    pub(super) id: String,
    pub(super) grains: Value,
    pub(super) pillar: Value,
    pub(super) groups: Map,
}

impl TargetSubject for Node {
    fn id(&self) -> &str {
        &self.id
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.grains.clone()
    }

    fn pillar(&self) -> Value {
        self.pillar.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.groups
    }

    fn resources(&self) -> Vec<(String, String)> {
        ["esx-1", "esx-2"]
            .into_iter()
            .map(|id| ("ssh".to_owned(), id.to_owned()))
            .chain([("dummy".into(), "d1".into())])
            .collect()
    }
}

fn json(text: &str) -> Value {
    Value::from_json_str(text).unwrap()
}

pub(super) fn node() -> Node {
    let mut grains = json(
        r#"{"os":"Debian","os_family":"Debian","osmajorrelease":12,"roles":["web","db-main",{"deep":{"x":"y"}},7],
        "ipv4":["10.1.2.3","127.0.0.1"],"ipv6":["fe80::1","::1"],
        "nested":{"a":{"b":"C:D","n":null,"t":true},"list":["One","two"],"f":1.5,"Key":"v"},"empty":{},"none":null,
        "url":"http://x:80/","path":"a:b","multi":"line\n"}"#,
    )
    .as_map()
    .unwrap()
    .clone();
    let mut num = Map::new();
    num.insert(Value::Int(1), "one");
    num.insert("2", "two");
    grains.insert("num", num);
    let groups = json(
        r#"{"web":"web* and G@os:Debian","either":"db* or web*","names":["web1","web2"],"plain":"web1 db1",
        "re":["web[0-9]","db?"],"nest":"N@web and not N@names","loop":"N@loop or web*","a":"N@b","b":"N@a","bad":5,
        "listc":["web*","or","db*"],"regex":"E@web\\d","nest2":"N@names or N@either","empty":"",
        "unk":"N@nope or web1"}"#,
    );
    Node {
        id: "web1".into(),
        grains: grains.into(),
        pillar: json(
            r#"{"role":"frontend","app":{"name":"Shop","ports":[80,443],"flags":{"beta":true}},"s":"x:y:z",
            "tags":["red","blue"]}"#,
        ),
        groups: groups.as_map().unwrap().clone(),
    }
}

fn truth() -> impl Iterator<Item = (MatchKind, &'static str, &'static str)> {
    include_str!("truth.tsv").lines().map(|line| {
        let (kind, rest) = line.split_once('\t').unwrap();
        let (text, answer) = rest.rsplit_once('\t').unwrap();
        (kind.parse().unwrap(), text, answer)
    })
}

#[test]
fn a_lenient_target_matches_as_salt() {
    let node = node();
    let mut wrong = Vec::new();
    for (kind, text, want) in truth() {
        let got = match Target::parse_lenient(text, kind).matches(&node) {
            Ok(true) => "True",
            Ok(false) => "False",
            Err(_) => "error",
        };
        if got != want {
            wrong.push(format!("{} `{text}`: {got}, Salt says {want}", kind.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_strict_target_matches_as_salt_or_fails() {
    let node = node();
    let mut refused = 0;
    for (kind, text, want) in truth() {
        match Target::parse(text, kind).and_then(|t| t.matches(&node)) {
            Ok(got) => assert_eq!(if got { "True" } else { "False" }, want, "{} `{text}`", kind.name()),
            Err(_) => refused += 1,
        }
    }
    assert_eq!(refused, 51, "targets that only Salt accepts");
}

#[test]
fn errors_say_what_and_where() {
    for (text, column, message) in [
        ("", 0, "the target is empty"),
        ("web* db*", 6, "an operator is missing before `db*`"),
        ("web* and", 9, "the target ends where a word is expected"),
        ("and web*", 1, "`and` has nothing on its left"),
        ("web* or  or db*", 10, "`or` has nothing on its left"),
        ("not not web*", 5, "`not` after `not`"),
        ("x and ( web*", 7, "this `(` is never closed"),
        ("web* )", 6, "this `)` closes nothing"),
        ("x or ( )", 8, "nothing between the parentheses"),
        ("x ( y )", 3, "an operator is missing before `(`"),
        ("( x y )", 5, "an operator is missing before `y`"),
        ("x and R@range", 7, "`R@range`: range servers (`R@`) are not supported"),
        ("x and G@os", 7, "`os` has a key but no value"),
        ("ä and S@10.0.0.1/8", 7, "`10.0.0.1/8` has host bits set"),
    ] {
        let error = Target::parse(text, MatchKind::Compound).unwrap_err();
        assert_eq!((error.column, error.message.as_str()), (column, message), "`{text}`");
    }
    let error = Target::parse("S@10.1.2.3/8", MatchKind::Compound).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean `10.0.0.0/8`?"));
    let error = "grian".parse::<MatchKind>().unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean `grain`?"));
}

#[test]
fn a_target_over_reports_rejects_words_that_match_no_node() {
    for (text, column, message) in [
        ("not (n1 or n2", 5, "`(n1`: no space between the parenthesis and the word"),
        ("not ( n1 or n2)", 13, "`n2)`: no space between the parenthesis and the word"),
        ("n* and not (n1)", 12, "`(n1)`: no space between the parenthesis and the word"),
        ("not I@role:db", 5, "`I@role:db`: node reports do not contain pillar"),
        ("not J;@role;d.*", 5, "`J;@role;d.*`: node reports do not contain pillar"),
        ("not X@foo", 5, "`X@foo`: unknown matcher letter"),
    ] {
        let fault = Target::parse_reported(text).unwrap_err();
        assert_eq!((fault.column, fault.message.as_str()), (column, message), "{text}");
        assert!(fault.hint.is_some(), "{text}");
    }
    for text in ["not ( n1 or n2 )", "E@web(1|2)", "G@os:Debian and web-*", "not L@a,b", "E@(a|b)"] {
        assert!(Target::parse_reported(text).is_ok(), "{text}");
    }
}

#[test]
fn a_strict_target_names_the_invalid_group() {
    let node = node();
    for (text, message) in [
        ("web1 or N@wbe", "unknown group `wbe`"),
        ("N@loop", "the group `loop` contains itself: `loop` → `loop`"),
        ("N@a", "the group `a` contains itself: `a` → `b` → `a`"),
        ("N@bad", "the group `bad` is an integer, not a target or a list"),
    ] {
        let error = Target::parse(text, MatchKind::Compound).unwrap().matches(&node).unwrap_err();
        assert_eq!(error.message, message, "{text}");
    }
}

#[test]
fn types_and_ids_of_resources_are_compared_literally() {
    let node = node();
    for (text, want) in [
        ("T@ssh", true),
        ("T@ssh:esx-1", true),
        ("T@ssh:esx-*", false),
        ("T@s*", false),
        ("T@ssh:d1", false),
        ("T@ssh:", false),
        ("M@web1", true),
        ("M@web*", false),
    ] {
        assert_eq!(Target::parse(text, MatchKind::Compound).unwrap().matches(&node), Ok(want), "{text}");
    }
}

#[test]
fn hostile_targets_terminate() {
    let mut deep = json(r#"{"x": 1}"#);
    for _ in 0..20 {
        deep = Map::from_iter([("a", deep.clone()), ("b", deep)]).into();
    }
    let node = Node { pillar: deep, ..node() };
    let text = format!("I@{}nope", "*:".repeat(25));
    let error = Target::parse(&text, MatchKind::Compound).unwrap().matches(&node).unwrap_err();
    assert_eq!(error.code.id, "ZA0325");
    let text = format!("I@{}nope", "*:".repeat(20_000));
    assert!(Target::parse(&text, MatchKind::Compound).unwrap().matches(&node).is_err());
    assert!(Target::parse(&"( ".repeat(50_000), MatchKind::Compound).is_err());
    let text = "not ( ".repeat(90) + "x" + &" )".repeat(90);
    assert_eq!(Target::parse(&text, MatchKind::Compound).unwrap().matches(&node), Ok(false));
}
