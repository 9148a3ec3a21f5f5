//! More ways to arrange elements: joining and cutting by NumPy's rules, repeating, turning, views under other names.
use crate::args::Args;
use crate::movement::{concat, flipped, promoted, python_slice, repeated, split, static_size};
use crate::spelling::SPELLING;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, prims, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &RAVEL,
    &VIEW_AS,
    &RESHAPE_AS,
    &EXPAND_AS,
    &BROADCAST_TO,
    &BROADCAST_TENSORS,
    &NUMPY_T,
    &M_T,
    &M_H,
    &ADJOINT,
    &MOVEDIM_INT,
    &TILE,
    &REPEAT_INTERLEAVE,
    &ROT90,
    &FLIPLR,
    &FLIPUD,
    &TENSOR_SPLIT,
    &TENSOR_SPLIT_INDICES,
    &SPLIT_WITH_SIZES,
    &HSPLIT,
    &HSPLIT_ARRAY,
    &VSPLIT,
    &VSPLIT_ARRAY,
    &DSPLIT,
    &DSPLIT_ARRAY,
    &ATLEAST_1D,
    &ATLEAST_1D_SEQUENCE,
    &ATLEAST_2D,
    &ATLEAST_2D_SEQUENCE,
    &ATLEAST_3D,
    &ATLEAST_3D_SEQUENCE,
    &HSTACK,
    &VSTACK,
    &DSTACK,
    &COLUMN_STACK,
    &BLOCK_DIAG,
    &MESHGRID,
    &MESHGRID_INDEXING,
    &CHUNK_CAT,
    &UNFOLD,
    &SUM_TO_SIZE,
];

const ARRANGEMENT: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// One dim.
pub static RAVEL: OpDef = OpDef {
    sig: "ravel(Tensor(a) self) -> Tensor(a)",
    doc: "All elements in one dim, row-major.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        Ok(smallvec![flat(b, def, x)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 0), Sample::grad("f32[] in -2..2", 0)],
    ..ARRANGEMENT
};
/// All elements in one dim.
pub(crate) fn flat(b: &mut Builder<'_>, def: &OpDef, x: ValueId) -> Result<ValueId> {
    let n: usize = sizes(b, def, x)?.iter().product();
    b.reshape(x, &[n].into())
}
/// Sizes that are numbers.
pub(crate) fn sizes(b: &Builder<'_>, def: &OpDef, x: ValueId) -> Result<Vec<usize>> {
    let known: Option<Vec<usize>> = b.shape(x).iter().map(|d| d.known()).collect();
    known.ok_or_else(|| rules::refuse(def.name(), Kind::Unsupported, "a symbolic size is not built yet"))
}

/// The shape of another tensor.
pub static VIEW_AS: OpDef = OpDef {
    sig: "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    doc: "In the shape of other, which has as many elements.",
    record: reshape_as,
    samples: &[Sample::grad("f32[2,6] in -2..2, f32[3,4]", 0)],
    ..ARRANGEMENT
};
/// The shape of another tensor.
pub static RESHAPE_AS: OpDef = OpDef {
    sig: "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    doc: "In the shape of other, which has as many elements.",
    record: reshape_as,
    samples: &[Sample::grad("f32[2,6] in -2..2, f32[3,4]", 0)],
    refuses: &[Refusal::of("f32[2], f32[3]", "reshape_as: 2 elements of [2] do not fit [3]")],
    ..ARRANGEMENT
};
fn reshape_as(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, other) = (args.tensor(0)?, args.tensor(1)?);
    let (from, to) = (b.shape(x), b.shape(other));
    if from.is_static() && to.is_static() && from.numel() != to.numel() {
        let what = format!("{} elements of {from} do not fit {to}", from.numel());
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    if from != to && !(from.is_static() && to.is_static()) {
        return Err(rules::refuse(def.name(), Kind::Unsupported, "a symbolic size is not built yet"));
    }
    Ok(smallvec![b.reshape(x, &to)?])
}

/// Broadcast to the shape of another tensor.
pub static EXPAND_AS: OpDef = OpDef {
    sig: "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    doc: "Broadcast to the shape of other.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, other) = (args.tensor(0)?, args.tensor(1)?);
        let (from, to) = (b.shape(x), b.shape(other));
        if rules::broadcast_for(def.name(), &[&from, &to])? != to {
            return Err(rules::refuse(def.name(), Kind::Shape, format_args!("{from} does not broadcast to {to}")));
        }
        Ok(smallvec![b.expand(x, &to)?])
    },
    samples: &[Sample::grad("f32[3,1] in -2..2, f32[2,3,4]", 0)],
    refuses: &[Refusal::of("f32[2,3], f32[3]", "expand_as: [2, 3] does not broadcast to [3]")],
    ..ARRANGEMENT
};
/// NumPy's name of expand.
pub static BROADCAST_TO: OpDef = OpDef {
    sig: "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    doc: "As expand.",
    record: |b, def, args| {
        let bound = Bound::from([args.get(0).clone(), args.get(1).clone(), Arg::Bool(false)]);
        (prims::def(&Prim::Expand(Shape::scalar())).record)(b, def, &bound)
    },
    samples: &[Sample::grad("f32[3,1] in -2..2, [2,3,4]", 0)],
    ..ARRANGEMENT
};
/// Tensors in the shape in which they meet.
pub static BROADCAST_TENSORS: OpDef = OpDef {
    sig: "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    doc: "Each tensor in the shape in which all of them meet.",
    record: |b, def, args| {
        let parts = Args::new(def, args).tensors(0)?;
        let shapes: Vec<Shape> = parts.iter().map(|&p| b.shape(p)).collect();
        let shape = rules::broadcast_for(def.name(), &shapes.iter().collect::<Vec<_>>())?;
        parts.iter().map(|&p| b.expand(p, &shape)).collect()
    },
    samples: &[Sample::grad("[f32[3,1] in -2..2, f32[2] in -2..2]", 0)],
    ..ARRANGEMENT
};

/// All dims reversed.
pub static NUMPY_T: OpDef = OpDef {
    sig: "numpy_T(Tensor(a) self) -> Tensor(a)",
    doc: "All dims in reverse order: Python's x.T.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        let order: Vec<usize> = (0..b.rank(x)).rev().collect();
        Ok(smallvec![b.permute(x, &order)?])
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 0)],
    ..ARRANGEMENT
};
/// Matrices transposed.
pub static M_T: OpDef = OpDef {
    sig: "mT(Tensor(a) self) -> Tensor(a)",
    doc: "The last two dims swapped: Python's x.mT.",
    record: transposed_matrix,
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 0)],
    refuses: &[Refusal::of("f32[3]", "mT: needs a matrix, got [3]")],
    ..ARRANGEMENT
};
/// Matrices transposed; for real numbers that is the adjoint.
pub static M_H: OpDef = OpDef {
    sig: "mH(Tensor(a) self) -> Tensor(a)",
    doc: "The last two dims swapped, complex numbers conjugated: Python's x.mH. Real numbers only.",
    record: transposed_matrix,
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 0)],
    ..ARRANGEMENT
};
/// Matrices transposed; for real numbers that is the adjoint.
pub static ADJOINT: OpDef = OpDef {
    sig: "adjoint(Tensor(a) self) -> Tensor(a)",
    doc: "The last two dims swapped, complex numbers conjugated: Python's x.H. Real numbers only.",
    record: transposed_matrix,
    samples: &[Sample::grad("f32[3,4] in -2..2", 0)],
    ..ARRANGEMENT
};
fn transposed_matrix(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let x = Args::new(def, args).tensor(0)?;
    if b.rank(x) < 2 {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("needs a matrix, got {}", b.shape(x))));
    }
    if b.dtype(x).class() == rtx_core::Class::Complex && def.name() != "mT" {
        return Err(rules::refuse(def.name(), Kind::Unsupported, "complex numbers are not built yet"));
    }
    Ok(smallvec![b.transpose_last(x)?])
}
/// One dim moved to another place.
pub static MOVEDIM_INT: OpDef = OpDef {
    sig: "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    doc: "Dim source at the place destination, the others in order.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (from, to) = (args.dim(1, b.rank(x))?, args.dim(2, b.rank(x))?);
        let mut order: Vec<usize> = (0..b.rank(x)).filter(|d| *d != from).collect();
        if b.rank(x) > 0 {
            order.insert(to, from);
        }
        Ok(smallvec![b.permute(x, &order)?])
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2, 0, -1", 0)],
    ..ARRANGEMENT
};

/// Copies one after the other.
pub static TILE: OpDef = OpDef {
    sig: "tile(Tensor self, SymInt[] dims) -> Tensor",
    doc: "As repeat, with ones for the dims that are not named.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, given) = (args.tensor(0)?, args.shape(1)?);
        let missing = b.rank(x).saturating_sub(given.rank());
        let repeats: Shape = (0..missing).map(|_| Dim::Const(1)).chain(given.iter()).collect();
        Ok(smallvec![repeated(b, def, x, &repeats)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, [2]", 0), Sample::grad("f32[3] in -2..2, [2,2]", 0)],
    ..ARRANGEMENT
};
/// Each slice so many times.
pub static REPEAT_INTERLEAVE: OpDef = OpDef {
    sig: "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    doc: "Each slice along dim repeats times, one after the other; without dim each element of the flattened tensor.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (mut x, repeats) = (args.tensor(0)?, args.int(1)?);
        let axis = match args.optional_int(2)? {
            Some(d) if b.rank(x) > 0 => rules::check_dim(def.name(), d, b.rank(x))?,
            _ => {
                x = flat(b, def, x)?;
                0
            }
        };
        let n = static_size(b, def, x, axis)?;
        if repeats < 0 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("repeats is not negative, got {repeats}"),
            ));
        }
        let mut shape = b.shape(x);
        shape.insert(axis + 1, 1);
        let each = b.reshape(x, &shape)?;
        shape.set(axis + 1, repeats as usize);
        let wide = b.expand(each, &shape)?;
        shape.remove(axis + 1);
        shape.set(axis, n * repeats as usize);
        Ok(smallvec![b.reshape(wide, &shape)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, 2", 0),
        Sample::grad("f32[2,3] in -2..2, 3, 1", 0),
        Sample::grad("f32[] in -2..2, 2", 0),
    ],
    refuses: &[Refusal::of("f32[2], -1", "repeat_interleave: repeats is not negative, got -1")],
    ..ARRANGEMENT
};

/// Quarter turns.
pub static ROT90: OpDef = OpDef {
    sig: "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
    doc: "Turned k quarters in the plane of two dims, from the first towards the second.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, k, dims) = (args.tensor(0)?, args.int_or(1, 1)?, args.optional_ints(2)?);
        let dims = dims.unwrap_or_else(|| smallvec![0, 1]);
        let rank = b.rank(x);
        let axes = dims.iter().map(|&d| rules::check_dim(def.name(), d, rank)).collect::<Result<Vec<_>>>()?;
        let &[first, second] = axes.as_slice() else {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("turns in two dims, got {dims:?}")));
        };
        if first == second || rank < 2 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("turns in two dims, got {dims:?}")));
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(first, second);
        let y = match k.rem_euclid(4) {
            0 => x,
            1 => {
                let y = flipped(b, def, x, second)?;
                b.permute(y, &order)?
            }
            2 => {
                let y = flipped(b, def, x, first)?;
                flipped(b, def, y, second)?
            }
            _ => {
                let y = flipped(b, def, x, first)?;
                b.permute(y, &order)?
            }
        };
        Ok(smallvec![y])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2", 0),
        Sample::grad("f32[2,3] in -2..2, -1", 0),
        Sample::grad("f32[2,3] in -2..2, 2, [1,0]", 0),
    ],
    refuses: &[Refusal::of("f32[2,3], 1, [0]", "rot90: turns in two dims, got [0]")],
    ..ARRANGEMENT
};
/// Left and right exchanged.
pub static FLIPLR: OpDef = OpDef {
    sig: "fliplr(Tensor self) -> Tensor",
    doc: "The order along dim 1 reversed.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        check_rank(b, def, x, 2)?;
        Ok(smallvec![flipped(b, def, x, 1)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 0)],
    refuses: &[Refusal::of("f32[2]", "fliplr: needs rank 2 or more, got [2]")],
    ..ARRANGEMENT
};
/// Up and down exchanged.
pub static FLIPUD: OpDef = OpDef {
    sig: "flipud(Tensor self) -> Tensor",
    doc: "The order along dim 0 reversed.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        check_rank(b, def, x, 1)?;
        Ok(smallvec![flipped(b, def, x, 0)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 0)],
    ..ARRANGEMENT
};
fn check_rank(b: &Builder<'_>, def: &OpDef, x: ValueId, least: usize) -> Result<()> {
    if b.rank(x) >= least {
        return Ok(());
    }
    let what = format!("needs rank {least} or more, got {}", b.shape(x));
    Err(rules::refuse(def.name(), Kind::Shape, what))
}

/// Parts of nearly one size.
pub static TENSOR_SPLIT: OpDef = OpDef {
    sig: "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
    doc: "So many neighbouring slices along dim; the first ones are larger by one where the size does not divide.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        in_sections(b, def, x, args.int(1)?, axis)
    },
    samples: &[Sample::grad("f32[7,2] in -2..2, 3", 0), Sample::grad("f32[2,2] in -2..2, 3, 1", 0)],
    refuses: &[Refusal::of("f32[2], 0", "tensor_split: a number of sections is positive, got 0")],
    ..ARRANGEMENT
};
/// Parts between given places.
pub static TENSOR_SPLIT_INDICES: OpDef = OpDef {
    sig: "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
    doc: "Slices along dim between the indices, by Python's rules of slices.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        at_indices(b, def, x, &args.ints(1)?, axis)
    },
    samples: &[Sample::grad("f32[7,2] in -2..2, [2,5]", 0), Sample::grad("f32[3] in -2..2, [2,1,-1,9]", 0)],
    ..ARRANGEMENT
};
fn in_sections(b: &mut Builder<'_>, def: &OpDef, x: ValueId, sections: i64, axis: usize) -> Result<Outs> {
    let n = static_size(b, def, x, axis)?;
    if sections < 1 {
        let what = format!("a number of sections is positive, got {sections}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    let k = sections as usize;
    let parts: Vec<usize> = (0..k).map(|i| n / k + usize::from(i < n % k)).collect();
    split(b, x, axis, &parts)
}
fn at_indices(b: &mut Builder<'_>, def: &OpDef, x: ValueId, indices: &[i64], axis: usize) -> Result<Outs> {
    let n = static_size(b, def, x, axis)? as i64;
    let mut outs = Outs::new();
    for i in 0..=indices.len() {
        let from = if i == 0 { None } else { Some(indices[i - 1]) };
        let (start, len, _) = python_slice(def, n, from, indices.get(i).copied(), 1)?;
        outs.push(b.slice(x, axis, start, len)?);
    }
    Ok(outs)
}
/// Slices of given sizes.
pub static SPLIT_WITH_SIZES: OpDef = OpDef {
    sig: "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    doc: "Neighbouring slices of these sizes along dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        let (n, given) = (static_size(b, def, x, axis)?, args.ints(1)?);
        if given.iter().any(|s| *s < 0) || given.iter().sum::<i64>() != n as i64 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("sizes {given:?} do not add up to {n}"),
            ));
        }
        let given: Vec<usize> = given.iter().map(|&s| s as usize).collect();
        split(b, x, axis, &given)
    },
    samples: &[Sample::grad("f32[5,2] in -2..2, [1,4]", 0)],
    refuses: &[Refusal::of("f32[5,2], [2,2]", "split_with_sizes: sizes [2, 2] do not add up to 5")],
    ..ARRANGEMENT
};

/// A split by direction.
macro_rules! direction { ($($SECTIONS:ident $INDICES:ident $name:literal $rank:literal $axis:expr, $doc:literal;)*) => { $(
    #[doc = concat!("Equal parts ", $doc, ".")]
    pub static $SECTIONS: OpDef = OpDef {
        sig: concat!($name, ".int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"),
        doc: concat!("So many slices of one size ", $doc, "."),
        record: |b, def, args| {
            let args = Args::new(def, args);
            let (x, k) = (args.tensor(0)?, args.int(1)?);
            check_rank(b, def, x, $rank)?;
            let axis = ($axis)(b.rank(x));
            let n = static_size(b, def, x, axis)?;
            if k < 1 || n % k as usize != 0 {
                let what = format!("{n} slices are not cut into {k} parts of one size");
                return Err(rules::refuse(def.name(), Kind::Argument, what));
            }
            in_sections(b, def, x, k, axis)
        },
        samples: &[Sample::grad("f32[2,2,4] in -2..2, 2", 0)],
        refuses: &[Refusal::of("f32[3,3,3], 2", concat!($name, ": 3 slices are not cut into 2 parts of one size"))],
        ..ARRANGEMENT
    };
    #[doc = concat!("Parts between given places ", $doc, ".")]
    pub static $INDICES: OpDef = OpDef {
        sig: concat!($name, ".array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]"),
        doc: concat!("Slices between the indices ", $doc, "."),
        record: |b, def, args| {
            let args = Args::new(def, args);
            let x = args.tensor(0)?;
            check_rank(b, def, x, $rank)?;
            let axis = ($axis)(b.rank(x));
            at_indices(b, def, x, &args.ints(1)?, axis)
        },
        samples: &[Sample::grad("f32[3,3,4] in -2..2, [1,2]", 0)],
        ..ARRANGEMENT
    };
)* } }
direction! {
    HSPLIT HSPLIT_ARRAY "hsplit" 1 |rank: usize| usize::from(rank > 1), "along dim 1, or the only one";
    VSPLIT VSPLIT_ARRAY "vsplit" 2 |_: usize| 0, "along dim 0";
    DSPLIT DSPLIT_ARRAY "dsplit" 3 |_: usize| 2, "along dim 2";
}

/// At least so many dims.
macro_rules! atleast { ($($ONE:ident $MANY:ident $name:literal $f:ident $n:literal;)*) => { $(
    #[doc = concat!("At least ", $n, " dims.")]
    pub static $ONE: OpDef = OpDef {
        sig: concat!($name, "(Tensor self) -> Tensor"),
        doc: concat!("With dims of size 1 added until there are ", $n, "."),
        record: |b, def, args| {
            let x = Args::new(def, args).tensor(0)?;
            Ok(smallvec![$f(b, x)?])
        },
        samples: &[Sample::grad("f32[] in -2..2", 0), Sample::grad("f32[3] in -2..2", 0), Sample::grad("f32[2,3] in -2..2", 0)],
        ..ARRANGEMENT
    };
    #[doc = concat!("At least ", $n, " dims, each tensor.")]
    pub static $MANY: OpDef = OpDef {
        sig: concat!($name, ".Sequence(Tensor[] tensors) -> Tensor[]"),
        doc: concat!("Each with dims of size 1 added until there are ", $n, "."),
        record: |b, def, args| Args::new(def, args).tensors(0)?.iter().map(|&x| $f(b, x)).collect(),
        samples: &[Sample::grad("[f32[] in -2..2, f32[3] in -2..2]", 0)],
        ..ARRANGEMENT
    };
)* } }
atleast! {
    ATLEAST_1D ATLEAST_1D_SEQUENCE "atleast_1d" atleast_1d "1";
    ATLEAST_2D ATLEAST_2D_SEQUENCE "atleast_2d" atleast_2d "2";
    ATLEAST_3D ATLEAST_3D_SEQUENCE "atleast_3d" atleast_3d "3";
}
pub(crate) fn atleast_1d(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    if b.rank(x) == 0 { b.reshape(x, &[1].into()) } else { Ok(x) }
}
/// `[n]` becomes `[1, n]`.
pub(crate) fn atleast_2d(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let mut shape = b.shape(x);
    while shape.rank() < 2 {
        shape.insert(0, 1);
    }
    b.reshape(x, &shape)
}
/// `[n]` becomes `[1, n, 1]`, `[m, n]` becomes `[m, n, 1]`.
fn atleast_3d(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let x = atleast_2d(b, x)?;
    let mut shape = b.shape(x);
    if shape.rank() < 3 {
        shape.push(1);
    }
    b.reshape(x, &shape)
}

/// Joining by direction.
macro_rules! stacks { ($($NAME:ident $name:literal $prepare:ident $axis:expr, $refused:literal, $doc:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: concat!($name, "(Tensor[] tensors) -> Tensor"),
        doc: $doc,
        record: |b, def, args| {
            let parts = promoted(b, def, Args::new(def, args).tensors(0)?)?;
            let parts = parts.iter().map(|&p| $prepare(b, p)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
            let axis = ($axis)(b.rank(parts[0]));
            Ok(smallvec![joined(b, def, axis, &parts)?])
        },
        samples: &[Sample::grad("[f32[2] in -2..2, f32[2] in -2..2]", 0), Sample::grad("[f32[2,3] in -2..2, f32[2,3] in -2..2]", 0)],
        refuses: &[Refusal::of("[f32[2,3], f32[4,5]]", concat!($name, ": shapes do not join: ", $refused))],
        ..ARRANGEMENT
    };
)* } }
stacks! {
    HSTACK "hstack" atleast_1d |rank: usize| usize::from(rank > 1), "[2, 3] and [4, 5]", "Joined along dim 1, vectors along their only dim.";
    VSTACK "vstack" atleast_2d |_: usize| 0, "[2, 3] and [4, 5]", "Joined along dim 0, vectors as rows.";
    DSTACK "dstack" atleast_3d |_: usize| 2, "[2, 3, 1] and [4, 5, 1]", "Joined along dim 2, vectors as [1, n, 1].";
    COLUMN_STACK "column_stack" as_column |_: usize| 1, "[2, 3] and [4, 5]", "Joined along dim 1, vectors as columns.";
}
fn as_column(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let mut shape = b.shape(x);
    while shape.rank() < 2 {
        shape.push(1);
    }
    b.reshape(x, &shape)
}
/// Joined, once the shapes agree outside the axis.
fn joined(b: &mut Builder<'_>, def: &OpDef, axis: usize, parts: &[ValueId]) -> Result<ValueId> {
    let shapes: Vec<Shape> = parts.iter().map(|&p| b.shape(p)).collect();
    let first = &shapes[0];
    let fits = |s: &Shape| s.rank() == first.rank() && (0..s.rank()).all(|i| i == axis || s.dim(i) == first.dim(i));
    if !shapes.iter().all(fits) {
        let shown = shapes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("shapes do not join: {shown}")));
    }
    concat(b, axis, parts)
}
/// Blocks on a diagonal.
pub static BLOCK_DIAG: OpDef = OpDef {
    sig: "block_diag(Tensor[] tensors) -> Tensor",
    doc: "Matrices as blocks on the diagonal of one, zeros elsewhere; vectors are rows.",
    record: |b, def, args| {
        let parts = promoted(b, def, Args::new(def, args).tensors(0)?)?;
        let mut blocks = Vec::new();
        for &p in &parts {
            if b.rank(p) > 2 {
                let what = format!("needs rank 2 or less, got {}", b.shape(p));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            let block = atleast_2d(b, p)?;
            blocks.push((block, sizes(b, def, block)?[1] as u64));
        }
        let width: u64 = blocks.iter().map(|(_, n)| n).sum();
        let zero = b.constant(b.dtype(parts[0]), 0i64)?;
        let mut before = 0;
        let mut rows = Vec::new();
        for (block, n) in blocks {
            let after = width - before - n;
            rows.push(b.prim(Prim::Pad { axis: 1, before, after }, &[block, zero])?);
            before += n;
        }
        Ok(smallvec![concat(b, 0, &rows)?])
    },
    samples: &[Sample::grad("[f32[2,3] in -2..2, f32[1,2] in -2..2, f32[2] in -2..2]", 0)],
    refuses: &[Refusal::of("[f32[1,2,3]]", "block_diag: needs rank 2 or less, got [1, 2, 3]")],
    ..ARRANGEMENT
};

/// Coordinates of a grid.
pub static MESHGRID: OpDef = OpDef {
    sig: "meshgrid(Tensor[] tensors) -> Tensor[]",
    doc: "Vectors as coordinates of a grid: the i-th result varies along dim i.",
    record: |b, def, args| grid(b, def, Args::new(def, args).tensors(0)?, false),
    samples: &[Sample::grad("[f32[2] in -2..2, f32[3] in -2..2]", 0)],
    refuses: &[Refusal::of("[f32[2,2]]", "meshgrid: needs vectors, got [2, 2]")],
    ..ARRANGEMENT
};
/// Coordinates of a grid, in either order.
pub static MESHGRID_INDEXING: OpDef = OpDef {
    sig: "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
    doc: "Vectors as coordinates of a grid: the i-th result varies along dim i for \"ij\"; \"xy\" swaps the first two dims.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let swapped = args.choice(1, &["ij", "xy"])? == "xy";
        grid(b, def, args.tensors(0)?, swapped)
    },
    samples: &[Sample::grad("[f32[2] in -2..2, f32[3] in -2..2], \"xy\"", 0)],
    ..ARRANGEMENT
};
fn grid(b: &mut Builder<'_>, def: &OpDef, parts: &[ValueId], swapped: bool) -> Result<Outs> {
    let mut vectors = Vec::new();
    for &p in parts {
        if b.rank(p) > 1 {
            return Err(rules::refuse(def.name(), Kind::Shape, format_args!("needs vectors, got {}", b.shape(p))));
        }
        vectors.push(atleast_1d(b, p)?);
    }
    let place = |i: usize| if swapped && vectors.len() > 1 && i < 2 { 1 - i } else { i };
    let full: Shape = (0..vectors.len()).map(|i| b.shape(vectors[place(i)]).dim(0)).collect();
    let mut outs = Outs::new();
    for (i, &v) in vectors.iter().enumerate() {
        let along: Shape =
            (0..vectors.len()).map(|j| if j == place(i) { b.shape(v).dim(0) } else { Dim::Const(1) }).collect();
        let v = b.reshape(v, &along)?;
        outs.push(b.expand(v, &full)?);
    }
    Ok(outs)
}
/// Chunks of several tensors, padded and joined.
pub static CHUNK_CAT: OpDef = OpDef {
    sig: "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
    doc: "Each tensor cut into chunks along dim, padded with zeros to whole chunks, flattened behind dim and joined: \
          [chunks, …].",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let parts = promoted(b, def, args.tensors(0)?)?;
        let chunks = args.int(2)?;
        if chunks < 1 {
            let what = format!("a number of chunks is positive, got {chunks}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let axis = args.dim(1, b.rank(parts[0]))?;
        let mut rows = Vec::new();
        for &p in &parts {
            let from = sizes(b, def, p)?;
            let Some(&n) = from.get(axis) else {
                return Err(rules::refuse(def.name(), Kind::Shape, "a tensor of rank 0 has no dim to cut"));
            };
            let chunks = chunks as usize;
            let each = n.div_ceil(chunks);
            let zero = b.constant(b.dtype(p), 0i64)?;
            let pad = (each * chunks - n) as u64;
            let whole = b.prim(Prim::Pad { axis, before: 0, after: pad }, &[p, zero])?;
            let behind: usize = each * from[axis + 1..].iter().product::<usize>();
            let to: Shape =
                from[..axis].iter().copied().chain([chunks, behind]).map(|n| Dim::Const(n as u64)).collect();
            rows.push(b.reshape(whole, &to)?);
        }
        Ok(smallvec![joined(b, def, axis + 1, &rows)?])
    },
    samples: &[Sample::grad("[f32[3,2] in -2..2, f32[2,2] in -2..2], 0, 2", 0)],
    ..ARRANGEMENT
};

/// Windows along a dim.
pub static UNFOLD: OpDef = OpDef {
    sig: "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    doc: "Windows of size slices, step apart, along a dim; the window is a new last dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = atleast_1d(b, args.tensor(0)?)?;
        let scalar = b.rank(args.tensor(0)?) == 0;
        let axis = args.dim(1, b.rank(x))?;
        let (n, size, step) = (static_size(b, def, x, axis)? as i64, args.int(2)?, args.int(3)?);
        if size < 0 || step < 1 || size > n {
            let what = format!("windows of {size} slices {step} apart do not fit a size of {n}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let count = ((n - size) / step + 1) as usize;
        let shape = Shape::from([count, size as usize]);
        let start = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
        let start = b.mul(start, step as f64)?;
        let within = b.prim(Prim::Iota { shape, axis: 1 }, &[])?;
        let index = b.add(start, within)?;
        let y = b.prim(Prim::Gather { axis }, &[x, index])?;
        let rank = b.rank(y);
        let order: Vec<usize> = (0..rank).filter(|d| *d != axis + 1).chain([axis + 1]).collect();
        let y = b.permute(y, &order)?;
        Ok(smallvec![if scalar { b.reshape(y, &[size as usize].into())? } else { y }])
    },
    samples: &[Sample::grad("f32[7,2] in -2..2, 0, 3, 2", 0), Sample::grad("f32[2,4] in -2..2, 1, 2, 1", 0)],
    refuses: &[Refusal::of("f32[3], 0, 4, 1", "unfold: windows of 4 slices 1 apart do not fit a size of 3")],
    ..ARRANGEMENT
};
/// Sums over what broadcasting would have repeated.
pub static SUM_TO_SIZE: OpDef = OpDef {
    sig: "sum_to_size(Tensor self, SymInt[] size) -> Tensor",
    doc: "Sums over the dims that broadcasting from size would have repeated: the transpose of expand.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, to) = (args.tensor(0)?, args.shape(1)?);
        let from = b.shape(x);
        if rules::broadcast_for(def.name(), &[&from, &to])? != from {
            return Err(rules::refuse(def.name(), Kind::Shape, format_args!("{to} does not broadcast to {from}")));
        }
        Ok(smallvec![b.sum_to(x, &to)?])
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2, [3,1]", 16)],
    refuses: &[Refusal::of("f32[3], [2,3]", "sum_to_size: [2, 3] does not broadcast to [3]")],
    ..ARRANGEMENT
};
