//! Diagonals, strides and writes into a part: strided slices of the flattened tensor, and their transposes.
use crate::args::Args;
use crate::arrange::{flat, sizes};
use crate::movement::{python_slice, static_size};
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Shape};
use rtx_ir::{Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, ScatterOp, Stability, ValueId, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &DIAGONAL,
    &LINALG_DIAGONAL,
    &DIAG_EMBED,
    &DIAG,
    &DIAGFLAT,
    &TRACE,
    &DIAGONAL_SCATTER,
    &SELECT_SCATTER,
    &SLICE_SCATTER,
    &AS_STRIDED,
    &AS_STRIDED_SCATTER,
];

const STRIDED: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// A diagonal of the matrices in two dims.
struct Diagonal {
    /// The dims other than the two, in order, then the two.
    order: Vec<usize>,
    /// Sizes in that order.
    sizes: Vec<usize>,
    /// Position of the first element in a flattened matrix.
    start: usize,
    len: usize,
}

impl Diagonal {
    fn of(b: &Builder<'_>, def: &OpDef, x: ValueId, offset: i64, dims: (i64, i64)) -> Result<Diagonal> {
        let rank = b.rank(x);
        if rank < 2 {
            let what = format!("needs rank 2 or more, got {}", b.shape(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (i, j) = (rules::check_dim(def.name(), dims.0, rank)?, rules::check_dim(def.name(), dims.1, rank)?);
        if i == j {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("dim {i} is given twice")));
        }
        let order: Vec<usize> = (0..rank).filter(|d| *d != i && *d != j).chain([i, j]).collect();
        let all = sizes(b, def, x)?;
        let (rows, columns) = (all[i], all[j]);
        let (down, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
        let len = rows.saturating_sub(down).min(columns.saturating_sub(right));
        let start = if len == 0 { 0 } else { down * columns + right };
        Ok(Diagonal { sizes: order.iter().map(|&d| all[d]).collect(), order, start, len })
    }
    /// Sizes of the other dims.
    fn lead(&self) -> &[usize] {
        &self.sizes[..self.sizes.len() - 2]
    }
    fn step(&self) -> i64 {
        self.sizes[self.sizes.len() - 1] as i64 + 1
    }
    /// The matrices, each in one dim.
    fn flattened(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let x = b.permute(x, &self.order)?;
        let [rows, columns] = [self.sizes[self.sizes.len() - 2], self.sizes[self.sizes.len() - 1]];
        let shape: Shape = self.lead().iter().copied().chain([rows * columns]).map(dim).collect();
        b.reshape(x, &shape)
    }
    fn read(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let axis = self.lead().len();
        let x = self.flattened(b, x)?;
        let start = b.constant(DType::I64, self.start as i64)?;
        b.slice_at(x, axis, start, self.len, if self.len > 1 { self.step() } else { 1 })
    }
    fn write(&self, b: &mut Builder<'_>, x: ValueId, diagonal: ValueId) -> Result<ValueId> {
        if self.len == 0 {
            return Ok(x);
        }
        let axis = self.lead().len();
        let y = self.flattened(b, x)?;
        let start = b.constant(DType::I64, self.start as i64)?;
        let step = if self.len > 1 { self.step() } else { 1 };
        let y = b.prim(Prim::UpdateSlice { axis, step }, &[y, diagonal, start])?;
        let y = b.reshape(y, &self.sizes.iter().copied().map(dim).collect())?;
        b.permute(y, &inverse(&self.order))
    }
}

fn dim(n: usize) -> rtx_core::Dim {
    rtx_core::Dim::Const(n as u64)
}
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut out = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| out[from] = to);
    out
}

/// A diagonal.
pub static DIAGONAL: OpDef = OpDef {
    sig: "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    doc: "The diagonals of the matrices in two dims, as a last dim; a positive offset counts columns to the right, a \
          negative one rows down.",
    record: |b, def, args| record_diagonal(b, def, args, (0, 1)),
    samples: &[
        Sample::grad("f32[3,4] in -2..2", 0),
        Sample::grad("f32[3,4] in -2..2, -1", 0),
        Sample::grad("f32[2,3,3] in -2..2, 1, -1, 0", 0),
    ],
    refuses: &[Refusal::of("f32[3]", "diagonal: needs rank 2 or more, got [3]")],
    ..STRIDED
};
/// A diagonal of the last two dims.
pub static LINALG_DIAGONAL: OpDef = OpDef {
    sig: "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    doc: "As diagonal, of the last two dims.",
    record: |b, def, args| record_diagonal(b, def, args, (-2, -1)),
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 0)],
    ..STRIDED
};
fn record_diagonal(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, dims: (i64, i64)) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let dims = (args.int_or(2, dims.0)?, args.int_or(3, dims.1)?);
    let at = Diagonal::of(b, def, x, args.int_or(1, 0)?, dims)?;
    Ok(smallvec![at.read(b, x)?])
}
/// Matrices with given diagonals.
pub static DIAG_EMBED: OpDef = OpDef {
    sig: "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    doc: "Square matrices, zero but for one diagonal, which is the last dim of self.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (offset, dims) = (args.int_or(1, 0)?, (args.int_or(2, -2)?, args.int_or(3, -1)?));
        Ok(smallvec![embedded(b, def, x, offset, dims)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2", 0),
        Sample::grad("f32[3] in -2..2, -1", 0),
        Sample::grad("f32[2,3] in -2..2, 1, 0, 2", 0),
    ],
    ..STRIDED
};
fn embedded(b: &mut Builder<'_>, def: &OpDef, x: ValueId, offset: i64, dims: (i64, i64)) -> Result<ValueId> {
    let from = sizes(b, def, x)?;
    let Some((&n, lead)) = from.split_last() else {
        return Err(rules::refuse(def.name(), Kind::Shape, "a number has no diagonal"));
    };
    let side = n + offset.unsigned_abs() as usize;
    let rank = from.len() + 1;
    let (i, j) = (rules::check_dim(def.name(), dims.0, rank)?, rules::check_dim(def.name(), dims.1, rank)?);
    let mut rest = lead.iter();
    let to: Shape =
        (0..rank).map(|d| dim(if d == i || d == j { side } else { rest.next().copied().unwrap_or(1) })).collect();
    let zeros = b.full(b.dtype(x), &to, 0i64)?;
    Diagonal::of(b, def, zeros, offset, dims)?.write(b, zeros, x)
}
/// A vector's matrix or a matrix's diagonal.
pub static DIAG: OpDef = OpDef {
    sig: "diag(Tensor self, int diagonal=0) -> Tensor",
    doc: "The diagonal of a matrix; of a vector the matrix that has it as its diagonal.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, offset) = (args.tensor(0)?, args.int_or(1, 0)?);
        let y = match b.rank(x) {
            1 => embedded(b, def, x, offset, (0, 1))?,
            2 => Diagonal::of(b, def, x, offset, (0, 1))?.read(b, x)?,
            _ => {
                let what = format!("needs a vector or a matrix, got {}", b.shape(x));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
        };
        Ok(smallvec![y])
    },
    samples: &[Sample::grad("f32[3] in -2..2", 0), Sample::grad("f32[3,4] in -2..2, 1", 0)],
    refuses: &[Refusal::of("f32[2,2,2]", "diag: needs a vector or a matrix, got [2, 2, 2]")],
    ..STRIDED
};
/// The matrix of a flattened tensor.
pub static DIAGFLAT: OpDef = OpDef {
    sig: "diagflat(Tensor self, int offset=0) -> Tensor",
    doc: "The matrix that has all elements, row-major, as its diagonal.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let x = flat(b, def, x)?;
        Ok(smallvec![embedded(b, def, x, args.int_or(1, 0)?, (0, 1))?])
    },
    samples: &[Sample::grad("f32[2,2] in -2..2", 0), Sample::grad("f32[] in -2..2, 1", 0)],
    ..STRIDED
};
/// Sum of the diagonal.
pub static TRACE: OpDef = OpDef {
    sig: "trace(Tensor self) -> Tensor",
    doc: "Sum of the diagonal of a matrix; integers add up as i64.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        if b.rank(x) != 2 {
            return Err(rules::refuse(def.name(), Kind::Shape, format_args!("needs a matrix, got {}", b.shape(x))));
        }
        let y = Diagonal::of(b, def, x, 0, (0, 1))?.read(b, x)?;
        let dtype = b.dtype(y);
        let y = b.cast(y, if dtype.is_int() || dtype == DType::Bool { DType::I64 } else { dtype })?;
        Ok(smallvec![b.reduce(Fold::Sum, y, &[0])?])
    },
    samples: &[Sample::grad("f32[3,4] in -2..2", 16)],
    refuses: &[Refusal::of("f32[3]", "trace: needs a matrix, got [3]")],
    ..STRIDED
};

/// A diagonal replaced.
pub static DIAGONAL_SCATTER: OpDef = OpDef {
    sig: "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    doc: "self with the diagonals of the matrices in two dims replaced by src.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, src) = (args.tensor(0)?, args.tensor(1)?);
        let at = Diagonal::of(b, def, x, args.int_or(2, 0)?, (args.int_or(3, 0)?, args.int_or(4, 1)?))?;
        let want: Shape = at.lead().iter().copied().chain([at.len]).map(dim).collect();
        let src = fitting(b, def, x, src, &want)?;
        Ok(smallvec![at.write(b, x, src)?])
    },
    samples: &[
        Sample::grad("f32[3,4] in -2..2, f32[3] in -2..2", 0),
        Sample::grad("f32[2,3,3] in -2..2, f32[2,2] in -2..2, 1, 1, 2", 0),
    ],
    refuses: &[Refusal::of("f32[3,3], f32[2]", "diagonal_scatter: src is [2], the part is [3]")],
    ..STRIDED
};
/// What is written has the part's shape; it takes the dtype of the whole.
fn fitting(b: &mut Builder<'_>, def: &OpDef, x: ValueId, src: ValueId, want: &Shape) -> Result<ValueId> {
    if b.shape(src) != *want {
        let what = format!("src is {}, the part is {want}", b.shape(src));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    b.cast(src, b.dtype(x))
}
/// One slice replaced.
pub static SELECT_SCATTER: OpDef = OpDef {
    sig: "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    doc: "self with the slice at index along dim replaced by src.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, src) = (args.tensor(0)?, args.tensor(1)?);
        let axis = args.dim(2, b.rank(x))?;
        let (n, index) = (static_size(b, def, x, axis)? as i64, args.int(3)?);
        if !(-n..n).contains(&index) {
            let what = format!("index {index} is outside {}..{n} along dim {axis} of {}", -n, b.shape(x));
            return Err(rules::refuse(def.name(), Kind::Index, what));
        }
        let mut want = b.shape(x);
        want.remove(axis);
        let src = fitting(b, def, x, src, &want)?;
        want.insert(axis, 1);
        let src = b.reshape(src, &want)?;
        let start = b.constant(DType::I64, index.rem_euclid(n))?;
        Ok(smallvec![b.prim(Prim::UpdateSlice { axis, step: 1 }, &[x, src, start])?])
    },
    samples: &[
        Sample::grad("f32[3,2] in -2..2, f32[2] in -2..2, 0, -1", 0),
        Sample::grad("f32[3] in -2..2, f32[] in -2..2, 0, 1", 0),
    ],
    refuses: &[
        Refusal::of("f32[3,2], f32[3], 0, 1", "select_scatter: src is [3], the part is [2]"),
        Refusal::of("f32[3], f32[], 0, 3", "select_scatter: index 3 is outside -3..3 along dim 0 of [3]"),
    ],
    ..STRIDED
};
/// A Python slice replaced.
pub static SLICE_SCATTER: OpDef = OpDef {
    sig: "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    doc: "self with start:end:step along dim replaced by src.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, src) = (args.tensor(0)?, args.tensor(1)?);
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        let n = static_size(b, def, x, axis)? as i64;
        let (start, len, step) =
            python_slice(def, n, args.optional_int(3)?, args.optional_int(4)?, args.int_or(5, 1)?)?;
        let mut want = b.shape(x);
        want.set(axis, len);
        let src = fitting(b, def, x, src, &want)?;
        if len == 0 {
            return Ok(smallvec![x]);
        }
        let start = b.constant(DType::I64, start)?;
        Ok(smallvec![b.prim(Prim::UpdateSlice { axis, step }, &[x, src, start])?])
    },
    samples: &[
        Sample::grad("f32[5,2] in -2..2, f32[2,2] in -2..2, 0, 1, 5, 2", 0),
        Sample::grad("f32[4] in -2..2, f32[2] in -2..2, 0, 2", 0),
    ],
    refuses: &[Refusal::of("f32[4], f32[3], 0, 2", "slice_scatter: src is [3], the part is [2]")],
    ..STRIDED
};

/// A view by strides, of the elements in row-major order.
pub static AS_STRIDED: OpDef = OpDef {
    sig: "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
    doc: "out[i..] = self[storage_offset + Σ i · stride] of the flattened tensor. In PyTorch the positions count in the \
          storage behind it, which is the same for a tensor that is no view.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let places = strided_places(b, def, &args, x, 1)?;
        let x = flat(b, def, x)?;
        Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[x, places])?])
    },
    samples: &[
        Sample::grad("f32[3,3] in -2..2, [2,2], [1,2], 1", 0),
        Sample::grad("f32[4] in -2..2, [2,2,2], [1,1,1]", 0),
    ],
    refuses: &[
        Refusal::of("f32[3], [2,2], [1]", "as_strided: sizes [2, 2] do not pair with strides [1]"),
        Refusal::of("f32[3], [2], [3]", "as_strided: position 3 is outside the 3 elements"),
    ],
    ..STRIDED
};
/// What a view by strides shows, replaced.
pub static AS_STRIDED_SCATTER: OpDef = OpDef {
    sig: "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    doc: "self with what as_strided shows replaced by src; where positions meet the last one counts.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, src) = (args.tensor(0)?, args.tensor(1)?);
        let places = strided_places(b, def, &args, x, 2)?;
        let src = fitting(b, def, x, src, &b.shape(places))?;
        let shape = b.shape(x);
        let y = flat(b, def, x)?;
        let y = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Set }, &[y, places, src])?;
        Ok(smallvec![b.reshape(y, &shape)?])
    },
    samples: &[Sample::grad("f32[3,3] in -2..2, f32[2,2] in -2..2, [2,2], [1,3], 1", 0)],
    ..STRIDED
};
/// Positions in the flattened tensor; size, stride and offset are the arguments from `first` on.
fn strided_places(b: &mut Builder<'_>, def: &OpDef, args: &Args<'_>, x: ValueId, first: usize) -> Result<ValueId> {
    let (size, stride, offset) = (args.shape(first)?, args.ints(first + 1)?, args.int_or(first + 2, 0)?);
    if size.rank() != stride.len() || !size.is_static() {
        let what = format!("sizes {size} do not pair with strides {stride:?}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    let n: usize = sizes(b, def, x)?.iter().product();
    let reach: i64 = (0..stride.len()).map(|i| (size.dim(i).bound() as i64 - 1).max(0) * stride[i]).sum();
    if let Some(outside) = [offset, offset + reach].into_iter().find(|p| size.numel() > 0 && !(0..n as i64).contains(p))
    {
        let what = format!("position {outside} is outside the {n} elements");
        return Err(rules::refuse(def.name(), Kind::Index, what));
    }
    let mut places = b.full(DType::I64, &size, offset)?;
    for (axis, &s) in stride.iter().enumerate() {
        let along = b.prim(Prim::Iota { shape: size.clone(), axis }, &[])?;
        let along = b.mul(along, s as f64)?;
        places = b.add(places, along)?;
    }
    Ok(places)
}
