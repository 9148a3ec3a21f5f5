//! Convolutions, plain and transposed: spellings of one primitive.
use crate::args::Args;
use crate::precision::widen;
use crate::spatial::{Each, along, check_least, list, sizes, with_batch, without_batch};
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{
    Amp, Bound, Builder, ConvDim, Convolution, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &CONV1D,
    &CONV1D_PADDING,
    &CONV2D,
    &CONV2D_PADDING,
    &CONV3D,
    &CONV3D_PADDING,
    &CONV_TRANSPOSE1D,
    &CONV_TRANSPOSE2D,
    &CONV_TRANSPOSE3D,
    &CONVOLUTION,
];

/// Where windows lie, a number a spatial dim.
struct Geometry {
    stride: Each<i64>,
    /// Zeros before and after.
    padding: Each<(i64, i64)>,
    dilation: Each<i64>,
    /// Of a transposed convolution.
    output_padding: Option<Each<i64>>,
    groups: i64,
}

impl Geometry {
    fn check(&self, op: &str) -> Result<()> {
        check_least(op, "stride", &self.stride, 1)?;
        check_least(op, "dilation", &self.dilation, 1)?;
        check_least(op, "groups", &[self.groups], 1)?;
        let padding: Each<i64> = self.padding.iter().map(|p| p.0.min(p.1)).collect();
        check_least(op, "padding", &padding, 0)?;
        let Some(more) = &self.output_padding else { return Ok(()) };
        check_least(op, "output_padding", more, 0)?;
        for (i, &n) in more.iter().enumerate() {
            let below = self.stride[i].max(self.dilation[i]);
            if n >= below {
                let what = format_args!("output_padding {n} is not below the stride and dilation, {below}");
                return Err(rules::refuse(op, Kind::Argument, what));
            }
        }
        Ok(())
    }
    /// As the primitive has it.
    fn dims(&self, window: &[i64]) -> SmallVec<[ConvDim; 2]> {
        let dim = |i: usize| {
            let (stride, dilation, (low, high)) = (self.stride[i], self.dilation[i], self.padding[i]);
            match &self.output_padding {
                None => ConvDim { stride: stride as u64, low, high, base: 1, dilation: dilation as u64 },
                Some(more) => {
                    let reach = dilation * (window[i] - 1);
                    let (low, high) = (reach - low, reach - high + more[i]);
                    ConvDim { stride: 1, low, high, base: stride as u64, dilation: dilation as u64 }
                }
            }
        };
        (0..window.len()).map(dim).collect()
    }
}

/// The operands meet, in channels and dtype.
fn check_operands(b: &Builder<'_>, op: &str, v: (ValueId, ValueId, Option<ValueId>), g: &Geometry) -> Result<()> {
    let (x, w, bias) = v;
    let (tx, tw) = (b.ty(x), b.ty(w));
    let show = || format!("input {}, weight {}", tx.shape, tw.shape);
    let refuse = |kind, what: String| Err(rules::refuse(op, kind, what));
    if tw.rank() != tx.rank() {
        return refuse(Kind::Shape, format!("needs a weight of {} dims: {}", tx.rank(), show()));
    }
    if tx.dtype != tw.dtype || bias.is_some_and(|v| b.dtype(v) != tx.dtype) {
        let third = bias.map_or(String::new(), |v| format!(", bias {}", b.ty(v)));
        return refuse(Kind::DType, format!("dtypes differ: input {tx}, weight {tw}{third}"));
    }
    if tx.dtype == DType::Bool {
        return refuse(Kind::DType, format!("needs tensors of numbers: input {tx}"));
    }
    let (channels, groups) = (tx.shape.dim(1), g.groups as u64);
    let (first, second) = (tw.shape.dim(0), tw.shape.dim(1));
    let (takes, outs) = match (g.output_padding.is_some(), second) {
        (true, Dim::Const(n)) => (first, Dim::Const(n.saturating_mul(groups))),
        (false, Dim::Const(n)) => (Dim::Const(n.saturating_mul(groups)), first),
        (true, d) => (first, d),
        (false, d) => (d, first),
    };
    if channels != takes {
        return refuse(Kind::Shape, format!("input has {channels} channels, the weight takes {takes}: {}", show()));
    }
    if first.known().is_some_and(|n| !(n as u64).is_multiple_of(groups)) {
        return refuse(Kind::Shape, format!("{first} does not divide into {groups} groups: {}", show()));
    }
    match bias {
        Some(v) if b.shape(v) != Shape::from_iter([outs]) => {
            refuse(Kind::Shape, format!("the weight makes {outs} channels, the bias has {}: {}", b.shape(v), show()))
        }
        _ => Ok(()),
    }
}

/// `[groups · b, a / groups, ..]` of `[a, b, ..]`, whose first dim is split into groups.
fn turned(b: &mut Builder<'_>, w: ValueId, groups: usize) -> Result<ValueId> {
    let mut w = w;
    for axis in 2..b.rank(w) {
        let n = b.ty(w).shape.dim(axis);
        let last = b.constant(DType::I64, n.bound() as i64 - 1)?;
        w = b.slice_at(w, axis, last, n, -1)?;
    }
    let shape = b.shape(w);
    let (first, second) = (shape.dim(0).bound() / groups, shape.dim(1).bound());
    let rest = || shape.iter().skip(2);
    let split: Shape = [groups, first, second].map(Dim::from).into_iter().chain(rest()).collect();
    let w = b.reshape(w, &split)?;
    let order: SmallVec<[usize; 6]> = [0, 2, 1].into_iter().chain(3..split.rank()).collect();
    let w = b.permute(w, &order)?;
    let joined: Shape = [groups * second, first].map(Dim::from).into_iter().chain(rest()).collect();
    b.reshape(w, &joined)
}

/// The convolution of images, batched or not, with `n` spatial dims.
fn convolve(
    b: &mut Builder<'_>,
    op: &str,
    (x, w, bias): (ValueId, ValueId, Option<ValueId>),
    n: usize,
    g: &Geometry,
) -> Result<Outs> {
    g.check(op)?;
    let (x, was_single) = with_batch(b, op, x, n)?;
    check_operands(b, op, (x, w, bias), g)?;
    let (size, window) = (sizes(b, op, x, n)?, sizes(b, op, w, n)?);
    let dims = g.dims(&window);
    for (i, d) in dims.iter().enumerate() {
        let padded = ConvDim::span(size[i] as u64, d.base) + i128::from(d.low) + i128::from(d.high);
        if padded < ConvDim::span(window[i] as u64, d.dilation) || window[i] == 0 {
            let what = format_args!("the window does not fit: input {}, weight {}", b.shape(x), b.shape(w));
            return Err(rules::refuse(op, Kind::Shape, what));
        }
    }
    let dtype = b.dtype(x);
    let (mut x, mut w) = (x, w);
    if bias.is_some() {
        (x, w) = (widen(b, x)?, widen(b, w)?);
    }
    if g.output_padding.is_some() {
        w = turned(b, w, g.groups as usize)?;
    }
    let mut y = b.prim(Prim::Conv(Box::new(Convolution { dims, groups: g.groups as usize })), &[x, w])?;
    if let Some(bias) = bias {
        let bias = widen(b, bias)?;
        let bias = along(b, bias, 1, n + 2)?;
        y = b.add(y, bias)?;
        y = b.cast(y, dtype)?;
    }
    Ok(smallvec![without_batch(b, y, was_single)?])
}

/// `(input, weight, bias, stride, padding, dilation, groups)`.
fn record_conv(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let operands = (args.tensor(0)?, args.tensor(1)?, args.optional_tensor(2)?);
    let padding = list(args, 4, n, &[0])?.iter().map(|&p| (p, p)).collect();
    let g = Geometry {
        stride: list(args, 3, n, &[1])?,
        padding,
        dilation: list(args, 5, n, &[1])?,
        output_padding: None,
        groups: args.int_or(6, 1)?,
    };
    convolve(b, def.name(), operands, n, &g)
}

/// The same with a word for the padding.
fn record_conv_padding(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let operands = (args.tensor(0)?, args.tensor(1)?, args.optional_tensor(2)?);
    let (stride, dilation) = (list(args, 3, n, &[1])?, list(args, 5, n, &[1])?);
    let mut padding: Each<(i64, i64)> = SmallVec::from_elem((0, 0), n);
    if args.choice(4, &["valid", "same"])? == "same" {
        if stride.iter().any(|&s| s != 1) {
            return Err(rules::refuse(def.name(), Kind::Argument, "padding \"same\" takes a stride of 1"));
        }
        let window = b.shape(operands.1);
        for (i, p) in padding.iter_mut().enumerate() {
            let k = window.iter().nth(2 + i).and_then(Dim::known).unwrap_or(1) as i64;
            let total = dilation[i] * (k - 1);
            *p = (total / 2, total - total / 2);
        }
    }
    let g = Geometry { stride, padding, dilation, output_padding: None, groups: args.int_or(6, 1)? };
    convolve(b, def.name(), operands, n, &g)
}

/// `(input, weight, bias, stride, padding, output_padding, groups, dilation)`.
fn record_transposed(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, n: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let operands = (args.tensor(0)?, args.tensor(1)?, args.optional_tensor(2)?);
    let padding = list(args, 4, n, &[0])?.iter().map(|&p| (p, p)).collect();
    let g = Geometry {
        stride: list(args, 3, n, &[1])?,
        padding,
        dilation: list(args, 7, n, &[1])?,
        output_padding: Some(list(args, 5, n, &[0])?),
        groups: args.int_or(6, 1)?,
    };
    convolve(b, def.name(), operands, n, &g)
}

const CONV: OpDef = OpDef { amp: Amp::Low, cost: 2, stability: Stability::Stable, ..SPELLING };

/// Over one spatial dim.
pub static CONV1D: OpDef = OpDef {
    sig: "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
    doc: "out[n, o, p] = bias[o] + Σ over c, k of input[n, c, p · stride + k · dilation - padding] · weight[o, c, k]; \
          halves with a bias are summed in f32.",
    record: |b, def, args| record_conv(b, def, args, 1),
    samples: &[
        Sample::grad("f32[2,3,7], f32[4,3,3], f32[4], [2], [1]", 64),
        Sample::grad("f32[4,9], f32[4,2,2], none, 1, 0, 3, 2", 64),
        Sample::of("bf16[1,2,5], bf16[3,2,2], bf16[3]", 1 << 17),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3,7], f32[4,2,3]",
            "conv1d: input has 3 channels, the weight takes 2: input [2, 3, 7], weight [4, 2, 3]",
        ),
        Refusal::of("f32[2,3,7], f32[4,3,9]", "conv1d: the window does not fit: input [2, 3, 7], weight [4, 3, 9]"),
        Refusal::of("f32[2,3,7], f32[4,3,3], none, 0", "conv1d: stride is at least 1, got 0"),
        Refusal::of("f32[7], f32[4,3,3]", "conv1d: takes 2 or 3 dims, got [7]"),
        Refusal::of(
            "f32[2,3,7], f32[4,3,3], f32[3]",
            "conv1d: the weight makes 4 channels, the bias has [3]: input [2, 3, 7], weight [4, 3, 3]",
        ),
        Refusal::of("f32[2,3,7], f64[4,3,3]", "conv1d: dtypes differ: input f32 [2, 3, 7], weight f64 [4, 3, 3]"),
        Refusal::of(
            "f32[2,4,7], f32[3,2,3], none, 1, 0, 1, 2",
            "conv1d: 3 does not divide into 2 groups: input [2, 4, 7], weight [3, 2, 3]",
        ),
    ],
    ..CONV
};
/// Over one spatial dim, the padding in a word.
pub static CONV1D_PADDING: OpDef = OpDef {
    sig: "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
    doc: "`conv1d` with no padding (\"valid\"), or with as much as keeps the size (\"same\", the odd one behind).",
    record: |b, def, args| record_conv_padding(b, def, args, 1),
    samples: &[
        Sample::grad("f32[2,3,7], f32[4,3,4], f32[4], [1], \"same\", [2]", 64),
        Sample::grad("f32[2,3,7], f32[4,3,3], none, [2], \"valid\"", 64),
    ],
    refuses: &[
        Refusal::of("f32[2,3,7], f32[4,3,3], none, 2, \"same\"", "conv1d: padding \"same\" takes a stride of 1"),
        Refusal::of("f32[2,3,7], f32[4,3,3], none, 1, \"some\"", "conv1d: \"some\" is not one of \"valid\", \"same\""),
    ],
    ..CONV
};
/// Over two spatial dims.
pub static CONV2D: OpDef = OpDef {
    sig: "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    doc: "`conv1d` over two spatial dims.",
    record: |b, def, args| record_conv(b, def, args, 2),
    samples: &[
        Sample::grad("f32[2,3,5,6], f32[4,3,3,2], f32[4], [2, 1], [1, 0]", 64),
        Sample::grad("f32[2,4,5,5], f32[4,2,2,2], f32[4], 1, 1, [2, 1], 2", 64),
        Sample::grad("f32[3,4,4], f32[2,3,1,1]", 64),
    ],
    refuses: &[Refusal::of("f32[2,3,5,6], f32[4,3,3,2], none, [1, 1, 1]", "conv2d: stride takes 2 numbers, got 3")],
    ..CONV
};
/// Over two spatial dims, the padding in a word.
pub static CONV2D_PADDING: OpDef = OpDef {
    sig: "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    doc: "`conv2d` with no padding (\"valid\"), or with as much as keeps the size (\"same\", the odd one behind).",
    record: |b, def, args| record_conv_padding(b, def, args, 2),
    samples: &[Sample::grad("f32[2,2,5,4], f32[4,2,3,2], f32[4], [1, 1], \"same\"", 64)],
    ..CONV
};
/// Over three spatial dims.
pub static CONV3D: OpDef = OpDef {
    sig: "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
    doc: "`conv1d` over three spatial dims.",
    record: |b, def, args| record_conv(b, def, args, 3),
    samples: &[Sample::grad("f32[1,2,3,4,3], f32[2,1,2,2,2], f32[2], [1, 2, 1], [0, 1, 1], 1, 2", 64)],
    ..CONV
};
/// Over three spatial dims, the padding in a word.
pub static CONV3D_PADDING: OpDef = OpDef {
    sig: "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
    doc: "`conv3d` with no padding (\"valid\"), or with as much as keeps the size (\"same\", the odd one behind).",
    record: |b, def, args| record_conv_padding(b, def, args, 3),
    samples: &[Sample::grad("f32[1,1,3,2,3], f32[2,1,2,2,3], none, [1, 1, 1], \"same\"", 64)],
    ..CONV
};
/// The gradient of [`CONV1D`] in its input, as an op.
pub static CONV_TRANSPOSE1D: OpDef = OpDef {
    sig: "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor",
    doc: "The transpose of `conv1d` with weight [c, o / groups, k], plus bias: element p goes to p · stride + k · dilation - padding; \
          the result is output_padding longer.",
    record: |b, def, args| record_transposed(b, def, args, 1),
    samples: &[
        Sample::grad("f32[2,3,4], f32[3,2,3], f32[2], [2], [1], [1]", 64),
        Sample::grad("f32[4,3], f32[4,3,2], none, 3, 0, 0, 2, 2", 64),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3,4], f32[2,3,3]",
            "conv_transpose1d: input has 3 channels, the weight takes 2: input [2, 3, 4], weight [2, 3, 3]",
        ),
        Refusal::of(
            "f32[2,3,4], f32[3,2,3], none, 2, 0, 2",
            "conv_transpose1d: output_padding 2 is not below the stride and dilation, 2",
        ),
    ],
    ..CONV
};
/// The gradient of [`CONV2D`] in its input, as an op.
pub static CONV_TRANSPOSE2D: OpDef = OpDef {
    sig: "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor",
    doc: "`conv_transpose1d` over two spatial dims.",
    record: |b, def, args| record_transposed(b, def, args, 2),
    samples: &[Sample::grad("f32[2,2,3,3], f32[2,1,3,2], f32[2], [2, 1], [1, 0], [1, 0], 2", 64)],
    ..CONV
};
/// The gradient of [`CONV3D`] in its input, as an op.
pub static CONV_TRANSPOSE3D: OpDef = OpDef {
    sig: "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor",
    doc: "`conv_transpose1d` over three spatial dims.",
    record: |b, def, args| record_transposed(b, def, args, 3),
    samples: &[Sample::grad("f32[1,2,2,2,2], f32[2,1,2,2,3], none, [2, 1, 1]", 64)],
    ..CONV
};
/// Every convolution under one name.
pub static CONVOLUTION: OpDef = OpDef {
    sig: "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    doc: "`conv1d`, `conv2d`, `conv3d` or their transposes, by the rank of the weight.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let operands = (args.tensor(0)?, args.tensor(1)?, args.optional_tensor(2)?);
        let n = b.rank(operands.1).saturating_sub(2);
        if !(1..=3).contains(&n) {
            let what = format_args!("takes one to three spatial dims, got weight {}", b.shape(operands.1));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let g = Geometry {
            stride: list(args, 3, n, &[1])?,
            padding: list(args, 4, n, &[0])?.iter().map(|&p| (p, p)).collect(),
            dilation: list(args, 5, n, &[1])?,
            output_padding: if args.flag(6)? { Some(list(args, 7, n, &[0])?) } else { None },
            groups: args.int_or(8, 1)?,
        };
        convolve(b, def.name(), operands, n, &g)
    },
    samples: &[
        Sample::grad("f32[2,3,5], f32[4,3,3], none, [1], [1], [1], false, [0], 1", 64),
        Sample::grad("f32[2,3,5], f32[3,4,3], f32[4], [2], [1], [1], true, [0], 1", 64),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,3], none, [1], [1], [1], false, [0], 1",
        "convolution: takes one to three spatial dims, got weight [4, 3]",
    )],
    ..CONV
};
