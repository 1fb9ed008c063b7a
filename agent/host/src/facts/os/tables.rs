//! Names of distributions into Salt's names for them and for their families.
//!
//! Formulas compare with these spellings, so a name is never made prettier here.

/// The names that differ from what a distribution calls itself: first ten letters, lower case, no spaces.
const OS: &[(&str, &str)] = &[
    ("alibabaclo", "Alinux"),
    ("almalinux", "AlmaLinux"),
    ("almalinuxk", "AlmaLinux"),
    ("alt", "ALT"),
    ("amazonami", "Amazon"),
    ("antergos", "Antergos"),
    ("arch", "Arch"),
    ("archarm", "Arch ARM"),
    ("chapeau", "Chapeau"),
    ("cloudlinux", "CloudLinux"),
    ("cloudserve", "CloudLinux"),
    ("debian", "Debian"),
    ("enterprise", "OEL"),
    ("fedoraremi", "Fedora"),
    ("gentoobase", "Gentoo"),
    ("korora", "Korora"),
    ("linuxmint", "Mint"),
    ("manjaro", "Manjaro"),
    ("manjarolin", "Manjaro"),
    ("mendel", "Mendel"),
    ("neon", "KDE neon"),
    ("nilrt", "NILinuxRT"),
    ("oracleserv", "OEL"),
    ("photon", "VMware Photon OS"),
    ("pidora", "Fedora"),
    ("poky", "Poky"),
    ("pop", "Pop"),
    ("raspbian", "Raspbian"),
    ("redhatente", "RedHat"),
    ("rocky", "Rocky"),
    ("scientific", "ScientificLinux"),
    ("sles", "SUSE"),
    ("slesexpand", "RES"),
    ("synology", "Synology"),
    ("univention", "Univention"),
    ("virtuozzo", "Virtuozzo"),
    ("void", "Void"),
];

/// The members of each family; a distribution that is in none is a family of its own.
const FAMILIES: &[(&str, &[&str])] = &[
    (
        "Debian",
        &[
            "antiX",
            "AstraLinuxCE",
            "AstraLinuxSE",
            "Cumulus",
            "Deepin",
            "Devuan",
            "elementary",
            "elementary OS",
            "GCEL",
            "IDMS",
            "Kali",
            "KDE neon",
            "Linaro",
            "Mendel",
            "Mint",
            "neon",
            "OSMC",
            "Parrot OS",
            "Pop",
            "Raspbian",
            "Trisquel",
            "TurnKey",
            "Ubuntu",
            "Univention",
        ],
    ),
    (
        "RedHat",
        &[
            "Alinux",
            "AlmaLinux",
            "AlmaLinux Kitten",
            "ALT",
            "AlterOS",
            "Amazon",
            "CentOS",
            "CentOS Stream",
            "Chapeau",
            "CloudLinux",
            "FedBerry",
            "Fedora",
            "GoOSe",
            "Korora",
            "OEL",
            "openEuler",
            "OVS",
            "RED OS",
            "RES",
            "Rocky",
            "Sangoma",
            "Scientific",
            "ScientificLinux",
            "Virtuozzo",
            "VMware Photon OS",
            "XCP",
            "XCP-ng",
            "XenServer",
        ],
    ),
    (
        "Suse",
        &[
            "alfaLinux",
            "alfaLinux Rise",
            "openSUSE",
            "openSUSE Leap",
            "openSUSE Tumbleweed",
            "SLED",
            "SLES",
            "SLES_SAP",
            "SUSE",
            "SUSE  Enterprise Server",
            "SUSE Enterprise Server",
        ],
    ),
    ("Arch", &["Antergos", "Arch ARM", "EndeavourOS", "Manjaro", "Manjaro ARM"]),
    ("Gentoo", &["Funtoo"]),
    ("Mandriva", &["Mandrake"]),
    ("Slackware", &["Slamd64"]),
];

/// The `os` of a distribution that calls itself `name`.
pub(crate) fn os_name(id: &str, name: &str) -> String {
    match (id, name) {
        ("astra", "Astra Linux (Orel)") => return "AstraLinuxCE".into(),
        ("astra", "Astra Linux (Smolensk)") => return "AstraLinuxSE".into(),
        ("pop", "Pop!_OS") => return "Pop".into(),
        _ => {}
    }
    let plain = without_linux(name);
    let plain = plain.trim();
    let short: String = plain.chars().filter(|c| *c != ' ').flat_map(char::to_lowercase).take(10).collect();
    match OS.iter().find(|(from, _)| *from == short) {
        Some((_, os)) => (*os).to_owned(),
        None => plain.to_owned(),
    }
}

/// The `os_family` of an `os`.
pub fn os_family(os: &str) -> &str {
    FAMILIES.iter().find(|(_, members)| members.contains(&os)).map_or(os, |(family, _)| family)
}

/// Takes ` Linux` and ` GNU/Linux` out, with the one character before it, wherever they stand.
fn without_linux(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let is_gap = !c.is_alphanumeric() && c != '_';
        let tail = is_gap.then(|| strip(strip(after, "gnu/").unwrap_or(after), "linux")).flatten();
        rest = tail.unwrap_or_else(|| {
            out.push(c);
            after
        });
    }
    out
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_linux_and_keep_the_rest() {
        for (name, want) in [
            ("Debian GNU/Linux", "Debian"),
            ("Linux Mint", "Linux Mint"),
            ("Arch Linux ARM", "Arch ARM"),
            ("Rocky Linux", "Rocky"),
            ("é Linuxé", "éé"),
            ("Linux", "Linux"),
            ("x gnu/", "x gnu/"),
        ] {
            assert_eq!(without_linux(name), want);
        }
    }
}
