//! Other names of ops: Python's modules and operators, and words that mean the same.
use crate::{ALL, find_exact};
use rtx_ir::OpDef;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Another word for an op of the table.
struct Alias {
    name: &'static str,
    op: &'static str,
    /// Python's reflected operators: `a.__rsub__(b)` is `b - a`.
    swapped: bool,
}

const fn same(name: &'static str, op: &'static str) -> Alias {
    Alias { name, op, swapped: false }
}
const fn swapped(name: &'static str, op: &'static str) -> Alias {
    Alias { name, op, swapped: true }
}

/// Words that are no modules: sorted by what they call.
const ALIASES: &[Alias] = &[
    same("absolute", "abs"),
    same("__abs__", "abs"),
    same("arccos", "acos"),
    same("arccosh", "acosh"),
    same("__add__", "add"),
    swapped("__radd__", "add"),
    same("H", "adjoint"),
    same("arcsin", "asin"),
    same("arcsinh", "asinh"),
    same("arctan", "atan"),
    same("arctan2", "atan2"),
    same("arctanh", "atanh"),
    same("special.gammaln", "lgamma"),
    same("special.psi", "digamma"),
    same("matrix_exp", "linalg_matrix_exp"),
    same("conj_physical", "conj"),
    same("view_as_complex_copy", "view_as_complex"),
    same("view_as_real_copy", "view_as_real"),
    same("special.expit", "sigmoid"),
    same("special.gammainc", "igamma"),
    same("special.gammaincc", "igammac"),
    same("special.multigammaln", "mvlgamma"),
    same("__and__", "bitwise_and"),
    swapped("__rand__", "bitwise_and"),
    same("__or__", "bitwise_or"),
    swapped("__ror__", "bitwise_or"),
    same("__xor__", "bitwise_xor"),
    swapped("__rxor__", "bitwise_xor"),
    same("__invert__", "bitwise_not"),
    same("concat", "cat"),
    same("concatenate", "cat"),
    same("unsafe_chunk", "chunk"),
    same("clip", "clamp"),
    same("divide", "div"),
    same("true_divide", "div"),
    same("__div__", "div"),
    same("__truediv__", "div"),
    swapped("__rdiv__", "div"),
    swapped("__rtruediv__", "div"),
    same("__eq__", "eq"),
    same("fix", "trunc"),
    same("greater_equal", "ge"),
    same("__ge__", "ge"),
    same("greater", "gt"),
    same("__gt__", "gt"),
    same("ger", "outer"),
    same("less_equal", "le"),
    same("__le__", "le"),
    same("linalg.det", "det"),
    same("linalg.diagonal", "diagonal"),
    same("linalg.matmul", "matmul"),
    same("less", "lt"),
    same("__lt__", "lt"),
    same("__matmul__", "matmul"),
    swapped("__rmatmul__", "matmul"),
    same("moveaxis", "movedim"),
    same("multiply", "mul"),
    same("__mul__", "mul"),
    swapped("__rmul__", "mul"),
    same("not_equal", "ne"),
    same("__ne__", "ne"),
    same("negative", "neg"),
    same("__neg__", "neg"),
    same("norm", "python_norm"),
    same("T", "numpy_T"),
    same("__pow__", "pow"),
    swapped("__rpow__", "pow"),
    same("__mod__", "remainder"),
    swapped("__rmod__", "remainder"),
    same("__rsub__", "rsub"),
    same("unsafe_split", "split"),
    same("unsafe_split_with_sizes", "split_with_sizes"),
    same("subtract", "sub"),
    same("__sub__", "sub"),
    same("swapaxes", "transpose"),
    same("swapdims", "transpose"),
    same("row_stack", "vstack"),
    same("_segment_reduce", "segment_reduce"),
    same("orgqr", "linalg_householder_product"),
    same("tensordot", "python_tensordot"),
    same("nn.functional.upsample", "interpolate"),
    same("nn.functional.cross_entropy", "cross_entropy_loss"),
    same("nn.functional.logsigmoid", "log_sigmoid"),
    same("nn.functional.embedding_bag", "python_embedding_bag"),
    same("embedding_bag", "python_embedding_bag"),
];

/// Python modules whose functions stand in the table under their bare names.
const MODULES: &[&str] = &["nn.functional.", "linalg.", "special.", "torch.ops.aten.", "torch.", "Tensor."];

/// What a name may stand for, the most literal first, and whether the first two arguments change places. The dots of
/// `linalg.norm` are `_` in the table; in [`MODULES`] the bare name means the same.
pub fn names(name: &str) -> (SmallVec<[String; 4]>, bool) {
    let mut out: SmallVec<[String; 4]> = SmallVec::new();
    let mut push = |n: String| {
        if !out.contains(&n) {
            out.push(n);
        }
    };
    push(name.to_owned());
    let alias = ALIASES.iter().find(|a| a.name == name);
    if let Some(alias) = alias {
        push(alias.op.to_owned());
    }
    let bare = MODULES.iter().find_map(|m| name.strip_prefix(m));
    // An overload after the dot: `torch.ops.aten._safe_softmax.default`.
    let plain = bare.filter(|_| name.starts_with("torch.ops.")).and_then(|b| b.split('.').next());
    push(name.replace('.', "_"));
    bare.map(str::to_owned).into_iter().for_each(&mut push);
    plain.map(str::to_owned).into_iter().for_each(&mut push);
    if let Some(alias) = bare.and_then(|b| ALIASES.iter().find(|a| a.name == b)) {
        push(alias.op.to_owned());
    }
    // A copy and a view are one here.
    if let Some(viewed) = name.strip_suffix("_copy") {
        push(viewed.to_owned());
    }
    (out, alias.is_some_and(|a| a.swapped))
}

/// All definitions that a name stands for: the overloads in the order of the table.
pub fn candidates(name: &str) -> (SmallVec<[&'static OpDef; 4]>, bool) {
    let (names, swapped) = names(name);
    let found = names.iter().map(|n| overloads(n)).find(|o| !o.is_empty());
    (found.unwrap_or_default().into(), swapped)
}

/// The definitions of exactly this name.
pub fn overloads(name: &str) -> &'static [&'static OpDef] {
    by_name().get(name).map_or(&[], |o| o.as_slice())
}

type Overloads = HashMap<&'static str, SmallVec<[&'static OpDef; 4]>>;

/// Definitions by name; a spelling stands before a primitive of the same name.
fn by_name() -> &'static Overloads {
    static BY_NAME: OnceLock<Overloads> = OnceLock::new();
    BY_NAME.get_or_init(|| {
        let mut out = Overloads::new();
        for def in ALL.iter().chain(rtx_ir::prims::ALL) {
            out.entry(def.name()).or_default().push(def);
        }
        out
    })
}

/// The definition of this name: an op of the table or a primitive, under its own name or another.
pub fn find(name: &str) -> Option<&'static OpDef> {
    find_exact(name).or_else(|| candidates(name).0.first().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pythons_modules() {
        let first = |n: &str| candidates(n).0.first().map(|d| d.name());
        assert_eq!(first("nn.functional.gelu"), Some("gelu"));
        assert_eq!(first("linalg.vector_norm"), Some("linalg_vector_norm"));
        assert_eq!(first("true_divide"), Some("div"));
        assert_eq!(first("unsqueeze_copy"), Some("unsqueeze"));
        assert_eq!(first("masked.sum"), Some("masked_sum"), "not the sum of all");
        assert!(candidates("__rpow__").1 && !candidates("__pow__").1);
    }
}
