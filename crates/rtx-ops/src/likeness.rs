//! Tensors made after others, conversions under Python's names, and what changes nothing.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Scalar, Shape};
use rtx_ir::{
    Arg, Body, Bound, Builder, Grad, Jvp, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, ValueId, record, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &ZEROS_LIKE,
    &ONES_LIKE,
    &EMPTY_LIKE,
    &FULL_LIKE,
    &NEW_ZEROS,
    &NEW_ONES,
    &NEW_EMPTY,
    &NEW_FULL,
    &EMPTY,
    &SCALAR_TENSOR,
    &LOGSPACE,
    &FILL,
    &FILL_TENSOR,
    &ZERO,
    &DOUBLE,
    &FLOAT,
    &HALF,
    &BFLOAT16,
    &LONG,
    &INT,
    &SHORT,
    &CHAR,
    &BYTE,
    &BOOL,
    &CFLOAT,
    &CDOUBLE,
    &TO_DEVICE,
    &TO_OTHER,
    &DETACH,
    &CONTIGUOUS,
    &ALIAS,
    &LIFT,
    &RESOLVE_CONJ,
    &RESOLVE_NEG,
];

const CREATION: OpDef = OpDef { grad: Grad::None, saves: Saves::NONE, stability: Stability::Stable, ..SPELLING };
const SAME: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// `(self, *, dtype)`: one number in the shape of another tensor.
macro_rules! like { ($($NAME:ident $name:literal $n:literal $what:literal;)*) => { $(
    #[doc = concat!($what, " in the shape of another tensor.")]
    pub static $NAME: OpDef = OpDef {
        sig: concat!($name, "(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
        doc: concat!($what, " in the shape of self, in its dtype by default."),
        record: |b, def, args| {
            let args = Args::new(def, args);
            let x = args.tensor(0)?;
            let dtype = args.dtype(1)?.unwrap_or(b.dtype(x));
            let shape = b.shape(x);
            Ok(smallvec![b.full(dtype, &shape, $n)?])
        },
        samples: &[Sample::exact("f32[2,3]"), Sample::exact("f32[2], i64")],
        ..CREATION
    };
)* } }
like! {
    ZEROS_LIKE "zeros_like" 0i64 "Zeros";
    ONES_LIKE "ones_like" 1i64 "Ones";
    EMPTY_LIKE "empty_like" 0i64 "Zeros, where PyTorch leaves memory unset,";
}
/// `(self, size, *, dtype)`: one number in a given shape, in the dtype of another tensor.
macro_rules! new { ($($NAME:ident $name:literal $n:literal $what:literal;)*) => { $(
    #[doc = concat!($what, " in the dtype of another tensor.")]
    pub static $NAME: OpDef = OpDef {
        sig: concat!($name, "(Tensor self, SymInt[] size, *, ScalarType? dtype=None) -> Tensor"),
        doc: concat!($what, " of the given sizes, in the dtype of self by default."),
        record: |b, def, args| {
            let args = Args::new(def, args);
            let x = args.tensor(0)?;
            let dtype = args.dtype(2)?.unwrap_or(b.dtype(x));
            Ok(smallvec![b.full(dtype, &args.shape(1)?, $n)?])
        },
        samples: &[Sample::exact("f32[2,3], [2]"), Sample::exact("f32[2], [3,1], i64")],
        ..CREATION
    };
)* } }
new! {
    NEW_ZEROS "new_zeros" 0i64 "Zeros";
    NEW_ONES "new_ones" 1i64 "Ones";
    NEW_EMPTY "new_empty" 0i64 "Zeros, where PyTorch leaves memory unset,";
}
/// Zeros: memory is never unset.
pub static EMPTY: OpDef = OpDef {
    sig: "empty.memory_format(SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
    doc: "Zeros, where PyTorch leaves memory unset; f32 by default.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        Ok(smallvec![b.full(args.dtype(1)?.unwrap_or(DType::F32), &args.shape(0)?, 0i64)?])
    },
    samples: &[Sample::exact("[2,3]")],
    ..CREATION
};
/// A number in the shape of another tensor.
pub static FULL_LIKE: OpDef = OpDef {
    sig: "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
    doc: "The number in the shape of self, in its dtype by default. It makes no new plan.",
    runtime: &["fill_value"],
    record: |b, def, args| {
        let given = Args::new(def, args);
        let x = given.tensor(0)?;
        let (dtype, shape) = (given.dtype(2)?.unwrap_or(b.dtype(x)), b.shape(x));
        filled(b, def, args, 1, dtype, &shape)
    },
    samples: &[Sample::exact("f32[2,3], 0.5"), Sample::exact("f32[2], 3, i64")],
    refuses: &[Refusal::of("f32[2], \"x\"", "full_like: fill_value takes a tensor or a number, got \"x\"")],
    ..CREATION
};
/// A number in a given shape, in the dtype of another tensor.
pub static NEW_FULL: OpDef = OpDef {
    sig: "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
    doc: "The number in the given sizes, in the dtype of self by default. It makes no new plan.",
    runtime: &["fill_value"],
    record: |b, def, args| {
        let given = Args::new(def, args);
        let x = given.tensor(0)?;
        let dtype = given.dtype(3)?.unwrap_or(b.dtype(x));
        filled(b, def, args, 2, dtype, &given.shape(1)?)
    },
    samples: &[Sample::exact("f32[2,3], [2], 0.5")],
    ..CREATION
};
/// A tensor of one number.
pub static SCALAR_TENSOR: OpDef = OpDef {
    sig: "scalar_tensor(Scalar s, *, ScalarType? dtype=None) -> Tensor",
    doc: "The number as a tensor of rank 0; f32 by default.",
    runtime: &["s"],
    record: |b, def, args| {
        let dtype = Args::new(def, args).dtype(1)?.unwrap_or(DType::F32);
        filled(b, def, args, 0, dtype, &Shape::scalar())
    },
    samples: &[Sample::exact("0.5"), Sample::exact("3, i64")],
    ..CREATION
};
fn filled(b: &mut Builder<'_>, def: &OpDef, args: &Bound, i: usize, dtype: DType, shape: &Shape) -> Result<Outs> {
    let number = match args.get(i) {
        Arg::Bool(x) => b.param(dtype, Scalar::Bool(*x))?,
        _ => record::tensor_or_number(b, def, args, i, dtype)?,
    };
    let number = b.cast(number, dtype)?;
    Ok(smallvec![b.expand(number, shape)?])
}

/// Powers at equal distances.
pub static LOGSPACE: OpDef = OpDef {
    sig: "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None) -> Tensor",
    doc: "base to the power of steps numbers from start to end, both included.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let dtype = given.dtype(4)?.unwrap_or(DType::F32);
        let compute = if dtype.is_float() { rules::number_dtype(dtype) } else { DType::F64 };
        let exponents = Bound::from([
            args.get(0).clone(),
            args.get(1).clone(),
            args.get(2).clone(),
            // In more precision than the result: an error of an exponent grows with it.
            Arg::DType(DType::F64),
        ]);
        let exponents = (crate::create::LINSPACE.record)(b, def, &exponents)?[0];
        let base = b.constant(DType::F64, given.float_or(3, 10.0)?)?;
        let base = b.expand(base, &b.shape(exponents))?;
        let y = b.pow(base, exponents)?;
        let y = b.cast(y, compute)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[Sample::of("0, 2, 5", 16), Sample::of("1, 3, 4, 2", 16)],
    refuses: &[Refusal::of("0, 1, -1", "logspace: a number of steps is not negative, got -1")],
    ..CREATION
};

/// Every element becomes a number.
pub static FILL: OpDef = OpDef {
    sig: "fill.Scalar(Tensor self, Scalar value) -> Tensor",
    doc: "The number everywhere, in the shape and dtype of self.",
    runtime: &["value"],
    record: record_fill,
    samples: &[Sample::exact("f32[2,3], 0.5")],
    ..CREATION
};
/// Every element becomes the number of a tensor.
pub static FILL_TENSOR: OpDef = OpDef {
    sig: "fill.Tensor(Tensor self, Tensor value) -> Tensor",
    doc: "The one number of value everywhere, in the shape and dtype of self.",
    record: record_fill,
    samples: &[Sample::grad("f32[2,3], f32[] in -2..2", 0)],
    refuses: &[Refusal::of("f32[2], f32[2]", "fill: value is one number, got [2]")],
    ..SAME
};
fn record_fill(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let x = Args::new(def, args).tensor(0)?;
    if let Arg::Value(v) = args.get(1)
        && b.rank(*v) != 0
    {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("value is one number, got {}", b.shape(*v))));
    }
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    filled(b, def, args, 1, dtype, &shape)
}
/// Every element becomes 0.
pub static ZERO: OpDef = OpDef {
    sig: "zero(Tensor self) -> Tensor",
    doc: "Zeros in the shape and dtype of self.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        Ok(smallvec![b.zeros_like(x)?])
    },
    samples: &[Sample::exact("f32[2,3]")],
    ..CREATION
};

/// Conversions under the names of Python's types.
macro_rules! casts { ($($NAME:ident $name:literal $to:ident;)*) => { $(
    #[doc = concat!("As ", stringify!($to), ".")]
    pub static $NAME: OpDef = OpDef {
        sig: concat!($name, "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
        doc: concat!("Converted to ", stringify!($to), "."),
        record: |b, def, args| {
            let x = Args::new(def, args).tensor(0)?;
            Ok(smallvec![b.cast(x, DType::$to)?])
        },
        samples: &[Sample::exact("f32[2,3] in 0..2")],
        ..SAME
    };
)* } }
casts! {
    DOUBLE "double" F64;
    FLOAT "float" F32;
    HALF "half" F16;
    BFLOAT16 "bfloat16" BF16;
    LONG "long" I64;
    INT "int" I32;
    SHORT "short" I16;
    CHAR "char" I8;
    BYTE "byte" U8;
    BOOL "bool" Bool;
    CFLOAT "cfloat" C64;
    CDOUBLE "cdouble" C128;
}
/// Converted; the device is this one.
pub static TO_DEVICE: OpDef = OpDef {
    sig: "to.device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Converted to a dtype; a graph does not move tensors to another device.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let (x, dtype) = (given.tensor(0)?, given.dtype(2)?);
        if !matches!(args.get(1), Arg::None | Arg::Str("cpu")) {
            return Err(rules::refuse(
                def.name(),
                Kind::Unsupported,
                "a call does not move a tensor to another device",
            ));
        }
        let dtype = dtype.unwrap_or(b.dtype(x));
        Ok(smallvec![b.cast(x, dtype)?])
    },
    samples: &[Sample::exact("f32[2,3], \"cpu\", f64")],
    refuses: &[Refusal::of("f32[2], \"far\", f64", "to: a call does not move a tensor to another device")],
    ..SAME
};
/// Converted to the dtype of another tensor.
pub static TO_OTHER: OpDef = OpDef {
    sig: "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Converted to the dtype of other.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, other) = (args.tensor(0)?, args.tensor(1)?);
        Ok(smallvec![b.cast(x, b.dtype(other))?])
    },
    samples: &[Sample::exact("f32[2,3], f64[]")],
    ..SAME
};
/// The value, constant to gradients.
pub(crate) fn detached(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    Ok(b.call(&DETACH, [Arg::Value(x)])?[0])
}

/// No gradient goes through.
pub static DETACH: OpDef = OpDef {
    sig: "detach(Tensor(a) self) -> Tensor(a)",
    doc: "The tensor itself, without a way for gradients: what depends on it is constant to them.",
    infer: rules::infer_same,
    // A reshape to its own shape costs nothing.
    body: Body::Composite(|b, _, v| {
        let shape = b.shape(v[0]);
        Ok(smallvec![b.prim(Prim::Reshape(shape), v)?])
    }),
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    cost: 0,
    samples: &[Sample::exact("f32[2,3]"), Sample::exact("i64[2] in -9..9")],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// What PyTorch does to memory, which is the plan's affair here.
macro_rules! identities { ($($NAME:ident $sig:literal $doc:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: identity,
        samples: &[Sample::grad("f32[2,3] in -2..2", 0)],
        ..SAME
    };
)* } }
identities! {
    CONTIGUOUS "contiguous(Tensor(a) self) -> Tensor(a)"
        "The tensor itself: where memory lies is the plan's affair.";
    ALIAS "alias(Tensor(a) self) -> Tensor(a)" "The tensor itself.";
    LIFT "lift(Tensor self) -> Tensor" "The tensor itself.";
    RESOLVE_CONJ "resolve_conj(Tensor(a) self) -> Tensor(a)" "The tensor itself: conjugation is never postponed.";
    RESOLVE_NEG "resolve_neg(Tensor(a) self) -> Tensor(a)" "The tensor itself: negation is never postponed.";
}
fn identity(_: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    Ok(smallvec![Args::new(def, args).tensor(0)?])
}
