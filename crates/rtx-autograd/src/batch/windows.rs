//! Batching rules of windows and convolutions.
use super::Lane;
use super::rules::Cx;
use rtx_core::{Dim, Error, Kind, Result, Shape};
use rtx_ir::{Convolution, Prim, ValueId};
use smallvec::SmallVec;

impl Cx<'_, '_> {
    /// Examples join the batch where the weights are the same for all, the outputs where the operand is, and are
    /// groups of their own where both differ.
    pub(super) fn conv(&mut self, c: &Convolution, x: Lane, w: Lane) -> Result<ValueId> {
        match (x.is_batched, w.is_batched) {
            (true, false) => {
                let shape = self.b.shape(x.value);
                let joined = self.join(x.value, 0)?;
                let y = self.b.prim(Prim::Conv(Box::new(c.clone())), &[joined, w.value])?;
                self.split(y, 0, [self.size, shape.dim(1)])
            }
            (false, _) => self.conv_of_weights(c, x.value, w.value),
            (true, true) => {
                let outs = self.b.ty(w.value).shape.dim(1);
                let x = self.swapped(x.value, 0)?;
                let (x, w) = (self.join(x, 1)?, self.join(w.value, 0)?);
                let size = self.known(self.size)?;
                let all = Convolution { dims: c.dims.clone(), groups: c.groups * size };
                let y = self.b.prim(Prim::Conv(Box::new(all)), &[x, w])?;
                let y = self.split(y, 1, [self.size, outs])?;
                self.swapped(y, 0)
            }
        }
    }

    /// `w` is `[examples, groups · outs, ..]`.
    fn conv_of_weights(&mut self, c: &Convolution, x: ValueId, w: ValueId) -> Result<ValueId> {
        let outs = self.b.ty(w).shape.dim(1);
        if c.groups == 1 {
            let w = self.join(w, 0)?;
            let y = self.b.prim(Prim::Conv(Box::new(c.clone())), &[x, w])?;
            let y = self.split(y, 1, [self.size, outs])?;
            return self.swapped(y, 0);
        }
        let of_group = Dim::from(self.known(outs)? / c.groups);
        let w = self.split(w, 1, [c.groups.into(), of_group])?;
        let w = self.swapped(w, 0)?;
        let w = self.join(w, 0)?;
        let w = self.join(w, 0)?;
        let y = self.b.prim(Prim::Conv(Box::new(c.clone())), &[x, w])?;
        let each = Dim::from(self.known(self.size)? * self.known(of_group)?);
        let y = self.split(y, 1, [c.groups.into(), each])?;
        let y = self.split(y, 2, [self.size, of_group])?;
        // n, groups, examples, outs: the examples come first.
        let order: SmallVec<[usize; 4]> = [2, 0, 1].into_iter().chain(3..self.b.rank(y)).collect();
        let y = self.b.permute(y, &order)?;
        self.join(y, 2)
    }

    fn known(&self, d: Dim) -> Result<usize> {
        d.known().ok_or_else(|| Error::new(Kind::Unsupported, "vmap: a convolution of which a symbol is a size"))
    }
    /// Dims `i` and `i + 1` as one.
    fn join(&mut self, x: ValueId, i: usize) -> Result<ValueId> {
        let shape = self.b.shape(x);
        let n = self.known(shape.dim(i))? * self.known(shape.dim(i + 1))?;
        let joined: Shape = shape.iter().take(i).chain([Dim::from(n)]).chain(shape.iter().skip(i + 2)).collect();
        self.b.reshape(x, &joined)
    }
    /// Dim `i` as two.
    fn split(&mut self, x: ValueId, i: usize, sizes: [Dim; 2]) -> Result<ValueId> {
        let shape = self.b.shape(x);
        let split: Shape = shape.iter().take(i).chain(sizes).chain(shape.iter().skip(i + 1)).collect();
        self.b.reshape(x, &split)
    }
    /// Dims `i` and `i + 1` swapped.
    fn swapped(&mut self, x: ValueId, i: usize) -> Result<ValueId> {
        let mut order: SmallVec<[usize; 4]> = (0..self.b.rank(x)).collect();
        order.swap(i, i + 1);
        self.b.permute(x, &order)
    }
}
