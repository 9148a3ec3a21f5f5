//! Patches of images as columns and back, and pixels and channels that change places.
use crate::args::Args;
use crate::lines::known;
use crate::precision::widen;
use crate::spatial::{Each, check_least, list};
use crate::spelling::SPELLING;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &IM2COL,
    &COL2IM,
    &F_UNFOLD,
    &F_FOLD,
    &PIXEL_SHUFFLE,
    &PIXEL_UNSHUFFLE,
    &CHANNEL_SHUFFLE,
    &NATIVE_CHANNEL_SHUFFLE,
];

const PATCHING: OpDef = OpDef { cost: 1, stability: Stability::Stable, ..SPELLING };

/// Where patches of two dims lie.
struct Patches {
    window: Each<i64>,
    dilation: Each<i64>,
    padding: Each<i64>,
    stride: Each<i64>,
}

impl Patches {
    /// Arguments `i` to `i + 3`: size, dilation, padding, stride.
    fn of(args: Args<'_>, i: usize) -> Result<Self> {
        let op = args.op();
        let it = Self {
            window: list(args, i, 2, &[1])?,
            dilation: list(args, i + 1, 2, &[1])?,
            padding: list(args, i + 2, 2, &[0])?,
            stride: list(args, i + 3, 2, &[1])?,
        };
        check_least(op, "kernel_size", &it.window, 1)?;
        check_least(op, "dilation", &it.dilation, 1)?;
        check_least(op, "padding", &it.padding, 0)?;
        check_least(op, "stride", &it.stride, 1)?;
        Ok(it)
    }
    /// How many along each of two dims.
    fn counts(&self, op: &str, size: &[i64]) -> Result<Each<i64>> {
        let count = |d: usize| {
            let room = size[d] + 2 * self.padding[d] - self.dilation[d] * (self.window[d] - 1) - 1;
            if room >= 0 {
                return Ok(room / self.stride[d] + 1);
            }
            let what = format_args!("a patch of {:?} does not fit into {size:?}", self.window.as_slice());
            Err(rules::refuse(op, Kind::Shape, what))
        };
        (0..2).map(count).collect()
    }
    fn prim_numbers(&self, d: usize) -> (u64, u64, u64) {
        (self.window[d] as u64, self.stride[d] as u64, self.dilation[d] as u64)
    }
    /// `[n, c, h, w]` → `[n, c · kh · kw, patches]`.
    fn columns(&self, b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<ValueId> {
        let shape = b.shape(x);
        let size = [known(op, shape.dim(2))? as i64, known(op, shape.dim(3))? as i64];
        let count = self.counts(op, &size)?;
        let mut y = x;
        for d in 0..2 {
            let p = self.padding[d] as u64;
            if p > 0 {
                let zero = b.constant(b.dtype(y), 0i64)?;
                y = b.prim(Prim::Pad { axis: 2 + d, before: p, after: p }, &[y, zero])?;
            }
        }
        for d in 0..2 {
            let (size, stride, dilation) = self.prim_numbers(d);
            y = b.prim(Prim::Windows { axis: 2 + d, size, stride, dilation }, &[y])?;
        }
        let y = b.permute(y, &[0, 1, 4, 5, 2, 3])?;
        let channels = known(op, shape.dim(1))? * self.elements();
        b.reshape(y, &Shape::from_iter([shape.dim(0), channels.into(), self.area(&count).into()]))
    }
    /// The transpose: `[n, c · kh · kw, patches]` → `[n, c, h, w]`, patches added up.
    fn image(&self, b: &mut Builder<'_>, op: &str, x: ValueId, size: &[i64]) -> Result<ValueId> {
        let (shape, count) = (b.shape(x), self.counts(op, size)?);
        let (rows, columns) = (known(op, shape.dim(1))?, known(op, shape.dim(2))?);
        if !rows.is_multiple_of(self.elements()) || columns != self.area(&count) {
            let what = format_args!(
                "columns of {shape} are no patches of {:?} of an image of {size:?}, which has {}",
                self.window.as_slice(),
                self.area(&count)
            );
            return Err(rules::refuse(op, Kind::Shape, what));
        }
        let channels = rows / self.elements();
        let parts = [self.window[0], self.window[1], count[0], count[1]].map(|n| Dim::from(n as usize));
        let split: Shape = [shape.dim(0), channels.into()].into_iter().chain(parts).collect();
        let dtype = b.dtype(x);
        let y = widen(b, x)?;
        let y = b.reshape(y, &split)?;
        let mut y = b.permute(y, &[0, 1, 4, 5, 2, 3])?;
        for d in [1, 0] {
            let (_, stride, dilation) = self.prim_numbers(d);
            let len = (size[d] + 2 * self.padding[d]) as u64;
            y = b.prim(Prim::OverlapAdd { axis: 2 + d, len, stride, dilation }, &[y])?;
        }
        for d in 0..2 {
            y = b.slice(y, 2 + d, self.padding[d], size[d] as usize)?;
        }
        b.cast(y, dtype)
    }
    fn elements(&self) -> usize {
        self.window.iter().product::<i64>() as usize
    }
    fn area(&self, count: &[i64]) -> usize {
        count.iter().product::<i64>() as usize
    }
}

/// A tensor of `rank` dims; a missing first one becomes 1 and goes away again.
fn batched(
    b: &mut Builder<'_>,
    op: &str,
    x: ValueId,
    rank: usize,
    f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let shape = b.shape(x);
    if shape.rank() == rank {
        return Ok(smallvec![f(b, x)?]);
    }
    if shape.rank() + 1 != rank {
        let what = format_args!("takes {} or {rank} dims, got {shape}", rank - 1);
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    let one: Shape = [Dim::Const(1)].into_iter().chain(shape.iter()).collect();
    let x = b.reshape(x, &one)?;
    let y = f(b, x)?;
    let shape: Shape = b.shape(y).iter().skip(1).collect();
    Ok(smallvec![b.reshape(y, &shape)?])
}

fn record_columns(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let patches = Patches::of(args, 1)?;
    batched(b, def.name(), args.tensor(0)?, 4, |b, x| patches.columns(b, def.name(), x))
}
fn record_image(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (patches, size) = (Patches::of(args, 2)?, list(args, 1, 2, &[1])?);
    check_least(def.name(), "output_size", &size, 1)?;
    batched(b, def.name(), args.tensor(0)?, 3, |b, x| patches.image(b, def.name(), x, &size))
}

/// Patches as columns.
pub static IM2COL: OpDef = OpDef {
    sig: "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    doc: "Patches of the last two dims as columns: [n, c, h, w] → [n, c · kh · kw, patches], zeros in the padding.",
    record: record_columns,
    samples: &[
        Sample::grad("f32[1,2,4,5], [2, 3], [1, 1], [1, 0], [2, 1]", 0),
        Sample::grad("f32[2,4,3], 2, [2, 1], 0, 1", 0),
    ],
    refuses: &[Refusal::of("f32[1,2,2], 3, 1, 0, 1", "im2col: a patch of [3, 3] does not fit into [2, 2]")],
    ..PATCHING
};
/// Columns as patches.
pub static COL2IM: OpDef = OpDef {
    sig: "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    doc: "The transpose of im2col: columns as patches of an image, added up where they overlap.",
    record: record_image,
    samples: &[
        Sample::grad("f32[1,12,6], [4, 5], [2, 3], [1, 1], [1, 0], [2, 2]", 16),
        Sample::grad("f32[4,4], [3, 3], 2, 1, 0, 1", 16),
    ],
    refuses: &[Refusal::of(
        "f32[4,5], [3, 3], 2, 1, 0, 1",
        "col2im: columns of [1, 4, 5] are no patches of [2, 2] of an image of [3, 3], which has 4",
    )],
    ..PATCHING
};
/// Patches as columns, as Python's function has it.
pub static F_UNFOLD: OpDef = OpDef {
    sig: "nn_functional_unfold(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    doc: "As im2col.",
    record: record_columns,
    samples: &[Sample::grad("f32[1,2,4,5], [2, 3]", 0)],
    ..PATCHING
};
/// Columns as patches, as Python's function has it.
pub static F_FOLD: OpDef = OpDef {
    sig: "fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    doc: "As col2im.",
    record: record_image,
    samples: &[Sample::grad("f32[1,4,4], [3, 3], 2", 16)],
    ..PATCHING
};

/// The sizes of channels, height and width, which come last.
fn image_of(b: &Builder<'_>, op: &str, x: ValueId) -> Result<(Shape, [usize; 3])> {
    let shape = b.shape(x);
    if shape.rank() < 3 {
        return Err(rules::refuse(op, Kind::Shape, format_args!("takes 3 dims or more, got {shape}")));
    }
    let lead: Shape = shape.iter().take(shape.rank() - 3).collect();
    let last = |i: usize| known(op, shape.dim(lead.rank() + i));
    let sizes = [last(0)?, last(1)?, last(2)?];
    Ok((lead, sizes))
}
/// The last dims split, put into another order and joined.
fn rearranged(
    b: &mut Builder<'_>,
    x: ValueId,
    lead: &Shape,
    (split, order, joined): ([usize; 5], [usize; 5], [usize; 3]),
) -> Result<Outs> {
    let with = |last: &[usize]| -> Shape { lead.iter().chain(last.iter().map(|&n| Dim::from(n))).collect() };
    let y = b.reshape(x, &with(&split))?;
    let order: SmallVec<[usize; 8]> = (0..lead.rank()).chain(order.iter().map(|o| lead.rank() + o)).collect();
    let y = b.permute(y, &order)?;
    Ok(smallvec![b.reshape(y, &with(&joined))?])
}
fn factor(args: Args<'_>) -> Result<usize> {
    match args.int(1)? {
        n if n > 0 => Ok(n as usize),
        n => Err(rules::refuse(args.op(), Kind::Argument, format_args!("a factor is positive, got {n}"))),
    }
}

/// Channels spread over pixels.
pub static PIXEL_SHUFFLE: OpDef = OpDef {
    sig: "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    doc: "[.., c r², h, w] → [.., c, h r, w r]: r² channels become r × r pixels. Shi et al., arXiv:1609.05158.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, r) = (args.tensor(0)?, factor(args)?);
        let (lead, [c, h, w]) = image_of(b, def.name(), x)?;
        if !c.is_multiple_of(r * r) {
            let what = format_args!("{c} channels do not divide by {r}²");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        // Channels are [c, rows, columns] of a patch; the two splits of rows and columns come one after the other.
        let c = c / (r * r);
        let y = rearranged(b, x, &lead, ([c * r, r, h, w, 1], [0, 2, 3, 1, 4], [c * r, h, w * r]))?[0];
        rearranged(b, y, &lead, ([c, r, h, w * r, 1], [0, 2, 1, 3, 4], [c, h * r, w * r]))
    },
    samples: &[Sample::grad("f32[1,8,2,3], 2", 0), Sample::exact("i64[9,1,2] in -9..9, 3")],
    refuses: &[
        Refusal::of("f32[6,2,2], 2", "pixel_shuffle: 6 channels do not divide by 2²"),
        Refusal::of("f32[4,2], 2", "pixel_shuffle: takes 3 dims or more, got [4, 2]"),
        Refusal::of("f32[4,2,2], 0", "pixel_shuffle: a factor is positive, got 0"),
    ],
    ..PATCHING
};
/// Pixels gathered into channels.
pub static PIXEL_UNSHUFFLE: OpDef = OpDef {
    sig: "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    doc: "[.., c, h r, w r] → [.., c r², h, w]: the inverse of pixel_shuffle.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, r) = (args.tensor(0)?, factor(args)?);
        let (lead, [c, h, w]) = image_of(b, def.name(), x)?;
        if !h.is_multiple_of(r) || !w.is_multiple_of(r) {
            let what = format_args!("{h} and {w} do not divide by {r}");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (h, w) = (h / r, w / r);
        let y = rearranged(b, x, &lead, ([c, h, r, w * r, 1], [0, 2, 1, 3, 4], [c * r, h, w * r]))?[0];
        rearranged(b, y, &lead, ([c * r, h, w, r, 1], [0, 3, 1, 2, 4], [c * r * r, h, w]))
    },
    samples: &[Sample::grad("f32[1,2,4,6], 2", 0), Sample::exact("i64[1,3,6] in -9..9, 3")],
    refuses: &[Refusal::of("f32[1,3,4], 2", "pixel_unshuffle: 3 and 4 do not divide by 2")],
    ..PATCHING
};

fn shuffle_channels(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, groups) = (args.tensor(0)?, factor(args)?);
    let shape = b.shape(x);
    if shape.rank() < 3 {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("takes 3 dims or more, got {shape}")));
    }
    let channels = known(def.name(), shape.dim(1))?;
    if !channels.is_multiple_of(groups) {
        let what = format_args!("{channels} channels do not divide into {groups} groups");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let mut split = shape.clone();
    split.set(1, groups);
    split.insert(2, channels / groups);
    let y = b.reshape(x, &split)?;
    let mut order: SmallVec<[usize; 6]> = (0..split.rank()).collect();
    order.swap(1, 2);
    let y = b.permute(y, &order)?;
    Ok(smallvec![b.reshape(y, &shape)?])
}
/// Channels of groups interleaved.
pub static CHANNEL_SHUFFLE: OpDef = OpDef {
    sig: "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    doc: "The channels of groups one after the other: [n, g, c / g, ..] → [n, c / g, g, ..]. Zhang et al., \
          arXiv:1707.01083.",
    record: shuffle_channels,
    samples: &[Sample::grad("f32[2,6,2], 3", 0)],
    refuses: &[Refusal::of("f32[2,5,2], 3", "channel_shuffle: 5 channels do not divide into 3 groups")],
    ..PATCHING
};
/// The same, as PyTorch's dispatcher calls it.
pub static NATIVE_CHANNEL_SHUFFLE: OpDef = OpDef {
    sig: "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    doc: "As channel_shuffle.",
    record: shuffle_channels,
    samples: &[Sample::grad("f32[1,4,2,2], 2", 0)],
    ..PATCHING
};
