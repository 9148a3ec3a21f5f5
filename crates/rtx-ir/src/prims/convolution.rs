//! Convolution: sums of products of windows with weights. Forward, input gradient and weight gradient are all one
//! primitive; what turns one into the others is flips and permutations.
use crate::{
    Amp, Bound, Builder, ConvDim, Convolution, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample,
    Saves, Stability, Type, Types, ValueId, record, rules,
};
use rtx_core::{DType, Dim, Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};

fn not_one(op: &Op) -> rtx_core::Error {
    rules::refuse(op.name(), Kind::Internal, "not a convolution")
}
fn infer_conv(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let Some(Prim::Conv(c)) = op.prim() else { return Err(not_one(op)) };
    let (x, w) = (inputs[0], inputs[1]);
    let wrong = || rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: self {x}, weight {w}"));
    let spatial = c.dims.len();
    let steps = c.dims.iter().all(|d| d.stride > 0 && d.base > 0 && d.dilation > 0);
    let ranks = (1..=3).contains(&spatial) && x.rank() == spatial + 2 && w.rank() == spatial + 2;
    if !steps || !ranks || x.dtype != w.dtype || x.dtype == DType::Bool || c.groups == 0 {
        return Err(wrong());
    }
    let (channels, weight_channels, outs) = (x.shape.dim(1), w.shape.dim(1), w.shape.dim(0));
    let meet = match (c.groups, channels.known(), weight_channels.known(), outs.known()) {
        (1, ..) => channels == weight_channels,
        (g, Some(c), Some(w), Some(o)) => w.checked_mul(g) == Some(c) && o.is_multiple_of(g),
        _ => return Err(rules::refuse(op.name(), Kind::Unsupported, "groups of a symbolic size")),
    };
    if !meet {
        return Err(wrong());
    }
    let mut shape = Shape::from_iter([x.shape.dim(0), outs]);
    for (i, d) in c.dims.iter().enumerate() {
        let (Some(n), Some(k)) = (x.shape.dim(2 + i).known(), w.shape.dim(2 + i).known()) else {
            return Err(rules::refuse(op.name(), Kind::Unsupported, "windows along a symbolic size"));
        };
        shape.push(Dim::Const(d.out_size(n as u64, k as u64).ok_or_else(wrong)?));
    }
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}

fn conv(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let (x, w) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
    let lists: SmallVec<[SmallVec<[i64; 4]>; 5]> =
        (2..7).map(|i| Ok(record::ints(def, a, i)?.iter().copied().collect())).collect::<Result<_>>()?;
    let n = lists[0].len();
    if lists.iter().any(|l| l.len() != n) {
        return Err(rules::refuse(def.name(), Kind::Argument, "its lists have one number for each spatial dim"));
    }
    let step = |l: usize, i: usize| {
        let n = lists[l][i];
        u64::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
            rules::refuse(def.name(), Kind::Argument, format_args!("strides and dilations are at least 1, got {n}"))
        })
    };
    let dim = |i: usize| -> Result<ConvDim> {
        let (stride, base, dilation) = (step(0, i)?, step(3, i)?, step(4, i)?);
        Ok(ConvDim { stride, low: lists[1][i], high: lists[2][i], base, dilation })
    };
    let dims = (0..n).map(dim).collect::<Result<_>>()?;
    let groups = record::int(def, a, 7)?;
    let groups = usize::try_from(groups)
        .map_err(|_| rules::refuse(def.name(), Kind::Argument, format_args!("groups is at least 1, got {groups}")))?;
    Ok(smallvec![b.prim(Prim::Conv(Box::new(Convolution { dims, groups })), &[x, w])?])
}

/// The padding that makes a convolution's result `out` elements long.
fn high_for(d: &ConvDim, size: u64, window: u64, out: i128) -> i64 {
    let padded = (out - 1) * i128::from(d.stride) + ConvDim::span(window, d.dilation);
    (padded - ConvDim::span(size, d.base) - i128::from(d.low)) as i64
}

/// `[a, b, rest..]` from `[b, a, rest..]`.
fn swap_lead(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let order: SmallVec<[usize; 4]> = [1, 0].into_iter().chain(2..b.rank(x)).collect();
    b.permute(x, &order)
}

/// What a gradient needs of the node: sizes of the operand's, the window's and the result's spatial dims.
struct Parts {
    conv: Convolution,
    x: Shape,
    w: Shape,
    y: Shape,
}
impl Parts {
    fn of(b: &Builder<'_>, cx: &GradCx<'_>) -> Result<Self> {
        let Some(Prim::Conv(c)) = cx.op.prim() else { return Err(not_one(cx.op)) };
        let [x, w, y] = [cx.inputs[0], cx.inputs[1], cx.outputs[0]].map(|v| b.shape(v));
        Ok(Self { conv: (**c).clone(), x, w, y })
    }
    fn spatial(s: &Shape, i: usize) -> u64 {
        s.dim(2 + i).bound() as u64
    }

    /// Every `dy[p]` that `x[i]` took part in, times the weight it met: a convolution of the dilated `dy` with the
    /// flipped weight, whose channels and outputs change places.
    fn of_input(&self, b: &mut Builder<'_>, g: ValueId, w: ValueId) -> Result<ValueId> {
        let mut dims = SmallVec::new();
        for (i, d) in self.conv.dims.iter().enumerate() {
            let (k, n) = (Self::spatial(&self.w, i), Self::spatial(&self.x, i));
            let low = (ConvDim::span(k, d.dilation) - 1 - i128::from(d.low)) as i64;
            let mut turned = ConvDim { stride: d.base, low, high: 0, base: d.stride, dilation: d.dilation };
            turned.high = high_for(&turned, Self::spatial(&self.y, i), k, n.into());
            dims.push(turned);
        }
        let w = self.turned_weight(b, w)?;
        b.prim(Prim::Conv(Box::new(Convolution { dims, groups: self.conv.groups })), &[g, w])
    }

    /// `[c, o / groups, window..]`, the window flipped.
    fn turned_weight(&self, b: &mut Builder<'_>, w: ValueId) -> Result<ValueId> {
        let mut w = w;
        for i in 0..self.conv.dims.len() {
            let n = self.w.dim(2 + i);
            if n.bound() > 1 {
                let last = b.constant(DType::I64, n.bound() as i64 - 1)?;
                w = b.slice_at(w, 2 + i, last, n, -1)?;
            }
        }
        let groups = self.conv.groups;
        if groups == 1 {
            return swap_lead(b, w);
        }
        let (outs, channels) = (self.w.dim(0).bound() / groups, self.w.dim(1));
        let split: Shape = [groups.into(), outs.into(), channels].into_iter().chain(self.w.iter().skip(2)).collect();
        let w = b.reshape(w, &split)?;
        let order: SmallVec<[usize; 4]> = [0, 2, 1].into_iter().chain(3..b.rank(w)).collect();
        let w = b.permute(w, &order)?;
        let joined = [(groups * channels.bound()).into(), outs.into()].into_iter().chain(self.w.iter().skip(2));
        b.reshape(w, &joined.collect())
    }

    /// Every `x[i]` that met weight `k`, times the `dy` it went to: a convolution of `x` with `dy`, in which the batch
    /// is summed over.
    fn of_weight(&self, b: &mut Builder<'_>, x: ValueId, g: ValueId) -> Result<ValueId> {
        let mut dims = SmallVec::new();
        for (i, d) in self.conv.dims.iter().enumerate() {
            let (n, p) = (Self::spatial(&self.x, i), Self::spatial(&self.y, i));
            let mut turned = ConvDim { stride: d.dilation, low: d.low, high: 0, base: d.base, dilation: d.stride };
            turned.high = high_for(&turned, n, p, Self::spatial(&self.w, i).into());
            dims.push(turned);
        }
        let groups = self.conv.groups;
        let x = if groups == 1 {
            swap_lead(b, x)?
        } else {
            let (n, channels) = (self.x.dim(0), self.w.dim(1));
            let split: Shape = [n, groups.into(), channels].into_iter().chain(self.x.iter().skip(2)).collect();
            let x = b.reshape(x, &split)?;
            let order: SmallVec<[usize; 4]> = [2, 1, 0].into_iter().chain(3..b.rank(x)).collect();
            let x = b.permute(x, &order)?;
            let Some(n) = n.known() else {
                return Err(rules::refuse("conv_general", Kind::Unsupported, "groups of a symbolic size"));
            };
            let joined = [channels, (groups * n).into()].into_iter().chain(self.x.iter().skip(2));
            b.reshape(x, &joined.collect())?
        };
        let g = swap_lead(b, g)?;
        let y = b.prim(Prim::Conv(Box::new(Convolution { dims, groups })), &[x, g])?;
        swap_lead(b, y)
    }
}
fn grad_conv(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let parts = Parts::of(b, cx)?;
    cx.each(|i| match i {
        0 => parts.of_input(b, cx.ct(), cx.inputs[1]),
        _ => parts.of_weight(b, cx.inputs[0], cx.ct()),
    })
}

pub(super) static CONV_GENERAL: OpDef = OpDef {
    sig: "conv_general(Tensor self, Tensor weight, int[] stride, int[] low, int[] high, int[] base_dilation, int[] dilation, int groups) -> Tensor",
    doc: "The sum of products of windows of `self` [n, c, spatial..] with `weight` [o, c / groups, window..], by fma: out[n, o, p] = sum over c, k of self[n, c, (p * stride + k * dilation - low) / base_dilation] * weight[o, c, k], zeros where that is no element.",
    record: |b, def, a| conv(b, def, a),
    infer: infer_conv,
    grad: Grad::Rule(grad_conv),
    saves: Saves::Inputs,
    amp: Amp::Low,
    cost: 2,
    numerics: Numerics::Claimed,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[2,3,7], f32[4,3,3], [1], [1], [1], [1], [1], 1", 8),
        Sample::grad("f32[2,4,5,6], f32[6,2,3,2], [2, 1], [1, 0], [0, 2], [1, 1], [1, 2], 2", 8),
        Sample::grad("f32[1,2,3,4,2], f32[2,1,2,2,2], [1, 2, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1], 2", 8),
        Sample::grad("f32[2,2,4], f32[3,2,3], [2], [2], [3], [3], [2], 1", 8),
        Sample::grad("f32[1,2,9], f32[2,2,2], [3], [-1], [-2], [1], [1], 1", 8),
        Sample::grad("f32[3,3,4,4], f32[3,1,2,2], [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 3", 8),
        Sample::of("f32[2,70,9,9], f32[20,70,3,3], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 1", 64),
        Sample::of("f32[1,20,30,17], f32[33,20,1,1], [1, 1], [0, 0], [0, 0], [1, 1], [1, 1], 1", 64),
        Sample::exact("f32[1,2,2], f32[2,2,5], [1], [0], [0], [1], [1], 1"),
        Sample::exact("f32[0,2,4], f32[2,2,3], [1], [0], [0], [1], [1], 1"),
        Sample::exact("i64[1,2,5] in -9..9, i64[2,2,3] in -9..9, [1], [1], [1], [1], [1], 1"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3,4], f32[5,2,3], [1], [0], [0], [1], [1], 1",
            "conv_general: does not fit: self f32 [2, 3, 4], weight f32 [5, 2, 3]",
        ),
        Refusal::of(
            "f32[2,3,4], f32[5,3,3], [0], [0], [0], [1], [1], 1",
            "conv_general: strides and dilations are at least 1, got 0",
        ),
        Refusal::of(
            "f32[2,3,4], f32[5,3,3], [1, 1], [0], [0], [1], [1], 1",
            "conv_general: its lists have one number for each spatial dim",
        ),
    ],
    ..OpDef::DEFAULT
};
