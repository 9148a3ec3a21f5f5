//! Sizes: a dim that is a number or a symbol, shapes, and strided layouts.
use smallvec::SmallVec;
use std::fmt;

crate::id! {
    /// A size known only when a plan runs (contract S1).
    SymId
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// Known now.
    Const(u64),
    /// Read from the parameter block of each run; memory is planned for `max`.
    Sym {
        /// Which symbol.
        id: SymId,
        /// The largest value it may take.
        max: u64,
    },
}

impl Dim {
    /// The number, if it is one.
    pub fn known(self) -> Option<usize> {
        match self {
            Dim::Const(n) => Some(n as usize),
            Dim::Sym { .. } => None,
        }
    }
    /// The largest value it may take.
    pub fn bound(self) -> usize {
        match self {
            Dim::Const(n) => n as usize,
            Dim::Sym { max, .. } => max as usize,
        }
    }
    /// Is it exactly the number 1?
    pub fn is_one(self) -> bool {
        self == Dim::Const(1)
    }
}
impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::Const(n as u64)
    }
}
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(n) => write!(f, "{n}"),
            Dim::Sym { id, max } => write!(f, "s{}<={max}", id.0),
        }
    }
}

/// The sizes of a tensor, outermost first.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(SmallVec<[Dim; 4]>);

/// Shapes are copied at every op: as one block, not dim by dim.
impl Clone for Shape {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// Rank 0.
    pub fn scalar() -> Self {
        Self::default()
    }
    /// From plain sizes.
    pub fn of(sizes: &[usize]) -> Self {
        sizes.iter().copied().collect()
    }
    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.0.len()
    }
    /// The dims.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }
    /// One dim.
    pub fn dim(&self, i: usize) -> Dim {
        self.0[i]
    }
    /// Replaces one dim.
    pub fn set(&mut self, i: usize, d: impl Into<Dim>) {
        self.0[i] = d.into()
    }
    /// Appends one dim.
    pub fn push(&mut self, d: impl Into<Dim>) {
        self.0.push(d.into())
    }
    /// Inserts one dim before position `i`.
    pub fn insert(&mut self, i: usize, d: impl Into<Dim>) {
        self.0.insert(i, d.into())
    }
    /// Removes one dim.
    pub fn remove(&mut self, i: usize) -> Dim {
        self.0.remove(i)
    }
    /// The sizes as numbers, symbols at their largest value.
    pub fn sizes(&self) -> SmallVec<[usize; 4]> {
        self.0.iter().map(|d| d.bound()).collect()
    }
    /// The product of the sizes, symbols at their largest value.
    pub fn numel(&self) -> usize {
        self.0.iter().map(|d| d.bound()).product()
    }
    /// Are all dims numbers?
    pub fn is_static(&self) -> bool {
        self.0.iter().all(|d| d.known().is_some())
    }
    /// The iterator over dims.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Dim> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }
}
impl FromIterator<Dim> for Shape {
    fn from_iter<I: IntoIterator<Item = Dim>>(i: I) -> Self {
        Self(i.into_iter().collect())
    }
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(i: I) -> Self {
        Self(i.into_iter().map(Dim::from).collect())
    }
}
impl From<&[usize]> for Shape {
    fn from(s: &[usize]) -> Self {
        Self::of(s)
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(s: [usize; N]) -> Self {
        Self::of(&s)
    }
}
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

/// Where the elements of a tensor lie in a buffer, in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Elements before the first one.
    pub offset: usize,
    /// Step of each dim.
    pub strides: SmallVec<[isize; 4]>,
}

impl Layout {
    /// Row-major, from the start of the buffer.
    pub fn contiguous(sizes: &[usize]) -> Self {
        Self { offset: 0, strides: contiguous_strides(sizes) }
    }
    /// Do the elements of `sizes` lie in row-major order without gaps? Dims of size 1 may have any stride.
    pub fn is_contiguous(&self, sizes: &[usize]) -> bool {
        let mut want = 1isize;
        sizes.iter().zip(&self.strides).rev().all(|(&n, &s)| {
            let ok = n == 1 || s == want;
            want *= n as isize;
            ok
        }) || sizes.contains(&0)
    }
}

/// Row-major strides, in elements.
pub fn contiguous_strides(sizes: &[usize]) -> SmallVec<[isize; 4]> {
    let mut strides: SmallVec<[isize; 4]> = sizes.iter().map(|_| 0).collect();
    let mut step = 1;
    for (s, &n) in strides.iter_mut().zip(sizes).rev() {
        *s = step;
        step *= n as isize;
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_and_text() {
        let s = Shape::from([2, 3, 4]);
        assert_eq!(contiguous_strides(&s.sizes()).as_slice(), [12, 4, 1]);
        assert_eq!(s.to_string(), "[2, 3, 4]");
        assert_eq!(Shape::from_iter([Dim::Sym { id: SymId(1), max: 64 }, Dim::Const(2)]).to_string(), "[s1<=64, 2]");
        assert!(Layout { offset: 5, strides: SmallVec::from_slice(&[7, 1]) }.is_contiguous(&[1, 3]));
        assert!(!Layout { offset: 0, strides: SmallVec::from_slice(&[1, 2]) }.is_contiguous(&[2, 2]));
    }
}
