//! `/proc/cpuinfo` and `/proc/meminfo` into the facts about processors and memory.

use zagent_config::{Map, Value};

use super::tree::FactsRoot;
use super::{Facts, string_list};

/// Facts about the processors.
pub const NAMES: &[&str] = &["num_cpus", "cpu_model", "cpu_flags"];
pub(crate) const MEMORY: &[&str] = &["mem_total", "swap_total"];

/// Enough for the first processors; the kernel writes the rest only when asked, which is slow on large machines.
const HEAD: usize = 16 << 10;
const CPUINFO: &str = "/proc/cpuinfo";

/// The start of `/proc/cpuinfo`.
pub(crate) fn read_cpuinfo_head(tree: &FactsRoot) -> Vec<u8> {
    tree.read_head(CPUINFO, HEAD).unwrap_or_default()
}

/// Number, model and flags of the processors.
pub fn collect(facts: &Facts) -> Map {
    let head = facts.cpuinfo();
    let mut online = None;
    let mut whole = Vec::new();
    if head.len() == HEAD {
        online = facts.tree.read_line("/sys/devices/system/cpu/online").and_then(|l| count_cpus(&l));
        if online.is_none() {
            whole = facts.tree.read_bytes(CPUINFO).unwrap_or_default();
        }
    }
    let text = String::from_utf8_lossy(if whole.is_empty() { head } else { &whole });
    let mut cpu = Cpu::read(&text);
    cpu.number = online.unwrap_or(cpu.number);
    Map::from_iter([
        ("num_cpus", Value::Int(cpu.number)),
        ("cpu_model", cpu.model.unwrap_or("Unknown").into()),
        ("cpu_flags", string_list(cpu.flags.split_whitespace())),
    ])
}

#[derive(Default)]
struct Cpu<'a> {
    number: i64,
    model: Option<&'a str>,
    flags: &'a str,
}

impl<'a> Cpu<'a> {
    fn read(text: &'a str) -> Self {
        let mut cpu = Self::default();
        for line in text.lines() {
            let mut parts = line.split(':').map(str::trim);
            let (Some(key), Some(value)) = (parts.next(), parts.next()) else { continue };
            match key {
                "processor" => cpu.number += 1,
                // S/390 counts for us.
                "# processors" => cpu.number = value.parse().unwrap_or(cpu.number),
                "vendor_id" | "model name" | "cpu" => cpu.model = Some(value),
                "flags" | "Features" => cpu.flags = value,
                // Old ARM kernels name the one processor so.
                "Processor" => {
                    cpu.model = value.split('-').next();
                    cpu.number = 1;
                }
                _ => {}
            }
        }
        cpu
    }
}

/// How many numbers a list of ranges (`0-3,8`) holds.
fn count_cpus(ranges: &str) -> Option<i64> {
    ranges.split(',').try_fold(0_i64, |sum, range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.trim().parse::<i64>().ok()?, to.trim().parse::<i64>().ok()?);
        sum.checked_add(to.checked_sub(from)?.checked_add(1)?)
    })
}

/// Size of the memory and of the swap space, in mebibytes.
pub fn memory(facts: &Facts) -> Map {
    let text = facts.tree.read_text("/proc/meminfo").unwrap_or_default();
    let mebibytes = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|l| l.split_whitespace().next()?.parse::<i64>().ok());
        Value::Int(number.unwrap_or(0) / 1024)
    };
    Map::from_iter([("mem_total", mebibytes("MemTotal")), ("swap_total", mebibytes("SwapTotal"))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::FactsFixture;
    use super::*;

    #[test]
    fn processors_of_many_kinds() {
        for (text, want) in [
            (
                "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R): E5\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Intel(R) Xeon(R)\n",
                r#"{"num_cpus": 2, "cpu_model": "Intel(R) Xeon(R)", "cpu_flags": ["fpu", "vme"]}"#,
            ),
            (
                "Processor\t: ARMv6-compatible processor rev 7 (v6l)\nFeatures\t: swp half\n",
                r#"{"num_cpus": 1, "cpu_model": "ARMv6", "cpu_flags": ["swp", "half"]}"#,
            ),
            (
                "vendor_id       : IBM/S390\n# processors    : 2\n",
                r#"{"num_cpus": 2, "cpu_model": "IBM/S390", "cpu_flags": []}"#,
            ),
            (
                "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n",
                r#"{"num_cpus": 1, "cpu_model": "POWER9 (architected), altivec supported"}"#,
            ),
            ("", r#"{"num_cpus": 0, "cpu_model": "Unknown", "cpu_flags": []}"#),
        ] {
            FactsFixture::new().file(CPUINFO, text).expect(want);
        }
    }

    #[test]
    fn a_large_machine_is_counted_without_reading_it_all() {
        let text = "processor\t: 7\nflags\t: a b\n".repeat(2000);
        FactsFixture::new().file(CPUINFO, &text).expect(r#"{"num_cpus": 2000}"#);
        FactsFixture::new()
            .file(CPUINFO, &text)
            .file("/sys/devices/system/cpu/online", "0-3,8,10-11\n")
            .expect(r#"{"num_cpus": 7, "cpu_flags": ["a", "b"]}"#);
    }

    #[test]
    fn ranges_are_counted_and_nonsense_is_not() {
        for (text, want) in [("0", Some(1)), ("0-1", Some(2)), ("x", None), ("0-9223372036854775807", None)] {
            assert_eq!(count_cpus(text), want, "{text}");
        }
    }

    #[test]
    fn memory_is_in_mebibytes() {
        FactsFixture::new()
            .file(
                "/proc/meminfo",
                "MemTotal:       24682236 kB\nMemFree: 1 kB\nSwapTotal:       2097151 kB\n",
            )
            .expect(r#"{"mem_total": 24103, "swap_total": 2047}"#);
        FactsFixture::new().expect(r#"{"mem_total": 0, "swap_total": 0}"#);
    }
}
