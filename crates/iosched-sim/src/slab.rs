//! Values with reusable places: nothing is allocated once there are places enough.

#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab {
            values: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, value: T) -> usize {
        let place = match self.free.pop() {
            Some(place) => place,
            None => self.grow(),
        };
        self.values[place] = Some(value);
        place
    }

    /// One place more.
    #[cold]
    fn grow(&mut self) -> usize {
        self.values.push(None);
        self.values.len() - 1
    }

    pub(crate) fn remove(&mut self, place: usize) -> T {
        self.free.push(place);
        self.values[place].take().expect("a place is emptied once")
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(crate) fn get(&self, place: usize) -> &T {
        self.values[place].as_ref().expect("the place is in use")
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> &mut T {
        self.values[place].as_mut().expect("the place is in use")
    }
}
