//! Git protocol lines for the most frequent request: ls-refs of version 2.
//!
//! Law: an answer that does not match exactly is not an answer (held by
//! `questions_and_answers_have_the_form_of_the_protocol`).

/// A request for the refs with these prefixes.
pub(super) fn ls_refs(names: &[String], agent: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_line(&mut out, "command=ls-refs\n");
    push_line(&mut out, &format!("agent={agent}\n"));
    push_line(&mut out, "object-format=sha1\n");
    out.extend_from_slice(b"0001");
    for name in names {
        push_line(&mut out, &format!("ref-prefix {name}\n"));
    }
    out.extend_from_slice(b"0000");
    out
}

fn push_line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("{:04x}", text.len() + 4).as_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The refs in an answer: id and name.
pub(super) fn parse_refs(answer: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = answer;
    loop {
        let length = usize::from_str_radix(std::str::from_utf8(rest.get(..4)?).ok()?, 16).ok()?;
        if length == 0 {
            return (rest.len() == 4).then_some(found);
        }
        let text = std::str::from_utf8(rest.get(4..length)?).ok()?;
        let (id, name) = text.trim_end_matches('\n').split_once(' ')?;
        let name = name.split(' ').next()?;
        if id.len() != 40 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        found.push((id, name));
        rest = rest.get(length..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_have_the_form_of_the_protocol() {
        let question = ls_refs(&["refs/heads/main".into()], "git/x");
        let text = String::from_utf8(question).unwrap();
        assert_eq!(
            text,
            "0014command=ls-refs\n0010agent=git/x\n0017object-format=sha1\n0001001fref-prefix refs/heads/main\n0000"
        );
        let id = "a".repeat(40);
        let good = format!("003d{id} refs/heads/main\n0000");
        assert_eq!(parse_refs(good.as_bytes()), Some(vec![(id.as_str(), "refs/heads/main")]));
        assert_eq!(parse_refs(b"0000"), Some(vec![]));
        for bad in ["", "00", "0000x", "0008ERR ", "0001", "ffff", "zzzz", "003d", &good[..20], &good[..64]] {
            assert_eq!(parse_refs(bad.as_bytes()), None, "{bad}");
        }
    }
}
