//! The seeded part of `random.*`: the numbers equal Python's, so that a node keeps the minute it had under Salt.
//!
//! Law: deterministic. Random numbers without a seed come from the host (held by `numbers_are_pythons`,
//! `pure_modules_do_not_touch_the_machine`).

use zagent_config::{Map, Value as Data};

use super::hash::{hex_digest, sha512};
use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::FunctionCall;

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("random.seed", "range? hash?", seed),
    data_function("random.rand_int", "start? end? seed?", rand_int),
    data_function("random.sample", "value size seed?", sample),
    data_function("random.shuffle", "value seed?", shuffle),
];

fn seed(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let range = args.get("range").map_or(Some(10), Data::as_int);
    let range = range.and_then(|r| u64::try_from(r).ok()).filter(|r| *r > 0);
    let range = range.ok_or_else(|| FunctionError::failed("`range` must be a number above zero"))?;
    let mut twister = match args.get("hash").filter(|h| !h.is_null()) {
        Some(hash) => MersenneTwister::from_seed(hash)?,
        None => MersenneTwister::from_seed(&Data::from(inner.inputs.options.id.as_str()))?,
    };
    Ok(number(twister.next_below(range)))
}

fn number(n: u64) -> Data {
    i64::try_from(n).map_or_else(|_| Data::Big(n.to_string().into()), Data::Int)
}

/// A number by chance, below another.
pub(super) fn random_below(inner: &FunctionsInner, limit: u64) -> Result<u64, FunctionError> {
    let call =
        FunctionCall { function: "random.get_str".into(), args: vec![Data::Int(32)], kwargs: Map::new() };
    Ok(MersenneTwister::from_seed(&inner.inputs.host.call(&call)?)?.next_below(limit))
}

/// The generator of a call: its seed, or one from the host.
fn seeded_rng(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<MersenneTwister, FunctionError> {
    if let Some(seed) = args.get("seed").filter(|s| !s.is_null()) {
        return MersenneTwister::from_seed(seed);
    }
    let call =
        FunctionCall { function: "random.get_str".into(), args: vec![Data::Int(32)], kwargs: Map::new() };
    MersenneTwister::from_seed(&inner.inputs.host.call(&call)?)
}

fn rand_int(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let start = args.get("start").map_or(Some(1), Data::as_int);
    let end = args.get("end").map_or(Some(10), Data::as_int);
    let (Some(start), Some(end)) = (start, end) else {
        return Err(FunctionError::bad_arguments("`start` and `end` must be integers"));
    };
    let count = end.checked_sub(start).and_then(|n| n.checked_add(1)).and_then(|n| u64::try_from(n).ok());
    let count = count.filter(|n| *n > 0).ok_or_else(|| FunctionError::failed("the range is empty"))?;
    let n = seeded_rng(inner, args)?.next_below(count);
    Ok(i64::try_from(n).ok().and_then(|n| start.checked_add(n)).map_or(Data::Null, Data::Int))
}

fn items(args: &FunctionArgs<Data>) -> Result<Vec<Data>, FunctionError> {
    match args.get("value") {
        Some(Data::List(items)) => Ok(items.to_vec()),
        Some(Data::Str(text)) => Ok(text.chars().map(|c| c.to_string().into()).collect()),
        other => {
            let got = other.map_or("nothing", Data::kind);
            Err(FunctionError::bad_arguments(format!("`value` must be a list, not {got}")))
        }
    }
}

/// Salt chooses from lists by the digest of the seed.
fn list_rng(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<MersenneTwister, FunctionError> {
    match args.get("seed") {
        None | Some(Data::Null) => seeded_rng(inner, args),
        Some(Data::Str(seed)) => MersenneTwister::from_seed(&hex_digest("sha512", seed.as_bytes()).into()),
        Some(other) => {
            Err(FunctionError::bad_arguments(format!("`seed` must be text, not {}", other.kind())))
        }
    }
}

fn sample(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let all = items(args)?;
    let size = args.get("size").and_then(Data::as_int).and_then(|n| usize::try_from(n).ok());
    let size = size
        .filter(|n| *n <= all.len())
        .ok_or_else(|| FunctionError::failed(format!("`size` must be a number from 0 to {}", all.len())))?;
    Ok(list_rng(inner, args)?.sample(all, size).into())
}

fn shuffle(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let all = items(args)?;
    let size = all.len();
    Ok(list_rng(inner, args)?.sample(all, size).into())
}

const STATE_SIZE: usize = 624;
const STATE_SHIFT: usize = 397;

/// The generator of Python's `random`: MT19937, seeded as Python seeds it.
struct MersenneTwister {
    state: [u32; STATE_SIZE],
    at: usize,
}

impl MersenneTwister {
    /// Seeded by text or by an integer.
    fn from_seed(seed: &Data) -> Result<Self, FunctionError> {
        let key = match seed {
            Data::Str(text) => {
                let mut bytes = text.as_bytes().to_vec();
                bytes.extend(sha512(text.as_bytes()));
                to_words(&bytes)
            }
            Data::Int(i) => to_words(&i.unsigned_abs().to_be_bytes()),
            Data::Bool(b) => vec![u32::from(*b)],
            other => {
                return Err(FunctionError::bad_arguments(format!(
                    "a seed must be text or an integer, not {}",
                    other.kind()
                )));
            }
        };
        Ok(Self::from_array(&key))
    }

    fn from_number(seed: u32) -> Self {
        let mut state = [seed; STATE_SIZE];
        for i in 1..STATE_SIZE {
            let before = state[i - 1];
            let i32 = u32::try_from(i).unwrap_or(u32::MAX);
            state[i] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i32);
        }
        Self { state, at: STATE_SIZE }
    }

    fn from_array(key: &[u32]) -> Self {
        let mut twister = Self::from_number(19_650_218);
        let state = &mut twister.state;
        let (mut i, mut j) = (1, 0);
        for _ in 0..STATE_SIZE.max(key.len()) {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_664_525);
            let index = u32::try_from(j).unwrap_or(u32::MAX);
            state[i] = (state[i] ^ mixed).wrapping_add(key[j]).wrapping_add(index);
            i += 1;
            j = (j + 1) % key.len();
            if i == STATE_SIZE {
                state[0] = state[STATE_SIZE - 1];
                i = 1;
            }
        }
        for _ in 1..STATE_SIZE {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_566_083_941);
            let index = u32::try_from(i).unwrap_or(u32::MAX);
            state[i] = (state[i] ^ mixed).wrapping_sub(index);
            i += 1;
            if i == STATE_SIZE {
                state[0] = state[STATE_SIZE - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        twister
    }

    fn next_u32(&mut self) -> u32 {
        if self.at == STATE_SIZE {
            for k in 0..STATE_SIZE {
                let y = (self.state[k] & 0x8000_0000) | (self.state[(k + 1) % STATE_SIZE] & 0x7fff_ffff);
                let magic = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[k] = self.state[(k + STATE_SHIFT) % STATE_SIZE] ^ (y >> 1) ^ magic;
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// The low word comes first, as in Python.
    fn next_bits(&mut self, count: u32) -> u64 {
        match count {
            0 => 0,
            1..=32 => u64::from(self.next_u32() >> (32 - count)),
            _ => {
                let low = u64::from(self.next_u32());
                low | (u64::from(self.next_u32() >> (64 - count)) << 32)
            }
        }
    }

    /// A number below `n`.
    fn next_below(&mut self, n: u64) -> u64 {
        let count = u64::BITS - n.leading_zeros();
        loop {
            let drawn = self.next_bits(count);
            if drawn < n {
                return drawn;
            }
        }
    }

    fn next_index(&mut self, n: usize) -> usize {
        usize::try_from(self.next_below(n as u64)).unwrap_or(0)
    }

    /// Python's `random.sample`: a pool for small populations, redrawing for large ones.
    fn sample(&mut self, mut pool: Vec<Data>, size: usize) -> Vec<Data> {
        let n = pool.len();
        let mut limit = 21.0;
        if size > 5 {
            #[expect(clippy::cast_precision_loss, reason = "a threshold; lists are far below 2^52")]
            let power = (size as f64 * 3.0).log(4.0).ceil();
            limit += 4.0_f64.powf(power);
        }
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let small = n as f64 <= limit;
        let mut out = Vec::with_capacity(size);
        if small {
            for i in 0..size {
                let j = self.next_index(n - i);
                out.push(pool[j].clone());
                pool.swap(j, n - i - 1);
            }
            return out;
        }
        let mut taken = std::collections::HashSet::with_capacity(size);
        while out.len() < size {
            let j = self.next_index(n);
            if taken.insert(j) {
                out.push(pool[j].clone());
            }
        }
        out
    }
}

/// Big-endian bytes as words, the lowest first, without zeros at the top.
fn to_words(bytes: &[u8]) -> Vec<u32> {
    let mut out: Vec<u32> =
        bytes.rchunks(4).map(|chunk| chunk.iter().fold(0, |word, b| (word << 8) | u32::from(*b))).collect();
    while out.len() > 1 && out.last() == Some(&0) {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_pythons() {
        for (seed, range, want) in [
            (Data::from("abc"), 10, 8),
            (Data::from("xyz"), 100, 34),
            (Data::from("web-01.example.org"), 60, 52),
            (Data::Int(7), 2_000_000_000, 695_425_564),
            (Data::Int(-3), 10, 3),
        ] {
            assert_eq!(MersenneTwister::from_seed(&seed).unwrap().next_below(range), want, "{seed:?}");
        }
        let draw = |n: i64, size| {
            let all = (1..=n).map(Data::Int).collect();
            MersenneTwister::from_seed(&hex_digest("sha512", b"s").into()).unwrap().sample(all, size)
        };
        assert_eq!(draw(5, 2), [3, 1].map(Data::Int));
        assert_eq!(draw(5, 5), [3, 1, 2, 4, 5].map(Data::Int));
        assert_eq!(draw(30, 3), [9, 17, 19].map(Data::Int));
    }
}
