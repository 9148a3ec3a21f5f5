//! Halves are computed in f32: what a nest does to f16 and bf16 becomes casts and what the machine has (contract N1).
//!
//! An operand is cast to f32 once, the instruction runs in f32, and its result is rounded once to the half. Where the
//! result is a half already (a sign turned, one of the operands chosen, a whole number) it is not rounded again.
use crate::number::{BFloat, Half, Number};
use crate::{Arith, Fold, Function, Id, Instr, Nest};
use rtx_core::DType;

/// The same nest with no arithmetic on halves: they are loaded, stored, moved, chosen and cast.
pub(crate) fn widen(nest: &Nest) -> Nest {
    let types = nest.dtypes();
    if !types.iter().any(|t| is_half(*t)) {
        return nest.clone();
    }
    let n = nest.instrs.len();
    let mut out = Nest { instrs: Vec::with_capacity(2 * n), stores: vec![], ..nest.clone() };
    let mut widener = Widener { types: &types, new: vec![Id(0); n], wide: vec![None; n] };
    for (i, instr) in nest.instrs.iter().enumerate() {
        let narrow = widener.instr(i, instr, &mut out);
        widener.new[i] = narrow;
    }
    for store in &nest.stores {
        let mut store = store.clone();
        store.value = widener.new[store.value.index()];
        store.view = store.view.map_indices(|i| widener.new[i.index()]);
        out.stores.push(store);
    }
    out
}

fn is_half(t: DType) -> bool {
    matches!(t, DType::F16 | DType::BF16)
}

struct Widener<'a> {
    types: &'a [DType],
    /// Of each old instruction: the new one of the same type.
    new: Vec<Id>,
    /// Of each old instruction that is a half: it in f32, once something asked for it.
    wide: Vec<Option<Id>>,
}

impl Widener<'_> {
    fn wide(&mut self, a: Id, out: &mut Nest) -> Id {
        if !is_half(self.types[a.index()]) {
            return self.new[a.index()];
        }
        let narrow = self.new[a.index()];
        *self.wide[a.index()].get_or_insert_with(|| match out.instrs[narrow.index()] {
            Instr::Const { dtype, bits } => out.push(Instr::Const { dtype: DType::F32, bits: f32_bits(dtype, bits) }),
            _ => out.push(Instr::Cast(DType::F32, narrow)),
        })
    }

    /// The new instruction with the type of the old one.
    fn instr(&mut self, i: usize, instr: &Instr, out: &mut Nest) -> Id {
        let new = |s: &Self, instr: &Instr| instr.map_operands(|a| s.new[a.index()]);
        match instr {
            // A half is cast by way of f32, which holds it exactly.
            &Instr::Cast(to, a) if is_half(self.types[a.index()]) && to != self.types[a.index()] => {
                let wide = self.wide(a, out);
                if to == DType::F32 { wide } else { out.push(Instr::Cast(to, wide)) }
            }
            Instr::Const { .. }
            | Instr::Load(_)
            | Instr::Iota(_)
            | Instr::Sized(_)
            | Instr::Select(..)
            | Instr::Cast(..)
            | Instr::Bitcast(..)
            | Instr::Random { .. } => out.push(new(self, instr)),
            &Instr::Unary(f, a) => self.computed(i, &[a], is_exact(f), out, |x| Instr::Unary(f, x[0])),
            &Instr::Binary(f, a, b) => {
                let exact = matches!(f, Arith::Max | Arith::Min);
                self.computed(i, &[a, b], exact, out, |x| Instr::Binary(f, x[0], x[1]))
            }
            &Instr::Fma(a, b, c) => self.computed(i, &[a, b, c], false, out, |x| Instr::Fma(x[0], x[1], x[2])),
            &Instr::Reduce(f, a) => {
                let exact = matches!(f, Fold::Max | Fold::Min);
                self.computed(i, &[a], exact, out, |x| Instr::Reduce(f, x[0]))
            }
            &Instr::Compare(f, a, b) => self.computed(i, &[a, b], true, out, |x| Instr::Compare(f, x[0], x[1])),
            &Instr::ArgReduce(f, a) => self.computed(i, &[a], true, out, |x| Instr::ArgReduce(f, x[0])),
        }
    }

    /// An instruction over operands in f32; `exact`: its result in f32 is a half as it is.
    fn computed(
        &mut self,
        i: usize,
        operands: &[Id],
        exact: bool,
        out: &mut Nest,
        make: impl Fn(&[Id]) -> Instr,
    ) -> Id {
        let wide: Vec<Id> = operands.iter().map(|&a| self.wide(a, out)).collect();
        let result = out.push(make(&wide));
        if !is_half(self.types[i]) {
            return result;
        }
        if exact {
            self.wide[i] = Some(result);
        }
        out.push(Instr::Cast(self.types[i], result))
    }
}

/// Is the result of a half a half?
fn is_exact(f: Function) -> bool {
    use Function::*;
    match f {
        Neg | Abs | Sign | Floor | Ceil | Trunc | RoundEven => true,
        Sqrt | Exp | Expm1 | Log | Log1p | Sin | Cos | Tanh | Erf | Erfc | Lgamma | Digamma | Real | Imag | Not => {
            false
        }
    }
}

/// A half's bits as an f32's.
fn f32_bits(t: DType, bits: u64) -> u64 {
    let value = match t {
        DType::F16 => f32::from_number(Half(bits as u16)),
        _ => f32::from_number(BFloat(bits as u16)),
    };
    value.to_bits().into()
}
