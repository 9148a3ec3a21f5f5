//! What a module promises: names, roles, loading, the line and the layer of a mistake.
use rtx_core::DType;
use rtx_nn::*;
use rtx_tensor::{self as torch, Tensor};
use std::panic::{self, AssertUnwindSafe};

// The derive speaks of `::rustytorch::nn`, which is this crate here.
extern crate rtx_nn as rustytorch;

#[derive(Module)]
struct Model {
    #[module(name = "LayerNorm")]
    norm: LayerNorm,
    tok: Embedding,
    r#type: Option<Linear>,
    absent: Option<Linear>,
    h: Vec<Linear>,
    #[module(flatten)]
    mlp: Pair,
    norm2: Norm,
    running: Buffer,
    drop: Dropout,
    width: usize,
    #[module(skip)]
    _activation: fn(f64) -> f64,
}
#[derive(Module)]
struct Pair(Linear, ReLU, Linear);
#[derive(Module)]
enum Norm {
    #[allow(dead_code, reason = "an enum is the variant it holds")]
    None,
    Layer(LayerNorm),
}
#[derive(Module)]
struct Residual<M: Module>(M);

fn linear() -> Linear {
    Linear::new(2, 2).no_bias()
}
fn model() -> Model {
    Model {
        norm: LayerNorm::new(2),
        tok: Embedding::new(4, 2),
        r#type: Some(linear()),
        absent: None,
        h: vec![linear(), linear()],
        mlp: Pair(linear(), ReLU, linear()),
        norm2: Norm::Layer(LayerNorm::new(2).no_bias()),
        running: Buffer::new(torch::zeros(3)),
        drop: Dropout::new(0.5),
        width: 2,
        _activation: f64::exp,
    }
}
fn names(m: &dyn Module) -> Vec<String> {
    m.named_parameters().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn names_are_pytorchs() {
    let m = model();
    let want = [
        "LayerNorm.weight",
        "LayerNorm.bias",
        "tok.weight",
        "type.weight",
        "h.0.weight",
        "h.1.weight",
        "0.weight",
        "2.weight",
        "norm2.weight",
    ];
    assert_eq!(names(&m), want);
    assert_eq!(names(&Residual(linear())), ["0.weight"]);
    assert_eq!(m.named_buffers()[0].0, "running");
    assert_eq!(m.num_parameters(), 2 + 2 + 8 + 5 * 4 + 2 + m.width - 2);
    assert!(m.state_dict().contains_key("running") && m.absent.is_none());
    let deep = seq![seq![Linear::new(2, 3), ReLU], Linear::new(3, 1)];
    assert_eq!(names(&deep), ["0.0.weight", "0.0.bias", "1.weight", "1.bias"]);
}

#[test]
fn tied_weights_come_once_and_copies_are_their_own() {
    let m = model();
    let tied = Pair(
        Linear { weight: m.tok.weight.tie(), bias: None },
        ReLU,
        Linear { weight: m.tok.weight.tie(), bias: None },
    );
    assert_eq!(names(&tied), ["0.weight"]);
    assert_eq!(tied.state_dict().len(), 2);
    assert!(tied.0.weight.is_alias_of(&m.tok.weight));
    assert!(!m.tok.weight.clone().is_alias_of(&m.tok.weight));
}

#[test]
fn loading_lists_every_difference_and_changes_nothing() {
    let (ours, theirs) = (seq![Linear::new(2, 3)], seq![Linear::new(4, 3).no_bias(), Linear::new(3, 1).no_bias()]);
    let e = ours.load_state_dict(&theirs.state_dict()).expect_err("differs");
    assert_eq!(
        e.message(),
        "load_state_dict: file and model differ\n  missing     0.bias [3]\n  wrong shape 0.weight: model [3, 2], file [3, 4]\
         \n  unexpected  1.weight"
    );
    let same = seq![Linear::new(2, 3)];
    let handle = same.parameters()[0].tie();
    same.load_state_dict(&ours.state_dict()).expect("fits");
    assert!(handle.is_alias_of(&same.parameters()[0]), "the cells stay");
}

#[test]
fn mode_is_shared_and_freezing_keeps_what_is_saved() {
    let m = model();
    let seen = |m: &Model| {
        let mut training = Vec::new();
        m.for_each(&mut |_, leaf| {
            if let Leaf::Mode(mode) = leaf {
                training.push(mode.is_training());
            }
        });
        training
    };
    assert_eq!(seen(&m), [true]);
    m.eval();
    assert_eq!(seen(&m), [false]);
    let x = torch::ones(4);
    assert!(m.drop.forward(&x).is_alias_of(&x), "nothing happens in evaluation");
    let saved = m.state_dict().len();
    m.freeze();
    assert!(m.parameters().iter().all(|p| !p.requires_grad()));
    assert_eq!(m.state_dict().len(), saved);
    m.unfreeze();
    assert!(m.parameters().iter().all(|p| p.requires_grad()));
}

#[test]
fn converting_keeps_the_cells() {
    let net = Linear::new(2, 3);
    let handle = net.weight.tie();
    let net = net.to(DType::F64);
    assert_eq!((net.weight.dtype(), handle.dtype()), (DType::F64, DType::F64));
    assert!(net.weight.requires_grad());
}

struct Mine {
    inner: Linear,
}
impl Module for Mine {
    fn visit(&self, v: &mut Visitor<'_>) {
        Field::visit_field(&self.inner, "inner", v);
    }
}
impl Layer for Mine {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.inner.forward(x) // the line of Mine
    }
}

/// One test, because the panic hook is the process's.
#[test]
fn a_mistake_shows_the_users_line_and_the_layer() {
    let x = torch::zeros([4, 3]);
    let (line, message) = caught(|| drop(Linear::new(784, 256).forward(&x))); // the line of the call
    assert_eq!(line, line_of("// the line of the call"));
    assert_eq!(message, "linear: input has 3 features, the layer takes 784: x [4, 3], weight [256, 784]");
    let net = seq![Linear::new(3, 784), Mine { inner: Linear::new(3, 3) }];
    let (line, message) = caught(|| drop(net.forward(&x)));
    assert_eq!(line, line_of("// the line of Mine"));
    assert!(message.ends_with("\n  in: layer 1"), "{message}");
    assert!(torch::current_scope().is_none(), "a caught panic leaves no scope behind");
}

fn line_of(tag: &str) -> u32 {
    let found = include_str!("modules.rs").lines().position(|l| l.contains(tag) && !l.contains("line_of"));
    found.expect("the tag is in this file") as u32 + 1
}
fn caught(f: impl FnOnce()) -> (u32, String) {
    let seen = std::sync::Arc::new(std::sync::Mutex::new((0, String::new())));
    let slot = seen.clone();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload_as_str().unwrap_or_default().to_owned();
        *slot.lock().expect("free") = (info.location().map_or(0, |l| l.line()), message);
    }));
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    let _ = panic::take_hook();
    assert!(done.is_err(), "it panics");
    seen.lock().expect("free").clone()
}

#[test]
fn models_and_errors_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Sequential>();
    check::<Model>();
}
