//! Bags of rows of a table, and products of two inputs with a table for each result.
use crate::args::Args;
use crate::index::{EMBEDDING, as_indices};
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, ScatterOp, Stability, ValueId, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[&EMBEDDING_BAG, &BILINEAR];

/// One vector of each bag of rows.
pub static EMBEDDING_BAG: OpDef = OpDef {
    sig: "python_embedding_bag(Tensor weight, Tensor indices, Tensor? offsets=None, float? max_norm=None, \
          float norm_type=2.0, bool scale_grad_by_freq=False, str mode=\"mean\", bool sparse=False, \
          Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    doc: "The sum, mean or maximum of the rows of each bag, 0 of an empty one: row b of indices [B, n] is a bag, or the \
          indices [n] from offsets[b] up to the next offset. Weights multiply the rows of sums; padding_idx stands for no \
          row. include_last_offset: the last offset ends the last bag.",
    record: record_bag,
    samples: &[
        Sample::grad("f32[6,3] in -2..2, i64[2,4] in 0..6, none, none, 2.0, false, \"sum\"", 64),
        Sample::grad("f32[6,3] in -2..2, i64[5] in 0..6, i64[3] = 0 2 2, none, 2.0, false, \"mean\"", 64),
        Sample::grad("f32[6,3] in -2..2, i64[5] = 0 1 2 3 4, i64[3] = 0 2 2, none, 2.0, false, \"max\"", 64),
        Sample::grad(
            "f32[6,3] in -2..2, i64[5] in 0..6, i64[3] = 0 2 5, none, 2.0, false, \"sum\", false, f32[5] in 0.5..2, true",
            64,
        ),
        Sample::of(
            "f32[6,3] in -2..2, i64[5] in 0..6, i64[2] = 0 2, none, 2.0, false, \"mean\", false, none, false, -1",
            64,
        ),
    ],
    refuses: &[
        Refusal::of("f32[6,3], i64[4] in 0..6", "python_embedding_bag: indices of one dim need offsets"),
        Refusal::of(
            "f32[6,3], i64[2,2] in 0..6, none, none, 2.0, false, \"mean\", false, f32[2,2]",
            "python_embedding_bag: weights of rows are for sums, got mode \"mean\"",
        ),
    ],
    stability: Stability::Stable,
    ..SPELLING
};

fn record_bag(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (table, indices) = (args.tensor(0)?, as_indices(b, def, args.tensor(1)?)?);
    let mode = args.choice(6, &["mean", "sum", "max"])?;
    let refuse = |what: String| Err(rules::refuse(def.name(), Kind::Argument, what));
    let weights = args.optional_tensor(8)?;
    if weights.is_some() && mode != "sum" {
        return refuse(format!("weights of rows are for sums, got mode {mode:?}"));
    }
    if weights.is_some_and(|w| b.shape(w) != b.shape(indices)) {
        return refuse("weights of rows have the shape of the indices".into());
    }
    let rows = b.shape(table).iter().next().map_or(0, Dim::bound);
    let padding = args.optional_int(10)?.map(|p| if p < 0 { p + rows as i64 } else { p });
    let bags = Bags::of(b, def, &args, indices, padding)?;
    let call = [
        Arg::Value(table),
        Arg::Value(bags.indices),
        Arg::None,
        args.get(5).clone(),
        Arg::None,
        args.get(3).clone(),
        args.get(4).clone(),
    ];
    let picked = b.call(&EMBEDDING, call)?[0];
    let dtype = b.dtype(picked);
    let mut x = widen(b, picked)?;
    if let Some(w) = weights {
        let w = b.reshape(w, &[bags.len].into())?;
        let w = b.as_column(w)?;
        let w = b.cast(w, b.dtype(x))?;
        x = b.mul(x, w)?;
    }
    let width = b.shape(x).dim(1);
    let line = |n: usize| -> Shape { [Dim::from(n), width].into_iter().collect() };
    let op = if mode == "max" { ScatterOp::Max } else { ScatterOp::Add };
    let start = b.full(b.dtype(x), &line(bags.count + 1), if mode == "max" { f64::NEG_INFINITY } else { 0.0 })?;
    let all = b.prim(Prim::Scatter { axis: 0, op }, &[start, bags.of_index, x])?;
    let mut y = b.slice(all, 0, 0, bags.count)?;
    if mode != "sum" {
        let ones = b.full(b.dtype(x), &[bags.len].into(), 1.0)?;
        let zeros = b.zeros(b.dtype(x), &[bags.count + 1].into())?;
        let sizes = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[zeros, bags.of_index, ones])?;
        let sizes = b.slice(sizes, 0, 0, bags.count)?;
        let sizes = b.as_column(sizes)?;
        y = if mode == "mean" {
            let least = b.max(sizes, 1.0)?;
            b.div(y, least)?
        } else {
            let empty = b.eq(sizes, 0.0)?;
            b.select(empty, 0.0, y)?
        };
    }
    Ok(smallvec![b.cast(y, dtype)?])
}

/// Which indices make which bag.
struct Bags {
    /// In one line.
    indices: ValueId,
    len: usize,
    /// The bag of each index; `count` for what belongs to none.
    of_index: ValueId,
    count: usize,
}
impl Bags {
    fn of(
        b: &mut Builder<'_>,
        def: &'static OpDef,
        args: &Args<'_>,
        indices: ValueId,
        padding: Option<i64>,
    ) -> Result<Self> {
        let refuse = |what: &str| Err(rules::refuse(def.name(), Kind::Argument, what));
        let len = b.shape(indices).numel();
        let flat: Shape = [len].into();
        let (of_index, count) = match (args.optional_tensor(2)?, b.rank(indices)) {
            (None, 2) => {
                let shape = b.shape(indices);
                let bag = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
                (b.reshape(bag, &flat)?, shape.dim(0).bound())
            }
            (None, 1) => return refuse("indices of one dim need offsets"),
            (Some(offsets), 1) => {
                let offsets = as_indices(b, def, offsets)?;
                let given = b.shape(offsets).numel();
                let count = if args.flag(9)? { given.saturating_sub(1) } else { given };
                // How many bags begin up to an index; from an offset that only ends the last bag on it is `count`, none.
                let (ones, zeros) =
                    (b.full(DType::I64, &[given].into(), 1i64)?, b.zeros(DType::I64, &[len + 1].into())?);
                let begin = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[zeros, offsets, ones])?;
                let begin = b.slice(begin, 0, 0, len)?;
                let number = b.prim(Prim::Scan { fold: Fold::Sum, axis: 0, reverse: false }, &[begin])?;
                (b.sub(number, 1.0)?, count)
            }
            _ => return refuse("takes indices [B, n], or indices [n] and offsets [B]"),
        };
        let indices = b.reshape(indices, &flat)?;
        let mut of_index = of_index;
        if let Some(padding) = padding {
            let padding = b.constant(DType::I64, padding)?;
            let pads = b.eq(indices, padding)?;
            of_index = b.select(pads, count as f64, of_index)?;
        }
        Ok(Self { indices, len, of_index, count })
    }
}

/// A bilinear form for each result.
pub static BILINEAR: OpDef = OpDef {
    sig: "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    doc: "out[.., o] = Σ_ij input1[.., i] weight[o, i, j] input2[.., j] + bias[o].",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, y, weight) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
        rules::check_float(def.name(), b.ty(x))?;
        let (xs, ys, ws) = (b.shape(x), b.shape(y), b.shape(weight));
        let lead = |s: &Shape| -> Shape { s.iter().take(s.rank().saturating_sub(1)).collect() };
        let last = |s: &Shape| s.iter().last();
        let fits =
            ws.rank() == 3 && lead(&xs) == lead(&ys) && last(&xs) == Some(ws.dim(1)) && last(&ys) == Some(ws.dim(2));
        if !fits || b.dtype(x) != b.dtype(y) || b.dtype(x) != b.dtype(weight) {
            let what = format_args!("does not fit: {}, {}, weight {}", b.ty(x), b.ty(y), b.ty(weight));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let n = lead(&xs).numel();
        let rows = |d: Dim| -> Shape { [Dim::from(n), d].into_iter().collect() };
        let (x, y) = (b.reshape(x, &rows(ws.dim(1)))?, b.reshape(y, &rows(ws.dim(2)))?);
        // [n, o, j], then a product with y for each of n.
        let half = b.prim(Prim::Dot { batch: smallvec![], contract: smallvec![(1, 1)] }, &[x, weight])?;
        let mut out = b.prim(Prim::Dot { batch: smallvec![(0, 0)], contract: smallvec![(2, 1)] }, &[half, y])?;
        if let Some(bias) = args.optional_tensor(3)? {
            out = b.add(out, bias)?;
        }
        let mut shape = lead(&xs);
        shape.push(ws.dim(0));
        Ok(smallvec![b.reshape(out, &shape)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -1..1, f32[2,4] in -1..1, f32[5,3,4] in -1..1, f32[5] in -1..1", 64),
        Sample::grad("f32[3] in -1..1, f32[4] in -1..1, f32[5,3,4] in -1..1", 64),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[2,4], f32[5,3,3]",
        "bilinear: does not fit: f32 [2, 3], f32 [2, 4], weight f32 [5, 3, 3]",
    )],
    stability: Stability::Stable,
    ..SPELLING
};
