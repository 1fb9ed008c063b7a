//! A Python container: content that templates share by reference and change in place.
//!
//! Data becomes template values one level at a time, when the container is first read. Everything that dictionaries
//! and lists do alike is here, once; a [`ContainerKind`] adds what differs.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};

use super::view::bound_method;

/// The content of a container, and what differs between dictionaries and lists.
pub trait ContainerKind: Default + Send + Sync + 'static {
    /// The data that such a container is made from.
    type Data: Send + Sync;
    /// Python's name of the type.
    const NAME: &'static str;
    /// What minijinja takes it for.
    const REPR: ObjectRepr;
    /// The names of its methods.
    const METHODS: &'static [&'static str];

    /// Converts one level of data.
    fn convert(data: &Self::Data) -> Self;
    /// How many entries the data has.
    fn data_len(data: &Self::Data) -> usize;
    /// How many entries there are.
    fn count(&self) -> usize;
    /// What a loop over it gives.
    fn entries(&self) -> Vec<Value>;
    /// All values, without their keys.
    fn into_values(self) -> Vec<Value>;

    /// The value of `container[key]`.
    fn lookup(container: &PyContainer<Self>, key: &Value) -> Option<Value>;
    /// The value of `container.name` when `name` is not a method.
    fn attribute(container: &PyContainer<Self>, name: &str) -> Option<Value>;
    /// Compares two containers without holding a lock.
    fn compare(a: &PyContainer<Self>, b: &PyContainer<Self>) -> Ordering;
    /// Calls a method.
    ///
    /// # Errors
    /// Fails when the method is unknown, the arguments are wrong, or Python would raise.
    fn call(
        container: &Arc<PyContainer<Self>>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error>;
}

/// A dictionary or a list: shared by reference, changed in place.
pub struct PyContainer<C: ContainerKind> {
    content: Mutex<Content<C>>,
}

enum Content<C: ContainerKind> {
    /// Data that no template has read.
    Raw(Arc<C::Data>),
    Own(C),
}

impl<C: ContainerKind> PyContainer<C> {
    /// Makes a container of this content.
    #[must_use]
    pub const fn new(content: C) -> Self {
        Self { content: Mutex::new(Content::Own(content)) }
    }

    /// Makes a container that converts its values when it is read.
    #[must_use]
    pub const fn from_data(data: Arc<C::Data>) -> Self {
        Self { content: Mutex::new(Content::Raw(data)) }
    }

    fn lock(&self) -> MutexGuard<'_, Content<C>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data it was made from, when it has not been read yet.
    #[must_use]
    pub fn original_data(&self) -> Option<Arc<C::Data>> {
        match &*self.lock() {
            Content::Raw(raw) => Some(Arc::clone(raw)),
            Content::Own(_) => None,
        }
    }

    /// Works on the content. `f` must not touch other template values: the container is locked.
    pub fn with<R>(&self, f: impl FnOnce(&mut C) -> R) -> R {
        let mut content = self.lock();
        if let Content::Raw(raw) = &*content {
            *content = Content::Own(C::convert(raw));
        }
        match &mut *content {
            Content::Own(own) => f(own),
            Content::Raw(_) => f(&mut C::default()),
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.lock() {
            Content::Raw(raw) => C::data_len(raw),
            Content::Own(own) => own.count(),
        }
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a loop gives now: the keys of a dictionary, the items of a list.
    pub(super) fn entries(&self) -> Vec<Value> {
        self.with(|content| content.entries())
    }
}

impl<C: ContainerKind> fmt::Debug for PyContainer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(C::NAME)
    }
}

impl<C: ContainerKind> Object for PyContainer<C> {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        C::REPR
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        C::lookup(self, key)
    }

    /// An attribute: in Python the methods of a container win over its keys.
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        bound_method(Value::from_dyn_object(Arc::clone(self)), C::METHODS, key)
            .or_else(|| C::attribute(self, key))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        C::call(self, state, method, args)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        Some(C::compare(self, other.downcast_ref::<Self>()?))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

impl<C: ContainerKind> Drop for PyContainer<C> {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Content::Own(own) = content {
            discard(std::mem::take(own).into_values());
        }
    }
}

thread_local! {
    static DISCARDED: RefCell<Option<Vec<Vec<Value>>>> = const { RefCell::new(None) };
}

/// Drops items without recursion, at any nesting depth.
fn discard(items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut first = Some(items);
    // When the thread ends, its local storage is gone: then the items are dropped directly.
    let is_outermost = DISCARDED
        .try_with(|queue| {
            let mut queue = queue.borrow_mut();
            match &mut *queue {
                Some(waiting) => {
                    waiting.extend(first.take());
                    false
                }
                None => {
                    *queue = Some(first.take().into_iter().collect());
                    true
                }
            }
        })
        .unwrap_or(false);
    if !is_outermost {
        return;
    }
    while let Some(items) = DISCARDED.with(|queue| queue.borrow_mut().as_mut().and_then(Vec::pop)) {
        drop(items);
    }
    DISCARDED.with(|queue| *queue.borrow_mut() = None);
}
