//! The first form of a kernel: scalar SSA over an index space.
//!
//! A nest has parallel axes, outermost first, then at most one *walk* axis, along which reductions run. Every
//! instruction yields one number at each point of the axes it varies over: a load varies over the axes its view
//! names, a reduction over its operand's axes less the walk, anything else over the union of its operands' axes.
//! There are no movement ops: broadcasting is a missing axis, a permuted or sliced operand is a view with other
//! strides. Rounding is explicit: every instruction rounds once to its own dtype (contracts N1, N2).
use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function};

rtx_core::id! {
    /// An instruction, by its position.
    Id
}
rtx_core::id! {
    /// An axis, by its position.
    AxisId
}
rtx_core::id! {
    /// A kernel argument, by its position.
    BufferId
}

/// An integer of a kernel: written into its text, or read from the sizes of each launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// Part of the kernel.
    Const(i64),
    /// The launch's `sizes[i]`: one kernel serves every value (contract S0).
    Arg(u32),
}

/// One axis of the index space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// How many points it has; may be 0.
    pub extent: Size,
    /// Is it the walk axis? Only the last one may be.
    pub walk: bool,
}

/// One kernel argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDecl {
    /// Its element type.
    pub dtype: DType,
    /// Does the kernel store to it? A buffer is either stored to or loaded from, except that a nest may load an
    /// element and store the same element of the same buffer (an update in place: equal views).
    pub written: bool,
}

/// Which element of a buffer a load or store touches:
/// `offset + Σ stride · axis + Σ stride · clamp(index, 0, bound - 1)`, in elements from the argument's start.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// The stride of each axis that the view varies over, in ascending order of axis; never `Const(0)`.
    pub strides: Vec<(AxisId, Size)>,
    /// Elements before the first one.
    pub offset: Size,
    /// Parts of the address that are computed.
    pub indexed: Vec<Indexed>,
}

/// A computed part of an address: gathers, and slices whose start is known only when the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// An `i64` instruction.
    pub index: Id,
    /// Elements per step.
    pub stride: Size,
    /// The index is clamped into `0..bound`. With `bound <= 0` the load yields zero.
    pub bound: Size,
    /// Is an index outside reported to the error slot (gather), or only clamped (slice starts)?
    pub checked: bool,
}

/// One number at each point.
#[derive(Clone, Debug, PartialEq)]
pub enum Instr {
    /// A number of `dtype`, as its bits in the low end of a word.
    Const {
        /// Type.
        dtype: DType,
        /// Bits, zero-extended.
        bits: u64,
    },
    /// The element that a view names.
    Load(View),
    /// The position along an axis, `i64`.
    Iota(AxisId),
    /// An integer of the launch, `i64`.
    Sized(Size),
    /// A function of one number.
    Unary(Function, Id),
    /// A function of two numbers of one dtype.
    Binary(Arith, Id, Id),
    /// A comparison of two numbers of one dtype.
    Compare(Comparison, Id, Id),
    /// `a * b + c`, rounded once. Floats.
    Fma(Id, Id, Id),
    /// `if c { a } else { b }`.
    Select(Id, Id, Id),
    /// Conversion. Float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is `!= 0`.
    Cast(DType, Id),
    /// The same bits as another type of the same size.
    Bitcast(DType, Id),
    /// All points of the walk axis folded, by the tree of contract N3: element i goes to lane i mod 16, in order
    /// within a block of 4096; at a block's end the lanes fold by halves (8, 4, 2, 1); block results fold pairwise
    /// (neighbours, repeatedly; an odd last one is carried). Lanes start from the fold's identity. The result has
    /// the operand's dtype.
    Reduce(Fold, Id),
    /// Position along the walk axis of an extremum, `i64`.
    ArgReduce(Extremum, Id),
    /// Word 0 of Philox4x32-10 with `key` (`i64`, low word first) at the counter (`index`, `ordinal`), both `i64`,
    /// low word first; `u32` (contract M7).
    Random {
        /// Seed.
        key: Id,
        /// Which random op.
        ordinal: Id,
        /// Which element.
        index: Id,
    },
}

/// A result: the element that a view names becomes the value. The view must vary over every axis the value varies
/// over; a value that does not vary over the walk axis is stored once a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Where; not `indexed` except by unchecked starts (an update of a slice at a run-time position).
    pub view: View,
    /// What.
    pub value: Id,
}

/// One kernel's mathematics.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Nest {
    /// Index space, outermost first; only the last may be a walk axis.
    pub axes: Vec<Axis>,
    /// Kernel arguments.
    pub buffers: Vec<BufferDecl>,
    /// How many integers each launch brings.
    pub sizes: u32,
    /// SSA, operands before users.
    pub instrs: Vec<Instr>,
    /// Results.
    pub stores: Vec<Store>,
}

impl Nest {
    /// Appends an instruction.
    pub fn push(&mut self, instr: Instr) -> Id {
        self.instrs.push(instr);
        Id(self.instrs.len() as u32 - 1)
    }
    /// A fresh launch integer.
    pub fn size_arg(&mut self) -> Size {
        self.sizes += 1;
        Size::Arg(self.sizes - 1)
    }
    /// The walk axis, if there is one.
    pub fn walk(&self) -> Option<AxisId> {
        self.axes.last().filter(|a| a.walk).map(|_| AxisId(self.axes.len() as u32 - 1))
    }
}
