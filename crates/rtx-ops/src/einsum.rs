//! `einsum`: sums of products by the names of dims, as a chain of contractions.
use crate::args::Args;
use crate::movement::static_size;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{Amp, Arg, Builder, OpDef, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// The family.
pub const ALL: &[&OpDef] = &[&EINSUM];

/// Sums of products by names.
pub static EINSUM: OpDef = OpDef {
    sig: "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    doc: "\"ij,jk->ik\": one letter a dim; letters that the result does not name are summed over, a letter twice in one \
          term takes the diagonal, \"...\" stands for dims that broadcast. Without an arrow the result names the letters \
          that occur once, in order of the alphabet. Operands are contracted from left to right; a path is not followed.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let Arg::Str(equation) = args.get(0) else {
            return Err(rules::refuse(def.name(), Kind::Argument, "the equation is a word"));
        };
        let operands = args.tensors(1)?;
        let equation = Equation::parse(def, equation, b, operands)?;
        Ok(smallvec![equation.emit(b, def, operands)?])
    },
    amp: Amp::Low,
    samples: &[
        Sample::grad("\"ij,jk->ik\", [f32[2,3] in -2..2, f32[3,4] in -2..2]", 64),
        Sample::grad("\"bij,bjk\", [f32[2,2,3] in -2..2, f32[2,3,2] in -2..2]", 64),
        Sample::grad("\"ii->i\", [f32[3,3] in -2..2]", 0),
        Sample::grad("\"ij->\", [f32[2,3] in -2..2]", 16),
        Sample::grad("\"ba\", [f32[2,3] in -2..2]", 0),
        Sample::grad("\"...ij,...j->...i\", [f32[2,1,3,2] in -2..2, f32[4,2] in -2..2]", 64),
        Sample::grad("\"i,j,k->kij\", [f32[2] in -2..2, f32[3] in -2..2, f32[2] in -2..2]", 16),
        Sample::grad("\"ij,ij,jk->k\", [f32[2,3] in -2..2, f32[2,3] in -2..2, f32[3,2] in -2..2]", 64),
        Sample::grad("\"ij,kj->ik\", [f32[2,3] in -2..2, f32[2,1] in -2..2]", 64),
    ],
    refuses: &[
        Refusal::of("\"ij,jk\", [f32[2,2]]", "einsum: \"ij,jk\" has 2 terms, the call 1 tensors"),
        Refusal::of("\"ij->k\", [f32[2,2]]", "einsum: the result of \"ij->k\" names `k`, which no term does"),
        Refusal::of("\"ijk\", [f32[2,2]]", "einsum: the term \"ijk\" does not name the dims of [2, 2]"),
        Refusal::of("\"i,i->i\", [f32[2], f32[3]]", "einsum: `i` is 2 and 3"),
        Refusal::of("\"i->ii\", [f32[2]]", "einsum: the result of \"i->ii\" names `i` twice"),
    ],
    stability: Stability::Stable,
    ..SPELLING
};

/// A dim's name: a letter, or the position from the right of a dim that "..." stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// Counted from the right, so that shorter ones align.
    Broadcast(std::cmp::Reverse<usize>),
    Letter(char),
}

struct Equation {
    terms: Vec<Vec<Name>>,
    result: Vec<Name>,
}

impl Equation {
    fn parse(def: &OpDef, text: &str, b: &Builder<'_>, operands: &[ValueId]) -> Result<Equation> {
        let refuse = |what: String| rules::refuse(def.name(), Kind::Argument, what);
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((l, r)) => (l, Some(r)),
            None => (plain.as_str(), None),
        };
        let written: Vec<&str> = left.split(',').collect();
        if written.len() != operands.len() {
            return Err(refuse(format!("{text:?} has {} terms, the call {} tensors", written.len(), operands.len())));
        }
        let mut terms = Vec::new();
        for (term, &x) in written.iter().zip(operands) {
            let misfit = || refuse(format!("the term {term:?} does not name the dims of {}", b.shape(x)));
            let letters = term.replace("...", "").chars().count();
            let more = b.rank(x).checked_sub(letters).ok_or_else(misfit)?;
            if more > 0 && !term.contains("...") {
                return Err(misfit());
            }
            terms.push(names(term, more).ok_or_else(misfit)?);
        }
        let widest =
            terms.iter().flatten().filter_map(|n| if let Name::Broadcast(r) = n { Some(r.0 + 1) } else { None });
        let widest = widest.max().unwrap_or(0);
        let result = match right {
            Some(r) => names(r, if r.contains("...") { widest } else { 0 })
                .ok_or_else(|| refuse(format!("the result of {text:?} is no list of letters")))?,
            None => implicit(&terms),
        };
        for (i, n) in result.iter().enumerate() {
            let shown = if let Name::Letter(c) = n { c.to_string() } else { "...".into() };
            if result[..i].contains(n) {
                return Err(refuse(format!("the result of {text:?} names `{shown}` twice")));
            }
            if terms.iter().all(|t| !t.contains(n)) {
                return Err(refuse(format!("the result of {text:?} names `{shown}`, which no term does")));
            }
        }
        Ok(Equation { terms, result })
    }

    fn emit(&self, b: &mut Builder<'_>, def: &OpDef, operands: &[ValueId]) -> Result<ValueId> {
        let mut factors = Vec::new();
        for (term, &x) in self.terms.iter().zip(operands) {
            factors.push(Factor { value: x, names: term.clone() }.without_repeats(b, def)?);
        }
        agree(b, def, &mut factors)?;
        let mut rest = factors.into_iter();
        let Some(mut product) = rest.next() else {
            return Err(rules::refuse(def.name(), Kind::Argument, "needs at least one tensor"));
        };
        let mut later: Vec<Factor> = rest.collect();
        product = product.summed(b, |n| self.result.contains(n) || later.iter().any(|f| f.names.contains(n)))?;
        while !later.is_empty() {
            let next = later.remove(0);
            let needed = |n: &Name| self.result.contains(n) || later.iter().any(|f| f.names.contains(n));
            let next = next.summed(b, |n| needed(n) || product.names.contains(n))?;
            product = product.times(b, next, needed)?;
        }
        product.ordered(b, &self.result)
    }
}

/// The names of a term; "..." stands for `more` dims. `None` when it is none.
fn names(term: &str, more: usize) -> Option<Vec<Name>> {
    let (before, after) = term.split_once("...").map_or((term, None), |(l, r)| (l, Some(r)));
    let letters =
        |t: &str| t.chars().map(|c| c.is_ascii_alphabetic().then_some(Name::Letter(c))).collect::<Option<Vec<_>>>();
    let mut out = letters(before)?;
    if let Some(after) = after {
        out.extend((0..more).rev().map(|i| Name::Broadcast(std::cmp::Reverse(i))));
        out.extend(letters(after)?);
    }
    Some(out)
}

/// What a result without an arrow names: the broadcast dims, then the letters that occur once.
fn implicit(terms: &[Vec<Name>]) -> Vec<Name> {
    let mut count: BTreeMap<Name, usize> = BTreeMap::new();
    terms.iter().flatten().for_each(|n| *count.entry(*n).or_default() += 1);
    count.into_iter().filter(|(n, times)| *times == 1 || matches!(n, Name::Broadcast(_))).map(|(n, _)| n).collect()
}

/// A tensor whose dims have names, each once.
struct Factor {
    value: ValueId,
    names: Vec<Name>,
}

impl Factor {
    /// A name twice becomes once: the diagonal.
    fn without_repeats(mut self, b: &mut Builder<'_>, def: &OpDef) -> Result<Factor> {
        while let Some((i, j)) = repeated(&self.names) {
            let (m, n) = (static_size(b, def, self.value, i)?, static_size(b, def, self.value, j)?);
            if m != n {
                return Err(rules::refuse(def.name(), Kind::Shape, format_args!("a diagonal of {m} by {n}")));
            }
            let rank = self.names.len();
            let order: Vec<usize> = (0..rank).filter(|d| *d != i && *d != j).chain([i, j]).collect();
            let x = b.permute(self.value, &order)?;
            let mut flat: Shape = b.shape(x).iter().take(rank - 2).collect();
            flat.push(m * m);
            let x = b.reshape(x, &flat)?;
            let start = b.constant(DType::I64, 0i64)?;
            self.value = b.slice_at(x, rank - 2, start, m, if m > 1 { m as i64 + 1 } else { 1 })?;
            let name = self.names[i];
            self.names = order[..rank - 2].iter().map(|&d| self.names[d]).chain([name]).collect();
        }
        Ok(self)
    }
    /// Sums over the names that nobody needs.
    fn summed(mut self, b: &mut Builder<'_>, needed: impl Fn(&Name) -> bool) -> Result<Factor> {
        let axes: Vec<usize> = (0..self.names.len()).filter(|&i| !needed(&self.names[i])).collect();
        self.value = b.reduce(Fold::Sum, self.value, &axes)?;
        self.names.retain(|n| needed(n));
        Ok(self)
    }
    /// The product, summed over what both have and nobody needs.
    fn times(self, b: &mut Builder<'_>, other: Factor, needed: impl Fn(&Name) -> bool) -> Result<Factor> {
        let place = |n: &Name| other.names.iter().position(|o| o == n);
        let shared: Vec<(usize, usize)> =
            self.names.iter().enumerate().filter_map(|(i, n)| Some((i, place(n)?))).collect();
        let (batch, contract): (SmallVec<[_; 2]>, SmallVec<[_; 2]>) =
            shared.iter().copied().partition(|(i, _)| needed(&self.names[*i]));
        let free = |names: &[Name], others: &[Name]| -> Vec<Name> {
            names.iter().copied().filter(|n| !others.contains(n)).collect()
        };
        let (left, right) = (free(&self.names, &other.names), free(&other.names, &self.names));
        let together: Vec<Name> = batch.iter().map(|(i, _)| self.names[*i]).chain(left).chain(right).collect();
        if !contract.is_empty() {
            let value = b.prim(Prim::Dot { batch, contract }, &[self.value, other.value])?;
            return Ok(Factor { value, names: together });
        }
        let (x, y) = (self.aligned(b, &together)?, other.aligned(b, &together)?);
        Ok(Factor { value: b.mul(x, y)?, names: together })
    }
    /// Its dims in this order, size 1 for names that it does not have.
    fn aligned(&self, b: &mut Builder<'_>, order: &[Name]) -> Result<ValueId> {
        let own: Vec<usize> = order.iter().filter_map(|n| self.names.iter().position(|m| m == n)).collect();
        let x = b.permute(self.value, &own)?;
        let mut sizes = b.shape(x).iter().collect::<Vec<_>>().into_iter();
        let shape: Shape = order
            .iter()
            .map(|n| if self.names.contains(n) { sizes.next().unwrap_or(Dim::Const(1)) } else { Dim::Const(1) })
            .collect();
        b.reshape(x, &shape)
    }
    fn ordered(&self, b: &mut Builder<'_>, result: &[Name]) -> Result<ValueId> {
        self.aligned(b, result)
    }
}

fn repeated(names: &[Name]) -> Option<(usize, usize)> {
    (0..names.len()).find_map(|j| names[..j].iter().position(|n| *n == names[j]).map(|i| (i, j)))
}

/// Sizes of one name agree; a size of 1 beside a larger one broadcasts, so that factor does without the name.
fn agree(b: &mut Builder<'_>, def: &OpDef, factors: &mut [Factor]) -> Result<()> {
    let mut sizes: BTreeMap<Name, Dim> = BTreeMap::new();
    for f in factors.iter() {
        for (i, n) in f.names.iter().enumerate() {
            let size = b.shape(f.value).dim(i);
            let known = sizes.entry(*n).or_insert(size);
            if known.is_one() {
                *known = size;
            }
            if *known != size && !size.is_one() {
                let shown = if let Name::Letter(c) = n { c.to_string() } else { "...".into() };
                return Err(rules::refuse(def.name(), Kind::Shape, format_args!("`{shown}` is {known} and {size}")));
            }
        }
    }
    for f in factors {
        let own = b.shape(f.value);
        let stays = |i: usize| !own.dim(i).is_one() || sizes[&f.names[i]].is_one();
        if (0..own.rank()).all(stays) {
            continue;
        }
        let kept: Vec<usize> = (0..own.rank()).filter(|&i| stays(i)).collect();
        f.value = b.reshape(f.value, &kept.iter().map(|&i| own.dim(i)).collect())?;
        f.names = kept.iter().map(|&i| f.names[i]).collect();
    }
    Ok(())
}
