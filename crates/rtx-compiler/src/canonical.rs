//! Contractions, convolutions, scatters, scans and sorts that no kernel takes, said in others that kernels may take: wider numbers, axes in order.
use rtx_core::{DType, Fold, Result};
use rtx_ir::{Builder, Op, Outs, Prim, ScatterOp, ValueId};
use smallvec::{SmallVec, smallvec};

/// The same values by other nodes; `None` where there is no other way to say it.
pub(crate) fn rewrite(b: &mut Builder<'_>, prim: &Prim, v: &[ValueId]) -> Result<Option<Outs>> {
    let dtype = b.dtype(v[0]);
    match prim {
        Prim::Dot { batch, contract } => {
            let Some(wide) = wider(dtype) else { return Ok(in_order(b, batch, contract, v)?.map(|y| smallvec![y])) };
            let (l, r) = (b.cast(v[0], wide)?, b.cast(v[1], wide)?);
            let y = b.prim(prim.clone(), &[l, r])?;
            Ok(Some(smallvec![b.cast(y, dtype)?]))
        }
        Prim::OverlapAdd { .. } | Prim::Conv(_) => {
            let Some(wide) = wider(dtype) else { return Ok(None) };
            let operands = v.iter().map(|&x| b.cast(x, wide)).collect::<Result<SmallVec<[ValueId; 2]>>>()?;
            let y = b.prim(prim.clone(), &operands)?;
            Ok(Some(smallvec![b.cast(y, dtype)?]))
        }
        // What is only moved moves as the integer of its size.
        Prim::Scatter { op: ScatterOp::Set, .. } if !dtype.has_arithmetic() => {
            let Some(same) = same_size(dtype) else { return Ok(None) };
            let (x, updates) = (b.prim(Prim::Bitcast(same), &[v[0]])?, b.prim(Prim::Bitcast(same), &[v[2]])?);
            let y = b.prim(prim.clone(), &[x, v[1], updates])?;
            Ok(Some(smallvec![b.prim(Prim::Bitcast(dtype), &[y])?]))
        }
        Prim::Scatter { op, .. } => {
            // The order of u64 is not that of i64.
            let ordered = matches!(op, ScatterOp::Min | ScatterOp::Max);
            let Some(wide) = wider(dtype).filter(|_| !(ordered && dtype == DType::U64)) else { return Ok(None) };
            let (x, updates) = (b.cast(v[0], wide)?, b.cast(v[2], wide)?);
            let y = b.prim(prim.clone(), &[x, v[1], updates])?;
            Ok(Some(smallvec![b.cast(y, dtype)?]))
        }
        Prim::Scan { fold, .. } => {
            let ordered = matches!(fold, Fold::Min | Fold::Max);
            let Some(wide) = wider(dtype).filter(|_| !(ordered && dtype == DType::U64)) else { return Ok(None) };
            let x = b.cast(v[0], wide)?;
            let y = b.prim(prim.clone(), &[x])?;
            Ok(Some(smallvec![b.cast(y, dtype)?]))
        }
        Prim::LinearScan { .. } => {
            let Some(wide) = wider(dtype) else { return Ok(None) };
            let wide = v.iter().map(|&v| b.cast(v, wide)).collect::<Result<Vec<_>>>()?;
            let y = b.prim(prim.clone(), &wide)?;
            Ok(Some(smallvec![b.cast(y, dtype)?]))
        }
        Prim::Sort { .. } => {
            let Some(wide) = wider(dtype).filter(|_| dtype != DType::U64) else { return Ok(None) };
            let x = b.cast(v[0], wide)?;
            let y = b.apply(Op::Prim(prim.clone()), &[x])?;
            Ok(Some(smallvec![b.cast(y[0], dtype)?, y[1]]))
        }
        _ => Ok(None),
    }
}

/// In what a primitive of this dtype is computed: halves in f32, rounded once (contract N1); integers wrap, and the low
/// bits of sums and products do not depend on the width.
fn wider(dtype: DType) -> Option<DType> {
    use DType::*;
    match dtype {
        F16 | BF16 => Some(F32),
        Bool | U8 | I8 | I16 | U16 | U32 | U64 => Some(I64),
        I32 | I64 | F32 | F64 | F8E4M3 | F8E5M2 | C64 | C128 => None,
    }
}

/// The integer type as large as a type.
fn same_size(dtype: DType) -> Option<DType> {
    match dtype.size() {
        1 => Some(DType::U8),
        2 => Some(DType::I16),
        4 => Some(DType::I32),
        8 => Some(DType::I64),
        _ => None,
    }
}

/// Batch axes first, then the free ones of each side, the summed ones last on the left and before the free ones on the
/// right. `None` if the axes are in this order.
fn in_order(
    b: &mut Builder<'_>,
    batch: &[(usize, usize)],
    contract: &[(usize, usize)],
    v: &[ValueId],
) -> Result<Option<ValueId>> {
    let free = |rank: usize, of: fn(&(usize, usize)) -> usize| -> Vec<usize> {
        (0..rank).filter(|a| batch.iter().chain(contract).all(|p| of(p) != *a)).collect()
    };
    let (free_l, free_r) = (free(b.rank(v[0]), |p| p.0), free(b.rank(v[1]), |p| p.1));
    let axes = |pairs: &[(usize, usize)], of: fn(&(usize, usize)) -> usize| pairs.iter().map(of).collect::<Vec<_>>();
    let left: Vec<usize> = [axes(batch, |p| p.0), free_l.clone(), axes(contract, |p| p.0)].concat();
    let right: Vec<usize> = [axes(batch, |p| p.1), axes(contract, |p| p.1), free_r].concat();
    if left.is_sorted() && right.is_sorted() {
        return Ok(None);
    }
    let (l, r) = (b.permute(v[0], &left)?, b.permute(v[1], &right)?);
    let n = batch.len();
    let batch: SmallVec<[(usize, usize); 2]> = (0..n).map(|i| (i, i)).collect();
    let contract = (0..contract.len()).map(|i| (n + free_l.len() + i, n + i)).collect();
    Ok(Some(b.prim(Prim::Dot { batch, contract }, &[l, r])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtx_core::Location;
    use rtx_ir::Graph;
    use rtx_ir::oracle::{self, Tensor};

    /// Rewritten or not, the oracle computes the same; small whole numbers keep every rounding away.
    fn check(prim: Prim, operands: &[(DType, &[usize])], rewrites: bool) {
        let mut graph = Graph::new();
        let tensors: Vec<Tensor> = operands
            .iter()
            .map(|(dtype, shape)| {
                let n: usize = shape.iter().product();
                let numbers = (0..n as i64).map(|i| i * 7 % 3);
                if dtype.is_float() {
                    Tensor::floats(*dtype, *shape, numbers.map(|x| x as f64))
                } else {
                    Tensor::ints(*dtype, *shape, numbers)
                }
            })
            .collect();
        let v: Vec<ValueId> = tensors.iter().map(|t| graph.push_input(t.ty.clone(), Location::caller())).collect();
        let mut b = Builder::new(&mut graph, Location::caller());
        let plain = b.prim(prim.clone(), &v).expect("fits");
        let other = rewrite(&mut b, &prim, &v).expect("rewrites");
        assert_eq!(other.is_some(), rewrites, "{prim:?} of {operands:?}");
        let Some(other) = other else { return };
        assert_eq!(b.ty(plain), b.ty(other[0]));
        let values = oracle::eval(&graph, &tensors).expect("evaluates");
        assert_eq!(values[plain.index()], values[other[0].index()], "{prim:?} of {operands:?}");
    }

    #[test]
    fn rewritten_nodes_mean_the_same() {
        let dot = |batch: &[(usize, usize)], contract: &[(usize, usize)]| Prim::Dot {
            batch: batch.into(),
            contract: contract.into(),
        };
        let f = DType::F32;
        check(dot(&[], &[(1, 0)]), &[(f, &[2, 3]), (f, &[3, 4])], false);
        check(dot(&[], &[(1, 0)]), &[(DType::BF16, &[2, 3]), (DType::BF16, &[3, 4])], true);
        check(dot(&[], &[(1, 0)]), &[(DType::U8, &[2, 3]), (DType::U8, &[3, 4])], true);
        check(dot(&[(2, 0)], &[(0, 3), (3, 1)]), &[(f, &[2, 3, 4, 5]), (f, &[4, 5, 2, 2])], true);
        check(dot(&[(1, 1), (3, 0)], &[(2, 2)]), &[(f, &[2, 3, 2, 2]), (f, &[2, 3, 2])], true);
        let add = Prim::Scatter { axis: 0, op: ScatterOp::Add };
        check(add.clone(), &[(f, &[4]), (DType::I64, &[3]), (f, &[3])], false);
        check(add, &[(DType::F16, &[4]), (DType::I64, &[3]), (DType::F16, &[3])], true);
        let overlap = Prim::OverlapAdd { axis: 0, len: 5, stride: 1, dilation: 1 };
        check(overlap.clone(), &[(f, &[3, 2])], false);
        check(overlap, &[(DType::I8, &[3, 2])], true);
        let dims = smallvec![rtx_ir::ConvDim { low: 1, ..rtx_ir::ConvDim::PLAIN }];
        let conv = Prim::Conv(Box::new(rtx_ir::Convolution { dims, groups: 1 }));
        check(conv.clone(), &[(f, &[2, 3, 5]), (f, &[2, 3, 2])], false);
        check(conv, &[(DType::BF16, &[2, 3, 5]), (DType::BF16, &[2, 3, 2])], true);
        let max = Prim::Scatter { axis: 0, op: ScatterOp::Max };
        check(max, &[(DType::U64, &[4]), (DType::I64, &[3]), (DType::U64, &[3])], false);
        let sums = Prim::Scan { fold: Fold::Sum, axis: 1, reverse: false };
        check(sums, &[(DType::BF16, &[3, 5])], true);
        let most = Prim::Scan { fold: Fold::Max, axis: 0, reverse: true };
        check(most.clone(), &[(DType::I16, &[3, 5])], true);
        check(most, &[(DType::U64, &[3, 5])], false);
        let linear = Prim::LinearScan { axis: 0, reverse: false };
        check(linear, &[(DType::U8, &[4, 2]), (DType::U8, &[4, 2]), (DType::U8, &[2])], true);
        let sort = Prim::Sort { axis: 0, descending: true };
        check(sort.clone(), &[(f, &[7])], false);
        check(sort, &[(DType::F16, &[7])], true);
    }
}
