//! The plain meaning of a nest: every instruction at every point, one number at a time.
use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function};
use rustg::{Instr, Nest, Size, View, math, random_u32};

/// One buffer: elements as bits, in the low end of a word.
pub type Memory = Vec<Vec<u64>>;

fn size(s: Size, sizes: &[i64]) -> i64 {
    match s {
        Size::Const(n) => n,
        Size::Arg(i) => sizes[i as usize],
    }
}

struct Evaluator<'a> {
    nest: &'a Nest,
    sizes: &'a [i64],
    /// Parallel extents and the length of the walk.
    parallel: Vec<i64>,
    walk: i64,
    walks: Vec<bool>,
    /// Of each instruction: `[parallel point][walk position, or one]`.
    values: Vec<Vec<u64>>,
    pub reports: Vec<(i64, i64)>,
}

/// Runs a nest over memory; gives the indices reported.
pub fn run(nest: &Nest, memory: &mut Memory, sizes: &[i64]) -> Vec<(i64, i64)> {
    let walk_axis = nest.walk();
    let extents: Vec<i64> = nest.axes.iter().map(|a| size(a.extent, sizes)).collect();
    let sets = nest.axis_sets();
    let mut e = Evaluator {
        nest,
        sizes,
        walk: walk_axis.map_or(1, |w| extents[w.index()]),
        parallel: extents[..extents.len() - walk_axis.is_some() as usize].to_vec(),
        walks: sets.iter().map(|s| walk_axis.is_some_and(|w| s >> w.0 & 1 != 0)).collect(),
        values: vec![],
        reports: vec![],
    };
    for instr in &nest.instrs {
        let i = e.values.len();
        let values = e.instr(i, instr, memory);
        e.values.push(values);
    }
    let points: i64 = e.parallel.iter().product();
    for store in &nest.stores {
        let named = walk_axis.is_some_and(|w| store.view.strides.iter().any(|(a, _)| *a == w));
        let indexed = store.view.indexed.iter().any(|x| e.walks[x.index.index()]);
        let steps = if named || indexed || e.walks[store.value.index()] { e.walk } else { 1 };
        for p in 0..points {
            for w in 0..steps {
                if let Some(at) = e.address(&store.view, p, w, false) {
                    memory[store.view.buffer.index()][at as usize] = e.at(store.value.index(), p, w);
                }
            }
        }
    }
    e.reports
}

impl Evaluator<'_> {
    fn at(&self, i: usize, p: i64, w: i64) -> u64 {
        if self.walks[i] { self.values[i][(p * self.walk + w) as usize] } else { self.values[i][p as usize] }
    }
    fn position(&self, axis: usize, mut p: i64, w: i64) -> i64 {
        if axis == self.parallel.len() {
            return w;
        }
        for &n in self.parallel[axis + 1..].iter().rev() {
            p /= n;
        }
        p % self.parallel[axis]
    }
    /// Which element a view names, or none where a bound is empty.
    fn address(&mut self, view: &View, p: i64, w: i64, report: bool) -> Option<i64> {
        let mut at = size(view.offset, self.sizes);
        for &(axis, stride) in &view.strides {
            at += self.position(axis.index(), p, w) * size(stride, self.sizes);
        }
        for x in &view.indexed {
            let (index, bound) = (self.at(x.index.index(), p, w) as i64, size(x.bound, self.sizes));
            if bound <= 0 {
                return None;
            }
            if x.checked && report && !(0..bound).contains(&index) {
                self.reports.push((index, bound));
            }
            at += index.clamp(0, bound - 1) * size(x.stride, self.sizes);
        }
        Some(at)
    }
    fn instr(&mut self, i: usize, instr: &Instr, memory: &Memory) -> Vec<u64> {
        let steps = if self.walks[i] { self.walk } else { 1 };
        let points: i64 = self.parallel.iter().product();
        let mut out = vec![];
        for p in 0..points {
            for w in 0..steps {
                out.push(self.value(instr, p, w, memory));
            }
        }
        out
    }
    fn value(&mut self, instr: &Instr, p: i64, w: i64, memory: &Memory) -> u64 {
        let nest = self.nest;
        let of = |e: &Self, id: rustg::Id| e.at(id.index(), p, w);
        match instr {
            Instr::Const { bits, .. } => *bits,
            Instr::Load(view) => match self.address(view, p, w, true) {
                Some(at) => memory[view.buffer.index()][at as usize],
                None => 0,
            },
            Instr::Iota(axis) => self.position(axis.index(), p, w) as u64,
            Instr::Sized(s) => size(*s, self.sizes) as u64,
            &Instr::Unary(f, a) => unary(f, nest.dtype(a), of(self, a)),
            &Instr::Binary(f, a, b) => binary(f, nest.dtype(a), of(self, a), of(self, b)),
            &Instr::Compare(f, a, b) => compare(f, nest.dtype(a), of(self, a), of(self, b)) as u64,
            &Instr::Fma(a, b, c) => {
                let (a, b, c, t) = (of(self, a), of(self, b), of(self, c), nest.dtype(a));
                match t {
                    DType::F16 | DType::BF16 => narrow(t, wide(t, a).mul_add(wide(t, b), wide(t, c))),
                    DType::F32 => f32(a).mul_add(f32(b), f32(c)).to_bits() as u64,
                    _ => f64(a).mul_add(f64(b), f64(c)).to_bits(),
                }
            }
            &Instr::Select(c, a, b) => {
                if of(self, c) != 0 {
                    of(self, a)
                } else {
                    of(self, b)
                }
            }
            &Instr::Cast(to, a) => cast(nest.dtype(a), to, of(self, a)),
            &Instr::Bitcast(_, a) => of(self, a),
            &Instr::Reduce(f, a) => {
                let row: Vec<u64> = (0..self.walk).map(|w| self.at(a.index(), p, w)).collect();
                reduce(f, nest.dtype(a), &row)
            }
            &Instr::ArgReduce(f, a) => {
                let row: Vec<u64> = (0..self.walk).map(|w| self.at(a.index(), p, w)).collect();
                arg_reduce(f, nest.dtype(a), &row) as u64
            }
            &Instr::Random { key, ordinal, index } => {
                random_u32(of(self, key) as i64, of(self, ordinal) as i64, of(self, index) as i64) as u64
            }
        }
    }
}

fn f32(x: u64) -> f32 {
    f32::from_bits(x as u32)
}
fn f64(x: u64) -> f64 {
    f64::from_bits(x)
}
/// A half as an f32, and an f32 rounded to a half.
fn wide(t: DType, x: u64) -> f32 {
    match t {
        DType::F16 => half::f16::from_bits(x as u16).to_f32(),
        _ => half::bf16::from_bits(x as u16).to_f32(),
    }
}
fn narrow(t: DType, x: f32) -> u64 {
    match t {
        DType::F16 => half::f16::from_f32(x).to_bits() as u64,
        _ => half::bf16::from_f32(x).to_bits() as u64,
    }
}
fn is_half(t: DType) -> bool {
    matches!(t, DType::F16 | DType::BF16)
}
fn widened(t: DType, x: u64) -> u64 {
    wide(t, x).to_bits() as u64
}

/// An integer or bool, sign-extended.
fn int(t: DType, x: u64) -> i128 {
    match t {
        DType::I8 => x as i8 as i128,
        DType::I16 => x as i16 as i128,
        DType::I32 => x as i32 as i128,
        DType::I64 => x as i64 as i128,
        _ => x as i128,
    }
}
/// Wrapped into the type.
fn wrap(t: DType, x: i128) -> u64 {
    let mask = if t.size() == 8 { u64::MAX } else { (1 << (8 * t.size())) - 1 };
    x as u64 & mask
}

pub fn unary(f: Function, t: DType, x: u64) -> u64 {
    use Function::*;
    macro_rules! float { ($T:ident, $x:expr; $($V:ident $g:path),*) => { match f {
        Neg => -$x, Abs => $x.abs(), Floor => $x.floor(), Ceil => $x.ceil(), Trunc => $x.trunc(),
        RoundEven => $x.round_ties_even(), Sqrt => $x.sqrt(), $($V => $g($x),)* Real | Imag | Not => unreachable!(),
    } } }
    match t {
        _ if is_half(t) => narrow(t, f32(unary(f, DType::F32, widened(t, x)))),
        DType::F32 => {
            float!(f32, f32(x); Sign math::sign_f32, Exp math::exp_f32, Expm1 math::expm1_f32, Log math::log_f32,
            Log1p math::log1p_f32, Sin math::sin_f32, Cos math::cos_f32, Tanh math::tanh_f32, Erf math::erf_f32, Erfc math::erfc_f32,
            Lgamma math::lgamma_f32, Digamma math::digamma_f32)
            .to_bits() as u64
        }
        DType::F64 => {
            float!(f64, f64(x); Sign math::sign_f64, Exp math::exp_f64, Expm1 math::expm1_f64, Log math::log_f64,
            Log1p math::log1p_f64, Sin math::sin_f64, Cos math::cos_f64, Tanh math::tanh_f64, Erf math::erf_f64, Erfc math::erfc_f64,
            Lgamma math::lgamma_f64, Digamma math::digamma_f64)
            .to_bits()
        }
        DType::Bool => 1 - x,
        _ => {
            let n = int(t, x);
            wrap(
                t,
                match f {
                    Neg => -n,
                    Abs => n.abs(),
                    Sign => n.signum(),
                    Not => !n,
                    _ => unreachable!(),
                },
            )
        }
    }
}

pub fn binary(f: Arith, t: DType, a: u64, b: u64) -> u64 {
    use Arith::*;
    macro_rules! float {
        ($a:expr, $b:expr, $pow:ident, $atan2:ident, $max:ident, $min:ident, $rem:ident) => {
            match f {
                Add => $a + $b,
                Sub => $a - $b,
                Mul => $a * $b,
                Div => $a / $b,
                Rem => math::$rem($a, $b),
                Pow => math::$pow($a, $b),
                Atan2 => math::$atan2($a, $b),
                Max => math::$max($a, $b),
                Min => math::$min($a, $b),
                _ => unreachable!(),
            }
        };
    }
    match t {
        _ if is_half(t) => narrow(t, f32(binary(f, DType::F32, widened(t, a), widened(t, b)))),
        DType::F32 => float!(f32(a), f32(b), pow_f32, atan2_f32, max_f32, min_f32, rem_f32).to_bits() as u64,
        DType::F64 => float!(f64(a), f64(b), pow_f64, atan2_f64, max_f64, min_f64, rem_f64).to_bits(),
        _ => {
            let (x, y, width) = (int(t, a), int(t, b), 8 * t.size() as i128);
            wrap(
                t,
                match f {
                    Add => x + y,
                    Sub => x - y,
                    Mul => x.wrapping_mul(y),
                    Div => {
                        if y == 0 {
                            0
                        } else {
                            x / y
                        }
                    }
                    Rem => {
                        if y == 0 {
                            0
                        } else {
                            let r = x % y;
                            if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
                        }
                    }
                    Pow => power(t, x, y),
                    Max => x.max(y),
                    Min => x.min(y),
                    And => x & y,
                    Or => x | y,
                    Xor => x ^ y,
                    Shl => {
                        if (0..width).contains(&y) {
                            x << y
                        } else {
                            0
                        }
                    }
                    Shr => {
                        if (0..width).contains(&y) {
                            x >> y
                        } else if x < 0 {
                            -1
                        } else {
                            0
                        }
                    }
                    Atan2 | Complex => unreachable!(),
                },
            )
        }
    }
}
fn power(t: DType, x: i128, y: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => {
                if y % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut out, mut base, mut n) = (1u64, x as u64, y);
    while n > 0 {
        if n & 1 == 1 {
            out = out.wrapping_mul(base)
        }
        base = base.wrapping_mul(base);
        n >>= 1;
    }
    int(t, wrap(t, out as i128))
}
pub fn compare(f: Comparison, t: DType, a: u64, b: u64) -> bool {
    macro_rules! on {
        ($a:expr, $b:expr) => {
            match f {
                Comparison::Eq => $a == $b,
                Comparison::Lt => $a < $b,
                Comparison::Le => $a <= $b,
            }
        };
    }
    match t {
        _ if is_half(t) => on!(wide(t, a), wide(t, b)),
        DType::F32 => on!(f32(a), f32(b)),
        DType::F64 => on!(f64(a), f64(b)),
        _ => on!(int(t, a), int(t, b)),
    }
}
pub fn cast(from: DType, to: DType, x: u64) -> u64 {
    let float = match from {
        DType::F32 => Some(f32(x) as f64),
        DType::F64 => Some(f64(x)),
        _ if is_half(from) => Some(wide(from, x) as f64),
        _ => None,
    };
    match (float, to) {
        (Some(v), DType::Bool) => (v != 0.0) as u64,
        (Some(v), DType::F32) => (v as f32).to_bits() as u64,
        (Some(v), DType::F64) => v.to_bits(),
        (Some(v), DType::F16) => rtx_core::f16_from_f64(v).to_bits() as u64,
        (Some(v), DType::BF16) => rtx_core::bf16_from_f64(v).to_bits() as u64,
        (Some(v), DType::U8) => v as u8 as u64,
        (Some(v), DType::I8) => v as i8 as u8 as u64,
        (Some(v), DType::I16) => v as i16 as u16 as u64,
        (Some(v), DType::U16) => v as u16 as u64,
        (Some(v), DType::U64) => v as u64,
        (Some(v), DType::I32) => v as i32 as u32 as u64,
        (Some(v), DType::I64) => v as i64 as u64,
        (Some(v), DType::U32) => v as u32 as u64,
        (None, DType::Bool) => (x != 0) as u64,
        (None, DType::F32) => (int(from, x) as f32).to_bits() as u64,
        (None, DType::F64) => (int(from, x) as f64).to_bits(),
        // Too many digits for f64: the part that would be lost leaves the last bit set.
        (None, DType::F16 | DType::BF16) => {
            let n = int(from, x);
            let kept = if n.abs() >> 50 == 0 { n } else { n & !0xfff | (n & 0xfff != 0) as i128 };
            cast(DType::F64, to, (kept as f64).to_bits())
        }
        (None, _) => wrap(to, int(from, x)),
        _ => unreachable!("{from} to {to}"),
    }
}

/// The tree of contract N3, written down plainly.
pub fn reduce(f: Fold, t: DType, row: &[u64]) -> u64 {
    if is_half(t) {
        let row: Vec<u64> = row.iter().map(|&x| widened(t, x)).collect();
        return narrow(t, f32(reduce(f, DType::F32, &row)));
    }
    let fold = |a: u64, b: u64| match (f, t) {
        (Fold::Max, DType::Bool) => a | b,
        (Fold::Min, DType::Bool) => a & b,
        (Fold::Sum, _) => binary(Arith::Add, t, a, b),
        (Fold::Prod, _) => binary(Arith::Mul, t, a, b),
        (Fold::Max, _) => binary(Arith::Max, t, a, b),
        (Fold::Min, _) => binary(Arith::Min, t, a, b),
    };
    let identity = match (f, t) {
        (Fold::Sum, _) => 0,
        (Fold::Prod, DType::F32) => 1f32.to_bits() as u64,
        (Fold::Prod, DType::F64) => 1f64.to_bits(),
        (Fold::Prod, _) => 1,
        (Fold::Max, DType::F32) => f32::NEG_INFINITY.to_bits() as u64,
        (Fold::Max, DType::F64) => f64::NEG_INFINITY.to_bits(),
        (Fold::Min, DType::F32) => f32::INFINITY.to_bits() as u64,
        (Fold::Min, DType::F64) => f64::INFINITY.to_bits(),
        (Fold::Max, DType::I8 | DType::I16 | DType::I32 | DType::I64) => 1 << (8 * t.size() - 1),
        (Fold::Max, _) => 0,
        (Fold::Min, DType::Bool) => 1,
        (Fold::Min, DType::I8 | DType::I16 | DType::I32 | DType::I64) => (1 << (8 * t.size() - 1)) - 1,
        (Fold::Min, _) => wrap(t, -1),
    };
    let block = |b: &[u64]| {
        let mut lanes = [identity; 16];
        for (i, &x) in b.iter().enumerate() {
            lanes[i % 16] = fold(lanes[i % 16], x);
        }
        for half in [8, 4, 2, 1] {
            for j in 0..half {
                lanes[j] = fold(lanes[j], lanes[j + half]);
            }
        }
        lanes[0]
    };
    let mut results: Vec<u64> = row.chunks(4096).map(block).collect();
    while results.len() > 1 {
        results = results.chunks(2).map(|p| if p.len() == 2 { fold(p[0], p[1]) } else { p[0] }).collect();
    }
    results.first().copied().unwrap_or(identity)
}
pub fn arg_reduce(f: Extremum, t: DType, row: &[u64]) -> usize {
    let nan = |x: u64| {
        matches!(t, DType::F32 if f32(x).is_nan())
            || matches!(t, DType::F64 if f64(x).is_nan())
            || is_half(t) && wide(t, x).is_nan()
    };
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        let wins = match f {
            Extremum::Max => compare(Comparison::Lt, t, row[best], x),
            Extremum::Min => compare(Comparison::Lt, t, x, row[best]),
        };
        if (wins || nan(x)) && !nan(row[best]) {
            best = i;
        }
    }
    best
}
