//! The matrix product as a launch names it, and its equal forms.

/// How many sizes a gemm launch has before those of its epilogue.
pub const SIZES: usize = 17;

/// Strides of one operand, in elements: over the two batch axes, its rows and its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strides {
    pub batch: [isize; 2],
    pub row: isize,
    pub column: isize,
}

/// `C[b0, b1, i, j] = Σ_p A[b0, b1, i, p] · B[b0, b1, p, j]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    pub batch: [usize; 2],
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Rows i, columns p.
    pub a: Strides,
    /// Rows p, columns j.
    pub b: Strides,
    /// Rows i, columns j.
    pub c: Strides,
}

impl Product {
    /// Reads `[b0, b1, m, n, k, a_b0, a_b1, a_m, a_k, b_b0, b_b1, b_k, b_n, c_b0, c_b1, c_m, c_n]`.
    pub fn parse(sizes: &[i64]) -> Self {
        let size = |i: usize| sizes[i].max(0) as usize;
        let strides = |i: usize| Strides {
            batch: [sizes[i] as isize, sizes[i + 1] as isize],
            row: sizes[i + 2] as isize,
            column: sizes[i + 3] as isize,
        };
        Self {
            batch: [size(0), size(1)],
            m: size(2),
            n: size(3),
            k: size(4),
            a: strides(5),
            b: strides(9),
            c: strides(13),
        }
    }

    /// Is each output summed by the 16-lane tree (contract N3: one row or one column)?
    pub fn is_gemv(&self) -> bool {
        self.m == 1 || self.n == 1
    }

    /// Multiplications.
    pub fn work(&self) -> usize {
        [self.batch[1], self.m, self.n, self.k].iter().fold(self.batch[0], |w, x| w.saturating_mul(*x))
    }

    /// `Cᵀ = Bᵀ Aᵀ`: the same sums, because a·b = b·a.
    pub fn transposed(&self) -> Self {
        let flip = |s: Strides| Strides { batch: s.batch, row: s.column, column: s.row };
        Self { m: self.n, n: self.m, a: flip(self.b), b: flip(self.a), c: flip(self.c), ..*self }
    }

    /// With a batch axis that B does not have joined to the rows, where A and C lie so that this is possible. Each
    /// output is the same sum as before. Gives how many rows of the result are one former batch entry.
    pub fn with_batches_as_rows(&self) -> Self {
        let inner = self.join_rows(1);
        if inner.batch[1] == 1 { inner.join_rows(0) } else { inner }
    }

    fn join_rows(&self, axis: usize) -> Self {
        let (rows, entries) = (self.m as isize, self.batch[axis]);
        let follows = |s: &Strides| s.batch[axis] == rows * s.row;
        if entries > 1 && !(self.b.batch[axis] == 0 && follows(&self.a) && follows(&self.c)) {
            return *self;
        }
        let mut joined = Self { m: self.m * entries, ..*self };
        joined.batch[axis] = 1;
        joined
    }
}
