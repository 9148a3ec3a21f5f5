//! Where in the user's program an op was called.
use std::{fmt, panic};

/// A line of the user's program.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// let here = Location::caller();
/// assert!(here.line() > 0 && here.column() > 0 && !here.file().is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location(&'static panic::Location<'static>);

impl Location {
    /// The caller of the innermost function without `#[track_caller]`.
    #[track_caller]
    pub fn caller() -> Self {
        Self(panic::Location::caller())
    }
    /// The file as the compiler was given it.
    pub fn file(self) -> &'static str {
        self.0.file()
    }
    /// The line, from 1.
    pub fn line(self) -> u32 {
        self.0.line()
    }
    /// The column, from 1.
    pub fn column(self) -> u32 {
        self.0.column()
    }
}
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file(), self.line(), self.column())
    }
}
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
