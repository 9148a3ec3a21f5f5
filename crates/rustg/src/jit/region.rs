//! What is printed as one loop: steps over operands, each an instruction of the tile program; and what becomes of
//! each step in registers.
use super::body::{Bin, Body, Cmp, D, EQ, F, FoldOp, Form, LE, LT, Logic, Mop, NE, Un, Uniform, V};
use crate::math::{Real, single};
use crate::{Arith, Comparison, Fold, Function, Isa};
use rtx_core::DType;

/// Which instruction a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A function of one number.
    Unary(Function),
    /// A function of two numbers.
    Binary(Arith),
    /// A comparison.
    Compare(Comparison),
    /// `a * b + c`.
    Fma,
    /// `if c { a } else { b }`.
    Select,
    /// A conversion.
    Cast,
    /// The same bits.
    Bitcast,
    /// The operand as it is.
    Copy,
    /// A block of a row folded.
    Fold(Fold),
}

/// An instruction and its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Means {
    /// Which.
    pub what: What,
    /// Of its operands; unused ones repeat the first.
    pub from: [DType; 3],
    /// Of its result.
    pub to: DType,
}

/// Where an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mem {
    /// An element for every column.
    Tile(DType),
    /// One element for each row.
    Row(DType),
    /// At an offset in bytes of the table of constants.
    Const(DType, u32),
    /// As [`Mem::Row`], written at the row's end.
    Partial(DType),
}

/// Where a step takes an operand from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Src {
    /// An earlier step.
    Step(u32),
    /// An operand of the region.
    Mem(u32),
}

/// One instruction of a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// The instruction.
    pub means: Means,
    /// Its operands.
    pub src: Vec<Src>,
    /// The operand of the region that the result is written to, if it is.
    pub out: Option<u32>,
    /// Odd: a loop over the columns. Even: what is done once a row, before the next loop.
    pub stage: u32,
}

/// What one stage does, in registers.
pub(super) struct Stage {
    pub is_loop: bool,
    pub mops: Vec<Mop>,
    pub folds: Vec<Folded>,
    /// Values that later stages read: the value, and the step that it is of.
    pub results: Vec<(V, u32)>,
}
/// A fold of a stage.
pub(super) struct Folded {
    pub op: FoldOp,
    /// The operand that it is written to.
    pub out: Option<u32>,
    /// The step that later stages know it by.
    pub scalar: Option<u32>,
}

/// What one piece of code is printed from: it says nothing of sizes, strides or places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Region {
    /// Operands.
    pub mems: Vec<Mem>,
    /// In order.
    pub steps: Vec<Step>,
    /// Operands that are written past the caches: the caller sees to it that their rows begin at multiples of 64 bytes.
    pub past: Vec<u32>,
    /// Operands whose rows follow each other through more memory than the caches near a core hold: fetched ahead.
    pub ahead: Vec<u32>,
    /// Operands of which nothing is read once a block of rows is done: every block has the same memory.
    pub local: Vec<u32>,
}

/// A number in registers, by its type's size.
#[derive(Clone, Copy)]
enum Lanes {
    One(V),
    Two([V; 2]),
    Truth(V),
}
use Lanes::{One, Truth, Two};
impl Lanes {
    fn one(self) -> Option<V> {
        if let One(v) = self { Some(v) } else { None }
    }
    fn two(self) -> Option<[V; 2]> {
        if let Two(v) = self { Some(v) } else { None }
    }
    fn truth(self) -> Option<V> {
        if let Truth(v) = self { Some(v) } else { None }
    }
}

/// Has a type registers here?
fn is_held(t: DType) -> bool {
    use DType::*;
    matches!(t, Bool | U8 | I8 | I16 | U16 | I32 | U32 | I64 | F16 | BF16 | F32 | F64)
}

/// Can this instruction be printed for an instruction set?
pub(crate) fn is_printable(means: &Means, isa: Isa) -> bool {
    let held = means.from.iter().all(|&t| is_held(t)) && is_held(means.to);
    let body = Body::new(isa, true);
    let operand = |k: usize| load(&body, Mem::Tile(means.from[k]), k as u32);
    let lowered = held
        && match (operand(0), operand(1), operand(2)) {
            (Some(a), Some(b), Some(c)) => lower(&body, means, &[a, b, c], 0).is_some(),
            _ => false,
        };
    lowered && body.into_mops().iter().all(|mop| super::has(mop, isa))
}

impl Region {
    /// What each stage does; `None` if something has no form in registers.
    pub(super) fn stages(&self, isa: Isa) -> Option<Vec<Stage>> {
        let last = self.steps.iter().map(|s| s.stage).max()?;
        let stages = (0..=last).filter(|&n| self.steps.iter().any(|s| s.stage == n));
        stages.map(|n| self.stage(n, isa)).collect()
    }
    /// Does a later stage read this step?
    fn is_read_later(&self, step: u32) -> bool {
        let stage = self.steps[step as usize].stage;
        self.steps.iter().any(|s| s.stage > stage && s.src.contains(&Src::Step(step)))
    }
    fn stage(&self, n: u32, isa: Isa) -> Option<Stage> {
        let is_loop = n % 2 == 1;
        let body = Body::new(isa, is_loop);
        let mut values: Vec<Option<Lanes>> = vec![None; self.steps.len()];
        let (mut folds, mut results) = (vec![], vec![]);
        for (i, step) in self.steps.iter().enumerate().filter(|(_, s)| s.stage == n) {
            let operand = |src: &Src| match *src {
                Src::Step(s) if self.steps[s as usize].stage == n => values[s as usize],
                Src::Step(s) => scalar(&body, self.steps[s as usize].means.to, s),
                Src::Mem(m) => load(&body, self.mems[m as usize], m),
            };
            let operands = step.src.iter().map(operand).collect::<Option<Vec<Lanes>>>()?;
            let scalar = self.is_read_later(i as u32).then_some(i as u32);
            if let What::Fold(_) = step.means.what {
                lower(&body, &step.means, &operands, folds.len() as u32)?;
                folds.push(Folded { op: fold_op(&step.means)?, out: step.out, scalar });
                continue;
            }
            let value = lower(&body, &step.means, &operands, 0)?;
            if let Some(out) = step.out {
                store(&body, step.means.to, out, value, is_loop)?;
            }
            if let Some(id) = scalar.filter(|_| !is_loop) {
                results.push((scalar_value(value)?, id));
            }
            values[i] = Some(value);
        }
        Some(Stage { is_loop, mops: body.into_mops(), folds, results })
    }
}

/// What an earlier stage made of the row.
fn scalar(body: &Body, t: DType, step: u32) -> Option<Lanes> {
    Some(match t {
        DType::F32 | DType::I32 | DType::U32 => One(body.push(Mop::Uniform(Uniform::Scalar32(step)))),
        DType::F64 | DType::I64 => Two([body.push(Mop::Uniform(Uniform::Scalar64(step))); 2]),
        _ => return None,
    })
}
fn scalar_value(value: Lanes) -> Option<V> {
    match value {
        One(v) => Some(v),
        Two([v, _]) => Some(v),
        Truth(_) => None,
    }
}

fn load(body: &Body, mem: Mem, m: u32) -> Option<Lanes> {
    let (t, tile) = match mem {
        Mem::Tile(t) => (t, true),
        Mem::Row(t) | Mem::Const(t, _) => (t, false),
        Mem::Partial(_) => return None,
    };
    let load = |form| body.push(Mop::Load(m, form));
    let splat = |bytes| match mem {
        Mem::Const(_, offset) => body.push(Mop::ConstSplat(offset, bytes)),
        _ => body.push(Mop::Splat(m, bytes)),
    };
    Some(match t {
        DType::F32 | DType::I32 | DType::U32 => One(match mem {
            Mem::Const(_, offset) => body.push(Mop::Uniform(Uniform::Const32(offset))),
            Mem::Row(_) => body.push(Mop::Uniform(Uniform::Row32(m))),
            _ => load(Form::Word),
        }),
        DType::F64 | DType::I64 => Two(match mem {
            Mem::Const(_, offset) => [body.push(Mop::Uniform(Uniform::Const64(offset))); 2],
            Mem::Row(_) => [body.push(Mop::Uniform(Uniform::Row64(m))); 2],
            _ => [load(Form::Quad(0)), load(Form::Quad(1))],
        }),
        DType::Bool => Truth(body.push(Mop::TestBytes(if tile { load(Form::Bytes) } else { splat(1) }))),
        DType::U8 => One(if tile { load(Form::Byte) } else { body.un(Un::ExtendByte, splat(1)) }),
        DType::I8 => One(if tile { load(Form::SignedByte) } else { body.un(Un::ExtendSignedByte, splat(1)) }),
        DType::I16 => One(if tile { load(Form::SignedPair) } else { body.un(Un::ExtendSignedPair, splat(2)) }),
        DType::U16 | DType::F16 | DType::BF16 => {
            One(if tile { load(Form::Pair) } else { body.un(Un::ExtendPair, splat(2)) })
        }
        _ => return None,
    })
}

fn store(body: &Body, t: DType, m: u32, value: Lanes, in_loop: bool) -> Option<()> {
    let put = |form, v| body.push(Mop::Store(m, form, v));
    match t {
        DType::F32 | DType::I32 | DType::U32 if !in_loop => put(Form::One32, value.one()?),
        DType::F64 | DType::I64 if !in_loop => put(Form::One64, value.two()?[0]),
        _ if !in_loop => return None,
        DType::F32 | DType::I32 | DType::U32 => put(Form::Word, value.one()?),
        DType::F64 | DType::I64 => {
            let [lo, hi] = value.two()?;
            put(Form::Quad(0), lo);
            put(Form::Quad(1), hi)
        }
        DType::Bool => put(Form::Bytes, body.push(Mop::Truths(value.truth()?))),
        DType::U8 | DType::I8 => put(Form::Byte, value.one()?),
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => put(Form::Pair, value.one()?),
        _ => return None,
    };
    Some(())
}

fn fold_op(means: &Means) -> Option<FoldOp> {
    let What::Fold(fold) = means.what else { return None };
    Some(match (fold, means.to) {
        (Fold::Sum, DType::F32) => FoldOp::SumF,
        (Fold::Prod, DType::F32) => FoldOp::ProdF,
        (Fold::Max, DType::F32) => FoldOp::MaxF,
        (Fold::Min, DType::F32) => FoldOp::MinF,
        (Fold::Sum, DType::F64) => FoldOp::SumD,
        (Fold::Prod, DType::F64) => FoldOp::ProdD,
        (Fold::Sum, DType::I64) => FoldOp::Sum64,
        _ => return None,
    })
}

/// One step in registers.
fn lower(body: &Body, means: &Means, x: &[Lanes], accumulator: u32) -> Option<Lanes> {
    let a = x[0];
    Some(match means.what {
        What::Copy => a,
        What::Unary(f) => unary(body, f, means.from[0], a)?,
        What::Binary(f) => binary(body, f, means.from[0], a, x[1])?,
        What::Compare(f) => compare(body, f, means.from[0], a, x[1])?,
        What::Fma => match means.to {
            DType::F32 => One(body.push(Mop::FmaF(a.one()?, x[1].one()?, x[2].one()?))),
            DType::F64 => {
                let (a, b, c) = (a.two()?, x[1].two()?, x[2].two()?);
                Two([0, 1].map(|k| body.push(Mop::FmaD(a[k], b[k], c[k]))))
            }
            _ => return None,
        },
        What::Select => select(body, a.truth()?, x[1], x[2])?,
        What::Cast => cast(body, means.from[0], means.to, a)?,
        What::Bitcast => match (means.from[0], means.to) {
            (from, to) if from == to => a,
            (DType::F32 | DType::I32 | DType::U32, DType::F32 | DType::I32 | DType::U32) => a,
            (DType::F64 | DType::I64, DType::F64 | DType::I64) => a,
            (DType::F16 | DType::BF16 | DType::U16, DType::F16 | DType::BF16 | DType::U16) => a,
            _ => return None,
        },
        What::Fold(_) => {
            let op = fold_op(means)?;
            let [lo, hi] = match a {
                One(v) => [v, v],
                Two(v) => v,
                Truth(_) => return None,
            };
            One(body.push(Mop::Fold(accumulator, op, lo, hi)))
        }
    })
}

fn unary(body: &Body, f: Function, t: DType, a: Lanes) -> Option<Lanes> {
    match t {
        DType::F32 => {
            let v = a.one()?;
            let x = F(body, v);
            let round = |mode| body.un(Un::RoundF(mode), v);
            Some(One(match f {
                Function::Neg => (-x).1,
                Function::Abs => x.abs().1,
                Function::Sign => single::sign(x).1,
                Function::Floor => round(FLOOR),
                Function::Ceil => round(CEIL),
                Function::Trunc => round(TRUNC),
                Function::RoundEven => round(NEAREST),
                Function::Sqrt => body.un(Un::SqrtF, v),
                Function::Exp => single::exp(x).1,
                Function::Expm1 => single::expm1(x).1,
                Function::Log => single::log(x).1,
                Function::Log1p => single::log1p(x).1,
                Function::Sin => single::sin(x).1,
                Function::Cos => single::cos(x).1,
                Function::Tanh => single::tanh(x).1,
                Function::Erf => single::erf(x).1,
                Function::Erfc | Function::Lgamma | Function::Digamma => return None,
                Function::Real | Function::Imag | Function::Not => return None,
            }))
        }
        DType::F64 => {
            let v = a.two()?;
            let x = D(body, v);
            let each = |op| v.map(|v| body.un(op, v));
            Some(Two(match f {
                Function::Neg => (-x).1,
                Function::Abs => x.abs().1,
                Function::Floor => each(Un::RoundD(FLOOR)),
                Function::Ceil => each(Un::RoundD(CEIL)),
                Function::Trunc => each(Un::RoundD(TRUNC)),
                Function::RoundEven => each(Un::RoundD(NEAREST)),
                Function::Sqrt => each(Un::SqrtD),
                _ => return None,
            }))
        }
        DType::Bool if f == Function::Not => Some(Truth(body.push(Mop::Not(a.truth()?)))),
        DType::I32 | DType::U32 => {
            let v = a.one()?;
            Some(One(match f {
                Function::Neg => body.bin(Bin::Sub32, body.literal32(0), v),
                Function::Not => body.bin(Bin::Xor32, v, body.literal32(u32::MAX)),
                Function::Abs if t == DType::I32 => body.un(Un::Abs32, v),
                _ => return None,
            }))
        }
        DType::I64 => {
            let v = a.two()?;
            Some(Two(match f {
                Function::Neg => v.map(|v| body.bin(Bin::Sub64, body.literal64(0), v)),
                Function::Not => v.map(|v| body.bin(Bin::Xor64, v, body.literal64(u64::MAX))),
                Function::Abs => v.map(|v| body.un(Un::Abs64, v)),
                _ => return None,
            }))
        }
        _ => None,
    }
}
/// Rounding modes of the instructions, exceptions kept quiet.
const NEAREST: u8 = 8;
const FLOOR: u8 = 9;
const CEIL: u8 = 10;
const TRUNC: u8 = 11;

/// Arithmetic of either precision.
fn float<R: Real>(f: Arith, x: R, y: R) -> Option<R> {
    Some(match f {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul => x * y,
        Arith::Div => x / y,
        Arith::Max => single::max(x, y),
        Arith::Min => single::min(x, y),
        _ => return None,
    })
}

fn binary(body: &Body, f: Arith, t: DType, a: Lanes, b: Lanes) -> Option<Lanes> {
    match t {
        DType::F32 => Some(One(float(f, F(body, a.one()?), F(body, b.one()?))?.1)),
        DType::F64 => Some(Two(float(f, D(body, a.two()?), D(body, b.two()?))?.1)),
        DType::I32 | DType::U32 => {
            let signed = t == DType::I32;
            let op = match f {
                Arith::Add => Bin::Add32,
                Arith::Sub => Bin::Sub32,
                Arith::Mul => Bin::Mul32,
                Arith::And => Bin::And32,
                Arith::Or => Bin::Or32,
                Arith::Xor => Bin::Xor32,
                Arith::Max if signed => Bin::MaxS32,
                Arith::Max => Bin::MaxU32,
                Arith::Min if signed => Bin::MinS32,
                Arith::Min => Bin::MinU32,
                // Counts from 32 on, negative ones too, give 0 or the sign: as the instructions do.
                Arith::Shl => Bin::Shl32,
                Arith::Shr if signed => Bin::Sar32,
                Arith::Shr => Bin::Shr32,
                _ => return None,
            };
            Some(One(body.bin(op, a.one()?, b.one()?)))
        }
        DType::I64 => {
            let op = match f {
                Arith::Add => Bin::Add64,
                Arith::Sub => Bin::Sub64,
                Arith::Mul => Bin::Mul64,
                Arith::And => Bin::And64,
                Arith::Or => Bin::Or64,
                Arith::Xor => Bin::Xor64,
                Arith::Max => Bin::MaxS64,
                Arith::Min => Bin::MinS64,
                Arith::Shl => Bin::Shl64,
                Arith::Shr => Bin::Sar64,
                _ => return None,
            };
            let (a, b) = (a.two()?, b.two()?);
            Some(Two([0, 1].map(|k| body.bin(op, a[k], b[k]))))
        }
        DType::Bool => {
            let op = match f {
                Arith::And | Arith::Min => Logic::And,
                Arith::Or | Arith::Max => Logic::Or,
                Arith::Xor => Logic::Xor,
                _ => return None,
            };
            Some(Truth(body.push(Mop::Logic(op, a.truth()?, b.truth()?))))
        }
        _ => None,
    }
}

fn compare(body: &Body, f: Comparison, t: DType, a: Lanes, b: Lanes) -> Option<Lanes> {
    let p = match f {
        Comparison::Eq => EQ,
        Comparison::Lt => LT,
        Comparison::Le => LE,
    };
    let one = |cmp| Some(Truth(body.push(Mop::Cmp(cmp, a.one()?, b.one()?))));
    let two = |cmp| {
        let (a, b) = (a.two()?, b.two()?);
        let halves = [0, 1].map(|k| body.push(Mop::Cmp(cmp, a[k], b[k])));
        Some(Truth(body.push(Mop::Logic(Logic::Join, halves[0], halves[1]))))
    };
    match t {
        DType::F32 => one(Cmp::F(p)),
        DType::I32 | DType::U8 | DType::I8 | DType::I16 | DType::U16 => one(Cmp::S32(p)),
        DType::U32 => one(Cmp::U32(p)),
        DType::F64 => two(Cmp::D(p)),
        DType::I64 => two(Cmp::S64(p)),
        DType::Bool => {
            let (a, b) = (a.truth()?, b.truth()?);
            let logic = |op, a, b| body.push(Mop::Logic(op, a, b));
            Some(Truth(match f {
                Comparison::Eq => body.push(Mop::Not(logic(Logic::Xor, a, b))),
                Comparison::Lt => logic(Logic::AndNot, a, b),
                Comparison::Le => logic(Logic::Or, body.push(Mop::Not(a)), b),
            }))
        }
        _ => None,
    }
}

fn select(body: &Body, c: V, a: Lanes, b: Lanes) -> Option<Lanes> {
    Some(match (a, b) {
        (One(a), One(b)) => One(body.push(Mop::Blend32(c, a, b))),
        (Two(a), Two(b)) => {
            let upper = body.push(Mop::UpperMask(c));
            Two([body.push(Mop::Blend64(c, a[0], b[0])), body.push(Mop::Blend64(upper, a[1], b[1]))])
        }
        (Truth(a), Truth(b)) => {
            let logic = |op, a, b| body.push(Mop::Logic(op, a, b));
            Truth(logic(Logic::Or, logic(Logic::And, c, a), logic(Logic::AndNot, c, b)))
        }
        _ => return None,
    })
}

/// Conversions, as [`crate::number`] says.
fn cast(body: &Body, from: DType, to: DType, a: Lanes) -> Option<Lanes> {
    use DType::*;
    if from == to {
        return Some(a);
    }
    let halves = |v: V, op: Un| Two(body.halves(v).map(|v| body.un(op, v)));
    let joined = |v: [V; 2], op: Un| One(body.join(v.map(|v| body.un(op, v))));
    let lit = |bits| body.literal32(bits);
    Some(match (from, to) {
        (Bool, F32) => One(body.push(Mop::Blend32(a.truth()?, lit(1f32.to_bits()), lit(0)))),
        (Bool, I32 | U32 | U8 | I8 | I16 | U16) => One(body.push(Mop::Blend32(a.truth()?, lit(1), lit(0)))),
        (Bool, I64 | F64) => {
            let (one, zero) = (if to == I64 { 1 } else { 1f64.to_bits() }, body.literal64(0));
            let one = body.literal64(one);
            let [lo, hi] = [a.truth()?, body.push(Mop::UpperMask(a.truth()?))];
            Two([lo, hi].map(|m| body.push(Mop::Blend64(m, one, zero))))
        }
        (F32, Bool) => Truth(body.push(Mop::Cmp(Cmp::F(NE), a.one()?, lit(0)))),
        (I32 | U32 | U8 | I8 | I16 | U16, Bool) => Truth(body.push(Mop::Cmp(Cmp::S32(NE), a.one()?, lit(0)))),
        (I64 | F64, Bool) => {
            let cmp = if from == I64 { Cmp::S64(NE) } else { Cmp::D(NE) };
            let [lo, hi] = a.two()?.map(|v| body.push(Mop::Cmp(cmp, v, body.literal64(0))));
            Truth(body.push(Mop::Logic(Logic::Join, lo, hi)))
        }
        (BF16, F32) => One(body.un(Un::Shl32(16), a.one()?)),
        (F16, F32) => One(body.un(Un::HalfToF, a.one()?)),
        (F32, BF16) => One(to_bfloat(body, a.one()?)),
        (F32, F16) => One(body.un(Un::FToHalf, a.one()?)),
        (I32 | U8 | I8 | I16 | U16, F32) => One(body.un(Un::I32ToF, a.one()?)),
        (U32, F32) => One(body.un(Un::U32ToF, a.one()?)),
        (I32 | U8 | I8 | I16 | U16, F64) => halves(a.one()?, Un::I32ToD),
        (U32, F64) => halves(a.one()?, Un::U32ToD),
        (I32 | U8 | I8 | I16 | U16, I64) => halves(a.one()?, Un::I32ToI64),
        (U32, I64) => halves(a.one()?, Un::U32ToI64),
        (I32, U32) | (U32, I32) | (U8 | U16 | I8 | I16, I32 | U32) => a,
        (I64, I32 | U32) => joined(a.two()?, Un::I64ToI32),
        (I64, F32) => joined(a.two()?, Un::I64ToF),
        (I64, F64) => Two(a.two()?.map(|v| body.un(Un::I64ToD, v))),
        (F32, F64) => halves(a.one()?, Un::FToD),
        (F64, F32) => joined(a.two()?, Un::DToF),
        (F32, I32) => {
            let (x, limit) = (a.one()?, lit(2147483648f32.to_bits()));
            let n = body.un(Un::FToI32, x);
            let n = body.push(Mop::Blend32(body.push(Mop::Cmp(Cmp::F(LE), limit, x)), lit(i32::MAX as u32), n));
            One(body.push(Mop::Blend32(F(body, x).is_nan(), lit(0), n)))
        }
        (F32, I64) => {
            let (x, limit) = (a.one()?, lit(9223372036854775808f32.to_bits()));
            let Two(n) = halves(x, Un::FToI64) else { return None };
            let (large, nan) = (body.push(Mop::Cmp(Cmp::F(LE), limit, x)), F(body, x).is_nan());
            saturated(body, n, large, nan)
        }
        (F64, I64) => {
            let x = a.two()?;
            let n = x.map(|v| body.un(Un::DToI64, v));
            let limit = body.literal64(9223372036854775808f64.to_bits());
            let join = |m: [V; 2]| body.push(Mop::Logic(Logic::Join, m[0], m[1]));
            let large = join(x.map(|v| body.push(Mop::Cmp(Cmp::D(LE), limit, v))));
            saturated(body, n, large, join(D(body, x).is_nan()))
        }
        _ => return None,
    })
}
fn saturated(body: &Body, n: [V; 2], large: V, nan: V) -> Lanes {
    let pick = |c: V, x: u64, n: [V; 2]| {
        let masks = [c, body.push(Mop::UpperMask(c))];
        [0, 1].map(|k| body.push(Mop::Blend64(masks[k], body.literal64(x), n[k])))
    };
    Two(pick(nan, 0, pick(large, i64::MAX as u64, n)))
}
fn to_bfloat(body: &Body, x: V) -> V {
    let lit = |bits| body.literal32(bits);
    let odd = body.bin(Bin::And32, body.un(Un::Shr32(16), x), lit(1));
    let rounded = body.bin(Bin::Add32, body.bin(Bin::Add32, odd, lit(0x7fff)), x);
    let quiet = body.bin(Bin::Or32, x, lit(0x0040_0000));
    let picked = body.push(Mop::Blend32(F(body, x).is_nan(), quiet, rounded));
    body.un(Un::Shr32(16), picked)
}
