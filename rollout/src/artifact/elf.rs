//! The first bytes of a program in, the machine that it is built for out.

/// Bytes of the ELF header that are read.
pub const ELF_HEADER_BYTES: usize = 20;

/// Kernel and machine of an ELF program, as artifacts name them; `None` for anything else.
#[must_use]
pub fn elf_machine(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let head: &[u8; ELF_HEADER_BYTES] = head.get(..ELF_HEADER_BYTES)?.try_into().ok()?;
    let [0x7f, b'E', b'L', b'F', class, order, _, abi, ..] = *head else { return None };
    let half = |at: usize| {
        let bytes = [head[at], head[at + 1]];
        if order == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    };
    // A program, with a fixed or a relocatable address.
    if !matches!(half(16), 2 | 3) {
        return None;
    }
    let os = match abi {
        // Almost no toolchain marks a Linux program as such.
        0 | 3 => "linux",
        9 => "freebsd",
        _ => return None,
    };
    let arch = match (half(18), class, order) {
        (0x3e, 2, 1) => "x86_64",
        (0x03, 1, 1) => "x86",
        (0xb7, 2, 1) => "aarch64",
        (0x28, 1, 1) => "arm",
        (0xf3, 2, 1) => "riscv64",
        (0x15, 2, _) => "powerpc64",
        (0x16, 2, 2) => "s390x",
        (0x102, 2, 1) => "loongarch64",
        _ => return None,
    };
    Some((os, arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, order: u8, abi: u8, kind: u16, machine: u16) -> Vec<u8> {
        let half = |n: u16| if order == 2 { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut head = vec![0x7f, b'E', b'L', b'F', class, order, 1, abi, 0, 0, 0, 0, 0, 0, 0, 0];
        head.extend(half(kind));
        head.extend(half(machine));
        head
    }

    #[test]
    fn programs_are_detected_by_their_headers() {
        assert_eq!(elf_machine(&head(2, 1, 0, 3, 0x3e)), Some(("linux", "x86_64")));
        assert_eq!(elf_machine(&head(2, 1, 3, 2, 0xb7)), Some(("linux", "aarch64")));
        assert_eq!(elf_machine(&head(2, 2, 0, 2, 0x16)), Some(("linux", "s390x")));
        assert_eq!(elf_machine(&head(2, 1, 9, 3, 0x3e)), Some(("freebsd", "x86_64")));
        let object = head(2, 1, 0, 1, 0x3e);
        let short = &head(2, 1, 0, 3, 0x3e)[..19];
        for other in [b"#!/bin/sh\necho hello\n", object.as_slice(), short, b"", &head(1, 1, 0, 2, 0x3e)] {
            assert_eq!(elf_machine(other), None);
        }
    }

    #[test]
    fn this_very_test_is_for_this_machine() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(elf_machine(&own), Some(super::super::host_platform()));
    }
}
