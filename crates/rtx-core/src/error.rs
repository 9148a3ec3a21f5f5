//! The one error that users see: a sentence, its kind, an optional hint.
use crate::Location;
use std::fmt;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// let error = Error::new(Kind::Shape, "add: shapes do not broadcast");
/// assert!(matches!(error.kind(), Kind::Shape | Kind::DType));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Shapes, dims or sizes do not fit.
    Shape,
    /// The element type does not fit.
    DType,
    /// An argument has a value that the call does not take.
    Argument,
    /// An index is outside its range.
    Index,
    /// Memory is short.
    Memory,
    /// A device failed or is not there.
    Device,
    /// A file cannot be read or written.
    Io,
    /// A file's contents are not what they should be.
    Format,
    /// An op has no gradient, or a gradient was asked for twice.
    Autograd,
    /// The op or dtype is known and not built yet.
    Unsupported,
    /// A mistake of ours.
    Internal,
}

/// An error with one clear sentence. Boxed, so `Result<Tensor>` stays small; cheap to clone, because every later
/// read of a poisoned result returns the same error.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// let error = Error::new(Kind::Index, "select: index 7 is outside 0..3")
///     .recorded_at(Location::caller())
///     .in_scope("layer 3")
///     .hint("indices count from 0");
/// assert_eq!((error.kind(), error.message()), (Kind::Index, "select: index 7 is outside 0..3"));
/// assert!(error.recorded().is_some());
/// assert!(error.to_string().contains("hint: indices count from 0"));
/// ```
#[derive(Clone)]
pub struct Error(std::sync::Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    hint: Option<String>,
    recorded: Option<Location>,
    scope: Option<String>,
}

impl Error {
    /// An error with its sentence: `op: what is wrong: the facts`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(std::sync::Arc::new(Inner { kind, message: message.into(), hint: None, recorded: None, scope: None }))
    }
    fn edit(self, f: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = std::sync::Arc::unwrap_or_clone(self.0);
        f(&mut inner);
        Self(std::sync::Arc::new(inner))
    }
    /// Adds what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.edit(|e| e.hint = Some(hint.into()))
    }
    /// Adds the line that recorded the op.
    #[must_use]
    pub fn recorded_at(self, at: Location) -> Self {
        self.edit(|e| e.recorded = Some(at))
    }
    /// Adds the module path: `in: layer 3`.
    #[must_use]
    pub fn in_scope(self, scope: impl Into<String>) -> Self {
        self.edit(|e| e.scope = Some(scope.into()))
    }
    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    /// The sentence alone.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The line that recorded the op, if the error was found later.
    pub fn recorded(&self) -> Option<Location> {
        self.0.recorded
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(hint) = &self.0.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        if let Some(at) = self.0.recorded {
            write!(f, "\n  recorded at {at}")?;
        }
        if let Some(scope) = &self.0.scope {
            write!(f, "\n  in: {scope}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl std::error::Error for Error {}
impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Error::new(Kind::Io, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_prints_the_sentence() {
        let e =
            Error::new(Kind::Shape, "add: shapes do not broadcast: lhs [2, 3], rhs [4, 5]").hint("dim 0: 2 against 4");
        assert_eq!(
            format!("{e:?}"),
            "add: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4"
        );
        assert_eq!(size_of::<Result<Box<u8>>>(), 16);
    }
}
