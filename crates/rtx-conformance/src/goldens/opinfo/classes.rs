//! What the runner knows about operators by name: how near their results must be, and where OpInfo's own argument
//! order is not PyTorch's.
use crate::goldens::closeness::Tolerance;
use rtx_core::{DType, Result};
use rtx_tensor::{Argument, Tensor, TryTensor};

/// Sums, products of matrices, convolutions, norms, softmax, and what is made of them.
const REDUCTIONS: &[&str] = &[
    "matmul",
    "__rmatmul__",
    "mm",
    "bmm",
    "mv",
    "dot",
    "vdot",
    "inner",
    "outer",
    "addmm",
    "addmv",
    "addbmm",
    "baddbmm",
    "addr",
    "einsum",
    "tensordot",
    "kron",
    "sum",
    "mean",
    "prod",
    "nansum",
    "nanmean",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "logsumexp",
    "norm",
    "dist",
    "cdist",
    "cov",
    "corrcoef",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "trapezoid",
    "trapz",
    "cumulative_trapezoid",
    "trace",
    "softmax",
    "log_softmax",
    "_softmax_backward_data",
    "torch.ops.aten._safe_softmax.default",
    "renorm",
    "sum_to_size",
    "index_reduce",
    "scatter_reduce",
    "_segment_reduce",
    "index_add",
    "scatter_add",
    "histogram",
    "stft",
    "istft",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
    "native_layer_norm",
    "native_group_norm",
    "_upsample_bilinear2d_aa",
    "gradient",
];
/// Decompositions and special functions.
const SPECIAL: &[&str] = &[
    "lgamma",
    "digamma",
    "polygamma",
    "mvlgamma",
    "igamma",
    "igammac",
    "erfinv",
    "i0",
    "lu",
    "lu_solve",
    "lu_unpack",
    "svd",
    "svd_lowrank",
    "pca_lowrank",
    "pinverse",
    "cholesky_inverse",
    "cholesky_solve",
    "geqrf",
    "ormqr",
    "logdet",
    "triangular_solve",
    "matrix_exp",
    "linalg.cond",
    "linalg.matrix_power",
];
/// Linear algebra that decomposes nothing.
const PLAIN_LINALG: &[&str] = &[
    "linalg.vector_norm",
    "linalg.norm",
    "linalg.matrix_norm",
    "linalg.vecdot",
    "linalg.multi_dot",
    "linalg.cross",
    "linalg.diagonal",
    "linalg.vander",
];
/// Modules of functions that reduce.
const REDUCING_MODULES: &[&str] = &["nn.functional.", "masked.", "fft."];

/// How near values must be.
pub(super) fn tolerance(op: &str, dtype: DType) -> Tolerance {
    let special = SPECIAL.contains(&op) || op.starts_with("special.");
    let decomposes = op.starts_with("linalg.") && !PLAIN_LINALG.contains(&op);
    let reduces =
        REDUCTIONS.contains(&op) || PLAIN_LINALG.contains(&op) || REDUCING_MODULES.iter().any(|m| op.starts_with(m));
    match dtype {
        DType::BF16 | DType::F16 if reduces || special || decomposes => Tolerance::new(1.6e-2, 1e-2),
        DType::BF16 | DType::F16 => Tolerance::new(1.6e-2, 1e-5),
        _ if special || decomposes => Tolerance::new(1e-4, 1e-4),
        _ if reduces => Tolerance::new(1e-5, 1e-5),
        _ => Tolerance::new(1.3e-6, 1e-5),
    }
}

/// How near gradients must be.
pub(super) fn gradient_tolerance(op: &str, dtype: DType) -> Tolerance {
    let values = tolerance(op, dtype);
    let gradients = Tolerance::new(1e-4, 1e-5);
    Tolerance::new(values.rtol.max(gradients.rtol), values.atol.max(gradients.atol))
}

/// Results as OpInfo's own function of a variant hands them on.
pub(super) fn as_handed_on(variant: &str, mut outs: Vec<Tensor>) -> Vec<Tensor> {
    if variant == "linalg.lstsq.grad_oriented" {
        outs.truncate(2);
    }
    outs
}
/// The arguments of a variant whose function computes its operand first: `(a, b)` for a · bᵀ.
pub(super) fn as_variant(variant: &str, args: Vec<Argument>) -> Result<Vec<Argument>> {
    match (variant, args.as_slice()) {
        ("linalg.pinv.singular", [Argument::Tensor(a), Argument::Tensor(b)]) => {
            let transposed = b.transpose(-1, -2);
            Ok(vec![a.try_matmul(&transposed)?.into()])
        }
        _ => Ok(args),
    }
}

/// What OpInfo's own function makes of several ops: the way back of a pool, from ones, at the places that it finds.
pub(super) fn as_composed(op: &str, args: &[Argument], named: &[(&str, Argument)]) -> Result<Option<Vec<Tensor>>> {
    let ("max_pool2d_with_indices_backward", [x]) = (op, args) else { return Ok(None) };
    let find = |name: &str| named.iter().find(|(n, _)| *n == name).map(|(_, a)| a.clone());
    let kernel = find("kernel_size").unwrap_or(Argument::None);
    let stride = find("stride").filter(|s| !matches!(s, Argument::None)).unwrap_or_else(|| kernel.clone());
    let rest = ["padding", "dilation", "ceil_mode"].map(|n| find(n).unwrap_or(Argument::None));
    let pool: Vec<Argument> = [x.clone(), kernel, stride].into_iter().chain(rest).collect();
    let found = rtx_tensor::call("max_pool2d_with_indices", &pool, &[])?;
    let [out, indices] = found.as_slice() else { return Ok(None) };
    let mut back = vec![rtx_tensor::ones_like(out).into()];
    back.extend(pool);
    back.push(indices.into());
    rtx_tensor::call(op, &back, &[]).map(Some)
}

/// Arguments in PyTorch's order, where OpInfo wraps the function in one of its own: `(tensors, equation)` for einsum,
/// `(self, condition, other)` for where, `(self, n)` for polygamma.
pub(super) fn as_pytorch(op: &str, mut args: Vec<Argument>) -> Vec<Argument> {
    if matches!(op, "einsum" | "where" | "polygamma" | "special.polygamma") && args.len() > 1 {
        args.swap(0, 1);
    }
    args
}
