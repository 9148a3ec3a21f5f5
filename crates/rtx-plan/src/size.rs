//! Sizes that may depend on symbols: polynomials with integer coefficients.
use rtx_core::{Dim, SymId};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::{Add, Mul};

/// `Σ coefficient · Π symbols`: constants have one term without symbols, zero has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SizeExpr(SmallVec<[(i64, SmallVec<[SymId; 2]>); 1]>);

impl SizeExpr {
    /// A number.
    pub fn constant(n: i64) -> Self {
        if n == 0 { Self::default() } else { Self(smallvec![(n, SmallVec::new())]) }
    }
    /// The number, if it depends on no symbol.
    pub fn known(&self) -> Option<i64> {
        match self.0.as_slice() {
            [] => Some(0),
            [(n, s)] if s.is_empty() => Some(*n),
            _ => None,
        }
    }
    /// The value where symbol `s` has the value `of(s)`.
    pub fn eval(&self, of: impl Fn(SymId) -> i64) -> i64 {
        self.0.iter().map(|(c, syms)| c * syms.iter().map(|&s| of(s)).product::<i64>()).sum()
    }
    /// The terms: coefficient and symbols, sorted.
    pub fn terms(&self) -> &[(i64, SmallVec<[SymId; 2]>)] {
        &self.0
    }
    /// From terms in any order.
    pub fn from_terms(terms: impl IntoIterator<Item = (i64, SmallVec<[SymId; 2]>)>) -> Self {
        let mut out = Self::default();
        for (c, mut syms) in terms {
            syms.sort_unstable();
            match out.0.iter_mut().find(|t| t.1 == syms) {
                Some(t) => t.0 += c,
                None => out.0.push((c, syms)),
            }
        }
        out.0.retain(|t| t.0 != 0);
        out.0.sort_by(|a, b| a.1.cmp(&b.1));
        out
    }
}
impl From<i64> for SizeExpr {
    fn from(n: i64) -> Self {
        Self::constant(n)
    }
}
impl From<Dim> for SizeExpr {
    fn from(d: Dim) -> Self {
        match d {
            Dim::Const(n) => Self::constant(n as i64),
            Dim::Sym { id, .. } => Self(smallvec![(1, smallvec![id])]),
        }
    }
}
impl Mul for &SizeExpr {
    type Output = SizeExpr;
    fn mul(self, rhs: &SizeExpr) -> SizeExpr {
        SizeExpr::from_terms(
            self.0
                .iter()
                .flat_map(|(a, s)| rhs.0.iter().map(move |(b, t)| (a * b, s.iter().chain(t).copied().collect()))),
        )
    }
}
impl Add for &SizeExpr {
    type Output = SizeExpr;
    fn add(self, rhs: &SizeExpr) -> SizeExpr {
        SizeExpr::from_terms(self.0.iter().chain(&rhs.0).cloned())
    }
}
impl fmt::Display for SizeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("0");
        }
        for (i, (c, syms)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            write!(f, "{c}")?;
            for s in syms {
                write!(f, "*s{}", s.0)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials() {
        let s = SizeExpr::from(Dim::Sym { id: SymId(1), max: 9 });
        let e = &(&s * &s) + &(&SizeExpr::constant(3) * &s);
        assert_eq!(e.to_string(), "3*s1+1*s1*s1");
        assert_eq!(e.eval(|_| 4), 28);
        assert_eq!((&s + &(&SizeExpr::constant(-1) * &s)).known(), Some(0));
    }
}
