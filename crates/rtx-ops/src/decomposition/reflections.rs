//! Products of Householder reflections, as `geqrf` leaves them.
use super::{extents, lead, matrices};
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{Builder, OpDef, Refusal, Sample, Stability, Triangle, ValueId, rules};
use smallvec::smallvec;

/// Q = H₁ H₂ … with Hᵢ = 1 − τᵢ vᵢ vᵢᵀ, as 1 − V T Vᵀ: T = (1 + D S)⁻¹ D with D the diagonal of τ and S what of VᵀV is
/// above the diagonal. Schreiber and Van Loan 1989, SIAM J. Sci. Stat. Comput. 10(1).
struct Reflections {
    /// `[.., m, k]`, ones on the diagonal and zeros above.
    v: ValueId,
    /// τ as a column.
    d: ValueId,
    /// 1 + D S.
    upper: ValueId,
    count: usize,
}

const UNIT_UPPER: Triangle = Triangle { upper: true, transpose: false, unit: true };

impl Reflections {
    /// Of arguments 0, vectors below the diagonal, and 1, τ.
    fn of(b: &mut Builder<'_>, args: Args<'_>) -> Result<Self> {
        let (x, tau) = (matrices(b, &args, 0, false)?, args.tensor(1)?);
        let ((m, n), shape) = (extents(b, x), b.shape(tau));
        let count = shape.iter().last().map_or(0, Dim::bound);
        let fits = shape.rank() + 1 == b.rank(x)
            && shape.iter().take(shape.rank() - 1).eq(lead(b, x).iter())
            && count <= n
            && count <= m
            && b.dtype(tau) == b.dtype(x);
        if !fits {
            let what = format_args!("does not fit: vectors {}, tau {}", b.ty(x), b.ty(tau));
            return Err(rules::refuse(args.op(), Kind::Shape, what));
        }
        let axis = b.rank(x) - 1;
        let v = b.slice(x, axis, 0, count)?;
        let below = b.tril(v, -1)?;
        let unit = b.identity(b.dtype(v), &b.shape(v))?;
        let v = b.add(below, unit)?;
        let d = b.as_column(tau)?;
        let vt = b.transpose_last(v)?;
        let products = b.matmul(vt, v)?;
        let above = b.triu(products, 1)?;
        let d_wide = b.expand(d, &b.shape(above))?;
        let upper = b.mul(d_wide, above)?;
        Ok(Self { v, d, upper, count })
    }
    /// Q y, or Qᵀ y.
    fn apply(&self, b: &mut Builder<'_>, y: ValueId, transposed: bool) -> Result<ValueId> {
        if self.count == 0 {
            return Ok(y);
        }
        let vt = b.transpose_last(self.v)?;
        let w = b.matmul(vt, y)?;
        let d = b.expand(self.d, &b.shape(w))?;
        let w = if transposed {
            let w = b.solve_triangle(UNIT_UPPER.t(), self.upper, w)?;
            b.mul(d, w)?
        } else {
            let w = b.mul(d, w)?;
            b.solve_triangle(UNIT_UPPER, self.upper, w)?
        };
        let away = b.matmul(self.v, w)?;
        b.sub(y, away)
    }
}

/// The first columns of the product.
pub static LINALG_HOUSEHOLDER_PRODUCT: OpDef = OpDef {
    sig: "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    doc: "The first columns, as many as input has, of the product of the reflections 1 − τᵢ vᵢ vᵢᵀ, whose vectors stand \
          below the diagonal of input, with a one on it.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let all = Reflections::of(b, args)?;
        let x = args.tensor(0)?;
        let unit = b.identity(b.dtype(x), &b.shape(x))?;
        Ok(smallvec![all.apply(b, unit, false)?])
    },
    samples: &[
        Sample::grad("f64[3,2] in -1..1, f64[2] in 0.5..1.5", 64),
        Sample::of("f32[2,3,3] in -1..1, f32[2,2] in 0.5..1.5", 1024),
    ],
    refuses: &[Refusal::of(
        "f32[3,2], f32[3]",
        "linalg_householder_product: does not fit: vectors f32 [3, 2], tau f32 [3]",
    )],
    stability: Stability::Stable,
    ..SPELLING
};
/// The product times matrices.
pub static ORMQR: OpDef = OpDef {
    sig: "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    doc: "Q C, Qᵀ C, C Q or C Qᵀ for the whole product Q of the reflections of self and τ, input2, and matrices C, input3.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (all, c) = (Reflections::of(b, args)?, matrices(b, &args, 2, false)?);
        let (left, transposed) = (!matches!(args.get(3), rtx_ir::Arg::Bool(false)), args.flag(4)?);
        let (m, _) = extents(b, args.tensor(0)?);
        let (rows, columns) = extents(b, c);
        let batches: (Shape, Shape) = (lead(b, args.tensor(0)?), lead(b, c));
        if batches.0 != batches.1 || m != if left { rows } else { columns } {
            let what = format_args!("does not fit: vectors {}, other {}", b.ty(args.tensor(0)?), b.ty(c));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        if left {
            return Ok(smallvec![all.apply(b, c, transposed)?]);
        }
        // C Q = (Qᵀ Cᵀ)ᵀ.
        let ct = b.transpose_last(c)?;
        let y = all.apply(b, ct, !transposed)?;
        Ok(smallvec![b.transpose_last(y)?])
    },
    samples: &[
        Sample::grad("f64[3,2] in -1..1, f64[2] in 0.5..1.5, f64[3,2]", 64),
        Sample::grad("f64[3,2] in -1..1, f64[2] in 0.5..1.5, f64[2,3], false, true", 64),
    ],
    refuses: &[Refusal::of("f32[3,2], f32[2], f32[2,3]", "ormqr: does not fit: vectors f32 [3, 2], other f32 [2, 3]")],
    stability: Stability::Stable,
    ..SPELLING
};
