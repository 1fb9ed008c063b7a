//! One target against a node and its resources: who is selected.

use proptest::prelude::*;

use super::tests::{Node, node};
use super::*;

/// A subject of a call that names a target.
struct Subject {
    id: &'static str,
    kind: Option<&'static str>,
    grains: Value,
    node: Node,
}

impl TargetSubject for Subject {
    fn id(&self) -> &str {
        self.id
    }

    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name).cloned()
    }

    fn grains(&self) -> Value {
        self.grains.clone()
    }

    fn pillar(&self) -> Value {
        self.node.pillar.clone()
    }

    fn nodegroups(&self) -> &Map {
        &self.node.groups
    }

    fn resources(&self) -> Vec<(String, String)> {
        self.node.resources()
    }

    fn role(&self) -> SubjectRole<'_> {
        self.kind.map_or(SubjectRole::Manager, |kind| SubjectRole::Resource { kind, manager: "web1" })
    }
}

/// The node `web1`, two dummies, an ssh host and a second resource that is called as the node is.
fn subjects() -> Vec<Subject> {
    let dummy = |id| format!(r#"{{"dummy_grain_1": "one", "resource_id": "{id}"}}"#);
    let rows = [
        ("web1", None, r#"{"os": "Debian"}"#.to_owned()),
        ("dummy-01", Some("dummy"), dummy("dummy-01")),
        ("dummy-02", Some("dummy"), dummy("dummy-02")),
        ("db-01", Some("ssh"), r#"{"os": "Debian", "resource_type": "ssh"}"#.to_owned()),
        ("web1", Some("chroot"), r#"{"os": "Alpine"}"#.to_owned()),
    ];
    let subject = |(id, kind, grains): (&'static str, Option<&'static str>, String)| Subject {
        id,
        kind,
        grains: Value::from_json_str(&grains).unwrap(),
        node: node(),
    };
    rows.into_iter().map(subject).collect()
}

/// Who is selected: `node`, and resources as `type:id`.
fn selected(text: &str, kind: MatchKind) -> String {
    let target = Target::parse(text, kind).unwrap_or_else(|error| panic!("{text}: {}", error.message));
    let all = subjects();
    let names = all.iter().filter(|subject| target.matches(*subject).unwrap());
    names
        .map(|s| s.kind.map_or_else(|| "node".to_owned(), |kind| format!("{kind}:{}", s.id)))
        .collect::<Vec<_>>()
        .join(" ")
}

const DUMMIES: &str = "dummy:dummy-01 dummy:dummy-02";
const ALL: &str = "node dummy:dummy-01 dummy:dummy-02 ssh:db-01 chroot:web1";

#[test]
fn a_target_selects_the_node_and_its_resources() {
    for (text, want) in [
        // Globs and bare ids; an id that is both means both.
        ("*", ALL),
        ("dummy-*", DUMMIES),
        ("dummy-01", "dummy:dummy-01"),
        ("web1", "node chroot:web1"),
        ("web?", "node chroot:web1"),
        ("chroot:web1", "chroot:web1"),
        ("nobody", ""),
        // Types and managers.
        ("T@dummy", DUMMIES),
        ("T@dummy:", DUMMIES),
        ("T@dummy:dummy-02", "dummy:dummy-02"),
        ("T@dummy:dummy-*", ""),
        ("T@d*", ""),
        ("T@chroot:web1", "chroot:web1"),
        ("M@web1", "dummy:dummy-01 dummy:dummy-02 ssh:db-01 chroot:web1"),
        ("M@web*", ""),
        ("M@db-01", ""),
        ("M@web1 and T@dummy", DUMMIES),
        ("T@dummy or T@ssh", "dummy:dummy-01 dummy:dummy-02 ssh:db-01"),
        ("not T@dummy", "ssh:db-01 chroot:web1"),
        ("M@web1 and not T@dummy", "ssh:db-01 chroot:web1"),
        // Lists and regular expressions on the id.
        ("L@dummy-01,db-01", "dummy:dummy-01 ssh:db-01"),
        ("L@web1,dummy-02", "node dummy:dummy-02 chroot:web1"),
        ("L@dummy:dummy-01", "dummy:dummy-01"),
        ("E@dummy-0[2-9]", "dummy:dummy-02"),
        // Grains are those of the resource.
        ("G@os:Debian", "node ssh:db-01"),
        ("G@resource_id:dummy-02", "dummy:dummy-02"),
        ("P@dummy_grain_1:o.e", DUMMIES),
        ("T@ssh and G@os:Debian", "ssh:db-01"),
        ("T@ssh or G@os:Alpine", "ssh:db-01 chroot:web1"),
        ("T@dummy and not dummy-01", "dummy:dummy-02"),
        ("web1 or T@dummy", "node dummy:dummy-01 dummy:dummy-02 chroot:web1"),
        // Pillar never matches a resource; the pillar of the node matches the node.
        ("I@role:frontend", "node"),
        ("J@role:front.*", "node"),
        ("T@dummy and I@role:frontend", ""),
        ("T@dummy and not I@role:frontend", DUMMIES),
        // Groups are expanded as everywhere.
        ("N@names", "node chroot:web1"),
        ("* and not ( T@dummy or T@ssh )", "node chroot:web1"),
    ] {
        assert_eq!(selected(text, MatchKind::Compound), want, "{text}");
    }
}

#[test]
fn each_kind_of_target_selects_resources() {
    for (kind, text, want) in [
        (MatchKind::Glob, "*", ALL),
        (MatchKind::Glob, "dummy-0[12]", DUMMIES),
        (MatchKind::Glob, "T@dummy", ""),
        (MatchKind::List, "dummy-01, web1", "node dummy:dummy-01 chroot:web1"),
        (MatchKind::Grain, "dummy_grain_1:one", DUMMIES),
        (MatchKind::Grain, "os:*", "node ssh:db-01 chroot:web1"),
        (MatchKind::GrainPcre, "os:(Debian|Alpine)", "node ssh:db-01 chroot:web1"),
        (MatchKind::Pillar, "role:*", "node"),
        (MatchKind::Resource, "ssh", "ssh:db-01"),
        (MatchKind::ManagingMinion, "web1", "dummy:dummy-01 dummy:dummy-02 ssh:db-01 chroot:web1"),
    ] {
        assert_eq!(selected(text, kind), want, "{} {text}", kind.name());
    }
}

/// Targets of `T@` and `M@` only.
fn resource_targets() -> impl Strategy<Value = String> {
    const ATOMS: [&str; 5] = ["T@dummy", "T@ssh:db-01", "T@none", "M@web1", "M@other"];
    let atom = prop::sample::select(&ATOMS[..]).prop_map(str::to_owned);
    atom.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("( {} )", v.join(" and "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("( {} )", v.join(" or "))),
            inner.prop_map(|t| format!("( not {t} )")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pure_target_never_selects_the_node(text in resource_targets()) {
        prop_assert!(!selected(&text, MatchKind::Compound).contains("node"), "{}", text);
    }

    #[test]
    fn a_target_or_its_negation_selects_each_resource(text in resource_targets()) {
        let count = |text: &str| selected(text, MatchKind::Compound).split_whitespace().count();
        prop_assert_eq!(count(&text) + count(&format!("not {text}")), 4);
    }
}
