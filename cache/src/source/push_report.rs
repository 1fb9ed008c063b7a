//! The server's messages before and after a push in, their meaning out.
//!
//! Law: an incomplete answer is not an answer (held by `reports_are_read_whole_or_not_at_all`).

use std::io::{self, Read};

/// Maximum bytes of messages for the user.
const MAX_MESSAGES: usize = 8 << 10;
/// Maximum bytes of the status lines.
const MAX_LINES: usize = 64 << 10;

/// The capabilities of a server, and the value of one ref.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RefAdvertisement {
    /// Words separated by spaces.
    pub(super) capabilities: String,
    /// The id of the requested ref.
    pub(super) id: Option<String>,
}

/// The server's report about a push.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PushReport {
    /// Whether the server accepted the objects: `ok`, or why not.
    pub(super) unpack: Option<String>,
    /// Whether the server moved the ref: `ok`, or why not.
    pub(super) status: Option<Result<(), String>>,
    /// Messages for the user: from hooks and from Git.
    pub(super) messages: String,
}

/// One line; `None` for the end of a list.
fn read_pkt_line(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a valid Git protocol line");
    let size = std::str::from_utf8(&size).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
    match size.ok_or_else(bad)? {
        0 => Ok(None),
        size @ 4.. => {
            let mut line = vec![0; size - 4];
            from.read_exact(&mut line)?;
            Ok(Some(line))
        }
        _ => Err(bad()),
    }
}

/// Reads all refs that a server advertises before a push; keeps one.
pub(super) fn read_advertisement(from: &mut impl Read, name: &str) -> io::Result<RefAdvertisement> {
    let mut first = read_pkt_line(from)?;
    if first.as_deref().is_some_and(|line| line.starts_with(b"# service=")) {
        while read_pkt_line(from)?.is_some() {}
        first = read_pkt_line(from)?;
    }
    if first.as_deref().is_some_and(|line| line.starts_with(b"version 1")) {
        first = read_pkt_line(from)?;
    }
    let mut advert = RefAdvertisement { capabilities: String::new(), id: None };
    let mut next = first;
    while let Some(bytes) = next {
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\n');
        if let Some(why) = text.strip_prefix("ERR ") {
            return Err(io::Error::other(why.to_owned()));
        }
        let (told, capabilities) = text.split_once('\0').unwrap_or((text, ""));
        if !capabilities.is_empty() {
            advert.capabilities = capabilities.to_owned();
        }
        if let Some((id, found)) = told.split_once(' ')
            && found == name
        {
            advert.id = Some(id.to_owned());
        }
        next = read_pkt_line(from)?;
    }
    Ok(advert)
}

/// Reads the report about the push of one ref.
pub(super) fn read_report(from: &mut impl Read, sideband: bool) -> io::Result<PushReport> {
    let mut report = PushReport::default();
    if !sideband {
        return read_status_lines(from, &mut report).map(|()| report);
    }
    let mut inner = Vec::new();
    while let Some(bytes) = read_pkt_line(from)? {
        match bytes.split_first() {
            Some((1, data)) if inner.len() + data.len() <= MAX_LINES => inner.extend_from_slice(data),
            Some((2 | 3, text)) if report.messages.len() < MAX_MESSAGES => {
                report.messages.push_str(&String::from_utf8_lossy(text));
            }
            Some((1..=3, _)) | None => {}
            Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "unknown sideband")),
        }
    }
    read_status_lines(&mut inner.as_slice(), &mut report).map(|()| report)
}

fn read_status_lines(from: &mut impl Read, report: &mut PushReport) -> io::Result<()> {
    while let Some(bytes) = read_pkt_line(from)? {
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\n');
        if let Some(unpack) = text.strip_prefix("unpack ") {
            report.unpack = Some(unpack.to_owned());
        } else if text.starts_with("ok ") {
            report.status = Some(Ok(()));
        } else if let Some(refused) = text.strip_prefix("ng ") {
            let why = refused.split_once(' ').map_or("", |(_, why)| why);
            report.status = Some(Err(why.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pkt(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    #[test]
    fn adverts_of_every_form_are_read() {
        let (id, zero) = ("a".repeat(40), "0".repeat(40));
        let head = pkt(&format!("{id} HEAD\0report-status delete-refs\n"));
        let more = pkt(&format!("{id} refs/heads/x\n")) + &pkt(&format!("{id} refs/heads/xy\n"));
        let service = pkt("# service=git-receive-pack\n") + "0000";
        for text in [format!("{head}{more}0000"), format!("{service}{}{head}{more}0000", pkt("version 1\n"))]
        {
            let advert = read_advertisement(&mut text.as_bytes(), "refs/heads/x").unwrap();
            assert_eq!(advert.id.as_deref(), Some(id.as_str()));
            assert_eq!(advert.capabilities, "report-status delete-refs");
        }
        let empty = pkt(&format!("{zero} capabilities^{{}}\0report-status\n")) + "0000";
        assert_eq!(read_advertisement(&mut empty.as_bytes(), "refs/heads/x").unwrap().id, None);
        for bad in ["", "0000x", "00", "zzzz", "0003", &head, &(pkt("ERR no") + "0000")] {
            let read = read_advertisement(&mut bad.as_bytes(), "refs/heads/x");
            assert!(read.is_err() || bad == "0000x", "{bad}");
        }
    }

    #[test]
    fn reports_are_read_whole_or_not_at_all() {
        let inner = pkt("unpack ok\n") + &pkt("ng refs/x hook declined\n") + "0000";
        let plain = read_report(&mut inner.as_bytes(), false).unwrap();
        assert_eq!((plain.unpack.as_deref(), plain.status), (Some("ok"), Some(Err("hook declined".into()))));
        let banded = pkt("\x02no, ") + &pkt("\x02never\n") + &pkt(&format!("\x01{inner}")) + "0000";
        let read = read_report(&mut banded.as_bytes(), true).unwrap();
        assert_eq!((read.messages.as_str(), read.unpack.as_deref()), ("no, never\n", Some("ok")));
        for cut in 0..banded.len() {
            assert!(read_report(&mut &banded.as_bytes()[..cut], true).is_err(), "{cut}");
        }
        assert!(read_report(&mut pkt("\x09x").as_bytes(), true).is_err());
    }
}
