//! Views and joins: the same elements under another shape, order or name, by Python's rules.
use crate::args::{Args, Ints};
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Error, Kind, Result, Shape};
use rtx_ir::{Arg, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, prims, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &VIEW, &FLATTEN, &UNFLATTEN, &SQUEEZE, &UNSQUEEZE, &TRANSPOSE, &T, &MOVEDIM, &REPEAT, &STACK, &SPLIT, &CHUNK,
    &UNBIND, &SELECT, &NARROW, &SLICE, &FLIP, &ROLL,
];

const MOVEMENT: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Another shape, PyTorch's other word for it: whether memory is shared is decided by the plan.
pub static VIEW: OpDef = OpDef {
    sig: "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    doc: "As reshape; whether memory is shared is the plan's affair.",
    record: |b, def, args| (prims::def(&Prim::Reshape(Shape::scalar())).record)(b, def, args),
    samples: &[Sample::grad("f32[2,6] in -2..2, [3,-1]", 0)],
    ..MOVEMENT
};

/// Sizes with at most one -1, which takes what the others leave.
pub(crate) fn resolve_shape(op: &str, from: &Shape, sizes: &[i64]) -> Result<Shape> {
    if sizes.iter().filter(|n| **n == -1).count() > 1 {
        return Err(rules::refuse(op, Kind::Argument, format_args!("only one size is -1, got {sizes:?}")));
    }
    if let Some(n) = sizes.iter().find(|n| **n < -1) {
        return Err(rules::refuse(op, Kind::Argument, format_args!("a size is not negative, got {n}")));
    }
    let known: usize = sizes.iter().filter(|n| **n >= 0).map(|&n| n as usize).product();
    let hole = sizes.iter().position(|n| *n == -1);
    if hole.is_some()
        && let Some(shape) = symbolic_rest(from, sizes)
    {
        return Ok(shape);
    }
    let total = from.numel();
    let rest = match hole {
        Some(_) if known > 0 && total.is_multiple_of(known) => total / known,
        None if known == total || !from.is_static() => 1,
        _ => return Err(misfit(op, from, sizes)),
    };
    Ok(sizes.iter().map(|&n| if n == -1 { rest } else { n as usize }).collect())
}

/// Where the one symbol of `from` must be what -1 stands for: the other sizes have the same product.
fn symbolic_rest(from: &Shape, sizes: &[i64]) -> Option<Shape> {
    let mut symbols = from.iter().filter(|d| d.known().is_none());
    let symbol = symbols.next()?;
    if symbols.next().is_some() {
        return None;
    }
    let others: usize = from.iter().filter_map(Dim::known).product();
    let given: usize = sizes.iter().filter(|n| **n >= 0).map(|&n| n as usize).product();
    (others == given).then(|| sizes.iter().map(|&n| if n == -1 { symbol } else { Dim::Const(n as u64) }).collect())
}

fn misfit(op: &str, from: &Shape, sizes: &[i64]) -> Error {
    rules::refuse(op, Kind::Shape, format_args!("{} elements of {from} do not fit {sizes:?}", from.numel()))
}

/// The product of dims, of which at most one is a symbol beside ones.
fn merged(op: &str, dims: &[Dim]) -> Result<Dim> {
    let rest: Option<usize> = dims.iter().map(|d| d.known()).product();
    if let Some(n) = rest {
        return Ok(n.into());
    }
    let mut others = dims.iter().copied().filter(|d| !d.is_one());
    match (others.next(), others.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(rules::refuse(op, Kind::Unsupported, "a symbolic size is not merged with another")),
    }
}

/// Several dims as one.
pub static FLATTEN: OpDef = OpDef {
    sig: "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
    doc: "Dims from start_dim to end_dim, both included, as one.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (shape, rank) = (b.shape(x), b.rank(x));
        let first = rules::check_dim(def.name(), args.int_or(1, 0)?, rank)?;
        let last = rules::check_dim(def.name(), args.int_or(2, -1)?, rank)?;
        if rank == 0 {
            return Ok(smallvec![b.reshape(x, &[1].into())?]);
        }
        if first > last {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("start_dim {first} comes after end_dim {last}"),
            ));
        }
        let one = merged(def.name(), &shape.dims()[first..=last])?;
        let to = shape.iter().take(first).chain([one]).chain(shape.iter().skip(last + 1)).collect();
        Ok(smallvec![b.reshape(x, &to)?])
    },
    samples: &[
        Sample::grad("f32[2,3,4] in -2..2", 0),
        Sample::grad("f32[2,3,4] in -2..2, 1", 0),
        Sample::grad("f32[] in -2..2", 0),
    ],
    refuses: &[Refusal { args: "f32[2,3], 1, 0", message: "flatten: start_dim 1 comes after end_dim 0" }],
    ..MOVEMENT
};

/// One dim as several.
pub static UNFLATTEN: OpDef = OpDef {
    sig: "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
    doc: "One dim as several; one size may be -1.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (shape, at) = (b.shape(x), args.dim(1, b.rank(x))?);
        let parts = resolve_shape(def.name(), &std::iter::once(shape.dim(at)).collect(), &args.ints(2)?)?;
        let to = shape.iter().take(at).chain(parts.iter()).chain(shape.iter().skip(at + 1)).collect();
        Ok(smallvec![b.reshape(x, &to)?])
    },
    samples: &[Sample::grad("f32[2,6] in -2..2, 1, [3,-1]", 0)],
    ..MOVEMENT
};

/// Dims of size 1 dropped.
pub static SQUEEZE: OpDef = OpDef {
    sig: "squeeze.dims(Tensor(a) self, int[]? dim=None) -> Tensor(a)",
    doc: "Without dims of size 1: those given, or all. A given dim of another size stays.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let shape = b.shape(x);
        // A list without dims names none.
        let none = matches!(args.get(1), Arg::Ints(v) if v.is_empty());
        let axes = if none { SmallVec::new() } else { args.dims_or_all(1, shape.rank())? };
        let to =
            (0..shape.rank()).filter(|i| !(axes.contains(i) && shape.dim(*i).is_one())).map(|i| shape.dim(i)).collect();
        Ok(smallvec![b.reshape(x, &to)?])
    },
    samples: &[
        Sample::grad("f32[1,3,1] in -2..2", 0),
        Sample::grad("f32[1,3,1] in -2..2, [0]", 0),
        Sample::grad("f32[1,3,1] in -2..2, [1]", 0),
        Sample::exact("f32[1,1], []"),
    ],
    ..MOVEMENT
};
/// A dim of size 1 added.
pub static UNSQUEEZE: OpDef = OpDef {
    sig: "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
    doc: "With a dim of size 1 before position dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let mut shape = b.shape(x);
        let at = rules::check_dim(def.name(), args.int(1)?, shape.rank() + 1)?;
        shape.insert(at, 1);
        Ok(smallvec![b.reshape(x, &shape)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, 0", 0), Sample::grad("f32[2,3] in -2..2, -1", 0)],
    refuses: &[Refusal { args: "f32[2], 3", message: "unsqueeze: dim 3 is outside -2..2 for a tensor of rank 2" }],
    ..MOVEMENT
};

/// Two dims swapped.
pub static TRANSPOSE: OpDef = OpDef {
    sig: "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    doc: "Two dims swapped.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (i, j) = (args.dim(1, b.rank(x))?, args.dim(2, b.rank(x))?);
        let mut order: SmallVec<[usize; 4]> = (0..b.rank(x)).collect();
        if i != j {
            order.swap(i, j);
        }
        Ok(smallvec![b.permute(x, &order)?])
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2, 0, -1", 0)],
    refuses: &[Refusal { args: "f32[2,3], 0, 2", message: "transpose: dim 2 is outside -2..2 for a tensor of rank 2" }],
    ..MOVEMENT
};
/// A matrix transposed.
pub static T: OpDef = OpDef {
    sig: "t(Tensor(a) self) -> Tensor(a)",
    doc: "A matrix transposed; a vector or a number as it is.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        match b.rank(x) {
            0 | 1 => Ok(smallvec![x]),
            2 => Ok(smallvec![b.transpose_last(x)?]),
            _ => Err(rules::refuse(def.name(), Kind::Shape, format_args!("needs rank 2 or less, got {}", b.shape(x)))),
        }
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 0)],
    refuses: &[Refusal { args: "f32[2,3,4]", message: "t: needs rank 2 or less, got [2, 3, 4]" }],
    ..MOVEMENT
};
/// Dims moved to other places.
pub static MOVEDIM: OpDef = OpDef {
    sig: "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
    doc: "Dims source at the places destination, the others in order.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let rank = b.rank(x);
        let axes = |list: Ints| {
            list.iter().map(|&d| rules::check_dim(def.name(), d, rank)).collect::<Result<SmallVec<[usize; 4]>>>()
        };
        let (from, to) = (axes(args.ints(1)?)?, axes(args.ints(2)?)?);
        let distinct = |v: &[usize]| (1..v.len()).all(|i| !v[..i].contains(&v[i]));
        if from.len() != to.len() || !distinct(&from) || !distinct(&to) {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("dims {from:?} do not pair with places {to:?}"),
            ));
        }
        let mut others = (0..rank).filter(|d| !from.contains(d));
        let order: SmallVec<[usize; 4]> = (0..rank)
            .filter_map(|place| to.iter().position(|t| *t == place).map(|i| from[i]).or_else(|| others.next()))
            .collect();
        Ok(smallvec![b.permute(x, &order)?])
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2, [0], [-1]", 0)],
    ..MOVEMENT
};

/// Copies one after the other.
pub static REPEAT: OpDef = OpDef {
    sig: "repeat(Tensor self, SymInt[] repeats) -> Tensor",
    doc: "The tensor so many times along each dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, repeats) = (args.tensor(0)?, args.shape(1)?);
        Ok(smallvec![repeated(b, def, x, &repeats)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, [2,1,2]", 0)],
    ..MOVEMENT
};

/// The tensor so many times along each dim.
pub(crate) fn repeated(b: &mut Builder<'_>, def: &OpDef, x: ValueId, repeats: &Shape) -> Result<ValueId> {
    let from = b.shape(x);
    let Some(lead) = repeats.rank().checked_sub(from.rank()) else {
        return Err(rules::refuse(def.name(), Kind::Argument, format_args!("{repeats} has fewer dims than {from}")));
    };
    // [n] → [1, n] → [r, n] → [r n]
    let size = |i: usize| if i < lead { Dim::Const(1) } else { from.dim(i - lead) };
    let apart: Shape = (0..repeats.rank()).flat_map(|i| [Dim::Const(1), size(i)]).collect();
    let wide: Shape = (0..repeats.rank()).flat_map(|i| [repeats.dim(i), size(i)]).collect();
    let to =
        (0..repeats.rank()).map(|i| merged(def.name(), &[repeats.dim(i), size(i)])).collect::<Result<Vec<Dim>>>()?;
    let x = b.reshape(x, &apart)?;
    let x = b.expand(x, &wide)?;
    b.reshape(x, &to.into_iter().collect())
}

/// Joining along a new dim.
pub static STACK: OpDef = OpDef {
    sig: "stack(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Tensors of one shape side by side along a new dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let parts = promoted(b, def, args.tensors(0)?)?;
        let axis = rules::check_dim(def.name(), args.int_or(1, 0)?, b.rank(parts[0]) + 1)?;
        check_shapes(b, def, &parts)?;
        let mut shape = b.shape(parts[0]);
        shape.insert(axis, 1);
        let parts = parts.iter().map(|&p| b.reshape(p, &shape)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
        Ok(smallvec![concat(b, axis, &parts)?])
    },
    samples: &[Sample::grad("[f32[2,3], f32[2,3]], 1", 0), Sample::grad("[f32[], f32[], f32[]]", 0)],
    refuses: &[Refusal { args: "[f32[2], f32[3]]", message: "stack: shapes differ: [2] against [3]" }],
    ..MOVEMENT
};

pub(crate) fn concat(b: &mut Builder<'_>, axis: usize, parts: &[ValueId]) -> Result<ValueId> {
    if let [only] = parts { Ok(*only) } else { b.prim(Prim::Concat { axis }, parts) }
}

/// At least one tensor; all in the dtype they meet in.
pub(crate) fn promoted(b: &mut Builder<'_>, def: &OpDef, parts: &[ValueId]) -> Result<SmallVec<[ValueId; 4]>> {
    let args: Vec<Arg> = parts.iter().map(|&p| Arg::Value(p)).collect();
    let Some(dtype) = rules::promote(b, &args) else {
        return Err(rules::refuse(def.name(), Kind::Argument, "needs at least one tensor"));
    };
    parts.iter().map(|&p| b.cast(p, dtype)).collect()
}

/// All shapes are equal.
fn check_shapes(b: &Builder<'_>, def: &OpDef, parts: &[ValueId]) -> Result<()> {
    let first = b.shape(parts[0]);
    match parts.iter().map(|&p| b.shape(p)).find(|s| *s != first) {
        None => Ok(()),
        Some(other) => {
            Err(rules::refuse(def.name(), Kind::Shape, format_args!("shapes differ: {first} against {other}")))
        }
    }
}

/// Slices of given sizes.
pub static SPLIT: OpDef = OpDef {
    sig: "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
    doc: "Neighbouring slices along dim: of the sizes given, or all of one size but the last.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        let n = static_size(b, def, x, axis)?;
        let given = args.ints(1)?;
        let sizes: Vec<usize> = match (args.get(1), given.as_slice()) {
            (Arg::Scalar(_), [each]) if *each > 0 => even_sizes(n, *each as usize),
            (Arg::Scalar(_), _) => {
                return Err(rules::refuse(
                    def.name(),
                    Kind::Argument,
                    format_args!("a size is positive, got {}", given[0]),
                ));
            }
            _ if given.iter().all(|s| *s >= 0) && given.iter().sum::<i64>() == n as i64 => {
                given.iter().map(|&s| s as usize).collect()
            }
            _ => {
                return Err(rules::refuse(
                    def.name(),
                    Kind::Argument,
                    format_args!("sizes {given:?} do not add up to {n}"),
                ));
            }
        };
        split(b, x, axis, &sizes)
    },
    samples: &[Sample::grad("f32[5,2] in -2..2, 2", 0), Sample::grad("f32[2,5] in -2..2, [1,4], 1", 0)],
    refuses: &[Refusal { args: "f32[5,2], [2,2]", message: "split: sizes [2, 2] do not add up to 5" }],
    ..MOVEMENT
};
/// A number of slices.
pub static CHUNK: OpDef = OpDef {
    sig: "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
    doc: "At most so many neighbouring slices of one size along dim; the last may be smaller.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(2, 0)?, b.rank(x))?;
        let (n, chunks) = (static_size(b, def, x, axis)?, args.int(1)?);
        if chunks < 1 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("a number of chunks is positive, got {chunks}"),
            ));
        }
        split(b, x, axis, &even_sizes(n, n.div_ceil(chunks as usize).max(1)))
    },
    samples: &[Sample::grad("f32[5,2] in -2..2, 3", 0), Sample::grad("f32[2,6] in -2..2, 3, -1", 0)],
    refuses: &[Refusal { args: "f32[5], 0", message: "chunk: a number of chunks is positive, got 0" }],
    ..MOVEMENT
};
/// Slices without their dim.
pub static UNBIND: OpDef = OpDef {
    sig: "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    doc: "All slices along dim, without it.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(1, 0)?, b.rank(x))?;
        let n = static_size(b, def, x, axis)?;
        (0..n).map(|i| select_at(b, x, axis, i as i64)).collect()
    },
    samples: &[Sample::grad("f32[3,2] in -2..2", 0), Sample::grad("f32[3,2] in -2..2, 1", 0)],
    ..MOVEMENT
};

/// `n` in parts of `each`; one empty part of nothing.
pub(crate) fn even_sizes(n: usize, each: usize) -> Vec<usize> {
    if n == 0 { vec![0] } else { (0..n.div_ceil(each)).map(|i| each.min(n - i * each)).collect() }
}
pub(crate) fn split(b: &mut Builder<'_>, x: ValueId, axis: usize, sizes: &[usize]) -> Result<Outs> {
    let mut start = 0;
    let mut outs = Outs::new();
    for &n in sizes {
        outs.push(b.slice(x, axis, start, n)?);
        start += n as i64;
    }
    Ok(outs)
}
/// The size of a dim that is a number; rank 0 has none.
pub(crate) fn static_size(b: &Builder<'_>, def: &OpDef, x: ValueId, axis: usize) -> Result<usize> {
    if b.rank(x) == 0 {
        return Err(rules::refuse(def.name(), Kind::Shape, "a tensor of rank 0 has no dim to cut"));
    }
    b.shape(x)
        .dim(axis)
        .known()
        .ok_or_else(|| rules::refuse(def.name(), Kind::Unsupported, "a symbolic size is not cut"))
}
/// One slice without its dim.
pub(crate) fn select_at(b: &mut Builder<'_>, x: ValueId, axis: usize, index: i64) -> Result<ValueId> {
    let y = b.slice(x, axis, index, 1)?;
    let mut shape = b.shape(y);
    shape.remove(axis);
    b.reshape(y, &shape)
}

/// One slice.
pub static SELECT: OpDef = OpDef {
    sig: "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
    doc: "The slice at index along dim, without the dim; a negative index counts from the end. A tensor as index is \
          read at run time and clamped.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = args.dim(1, b.rank(x))?;
        let n = static_size(b, def, x, axis)? as i64;
        if let Arg::Value(start) = args.get(2) {
            let y = b.slice_at(x, axis, *start, 1, 1)?;
            let mut shape = b.shape(y);
            shape.remove(axis);
            return Ok(smallvec![b.reshape(y, &shape)?]);
        }
        let index = args.int(2)?;
        if !(-n..n).contains(&index) {
            return Err(rules::refuse(
                def.name(),
                Kind::Index,
                format_args!("index {index} is outside {}..{n} along dim {axis} of {}", -n, b.shape(x)),
            ));
        }
        Ok(smallvec![select_at(b, x, axis, index.rem_euclid(n))?])
    },
    samples: &[Sample::grad("f32[3,2] in -2..2, 0, -1", 0), Sample::grad("f32[3,2] in -2..2, 1, 0", 0)],
    refuses: &[Refusal { args: "f32[3,2], 0, 3", message: "select: index 3 is outside -3..3 along dim 0 of [3, 2]" }],
    ..MOVEMENT
};
/// A run of slices.
pub static NARROW: OpDef = OpDef {
    sig: "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
    doc: "length slices along dim from start. A tensor as start is read at run time and clamped.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = args.dim(1, b.rank(x))?;
        let (n, length) = (static_size(b, def, x, axis)? as i64, args.int(3)?);
        if let Arg::Value(start) = args.get(2) {
            if !(0..=n).contains(&length) {
                return Err(rules::refuse(
                    def.name(),
                    Kind::Index,
                    format_args!("length {length} is more than size {n}"),
                ));
            }
            return Ok(smallvec![b.slice_at(x, axis, *start, length as usize, 1)?]);
        }
        let given = args.int(2)?;
        let start = if given < 0 { given + n } else { given };
        if start < 0 || length < 0 || start + length > n {
            return Err(rules::refuse(
                def.name(),
                Kind::Index,
                format_args!("start {given} and length {length} do not fit dim {axis} of {}", b.shape(x)),
            ));
        }
        Ok(smallvec![b.slice(x, axis, start, length as usize)?])
    },
    samples: &[Sample::grad("f32[5,2] in -2..2, 0, 1, 3", 0), Sample::grad("f32[5,2] in -2..2, 0, -2, 2", 0)],
    refuses: &[Refusal { args: "f32[3], 0, 2, 2", message: "narrow: start 2 and length 2 do not fit dim 0 of [3]" }],
    ..MOVEMENT
};
/// Python's slice.
pub static SLICE: OpDef = OpDef {
    sig: "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
    doc: "Python's x[start:end:step] along dim, with a negative step too.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let axis = rules::check_dim(def.name(), args.int_or(1, 0)?, b.rank(x))?;
        let n = static_size(b, def, x, axis)? as i64;
        let (start, len, step) =
            python_slice(def, n, args.optional_int(2)?, args.optional_int(3)?, args.int_or(4, 1)?)?;
        if (start, len as i64, step) == (0, n, 1) {
            return Ok(smallvec![x]);
        }
        let start = b.constant(DType::I64, start)?;
        Ok(smallvec![b.slice_at(x, axis, start, len, step)?])
    },
    samples: &[
        Sample::grad("f32[5,2] in -2..2, 0, 1, 4", 0),
        Sample::grad("f32[5,2] in -2..2, 0, -2", 0),
        Sample::grad("f32[7] in -2..2, 0, 1, 100, 2", 0),
        Sample::grad("f32[7] in -2..2, 0, none, none, -1", 0),
        Sample::grad("f32[7] in -2..2, 0, 5, 2", 0),
    ],
    refuses: &[Refusal { args: "f32[3], 0, 0, 2, 0", message: "slice: the step is not 0" }],
    ..MOVEMENT
};

/// First element, number of elements and step of Python's `start:end:step` on `n` elements.
pub(crate) fn python_slice(
    def: &OpDef,
    n: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<(i64, usize, i64)> {
    if step == 0 {
        return Err(rules::refuse(def.name(), Kind::Argument, "the step is not 0"));
    }
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |given: Option<i64>, default: i64| match given {
        None => default,
        Some(i) => (if i < 0 { i.saturating_add(n) } else { i }).clamp(low, high),
    };
    let (first, last) = if step > 0 { (place(start, 0), place(end, n)) } else { (place(start, n - 1), place(end, -1)) };
    let distance = if step > 0 { last - first } else { first - last };
    let len = if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
    Ok((if len == 0 { 0 } else { first }, len, if len <= 1 { 1 } else { step }))
}

/// Order reversed.
pub static FLIP: OpDef = OpDef {
    sig: "flip(Tensor self, int[] dims) -> Tensor",
    doc: "Order reversed along dims.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        for &d in &args.ints(1)? {
            let axis = rules::check_dim(def.name(), d, b.rank(x))?;
            x = flipped(b, def, x, axis)?;
        }
        Ok(smallvec![x])
    },
    samples: &[Sample::grad("f32[3,2] in -2..2, [0,1]", 0)],
    ..MOVEMENT
};
/// The order along one dim reversed.
pub(crate) fn flipped(b: &mut Builder<'_>, def: &OpDef, x: ValueId, axis: usize) -> Result<ValueId> {
    let n = static_size(b, def, x, axis)?;
    if n < 2 {
        return Ok(x);
    }
    let last = b.constant(DType::I64, n as i64 - 1)?;
    b.slice_at(x, axis, last, n, -1)
}
/// Elements moved around a circle.
pub static ROLL: OpDef = OpDef {
    sig: "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    doc: "Elements moved by shifts along dims, around the end; without dims in the flattened tensor.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (shifts, dims, shape) = (args.ints(1)?, args.optional_ints(2)?.unwrap_or_default(), b.shape(x));
        if dims.is_empty() {
            let flat = b.reshape(x, &[shape.numel()].into())?;
            let rolled = roll(b, flat, 0, shifts[0])?;
            return Ok(smallvec![b.reshape(rolled, &shape)?]);
        }
        if dims.len() != shifts.len() {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("shifts {shifts:?} do not pair with dims {dims:?}"),
            ));
        }
        let mut y = x;
        for (&d, &s) in dims.iter().zip(&shifts) {
            let axis = rules::check_dim(def.name(), d, b.rank(x))?;
            static_size(b, def, x, axis)?;
            y = roll(b, y, axis, s)?;
        }
        Ok(smallvec![y])
    },
    samples: &[Sample::grad("f32[5] in -2..2, 2", 0), Sample::grad("f32[2,3] in -2..2, [1,-1], [0,1]", 0)],
    ..MOVEMENT
};

pub(crate) fn roll(b: &mut Builder<'_>, x: ValueId, axis: usize, shift: i64) -> Result<ValueId> {
    let n = b.shape(x).dim(axis).bound() as i64;
    let cut = if n == 0 { 0 } else { (-shift).rem_euclid(n) };
    if cut == 0 {
        return Ok(x);
    }
    let head = b.slice(x, axis, 0, cut as usize)?;
    let tail = b.slice(x, axis, cut, (n - cut) as usize)?;
    b.prim(Prim::Concat { axis }, &[tail, head])
}
