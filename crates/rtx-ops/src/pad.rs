//! Padding of the last dims: a constant around, or elements mirrored, repeated or wrapped.
use crate::args::Args;
use crate::lines::{known, number};
use crate::spatial::{count_to, take};
use crate::spelling::SPELLING;
use rtx_core::{Kind, Result};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &PAD,
    &PAD_ENUM,
    &CONSTANT_PAD_ND,
    &PAD_CIRCULAR,
    &REFLECTION_PAD1D,
    &REFLECTION_PAD2D,
    &REFLECTION_PAD3D,
    &REPLICATION_PAD1D,
    &REPLICATION_PAD2D,
    &REPLICATION_PAD3D,
];

const PADDING: OpDef = OpDef { cost: 0, stability: Stability::Stable, ..SPELLING };

/// What stands outside a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// … 2 1 | 0 1 2 | 1 0 …
    Mirror,
    /// … 0 0 | 0 1 2 | 2 2 …
    Edge,
    /// … 1 2 | 0 1 2 | 0 1 …
    Wrap,
}
/// Elements added before and after those of an axis; a negative number takes some away.
#[derive(Clone, Copy)]
struct Span {
    axis: usize,
    before: i64,
    after: i64,
}

/// The spans that argument `i` lists, the last dim first.
fn spans(b: &Builder<'_>, args: Args<'_>, i: usize) -> Result<SmallVec<[Span; 3]>> {
    let (list, rank) = (args.ints(i)?, b.rank(args.tensor(0)?));
    if !list.len().is_multiple_of(2) || list.len() / 2 > rank {
        let what = format_args!("takes two numbers a dim, got {} for a tensor of rank {rank}", list.len());
        return Err(rules::refuse(args.op(), Kind::Argument, what));
    }
    Ok(list.chunks(2).enumerate().map(|(d, p)| Span { axis: rank - 1 - d, before: p[0], after: p[1] }).collect())
}

impl Span {
    /// Sizes before and after.
    fn sizes(self, b: &Builder<'_>, op: &str, x: ValueId, least: i64) -> Result<(i64, i64)> {
        let n = known(op, b.ty(x).shape.dim(self.axis))? as i64;
        let total = n + self.before + self.after;
        if total >= least {
            return Ok((n, total));
        }
        let what = format_args!("{} + {n} + {} elements are left of dim {}", self.before, self.after, self.axis);
        Err(rules::refuse(op, Kind::Shape, what))
    }
    /// Without what negative numbers take away; what is left to add.
    fn crop(self, b: &mut Builder<'_>, op: &str, x: ValueId) -> Result<(ValueId, Span)> {
        let n = known(op, b.ty(x).shape.dim(self.axis))? as i64;
        let (first, last) = ((-self.before).max(0), n - (-self.after).max(0));
        let rest = Span { before: self.before.max(0), after: self.after.max(0), ..self };
        if first == 0 && last == n {
            return Ok((x, rest));
        }
        // As PyTorch: no side gives more than there is, whatever the other adds.
        if last < first || first > n || last < 0 {
            let what = format_args!("takes more than the {n} elements of dim {}", self.axis);
            return Err(rules::refuse(op, Kind::Shape, what));
        }
        Ok((b.slice(x, self.axis, first, (last - first) as usize)?, rest))
    }
    fn constant(self, b: &mut Builder<'_>, op: &str, x: ValueId, fill: ValueId) -> Result<ValueId> {
        self.sizes(b, op, x, 0)?;
        let (x, rest) = self.crop(b, op, x)?;
        if rest.before == 0 && rest.after == 0 {
            return Ok(x);
        }
        let (before, after) = (rest.before as u64, rest.after as u64);
        b.prim(Prim::Pad { axis: self.axis, before, after }, &[x, fill])
    }
    /// Elements taken from inside, by their positions.
    fn inside_or(self, b: &mut Builder<'_>, op: &str, x: ValueId, outside: Outside) -> Result<ValueId> {
        let (x, span) = if outside == Outside::Wrap { self.crop(b, op, x)? } else { (x, self) };
        let (n, total) = span.sizes(b, op, x, 1)?;
        span.check_room(op, n, outside)?;
        if span.before == 0 && span.after == 0 {
            return Ok(x);
        }
        let i = count_to(b, total as usize)?;
        let i = b.sub(i, span.before as f64)?;
        let i = match outside {
            Outside::Mirror => {
                let i = b.abs(i)?;
                let back = b.sub(2.0 * (n as f64 - 1.0), i)?;
                b.min(i, back)?
            }
            Outside::Edge => {
                let i = b.max(i, 0.0)?;
                b.min(i, n as f64 - 1.0)?
            }
            Outside::Wrap => {
                let i = b.add(i, n as f64)?;
                b.rem(i, n as f64)?
            }
        };
        take(b, x, self.axis, i)
    }
    fn check_room(self, op: &str, n: i64, outside: Outside) -> Result<()> {
        let most = match outside {
            Outside::Mirror => n - 1,
            Outside::Wrap => n,
            Outside::Edge if n > 0 => i64::MAX,
            Outside::Edge => 0,
        };
        match [self.before, self.after].into_iter().find(|p| *p > most) {
            None => Ok(()),
            Some(p) => {
                let what = format_args!("{p} elements do not come out of the {n} of dim {}", self.axis);
                Err(rules::refuse(op, Kind::Shape, what))
            }
        }
    }
}

/// Constants around.
fn with_constant(b: &mut Builder<'_>, args: Args<'_>, value: usize) -> Result<Outs> {
    let mut x = args.tensor(0)?;
    let spans = spans(b, args, 1)?;
    let fill = number(b, args, value, b.dtype(x), 0.0)?;
    for s in &spans {
        x = s.constant(b, args.op(), x, fill)?;
    }
    Ok(smallvec![x])
}
/// What is inside, outside: of the last dims of a tensor with one or two dims before them.
fn with_elements(b: &mut Builder<'_>, args: Args<'_>, outside: Outside) -> Result<Outs> {
    let mut x = args.tensor(0)?;
    let (rank, spans) = (b.rank(x), spans(b, args, 1)?);
    let n = spans.len();
    if !(1..=3).contains(&n) || !(n + 1..=n + 2).contains(&rank) {
        let what = format_args!("pads the last 1, 2 or 3 dims after one or two others, got {n} of {}", b.shape(x));
        return Err(rules::refuse(args.op(), Kind::Shape, what));
    }
    for s in &spans {
        x = s.inside_or(b, args.op(), x, outside)?;
    }
    Ok(smallvec![x])
}
fn by_mode(b: &mut Builder<'_>, args: Args<'_>, mode: &str) -> Result<Outs> {
    let outside = match mode {
        "reflect" => Outside::Mirror,
        "replicate" => Outside::Edge,
        "circular" => Outside::Wrap,
        _ => return with_constant(b, args, 3),
    };
    if !matches!(args.get(3), Arg::None) && args.float_or(3, 0.0)? != 0.0 {
        return Err(rules::refuse(args.op(), Kind::Argument, format_args!("mode {mode:?} takes no value")));
    }
    with_elements(b, args, outside)
}

/// Padding by mode.
pub static PAD: OpDef = OpDef {
    sig: "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
    doc: "Elements before and after those of the last dims, two numbers a dim, the last dim first: a constant, the \
          elements mirrored at the edge, the edge repeated, or the elements of the other side. A negative number takes \
          elements away.",
    runtime: &["value"],
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mode = args.choice(2, &["constant", "reflect", "replicate", "circular"])?;
        by_mode(b, args, mode)
    },
    samples: &[
        Sample::grad("f32[2,3], [1, 2, 0, 1], \"constant\", 0.5", 0),
        Sample::grad("f32[2,4], [-1, 2]", 0),
        Sample::grad("f32[2,3,4], [3, 2, 1, 0], \"reflect\"", 8),
        Sample::grad("f32[2,3], [4, 1], \"replicate\"", 8),
        Sample::grad("f32[1,2,3], [3, 2], \"circular\"", 8),
        Sample::exact("i64[1,5] in -9..9, [-1, 2], \"circular\""),
        Sample::exact("i64[2,5] in -9..9, [-2, 2], \"reflect\""),
        Sample::exact("bool[2,3], [1, 1]"),
    ],
    refuses: &[
        Refusal::of("f32[2,3], [1]", "pad: takes two numbers a dim, got 1 for a tensor of rank 2"),
        Refusal::of("f32[2,3], [-2, -2]", "pad: -2 + 3 + -2 elements are left of dim 1"),
        Refusal::of("f32[2,3], [3, 0], \"reflect\"", "pad: 3 elements do not come out of the 3 of dim 1"),
        Refusal::of("f32[2,3], [1, 1], \"reflect\", 1.0", "pad: mode \"reflect\" takes no value"),
        Refusal::of(
            "f32[3], [1, 1], \"reflect\"",
            "pad: pads the last 1, 2 or 3 dims after one or two others, got 1 of [3]",
        ),
    ],
    ..PADDING
};
/// Padding by the number of a mode.
pub static PAD_ENUM: OpDef = OpDef {
    sig: "_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor",
    doc: "As pad; the modes are 0 reflect, 1 replicate, 2 circular, 3 constant.",
    runtime: &["value"],
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mode = match args.int(2)? {
            0 => "reflect",
            1 => "replicate",
            2 => "circular",
            3 => "constant",
            n => return Err(rules::refuse(def.name(), Kind::Argument, format_args!("mode {n} is none of 0, 1, 2, 3"))),
        };
        by_mode(b, args, mode)
    },
    samples: &[Sample::grad("f32[2,3], [1, 2], 0", 8)],
    refuses: &[Refusal::of("f32[2,3], [1, 2], 4", "_pad_enum: mode 4 is none of 0, 1, 2, 3")],
    ..PADDING
};
/// Constants around.
pub static CONSTANT_PAD_ND: OpDef = OpDef {
    sig: "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    doc: "A number before and after the elements of the last dims, two numbers a dim, the last dim first; a negative \
          number takes elements away.",
    runtime: &["value"],
    record: |b, def, args| with_constant(b, Args::new(def, args), 2),
    samples: &[
        Sample::grad("f32[2,3], [1, 2, 0, 1], 0.5", 0),
        Sample::exact("i64[3,4] in -9..9, [-1, -2, 1, 0], 7"),
        Sample::exact("f32[0,3], [1, 2]"),
    ],
    refuses: &[Refusal::of(
        "f32[3], [1, 2, 3, 4]",
        "constant_pad_nd: takes two numbers a dim, got 4 for a tensor of rank 1",
    )],
    ..PADDING
};
/// Elements of the other side.
pub static PAD_CIRCULAR: OpDef = OpDef {
    sig: "_pad_circular(Tensor self, SymInt[] pad) -> Tensor",
    doc: "The elements of the other side before and after those of the last dims.",
    record: |b, def, args| with_elements(b, Args::new(def, args), Outside::Wrap),
    samples: &[Sample::grad("f32[1,2,3], [3, 2]", 8)],
    refuses: &[Refusal::of("f32[1,3], [4, 0]", "_pad_circular: 4 elements do not come out of the 3 of dim 1")],
    ..PADDING
};

fn record_of(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, (n, outside): (usize, Outside)) -> Result<Outs> {
    let args = Args::new(def, args);
    let given = args.ints(1)?.len();
    if given != 2 * n {
        return Err(rules::refuse(def.name(), Kind::Argument, format_args!("takes {} numbers, got {given}", 2 * n)));
    }
    with_elements(b, args, outside)
}
macro_rules! pads { ($($NAME:ident $n:literal $outside:ident $sig:literal $doc:literal $sample:literal;)*) => { $(
    #[doc = $doc]
    pub static $NAME: OpDef = OpDef {
        sig: $sig,
        doc: $doc,
        record: |b, def, args| record_of(b, def, args, ($n, Outside::$outside)),
        samples: &[Sample::grad($sample, 8)],
        ..PADDING
    };
)* } }
pads! {
    REFLECTION_PAD1D 1 Mirror "reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"
        "The last dim mirrored at its edges, which are not repeated." "f32[2,4], [3, 1]";
    REFLECTION_PAD2D 2 Mirror "reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"
        "The last two dims mirrored at their edges, which are not repeated." "f32[2,3,4], [3, 1, 0, 2]";
    REFLECTION_PAD3D 3 Mirror "reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor"
        "The last three dims mirrored at their edges, which are not repeated." "f32[1,2,3,2], [1, 1, 2, 0, 1, 1]";
    REPLICATION_PAD1D 1 Edge "replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"
        "The edges of the last dim repeated." "f32[2,4], [3, 5]";
    REPLICATION_PAD2D 2 Edge "replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"
        "The edges of the last two dims repeated." "f32[2,3,4], [3, -1, 0, 2]";
    REPLICATION_PAD3D 3 Edge "replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor"
        "The edges of the last three dims repeated." "f32[1,2,3,2], [1, 1, 2, 0, 1, 1]";
}
