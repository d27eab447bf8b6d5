//! Rules, each by its name.
