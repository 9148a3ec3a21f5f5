//! Matrix algebra for bodies and gradient rules: matrices lie in the last two dims, what stands before them is a batch.
use crate::{Builder, Prim, ValueId};
use rtx_core::{DType, Fold, Result, Shape};

/// Which triangle a triangular solve reads, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The upper one?
    pub upper: bool,
    /// Its transpose is the matrix?
    pub transpose: bool,
    /// With ones on the diagonal, which is not read?
    pub unit: bool,
}

impl Triangle {
    /// The lower triangle.
    pub const LOWER: Triangle = Triangle { upper: false, transpose: false, unit: false };
    /// The upper triangle.
    pub const UPPER: Triangle = Triangle { upper: true, transpose: false, unit: false };
    /// The lower triangle with ones on the diagonal.
    pub const UNIT_LOWER: Triangle = Triangle { upper: false, transpose: false, unit: true };
    /// Its transpose.
    pub const fn t(self) -> Triangle {
        Triangle { transpose: !self.transpose, ..self }
    }
}

impl Builder<'_> {
    /// Column minus row of each element.
    fn off_diagonal(&mut self, shape: &Shape) -> Result<ValueId> {
        let own: Shape = shape.iter().skip(shape.rank() - 2).collect();
        let row = self.prim(Prim::Iota { shape: own.clone(), axis: 0 }, &[])?;
        let column = self.prim(Prim::Iota { shape: own, axis: 1 }, &[])?;
        let offset = self.sub(column, row)?;
        self.expand(offset, shape)
    }
    /// True on the diagonal of matrices of a shape.
    pub fn on_diagonal(&mut self, shape: &Shape) -> Result<ValueId> {
        let offset = self.off_diagonal(shape)?;
        let zero = self.constant(DType::I64, 0i64)?;
        self.eq(offset, zero)
    }
    /// The elements at and below the diagonal moved by `diagonal`, zeros above.
    pub fn tril(&mut self, x: ValueId, diagonal: i64) -> Result<ValueId> {
        let shape = self.shape(x);
        let (offset, limit) = (self.off_diagonal(&shape)?, self.constant(DType::I64, diagonal)?);
        let keep = self.le(offset, limit)?;
        self.select(keep, x, 0.0)
    }
    /// The elements at and above the diagonal moved by `diagonal`, zeros below.
    pub fn triu(&mut self, x: ValueId, diagonal: i64) -> Result<ValueId> {
        let shape = self.shape(x);
        let (offset, limit) = (self.off_diagonal(&shape)?, self.constant(DType::I64, diagonal)?);
        let keep = self.le(limit, offset)?;
        self.select(keep, x, 0.0)
    }
    /// The diagonal as a vector: a sum with one number that is not zero.
    pub fn diagonal(&mut self, x: ValueId) -> Result<ValueId> {
        let shape = self.shape(x);
        let on = self.on_diagonal(&shape)?;
        let on = self.select(on, x, 0.0)?;
        let (r, m, n) = (shape.rank(), shape.dim(shape.rank() - 2).bound(), shape.dim(shape.rank() - 1).bound());
        self.reduce(Fold::Sum, on, &[if m < n { r - 1 } else { r - 2 }])
    }
    /// A vector as a column.
    pub fn as_column(&mut self, x: ValueId) -> Result<ValueId> {
        let mut shape = self.shape(x);
        shape.push(1);
        self.reshape(x, &shape)
    }
    /// A vector as a row.
    pub fn as_row(&mut self, x: ValueId) -> Result<ValueId> {
        let mut shape = self.shape(x);
        shape.insert(shape.rank() - 1, 1);
        self.reshape(x, &shape)
    }
    /// Rows `from..from + len`.
    pub fn rows(&mut self, x: ValueId, from: usize, len: usize) -> Result<ValueId> {
        let axis = self.rank(x) - 2;
        self.slice(x, axis, from as i64, len)
    }
    /// Columns `from..from + len`.
    pub fn columns(&mut self, x: ValueId, from: usize, len: usize) -> Result<ValueId> {
        let axis = self.rank(x) - 1;
        self.slice(x, axis, from as i64, len)
    }
    /// `op(a)⁻¹ x` for triangular `a`.
    pub fn solve_triangle(&mut self, t: Triangle, a: ValueId, x: ValueId) -> Result<ValueId> {
        let Triangle { upper, transpose, unit } = t;
        self.prim(Prim::TriangularSolve { upper, transpose, unit }, &[a, x])
    }
    /// `x op(a)⁻¹` for triangular `a`.
    pub fn solve_triangle_right(&mut self, t: Triangle, a: ValueId, x: ValueId) -> Result<ValueId> {
        let x = self.transpose_last(x)?;
        let y = self.solve_triangle(t.t(), a, x)?;
        self.transpose_last(y)
    }
    /// Matrices of a shape with ones on the diagonal.
    pub fn identity(&mut self, dtype: DType, shape: &Shape) -> Result<ValueId> {
        let on = self.on_diagonal(shape)?;
        self.cast(on, dtype)
    }
    /// For a permutation `p [.., n]` the matrix whose row `i` has its one in column `p[i]`.
    pub fn permutation(&mut self, p: ValueId, dtype: DType) -> Result<ValueId> {
        let mut shape = self.shape(p);
        shape.push(shape.dim(shape.rank() - 1));
        let (column, axis) = (self.as_column(p)?, shape.rank() - 1);
        let position = self.prim(Prim::Iota { shape, axis }, &[])?;
        let on = self.eq(column, position)?;
        self.cast(on, dtype)
    }
}
