//! Products of vectors, matrices and more: spelled with `matmul` and the general contraction.
use crate::args::Args;
use crate::arrange::sizes;
use crate::linear::matmul;
use crate::movement::{roll, static_size};
use crate::placing::scaled;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::record::{Promotion, meet};
use rtx_ir::{Amp, Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &MM,
    &BMM,
    &MV,
    &DOT,
    &VDOT,
    &INNER,
    &OUTER,
    &KRON,
    &VECDOT,
    &TENSORDOT,
    &ADDMM,
    &ADDMV,
    &BADDBMM,
    &ADDBMM,
    &ADDR,
    &MULTI_DOT,
    &MATRIX_POWER,
    &CROSS,
    &LINALG_CROSS,
    &VANDER,
];

const PRODUCT: OpDef = OpDef { amp: Amp::Low, stability: Stability::Stable, ..SPELLING };

/// Both operands have these ranks.
fn check_ranks(b: &Builder<'_>, def: &OpDef, x: ValueId, y: ValueId, ranks: (usize, usize)) -> Result<()> {
    if (b.rank(x), b.rank(y)) == ranks {
        return Ok(());
    }
    let what = format!("needs ranks {} and {}: lhs {}, rhs {}", ranks.0, ranks.1, b.shape(x), b.shape(y));
    Err(rules::refuse(def.name(), Kind::Shape, what))
}
/// Both have one dtype, and these dims one size.
fn check_meet(b: &Builder<'_>, def: &OpDef, x: ValueId, y: ValueId, dims: (usize, usize)) -> Result<()> {
    if b.dtype(x) != b.dtype(y) {
        let what = format!("dtypes differ: lhs {}, rhs {}", b.ty(x), b.ty(y));
        return Err(rules::refuse(def.name(), Kind::DType, what));
    }
    if b.shape(x).dim(dims.0) != b.shape(y).dim(dims.1) {
        let what = format!("inner sizes differ: lhs {}, rhs {}", b.shape(x), b.shape(y));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    Ok(())
}

/// A product of fixed ranks.
macro_rules! fixed { ($($NAME:ident $sig:literal $ranks:expr, $doc:literal, $good:literal, $bad:literal $says:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| {
            let args = Args::new(def, args);
            let (x, y) = (args.tensor(0)?, args.tensor(1)?);
            check_ranks(b, def, x, y, $ranks)?;
            check_meet(b, def, x, y, ($ranks.0 - 1, if $ranks.1 == 1 { 0 } else { $ranks.1 - 2 }))?;
            if $ranks.0 == 3 && b.shape(x).dim(0) != b.shape(y).dim(0) {
                let what = format!("batch sizes differ: lhs {}, rhs {}", b.shape(x), b.shape(y));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            Ok(smallvec![matmul(b, x, y)?])
        },
        samples: &[Sample::grad($good, 64)],
        refuses: &[Refusal::of($bad, $says)],
        ..PRODUCT
    };
)* } }
fixed! {
    MM "mm(Tensor self, Tensor mat2) -> Tensor" (2, 2), "Product of two matrices.",
        "f32[2,3] in -2..2, f32[3,4] in -2..2", "f32[2,3], f32[4,5]" "mm: inner sizes differ: lhs [2, 3], rhs [4, 5]";
    BMM "bmm(Tensor self, Tensor mat2) -> Tensor" (3, 3), "Products of as many matrices as the first dim has.",
        "f32[2,2,3] in -2..2, f32[2,3,4] in -2..2",
        "f32[2,2,3], f32[3,3,4]" "bmm: batch sizes differ: lhs [2, 2, 3], rhs [3, 3, 4]";
    MV "mv(Tensor self, Tensor vec) -> Tensor" (2, 1), "Product of a matrix and a vector.",
        "f32[2,3] in -2..2, f32[3] in -2..2", "f32[2,3], f32[3,1]" "mv: needs ranks 2 and 1: lhs [2, 3], rhs [3, 1]";
    DOT "dot(Tensor self, Tensor tensor) -> Tensor" (1, 1), "Product of two vectors, summed up.",
        "f32[3] in -2..2, f32[3] in -2..2", "f32[3], f32[4]" "dot: inner sizes differ: lhs [3], rhs [4]";
    VDOT "vdot(Tensor self, Tensor other) -> Tensor" (1, 1),
        "Product of two vectors, summed up; of complex ones the first is conjugated.",
        "f32[3] in -2..2, f32[3] in -2..2", "f32[3], f32[4]" "vdot: inner sizes differ: lhs [3], rhs [4]";
}

/// Sums over the last dims of both.
pub static INNER: OpDef = OpDef {
    sig: "inner(Tensor self, Tensor other) -> Tensor",
    doc: "out[i.., j..] = Σ_k self[i.., k] · other[j.., k]; a number multiplies.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, y) = (args.tensor(0)?, args.tensor(1)?);
        if b.rank(x) == 0 || b.rank(y) == 0 {
            return Ok(smallvec![b.mul(x, y)?]);
        }
        let last = (b.rank(x) - 1, b.rank(y) - 1);
        check_meet(b, def, x, y, last)?;
        Ok(smallvec![b.prim(Prim::Dot { batch: smallvec![], contract: smallvec![last] }, &[x, y])?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[4,3] in -2..2", 64),
        Sample::grad("f32[] in -2..2, f32[4,3] in -2..2", 4),
    ],
    refuses: &[Refusal::of("f32[2,3], f32[2]", "inner: inner sizes differ: lhs [2, 3], rhs [2]")],
    ..PRODUCT
};
/// All products of two vectors.
pub static OUTER: OpDef = OpDef {
    sig: "outer(Tensor self, Tensor vec2) -> Tensor",
    doc: "out[i, j] = self[i] · vec2[j].",
    record: |b, def, args| {
        let met = Args::new(def, args);
        let (x, y) = (met.tensor(0)?, met.tensor(1)?);
        check_ranks(b, def, x, y, (1, 1))?;
        Ok(smallvec![outer(b, def, x, y)?])
    },
    samples: &[Sample::grad("f32[3] in -2..2, f32[2] in -2..2", 4)],
    refuses: &[Refusal::of("f32[3], f32[2,1]", "outer: needs ranks 1 and 1: lhs [3], rhs [2, 1]")],
    ..PRODUCT
};
fn outer(b: &mut Builder<'_>, def: &OpDef, x: ValueId, y: ValueId) -> Result<ValueId> {
    let column = [b.shape(x).dim(0), Dim::Const(1)].into_iter().collect();
    let x = b.reshape(x, &column)?;
    let met = meet(b, def, &[Arg::Value(x), Arg::Value(y)], Promotion::Meet)?;
    b.mul(met.values[0], met.values[1])
}
/// Kronecker product.
pub static KRON: OpDef = OpDef {
    sig: "kron(Tensor self, Tensor other) -> Tensor",
    doc: "Each element of self times the whole of other, as blocks.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, y) = (args.tensor(0)?, args.tensor(1)?);
        let rank = b.rank(x).max(b.rank(y));
        let padded = |v: Vec<usize>| -> Vec<usize> { std::iter::repeat_n(1, rank - v.len()).chain(v).collect() };
        let (xs, ys) = (padded(sizes(b, def, x)?), padded(sizes(b, def, y)?));
        let apart = |v: &[usize], first: bool| -> Shape {
            v.iter().flat_map(|&n| if first { [n, 1] } else { [1, n] }).map(|n| Dim::Const(n as u64)).collect()
        };
        let (x, y) = (b.reshape(x, &apart(&xs, true))?, b.reshape(y, &apart(&ys, false))?);
        let met = meet(b, def, &[Arg::Value(x), Arg::Value(y)], Promotion::Meet)?;
        let blocks = b.mul(met.values[0], met.values[1])?;
        let to = xs.iter().zip(&ys).map(|(m, n)| Dim::Const((m * n) as u64)).collect();
        Ok(smallvec![b.reshape(blocks, &to)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[2,2] in -2..2", 4), Sample::grad("f32[2] in -2..2, f32[2,2]", 4)],
    ..PRODUCT
};
/// Products summed over a dim.
pub static VECDOT: OpDef = OpDef {
    sig: "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    doc: "Σ x · y over dim, the others broadcast.",
    record: |b, def, args| {
        let met = meet(b, def, &[args.get(0).clone(), args.get(1).clone()], Promotion::Meet)?;
        let product = b.mul(met.values[0], met.values[1])?;
        let axis = rules::check_dim(def.name(), Args::new(def, args).int_or(2, -1)?, b.rank(product))?;
        let y = if b.rank(product) == 0 { product } else { b.reduce(Fold::Sum, product, &[axis])? };
        Ok(smallvec![b.cast(y, met.result)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2", 64), Sample::grad("f32[2,3], f32[2,3], 0", 64)],
    ..PRODUCT
};
/// Sums over pairs of dims.
pub static TENSORDOT: OpDef = OpDef {
    sig: "python_tensordot(Tensor self, Tensor other, Any dims=2, Any dims_other=None) -> Tensor",
    doc: "torch.tensordot: products summed over pairs of dims: so many of the last of self with the first of other, or \
          two lists of dims.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let (x, y) = (given.tensor(0)?, given.tensor(1)?);
        let (left, right) = paired_dims(def, args, b.rank(x))?;
        let axes = |list: &[i64], rank: usize| {
            list.iter().map(|&d| rules::check_dim(def.name(), d, rank)).collect::<Result<Vec<_>>>()
        };
        let (left, right) = (axes(&left, b.rank(x))?, axes(&right, b.rank(y))?);
        let (mut x, mut y) = (x, y);
        let mut contract: SmallVec<[(usize, usize); 2]> = smallvec![];
        for (&i, &j) in left.iter().zip(&right) {
            // A size of 1 broadcasts: what is missing of the sum is the sum of the other.
            let (m, n) = (b.shape(x).dim(i), b.shape(y).dim(j));
            if m.is_one() && !n.is_one() {
                y = b.reduce_keep(Fold::Sum, y, &[j])?;
            } else if n.is_one() && !m.is_one() {
                x = b.reduce_keep(Fold::Sum, x, &[i])?;
            }
            check_meet(b, def, x, y, (i, j))?;
            contract.push((i, j));
        }
        if contract.is_empty() {
            let shape: Shape = b.shape(x).iter().chain(b.shape(y).iter().map(|_| Dim::Const(1))).collect();
            let x = b.reshape(x, &shape)?;
            return Ok(smallvec![b.mul(x, y)?]);
        }
        Ok(smallvec![b.prim(Prim::Dot { batch: smallvec![], contract }, &[x, y])?])
    },
    samples: &[
        Sample::grad("f32[2,3,4] in -2..2, f32[3,4,2] in -2..2", 64),
        Sample::grad("f32[2,3] in -2..2, f32[3,2] in -2..2, 1", 64),
        Sample::grad("f32[2,3] in -2..2, f32[3,2] in -2..2, [0,1], [1,0]", 64),
        Sample::grad("f32[2] in -2..2, f32[3] in -2..2, 0", 64),
    ],
    refuses: &[
        Refusal::of("f32[2,3], f32[2,3], 1", "python_tensordot: inner sizes differ: lhs [2, 3], rhs [2, 3]"),
        Refusal::of("f32[2], f32[2], 2", "python_tensordot: 2 dims are more than a tensor of rank 1 has"),
    ],
    ..PRODUCT
};
/// The dims of both sides that are summed over.
fn paired_dims(def: &OpDef, args: &Bound, rank: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let refuse = || rules::refuse(def.name(), Kind::Argument, "dims are a number or two lists of one length");
    let (left, right) = match (args.get(2), args.get(3)) {
        (Arg::Scalar(Scalar::Int(n)), Arg::None) if *n >= 0 => {
            let from = rank as i64 - n;
            if from < 0 {
                let what = format!("{n} dims are more than a tensor of rank {rank} has");
                return Err(rules::refuse(def.name(), Kind::Argument, what));
            }
            ((from..rank as i64).collect(), (0..*n).collect())
        }
        (Arg::List(pair), Arg::None) => match pair.as_slice() {
            [l, r] => (integers(l).ok_or_else(refuse)?, integers(r).ok_or_else(refuse)?),
            _ => return Err(refuse()),
        },
        (l, r) => (integers(l).ok_or_else(refuse)?, integers(r).ok_or_else(refuse)?),
    };
    if left.len() == right.len() { Ok((left, right)) } else { Err(refuse()) }
}
fn integers(a: &Arg) -> Option<Vec<i64>> {
    match a {
        Arg::Ints(v) => Some(v.to_vec()),
        Arg::Scalar(Scalar::Int(n)) => Some(vec![*n]),
        Arg::List(v) => v.iter().map(|a| if let Arg::Scalar(Scalar::Int(n)) = a { Some(*n) } else { None }).collect(),
        _ => None,
    }
}

/// `beta · self + alpha · product`, in compute precision.
fn combined(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, product: ValueId) -> Result<Outs> {
    let x = Args::new(def, args).tensor(0)?;
    let dtype = b.dtype(product);
    if b.dtype(x) != dtype {
        let what = format!("dtypes differ: self {}, product {}", b.ty(x), b.ty(product));
        return Err(rules::refuse(def.name(), Kind::DType, what));
    }
    let (from, to) = (b.shape(x), b.shape(product));
    if rules::broadcast_for(def.name(), &[&from, &to])? != to {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("self {from} does not broadcast to {to}")));
    }
    let wide = widen(b, product)?;
    let product = scaled(b, def, wide, args.get(4))?;
    // With beta 0 what self holds does not count, not even NaN.
    if let Arg::Scalar(s) = args.get(3)
        && s.to_f64() == 0.0
    {
        return Ok(smallvec![b.cast(product, dtype)?]);
    }
    let x = widen(b, x)?;
    let x = scaled(b, def, x, args.get(3))?;
    let y = b.add(x, product)?;
    Ok(smallvec![b.cast(y, dtype)?])
}
/// A product added to a tensor.
macro_rules! added { ($($NAME:ident $name:literal $one:literal $two:literal $ranks:expr, $f:ident $doc:literal, $good:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: concat!($name, "(Tensor self, Tensor ", $one, ", Tensor ", $two, ", *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
        doc: $doc,
        runtime: &["beta", "alpha"],
        record: |b, def, args| {
            let given = Args::new(def, args);
            let (x, y) = (given.tensor(1)?, given.tensor(2)?);
            check_ranks(b, def, x, y, $ranks)?;
            let product = $f(b, def, x, y)?;
            combined(b, def, args, product)
        },
        samples: &[Sample::grad($good, 64), Sample::grad(concat!($good, ", 0.5, 2"), 64), Sample::of(concat!($good, ", 0, 1"), 64)],
        ..PRODUCT
    };
)* } }
added! {
    ADDMM "addmm" "mat1" "mat2" (2, 2), checked "beta · self + alpha · mat1 mat2.",
        "f32[4] in -2..2, f32[2,3] in -2..2, f32[3,4] in -2..2";
    ADDMV "addmv" "mat" "vec" (2, 1), checked "beta · self + alpha · mat vec.",
        "f32[2] in -2..2, f32[2,3] in -2..2, f32[3] in -2..2";
    BADDBMM "baddbmm" "batch1" "batch2" (3, 3), checked "beta · self + alpha · the products of batches of matrices.",
        "f32[4] in -2..2, f32[2,2,3] in -2..2, f32[2,3,4] in -2..2";
    ADDBMM "addbmm" "batch1" "batch2" (3, 3), summed "beta · self + alpha · the sum of the products of matrices.",
        "f32[4] in -2..2, f32[2,2,3] in -2..2, f32[2,3,4] in -2..2";
    ADDR "addr" "vec1" "vec2" (1, 1), outer "beta · self + alpha · all products of two vectors.",
        "f32[2] in -2..2, f32[3] in -2..2, f32[2] in -2..2";
}
fn checked(b: &mut Builder<'_>, def: &OpDef, x: ValueId, y: ValueId) -> Result<ValueId> {
    check_meet(b, def, x, y, (b.rank(x) - 1, b.rank(y).saturating_sub(2)))?;
    matmul(b, x, y)
}
/// `Σ_n x[n] y[n]`: one contraction over the batch and the inner dim.
fn summed(b: &mut Builder<'_>, def: &OpDef, x: ValueId, y: ValueId) -> Result<ValueId> {
    check_meet(b, def, x, y, (2, 1))?;
    check_meet(b, def, x, y, (0, 0))?;
    b.prim(Prim::Dot { batch: smallvec![], contract: smallvec![(0, 0), (2, 1)] }, &[x, y])
}

/// A chain of matrices.
pub static MULTI_DOT: OpDef = OpDef {
    sig: "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    doc: "The product of a chain of matrices in the order that takes the fewest multiplications; the first and the last \
          may be vectors.",
    record: |b, def, args| {
        let parts = Args::new(def, args).tensors(0)?;
        if parts.len() < 2 {
            let what = format!("needs two tensors or more, got {}", parts.len());
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        let mut chain = parts.to_vec();
        let end = chain.len() - 1;
        if b.rank(first) == 1 {
            let row = [Dim::Const(1), b.shape(first).dim(0)].into_iter().collect();
            chain[0] = b.reshape(first, &row)?;
        }
        if b.rank(last) == 1 {
            let column = [b.shape(last).dim(0), Dim::Const(1)].into_iter().collect();
            chain[end] = b.reshape(last, &column)?;
        }
        for w in chain.windows(2) {
            check_ranks(b, def, w[0], w[1], (2, 2))?;
            check_meet(b, def, w[0], w[1], (1, 0))?;
        }
        let mut widths = vec![sizes(b, def, chain[0])?[0]];
        for &m in &chain {
            widths.push(sizes(b, def, m)?[1]);
        }
        let y = multiply_chain(b, &chain, &cheapest_cuts(&widths), 0, end)?;
        let dropped: Shape = [(first, 0), (last, 1)]
            .into_iter()
            .filter(|(v, _)| b.rank(*v) != 1)
            .map(|(_, d)| b.shape(y).dim(d))
            .collect();
        Ok(smallvec![b.reshape(y, &dropped)?])
    },
    samples: &[
        Sample::grad("[f32[2,3] in -1..1, f32[3,4] in -1..1, f32[4,2] in -1..1]", 64),
        Sample::grad("[f32[3] in -1..1, f32[3,4] in -1..1, f32[4] in -1..1]", 64),
    ],
    refuses: &[Refusal::of("[f32[2,2]]", "linalg_multi_dot: needs two tensors or more, got 1")],
    ..PRODUCT
};
/// Where to cut a chain of matrices `widths[i] × widths[i + 1]`, by the textbook dynamic program.
fn cheapest_cuts(widths: &[usize]) -> Vec<Vec<usize>> {
    let n = widths.len() - 1;
    let mut cost = vec![vec![0u128; n]; n];
    let mut cuts = vec![vec![0; n]; n];
    for len in 2..=n {
        for i in 0..=n - len {
            let j = i + len - 1;
            let of = |k: usize| cost[i][k] + cost[k + 1][j] + (widths[i] * widths[k + 1] * widths[j + 1]) as u128;
            let best = (i..j).min_by_key(|&k| of(k)).unwrap_or(i);
            (cost[i][j], cuts[i][j]) = (of(best), best);
        }
    }
    cuts
}
fn multiply_chain(b: &mut Builder<'_>, chain: &[ValueId], cuts: &[Vec<usize>], i: usize, j: usize) -> Result<ValueId> {
    if i == j {
        return Ok(chain[i]);
    }
    let k = cuts[i][j];
    let left = multiply_chain(b, chain, cuts, i, k)?;
    let right = multiply_chain(b, chain, cuts, k + 1, j)?;
    b.matmul(left, right)
}
/// A matrix times itself.
pub static MATRIX_POWER: OpDef = OpDef {
    sig: "linalg_matrix_power(Tensor self, int n) -> Tensor",
    doc: "Square matrices multiplied n times by squaring; n = 0 gives the identity, a negative n the power of the inverse.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (mut x, n) = (args.tensor(0)?, args.int(1)?);
        let rank = b.rank(x);
        if rank < 2 || b.shape(x).dim(rank - 1) != b.shape(x).dim(rank - 2) {
            let what = format!("needs square matrices, got {}", b.shape(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        if n < 0 {
            let Some(inverse) = crate::find_exact("linalg_inv") else {
                return Err(rules::refuse(def.name(), Kind::Unsupported, "inverses are not built yet"));
            };
            x = b.call(inverse, [Arg::Value(x)])?[0];
        }
        let mut rest = n.unsigned_abs();
        let mut product = None;
        while rest > 0 {
            if rest & 1 == 1 {
                product = Some(match product {
                    None => x,
                    Some(p) => b.matmul(p, x)?,
                });
            }
            rest >>= 1;
            if rest > 0 {
                x = b.matmul(x, x)?;
            }
        }
        let y = match product {
            Some(p) => p,
            None => b.identity(b.dtype(x), &b.shape(x))?,
        };
        Ok(smallvec![y])
    },
    samples: &[Sample::grad("f32[2,2] in -1..1, 3", 64), Sample::of("f32[2,2,2] in -1..1, 0", 0)],
    refuses: &[Refusal::of("f32[2,3], 2", "linalg_matrix_power: needs square matrices, got [2, 3]")],
    ..PRODUCT
};
/// Cross product.
pub static CROSS: OpDef = OpDef {
    sig: "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
    doc: "Cross product of vectors of three along dim, or along the first dim of size 3.",
    record: |b, def, args| record_cross(b, def, args),
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2", 16)],
    refuses: &[Refusal::of("f32[2,2], f32[2,2]", "cross: no dim has size 3 in [2, 2]")],
    ..PRODUCT
};
/// Cross product.
pub static LINALG_CROSS: OpDef = OpDef {
    sig: "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    doc: "Cross product of vectors of three along dim, the other dims broadcast.",
    record: |b, def, args| record_cross(b, def, args),
    samples: &[Sample::grad("f32[1,3] in -2..2, f32[2,3] in -2..2", 16)],
    refuses: &[Refusal::of("f32[3,2], f32[3,2]", "linalg_cross: dim 1 of [3, 2] has size 2, not 3")],
    ..PRODUCT
};
/// `out = roll(x, -1) · roll(y, -2) - roll(x, -2) · roll(y, -1)` along the dim of three.
fn record_cross(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let met = meet(b, def, &[args.get(0).clone(), args.get(1).clone()], Promotion::Meet)?;
    let (x, y) = (met.values[0], met.values[1]);
    let shape = b.shape(x);
    let axis = match Args::new(def, args).optional_int(2)? {
        Some(d) => rules::check_dim(def.name(), d, shape.rank())?,
        None => (0..shape.rank())
            .find(|&d| shape.dim(d).known() == Some(3))
            .ok_or_else(|| rules::refuse(def.name(), Kind::Shape, format_args!("no dim has size 3 in {shape}")))?,
    };
    let n = static_size(b, def, x, axis)?;
    if n != 3 {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("dim {axis} of {shape} has size {n}, not 3")));
    }
    let (x1, x2) = (roll(b, x, axis, -1)?, roll(b, x, axis, -2)?);
    let (y1, y2) = (roll(b, y, axis, -1)?, roll(b, y, axis, -2)?);
    let (l, r) = (b.mul(x1, y2)?, b.mul(x2, y1)?);
    let out = b.sub(l, r)?;
    Ok(smallvec![b.cast(out, met.result)?])
}
/// Powers of numbers.
pub static VANDER: OpDef = OpDef {
    sig: "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
    doc: "out[.., i, j] = x[.., i]^j for j below N, by repeated multiplication; N is the last size by default.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = crate::arrange::atleast_1d(b, args.tensor(0)?)?;
        let dtype = if b.dtype(x) == DType::Bool { DType::I64 } else { b.dtype(x) };
        let x = b.cast(x, dtype)?;
        let last = b.rank(x) - 1;
        let n = match args.optional_int(1)? {
            Some(n) => n,
            None => static_size(b, def, x, last)? as i64,
        };
        if n < 0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("N is not negative, got {n}")));
        }
        let mut column = b.shape(x);
        column.push(1);
        let x = b.reshape(x, &column)?;
        let mut power = b.full(dtype, &column, 1i64)?;
        let mut columns = Vec::new();
        for j in 0..n {
            if j > 0 {
                power = b.mul(power, x)?;
            }
            columns.push(power);
        }
        if columns.is_empty() {
            column.set(last + 1, 0);
            return Ok(smallvec![b.full(dtype, &column, 0i64)?]);
        }
        Ok(smallvec![crate::movement::concat(b, last + 1, &columns)?])
    },
    samples: &[Sample::grad("f32[3] in -2..2", 16), Sample::grad("f32[2,3] in -2..2, 2", 16)],
    refuses: &[Refusal::of("f32[2], -1", "linalg_vander: N is not negative, got -1")],
    ..PRODUCT
};

#[cfg(test)]
mod tests {
    #[test]
    fn a_chain_is_cut_where_it_is_cheap() {
        // 10×100, 100×5, 5×50: (AB)C takes 7,500 multiplications, A(BC) 75,000.
        assert_eq!(super::cheapest_cuts(&[10, 100, 5, 50])[0][2], 1);
        assert_eq!(super::cheapest_cuts(&[2, 3, 100, 2])[0][2], 0);
    }
}
