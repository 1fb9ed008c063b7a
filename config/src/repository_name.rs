//! The address of a repository in, the name that manifests use for it out.
//!
//! Law: the name is host and path, so it is the same over https and ssh, for every user and on every port. It never
//! contains a password (held by `one_repository_has_one_name`).

/// The name of the repository at an address: `git.example.org/ops/states`, or the path of a local one.
#[must_use]
pub fn repository_name(address: &str) -> String {
    let address = address.trim();
    let (host, path) = match address.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => ("", rest),
        Some((_, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            (host_of(authority), path)
        }
        None => match address.split_once(':') {
            // `user@host:path`, as ssh writes it.
            Some((authority, path)) if !authority.contains('/') => (host_of(authority), path),
            _ => ("", address),
        },
    };
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    match host {
        "" => path.to_owned(),
        host => format!("{}/{}", host.to_ascii_lowercase(), path.trim_start_matches('/'))
            .trim_end_matches('/')
            .to_owned(),
    }
}

/// The host of `user:password@host:port`.
fn host_of(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((inner, _)) => inner,
        None => host.split_once(':').map_or(host, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_name() {
        for address in [
            "https://git.example.org/ops/states.git",
            "https://bot:s3cret@Git.Example.org:8443/ops/states.git/",
            "ssh://git@git.example.org:2222/ops/states",
            "git@git.example.org:ops/states.git",
            "git.example.org/ops/states",
        ] {
            assert_eq!(repository_name(address), "git.example.org/ops/states", "{address}");
        }
        for (address, name) in [
            ("/srv/git/states.git", "/srv/git/states"),
            ("file:///srv/git/states.git", "/srv/git/states"),
            ("./states", "./states"),
            ("https://[::1]:8080/states.git", "::1/states"),
            ("https://git.example.org", "git.example.org"),
            ("", ""),
        ] {
            assert_eq!(repository_name(address), name, "{address}");
        }
    }
}
