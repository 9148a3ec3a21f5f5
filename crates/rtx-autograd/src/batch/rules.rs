//! Batching rules of the primitives: the examples lie along dim 0 of every batched operand and of the result.
use super::Lane;
use rtx_core::{DType, Dim, Error, Kind, Result, Shape};
use rtx_ir::{Builder, Prim, ScatterOp, ValueId};
use smallvec::SmallVec;

type Order = SmallVec<[usize; 4]>;
type Pairs = SmallVec<[(usize, usize); 2]>;

/// Where and for how many examples is recorded.
pub(super) struct Cx<'a, 'g> {
    pub b: &'a mut Builder<'g>,
    pub size: Dim,
}

impl Cx<'_, '_> {
    /// The result of a primitive of which at least one operand is batched.
    pub(super) fn prim(&mut self, prim: &Prim, x: &[Lane]) -> Result<ValueId> {
        match prim {
            Prim::Unary(_)
            | Prim::Binary(_)
            | Prim::Compare(_)
            | Prim::Fma
            | Prim::Select
            | Prim::Cast(_)
            | Prim::Bitcast(_)
            | Prim::TriangularSolve { .. }
            | Prim::Check(_)
            | Prim::Barrier => self.again(prim.clone(), x),
            Prim::Reshape(shape) => self.again(Prim::Reshape(self.with_size(shape)), x),
            Prim::Permute(order) => {
                let order = std::iter::once(0).chain(order.iter().map(|o| o + 1)).collect();
                self.again(Prim::Permute(order), x)
            }
            Prim::Expand(to) => self.expand(to, x[0]),
            &Prim::Slice { axis, len, step } => self.slice(axis, len, step, x),
            &Prim::Pad { axis, before, after } => self.pad(axis, [before, after], x),
            &Prim::Concat { axis } => self.again(Prim::Concat { axis: axis + 1 }, x),
            &Prim::UpdateSlice { axis, step } => self.update_slice(axis, step, x),
            &Prim::Gather { axis } => self.gather(axis, x[0], x[1]),
            &Prim::Scatter { axis, op } => self.scatter(axis, op, x),
            Prim::Reduce { fold, axes } => {
                let axes = axes.iter().map(|a| a + 1).collect();
                self.again(Prim::Reduce { fold: *fold, axes }, x)
            }
            &Prim::ArgReduce { extremum, axis } => self.again(Prim::ArgReduce { extremum, axis: axis + 1 }, x),
            &Prim::Scan { fold, axis, reverse } => self.again(Prim::Scan { fold, axis: axis + 1, reverse }, x),
            &Prim::LinearScan { axis, reverse } => self.again(Prim::LinearScan { axis: axis + 1, reverse }, x),
            Prim::Fft(f) => self.again(Prim::Fft(rtx_ir::Fft { axis: f.axis + 1, ..*f }), x),
            Prim::Sort { .. }
            | Prim::Factor(_)
            | Prim::Loop(_)
            | Prim::If { .. }
            | Prim::Collective { .. }
            | Prim::CustomCall { .. } => Err(Error::new(Kind::Internal, "vmap: has several results, or no rule")),
            Prim::Dot { batch, contract } => self.dot(batch, contract, x),
            &Prim::Windows { axis, size, stride, dilation } => {
                self.again(Prim::Windows { axis: axis + 1, size, stride, dilation }, x)
            }
            &Prim::OverlapAdd { axis, len, stride, dilation } => {
                self.again(Prim::OverlapAdd { axis: axis + 1, len, stride, dilation }, x)
            }
            Prim::Conv(c) => self.conv(c, x[0], x[1]),
            Prim::Constant { .. } | Prim::Param { .. } | Prim::Iota { .. } | Prim::RandomBits { .. } => {
                Err(Error::new(Kind::Internal, "vmap: a source has no batched operand"))
            }
        }
    }

    fn with_size(&self, shape: &Shape) -> Shape {
        std::iter::once(self.size).chain(shape.iter()).collect()
    }

    /// The operand with the new dim: repeated, where it is the same for all.
    pub(super) fn full(&mut self, lane: Lane) -> Result<ValueId> {
        if lane.is_batched {
            return Ok(lane.value);
        }
        let shape = self.with_size(&self.b.shape(lane.value));
        self.b.expand(lane.value, &shape)
    }

    /// A primitive on operands that all have the new dim.
    fn again(&mut self, prim: Prim, x: &[Lane]) -> Result<ValueId> {
        let values = x.iter().map(|&l| self.full(l)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
        self.b.prim(prim, &values)
    }

    /// Missing dims come between the examples and the dims that are there.
    fn expand(&mut self, to: &Shape, x: Lane) -> Result<ValueId> {
        let from = self.b.shape(x.value);
        let missing = to.rank() + 1 - from.rank();
        let ones = std::iter::repeat_n(Dim::Const(1), missing);
        let aligned: Shape = std::iter::once(self.size).chain(ones).chain(from.iter().skip(1)).collect();
        let x = self.b.reshape(x.value, &aligned)?;
        let to = self.with_size(to);
        self.b.expand(x, &to)
    }

    fn slice(&mut self, axis: usize, len: Dim, step: i64, x: &[Lane]) -> Result<ValueId> {
        let (x, start) = (x[0], x[1]);
        if !start.is_batched {
            return self.b.slice_at(x.value, axis + 1, start.value, len, step);
        }
        let n = self.b.ty(x.value).shape.dim(axis + usize::from(x.is_batched));
        let index = self.positions(start.value, len, step, n)?;
        self.gather(axis, x, Lane::batched(index))
    }

    fn update_slice(&mut self, axis: usize, step: i64, x: &[Lane]) -> Result<ValueId> {
        let (x, update, start) = (x[0], x[1], x[2]);
        if !start.is_batched {
            let operands = [self.full(x)?, self.full(update)?, start.value];
            return self.b.prim(Prim::UpdateSlice { axis: axis + 1, step }, &operands);
        }
        let n = self.b.ty(x.value).shape.dim(axis + usize::from(x.is_batched));
        let len = self.b.ty(update.value).shape.dim(axis + usize::from(update.is_batched));
        let index = self.positions(start.value, len, step, n)?;
        self.scatter(axis, ScatterOp::Set, &[x, Lane::batched(index), update])
    }

    /// For each example the positions `len` steps from its start, which is clamped so that they lie in `0..n`.
    fn positions(&mut self, start: ValueId, len: Dim, step: i64, n: Dim) -> Result<ValueId> {
        let (Some(n), Some(count)) = (n.known(), len.known()) else {
            return Err(Error::new(Kind::Unsupported, "vmap: a start that differs, in a dim whose size is a symbol"));
        };
        let span = if count == 0 { 0 } else { (count as i64 - 1) * step.abs() + 1 };
        let (low, high) = if step > 0 { (0, n as i64 - span) } else { ((span - 1).max(0), n as i64 - 1) };
        let starts = Shape::from_iter([self.size]);
        let (low, high) = (self.number(&starts, low)?, self.number(&starts, high)?);
        let start = self.b.min(start, high)?;
        let start = self.b.max(start, low)?;
        let shape = Shape::from_iter([self.size, len]);
        let column = Shape::from_iter([self.size, Dim::Const(1)]);
        let start = self.b.reshape(start, &column)?;
        let start = self.b.expand(start, &shape)?;
        let along = self.b.prim(Prim::Iota { shape: shape.clone(), axis: 1 }, &[])?;
        let step = self.number(&shape, step)?;
        let along = self.b.mul(along, step)?;
        self.b.add(start, along)
    }

    fn number(&mut self, shape: &Shape, n: i64) -> Result<ValueId> {
        self.b.full(DType::I64, shape, n)
    }

    /// A fill that differs is laid beside the operand.
    fn pad(&mut self, axis: usize, [before, after]: [u64; 2], x: &[Lane]) -> Result<ValueId> {
        let (x, fill) = (x[0], x[1]);
        if !fill.is_batched {
            return self.b.prim(Prim::Pad { axis: axis + 1, before, after }, &[x.value, fill.value]);
        }
        let x = self.full(x)?;
        let shape = self.b.shape(x);
        let column: Shape = shape.iter().enumerate().map(|(i, d)| if i == 0 { d } else { Dim::Const(1) }).collect();
        let fill = self.b.reshape(fill.value, &column)?;
        let mut side = |n: u64| {
            let mut shape = shape.clone();
            shape.set(axis + 1, Dim::Const(n));
            self.b.expand(fill, &shape)
        };
        let parts = [side(before)?, x, side(after)?];
        self.b.prim(Prim::Concat { axis: axis + 1 }, &parts)
    }

    fn gather(&mut self, axis: usize, x: Lane, index: Lane) -> Result<ValueId> {
        if !index.is_batched {
            return self.b.prim(Prim::Gather { axis: axis + 1 }, &[x.value, index.value]);
        }
        if !x.is_batched {
            let y = self.b.prim(Prim::Gather { axis }, &[x.value, index.value])?;
            return self.put_first(y, axis);
        }
        let rank = self.b.rank(index.value) - 1;
        let (rows, index) = self.rows(x.value, axis, index.value)?;
        // Now: examples, index dims, dims before the axis, dims after it.
        let y = self.b.prim(Prim::Gather { axis: 0 }, &[rows, index])?;
        let total = self.b.rank(y);
        let order: Order = std::iter::once(0)
            .chain(1 + rank..1 + rank + axis)
            .chain(1..1 + rank)
            .chain(1 + rank + axis..total)
            .collect();
        self.b.permute(y, &order)
    }

    fn scatter(&mut self, axis: usize, op: ScatterOp, x: &[Lane]) -> Result<ValueId> {
        let (index, updates) = (x[1], self.full(x[2])?);
        let x = self.full(x[0])?;
        if !index.is_batched {
            return self.b.prim(Prim::Scatter { axis: axis + 1, op }, &[x, index.value, updates]);
        }
        let rank = self.b.rank(index.value) - 1;
        let total = self.b.rank(updates);
        // Updates: examples, before, index dims, after; they go to: examples, index dims, before, after.
        let order: Order = std::iter::once(0)
            .chain(1 + axis..1 + axis + rank)
            .chain(1..1 + axis)
            .chain(1 + axis + rank..total)
            .collect();
        let updates = self.b.permute(updates, &order)?;
        let shape = self.b.shape(x);
        let (rows, index) = self.rows(x, axis, index.value)?;
        let y = self.b.prim(Prim::Scatter { axis: 0, op }, &[rows, index, updates])?;
        // Back: examples times the axis, before, after.
        let moved: Shape = [0, axis + 1].into_iter().chain(others(axis, shape.rank())).map(|i| shape.dim(i)).collect();
        let y = self.b.reshape(y, &moved)?;
        let order: Order =
            std::iter::once(0).chain(2..axis + 2).chain(std::iter::once(1)).chain(axis + 2..shape.rank()).collect();
        self.b.permute(y, &order)
    }

    /// A batched operand as one list of rows, the axis of all examples one after the other, and indices into it. An
    /// index that is outside stays outside, so that the kernel finds it.
    fn rows(&mut self, x: ValueId, axis: usize, index: ValueId) -> Result<(ValueId, ValueId)> {
        let shape = self.b.shape(x);
        let (Some(size), Some(n)) = (self.size.known(), shape.dim(axis + 1).known()) else {
            return Err(Error::new(Kind::Unsupported, "vmap: indices that differ, into a dim whose size is a symbol"));
        };
        let order: Order = [0, axis + 1].into_iter().chain(others(axis, shape.rank())).collect();
        let rows = self.b.permute(x, &order)?;
        let flat = std::iter::once(Dim::from(size * n)).chain(others(axis, shape.rank()).map(|i| shape.dim(i)));
        let rows = self.b.reshape(rows, &flat.collect())?;
        let at = self.b.shape(index);
        let (zero, end, outside) = (self.number(&at, 0)?, self.number(&at, n as i64)?, self.number(&at, -1)?);
        let (low, high) = (self.b.le(zero, index)?, self.b.lt(index, end)?);
        let inside = self.b.and(low, high)?;
        let example = self.b.prim(Prim::Iota { shape: at, axis: 0 }, &[])?;
        let first = self.b.mul(example, end)?;
        let index_of_all = self.b.add(first, index)?;
        Ok((rows, self.b.select(inside, index_of_all, outside)?))
    }

    /// A dim becomes the first one.
    fn put_first(&mut self, x: ValueId, dim: usize) -> Result<ValueId> {
        let order: Order = std::iter::once(dim).chain((0..self.b.rank(x)).filter(|&i| i != dim)).collect();
        self.b.permute(x, &order)
    }

    /// Where one side is the same for all, the examples are a free dim of the other: one large product.
    fn dot(&mut self, batch: &Pairs, contract: &Pairs, x: &[Lane]) -> Result<ValueId> {
        let (l, r) = (x[0], x[1]);
        let shift = |pairs: &Pairs| -> Pairs {
            let by = |(a, c): &(usize, usize)| (a + usize::from(l.is_batched), c + usize::from(r.is_batched));
            pairs.iter().map(by).collect()
        };
        let (mut all, contract) = (shift(batch), shift(contract));
        if l.is_batched && r.is_batched {
            all.insert(0, (0, 0));
            return self.b.prim(Prim::Dot { batch: all, contract }, &[l.value, r.value]);
        }
        let free_left = self.b.rank(l.value) - batch.len() - contract.len();
        let at = if l.is_batched { batch.len() } else { batch.len() + free_left };
        let y = self.b.prim(Prim::Dot { batch: all, contract }, &[l.value, r.value])?;
        self.put_first(y, at)
    }
}

/// The dims of a batched value but the examples and the axis.
fn others(axis: usize, rank: usize) -> impl Iterator<Item = usize> {
    (1..rank).filter(move |&i| i != axis + 1)
}
