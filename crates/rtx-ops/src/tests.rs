//! Laws over the table that need no oracle: names, samples, refusals, bodies against inference.
use crate::{ALL, call, spelling::is_spelling};
use rtx_core::{DType, Location, Result, Scalar, Shape};
use rtx_ir::{Arg, Body, Builder, Graph, Op, OpDef, Outs, Type};

/// The pieces of an argument list: commas outside brackets and quotes separate.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut out) = (0, false, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 && !quoted => {
                out.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(text[from..].trim());
    out.retain(|p| !p.is_empty());
    out
}

/// `f32[2,3]` at the front of a piece.
fn tensor_type(text: &str) -> Option<Type> {
    let (dtype, rest) = text.split_once('[')?;
    let (sizes, _) = rest.split_once(']')?;
    let sizes = pieces(sizes).iter().map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>()?;
    Some(Type::new(DType::parse(dtype.trim())?, Shape::of(&sizes)))
}

fn argument(graph: &mut Graph, text: &'static str) -> Arg {
    if let Some(ty) = tensor_type(text) {
        return Arg::Value(graph.push_input(ty, Location::caller()));
    }
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        if tensor_type(list).is_some() {
            let all = pieces(list).into_iter().map(|p| match argument(graph, p) {
                Arg::Value(v) => v,
                other => panic!("{p}: {other:?} in a list of tensors"),
            });
            return Arg::Values(all.collect());
        }
        return Arg::Ints(pieces(list).iter().map(|n| n.parse().expect("an integer")).collect());
    }
    match text {
        "none" => Arg::None,
        "true" => Arg::Bool(true),
        "false" => Arg::Bool(false),
        _ if text.starts_with('"') => Arg::Str(text.trim_matches('"')),
        _ => DType::parse(text).map(Arg::DType).unwrap_or_else(|| match text.parse::<i64>() {
            Ok(n) => Arg::Scalar(Scalar::Int(n)),
            Err(_) => Arg::Scalar(Scalar::Float(text.parse().unwrap_or_else(|_| panic!("`{text}` is no argument")))),
        }),
    }
}

/// Records a call by its text; positional arguments go on into keyword-only ones.
fn record(graph: &mut Graph, def: &'static OpDef, text: &'static str) -> Result<Outs> {
    let names = rtx_ir::rules::parameter_names(def.sig);
    let args: Vec<Arg> = pieces(text).into_iter().map(|p| argument(graph, p)).collect();
    let kwargs: Vec<(&str, Arg)> = names.iter().copied().zip(args).collect();
    let mut b = Builder::new(graph, Location::caller());
    let bound = crate::bind(def, &[], &kwargs)?;
    b.call(def, bound)
}

#[test]
fn every_name_is_there_once() {
    let mut names: Vec<_> = ALL.iter().map(|d| rtx_ir::text::call_name(d)).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|w| w[0] == w[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for def in ALL {
        assert!(!def.doc.is_empty() && !def.samples.is_empty(), "{} has no doc or no sample", def.name());
        assert!(crate::find(def.name()).is_some_and(|found| found.name() == def.name()));
    }
}

#[test]
fn samples_record_and_bodies_agree_with_inference() {
    for def in ALL {
        for sample in def.samples {
            let mut graph = Graph::new();
            let outs =
                record(&mut graph, def, sample.args).unwrap_or_else(|e| panic!("{}({}): {e}", def.name(), sample.args));
            assert!(!outs.is_empty());
            let composites: Vec<_> =
                graph.nodes().iter().filter(|n| matches!(n.op, Op::Composite(..))).cloned().collect();
            if !is_spelling(def) && !composites.is_empty() {
                assert_eq!(composites.len(), 1, "{} records one node", def.name());
            }
            for node in composites {
                let Op::Composite(inner, attrs) = &node.op else { continue };
                let Body::Composite(body) = inner.body else { panic!("{} has no body", inner.name()) };
                let want: Vec<Type> = node.outs().map(|v| graph.ty(v).clone()).collect();
                let mut b = Builder::new(&mut graph, Location::caller());
                let made = body(&mut b, attrs, &node.inputs).unwrap_or_else(|e| panic!("{}: {e}", inner.name()));
                let got: Vec<Type> = made.iter().map(|&v| b.ty(v).clone()).collect();
                assert!(
                    got.len() <= want.len() && got[..] == want[..got.len()],
                    "{}({}): {got:?}, {want:?}",
                    def.name(),
                    sample.args
                );
            }
        }
    }
}

#[test]
fn refusals_say_what_they_say() {
    for def in ALL {
        for refusal in def.refuses {
            let error = record(&mut Graph::new(), def, refusal.args).expect_err(refusal.message);
            assert_eq!(error.to_string(), refusal.message, "{}({})", def.name(), refusal.args);
        }
    }
}

#[test]
fn the_dynamic_entry_binds_by_signature() {
    let mut graph = Graph::new();
    let x = Arg::Value(graph.push_input(Type::new(DType::F32, [2, 3]), Location::caller()));
    let mut b = Builder::new(&mut graph, Location::caller());
    let y = call(&mut b, "gelu", std::slice::from_ref(&x), &[("approximate", Arg::Str("tanh"))]).expect("binds")[0];
    assert_eq!(b.ty(y).to_string(), "f32 [2, 3]");
    let y = call(&mut b, "sum", std::slice::from_ref(&x), &[("keepdim", Arg::Bool(true))]).expect("binds")[0];
    assert_eq!(b.ty(y).to_string(), "f32 [1, 1]");
    let mut message =
        |name, args: &[Arg], kwargs: &[(&str, Arg)]| call(&mut b, name, args, kwargs).expect_err(name).to_string();
    assert_eq!(
        message("gelu", &[x.clone(), Arg::Str("tanh")], &[]),
        "gelu: takes at most 1 positional arguments, got 2"
    );
    assert_eq!(message("gelu", &[], &[]), "gelu: argument `self` is missing");
    assert_eq!(message("gelu", std::slice::from_ref(&x), &[("dim", Arg::None)]), "gelu: no argument `dim`");
    assert_eq!(message("softermax", &[], &[]), "softermax: no such op");
}

/// PyTorch's lists (docs, torch.amp, "Ops that can autocast"): what is not built here is left out.
#[test]
fn autocast_families_are_pytorchs() {
    let low = "matmul linear addmm addbmm baddbmm bmm mm mv prelu scaled_dot_product_attention";
    let full = "exp expm1 log log1p log10 log2 pow rsqrt reciprocal acos asin cosh sinh tan erfinv sum prod cumsum \
        cumprod softplus softmin logsumexp softmax log_softmax layer_norm group_norm cross_entropy nll_loss mse_loss \
        l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits";
    let check = |names: &str, want: rtx_ir::Amp| {
        let found: Vec<_> = names.split_whitespace().filter_map(crate::find).collect();
        assert!(found.len() > 3, "{names}");
        found.iter().filter(|d| d.amp != want).map(|d| d.name()).collect::<Vec<_>>()
    };
    assert_eq!(check(low, rtx_ir::Amp::Low), [""; 0]);
    assert_eq!(check(full, rtx_ir::Amp::Full), [""; 0]);
}
