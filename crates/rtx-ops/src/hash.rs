//! A number that tells tensors apart.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{Class, DType, Dim, Kind, Shape};
use rtx_ir::{Builder, Grad, Jvp, OpDef, Prim, Refusal, Sample, Saves, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&HASH_TENSOR];

/// Exclusive or of the elements' bits.
pub static HASH_TENSOR: OpDef = OpDef {
    sig: "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    doc: "The exclusive or, along the dims or all, of the bits of each element: those of a float as f64, those of an \
          integer as i64. The only mode is 0.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, mode) = (args.tensor(0)?, args.int_or(3, 0)?);
        let class = b.dtype(x).class();
        if class == Class::Complex {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("a complex number has no word, got {}", b.ty(x)),
            ));
        }
        if mode != 0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("the only mode is 0, got {mode}")));
        }
        crate::lines::check_static(b, def.name(), x)?;
        let wide = b.cast(x, if class == Class::Float { DType::F64 } else { DType::I64 })?;
        let words = b.prim(Prim::Bitcast(DType::U64), &[wide])?;
        let shape = b.shape(x);
        let axes = args.dims_or_all(1, shape.rank())?;
        let kept: SmallVec<[usize; 4]> = (0..shape.rank()).filter(|a| !axes.contains(a)).collect();
        let order: SmallVec<[usize; 4]> = kept.iter().chain(&axes).copied().collect();
        let n: usize = axes.iter().map(|&a| shape.dim(a).bound()).product();
        let mut flat: Shape = kept.iter().map(|&a| shape.dim(a)).collect();
        flat.push(Dim::from(n));
        let words = b.permute(words, &order)?;
        let words = b.reshape(words, &flat)?;
        let word = exclusive_or(b, words, kept.len(), n)?;
        let out: Shape = if args.flag(2)? {
            (0..shape.rank()).map(|a| if axes.contains(&a) { Dim::from(1) } else { shape.dim(a) }).collect()
        } else {
            kept.iter().map(|&a| shape.dim(a)).collect()
        };
        Ok(smallvec![b.reshape(word, &out)?])
    },
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    samples: &[
        Sample::exact("f32[2,3] in -2..2"),
        Sample::exact("f32[2,5] in -2..2, 1"),
        Sample::exact("i64[5,2] in -9..9, 0, true"),
        Sample::exact("i64[0]"),
    ],
    refuses: &[Refusal::of("f32[2], [], false, 1", "hash_tensor: the only mode is 0, got 1")],
    stability: Stability::Stable,
    ..SPELLING
};

/// Along the last axis, of size `n`: halves meet until one is left.
fn exclusive_or(b: &mut Builder<'_>, mut x: ValueId, axis: usize, mut n: usize) -> rtx_core::Result<ValueId> {
    if n == 0 {
        let mut shape = b.shape(x);
        shape.set(axis, Dim::from(1));
        return b.zeros(b.dtype(x), &shape);
    }
    while n > 1 {
        let half = n / 2;
        let (first, second) = (b.slice(x, axis, 0, half)?, b.slice(x, axis, half as i64, half)?);
        let met = b.xor(first, second)?;
        x = if n.is_multiple_of(2) {
            met
        } else {
            let odd = b.slice(x, axis, n as i64 - 1, 1)?;
            b.prim(Prim::Concat { axis }, &[met, odd])?
        };
        n = n.div_ceil(2);
    }
    Ok(x)
}
