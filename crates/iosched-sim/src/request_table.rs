//! What is known of requests, in tables that run beside [`Requests`](crate::request::Requests).

use std::ops::{Index, IndexMut};

use crate::request::RequestId;

/// A value for each request: as long as the most requests that there ever were at a time.
#[derive(Debug, Clone)]
pub struct ByRequest<T> {
    values: Vec<T>,
}

impl<T> Default for ByRequest<T> {
    fn default() -> ByRequest<T> {
        ByRequest { values: Vec::new() }
    }
}

impl<T: Clone + Default> ByRequest<T> {
    /// Sets a request's value, which may be the first of that request.
    #[inline]
    pub fn set(&mut self, id: RequestId, value: T) {
        match self.values.get_mut(id.index()) {
            Some(place) => *place = value,
            None => self.grow(id, value),
        }
    }

    #[cold]
    fn grow(&mut self, id: RequestId, value: T) {
        self.values.resize(id.index(), T::default());
        self.values.push(value);
    }
}

impl<T> ByRequest<T> {
    /// A request's value, if it ever had one.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&T> {
        self.values.get(id.index())
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        self.values.get_mut(id.index())
    }
}

impl<T> Index<RequestId> for ByRequest<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: RequestId) -> &T {
        &self.values[id.index()]
    }
}

impl<T> IndexMut<RequestId> for ByRequest<T> {
    #[inline]
    fn index_mut(&mut self, id: RequestId) -> &mut T {
        &mut self.values[id.index()]
    }
}
