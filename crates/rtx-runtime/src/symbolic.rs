//! Sizes that turn symbolic: at the third size seen on an axis one plan serves them all (contract S1).
use crate::key::map_sizes;
use rtx_core::{Dim, Result, Shape, SymId};
use rtx_ir::{Builder, Graph, Op, Prim, Type};
use smallvec::SmallVec;

/// A pattern of sizes: some fixed, some symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    sizes: Box<[Size]>,
    /// The largest value of each symbol.
    max: SmallVec<[u64; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fixed(u64),
    Symbol(u32),
}

/// Symbols start at 2: broadcasting, and kernels for it, tell 1 apart.
const SMALLEST: u64 = 2;
/// And end here: among the sizes of inputs stand their strides, and one that walks backwards is no size.
const LARGEST: u64 = 1 << 62;

impl Pattern {
    /// The pattern behind three lists of sizes: positions that differ are symbols, those that differ alike are one.
    /// `None` unless every position that differs has three sizes from 2 on.
    fn of(lists: [&[u64]; 3]) -> Option<Pattern> {
        let mut triples: SmallVec<[[u64; 3]; 2]> = SmallVec::new();
        let mut sizes = Vec::with_capacity(lists[0].len());
        for at in 0..lists[0].len() {
            let [a, b, c] = lists.map(|l| l[at]);
            if a == b && b == c {
                sizes.push(Size::Fixed(a));
                continue;
            }
            let may_vary = |n: u64| (SMALLEST..=LARGEST).contains(&n);
            if a == b || b == c || a == c || ![a, b, c].into_iter().all(may_vary) {
                return None;
            }
            let known = triples.iter().position(|t| *t == [a, b, c]);
            let symbol = known.unwrap_or_else(|| {
                triples.push([a, b, c]);
                triples.len() - 1
            });
            sizes.push(Size::Symbol(symbol as u32));
        }
        let max = triples.iter().map(|t| t.iter().fold(0, |m, &n| m.max(n)).next_power_of_two()).collect();
        Some(Pattern { sizes: sizes.into(), max })
    }

    /// The pattern of new sizes and two of those seen before, if there is one.
    pub(crate) fn find(seen: &[Box<[u64]>], dims: &[u64]) -> Option<Pattern> {
        let older = || seen.iter().rev().filter(|s| ***s != *dims && s.len() == dims.len());
        older().enumerate().find_map(|(i, a)| older().skip(i + 1).find_map(|b| Pattern::of([b, a, dims])))
    }

    /// Do these sizes fit?
    pub(crate) fn fits(&self, dims: &[u64]) -> bool {
        dims.len() == self.sizes.len() && self.first_misfit(dims).is_none()
    }

    /// The first position where sizes do not fit, and what would.
    pub(crate) fn first_misfit(&self, dims: &[u64]) -> Option<(usize, u64)> {
        let mut values: SmallVec<[u64; 2]> = SmallVec::from_elem(0, self.max.len());
        self.sizes.iter().zip(dims).enumerate().find_map(|(at, (size, &n))| {
            let fit = match *size {
                Size::Fixed(own) => own,
                Size::Symbol(s) => {
                    let (value, max) = (&mut values[s as usize], self.max[s as usize]);
                    if *value == 0 {
                        *value = n.clamp(SMALLEST, max);
                    }
                    *value
                }
            };
            (fit != n).then_some((at, fit))
        })
    }

    /// The value of each symbol in sizes that fit.
    pub(crate) fn values(&self, dims: &[u64]) -> SmallVec<[(SymId, i64); 2]> {
        let mut values: SmallVec<[(SymId, i64); 2]> = (0..self.max.len()).map(|s| (SymId(s as u32), 0)).collect();
        for (size, &n) in self.sizes.iter().zip(dims) {
            if let Size::Symbol(s) = *size {
                values[s as usize].1 = n as i64;
            }
        }
        values
    }

    /// Is a size from position `from` on a symbol?
    pub(crate) fn varies_from(&self, from: usize) -> bool {
        self.sizes[from..].iter().any(|s| matches!(s, Size::Symbol(_)))
    }

    /// The graph with symbols in place of the sizes that vary; nodes and values keep their ids.
    ///
    /// # Errors
    /// What an op's rule refuses about symbols.
    pub(crate) fn rebuild(&self, graph: &Graph) -> Result<Graph> {
        let mut sizes = self.sizes.iter();
        let mut next = |n: u64| match sizes.next() {
            Some(&Size::Symbol(s)) => Dim::Sym { id: SymId(s), max: self.max[s as usize] },
            Some(&Size::Fixed(n)) => Dim::Const(n),
            None => Dim::Const(n),
        };
        let mut params = graph.params().iter();
        let mut out = Graph::new();
        for node in graph.nodes() {
            let ty = |next: &mut dyn FnMut(u64) -> Dim| {
                let from = graph.ty(node.first);
                let dim = |d: Dim| d.known().map_or(d, |n| next(n as u64));
                Type { dtype: from.dtype, shape: from.shape.iter().map(dim).collect::<Shape>() }
            };
            match &node.op {
                Op::Input => {
                    out.push_input(ty(&mut next), node.location);
                }
                Op::Ghost => {
                    out.push_ghost(ty(&mut next), node.location);
                }
                Op::Prim(Prim::Param { dtype }) => {
                    out.push_param(*dtype, params.next().copied().unwrap_or(0), node.location);
                }
                op => {
                    let op = map_sizes(op, &mut next);
                    Builder::with_generation(&mut out, node.location, node.generation).apply(op, &node.inputs)?;
                }
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use rtx_core::{DType, Location};

    #[test]
    fn a_pattern_needs_three_sizes_and_joins_equal_ones() {
        let p = Pattern::of([&[4, 8, 8, 16], &[4, 9, 9, 18], &[4, 20, 20, 40]]).expect("three sizes");
        assert_eq!(p.max.as_slice(), [32, 64]);
        assert!(p.fits(&[4, 30, 30, 7]));
        assert!(!p.fits(&[5, 30, 30, 60]), "the fixed size differs");
        assert!(!p.fits(&[4, 30, 31, 60]), "one symbol, two values");
        assert!(!p.fits(&[4, 33, 33, 60]), "over the maximum");
        assert!(!p.fits(&[4, 1, 1, 60]), "1 broadcasts");
        assert_eq!(p.values(&[4, 30, 30, 7]).as_slice(), [(SymId(0), 30), (SymId(1), 7)]);
        assert_eq!(Pattern::of([&[4, 8], &[4, 8], &[5, 9]]), None, "two sizes only");
        assert_eq!(Pattern::of([&[1], &[2], &[3]]), None, "1 is no symbol");
        assert_eq!(Pattern::of([&[2], &[3], &[-1_i64 as u64]]), None, "a stride that walks backwards is no symbol");
    }

    #[test]
    fn rebuilding_walks_sizes_in_the_order_of_the_key() {
        let at = Location::caller();
        let mut graph = Graph::new();
        let x = graph.push_input(Type::new(DType::F32, [3, 8]), at);
        let mut b = Builder::new(&mut graph, at);
        let y = b.permute(x, &[1, 0]).expect("permutes");
        let z = b.reshape(y, &Shape::from([2, 4, 3])).expect("reshapes");
        b.slice(z, 1, 0, 2usize).expect("slices");
        let mut key = Key::default();
        key.extend(&graph);
        assert_eq!(key.dims, [3, 8, 2, 4, 3, 2]);
        let sizes = key.dims.iter().map(|&n| Size::Fixed(n)).collect();
        let same = Pattern { sizes, max: SmallVec::new() }.rebuild(&graph).expect("rebuilds");
        let mut again = Key::default();
        again.extend(&same);
        assert_eq!((again.structure, again.dims), (key.structure, key.dims));
    }
}
