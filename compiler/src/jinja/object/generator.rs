//! Values that are only iterated: generators, as Jinja's filters give them, and ranges.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Error;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};

use super::resolve_index;

/// The result of a filter that returns a generator in Jinja2: always true, without a length, iterated once.
pub struct Generator {
    items: Mutex<Vec<Value>>,
    name: &'static str,
}

/// Makes a generator of items; `name` is the filter that made it.
#[must_use]
pub fn generator(name: &'static str, items: Vec<Value>) -> Value {
    Value::from_object(Generator { items: Mutex::new(items), name })
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<generator object {}>", self.name)
    }
}

impl Object for Generator {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    /// A generator cannot be indexed.
    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        Some(Value::UNDEFINED)
    }

    fn get_value_by_str(self: &Arc<Self>, _: &str) -> Option<Value> {
        None
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        Enumerator::Iter(Box::new(std::mem::take(&mut *items).into_iter()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        None
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// `range(start, stop, step)`, without allocating its items.
pub struct PyRange {
    start: i64,
    stop: i64,
    step: i64,
}

impl PyRange {
    /// Makes a range.
    ///
    /// # Errors
    /// Fails when the step is zero.
    pub fn new(start: i64, stop: i64, step: i64) -> Result<Self, Error> {
        if step == 0 {
            return Err(Error::new(minijinja::ErrorKind::InvalidOperation, "range() step must not be zero"));
        }
        Ok(Self { start, stop, step })
    }

    /// How many numbers it gives.
    #[must_use]
    pub fn len(&self) -> usize {
        let (from, to, step) = (i128::from(self.start), i128::from(self.stop), i128::from(self.step));
        let span = if step > 0 { to - from } else { from - to };
        if span <= 0 {
            return 0;
        }
        let step = step.abs();
        usize::try_from((span + step - 1) / step).unwrap_or(usize::MAX)
    }

    /// True when it gives none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for PyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.step == 1 {
            write!(f, "range({}, {})", self.start, self.stop)
        } else {
            write!(f, "range({}, {}, {})", self.start, self.stop, self.step)
        }
    }
}

impl Object for PyRange {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = resolve_index(key.as_i64()?, self.len())?;
        let at = i128::from(self.start) + i128::try_from(index).ok()? * i128::from(self.step);
        i64::try_from(at).ok().map(Value::from)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
