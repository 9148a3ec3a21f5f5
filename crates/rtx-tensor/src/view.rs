//! View maps: which elements of a cell a handle shows, as movement ops that read and write through (contract M1).
use rtx_core::{DType, Dim, Error, Kind, Result, Scalar, Shape, contiguous_strides};
use rtx_ir::{Builder, Prim, ValueId};
use smallvec::SmallVec;

/// One movement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Move {
    Reshape(Shape),
    /// Dim `i` of the result is dim `order[i]`.
    Permute(SmallVec<[usize; 4]>),
    Expand(Shape),
    /// `len` elements along `axis`, `step` apart, the first at `start`.
    Slice {
        axis: usize,
        start: Start,
        len: usize,
        step: i64,
    },
}

/// Where a slice starts (contract S2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// It follows from the shape alone, as the pieces of `split` do: part of the program.
    Static(i64),
    /// The user's number: read when the plan runs, so that another one makes no new plan.
    Runtime(i64),
}

impl Start {
    fn record(self, b: &mut Builder<'_>) -> Result<ValueId> {
        match self {
            Start::Static(at) => b.constant(DType::I64, at),
            Start::Runtime(at) => b.param(DType::I64, Scalar::Int(at)),
        }
    }
}

/// A chain of movements from the cell's value to what a handle shows. Most handles show the value itself, so that
/// costs no more than its shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    shape: Shape,
    way: Option<Box<Way>>,
}

/// How a view differs from the cell's value.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    moves: SmallVec<[Move; 2]>,
    /// Where PyTorch's strided tensor would have its elements: decides when `reshape` still is a view.
    strides: Strides,
}

type Strides = SmallVec<[isize; 4]>;

impl View {
    /// The cell's value itself.
    pub fn whole(shape: &Shape) -> Self {
        Self { shape: shape.clone(), way: None }
    }
    pub fn is_whole(&self) -> bool {
        self.way.is_none()
    }
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    pub fn strides(&self) -> Strides {
        self.way.as_ref().map_or_else(|| contiguous_strides(&self.shape.sizes()), |w| w.strides.clone())
    }
    fn moves(&self) -> &[Move] {
        self.way.as_ref().map_or(&[], |w| &w.moves)
    }
    pub fn is_contiguous(&self) -> bool {
        self.way.as_ref().is_none_or(|w| {
            rtx_core::Layout { offset: 0, strides: w.strides.clone() }.is_contiguous(&self.shape.sizes())
        })
    }

    /// Another shape of as many elements, if it needs no copy.
    pub fn reshape(&self, shape: &[usize]) -> Option<View> {
        let strides = reshape_strides(&self.shape.sizes(), &self.strides(), shape)?;
        let to = Shape::of(shape);
        Some(self.then(Move::Reshape(to.clone()), to, strides))
    }
    pub fn permute(&self, order: &[usize]) -> View {
        let shape = order.iter().map(|&o| self.shape.dim(o)).collect();
        let from = self.strides();
        let strides = order.iter().map(|&o| from[o]).collect();
        self.then(Move::Permute(order.into()), shape, strides)
    }
    /// To a shape that this one broadcasts to.
    pub fn expand(&self, shape: &[usize]) -> View {
        let (lead, from) = (shape.len() - self.shape.rank(), self.strides());
        let stride = |i: usize| match i.checked_sub(lead) {
            Some(j) if self.shape.dim(j) == Dim::from(shape[i]) => from[j],
            _ => 0,
        };
        let strides = (0..shape.len()).map(stride).collect();
        self.then(Move::Expand(Shape::of(shape)), Shape::of(shape), strides)
    }
    pub fn slice(&self, axis: usize, start: Start, len: usize, step: i64) -> View {
        let (mut shape, mut strides) = (self.shape.clone(), self.strides());
        shape.set(axis, len);
        strides[axis] *= step as isize;
        self.then(Move::Slice { axis, start, len, step }, shape, strides)
    }
    /// A new dim of size 1 before `axis`.
    pub fn insert(&self, axis: usize) -> View {
        let (mut shape, mut strides) = (self.shape.clone(), self.strides());
        shape.insert(axis, 1);
        strides.insert(axis, 0);
        self.then(Move::Reshape(shape.clone()), shape, strides)
    }
    /// Without a dim of size 1.
    pub fn drop_dim(&self, axis: usize) -> View {
        let (mut shape, mut strides) = (self.shape.clone(), self.strides());
        shape.remove(axis);
        strides.remove(axis);
        self.then(Move::Reshape(shape.clone()), shape, strides)
    }
    fn then(&self, m: Move, shape: Shape, strides: Strides) -> View {
        if shape == self.shape && matches!(m, Move::Reshape(_) | Move::Expand(_)) {
            return self.clone();
        }
        let mut moves: SmallVec<[Move; 2]> = self.moves().iter().cloned().collect();
        moves.push(m);
        View { shape, way: Some(Box::new(Way { moves, strides })) }
    }

    /// What the handle shows of the cell's value.
    pub fn read(&self, b: &mut Builder<'_>, base: ValueId) -> Result<ValueId> {
        self.moves().iter().try_fold(base, |x, m| m.read(b, x))
    }

    /// The cell's value with `update` where the handle shows it.
    pub fn write(&self, b: &mut Builder<'_>, base: ValueId, update: ValueId) -> Result<ValueId> {
        let mut before: SmallVec<[ValueId; 4]> = SmallVec::new();
        let mut x = base;
        for m in self.moves() {
            before.push(x);
            x = m.read(b, x)?;
        }
        self.moves().iter().zip(before).rev().try_fold(update, |u, (m, x)| m.write(b, x, u))
    }

    /// A view that shows an element twice cannot be written; one that shows none can.
    pub fn check_writable(&self, op: &str) -> Result<()> {
        let repeats = |(i, &s): (usize, &isize)| s == 0 && self.shape.dim(i).bound() > 1;
        if self.shape.numel() == 0 || !self.strides().iter().enumerate().any(repeats) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Argument,
            format!("{op}: this view of shape {} shows elements more than once", self.shape),
        )
        .hint("write to a clone, or to the tensor before expand"))
    }
}

impl Move {
    fn read(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        match self {
            Move::Reshape(shape) => b.reshape(x, shape),
            Move::Permute(order) => b.permute(x, order),
            Move::Expand(shape) => b.expand(x, shape),
            &Move::Slice { axis, start, len, step } => {
                let start = start.record(b)?;
                b.slice_at(x, axis, start, len, step)
            }
        }
    }
    /// `x` with `update` where this movement of it is shown.
    fn write(&self, b: &mut Builder<'_>, x: ValueId, update: ValueId) -> Result<ValueId> {
        match self {
            Move::Reshape(_) | Move::Expand(_) => {
                let shape = b.shape(x);
                b.reshape(update, &shape)
            }
            Move::Permute(order) => {
                let mut inverse: SmallVec<[usize; 4]> = order.clone();
                order.iter().enumerate().for_each(|(i, &o)| inverse[o] = i);
                b.permute(update, &inverse)
            }
            &Move::Slice { axis, start, step, .. } => {
                let start = start.record(b)?;
                b.prim(Prim::UpdateSlice { axis, step }, &[x, update, start])
            }
        }
    }
}

/// The strides under which the same elements in the same order have the shape `to`; `None` when they would have to
/// move. Runs of dims that lie one after the other are split and merged freely; nothing else is.
fn reshape_strides(from: &[usize], strides: &[isize], to: &[usize]) -> Option<Strides> {
    if from.contains(&0) {
        return Some(contiguous_strides(to));
    }
    let mut runs: SmallVec<[(usize, isize); 4]> = SmallVec::new();
    for (&n, &s) in from.iter().zip(strides).filter(|(n, _)| **n != 1) {
        match runs.last_mut() {
            Some((size, step)) if *step == n as isize * s => (*size, *step) = (*size * n, s),
            _ => runs.push((n, s)),
        }
    }
    let mut out: Strides = to.iter().map(|_| 0).collect();
    let mut run = runs.pop().unwrap_or((1, 1));
    for (n, s) in to.iter().zip(&mut out).rev() {
        if run.0 == 1 && *n != 1 {
            run = runs.pop()?;
        }
        if !run.0.is_multiple_of(*n) {
            return None;
        }
        *s = run.1;
        run = (run.0 / n, run.1 * *n as isize);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_is_a_view_exactly_where_pytorchs_is() {
        let x = View::whole(&Shape::from([4, 6]));
        assert_eq!(x.reshape(&[2, 2, 3, 2]).expect("splits").strides().as_slice(), [12, 6, 2, 1]);
        assert_eq!(x.reshape(&[24]).expect("merges").strides().as_slice(), [1]);
        let t = x.permute(&[1, 0]);
        assert!(t.reshape(&[24]).is_none());
        assert_eq!(t.reshape(&[2, 3, 4]).expect("splits a permuted dim").strides().as_slice(), [3, 1, 6]);
        let half = x.slice(1, Start::Static(0), 3, 1);
        assert!(half.reshape(&[12]).is_none());
        assert_eq!(half.reshape(&[2, 2, 3, 1]).expect("keeps the gap").strides()[..3], [12, 6, 1]);
        assert!(View::whole(&Shape::from([0, 3])).reshape(&[3, 0, 5]).is_some());
    }
}
