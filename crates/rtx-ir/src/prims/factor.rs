//! Matrix factorizations and triangular solves, over the last two dims; what stands before them is a batch.
use crate::{
    Bound, Builder, Factor, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Triangle,
    Type, Types, ValueId, record, rules,
};
use rtx_core::{DType, Dim, Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};

impl Factor {
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Factor::Cholesky => "cholesky",
            Factor::Lu => "lu",
            Factor::Qr { .. } => "qr",
            Factor::Eigh => "eigh",
            Factor::Eig => "eig",
            Factor::Svd { .. } => "svd",
        }
    }
    /// Are the square factors whole?
    pub const fn full(self) -> bool {
        matches!(self, Factor::Qr { full: true } | Factor::Svd { full: true })
    }
    /// By its name.
    pub fn parse(name: &str, full: bool) -> Option<Factor> {
        Some(match name {
            "cholesky" => Factor::Cholesky,
            "lu" => Factor::Lu,
            "qr" => Factor::Qr { full },
            "eigh" => Factor::Eigh,
            "eig" => Factor::Eig,
            "svd" => Factor::Svd { full },
            _ => return None,
        })
    }
    /// Does it take square matrices only?
    pub const fn is_square(self) -> bool {
        matches!(self, Factor::Cholesky | Factor::Eigh | Factor::Eig)
    }
}

/// Batch dims, rows and columns.
fn split(shape: &Shape) -> Option<(SmallVec<[Dim; 4]>, Dim, Dim)> {
    let r = shape.rank().checked_sub(2)?;
    Some((shape.iter().take(r).collect(), shape.dim(r), shape.dim(r + 1)))
}

fn infer_factor(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    let Some(&Prim::Factor(f)) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a factorization"));
    };
    let wrong = |what: &str| rules::refuse(f.name(), Kind::Shape, format_args!("{what}, got {x}"));
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return Err(rules::refuse(f.name(), Kind::DType, format_args!("needs an f32 or f64 tensor, got {x}")));
    }
    let (batch, m, n) = split(&x.shape).ok_or_else(|| wrong("needs matrices in the last two dims"))?;
    if f.is_square() && m != n {
        return Err(wrong("needs square matrices"));
    }
    let (Some(rows), Some(columns)) = (m.known(), n.known()) else {
        return Err(rules::refuse(f.name(), Kind::Unsupported, "a matrix of symbolic size is not factorized"));
    };
    let k = Dim::Const(rows.min(columns) as u64);
    let of = |dtype: DType, dims: &[Dim]| Type { dtype, shape: batch.iter().chain(dims).copied().collect() };
    let real = |dims: &[Dim]| of(x.dtype, dims);
    let int = |dims: &[Dim]| of(DType::I64, dims);
    Ok(match f {
        Factor::Cholesky => smallvec![real(&[n, n]), int(&[])],
        Factor::Lu => smallvec![real(&[m, n]), int(&[k]), int(&[m]), int(&[])],
        Factor::Qr { full: true } => smallvec![real(&[m, m]), real(&[m, n])],
        Factor::Qr { full: false } => smallvec![real(&[m, k]), real(&[k, n])],
        Factor::Eigh => smallvec![real(&[n]), real(&[n, n])],
        Factor::Eig => {
            let complex = if x.dtype == DType::F64 { DType::C128 } else { DType::C64 };
            smallvec![of(complex, &[n]), of(complex, &[n, n])]
        }
        Factor::Svd { full: true } => smallvec![real(&[m, m]), real(&[k]), real(&[n, n])],
        Factor::Svd { full: false } => smallvec![real(&[m, k]), real(&[k]), real(&[k, n])],
    })
}

fn infer_solve(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (a, x) = (inputs[0], inputs[1]);
    let fits = match (split(&a.shape), split(&x.shape)) {
        (Some((ba, m, n)), Some((bx, rows, _))) => ba == bx && m == n && n == rows && a.dtype == x.dtype,
        _ => false,
    };
    if !fits || !matches!(a.dtype, DType::F32 | DType::F64) {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: a {a}, b {x}")));
    }
    Ok(smallvec![x.clone()])
}

fn factor(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let word = record::word(def, a, 1)?;
    let Some(kind) = Factor::parse(word, record::flag(def, a, 2)?) else {
        let what = format_args!("kind takes cholesky, lu, qr, eigh, eig or svd, got {word:?}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    };
    b.apply(Op::Prim(Prim::Factor(kind)), &[x])
}
fn solve(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let [upper, transpose, unit] = [2, 3, 4].map(|i| record::flag(def, a, i));
    let prim = Prim::TriangularSolve { upper: upper?, transpose: transpose?, unit: unit? };
    Ok(smallvec![b.prim(prim, &[record::tensor(def, a, 0)?, record::tensor(def, a, 1)?])?])
}

/// The cotangent of output `i`, zeros where nothing flows in.
fn cotangent(b: &mut Builder<'_>, cx: &GradCx<'_>, i: usize) -> Result<ValueId> {
    cx.cotangents[i].map_or_else(|| b.zeros_like(cx.outputs[i]), Ok)
}
fn extents(b: &Builder<'_>, x: ValueId) -> (usize, usize) {
    let shape = b.shape(x);
    let r = shape.rank();
    (shape.dim(r - 2).bound(), shape.dim(r - 1).bound())
}
/// A cotangent of a symmetric matrix as one of its lower triangle, which is all that is read: an element below the
/// diagonal counts for both of its places.
fn to_lower(b: &mut Builder<'_>, g: ValueId) -> Result<ValueId> {
    let mirrored = b.transpose_last(g)?;
    let below = b.tril(mirrored, -1)?;
    let g = b.tril(g, 0)?;
    b.add(g, below)
}

fn grad_factor(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Factor(f)) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a factorization"));
    };
    cx.each(|_| match f {
        Factor::Cholesky => grad_cholesky(b, cx),
        Factor::Lu => grad_lu(b, cx),
        Factor::Qr { full } => grad_qr(b, cx, full),
        Factor::Eigh => grad_eigh(b, cx),
        Factor::Eig => Err(rules::refuse("eig", Kind::Unsupported, "has no derivative here: its results are complex")),
        Factor::Svd { .. } => grad_svd(b, cx),
    })
}

/// `L⁻ᵀ Φ(Lᵀ g) L⁻¹` with `Φ` the lower triangle, its diagonal halved (Murray 2016, "Differentiation of the Cholesky
/// decomposition", §5).
fn grad_cholesky(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<ValueId> {
    let (l, g) = (cx.outputs[0], cotangent(b, cx, 0)?);
    let lt = b.transpose_last(l)?;
    let product = b.matmul(lt, g)?;
    let (whole, below) = (b.tril(product, 0)?, b.tril(product, -1)?);
    let phi = b.add(whole, below)?;
    let phi = b.mul(phi, 0.5)?;
    let left = b.solve_triangle(Triangle::LOWER.t(), l, phi)?;
    let s = b.solve_triangle_right(Triangle::LOWER, l, left)?;
    to_lower(b, s)
}

/// For `P a = L U` with square `L` and `U`: `Pᵀ L⁻ᵀ (below(Lᵀ gL) + above(gU Uᵀ)) U⁻ᵀ`. What a wide or tall matrix has
/// besides: `a₂ = L u₂`, or `a₂ = l₂ U`.
fn grad_lu(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<ValueId> {
    let (lu, perm, g) = (cx.outputs[0], cx.outputs[2], cotangent(b, cx, 0)?);
    let (m, n) = extents(b, lu);
    let k = m.min(n);
    let (square_rows, g_rows) = (b.rows(lu, 0, k)?, b.rows(g, 0, k)?);
    let (square, gs) = (b.columns(square_rows, 0, k)?, b.columns(g_rows, 0, k)?);
    let (below, above) = (b.tril(gs, -1)?, b.triu(gs, 0)?);
    let u = b.triu(square, 0)?;
    let l = unit_lower(b, square)?;
    let (lt, ut) = (b.transpose_last(l)?, b.transpose_last(u)?);
    let mut in_l = b.matmul(lt, below)?;
    let mut in_u = b.matmul(above, ut)?;
    if n > k {
        let (u2, g2) = (b.columns(square_rows, k, n - k)?, b.columns(g_rows, k, n - k)?);
        let u2t = b.transpose_last(u2)?;
        let more = b.matmul(g2, u2t)?;
        in_l = b.sub(in_l, more)?;
    }
    let rest = if m > k { Some((b.rows(lu, k, m - k)?, b.rows(g, k, m - k)?)) } else { None };
    if let Some((l2, g2)) = rest {
        let l2t = b.transpose_last(l2)?;
        let more = b.matmul(l2t, g2)?;
        in_u = b.sub(in_u, more)?;
    }
    let (in_l, in_u) = (b.tril(in_l, -1)?, b.triu(in_u, 0)?);
    let inside = b.add(in_l, in_u)?;
    let left = b.solve_triangle(Triangle::UNIT_LOWER.t(), square, inside)?;
    let mut ga = b.solve_triangle_right(Triangle::UPPER.t(), square, left)?;
    if n > k {
        let g2 = b.columns(g_rows, k, n - k)?;
        let g2 = b.solve_triangle(Triangle::UNIT_LOWER.t(), square, g2)?;
        ga = beside(b, ga, g2, 1)?;
    }
    if let Some((_, g2)) = rest {
        let g2 = b.solve_triangle_right(Triangle::UPPER.t(), square, g2)?;
        ga = beside(b, ga, g2, 2)?;
    }
    // Row i of what was factorized is row perm[i] of the operand.
    let p = b.permutation(perm, b.dtype(ga))?;
    let pt = b.transpose_last(p)?;
    b.matmul(pt, ga)
}
/// `[x; y]` along an axis counted from the end.
fn beside(b: &mut Builder<'_>, x: ValueId, y: ValueId, from_end: usize) -> Result<ValueId> {
    let axis = b.rank(x) - from_end;
    b.prim(Prim::Concat { axis }, &[x, y])
}
/// The lower triangle with ones on the diagonal.
fn unit_lower(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let below = b.tril(x, -1)?;
    let on = b.on_diagonal(&b.shape(x))?;
    b.select(on, 1.0, below)
}

/// `(gQ + Q sym(above(gR Rᵀ - Qᵀ gQ))) R⁻ᵀ` for square `R`, where `sym` mirrors and counts the diagonal once
/// (Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions", §4). A wide matrix is
/// `Q [R₁ R₂]`: `gA₂ = Q gR₂`, and `gQ` gets `A₂ gR₂ᵀ`.
fn grad_qr(b: &mut Builder<'_>, cx: &GradCx<'_>, full: bool) -> Result<ValueId> {
    let (m, n) = extents(b, cx.inputs[0]);
    if full && m > n {
        let what = "the whole Q of a matrix with more rows than columns has no derivative";
        return Err(rules::refuse("qr", Kind::Unsupported, what));
    }
    let (q, r) = (cx.outputs[0], cx.outputs[1]);
    let (mut gq, gr) = (cotangent(b, cx, 0)?, cotangent(b, cx, 1)?);
    let k = m.min(n);
    let (r1, gr1) = (b.columns(r, 0, k)?, b.columns(gr, 0, k)?);
    let mut right = None;
    if n > k {
        let gr2 = b.columns(gr, k, n - k)?;
        let (a2, gr2t) = (b.columns(cx.inputs[0], k, n - k)?, b.transpose_last(gr2)?);
        let more = b.matmul(a2, gr2t)?;
        gq = b.add(gq, more)?;
        right = Some(b.matmul(q, gr2)?);
    }
    let (rt, qt) = (b.transpose_last(r1)?, b.transpose_last(q)?);
    // Below the diagonal `R` is zero whatever the operand is.
    let gr1 = b.triu(gr1, 0)?;
    let (in_r, in_q) = (b.matmul(gr1, rt)?, b.matmul(qt, gq)?);
    let inside = b.sub(in_r, in_q)?;
    let (whole, strict) = (b.triu(inside, 0)?, b.triu(inside, 1)?);
    let mirrored = b.transpose_last(strict)?;
    let sym = b.add(whole, mirrored)?;
    let product = b.matmul(q, sym)?;
    let g = b.add(gq, product)?;
    let g = b.solve_triangle_right(Triangle::UPPER.t(), r1, g)?;
    right.map_or(Ok(g), |right| beside(b, g, right, 1))
}

/// `V (diag(gw) + Vᵀ gV / E) Vᵀ`, `E[i, j] = w[j] - w[i]` off the diagonal (Giles 2008, "Collected matrix derivative
/// results", §3.1).
fn grad_eigh(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<ValueId> {
    let (w, v) = (cx.outputs[0], cx.outputs[1]);
    let vt = b.transpose_last(v)?;
    let mut inside = match cx.cotangents[1] {
        Some(gv) => {
            let product = b.matmul(vt, gv)?;
            let (row, column) = (b.as_row(w)?, b.as_column(w)?);
            let gap = b.sub(row, column)?;
            apart(b, product, gap)?
        }
        None => b.zeros_like(v)?,
    };
    if let Some(gw) = cx.cotangents[0] {
        inside = add_diagonal(b, inside, gw)?;
    }
    let left = b.matmul(v, inside)?;
    let s = b.matmul(left, vt)?;
    to_lower(b, s)
}
/// `x / gap` off the diagonal, 0 on it.
fn apart(b: &mut Builder<'_>, x: ValueId, gap: ValueId) -> Result<ValueId> {
    let on = b.on_diagonal(&b.shape(x))?;
    let gap = b.select(on, 1.0, gap)?;
    let y = b.div(x, gap)?;
    b.select(on, 0.0, y)
}
/// `x` with a vector added to its diagonal.
fn add_diagonal(b: &mut Builder<'_>, x: ValueId, d: ValueId) -> Result<ValueId> {
    let on = b.on_diagonal(&b.shape(x))?;
    let column = b.as_column(d)?;
    let d = b.select(on, column, 0.0)?;
    b.add(x, d)
}

/// `U ((skew(Uᵀ gU)/E) S + S (skew(Vᵀ gV)/E) + diag(gS)) Vᵀ` with `E[i, j] = s[j]² - s[i]²`, and where `U` or `V` have
/// fewer columns than rows what lies outside of their span (Townsend 2016, "Differentiating the singular value
/// decomposition").
fn grad_svd(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<ValueId> {
    let (m, n) = extents(b, cx.inputs[0]);
    let k = m.min(n);
    let s = cx.outputs[1];
    let (u, vt) = (b.columns(cx.outputs[0], 0, k)?, b.rows(cx.outputs[2], 0, k)?);
    let (ut, v) = (b.transpose_last(u)?, b.transpose_last(vt)?);
    let gu = cx.cotangents[0].map(|g| b.columns(g, 0, k)).transpose()?;
    let gvt = cx.cotangents[2].map(|g| b.rows(g, 0, k)).transpose()?;
    let (row, column) = (b.as_row(s)?, b.as_column(s)?);
    let (r2, c2) = (b.mul(row, row)?, b.mul(column, column)?);
    let gap = b.sub(r2, c2)?;
    let skew = |b: &mut Builder<'_>, x: ValueId| {
        let t = b.transpose_last(x)?;
        let d = b.sub(x, t)?;
        apart(b, d, gap)
    };
    let ty = Type { dtype: b.dtype(s), shape: b.shape(gap) };
    let mut inside = b.zeros(ty.dtype, &ty.shape)?;
    if let Some(gu) = gu {
        let x = b.matmul(ut, gu)?;
        let x = skew(b, x)?;
        let x = b.mul(x, row)?;
        inside = b.add(inside, x)?;
    }
    if let Some(gvt) = gvt {
        // Vᵀ gV is the transpose of gVᵀ V.
        let x = b.matmul(gvt, v)?;
        let x = b.transpose_last(x)?;
        let x = skew(b, x)?;
        let x = b.mul(x, column)?;
        inside = b.add(inside, x)?;
    }
    if let Some(gs) = cx.cotangents[1] {
        inside = add_diagonal(b, inside, gs)?;
    }
    let left = b.matmul(u, inside)?;
    let mut ga = b.matmul(left, vt)?;
    if let (Some(gu), true) = (gu, m > k) {
        let within = b.matmul(ut, gu)?;
        let within = b.matmul(u, within)?;
        let outside = b.sub(gu, within)?;
        let outside = b.div(outside, row)?;
        let more = b.matmul(outside, vt)?;
        ga = b.add(ga, more)?;
    }
    if let (Some(gvt), true) = (gvt, n > k) {
        let within = b.matmul(gvt, v)?;
        let within = b.matmul(within, vt)?;
        let outside = b.sub(gvt, within)?;
        let outside = b.div(outside, column)?;
        let more = b.matmul(u, outside)?;
        ga = b.add(ga, more)?;
    }
    Ok(ga)
}

/// `gB = op(A)⁻ᵀ g`, and of the triangle that is read `gA = -gB Xᵀ`, or its transpose.
fn grad_solve(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::TriangularSolve { upper, transpose, unit }) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a triangular solve"));
    };
    let (a, x) = (cx.inputs[0], cx.outputs[0]);
    let gb = b.solve_triangle(Triangle { upper, transpose, unit }.t(), a, cx.ct())?;
    cx.each(|i| {
        if i == 1 {
            return Ok(gb);
        }
        let (left, right) = if transpose { (x, gb) } else { (gb, x) };
        let right = b.transpose_last(right)?;
        let g = b.matmul(left, right)?;
        let g = b.neg(g)?;
        if upper { b.triu(g, i64::from(unit)) } else { b.tril(g, -i64::from(unit)) }
    })
}

const FACTORIZATION: OpDef = OpDef { cost: 100, numerics: Numerics::Claimed, ..OpDef::DEFAULT };

pub(super) static FACTOR: OpDef = OpDef {
    sig: "factor(Tensor self, str kind, bool full=False) -> Tensor[]",
    doc: "A factorization of the matrices in the last two dims: cholesky gives L and info, lu the packed factors, \
          pivots, permutation and info, qr Q and R, eigh eigenvalues and eigenvectors, svd U, S and V'. The largest \
          element of each eigenvector and left singular vector is positive (Golub and Van Loan, \"Matrix computations\").",
    record: |b, def, a| factor(b, def, a),
    infer: infer_factor,
    grad: Grad::Rule(grad_factor),
    saves: Saves::Only { inputs: &[0], outputs: &[0, 1, 2] },
    samples: &[
        Sample::grad("f64[3,3] = 4 0 0 1 5 0 -1 0.5 3, \"cholesky\"", 16),
        Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, \"lu\"", 16),
        Sample::grad("f64[2,4] = 0.5 2 1 4 1 -1 1 -2, \"lu\"", 16),
        Sample::grad("f64[4,2] = 0.5 2 4 1 1 -2 -1 3, \"lu\"", 16),
        Sample::grad("f64[4,2] = 0.5 2 4 1 1 -2 -1 3, \"qr\"", 16),
        Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1, \"qr\", true", 16),
        Sample::of("f64[4,2] = 0.5 2 4 1 1 -2 -1 3, \"qr\", true", 16),
        Sample::grad("f64[3,3] = 4 0 0 1 5 0 -1 0.5 3, \"eigh\"", 64),
        Sample::grad("f64[3,2] = 0.5 2 4 1 1 -2, \"svd\"", 64),
        Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1, \"svd\"", 64),
        Sample::of("f64[3,2] = 0.5 2 4 1 1 -2, \"svd\", true", 64),
        Sample::of("f32[2,3,3], \"qr\"", 64),
        Sample::of("f32[2,5,3], \"lu\"", 64),
        Sample::of("f32[0,3,3], \"eigh\"", 0),
        Sample::of("f32[2,0,0], \"cholesky\"", 0),
    ],
    refuses: &[
        Refusal::of("f32[2,3], \"cholesky\"", "cholesky: needs square matrices, got f32 [2, 3]"),
        Refusal::of("f32[3], \"svd\"", "svd: needs matrices in the last two dims, got f32 [3]"),
        Refusal::of("i64[2,2] in 0..3, \"lu\"", "lu: needs an f32 or f64 tensor, got i64 [2, 2]"),
        Refusal::of("f32[2,2], \"ldl\"", "factor: kind takes cholesky, lu, qr, eigh, eig or svd, got \"ldl\""),
    ],
    ..FACTORIZATION
};
pub(super) static TRIANGULAR_SOLVE: OpDef = OpDef {
    sig: "solve_triangle(Tensor a, Tensor b, bool upper, bool transpose=False, bool unit=False) -> Tensor",
    doc: "The `x` of `op(a) x = b` with `op(a)` the triangle of `a` or its transpose, by substitution; the other \
          triangle, and with `unit` the diagonal, is not read.",
    record: |b, def, a| solve(b, def, a),
    infer: infer_solve,
    grad: Grad::Rule(grad_solve),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample::grad("f64[3,3] = 4 9 9 1 5 9 -1 0.5 3, f64[3,2], false", 8),
        Sample::grad("f64[3,3] = 4 1 -1 9 5 0.5 9 9 3, f64[3,2], true", 8),
        Sample::grad("f64[3,3] = 4 9 9 1 5 9 -1 0.5 3, f64[3,2], false, true", 8),
        Sample::grad("f64[3,3] = 4 1 -1 9 5 0.5 9 9 3, f64[3,2], true, true, true", 8),
        Sample::of("f32[2,3,3] in 1..2, f32[2,3,1], true", 64),
        Sample::of("f32[0,0], f32[0,2], false", 0),
    ],
    refuses: &[Refusal::of("f32[3,3], f32[2,2], true", "triangular_solve: does not fit: a f32 [3, 3], b f32 [2, 2]")],
    ..FACTORIZATION
};
