//! The loss of sequences whose labels are not aligned with the steps: connectionist temporal classification.
use crate::args::Args;
use crate::index::as_indices;
use crate::likeness::DETACH;
use crate::precision::widen;
use crate::reduced::{reduce, reduction};
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::{
    Amp, Arg, Attr, Body, Bound, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample, Saves,
    Stability, Type, Types, ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[&CTC_LOSS_INTS, &CTC_LOSS_TENSOR, &CTC, &CTC_BACKWARD];

const DOC: &str = "-log of the probability that the steps spell the targets: the sum over all ways to stretch the labels over the \
     steps of a sequence, with blanks between them (Graves et al. 2006). log_probs is [T, N, C] or [T, C], targets [N, S] or all \
     in one line; \"mean\" divides by the lengths of the targets first. zero_infinity: what cannot be spelled costs 0. The \
     gradient is PyTorch's, that of log_probs that a log_softmax made: exp(log_probs) less how often a class is taken; where \
     nothing can be spelled PyTorch's is NaN, and here nothing is taken.";

const CALL: OpDef = OpDef { amp: Amp::Full, stability: Stability::Stable, ..SPELLING };

/// With lengths as numbers.
pub static CTC_LOSS_INTS: OpDef = OpDef {
    sig: "ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, \
          int reduction=1, bool zero_infinity=False) -> Tensor",
    doc: DOC,
    record: |b, def, args| {
        let read = Args::new(def, args);
        let lengths = [numbers(b, &read.ints(2)?)?, numbers(b, &read.ints(3)?)?];
        record_loss(b, def, args, lengths)
    },
    samples: &[
        Sample::of("f32[5,2,4] in -3..-0.5, i64[2,2] in 1..4, [5,4], [2,1]", 256),
        Sample::of("f32[3,2,4] in -3..-0.5, i64[2,3] = 1 1 1 2 3 1, [3,3], [3,2], 0, 2, true", 256),
        Sample::of("f32[5,2,4] in -3..-0.5, i64[3] = 1 2 3, [5,4], [2,1], 0, 0", 256),
        Sample::of("f32[5,4] in -3..-0.5, i64[2] in 0..3, [5], [2], 3", 256),
    ],
    refuses: &[
        Refusal::of("f32[5,2,4], i64[2,2] in 1..4, [5], [2,1]", "ctc_loss: needs 2 lengths, got [1] and [2]"),
        Refusal::of("f32[5,2,4], i64[2,2] in 1..4, [5,5], [2,1], 4", "ctc_loss: blank is one of 4 classes, got 4"),
    ],
    ..CALL
};
/// With lengths as tensors.
pub static CTC_LOSS_TENSOR: OpDef = OpDef {
    sig: "ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, \
          int reduction=1, bool zero_infinity=False) -> Tensor",
    doc: DOC,
    record: |b, def, args| {
        let read = Args::new(def, args);
        let lengths = [as_indices(b, def, read.tensor(2)?)?, as_indices(b, def, read.tensor(3)?)?];
        record_loss(b, def, args, lengths)
    },
    samples: &[Sample::of("f32[5,2,4] in -3..-0.5, i64[2,2] in 1..4, i64[2] = 5 4, i64[2] = 2 1", 256)],
    ..CALL
};
/// Numbers of a call in one line: they make no new plan.
fn numbers(b: &mut Builder<'_>, list: &[i64]) -> Result<ValueId> {
    let mut parts = Vec::with_capacity(list.len());
    for &n in list {
        let one = b.param(DType::I64, Scalar::Int(n))?;
        parts.push(b.reshape(one, &[1].into())?);
    }
    match parts.as_slice() {
        [] => b.zeros(DType::I64, &[0].into()),
        [one] => Ok(*one),
        many => b.prim(Prim::Concat { axis: 0 }, many),
    }
}

fn record_loss(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, lengths: [ValueId; 2]) -> Result<Outs> {
    let args = Args::new(def, args);
    let (mut x, targets) = (args.tensor(0)?, as_indices(b, def, args.tensor(1)?)?);
    rules::check_float(def.name(), b.ty(x))?;
    let single = b.rank(x) == 2;
    if single {
        let mut shape = b.shape(x);
        shape.insert(1, 1);
        x = b.reshape(x, &shape)?;
    }
    if b.rank(x) != 3 {
        let what = format_args!("log_probs are [T, N, C] or [T, C], got {}", b.shape(x));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    crate::lines::check_static(b, def.name(), x)?;
    let (n, classes) = (b.shape(x).dim(1).bound(), b.shape(x).dim(2).bound());
    let blank = args.int_or(4, 0)?;
    if !(0..classes as i64).contains(&blank) {
        let what = format_args!("blank is one of {classes} classes, got {blank}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    if lengths.iter().any(|&l| b.shape(l).numel() != n) {
        let what = format_args!("needs {n} lengths, got {} and {}", b.shape(lengths[0]), b.shape(lengths[1]));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let line: Shape = [n].into();
    let (steps, sizes) = (b.reshape(lengths[0], &line)?, b.reshape(lengths[1], &line)?);
    let targets = padded(b, def, targets, sizes, n)?;
    let loss = b.composite(&CTC, smallvec![Attr::Int(blank)], &[x, targets, steps, sizes])?[0];
    let mass = normalizing(b, x, steps)?;
    let mass = b.cast(mass, b.dtype(loss))?;
    let mut loss = b.add(loss, mass)?;
    if args.flag(6)? {
        let endless = b.eq(loss, f64::INFINITY)?;
        loss = b.select(endless, 0.0, loss)?;
    }
    let word = reduction(&args, 5)?;
    if word == "mean" {
        let wide = widen(b, loss)?;
        let size = b.cast(sizes, b.dtype(wide))?;
        let size = b.max(size, 1.0)?;
        let share = b.div(wide, size)?;
        let mean = reduce(b, share, &Attr::Str(word))?;
        return Ok(smallvec![b.cast(mean, b.dtype(loss))?]);
    }
    if single && word == "none" {
        return Ok(smallvec![b.reshape(loss, &Shape::scalar())?]);
    }
    Ok(smallvec![reduce(b, loss, &Attr::Str(word))?])
}
/// 0 for each sequence, with the gradient exp(x) on its steps: with it, the loss's gradient is that of what stood before
/// the log_softmax.
fn normalizing(b: &mut Builder<'_>, x: ValueId, steps: ValueId) -> Result<ValueId> {
    let wide = widen(b, x)?;
    let (p, shape) = (b.exp(wide)?, b.shape(wide));
    let still = b.call(&DETACH, [Arg::Value(p)])?[0];
    let nothing = b.sub(p, still)?;
    let step = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
    let steps = b.reshape(steps, &[1, shape.dim(1).bound(), 1].into())?;
    let runs = b.lt(step, steps)?;
    let nothing = b.select(runs, nothing, 0.0)?;
    b.reduce(Fold::Sum, nothing, &[0, 2])
}
/// Targets as `[n, s]`: those of one line are picked by where each begins.
fn padded(b: &mut Builder<'_>, def: &OpDef, targets: ValueId, sizes: ValueId, n: usize) -> Result<ValueId> {
    let shape = b.shape(targets);
    match shape.rank() {
        2 if shape.dim(0).bound() == n => return Ok(targets),
        1 => {}
        _ => {
            let what = format_args!("targets are [{n}, S] or in one line, got {shape}");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
    }
    let total = shape.numel();
    if total == 0 {
        return b.reshape(targets, &[n, 0].into());
    }
    let ends = b.prim(Prim::Scan { fold: Fold::Sum, axis: 0, reverse: false }, &[sizes])?;
    let starts = b.sub(ends, sizes)?;
    let starts = b.as_column(starts)?;
    let place = b.prim(Prim::Iota { shape: [n, total].into(), axis: 1 }, &[])?;
    let place = b.add(place, starts)?;
    let place = b.min(place, total as f64 - 1.0)?;
    b.prim(Prim::Gather { axis: 0 }, &[targets, place])
}

/// The loss of each sequence. Attribute: blank. Operands: log_probs `[T, N, C]`, targets `[N, S]`, both lengths `[N]`.
pub static CTC: OpDef = OpDef {
    sig: "ctc(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> Tensor",
    doc: "The loss of each sequence of ctc_loss; infinite where the steps are too few. A class that is not there is an error when \
          it runs. Step by step over the logarithms of the sums over all ways so far.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let operands = [args.tensor(0)?, args.tensor(1)?, args.tensor(2)?, args.tensor(3)?];
        b.composite(def, smallvec![Attr::Int(args.int(4)?)], &operands)
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 4)?;
        check_sequences(op, inputs)?;
        let x = inputs[0];
        Ok(smallvec![Type { dtype: x.dtype, shape: [x.shape.dim(1)].into_iter().collect() }])
    },
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let lattice = Lattice::of(b, attrs, v)?;
        let last = lattice.forward(b)?.pop();
        let Some(last) = last else { return no_steps(b, dtype, v[3]) };
        let ends = b.select(lattice.ends, last, f64::NEG_INFINITY)?;
        let sum = lattice.log_sum(b, ends)?;
        let loss = b.neg(sum)?;
        let loss = b.cast(loss, dtype)?;
        let without = no_steps(b, dtype, v[3])?[0];
        let idle = b.eq(v[2], 0.0)?;
        Ok(smallvec![b.select(idle, without, loss)?])
    }),
    grad: Grad::Rule(ctc_grad),
    saves: Saves::Only { inputs: &[0, 1, 2, 3], outputs: &[0] },
    amp: Amp::Full,
    cost: 500,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[5,2,4] in -3..-0.5, i64[2,2] in 1..4, i64[2] = 5 4, i64[2] = 2 1, 0", 256),
        Sample::grad("f32[4,2,3] in -3..-0.5, i64[2,2] = 1 1 2 0, i64[2] = 4 2, i64[2] = 2 0, 0", 256),
        Sample::of("f64[2,1,3] in -3..-0.5, i64[1,3] = 1 2 1, i64[1] = 2, i64[1] = 3, 0", 256),
    ],
    ..OpDef::DEFAULT
};
/// Without a step only nothing can be spelled.
fn no_steps(b: &mut Builder<'_>, dtype: DType, sizes: ValueId) -> Result<Outs> {
    let nothing = b.eq(sizes, 0.0)?;
    let zero = b.zeros(dtype, &b.shape(sizes))?;
    Ok(smallvec![b.select(nothing, zero, f64::INFINITY)?])
}

/// The labels with blanks around them, and what each step adds for each.
struct Lattice {
    /// `[T][N, L]`, L = 2 S + 1: the logarithm of each label's probability.
    steps: Vec<ValueId>,
    /// `[N, L]`: may the blank before a label be left out?
    skips: ValueId,
    /// `[N, L]`: where a sequence may end.
    ends: ValueId,
    /// `[N, L]`: the class of each label.
    labels: ValueId,
    /// `[N, 1]`.
    lengths: ValueId,
    shape: Shape,
}
impl Lattice {
    fn of(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Self> {
        let x = widen(b, v[0])?;
        let (xs, blank) = (b.shape(x), attrs[0].int());
        let [t, n, c] = [0, 1, 2].map(|i| xs.dim(i).bound());
        let s = b.shape(v[1]).dim(1).bound();
        let l = 2 * s + 1;
        let shape: Shape = [n, l].into();
        let blanks = b.full(DType::I64, &[n, s, 1].into(), blank)?;
        let own = b.reshape(v[1], &[n, s, 1].into())?;
        let pairs = b.prim(Prim::Concat { axis: 2 }, &[blanks, own])?;
        let pairs = b.reshape(pairs, &[n, 2 * s].into())?;
        let blank = b.constant(DType::I64, blank)?;
        let labels = b.prim(Prim::Pad { axis: 1, before: 0, after: 1 }, &[pairs, blank])?;
        let none = b.constant(DType::I64, -1i64)?;
        let before = shifted(b, labels, 2, none, l)?;
        let (same, is_blank) = (b.eq(labels, before)?, b.eq(labels, blank)?);
        let stays = b.or(same, is_blank)?;
        let place = b.prim(Prim::Iota { shape: shape.clone(), axis: 1 }, &[])?;
        let early = b.lt(place, 2.0)?;
        let stays = b.or(stays, early)?;
        let skips = b.not(stays)?;
        let sizes = b.as_column(v[3])?;
        let end = b.mul(sizes, 2.0)?;
        let label = b.sub(end, 1.0)?;
        let (on_blank, on_label) = (b.eq(place, end)?, b.eq(place, label)?);
        let ends = b.or(on_blank, on_label)?;
        let row = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
        let row = b.mul(row, c as f64)?;
        let at = b.add(row, labels)?;
        let flat = b.reshape(x, &[t, n * c].into())?;
        let mut steps = Vec::with_capacity(t);
        for i in 0..t {
            let line = b.slice(flat, 0, i as i64, 1)?;
            let line = b.reshape(line, &[n * c].into())?;
            steps.push(b.prim(Prim::Gather { axis: 0 }, &[line, at])?);
        }
        Ok(Self { steps, skips, ends, labels, lengths: b.as_column(v[2])?, shape })
    }
    /// `log Σ exp` along the labels.
    fn log_sum(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        let top = b.reduce_keep(Fold::Max, x, &[1])?;
        let (never, finite) = finite_or_zero(b, top)?;
        let e = b.sub(x, finite)?;
        let e = b.exp(e)?;
        let sum = b.reduce_keep(Fold::Sum, e, &[1])?;
        let log = log_of_sum(b, never, finite, sum)?;
        let n = self.shape.dim(0);
        b.reshape(log, &[n].into_iter().collect())
    }
    /// For each step the logarithm of the sum over all ways that end in a label; steps after the last repeat it.
    fn forward(&self, b: &mut Builder<'_>) -> Result<Vec<ValueId>> {
        let place = b.prim(Prim::Iota { shape: self.shape.clone(), axis: 1 }, &[])?;
        let first = b.lt(place, 2.0)?;
        let l = self.shape.dim(1).bound();
        let mut out: Vec<ValueId> = Vec::with_capacity(self.steps.len());
        for (i, &p) in self.steps.iter().enumerate() {
            let next = match out.last() {
                None => b.select(first, p, f64::NEG_INFINITY)?,
                Some(&a) => {
                    let never = b.constant(b.dtype(a), f64::NEG_INFINITY)?;
                    let (one, two) = (shifted(b, a, 1, never, l)?, shifted(b, a, 2, never, l)?);
                    let two = b.select(self.skips, two, f64::NEG_INFINITY)?;
                    let sum = log_add(b, [a, one, two])?;
                    let next = b.add(sum, p)?;
                    let limit = b.constant(DType::I64, i as i64)?;
                    let runs = b.lt(limit, self.lengths)?;
                    b.select(runs, next, a)?
                }
            };
            out.push(b.prim(Prim::Barrier, &[next])?);
        }
        Ok(out)
    }
    /// For each step the same over all ways from a label to the end, the step itself included.
    fn backward(&self, b: &mut Builder<'_>) -> Result<Vec<ValueId>> {
        let l = self.shape.dim(1).bound();
        let mut out: Vec<ValueId> = Vec::with_capacity(self.steps.len());
        // A label is left out on the way to the second next one.
        let off = b.constant(DType::Bool, Scalar::Bool(false))?;
        let skips = shifted_back(b, self.skips, 2, off, l)?;
        for (i, &p) in self.steps.iter().enumerate().rev() {
            let last = b.constant(DType::I64, i as i64 + 1)?;
            let (at_end, runs) = (b.eq(last, self.lengths)?, b.lt(last, self.lengths)?);
            let end = b.select(self.ends, p, f64::NEG_INFINITY)?;
            let mut next = b.select(at_end, end, f64::NEG_INFINITY)?;
            if let Some(&a) = out.last() {
                let never = b.constant(b.dtype(a), f64::NEG_INFINITY)?;
                let (one, two) = (shifted_back(b, a, 1, never, l)?, shifted_back(b, a, 2, never, l)?);
                let two = b.select(skips, two, f64::NEG_INFINITY)?;
                let sum = log_add(b, [a, one, two])?;
                let going = b.add(sum, p)?;
                next = b.select(runs, going, next)?;
            }
            out.push(b.prim(Prim::Barrier, &[next])?);
        }
        out.reverse();
        Ok(out)
    }
}
/// Where the largest of some logarithms is that of 0, and the largest, 0 there.
fn finite_or_zero(b: &mut Builder<'_>, top: ValueId) -> Result<(ValueId, ValueId)> {
    let never = b.eq(top, f64::NEG_INFINITY)?;
    Ok((never, b.select(never, 0.0, top)?))
}
/// `top + log sum`, -∞ where there is nothing to sum: there no gradient goes through the logarithm.
fn log_of_sum(b: &mut Builder<'_>, never: ValueId, top: ValueId, sum: ValueId) -> Result<ValueId> {
    let sum = b.select(never, 1.0, sum)?;
    let log = b.log(sum)?;
    let log = b.add(log, top)?;
    b.select(never, f64::NEG_INFINITY, log)
}
/// `log(exp a + exp b + exp c)`.
fn log_add(b: &mut Builder<'_>, terms: [ValueId; 3]) -> Result<ValueId> {
    let top = b.max(terms[0], terms[1])?;
    let top = b.max(top, terms[2])?;
    let (never, top) = finite_or_zero(b, top)?;
    let exp = |b: &mut Builder<'_>, x: ValueId| {
        let e = b.sub(x, top)?;
        b.exp(e)
    };
    let (x, y, z) = (exp(b, terms[0])?, exp(b, terms[1])?, exp(b, terms[2])?);
    let sum = b.add(x, y)?;
    let sum = b.add(sum, z)?;
    log_of_sum(b, never, top, sum)
}
/// Moved `by` places on along dim 1 of `l` elements.
fn shifted(b: &mut Builder<'_>, x: ValueId, by: usize, fill: ValueId, l: usize) -> Result<ValueId> {
    let padded = b.prim(Prim::Pad { axis: 1, before: by as u64, after: 0 }, &[x, fill])?;
    b.slice(padded, 1, 0, l)
}
fn shifted_back(b: &mut Builder<'_>, x: ValueId, by: usize, fill: ValueId, l: usize) -> Result<ValueId> {
    let padded = b.prim(Prim::Pad { axis: 1, before: 0, after: by as u64 }, &[x, fill])?;
    b.slice(padded, 1, by as i64, l)
}

fn ctc_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let mut inputs: smallvec::SmallVec<[ValueId; 6]> = cx.inputs.into();
    inputs.extend([cx.outputs[0], cx.ct()]);
    let dx = b.composite(&CTC_BACKWARD, cx.op.attrs().into(), &inputs)?[0];
    Ok(smallvec![Some(dx), None, None, None])
}

/// Gradient of [`CTC`]; its attribute. Operands: its own, then the loss and the cotangent, `[N]`.
pub static CTC_BACKWARD: OpDef = OpDef {
    sig: "ctc_backward(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor loss, \
          Tensor grad_loss, int blank) -> Tensor",
    doc: "-grad_loss γ up to the length of a sequence, 0 after it: γ of a step and a class is the share of the ways that take \
          the class there, 0 where there is no way and the loss is infinite.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let operands: smallvec::SmallVec<[ValueId; 6]> = (0..6).map(|i| args.tensor(i)).collect::<Result<_>>()?;
        b.composite(def, smallvec![Attr::Int(args.int(6)?)], &operands)
    },
    infer: infer_backward,
    body: Body::Composite(ctc_backward),
    amp: Amp::Full,
    cost: 1000,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::of(
            "f32[5,2,4] in -3..-0.5, i64[2,2] in 1..4, i64[2] = 5 4, i64[2] = 2 1, f32[2] = 4 4, f32[2] = 1 0.5, 0",
            4096,
        ),
        Sample::of(
            "f32[4,2,3] in -3..-0.5, i64[2,2] = 1 1 2 0, i64[2] = 4 2, i64[2] = 2 0, f32[2] = 5 3, f32[2] = 1 0, 0",
            4096,
        ),
    ],
    ..OpDef::DEFAULT
};
/// Whether log_probs, targets and their lengths are of one batch; what follows them is a number for each sequence.
fn check_sequences(op: &Op, inputs: &[&Type]) -> Result<()> {
    let (x, targets) = (inputs[0], inputs[1]);
    let fits = x.rank() == 3 && targets.rank() == 2 && targets.shape.dim(0) == x.shape.dim(1);
    let line = |t: &Type, dtype: DType| t.dtype == dtype && t.shape.iter().eq([x.shape.dim(1)]);
    let numbers = || inputs[2..4].iter().all(|t| line(t, DType::I64)) && inputs[4..].iter().all(|t| line(t, x.dtype));
    if !fits || !x.dtype.is_float() || !numbers() {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))));
    }
    Ok(())
}
fn infer_backward(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 6)?;
    check_sequences(op, inputs)?;
    Ok(smallvec![inputs[0].clone()])
}
fn ctc_backward(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let lattice = Lattice::of(b, attrs, v)?;
    let (alphas, betas) = (lattice.forward(b)?, lattice.backward(b)?);
    let (x, loss, g) = (widen(b, v[0])?, widen(b, v[4])?, widen(b, v[5])?);
    let shape = b.shape(x);
    let [t, n, c] = [0, 1, 2].map(|i| shape.dim(i).bound());
    if t == 0 {
        return Ok(smallvec![v[0]]);
    }
    let l = lattice.shape.dim(1);
    // Without a way the sums are those of nothing, whatever is added.
    let endless = b.eq(loss, f64::INFINITY)?;
    let loss = b.select(endless, 0.0, loss)?;
    let (loss, factor) = (b.as_column(loss)?, b.reshape(g, &[1, n, 1].into())?);
    let mut parts = Vec::with_capacity(t);
    for i in 0..t {
        let ways = b.add(alphas[i], betas[i])?;
        let ways = b.sub(ways, lattice.steps[i])?;
        let share = b.add(ways, loss)?;
        let share = b.exp(share)?;
        parts.push(b.reshape(share, &[1.into(), Dim::from(n), l].into_iter().collect())?);
    }
    let shares = if t == 1 { parts[0] } else { b.prim(Prim::Concat { axis: 0 }, &parts)? };
    let column = b.as_column(lattice.labels)?;
    let hot: Shape = [Dim::from(n), l, Dim::from(c)].into_iter().collect();
    let class = b.prim(Prim::Iota { shape: hot, axis: 2 }, &[])?;
    let hot = b.eq(class, column)?;
    let hot = b.cast(hot, b.dtype(x))?;
    // [N, T, C], then steps first again.
    let taken = b.prim(Prim::Dot { batch: smallvec![(1, 0)], contract: smallvec![(2, 1)] }, &[shares, hot])?;
    let taken = b.permute(taken, &[1, 0, 2])?;
    let slope = b.neg(taken)?;
    let dx = b.mul(slope, factor)?;
    let step = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
    let lengths = b.reshape(v[2], &[1, n, 1].into())?;
    let runs = b.lt(step, lengths)?;
    let dx = b.select(runs, dx, 0.0)?;
    Ok(smallvec![b.cast(dx, dtype)?])
}
