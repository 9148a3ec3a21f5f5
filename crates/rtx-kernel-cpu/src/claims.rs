//! Which nodes the kernels of this crate run, and how their axes are walked: functions of op, attributes, extents and
//! dtypes alone (contract N4).
use crate::{attention, loss, window_claims};
use rtx_core::{DType, Dim};
use rtx_hal::Target;
use rtx_ir::{Attr, Factor, Graph, Node, NodeId, Op, OpDef, Prim, ScatterOp, ValueId};
use rtx_plan::{Claim, Claimed, Grouped};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

mod recurrent;
mod scan;
mod sequence;

/// Every claim of this crate.
pub fn claims() -> Vec<Arc<dyn Claim>> {
    vec![
        Arc::new(GemmClaim),
        Arc::new(AttentionClaim),
        Arc::new(AttentionBackwardClaim),
        Arc::new(CrossEntropyClaim),
        Arc::new(CrossEntropyBackwardClaim),
        Arc::new(sequence::CtcClaim),
        Arc::new(sequence::CtcBackwardClaim),
        Arc::new(ScatterClaim),
        Arc::new(EmbeddingGradClaim),
        Arc::new(scan::ScanClaim),
        Arc::new(scan::LinearScanClaim),
        Arc::new(scan::SortClaim),
        Arc::new(scan::FftClaim),
        Arc::new(FactorClaim),
        Arc::new(SolveClaim),
        Arc::new(CheckClaim),
        Arc::new(window_claims::ConvClaim),
        Arc::new(window_claims::OverlapAddClaim),
        Arc::new(window_claims::WindowedMaxClaim),
        Arc::new(window_claims::ScatterWindowsClaim),
        Arc::new(recurrent::RecurrentClaim),
    ]
}

pub(crate) type Axes = SmallVec<[usize; 4]>;
pub(crate) type Extent = SmallVec<[Dim; 4]>;

/// The axes of a value by group.
pub(crate) fn grouped(value: ValueId, groups: impl IntoIterator<Item = Axes>) -> Grouped {
    Grouped { value, groups: groups.into_iter().collect() }
}
/// The sizes of these axes.
pub(crate) fn extent(graph: &Graph, value: ValueId, axes: &[usize]) -> Extent {
    axes.iter().map(|&a| graph.ty(value).shape.dim(a)).collect()
}
fn is_real(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}
/// The node's attributes and operands, if it is a call of this composite.
pub(crate) fn composite<'g>(graph: &'g Graph, node: NodeId, def: &OpDef) -> Option<(&'g [Attr], &'g Node)> {
    let node = graph.node(node);
    matches!(&node.op, Op::Composite(d, _) if *d == def).then(|| (node.op.attrs(), node))
}
/// Output `i` of a node.
pub(crate) fn output(node: &Node, i: usize) -> ValueId {
    ValueId(node.first.0 + i as u32)
}

/// `dot_general` of any dims that group into two batch dims, rows, columns and one summed dim.
pub struct GemmClaim;

impl Claim for GemmClaim {
    fn name(&self) -> &'static str {
        "gemm"
    }
    fn claim(&self, graph: &Graph, node: NodeId, target: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let Op::Prim(Prim::Dot { batch, contract }) = &node.op else { return None };
        let &[lhs, rhs] = node.inputs.as_slice() else { return None };
        let dtype = graph.ty(lhs).dtype;
        let taken = matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        if !(taken || has_tensor_cores(target) && is_half(dtype)) {
            return None;
        }
        let axes = DotAxes::of(batch, contract, graph.ty(lhs).rank(), graph.ty(rhs).rank())?;
        let [b0, b1, m, n] = &axes.kept;
        let size = |s: &Slot| match (&s.lhs, &s.rhs) {
            (l, _) if !l.is_empty() => extent(graph, lhs, l),
            (_, r) => extent(graph, rhs, r),
        };
        let k = extent(graph, lhs, &axes.summed.0);
        Some(Claimed {
            text: format!("gemm {dtype}"),
            dims: vec![size(b0), size(b1), size(m), size(n), k],
            operands: vec![
                grouped(lhs, [&b0.lhs, &b1.lhs, &m.lhs, &axes.summed.0].map(Clone::clone)),
                grouped(rhs, [&b0.rhs, &b1.rhs, &axes.summed.1, &n.rhs].map(Clone::clone)),
            ],
            outputs: vec![grouped(output(node, 0), [&b0.out, &b1.out, &m.out, &n.out].map(Clone::clone))],
            epilogue: true,
            in_place: vec![],
        })
    }
    fn absorb_casts(&self, claimed: &mut Claimed, sources: &[Option<(ValueId, DType)>], target: &Target) {
        let &[Some((lhs, l)), Some((rhs, r))] = sources else { return };
        if l != r || claimed.text != "gemm f32" {
            return;
        }
        // One row or one column is summed as f32 either way.
        let is_one = |extent: &Extent| extent.iter().all(|d| *d == Dim::Const(1));
        let pairs =
            target.family == "cpu" && l == DType::BF16 && !is_one(&claimed.dims[2]) && !is_one(&claimed.dims[3]);
        if !(pairs || has_tensor_cores(target) && is_half(l)) {
            return;
        }
        // Products of halves are exact in f32: only the order of the sums is the tensor cores' or the pairs'.
        claimed.text = format!("gemm {l} f32");
        (claimed.operands[0].value, claimed.operands[1].value) = (lhs, rhs);
    }
}

/// Do kernels multiply halves as they are?
fn has_tensor_cores(target: &Target) -> bool {
    target.family == "cuda"
}
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Axes of the left side, the right side and the result that are walked as one; empty where a side lacks them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Slot {
    lhs: Axes,
    rhs: Axes,
    out: Axes,
}

/// A contraction's axes in gemm's groups.
struct DotAxes {
    /// Two batch slots, rows, columns.
    kept: [Slot; 4],
    /// The summed axes of both sides.
    summed: (Axes, Axes),
}

impl DotAxes {
    /// `None` where the axes make more groups than gemm has: the compiler permutes first.
    fn of(batch: &[(usize, usize)], contract: &[(usize, usize)], rank_l: usize, rank_r: usize) -> Option<Self> {
        let mut pairs: SmallVec<[(usize, usize); 2]> = contract.into();
        pairs.sort_unstable();
        let summed: (Axes, Axes) = pairs.iter().copied().unzip();
        if !neighbours(&summed.0) || !neighbours(&summed.1) {
            return None;
        }
        let free = |rank: usize, of: fn(&(usize, usize)) -> usize| -> Axes {
            (0..rank).filter(|a| batch.iter().chain(contract).all(|p| of(p) != *a)).collect()
        };
        let (free_l, free_r) = (free(rank_l, |p| p.0), free(rank_r, |p| p.1));
        let one = |l: Option<usize>, r: Option<usize>, out: usize| Slot {
            lhs: l.into_iter().collect(),
            rhs: r.into_iter().collect(),
            out: smallvec![out],
        };
        let shared = batch.iter().enumerate().map(|(i, p)| one(Some(p.0), Some(p.1), i));
        let mut slots = joined(shared);
        let rows = joined(free_l.iter().enumerate().map(|(i, &a)| one(Some(a), None, batch.len() + i)));
        let columns =
            joined(free_r.iter().enumerate().map(|(i, &a)| one(None, Some(a), batch.len() + free_l.len() + i)));
        // The last run of each side is rows or columns; runs before it are batch slots that the other side lacks.
        let (row, more_rows) = rows.split_last().map_or((Slot::default(), &[][..]), |(l, f)| (l.clone(), f));
        let (column, more_columns) = columns.split_last().map_or((Slot::default(), &[][..]), |(l, f)| (l.clone(), f));
        slots.extend(more_rows.iter().chain(more_columns).cloned());
        if slots.len() > 2 {
            return None;
        }
        slots.resize(2, Slot::default());
        let b1 = slots.pop()?;
        let b0 = slots.pop()?;
        // One slot stands in front of the other in the result.
        let (b0, b1) = if b0.out.is_empty() || b1.out.is_empty() || b0.out < b1.out { (b0, b1) } else { (b1, b0) };
        Some(Self { kept: [b0, b1, row, column], summed })
    }
}

/// Does each axis follow the one before?
fn neighbours(axes: &[usize]) -> bool {
    axes.windows(2).all(|w| w[0] + 1 == w[1])
}

/// Slots joined while their axes follow each other on every side that has them.
fn joined(slots: impl Iterator<Item = Slot>) -> Vec<Slot> {
    let mut out: Vec<Slot> = Vec::new();
    for slot in slots {
        if let Some(last) = out.last_mut() {
            let both = |a: &Axes, b: &Axes| -> Axes { a.iter().chain(b).copied().collect() };
            let next = Slot {
                lhs: both(&last.lhs, &slot.lhs),
                rhs: both(&last.rhs, &slot.rhs),
                out: both(&last.out, &slot.out),
            };
            if neighbours(&next.lhs) && neighbours(&next.rhs) && neighbours(&next.out) {
                *last = next;
                continue;
            }
        }
        out.push(slot);
    }
    out
}

/// The axes of a tensor `[lead.., x, y]` as batch, head, x, y.
fn head_groups(rank: usize) -> [Axes; 4] {
    let head: Axes = if rank >= 3 { smallvec![rank - 3] } else { smallvec![] };
    [(0..rank.saturating_sub(3)).collect(), head, smallvec![rank - 2], smallvec![rank - 1]]
}

/// What both attention claims share: text, dims and the operands up to kv_len.
fn attention_operands(
    graph: &Graph,
    attrs: &[Attr],
    node: &Node,
    target: &Target,
) -> Option<(String, Vec<Extent>, Vec<Grouped>)> {
    let (q, k, v) = (node.inputs[0], node.inputs[1], node.inputs[2]);
    let (ty, rank) = (graph.ty(q), graph.ty(q).rank());
    let on_gpu = has_tensor_cores(target);
    if on_gpu && !warp_groups_attend(graph, attrs, node, target) || !on_gpu && !is_real(ty.dtype) {
        return None;
    }
    let groups = head_groups(rank);
    let mut operands = vec![grouped(q, groups.clone()), grouped(k, groups.clone()), grouped(v, groups.clone())];
    let mut more = node.inputs[3..].iter().copied();
    let mut mask = attention::Mask::None;
    if attrs[2].bool() {
        let m = more.next()?;
        mask = if graph.ty(m).dtype == DType::Bool { attention::Mask::Bool } else { attention::Mask::Float };
        operands.push(grouped(m, groups.clone()));
    }
    if attrs[3].bool() {
        operands.push(grouped(more.next()?, []));
    }
    let settings =
        attention::Settings { causal: attrs[0].bool(), scale: attrs[1].float(), mask, kv_len: attrs[3].bool() };
    let dims = vec![
        extent(graph, q, &groups[0]),
        extent(graph, q, &groups[1]),
        extent(graph, q, &groups[2]),
        extent(graph, k, &groups[2]),
        extent(graph, q, &groups[3]),
        extent(graph, v, &groups[3]),
    ];
    let head = if on_gpu { format!(" head={}", ty.shape.dim(rank - 1).bound()) } else { String::new() };
    Some((settings.print(ty.dtype) + &head, dims, operands))
}

/// What attention's kernel for a GPU takes: halves, heads of 64 or 128, no mask, and a diagonal that is a square's.
fn warp_groups_attend(graph: &Graph, attrs: &[Attr], node: &Node, target: &Target) -> bool {
    let (q, v) = (graph.ty(node.inputs[0]), graph.ty(node.inputs[2]));
    let last = |ty: &rtx_ir::Type, i: usize| ty.shape.dim(ty.rank() - i);
    let head = [64, 128].into_iter().find(|n| last(q, 1) == Dim::Const(*n));
    let scale = attrs[1].float();
    target.isa == "sm_90a"
        && is_half(q.dtype)
        && head.is_some()
        && last(q, 1) == last(v, 1)
        && !attrs[2].bool()
        && !attrs[3].bool()
        && (scale > 0.0 && scale.is_finite())
        && (!attrs[0].bool() || last(q, 2) == last(v, 2))
}

/// `attention`.
pub struct AttentionClaim;

impl Claim for AttentionClaim {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn claim(&self, graph: &Graph, node: NodeId, target: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::attention::ATTENTION)?;
        let (text, dims, operands) = attention_operands(graph, attrs, node, target)?;
        let groups = head_groups(graph.ty(node.inputs[0]).rank());
        Some(Claimed {
            text: format!("attention {text}"),
            dims,
            operands,
            outputs: vec![
                grouped(output(node, 0), groups.clone()),
                grouped(output(node, 1), groups.into_iter().take(3)),
            ],
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `attention_backward` without a cotangent of lse.
pub struct AttentionBackwardClaim;

impl Claim for AttentionBackwardClaim {
    fn name(&self) -> &'static str {
        "attention_backward"
    }
    fn claim(&self, graph: &Graph, node: NodeId, target: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::attention::ATTENTION_BACKWARD)?;
        let (text, dims, mut operands) = attention_operands(graph, attrs, node, target)?;
        let groups = head_groups(graph.ty(node.inputs[0]).rank());
        let &[out, lse, dout] = &node.inputs[operands.len()..] else { return None };
        operands.push(grouped(out, groups.clone()));
        operands.push(grouped(lse, groups.clone().into_iter().take(3)));
        operands.push(grouped(dout, groups.clone()));
        Some(Claimed {
            text: format!("attention_backward {text}"),
            dims,
            operands,
            outputs: (0..3).map(|i| grouped(output(node, i), groups.clone())).collect(),
            epilogue: false,
            in_place: vec![],
        })
    }
    fn writes_parts(&self, target: &Target) -> bool {
        has_tensor_cores(target)
    }
}

/// The settings of both cross-entropy ops.
fn loss_settings(attrs: &[Attr]) -> Option<loss::Settings> {
    let reduction = match &attrs[0] {
        Attr::Str("mean") => loss::Reduction::Mean,
        Attr::Str("sum") => loss::Reduction::Sum,
        Attr::Str("none") => loss::Reduction::None,
        _ => return None,
    };
    Some(loss::Settings { reduction, ignore: attrs[1].int(), smoothing: attrs[2].float() })
}
const ROW: usize = 0;
const COLUMN: usize = 1;
/// A value `[n, c]`, `[n]` or `[]`.
fn rows_grouped(graph: &Graph, value: ValueId) -> Grouped {
    grouped(value, (0..graph.ty(value).rank()).map(|a| smallvec![a]))
}
fn loss_dims(graph: &Graph, logits: ValueId) -> Vec<Extent> {
    vec![extent(graph, logits, &[ROW]), extent(graph, logits, &[COLUMN])]
}

/// `cross_entropy`.
pub struct CrossEntropyClaim;

impl Claim for CrossEntropyClaim {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::loss::CROSS_ENTROPY)?;
        let dtype = graph.ty(node.inputs[0]).dtype;
        let settings = loss_settings(attrs).filter(|_| is_real(dtype))?;
        Some(Claimed {
            text: format!("cross_entropy {}", settings.print(dtype)),
            dims: loss_dims(graph, node.inputs[0]),
            operands: node.inputs.iter().map(|&v| rows_grouped(graph, v)).collect(),
            outputs: (0..2).map(|i| rows_grouped(graph, output(node, i))).collect(),
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `cross_entropy_backward`.
pub struct CrossEntropyBackwardClaim;

impl Claim for CrossEntropyBackwardClaim {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::loss::CROSS_ENTROPY_BACKWARD)?;
        let dtype = graph.ty(node.inputs[0]).dtype;
        let settings = loss_settings(attrs).filter(|_| is_real(dtype))?;
        Some(Claimed {
            text: format!("cross_entropy_backward {}", settings.print(dtype)),
            dims: loss_dims(graph, node.inputs[0]),
            operands: node.inputs.iter().map(|&v| rows_grouped(graph, v)).collect(),
            outputs: vec![rows_grouped(graph, output(node, 0))],
            epilogue: false,
            in_place: vec![(0, 0)],
        })
    }
}

fn is_scattered(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// `scatter` of every kind.
pub struct ScatterClaim;

impl Claim for ScatterClaim {
    fn name(&self) -> &'static str {
        "scatter"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::Scatter { axis, op }) = &node.op else { return None };
        let &[x, indices, updates] = node.inputs.as_slice() else { return None };
        let dtype = graph.ty(x).dtype;
        if !is_scattered(dtype) {
            return None;
        }
        let (rank, index_rank) = (graph.ty(x).rank(), graph.ty(indices).rank());
        let walk = |middle: usize, rank: usize| -> [Axes; 3] {
            [(0..axis).collect(), (axis..axis + middle).collect(), (axis + middle..rank).collect()]
        };
        let all: Axes = (0..index_rank).collect();
        let (x_groups, u_groups) = (walk(1, rank), walk(index_rank, graph.ty(updates).rank()));
        Some(Claimed {
            text: format!("scatter {} {dtype} copy", op.name()),
            dims: vec![
                extent(graph, x, &x_groups[0]),
                extent(graph, x, &x_groups[1]),
                extent(graph, indices, &all),
                extent(graph, x, &x_groups[2]),
            ],
            operands: vec![grouped(x, x_groups.clone()), grouped(indices, [all]), grouped(updates, u_groups)],
            outputs: vec![grouped(output(node, 0), x_groups)],
            epilogue: false,
            in_place: vec![(0, 0)],
        })
    }
}

/// `embedding_grad`: a scatter into zeros that are never written as a tensor.
pub struct EmbeddingGradClaim;

impl Claim for EmbeddingGradClaim {
    fn name(&self) -> &'static str {
        "embedding_grad"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let (_, node) = composite(graph, node, &rtx_ops::index::EMBEDDING_GRAD)?;
        let (dy, indices, out) = (node.inputs[0], node.inputs[1], output(node, 0));
        let dtype = graph.ty(dy).dtype;
        if !is_scattered(dtype) {
            return None;
        }
        let all: Axes = (0..graph.ty(indices).rank()).collect();
        let none = Axes::new();
        let last: Axes = smallvec![all.len()];
        Some(Claimed {
            text: format!("scatter {} {dtype} zero", ScatterOp::Add.name()),
            dims: vec![Extent::new(), extent(graph, out, &[0]), extent(graph, indices, &all), extent(graph, out, &[1])],
            operands: vec![grouped(indices, [all.clone()]), grouped(dy, [none.clone(), all, last])],
            outputs: vec![grouped(out, [none, smallvec![0], smallvec![1]])],
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// The last `inner` axes one by one, what stands before them as one group.
fn batched(graph: &Graph, value: ValueId, inner: usize) -> Grouped {
    let lead = graph.ty(value).rank() - inner;
    grouped(value, std::iter::once((0..lead).collect()).chain((lead..lead + inner).map(|a| smallvec![a])))
}

/// `factor` of every kind with real results.
pub struct FactorClaim;

impl Claim for FactorClaim {
    fn name(&self) -> &'static str {
        "factor"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::Factor(f)) = &node.op else { return None };
        let inner: &[usize] = match f {
            Factor::Cholesky => &[2, 0],
            Factor::Lu => &[2, 1, 1, 0],
            Factor::Qr { .. } => &[2, 2],
            Factor::Eigh => &[1, 2],
            Factor::Svd { .. } => &[2, 1, 2],
            Factor::Eig => return None,
        };
        let x = node.inputs[0];
        let operand = batched(graph, x, 2);
        let full = if f.full() { "full" } else { "thin" };
        Some(Claimed {
            text: format!("factor {} {} {full}", f.name(), graph.ty(x).dtype),
            dims: operand.groups.iter().map(|g| extent(graph, x, g)).collect(),
            operands: vec![operand],
            outputs: inner.iter().enumerate().map(|(i, &n)| batched(graph, output(node, i), n)).collect(),
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `triangular_solve`.
pub struct SolveClaim;

impl Claim for SolveClaim {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::TriangularSolve { upper, transpose, unit }) = &node.op else { return None };
        let (a, b) = (batched(graph, node.inputs[0], 2), batched(graph, node.inputs[1], 2));
        Some(Claimed {
            text: format!("triangular_solve {} {upper} {transpose} {unit}", graph.ty(a.value).dtype),
            dims: b.groups.iter().map(|g| extent(graph, b.value, g)).collect(),
            operands: vec![a, b],
            outputs: vec![batched(graph, output(node, 0), 2)],
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `check`.
pub struct CheckClaim;

impl Claim for CheckClaim {
    fn name(&self) -> &'static str {
        "check"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let Op::Prim(Prim::Check(message)) = &node.op else { return None };
        let flat = |v: ValueId| grouped(v, [(0..graph.ty(v).rank()).collect()]);
        let (x, condition, y) = (flat(node.inputs[0]), flat(node.inputs[1]), flat(output(node, 0)));
        Some(Claimed {
            text: format!("check {} {}", graph.ty(x.value).dtype.size(), message.escape_default()),
            dims: [&x, &condition].iter().map(|g| extent(graph, g.value, &g.groups[0])).collect(),
            operands: vec![x, condition],
            outputs: vec![y],
            epilogue: false,
            in_place: vec![(0, 0)],
        })
    }
}
