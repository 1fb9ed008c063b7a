//! Extended attributes: labels and access lists that a file keeps when its content is replaced.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// A name and its value.
pub type Xattr = (OsString, Vec<u8>);

/// What belongs to the content, not to the file: the kernel takes it away when content changes.
const CONTENT_XATTRS: [&str; 3] = ["security.capability", "security.ima", "security.evm"];

/// All that an open file has; none where the file system knows no such thing.
pub(crate) fn list(file: BorrowedFd<'_>) -> io::Result<Vec<Xattr>> {
    // Most files have none, and then one call says so.
    let mut names = Vec::with_capacity(256);
    loop {
        match rustix::fs::flistxattr(file, rustix::buffer::spare_capacity(&mut names)) {
            Ok(_) => break,
            Err(Errno::RANGE) => {
                names.clear();
                names.reserve(rustix::fs::flistxattr_query(file)? + 256);
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
    }
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsString::from_vec(name.to_vec());
        if let Some(value) = get(file, &name)? {
            found.push((name, value));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn get(file: BorrowedFd<'_>, name: &OsString) -> io::Result<Option<Vec<u8>>> {
    let mut value = Vec::with_capacity(256);
    loop {
        match rustix::fs::fgetxattr(file, name, rustix::buffer::spare_capacity(&mut value)) {
            Ok(_) => return Ok(Some(value)),
            Err(Errno::RANGE) => {
                value.clear();
                value.reserve(rustix::fs::fgetxattr_query(file, name)? + 256);
            }
            // Gone meanwhile, or not for our eyes.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives an open file exactly these, apart from labels that the system gave it by itself.
pub(crate) fn set(file: BorrowedFd<'_>, wanted: &[Xattr]) -> io::Result<()> {
    let present = list(file)?;
    for (name, _) in &present {
        // A new file may have got an access list from its directory that the old one had not.
        let is_label = name.as_bytes().starts_with(b"security.");
        if !is_label && !wanted.iter().any(|(other, _)| other == name) {
            rustix::fs::fremovexattr(file, name)?;
        }
    }
    for xattr in wanted {
        if !present.contains(xattr) {
            rustix::fs::fsetxattr(file, &xattr.0, &xattr.1, XattrFlags::empty())?;
        }
    }
    Ok(())
}

/// Those that stay right when the content is another.
pub(crate) fn without_content_xattrs(mut xattrs: Vec<Xattr>) -> Vec<Xattr> {
    xattrs.retain(|(name, _)| !CONTENT_XATTRS.iter().any(|of| name == of));
    xattrs
}
