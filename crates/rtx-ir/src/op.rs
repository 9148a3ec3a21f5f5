//! What a node does: an input, a primitive with its static attributes, or a composite.
use crate::{OpDef, Program, Types, prims};
use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// A primitive with its static attributes. Closed: matched everywhere without a `_` arm, so that a new one does
/// not build until every part of the house handles it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Prim {
    /// A rank-0 number that belongs to the program (never one that a user passed). No operands.
    Constant {
        /// Type.
        dtype: DType,
        /// The element's bits, zero-extended.
        bits: u64,
    },
    /// A rank-0 number that a user passed: its value is no part of the program (contract S2). No operands.
    Param {
        /// Type.
        dtype: DType,
    },
    /// The position along `axis`, `i64`. No operands.
    Iota {
        /// Shape of the result.
        shape: Shape,
        /// Which axis counts.
        axis: usize,
    },
    /// Random `u32` bits (contract M7). Operands: key and ordinal, rank-0 `i64`.
    RandomBits {
        /// Shape of the result.
        shape: Shape,
    },
    /// A function of one number, element by element.
    Unary(Function),
    /// A function of two numbers of one type, element by element; equal shapes.
    Binary(Arith),
    /// A comparison, element by element; equal types; result bool.
    Compare(Comparison),
    /// `a * b + c`, rounded once; equal float types.
    Fma,
    /// `if cond { a } else { b }`, element by element. Operands: bool cond, a, b of one type; equal shapes.
    Select,
    /// Conversion to another element type.
    Cast(DType),
    /// The same bits as another element type of the same size.
    Bitcast(DType),
    /// The same elements in row-major order under another shape.
    Reshape(Shape),
    /// Dim `i` of the result is dim `order[i]` of the operand.
    Permute(SmallVec<[usize; 4]>),
    /// NumPy broadcasting to a shape: aligned at the last dim; missing dims and dims of size 1 repeat.
    Expand(Shape),
    /// `len` elements along `axis`, `step` apart, from a start. Operands: x and start (rank-0 `i64`, clamped so
    /// that the slice lies inside). A negative step walks down from the start.
    Slice {
        /// Along which axis.
        axis: usize,
        /// How many elements.
        len: rtx_core::Dim,
        /// How far apart; not 0.
        step: i64,
    },
    /// Elements before and after `x` along `axis`. Operands: x and the fill, rank 0, same dtype.
    Pad {
        /// Along which axis.
        axis: usize,
        /// How many before.
        before: u64,
        /// How many after.
        after: u64,
    },
    /// Operands one after the other along `axis`.
    Concat {
        /// Along which axis.
        axis: usize,
    },
    /// `x` with `update` written over it along `axis`, elements `step` apart from a start. Operands: x, update,
    /// start (rank-0 `i64`, clamped so that the update lies inside).
    UpdateSlice {
        /// Along which axis.
        axis: usize,
        /// How far apart; not 0.
        step: i64,
    },
    /// `x` with `axis` replaced by the shape of the indices: `out[a.., i.., b..] = x[a.., idx[i..], b..]`.
    /// Operands: x and indices (`i64`, any shape; an index outside `0..size` is an error at run time).
    Gather {
        /// Along which axis.
        axis: usize,
    },
    /// `x` with updates combined into it where [`Prim::Gather`] with the same axis and indices would read; in
    /// ascending order of the update's position. Operands: x, indices, updates.
    Scatter {
        /// Along which axis.
        axis: usize,
        /// How.
        op: ScatterOp,
    },
    /// Axes folded away, by the tree of contract N3 over the folded axes in row-major order. The axes are ascending.
    Reduce {
        /// With what.
        fold: Fold,
        /// Which axes.
        axes: SmallVec<[usize; 4]>,
    },
    /// Position of an extremum along an axis, which goes away; `i64`.
    ArgReduce {
        /// Which extremum.
        extremum: Extremum,
        /// Along which axis.
        axis: usize,
    },
    /// Running fold along an axis: `y[t] = y[t - 1] op x[t]`, from the first element, or from the last one backwards.
    Scan {
        /// With what.
        fold: Fold,
        /// Along which axis.
        axis: usize,
        /// Backwards?
        reverse: bool,
    },
    /// The recurrence `h[t] = a[t] * h[t - 1] + b[t]` along an axis, multiplication and addition each rounded. Operands:
    /// a, b of one type, and the state before the first step, which lacks the axis.
    LinearScan {
        /// Along which axis.
        axis: usize,
        /// From the last element backwards?
        reverse: bool,
    },
    /// Elements in order along an axis, and their positions (`i64`): equal ones stay in order, NaN is the largest number
    /// and both zeros are one. Two results.
    Sort {
        /// Along which axis.
        axis: usize,
        /// The largest first?
        descending: bool,
    },
    /// Sum of products over the contracted pairs of dims. The result's dims: batch, then the free dims of the left,
    /// then of the right. One dtype; sums by fma as contract N3 says.
    Dot {
        /// Pairs (left, right) that stay.
        batch: SmallVec<[(usize, usize); 2]>,
        /// Pairs (left, right) that are summed over.
        contract: SmallVec<[(usize, usize); 2]>,
    },
    /// A factorization of the matrices in the last two dims; several results.
    Factor(Factor),
    /// The `x` of `op(a) x = b` for triangular `a [.., n, n]` and `b [.., n, k]`; the other triangle is not read.
    TriangularSolve {
        /// Is `a` upper triangular?
        upper: bool,
        /// Is `op` the transpose?
        transpose: bool,
        /// Is the diagonal of ones, and not read?
        unit: bool,
    },
    /// The discrete Fourier transform of every line along an axis.
    Fft(Fft),
    /// `body` again and again. Operands: the number of rounds (rank-0 `i64`), then the state; the body takes the
    /// round (rank-0 `i64`) and the state, and returns the next state.
    Loop(Program),
    /// One of two programs of equal types. Operands: the condition (rank-0 bool), then what both take.
    If {
        /// When the condition holds.
        then: Program,
        /// When it does not.
        otherwise: Program,
    },
    /// What the members of a group do together: every member calls it with a tensor of one type.
    Collective {
        /// What.
        kind: Collective,
        /// Members of the group.
        members: u32,
    },
    /// A kernel from outside, by name; any operands, results of these types.
    CustomCall {
        /// Its name.
        name: Arc<str>,
        /// What it makes.
        results: Types,
    },
    /// `x`, if every element of the condition holds; otherwise an error with this sentence. Operands: x and the
    /// condition, bool.
    Check(Arc<str>),
    /// Windows along `axis`, whose size becomes their number; a new last dim of `size` holds each. Window `i` starts
    /// at `i · stride`, its elements are `dilation` apart.
    Windows {
        /// Along which axis.
        axis: usize,
        /// Elements of a window.
        size: u64,
        /// From the start of one window to the next.
        stride: u64,
        /// From one element of a window to the next.
        dilation: u64,
    },
    /// Windows, which lie along the last dim, added up where [`Prim::Windows`] would read them: `axis` becomes `len`
    /// elements, each the sum of what falls on it in ascending order of the windows, from 0.
    OverlapAdd {
        /// Along which axis.
        axis: usize,
        /// Size of the axis in the result.
        len: u64,
        /// From the start of one window to the next.
        stride: u64,
        /// From one element of a window to the next.
        dilation: u64,
    },
    /// Sum of products of windows of `x` `[n, c, spatial..]` with `weight` `[o, c / groups, window..]`; the result is
    /// `[n, o, spatial..]`. One dtype; sums by fma in chunks over `c / groups` and the window, as contract N3 says.
    Conv(Box<Convolution>),
    /// The operand itself; nothing is merged or fused across it.
    Barrier,
}

/// The static attributes of [`Prim::Fft`]: `y[k] = s Σ_j x[j] exp(∓2πi jk / n)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fft {
    /// Between which numbers.
    pub kind: FftKind,
    /// Along which axis.
    pub axis: usize,
    /// With + in the exponent?
    pub inverse: bool,
    /// What `s` is.
    pub norm: FftNorm,
}

impl Fft {
    /// `n`, where the operand has `along` elements along the axis.
    pub fn len(&self, along: usize) -> usize {
        if let FftKind::FromHalf { len } = self.kind { len as usize } else { along }
    }
}

/// Between which numbers a transform goes. The parts of a real line come in conjugate pairs, so the first `n / 2 + 1`
/// say it all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftKind {
    /// From complex to complex numbers.
    Complex,
    /// From real numbers to the first half of their parts.
    ToHalf,
    /// From the first half of the parts to real numbers.
    FromHalf {
        /// How many.
        len: u64,
    },
}

/// What the sums of a transform are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftNorm {
    /// 1.
    None,
    /// `1 / √n`.
    Root,
    /// `1 / n`.
    Size,
}

/// A factorization of a matrix `[m, n]`, `k = min(m, n)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factor {
    /// `L` of `a = L L'` from the lower triangle of a symmetric matrix, and `info [..]`: 0, or the order of the first
    /// leading minor that is not positive.
    Cholesky,
    /// `L` (below the diagonal, its own diagonal of ones left out) and `U` in one matrix of `P a = L U` with partial
    /// pivoting; `pivots [.., k]`: with which row, from 0, each row was swapped; `info [..]`: 0, or the position from 1
    /// of the first zero on the diagonal of `U`.
    Lu,
    /// `Q` and `R` of `a = Q R` by Householder reflections (signs as LAPACK's).
    Qr {
        /// `Q [m, m]`, `R [m, n]` instead of `Q [m, k]`, `R [k, n]`.
        full: bool,
    },
    /// Eigenvalues, ascending, and eigenvectors in columns, from the lower triangle of a symmetric matrix.
    Eigh,
    /// Eigenvalues and eigenvectors of a general matrix, complex.
    Eig,
    /// `U`, the singular values, descending, and `V'`.
    Svd {
        /// `U [m, m]`, `V' [n, n]` instead of `U [m, k]`, `V' [k, n]`.
        full: bool,
    },
}

/// What a group does together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Every member gets the elements of all, folded.
    AllReduce(Fold),
    /// Every member gets the tensors of all, one after the other along an axis.
    AllGather {
        /// Along which axis.
        axis: usize,
    },
    /// Every member gets its part, along an axis, of the elements of all, folded.
    ReduceScatter {
        /// With what.
        fold: Fold,
        /// Along which axis.
        axis: usize,
    },
    /// Part `i` along an axis goes to member `i`; what comes stands in the order of the members.
    AllToAll {
        /// Along which axis.
        axis: usize,
    },
    /// The tensor goes to the member that many places further on, around the ring.
    SendRecv {
        /// How many places.
        shift: i64,
    },
}

/// The static attributes of [`Prim::Conv`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// One to three spatial dims.
    pub dims: SmallVec<[ConvDim; 2]>,
    /// Channels are split into so many parts that do not meet.
    pub groups: usize,
}

/// How a window moves along one dim: element `k` of the window of result `p` is element `p · stride + k · dilation -
/// low` of the operand with `base - 1` zeros between its elements; outside there are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvDim {
    /// From one window to the next; at least 1.
    pub stride: u64,
    /// Zeros before the operand; below 0 elements are cut off.
    pub low: i64,
    /// Zeros after the operand; below 0 elements are cut off.
    pub high: i64,
    /// From one element of the operand to the next; at least 1.
    pub base: u64,
    /// From one element of the window to the next; at least 1.
    pub dilation: u64,
}

impl ConvDim {
    /// Nothing special.
    pub const PLAIN: ConvDim = ConvDim { stride: 1, low: 0, high: 0, base: 1, dilation: 1 };

    /// What `size` elements span that are `step` apart.
    pub fn span(size: u64, step: u64) -> i128 {
        if size == 0 { 0 } else { (i128::from(size) - 1) * i128::from(step) + 1 }
    }
    /// Windows of `window` elements over `size` elements; `None` where that is no size.
    pub fn out_size(&self, size: u64, window: u64) -> Option<u64> {
        let padded = Self::span(size, self.base) + i128::from(self.low) + i128::from(self.high);
        let room = padded - Self::span(window, self.dilation);
        if room < 0 { Some(0) } else { u64::try_from(room / i128::from(self.stride).max(1) + 1).ok() }
    }
}

/// How a scatter combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum ScatterOp {
    /// The last update of an element wins.
    Set,
    Add,
    Mul,
    Min,
    Max,
}

impl ScatterOp {
    /// Every one.
    pub const ALL: [ScatterOp; 5] = [ScatterOp::Set, ScatterOp::Add, ScatterOp::Mul, ScatterOp::Min, ScatterOp::Max];
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            ScatterOp::Set => "set",
            ScatterOp::Add => "add",
            ScatterOp::Mul => "mul",
            ScatterOp::Min => "min",
            ScatterOp::Max => "max",
        }
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A value from outside the graph.
    Input,
    /// A value of which only the type is known. Gradient rules get one for each value they did not declare in
    /// `saves`; a graph that reads one does not verify.
    Ghost,
    /// A primitive.
    Prim(Prim),
    /// A composite with its attributes, in the order of its signature.
    Composite(&'static OpDef, Attrs),
}

impl Op {
    /// The definition; `None` for inputs and ghosts.
    pub fn def(&self) -> Option<&'static OpDef> {
        match self {
            Op::Input | Op::Ghost => None,
            Op::Prim(p) => Some(prims::def(p)),
            Op::Composite(def, _) => Some(def),
        }
    }
    /// The primitive, if it is one.
    pub fn prim(&self) -> Option<&Prim> {
        if let Op::Prim(p) = self { Some(p) } else { None }
    }
    /// The attributes of a composite; empty otherwise.
    pub fn attrs(&self) -> &[Attr] {
        if let Op::Composite(_, a) = self { a } else { &[] }
    }
    /// The name in text forms and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input => "input",
            Op::Ghost => "ghost",
            Op::Prim(p) => prims::name(p),
            Op::Composite(d, _) => d.name(),
        }
    }
}

/// One static attribute of a composite.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Attr {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(SmallVec<[i64; 4]>),
    DType(DType),
    Str(&'static str),
}

/// Static attributes in the order of the signature, tensors and run-time scalars left out.
pub type Attrs = SmallVec<[Attr; 2]>;

impl Attr {
    /// As an integer.
    ///
    /// # Panics
    /// When the definition reads another kind than it declared: a mistake in the table, found by its laws.
    pub fn int(&self) -> i64 {
        if let Attr::Int(i) = self { *i } else { panic!("attribute {self:?} is not an integer") }
    }
    /// As a float.
    ///
    /// # Panics
    /// As [`Attr::int`].
    pub fn float(&self) -> f64 {
        if let Attr::Float(x) = self { *x } else { panic!("attribute {self:?} is not a float") }
    }
    /// As a bool.
    ///
    /// # Panics
    /// As [`Attr::int`].
    pub fn bool(&self) -> bool {
        if let Attr::Bool(b) = self { *b } else { panic!("attribute {self:?} is not a bool") }
    }
    /// As a list of integers.
    ///
    /// # Panics
    /// As [`Attr::int`].
    pub fn ints(&self) -> &[i64] {
        if let Attr::Ints(v) = self { v } else { panic!("attribute {self:?} is not a list of integers") }
    }
}
