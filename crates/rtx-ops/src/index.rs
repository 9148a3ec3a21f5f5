//! Computed addresses: embeddings, selections, `gather` and `scatter_add` by PyTorch's rules, triangles.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{
    Attr, Attrs, Body, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample, Saves,
    ScatterOp, Stability, Type, Types, ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] =
    &[&EMBEDDING, &EMBEDDING_GRAD, &INDEX_SELECT, &INDEX_ADD, &GATHER, &SCATTER_ADD, &SCATTER, &TRIL, &TRIU, &ONE_HOT];

/// Rows of a table. Attributes: padding_idx, scale_grad_by_freq, max_norm, norm_type.
pub static EMBEDDING: OpDef = OpDef {
    sig: "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, \
          bool sparse=False, float? max_norm=None, float norm_type=2.0) -> Tensor",
    doc: "out[i.., :] = weight[indices[i..], :]; an index outside the table is an error when it runs. The row padding_idx \
          gets no gradient (-1: every row does); scale_grad_by_freq divides a row's gradient by how often it is picked. \
          Rows of a norm above max_norm are scaled down to it, and gradients pass that by: PyTorch writes the table \
          there. `sparse` changes nothing here.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (weight, indices) = (args.tensor(0)?, args.tensor(1)?);
        let indices = as_indices(b, def, indices)?;
        let (padding, rows) = (args.int_or(2, -1)?, b.shape(weight).iter().next().map_or(0, Dim::bound));
        if padding < -1 || padding >= rows as i64 {
            let what = format_args!("padding_idx is a row of {rows} or -1, got {padding}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let limit = args.float_or(5, f64::INFINITY)?;
        if limit != f64::INFINITY {
            rules::check_float(def.name(), b.ty(weight))?;
        }
        let attrs = smallvec![
            Attr::Int(padding),
            Attr::Bool(args.flag(3)?),
            Attr::Float(limit),
            Attr::Float(args.float_or(6, 2.0)?),
        ];
        b.composite(def, attrs, &[weight, indices])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        let (weight, indices) = (inputs[0], inputs[1]);
        if weight.rank() != 2 {
            return Err(rules::refuse(
                op.name(),
                Kind::Shape,
                format_args!("the table is [rows, size], got {}", weight.shape),
            ));
        }
        let shape = indices.shape.iter().chain([weight.shape.dim(1)]).collect();
        Ok(smallvec![Type { dtype: weight.dtype, shape }])
    },
    body: Body::Composite(|b, attrs, v| {
        let rows = b.prim(Prim::Gather { axis: 0 }, v)?;
        let (limit, p) = (attrs[2].float(), attrs[3].float());
        if limit == f64::INFINITY {
            return Ok(smallvec![rows]);
        }
        let (dtype, last) = (b.dtype(rows), b.rank(rows) - 1);
        let x = crate::precision::widen(b, rows)?;
        let size = b.abs(x)?;
        let power = b.pow(size, p)?;
        let sum = b.reduce_keep(rtx_core::Fold::Sum, power, &[last])?;
        let norm = b.pow(sum, 1.0 / p)?;
        let below = b.add(norm, 1e-7)?;
        let scale = b.div(limit, below)?;
        let fits = b.le(norm, limit)?;
        let scale = b.select(fits, 1.0, scale)?;
        let y = b.mul(x, scale)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let (attrs, indices) = (cx.op.attrs(), cx.inputs[1]);
        let rows = b.shape(cx.inputs[0]).dim(0).bound() as i64;
        let mut g = cx.ct();
        if attrs[0].int() >= 0 {
            let padding = b.constant(DType::I64, attrs[0].int())?;
            let pads = b.eq(indices, padding)?;
            let pads = b.as_column(pads)?;
            g = b.select(pads, 0.0, g)?;
        }
        if attrs[1].bool() {
            let (dtype, shape) = (b.dtype(g), b.shape(indices));
            let (ones, zeros) = (b.full(DType::F32, &shape, 1.0)?, b.zeros(DType::F32, &[rows as usize].into())?);
            let counts = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[zeros, indices, ones])?;
            let counts = b.prim(Prim::Gather { axis: 0 }, &[counts, indices])?;
            let counts = b.as_column(counts)?;
            let counts = b.cast(counts, rules::number_dtype(dtype))?;
            let wide = crate::precision::widen(b, g)?;
            let shared = b.div(wide, counts)?;
            g = b.cast(shared, dtype)?;
        }
        let dweight = b.composite(&EMBEDDING_GRAD, smallvec![Attr::Int(rows)], &[g, indices])?[0];
        Ok(smallvec![Some(dweight), None])
    }),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    samples: &[
        Sample::grad("f32[5,3] in -2..2, i64[2,4] in 0..5", 0),
        Sample::grad("f32[5,3] in -2..2, i64[] in 0..5", 0),
        Sample::exact("bf16[5,3] in -2..2, i32[4] in 0..5"),
        Sample::exact("f32[5,3] in -2..2, i64[2,4] in 0..5, 2, true"),
        Sample::of("f32[5,3] in -2..2, i64[2,4] in 0..5, -1, false, false, 1.5, 2.0", 64),
        Sample::of("f32[5,3] in -2..2, i64[2,4] in 0..5, -1, false, false, 1.5, 1.0", 64),
    ],
    refuses: &[
        Refusal::of("f32[5], i64[2] in 0..5", "embedding: the table is [rows, size], got [5]"),
        Refusal::of("f32[5,3], f32[2]", "embedding: indices are integers, got f32 [2]"),
        Refusal::of("f32[5,3], i64[2] in 0..5, 5", "embedding: padding_idx is a row of 5 or -1, got 5"),
        Refusal::of(
            "i64[5,3], i64[2] in 0..5, -1, false, false, 1.5",
            "embedding: needs a float tensor, got i64 [5, 3]",
        ),
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// The attributes of [`EMBEDDING`] without anything special.
fn plain_rows() -> Attrs {
    smallvec![Attr::Int(-1), Attr::Bool(false), Attr::Float(f64::INFINITY), Attr::Float(2.0)]
}

/// Indices as i64.
pub(crate) fn as_indices(b: &mut Builder<'_>, def: &OpDef, indices: ValueId) -> Result<ValueId> {
    if !b.dtype(indices).is_int() {
        return Err(rules::refuse(
            def.name(),
            Kind::DType,
            format_args!("indices are integers, got {}", b.ty(indices)),
        ));
    }
    b.cast(indices, DType::I64)
}

/// Gradient of [`EMBEDDING`]. Attribute: number of rows.
pub static EMBEDDING_GRAD: OpDef = OpDef {
    sig: "embedding_grad(Tensor grad_output, Tensor indices, int num_weights) -> Tensor",
    doc: "out[r, :] = Σ grad_output[i.., :] over all i with indices[i..] = r, in ascending order of i.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let indices = as_indices(b, def, args.tensor(1)?)?;
        b.composite(def, smallvec![Attr::Int(args.int(2)?)], &[args.tensor(0)?, indices])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        let (dy, indices) = (inputs[0], inputs[1]);
        if dy.rank() != indices.rank() + 1 || !dy.shape.iter().take(indices.rank()).eq(indices.shape.iter()) {
            return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))));
        }
        let rows = Dim::Const(op.attrs()[0].int() as u64);
        Ok(smallvec![Type { dtype: dy.dtype, shape: [rows, dy.shape.dim(dy.rank() - 1)].into_iter().collect() }])
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, size) = (b.dtype(v[0]), b.shape(v[0]).dim(b.rank(v[0]) - 1));
        let shape: Shape = [Dim::Const(attrs[0].int() as u64), size].into_iter().collect();
        let zeros = b.zeros(dtype, &shape)?;
        Ok(smallvec![b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[zeros, v[1], v[0]])?])
    }),
    grad: Grad::Rule(|b, cx| {
        Ok(smallvec![Some(b.composite(&EMBEDDING, plain_rows(), &[cx.ct(), cx.inputs[1]])?[0]), None])
    }),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    samples: &[Sample::grad("f32[2,4,3] in -2..2, i64[2,4] in 0..5, 5", 16)],
    ..OpDef::DEFAULT
};

const INDEXING: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Slices by number.
pub static INDEX_SELECT: OpDef = OpDef {
    sig: "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    doc: "Slices along dim in the order of index, which has one dim; an index outside is an error when it runs.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (axis, index) = (args.dim(1, b.rank(x))?, as_indices(b, def, args.tensor(2)?)?);
        if b.rank(index) > 1 {
            return Err(rules::refuse(
                def.name(),
                Kind::Shape,
                format_args!("index has one dim, got {}", b.shape(index)),
            ));
        }
        let n = b.shape(index).numel();
        let index = b.reshape(index, &[n].into())?;
        // A number has one slice, and stays a number.
        let shape = b.shape(x);
        if shape.rank() == 0 {
            if n != 1 {
                let what = format_args!("a tensor of rank 0 has one slice, index has {n}");
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            let x = b.reshape(x, &[1].into())?;
            let y = b.prim(Prim::Gather { axis: 0 }, &[x, index])?;
            return Ok(smallvec![b.reshape(y, &shape)?]);
        }
        Ok(smallvec![b.prim(Prim::Gather { axis }, &[x, index])?])
    },
    samples: &[
        Sample::grad("f32[3,4] in -2..2, 1, i64[5] in 0..4", 0),
        Sample::grad("f32[] in -2..2, 0, i64[1] in 0..1", 0),
    ],
    refuses: &[Refusal::of("f32[3], 0, i64[1,2] in 0..3", "index_select: index has one dim, got [1, 2]")],
    ..INDEXING
};
/// Slices added by number.
pub static INDEX_ADD: OpDef = OpDef {
    sig: "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    doc: "self with alpha times the slices of source added along dim where index says, in ascending order.",
    runtime: &["alpha"],
    record: crate::placing::record_index_add,
    samples: &[Sample::grad("f32[3,4] in -2..2, 0, i64[5] in 0..3, f32[5,4] in -2..2", 16)],
    ..INDEXING
};

/// Elements by number along a dim.
pub static GATHER: OpDef = OpDef {
    sig: "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    doc: "out[.., i, ..] = self[.., index[.., i, ..], ..] along dim; an index outside is an error when it runs.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let (axis, index) = (args.dim(1, b.rank(x))?, as_indices(b, def, args.tensor(2)?)?);
        // An index without elements picks none, whatever its rank; a number is a vector of one.
        if b.shape(index).iter().any(|d| d.known() == Some(0)) {
            return Ok(smallvec![b.zeros(b.dtype(x), &b.shape(index))?]);
        }
        let x = if b.rank(x) == 0 && b.rank(index) == 1 { b.reshape(x, &[1].into())? } else { x };
        check_index_shape(def, b.ty(x), b.ty(index), axis)?;
        let (flat, places) = (flattened(b, x)?, flat_places(b, x, index, axis)?);
        Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[flat, places])?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, 1, i64[2,2] in 0..3", 0),
        Sample::grad("f32[2,3] in -2..2, 0, i64[4,3] in 0..2", 0),
        Sample::grad("f32[2,3,2] in -2..2, 1, i64[1,4,2] in 0..3", 0),
        Sample::grad("f32[] in -2..2, 0, i64[2] in 0..1", 0),
        Sample::exact("f32[5], 0, i64[2,0] in 0..5"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], 1, i64[3,2] in 0..2",
        "gather: index [3, 2] is larger than self [2, 3] outside dim 1",
    )],
    ..INDEXING
};

/// Elements added by number along a dim.
pub static SCATTER_ADD: OpDef = OpDef {
    sig: "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "self with out[.., index[.., i, ..], ..] += src[.., i, ..] along dim, in ascending order of src.",
    record: |b, def, args| scatter_along(b, Args::new(def, args), def, ScatterOp::Add),
    samples: &[Sample::grad("f32[2,3] in -2..2, 1, i64[2,4] in 0..3, f32[2,4] in -2..2", 16)],
    ..INDEXING
};
/// Elements written by number along a dim.
pub static SCATTER: OpDef = OpDef {
    sig: "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    doc: "self with out[.., index[.., i, ..], ..] = src[.., i, ..] along dim; the last one wins.",
    record: |b, def, args| scatter_along(b, Args::new(def, args), def, ScatterOp::Set),
    samples: &[Sample::grad("f32[2,5] in -2..2, 1, i64[2,3] in 0..5, f32[2,3] in -2..2", 0)],
    ..INDEXING
};

fn scatter_along(b: &mut Builder<'_>, args: Args<'_>, def: &OpDef, op: ScatterOp) -> Result<Outs> {
    let (x, src) = (args.tensor(0)?, args.tensor(3)?);
    let (axis, index) = (args.dim(1, b.rank(x))?, as_indices(b, def, args.tensor(2)?)?);
    check_index_shape(def, b.ty(x), b.ty(index), axis)?;
    let fits = b.rank(src) == b.rank(index)
        && (0..b.rank(src)).all(|i| b.shape(index).dim(i).bound() <= b.shape(src).dim(i).bound());
    if !fits || b.dtype(src) != b.dtype(x) {
        let what =
            format!("src {} does not cover index {} or differs from self {}", b.ty(src), b.shape(index), b.ty(x));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let mut src = src;
    for i in 0..b.rank(index) {
        let n = b.shape(index).dim(i);
        if b.shape(src).dim(i) != n {
            src = b.slice(src, i, 0, n)?;
        }
    }
    let shape = b.shape(x);
    let (flat, places, src) = (flattened(b, x)?, flat_places(b, x, index, axis)?, flattened(b, src)?);
    let places = flattened(b, places)?;
    let y = b.prim(Prim::Scatter { axis: 0, op }, &[flat, places, src])?;
    Ok(smallvec![b.reshape(y, &shape)?])
}

/// The index has the rank of `x` and is no larger outside the dim.
fn check_index_shape(def: &OpDef, x: &Type, index: &Type, axis: usize) -> Result<()> {
    if x.rank() != index.rank() {
        let what = format!("index {} and self {} differ in rank", index.shape, x.shape);
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    if (0..x.rank()).any(|i| i != axis && index.shape.dim(i).bound() > x.shape.dim(i).bound()) {
        let what = format!("index {} is larger than self {} outside dim {axis}", index.shape, x.shape);
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    Ok(())
}
pub(crate) fn flattened(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let n = b.shape(x).numel();
    b.reshape(x, &[n].into())
}

/// Row-major positions in `x` of the elements that `index` names along `axis`; what lies outside along the axis
/// becomes -1, so that it is outside here too.
pub(crate) fn flat_places(b: &mut Builder<'_>, x: ValueId, index: ValueId, axis: usize) -> Result<ValueId> {
    let sizes = b.shape(x).sizes();
    let strides = rtx_core::contiguous_strides(&sizes);
    let shape = b.shape(index);
    let mut place = if sizes.is_empty() { index } else { b.mul(index, strides[axis] as f64)? };
    for i in (0..sizes.len()).filter(|&i| i != axis) {
        let along = b.prim(Prim::Iota { shape: shape.clone(), axis: i }, &[])?;
        let along = b.mul(along, strides[i] as f64)?;
        place = b.add(place, along)?;
    }
    let n = if sizes.is_empty() { 1 } else { sizes[axis] };
    let negative = b.lt(index, 0.0)?;
    let last = b.constant(DType::I64, n as i64 - 1)?;
    let above = b.lt(last, index)?;
    let outside = b.or(negative, above)?;
    b.select(outside, -1.0, place)
}

/// Lower triangle.
pub static TRIL: OpDef = OpDef {
    sig: "tril(Tensor self, SymInt diagonal=0) -> Tensor",
    doc: "Zero where column > row + diagonal, in the last two dims.",
    record: |b, def, args| record_triangle(b, Args::new(def, args), def),
    infer: infer_matrix,
    body: Body::Composite(|b, attrs, v| {
        let (row, column) = rows_and_columns(b, v[0], attrs[0].int())?;
        let keep = b.le(column, row)?;
        Ok(smallvec![b.select(keep, v[0], 0.0)?])
    }),
    grad: Grad::Rule(triangle_grad),
    saves: Saves::NONE,
    samples: &[Sample::grad("f32[3,4] in -2..2", 0), Sample::grad("f32[2,3,3] in -2..2, -1", 0)],
    refuses: &[Refusal::of("f32[3]", "tril: needs a matrix, got [3]")],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// Upper triangle.
pub static TRIU: OpDef = OpDef {
    sig: "triu(Tensor self, SymInt diagonal=0) -> Tensor",
    doc: "Zero where column < row + diagonal, in the last two dims.",
    record: |b, def, args| record_triangle(b, Args::new(def, args), def),
    infer: infer_matrix,
    body: Body::Composite(|b, attrs, v| {
        let (row, column) = rows_and_columns(b, v[0], attrs[0].int())?;
        let keep = b.le(row, column)?;
        Ok(smallvec![b.select(keep, v[0], 0.0)?])
    }),
    grad: Grad::Rule(triangle_grad),
    saves: Saves::NONE,
    samples: &[Sample::grad("f32[3,4] in -2..2, 1", 0)],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
fn record_triangle(b: &mut Builder<'_>, args: Args<'_>, def: &'static OpDef) -> Result<Outs> {
    b.composite(def, smallvec![Attr::Int(args.int_or(1, 0)?)], &[args.tensor(0)?])
}
fn infer_matrix(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    if inputs[0].rank() < 2 {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("needs a matrix, got {}", inputs[0].shape)));
    }
    Ok(smallvec![inputs[0].clone()])
}
/// Row number plus diagonal, and column number, of each element.
fn rows_and_columns(b: &mut Builder<'_>, x: ValueId, diagonal: i64) -> Result<(ValueId, ValueId)> {
    let (shape, rank) = (b.shape(x), b.rank(x));
    let row = b.prim(Prim::Iota { shape: shape.clone(), axis: rank - 2 }, &[])?;
    let row = if diagonal == 0 { row } else { b.add(row, diagonal as f64)? };
    Ok((row, b.prim(Prim::Iota { shape, axis: rank - 1 }, &[])?))
}
/// The same triangle of the cotangent.
fn triangle_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Op::Composite(def, attrs) = cx.op else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a triangle"));
    };
    Ok(smallvec![Some(b.composite(def, attrs.clone(), &[cx.ct()])?[0])])
}

/// Ones where the class stands.
pub static ONE_HOT: OpDef = OpDef {
    sig: "one_hot(Tensor self, int num_classes=-1) -> Tensor",
    doc: "out[i.., c] = 1 where self[i..] = c, else 0, as i64; the number of classes is given.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = as_indices(b, def, args.tensor(0)?)?;
        let classes = args.int_or(1, -1)?;
        if classes < 1 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                "needs the number of classes: a size does not depend on values",
            ));
        }
        let mut column = b.shape(x);
        column.push(1);
        let x = b.reshape(x, &column)?;
        column.set(b.rank(x) - 1, classes as usize);
        let along = b.prim(Prim::Iota { axis: column.rank() - 1, shape: column }, &[])?;
        let hot = b.eq(along, x)?;
        Ok(smallvec![b.cast(hot, DType::I64)?])
    },
    grad: Grad::None,
    numerics: Numerics::Body,
    samples: &[Sample::exact("i64[2,3] in 0..4, 4")],
    refuses: &[Refusal::of("i64[2] in 0..4", "one_hot: needs the number of classes: a size does not depend on values")],
    ..INDEXING
};
