//! The attributes of a file in the kernel's bits in, the letters of `lsattr` and `chattr` out, and back.

use std::io;

use rustix::fs::IFlags;

/// Letters and their bits, sorted by letter as bytes are.
const LETTERS: [(char, u32); 22] = [
    ('A', 0x0000_0080),
    ('C', 0x0080_0000),
    ('D', 0x0001_0000),
    ('E', 0x0000_0800),
    ('F', 0x4000_0000),
    ('I', 0x0000_1000),
    ('N', 0x1000_0000),
    ('P', 0x2000_0000),
    ('S', 0x0000_0008),
    ('T', 0x0002_0000),
    ('V', 0x0010_0000),
    ('a', 0x0000_0020),
    ('c', 0x0000_0004),
    ('d', 0x0000_0040),
    ('e', 0x0008_0000),
    ('i', 0x0000_0010),
    ('j', 0x0000_4000),
    ('m', 0x0000_0400),
    ('s', 0x0000_0001),
    ('t', 0x0000_8000),
    ('u', 0x0000_0002),
    ('x', 0x0200_0000),
];

/// The letters of bits, sorted.
pub fn letters(flags: IFlags) -> String {
    let bits = flags.bits();
    LETTERS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter).collect()
}

/// The bits of letters.
pub fn bits(letters: &str) -> io::Result<IFlags> {
    let mut bits = 0;
    for letter in letters.chars() {
        let known = LETTERS.iter().find(|(known, _)| *known == letter);
        let Some((_, bit)) = known else {
            let text = format!("there is no file attribute `{letter}`");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        bits |= bit;
    }
    Ok(IFlags::from_bits_retain(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back_from_their_bits() {
        for text in ["", "i", "Aai", "ADSacdeijstu"] {
            assert_eq!(letters(bits(text).unwrap()), text);
        }
        assert_eq!(letters(bits("ai").unwrap()), "ai");
        assert_eq!(letters(bits("ia").unwrap()), "ai");
    }

    #[test]
    fn a_letter_that_does_not_exist_is_named() {
        assert!(bits("i?").unwrap_err().to_string().contains("`?`"));
    }
}
