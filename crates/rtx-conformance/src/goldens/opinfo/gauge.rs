//! Results that are fixed only up to a sign: singular vectors and eigenvectors.
//!
//! The rule: vector k of the result is multiplied by ±1, whichever turns it towards PyTorch's vector k; left and right
//! singular vectors of one singular value share the sign, since only then do they rebuild the matrix. Values are
//! compared after that, with the tolerance of all others. The multiplication is recorded, so the cotangents that the
//! file gives for PyTorch's vectors are right for these too, and gradients are compared as of any op.
use crate::goldens::call_tree::tensor_of;
use rtx_core::Result;
use rtx_io::Array;
use rtx_tensor::{DType, Tensor};

/// Vectors among the results of an op.
struct Vectors {
    result: usize,
    /// Do they stand in columns, or in rows?
    columns: bool,
}
const FIRST_COLUMNS: Vectors = Vectors { result: 0, columns: true };
const SECOND_COLUMNS: Vectors = Vectors { result: 1, columns: true };
const THIRD_COLUMNS: Vectors = Vectors { result: 2, columns: true };
const THIRD_ROWS: Vectors = Vectors { result: 2, columns: false };

/// Which results of an op are vectors that share signs.
fn vectors_of(op: &str) -> &'static [Vectors] {
    match op {
        "linalg.eigh" => &[SECOND_COLUMNS],
        "linalg.svd" => &[FIRST_COLUMNS, THIRD_ROWS],
        "svd" => &[FIRST_COLUMNS, THIRD_COLUMNS],
        _ => &[],
    }
}

/// The results with their vectors turned towards those wanted. Results of other shapes stay, and differ.
pub(super) fn aligned(op: &str, mut outs: Vec<Tensor>, wanted: &[&Array]) -> Result<Vec<Tensor>> {
    let vectors = vectors_of(op);
    let comparable = |v: &Vectors| {
        let (got, want) = (outs.get(v.result)?, wanted.get(v.result)?);
        (got.shape()[..] == want.shape[..] && got.dtype() == want.dtype && got.dtype().is_float()).then_some(())
    };
    if !vectors.iter().all(|v| comparable(v).is_some()) {
        return Ok(outs);
    }
    let mut shared: Option<Tensor> = None;
    for v in vectors {
        let own = signs(&outs[v.result].detach(), &tensor_of(wanted[v.result])?, v.columns);
        // Vectors beyond the shared ones span what the matrix maps to nothing.
        let all = match &shared {
            None => own,
            Some(first) => {
                let n = own.size(-1).min(first.size(-1)) as i64;
                rtx_tensor::cat(&[first.narrow(-1, 0, n as usize), own.narrow(-1, n, own.size(-1) - n as usize)], -1)
            }
        };
        let along = all.unsqueeze(if v.columns { -2 } else { -1 });
        outs[v.result] = &outs[v.result] * along;
        shared.get_or_insert(all);
    }
    Ok(outs)
}

/// −1 for each vector that points away from the one wanted, else 1.
fn signs(got: &Tensor, want: &Tensor, columns: bool) -> Tensor {
    let agreement = (got.to(DType::F64) * want.to(DType::F64)).sum(if columns { -2 } else { -1 });
    let away = agreement.lt(0.0).to(got.dtype());
    away * -2.0 + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtx_tensor::tensor;

    fn array(t: &Tensor) -> Array {
        Array { dtype: t.dtype(), shape: t.shape().to_vec(), bytes: t.read_bytes().expect("computed") }
    }

    #[test]
    fn a_pair_shares_its_sign() -> Result<()> {
        let (u, s, vh) = (tensor!([[1.0, 0.0], [0.0, 1.0]]), tensor!([2.0, 1.0]), tensor!([[0.6, 0.8], [0.8, -0.6]]));
        let turned = [&u * tensor!([1.0, -1.0]), s.alias(), &vh * tensor!([[1.0], [-1.0]])];
        let wanted = [array(&turned[0]), array(&turned[1]), array(&turned[2])];
        let outs = aligned("linalg.svd", vec![u, s, vh], &wanted.iter().collect::<Vec<_>>())?;
        for (out, want) in outs.iter().zip(&turned) {
            assert_eq!(out.to_vec::<f32>()?, want.to_vec::<f32>()?);
        }
        // A pair of which only one is turned rebuilds another matrix, and stays wrong.
        let wrong = aligned(
            "linalg.svd",
            vec![turned[0].alias(), turned[1].alias(), turned[2].neg()],
            &[&wanted[0], &wanted[1], &wanted[2]],
        )?;
        assert_ne!(wrong[2].to_vec::<f32>()?, turned[2].to_vec::<f32>()?);
        Ok(())
    }
}
