//! PyTorch's stacks: layers on layers, in one direction or both.
use super::cells::lstm_step;
use super::{GRU_LAYER, LSTM_LAYER, RNN_LAYER, at, sequence, side_by_side, steps, times_transposed};
use crate::args::Args;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{Kind, Result};
use rtx_ir::{Attr, Builder, OpDef, Outs, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

const STACK: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// An LSTM.
pub static LSTM: OpDef = OpDef {
    sig: "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
    doc: "Layers of lstm_cell over a sequence: the last layer's h after each step, and each layer's last h and c. A \
          layer's parameters are w_ih, w_hh, both biases, and w_hr where h' = (σ(o) tanh c') · w_hrᵀ. Dropout between \
          layers is a call of its own.",
    record: |b, def, args| stack(b, Args::new(def, args), Cell::Lstm),
    samples: &[
        Sample::grad(
            "f32[3,2,2] in -1..1, [f32[1,2,2] in -1..1, f32[1,2,2] in -1..1], [f32[8,2] in -1..1, f32[8,2] in -1..1, f32[8] in -1..1, f32[8] in -1..1], true, 1, 0.0, false, false, false",
            128,
        ),
        Sample::grad(
            "f32[1,2,2] in -1..1, [f32[2,1,1] in -1..1, f32[2,1,1] in -1..1], [f32[4,2] in -1..1, f32[4,1] in -1..1, f32[4,2] in -1..1, f32[4,1] in -1..1], false, 1, 0.0, false, true, true",
            128,
        ),
        Sample::of(
            "f32[2,1,2] in -1..1, [f32[1,1,1] in -1..1, f32[1,1,2] in -1..1], [f32[8,2] in -1..1, f32[8,1] in -1..1, f32[8] in -1..1, f32[8] in -1..1, f32[1,2] in -1..1], true, 1, 0.0, false, false, false",
            128,
        ),
    ],
    refuses: &[Refusal::of(
        "f32[3,2,2], [f32[1,2,2], f32[1,2,2]], [f32[8,2], f32[8,2]], true, 1, 0.0, false, false, false",
        "lstm: 1 layers in 1 directions with biases take 4 parameters, got 2",
    )],
    ..STACK
};
/// A GRU.
pub static GRU: OpDef = OpDef {
    sig: "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    doc: "Layers of gru_cell over a sequence: the last layer's h after each step, and each layer's last h.",
    record: |b, def, args| stack(b, Args::new(def, args), Cell::Gru),
    samples: &[
        Sample::grad(
            "f32[3,2,2] in -1..1, f32[1,2,2] in -1..1, [f32[6,2] in -1..1, f32[6,2] in -1..1, f32[6] in -1..1, f32[6] in -1..1], true, 1, 0.0, false, false, false",
            128,
        ),
        Sample::of(
            "f32[2,3,2] in -1..1, f32[2,2,1] in -1..1, [f32[3,2] in -1..1, f32[3,1] in -1..1, f32[3,2] in -1..1, f32[3,1] in -1..1], false, 1, 0.0, false, true, true",
            128,
        ),
    ],
    ..STACK
};
/// A plain network with tanh.
pub static RNN_TANH: OpDef = OpDef {
    sig: "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    doc: "Layers of rnn_tanh_cell over a sequence: the last layer's h after each step, and each layer's last h.",
    record: |b, def, args| stack(b, Args::new(def, args), Cell::Tanh),
    samples: &[Sample::grad(
        "f32[3,2,2] in -1..1, f32[2,2,1] in -1..1, [f32[1,2] in -1..1, f32[1,1] in -1..1, f32[1,1] in -1..1, f32[1,1] in -1..1], false, 2, 0.0, false, false, false",
        128,
    )],
    ..STACK
};
/// A plain network with relu.
pub static RNN_RELU: OpDef = OpDef {
    sig: "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    doc: "Layers of rnn_relu_cell over a sequence: the last layer's h after each step, and each layer's last h.",
    record: |b, def, args| stack(b, Args::new(def, args), Cell::Relu),
    samples: &[Sample::of(
        "f32[3,2,2] in -1..1, f32[1,2,2] in -1..1, [f32[2,2] in -1..1, f32[2,2] in -1..1, f32[2] in -1..1, f32[2] in -1..1], true, 1, 0.0, false, false, false",
        128,
    )],
    ..STACK
};

/// What a layer does in a step.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// `(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`.
fn stack(b: &mut Builder<'_>, args: Args<'_>, cell: Cell) -> Result<Outs> {
    let refuse = |kind, what: String| Err(rules::refuse(args.op(), kind, what));
    let states: SmallVec<[ValueId; 2]> = match cell {
        Cell::Lstm => args.tensors(1)?.into(),
        _ => smallvec![args.tensor(1)?],
    };
    let params = args.tensors(2)?;
    let (biases, layers) = (args.flag(3)?, args.int(4)?.max(0) as usize);
    let directions = if args.flag(7)? { 2 } else { 1 };
    if args.flag(6)? && args.float_or(5, 0.0)? > 0.0 && layers > 1 {
        return refuse(Kind::Unsupported, "dropout between layers is a call of its own".into());
    }
    if states.len() != if cell == Cell::Lstm { 2 } else { 1 } {
        return refuse(Kind::Argument, format!("hx holds {} states", states.len()));
    }
    let each = if biases { 4 } else { 2 };
    let runs = layers * directions;
    let projected = cell == Cell::Lstm && params.len() == runs * (each + 1);
    if runs == 0 || !(projected || params.len() == runs * each) {
        let with = if biases { "with" } else { "without" };
        let what = format!("{layers} layers in {directions} directions {with} biases take {} parameters", runs * each);
        return refuse(Kind::Argument, format!("{what}, got {}", params.len()));
    }
    check_shapes(b, args.op(), args.tensor(0)?, &states, runs)?;
    let each = each + usize::from(projected);
    let mut x = args.tensor(0)?;
    if args.flag(8)? {
        x = b.permute(x, &[1, 0, 2])?;
    }
    let mut last: Vec<Vec<ValueId>> = vec![Vec::new(); states.len()];
    for layer in 0..layers {
        let mut outputs: SmallVec<[ValueId; 2]> = SmallVec::new();
        for direction in 0..directions {
            let run = layer * directions + direction;
            let from = states.iter().map(|&s| at(b, s, run as i64)).collect::<Result<SmallVec<[ValueId; 2]>>>()?;
            let weights = Weights { params: &params[run * each..(run + 1) * each], biases, reverse: direction == 1 };
            let (output, ends) = weights.run(b, cell, x, &from)?;
            outputs.push(output);
            ends.into_iter().zip(&mut last).for_each(|(end, all)| all.push(end));
        }
        x = if let [only] = outputs[..] { only } else { side_by_side(b, &outputs)? };
    }
    if args.flag(8)? {
        x = b.permute(x, &[1, 0, 2])?;
    }
    let mut outs: Outs = smallvec![x];
    for (all, &like) in last.into_iter().zip(&states) {
        let like = b.ty(like).clone();
        outs.push(sequence(b, all, false, &like)?);
    }
    Ok(outs)
}

fn check_shapes(b: &Builder<'_>, op: &str, x: ValueId, states: &[ValueId], runs: usize) -> Result<()> {
    let fits = b.rank(x) == 3 && states.iter().all(|&s| b.rank(s) == 3 && b.shape(s).dim(0) == runs.into());
    if fits {
        return Ok(());
    }
    let states: Vec<String> = states.iter().map(|&s| b.shape(s).to_string()).collect();
    let what = format!(
        "an input of [3 dims] and states of [{runs}, batch, size], got {} and {}",
        b.shape(x),
        states.join(", ")
    );
    Err(rules::refuse(op, Kind::Shape, what))
}

/// One layer in one direction.
struct Weights<'a> {
    params: &'a [ValueId],
    biases: bool,
    reverse: bool,
}

impl Weights<'_> {
    /// The states after each step, and the last ones.
    fn run(
        &self,
        b: &mut Builder<'_>,
        cell: Cell,
        x: ValueId,
        from: &[ValueId],
    ) -> Result<(ValueId, SmallVec<[ValueId; 2]>)> {
        let dtype = b.dtype(x);
        let x = widen(b, x)?;
        let wide = self.params.iter().map(|&v| widen(b, v)).collect::<Result<SmallVec<[ValueId; 5]>>>()?;
        let from = from.iter().map(|&v| widen(b, v)).collect::<Result<SmallVec<[ValueId; 2]>>>()?;
        let mut part = times_transposed(b, x, wide[0])?;
        if self.biases {
            part = b.add(part, wide[2])?;
        }
        if self.biases && cell != Cell::Gru {
            part = b.add(part, wide[3])?;
        }
        let (output, last) = match cell {
            Cell::Lstm if wide.len() % 2 == 1 => self.projected(b, part, &wide, &from)?,
            _ => self.steps(b, cell, part, &wide, &from)?,
        };
        let last = last.into_iter().map(|v| b.cast(v, dtype)).collect::<Result<_>>()?;
        Ok((b.cast(output, dtype)?, last))
    }

    fn steps(
        &self,
        b: &mut Builder<'_>,
        cell: Cell,
        part: ValueId,
        wide: &[ValueId],
        from: &[ValueId],
    ) -> Result<(ValueId, SmallVec<[ValueId; 2]>)> {
        let reverse = Attr::Bool(self.reverse);
        let sequences = match cell {
            Cell::Lstm => b.composite(&LSTM_LAYER, smallvec![reverse], &[part, from[0], from[1], wide[1]])?,
            Cell::Gru => {
                let bias = match self.biases {
                    true => wide[3],
                    false => b.zeros(b.dtype(part), &[b.shape(part).dim(2)].into_iter().collect())?,
                };
                b.composite(&GRU_LAYER, smallvec![reverse], &[part, from[0], wide[1], bias])?
            }
            Cell::Tanh | Cell::Relu => {
                let attrs = smallvec![Attr::Bool(cell == Cell::Relu), reverse];
                b.composite(&RNN_LAYER, attrs, &[part, from[0], wide[1]])?
            }
        };
        let last = sequences.iter().zip(from).map(|(&s, &first)| self.last(b, s, first));
        Ok((sequences[0], last.collect::<Result<_>>()?))
    }

    /// The state after the last step.
    fn last(&self, b: &mut Builder<'_>, states: ValueId, first: ValueId) -> Result<ValueId> {
        match crate::lines::known("last", b.ty(states).shape.dim(0))? as i64 {
            0 => Ok(first),
            n => at(b, states, if self.reverse { 0 } else { n - 1 }),
        }
    }

    /// An LSTM whose h is a product with the last parameter: step by step, as it is rare.
    fn projected(
        &self,
        b: &mut Builder<'_>,
        part: ValueId,
        wide: &[ValueId],
        from: &[ValueId],
    ) -> Result<(ValueId, SmallVec<[ValueId; 2]>)> {
        let (mut h, mut c, mut outputs) = (from[0], from[1], Vec::new());
        for t in steps("lstm", b, part, self.reverse)? {
            let (x, own) = (at(b, part, t)?, times_transposed(b, h, wide[1])?);
            let pre = b.add(own, x)?;
            [h, c] = lstm_step(b, pre, c)?;
            h = times_transposed(b, h, wide[wide.len() - 1])?;
            outputs.push(h);
        }
        let mut like = b.ty(part).clone();
        like.shape.set(2, b.ty(h).shape.dim(1));
        Ok((sequence(b, outputs, self.reverse, &like)?, smallvec![h, c]))
    }
}
