//! Graphs as text: what is printed parses back to the same program (lines of the user's program are no part of it).
//!
//! One node a line: `%3: f32 [2, 3] = add %1 %2`, attributes in braces, `@1` for a generation other than 0. A
//! composite is written `call NAME`. What the result's type says (a cast's dtype, a reshape's shape) is not repeated.
//!
//! A `.rtxir` file is a header line with the format's and the numerics version, the graph, and a `return` line,
//! without which the file is cut off.
use crate::{
    Attr, Collective, ConvDim, Convolution, Factor, Fft, FftKind, FftNorm, Graph, Node, Op, OpDef, Prim, Types, ValueId,
};
use rtx_core::{DType, NUMERICS_VERSION};
use std::fmt::Write;

mod lex;
mod parse;

pub use parse::{File, Lookup, parse, parse_program, parse_types, read_file};

/// Version of the format.
const VERSION: u32 = 1;

/// The graph as text.
pub fn print(graph: &Graph) -> String {
    let mut out = String::new();
    let mut params = graph.params().iter();
    for node in graph.nodes() {
        print_node(&mut out, graph, node, &mut params);
    }
    out
}

/// A program within a program: its lines in parentheses, parted by semicolons, the last one `return`.
pub fn print_program(graph: &Graph, outputs: &[ValueId]) -> String {
    let mut text = String::from("(");
    print(graph).lines().for_each(|line| push(&mut text, format_args!("{line}; ")));
    text.push_str("return");
    outputs.iter().for_each(|v| push(&mut text, format_args!(" %{}", v.0)));
    text.push(')');
    text
}

/// The contents of a `.rtxir` file: a program that returns `outputs`.
pub fn write_file(graph: &Graph, outputs: &[ValueId]) -> String {
    let mut out = format!("rtxir {VERSION} numerics {NUMERICS_VERSION}\n{}return", print(graph));
    outputs.iter().for_each(|v| push(&mut out, format_args!(" %{}", v.0)));
    out.push('\n');
    out
}

/// What follows `call` for a composite: its signature's head, `softmax.int`.
pub fn call_name(def: &OpDef) -> &'static str {
    def.sig.split('(').next().unwrap_or(def.sig)
}

/// Writing to a `String` cannot fail.
fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}

fn print_node<'a>(out: &mut String, graph: &Graph, node: &Node, params: &mut impl Iterator<Item = &'a u64>) {
    for (i, v) in node.outs().enumerate() {
        push(out, format_args!("{}%{}: {}", if i > 0 { ", " } else { "" }, v.0, graph.ty(v)));
    }
    out.push_str(" = ");
    match &node.op {
        Op::Composite(def, _) => push(out, format_args!("call {}", call_name(def))),
        op => out.push_str(op.name()),
    }
    node.inputs.iter().for_each(|v| push(out, format_args!(" %{}", v.0)));
    let fields = match &node.op {
        Op::Input | Op::Ghost => Vec::new(),
        Op::Prim(Prim::Param { dtype }) => vec![print_bits(*dtype, params.next().copied().unwrap_or_default())],
        Op::Prim(p) => prim_fields(p),
        Op::Composite(_, attrs) => attrs.iter().map(print_attr).collect(),
    };
    if !fields.is_empty() {
        push(out, format_args!(" {{{}}}", fields.join(", ")));
    }
    if node.generation != 0 {
        push(out, format_args!(" @{}", node.generation));
    }
    out.push('\n');
}

/// The attributes that the result's type does not tell.
fn prim_fields(p: &Prim) -> Vec<String> {
    let pairs = |list: &[(usize, usize)]| {
        format!("[{}]", list.iter().map(|(a, b)| format!("{a}:{b}")).collect::<Vec<_>>().join(", "))
    };
    match p {
        Prim::Constant { dtype, bits } => vec![print_bits(*dtype, *bits)],
        Prim::Iota { axis, .. }
        | Prim::Concat { axis }
        | Prim::Gather { axis }
        | Prim::Scatter { axis, .. }
        | Prim::ArgReduce { axis, .. } => vec![format!("axis: {axis}")],
        Prim::Permute(order) => vec![format!("order: {order:?}")],
        Prim::Slice { axis, len, step } => {
            vec![format!("axis: {axis}"), format!("len: {len}"), format!("step: {step}")]
        }
        Prim::Pad { axis, before, after } => {
            vec![format!("axis: {axis}"), format!("before: {before}"), format!("after: {after}")]
        }
        Prim::UpdateSlice { axis, step } => vec![format!("axis: {axis}"), format!("step: {step}")],
        Prim::Scan { axis, reverse, .. } | Prim::LinearScan { axis, reverse } => {
            vec![format!("axis: {axis}"), format!("reverse: {reverse}")]
        }
        Prim::Sort { axis, descending } => vec![format!("axis: {axis}"), format!("descending: {descending}")],
        Prim::Reduce { axes, .. } => vec![format!("axes: {axes:?}")],
        Prim::Dot { batch, contract } => {
            vec![format!("batch: {}", pairs(batch)), format!("contract: {}", pairs(contract))]
        }
        Prim::Factor(f) => {
            let mut fields = vec![format!("kind: {}", f.name())];
            if matches!(f, Factor::Qr { .. } | Factor::Svd { .. }) {
                fields.push(format!("full: {}", f.full()));
            }
            fields
        }
        Prim::TriangularSolve { upper, transpose, unit } => {
            vec![format!("upper: {upper}"), format!("transpose: {transpose}"), format!("unit: {unit}")]
        }
        Prim::Fft(f) => {
            let mut fields = vec![
                format!("kind: {}", f.kind.name()),
                format!("axis: {}", f.axis),
                format!("inverse: {}", f.inverse),
                format!("norm: {}", f.norm.name()),
            ];
            if let FftKind::FromHalf { len } = f.kind {
                fields.push(format!("len: {len}"));
            }
            fields
        }
        Prim::Loop(body) => vec![format!("body: {}", body.text())],
        Prim::If { then, otherwise } => {
            vec![format!("then: {}", then.text()), format!("otherwise: {}", otherwise.text())]
        }
        Prim::Collective { kind, members } => collective_fields(*kind, *members),
        Prim::CustomCall { name, .. } => vec![format!("name: {}", quote(name))],
        Prim::Check(message) => vec![format!("message: {}", quote(message))],
        Prim::Windows { axis, size, stride, dilation } => vec![
            format!("axis: {axis}"),
            format!("size: {size}"),
            format!("stride: {stride}"),
            format!("dilation: {dilation}"),
        ],
        Prim::OverlapAdd { axis, len, stride, dilation } => vec![
            format!("axis: {axis}"),
            format!("len: {len}"),
            format!("stride: {stride}"),
            format!("dilation: {dilation}"),
        ],
        Prim::Conv(c) => conv_fields(c),
        Prim::Param { .. }
        | Prim::RandomBits { .. }
        | Prim::Unary(_)
        | Prim::Binary(_)
        | Prim::Compare(_)
        | Prim::Fma
        | Prim::Select
        | Prim::Cast(_)
        | Prim::Bitcast(_)
        | Prim::Reshape(_)
        | Prim::Expand(_)
        | Prim::Barrier => Vec::new(),
    }
}

fn collective_fields(kind: Collective, members: u32) -> Vec<String> {
    let mut fields = vec![format!("kind: {}", kind.name()), format!("members: {members}")];
    match kind {
        Collective::AllReduce(fold) => fields.push(format!("fold: {}", fold.name())),
        Collective::AllGather { axis } | Collective::AllToAll { axis } => fields.push(format!("axis: {axis}")),
        Collective::ReduceScatter { fold, axis } => {
            fields.extend([format!("fold: {}", fold.name()), format!("axis: {axis}")]);
        }
        Collective::SendRecv { shift } => fields.push(format!("shift: {shift}")),
    }
    fields
}

fn collective_of(f: &parse::Fields<'_>) -> Result<Collective, String> {
    use rtx_core::Fold;
    let fold = || Fold::parse(f.word("fold")?).ok_or_else(|| "no such reduction".to_string());
    Ok(match f.word("kind")? {
        "all_reduce" => Collective::AllReduce(fold()?),
        "all_gather" => Collective::AllGather { axis: f.size("axis")? },
        "reduce_scatter" => Collective::ReduceScatter { fold: fold()?, axis: f.size("axis")? },
        "all_to_all" => Collective::AllToAll { axis: f.size("axis")? },
        "send_recv" => Collective::SendRecv { shift: f.int("shift")? },
        other => return Err(format!("no collective is called {other:?}")),
    })
}

/// A sentence between quotes.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

/// One list for each attribute, an element a dim.
fn conv_fields(c: &Convolution) -> Vec<String> {
    let list =
        |name: &str, of: fn(&ConvDim) -> i128| format!("{name}: {:?}", c.dims.iter().map(of).collect::<Vec<_>>());
    vec![
        list("stride", |d| d.stride.into()),
        list("low", |d| d.low.into()),
        list("high", |d| d.high.into()),
        list("base", |d| d.base.into()),
        list("dilation", |d| d.dilation.into()),
        format!("groups: {}", c.groups),
    ]
}

/// The inverse of [`conv_fields`].
fn conv_of(f: &parse::Fields<'_>) -> Result<Convolution, String> {
    let lists = ["stride", "low", "high", "base", "dilation"].map(|key| f.ints(key));
    let [stride, low, high, base, dilation] = lists;
    let (stride, low, high, base, dilation) = (stride?, low?, high?, base?, dilation?);
    if [&low, &high, &base, &dilation].iter().any(|l| l.len() != stride.len()) {
        return Err("the lists of a convolution are of one length".into());
    }
    let step = |n: i64| u64::try_from(n).map_err(|_| format!("a step is {n}"));
    let dim = |i: usize| -> Result<ConvDim, String> {
        let (stride, base, dilation) = (step(stride[i])?, step(base[i])?, step(dilation[i])?);
        Ok(ConvDim { stride, low: low[i], high: high[i], base, dilation })
    };
    Ok(Convolution { dims: (0..stride.len()).map(dim).collect::<Result<_, _>>()?, groups: f.size("groups")? })
}

/// A number as people write it where that tells every bit, else its bits.
fn print_bits(dtype: DType, bits: u64) -> String {
    let text = match dtype {
        DType::Bool => (bits != 0).to_string(),
        DType::F16 => half::f16::from_bits(bits as u16).to_string(),
        DType::BF16 => half::bf16::from_bits(bits as u16).to_string(),
        DType::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        DType::F64 => format!("{:?}", f64::from_bits(bits)),
        DType::F8E4M3 => rtx_core::F8E4M3::from_bits(bits as u8).to_f64().to_string(),
        DType::F8E5M2 => rtx_core::F8E5M2::from_bits(bits as u8).to_f64().to_string(),
        DType::C64 => format!("{:?}", f32::from_bits(bits as u32)),
        DType::C128 => format!("{:?}", f64::from_bits(bits)),
        d => crate::oracle::Value::from_bits(d, bits).int().to_string(),
    };
    if lex::number_bits(dtype, &text) == Some(bits) { text } else { format!("{bits:#x}") }
}

fn print_attr(a: &Attr) -> String {
    match a {
        Attr::None => "none".into(),
        Attr::Bool(x) => x.to_string(),
        Attr::Int(i) => i.to_string(),
        Attr::Float(x) => format!("{x:?}"),
        Attr::Ints(v) => format!("{v:?}"),
        Attr::DType(d) => d.to_string(),
        Attr::Str(s) => format!("{s:?}"),
    }
}

/// The primitive with a name, attributes from `fields`, the rest from the type of the result.
fn prim_of(name: &str, types: &Types, f: &parse::Fields<'_>) -> Result<Prim, String> {
    use rtx_core::{Arith, Comparison, Extremum, Fold, Function};
    let crate::Type { dtype, shape } = types.first().ok_or("a node makes a value")?;
    let dtype = *dtype;
    if let Some(x) = Function::parse(name) {
        return Ok(Prim::Unary(x));
    }
    if let Some(x) = Arith::parse(name) {
        return Ok(Prim::Binary(x));
    }
    if let Some(x) = Comparison::parse(name) {
        return Ok(Prim::Compare(x));
    }
    if let Some(op) = name.strip_prefix("scatter_") {
        let op = crate::ScatterOp::ALL.into_iter().find(|o| o.name() == op).ok_or("no such scatter")?;
        return Ok(Prim::Scatter { axis: f.size("axis")?, op });
    }
    if let Some(fold) = name.strip_prefix("reduce_") {
        return Ok(Prim::Reduce { fold: Fold::parse(fold).ok_or("no such reduction")?, axes: f.sizes("axes")? });
    }
    if let Some(fold) = name.strip_prefix("scan_") {
        let fold = Fold::parse(fold).ok_or("no such scan")?;
        return Ok(Prim::Scan { fold, axis: f.size("axis")?, reverse: f.flag("reverse")? });
    }
    if let Some(e) = name.strip_prefix("arg_") {
        return Ok(Prim::ArgReduce { extremum: Extremum::parse(e).ok_or("no such extremum")?, axis: f.size("axis")? });
    }
    Ok(match name {
        "constant" => Prim::Constant { dtype, bits: f.bits(dtype)? },
        "param" => Prim::Param { dtype },
        "iota" => Prim::Iota { shape: shape.clone(), axis: f.size("axis")? },
        "random_bits" => Prim::RandomBits { shape: shape.clone() },
        "fma" => Prim::Fma,
        "select" => Prim::Select,
        "cast" => Prim::Cast(dtype),
        "bitcast" => Prim::Bitcast(dtype),
        "reshape" => Prim::Reshape(shape.clone()),
        "permute" => Prim::Permute(f.sizes("order")?),
        "expand" => Prim::Expand(shape.clone()),
        "slice" => Prim::Slice { axis: f.size("axis")?, len: f.dim("len")?, step: f.int("step")? },
        "pad" => Prim::Pad { axis: f.size("axis")?, before: f.size("before")? as u64, after: f.size("after")? as u64 },
        "concat" => Prim::Concat { axis: f.size("axis")? },
        "update_slice" => Prim::UpdateSlice { axis: f.size("axis")?, step: f.int("step")? },
        "gather" => Prim::Gather { axis: f.size("axis")? },
        "linear_scan" => Prim::LinearScan { axis: f.size("axis")?, reverse: f.flag("reverse")? },
        "sort" => Prim::Sort { axis: f.size("axis")?, descending: f.flag("descending")? },
        "dot_general" => Prim::Dot { batch: f.pairs("batch")?, contract: f.pairs("contract")? },
        "factor" => {
            let kind = f.word("kind")?;
            let full = if matches!(kind, "qr" | "svd") { f.flag("full")? } else { false };
            Prim::Factor(Factor::parse(kind, full).ok_or_else(|| format!("no factorization is called {kind:?}"))?)
        }
        "triangular_solve" => {
            Prim::TriangularSolve { upper: f.flag("upper")?, transpose: f.flag("transpose")?, unit: f.flag("unit")? }
        }
        "fft" => {
            let (kind, norm) = (f.word("kind")?, f.word("norm")?);
            let len = if kind == "from_half" { f.size("len")? as u64 } else { 0 };
            Prim::Fft(Fft {
                kind: FftKind::parse(kind, len).ok_or_else(|| format!("no transform is called {kind:?}"))?,
                axis: f.size("axis")?,
                inverse: f.flag("inverse")?,
                norm: FftNorm::parse(norm).ok_or_else(|| format!("no norm is called {norm:?}"))?,
            })
        }
        "loop" => Prim::Loop(f.program("body")?),
        "if" => Prim::If { then: f.program("then")?, otherwise: f.program("otherwise")? },
        "collective" => {
            let members = u32::try_from(f.size("members")?).map_err(|_| "members is too large")?;
            Prim::Collective { kind: collective_of(f)?, members }
        }
        "custom_call" => Prim::CustomCall { name: f.sentence("name")?.into(), results: types.clone() },
        "check" => Prim::Check(f.sentence("message")?.into()),
        "windows" => Prim::Windows {
            axis: f.size("axis")?,
            size: f.size("size")? as u64,
            stride: f.size("stride")? as u64,
            dilation: f.size("dilation")? as u64,
        },
        "overlap_add" => Prim::OverlapAdd {
            axis: f.size("axis")?,
            len: f.size("len")? as u64,
            stride: f.size("stride")? as u64,
            dilation: f.size("dilation")? as u64,
        },
        "conv_general" => Prim::Conv(Box::new(conv_of(f)?)),
        "barrier" => Prim::Barrier,
        other => return Err(format!("no op is called {other:?}")),
    })
}
