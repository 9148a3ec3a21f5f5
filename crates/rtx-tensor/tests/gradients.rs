//! Gradients: the tape, accumulation, second order, hooks, rules of one's own, and long chains.
use rtx_tensor::{
    self as torch, Backward, Grad, Tensor,
    autograd::{Function, Saved},
    functional as F, grad, no_grad, tensor,
};
use std::sync::{Arc, Mutex};

#[track_caller]
fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("it runs")
}
#[track_caller]
fn grad_of(t: &Tensor) -> Vec<f32> {
    floats(&t.grad().expect("it has a gradient"))
}

#[test]
fn backward_leaves_gradients_and_adds_them_up() {
    let x = tensor!([1.0, 2.0, 3.0]).requires_grad_();
    let w = tensor!([[1.0], [2.0], [3.0]]).requires_grad_();
    (x.matmul(&w) * &x).sum(..).backward();
    // y = (x·w) Σ x: dy/dx_i = w_i Σ x + x·w, dy/dw_i = x_i Σ x.
    assert_eq!(grad_of(&x), [20.0, 26.0, 32.0]);
    assert_eq!(grad_of(&w), [6.0, 12.0, 18.0]);
    let kept = x.grad().expect("it has one");
    (&x * 2).sum(..).backward();
    assert_eq!(grad_of(&x), [22.0, 28.0, 34.0]);
    assert_eq!(floats(&kept), [22.0, 28.0, 34.0], "the gradient's tensor stays the same one");
    x.set_grad(None);
    assert!(x.grad().is_none());
    assert!(x.is_leaf() && !(&x * 2).is_leaf() && (&x * 2).grad().is_none());
}

#[test]
fn broadcast_operands_get_sums() {
    let b = tensor!([1.0, 2.0]).requires_grad_();
    let s = tensor!(2.0).requires_grad_();
    ((torch::ones([3, 2]) + &b) * &s).sum(..).backward();
    assert_eq!(grad_of(&b), [6.0, 6.0]);
    assert_eq!(grad_of(&s), [15.0]);
}

#[test]
fn detach_and_no_grad_cut_the_way() {
    let x = tensor!([2.0]).requires_grad_();
    // Both operands are one value; only one has a gradient.
    (&x * x.detach()).sum(..).backward();
    assert_eq!(grad_of(&x), [2.0]);
    assert!(!no_grad(|| &x * 2).requires_grad());
    assert!(!no_grad(|| x.i(0)).requires_grad() && x.i(0).requires_grad());
    assert!(!no_grad(|| x.clone()).requires_grad());
}

#[test]
fn gradients_reach_through_clones_and_views() {
    let x = torch::arange(0..6).to(torch::DType::F32).reshape([2, 3]).requires_grad_();
    (x.clone() * 3).sum(..).backward();
    assert_eq!(grad_of(&x), [3.0; 6]);
    x.set_grad(None);
    (x.t().i((1.., 0)) * tensor!([5.0, 7.0])).sum(..).backward();
    assert_eq!(grad_of(&x), [0.0, 5.0, 7.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_clone_is_a_place_of_its_own_on_the_way() {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let y = x.clone();
    let [gy, gx] = grad(&(&y * 2 + &x * 3).sum(..), [&y, &x]);
    assert_eq!((floats(&gy), floats(&gx)), (vec![2.0; 2], vec![5.0; 2]));
    assert!(x.is_leaf() && !y.is_leaf());
}

#[test]
fn a_view_of_a_leaf_is_no_leaf() {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let v = x.i(0);
    v.retain_grad();
    (&v * 3 + x.sum(..)).backward();
    assert!(v.requires_grad() && !v.is_leaf());
    assert_eq!((grad_of(&v), grad_of(&x)), (vec![3.0], vec![4.0, 1.0]));
    // Written through a view by its own detached self: both are one value, one of them has a gradient.
    let y = &x * 2;
    y.i(..).mul_(y.detach());
    x.set_grad(None);
    y.sum(..).backward();
    assert_eq!(grad_of(&x), [4.0, 8.0]);
}

#[test]
fn gradients_pass_through_writes() {
    let x = tensor!([1.0, 2.0, 3.0]).requires_grad_();
    let y = &x * 2;
    y.i(0).mul_(x.i(1));
    y.i(2).fill_(0);
    // y = [2 x0 x1, 2 x1, 0]
    y.sum(..).backward();
    assert_eq!(floats(&y), [4.0, 4.0, 0.0]);
    assert_eq!(grad_of(&x), [4.0, 4.0, 0.0]);
}

#[test]
fn an_overwritten_operand_does_not_corrupt_a_gradient() {
    let x = tensor!([3.0]).requires_grad_();
    let a = tensor!([5.0]);
    let y = &x * &a;
    a.zero_();
    y.sum(..).backward();
    assert_eq!(grad_of(&x), [5.0], "saved are values, not cells");
    no_grad(|| x.zero_());
    assert!(x.is_leaf() && x.requires_grad());
}

#[test]
fn gradients_of_gradients() {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let [g] = Grad::of(&x.pow(3).sum(..)).create_graph().wrt([&x]);
    assert_eq!(floats(&g), [3.0, 12.0]);
    let [h] = Grad::of(&g.sum(..)).create_graph().wrt([&x]);
    assert_eq!(floats(&h), [6.0, 12.0]);
    let [t] = grad(&h.sum(..), [&x]);
    assert_eq!(floats(&t), [6.0, 6.0]);
    assert!(x.grad().is_none());
    // Through a composite: the gradient of softmax is differentiated again.
    let s = (x.softmax(-1) * tensor!([1.0, 3.0])).sum(..);
    let [g] = Grad::of(&s).create_graph().wrt([&x]);
    g.pow(2).sum(..).backward();
    let eps = 1e-3;
    let squared = |d: [f64; 2]| {
        let (a, b) = ((1.0 + d[0]).exp(), (2.0 + d[1]).exp());
        let p = a / (a + b);
        2.0 * (2.0 * p * (1.0 - p)).powi(2)
    };
    let want = (squared([eps, 0.0]) - squared([-eps, 0.0])) / (2.0 * eps);
    let got = grad_of(&x)[0] as f64;
    assert!((got - want).abs() < 1e-4, "{got} against {want}");
}

#[test]
fn a_retained_graph_is_walked_again() {
    let x = tensor!([2.0]).requires_grad_();
    let y = x.pow(2).sum(..);
    y.backward_with(Backward { retain_graph: true, ..Default::default() });
    y.backward();
    assert_eq!(grad_of(&x), [8.0]);
    let z = &x * 3;
    z.backward_with(Backward { gradient: Some(&tensor!([10.0])), ..Default::default() });
    assert_eq!(grad_of(&x), [38.0]);
}

#[test]
fn grad_of_something_inside() {
    let x = tensor!([3.0]).requires_grad_();
    let y = x.pow(2);
    let [gy, gx] = grad(&(&y * 5).sum(..), [&y, &x]);
    assert_eq!((floats(&gy), floats(&gx)), (vec![5.0], vec![30.0]));
    let y = x.pow(2);
    y.retain_grad();
    (&y * 5).sum(..).backward();
    assert_eq!((grad_of(&y), grad_of(&x)), (vec![5.0], vec![30.0]));
}

#[test]
fn hooks_see_and_replace_gradients() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let y = &x * 2;
    let log = seen.clone();
    y.register_hook(move |g| {
        // A hook may read: that flushes, and recording goes on.
        log.lock().expect("not poisoned").extend(g.to_vec::<f32>().expect("it runs"));
        Some(g * 10)
    });
    (&y * &y).sum(..).backward();
    assert_eq!(*seen.lock().expect("not poisoned"), [4.0, 8.0]);
    assert_eq!(grad_of(&x), [80.0, 160.0]);
    x.set_grad(None);
    x.register_hook(|g| Some(-g));
    (&x * 3).sum(..).backward();
    assert_eq!(grad_of(&x), [-3.0, -3.0]);
}

#[test]
fn a_panic_in_a_hook_leaves_state_as_before() {
    let x = tensor!([1.0]).requires_grad_();
    let y = &x * 2;
    y.register_hook(|g| if g.numel() == 1 { panic!("of the user") } else { None });
    let loss = (&y * &x).sum(..);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loss.backward())).is_err());
    assert!(x.grad().is_none(), "nothing was committed");
    assert!(torch::autograd::is_grad_enabled(), "the tape is as it was");
}

/// Straight-through rounding.
struct RoundSte;
impl Function<1> for RoundSte {
    fn forward(&self, _: &mut Saved, [x]: [&Tensor; 1]) -> Tensor {
        x.round()
    }
    fn backward(&self, _: &Saved, g: &Tensor) -> [Option<Tensor>; 1] {
        [Some(g.clone())]
    }
}
/// x y, with its gradient by hand.
struct Product;
impl Function<2> for Product {
    fn forward(&self, saved: &mut Saved, [x, y]: [&Tensor; 2]) -> Tensor {
        saved.save(x);
        saved.save(y);
        x * y
    }
    fn backward(&self, saved: &Saved, g: &Tensor) -> [Option<Tensor>; 2] {
        [Some(g * saved.get(1)), Some(g * saved.get(0))]
    }
}

#[test]
fn rules_of_ones_own() {
    let x = tensor!([1.4, 2.6]).requires_grad_();
    (RoundSte.apply([&x]) * 3).sum(..).backward();
    assert_eq!(grad_of(&x), [3.0, 3.0]);
    x.set_grad(None);
    let [g] = Grad::of(&Product.apply([&x, &x]).sum(..)).create_graph().wrt([&x]);
    let two: Vec<f32> = floats(&x).iter().map(|v| 2.0 * v).collect();
    assert_eq!(floats(&g), two);
    g.sum(..).backward();
    assert_eq!(grad_of(&x), [2.0, 2.0]);
}

#[test]
fn a_layer_with_loss_has_the_gradients_of_finite_differences() {
    let x = torch::fork(&[5], || torch::randn([4, 3]));
    let w = torch::fork(&[6], || torch::randn([5, 3])).requires_grad_();
    let ids = tensor!([0, 4, 2, 2]);
    let loss = |w: &Tensor| F::cross_entropy(&F::gelu(&F::linear(&x, w, None)), &ids);
    loss(&w).backward();
    let got = grad_of(&w);
    for at in [0, 7, 14] {
        let moved = |d: f32| {
            let mut v = floats(&w.detach());
            v[at] += d;
            loss(&torch::from_slice(&v, [5, 3])).item::<f32>().expect("it runs")
        };
        let want = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        assert!((got[at] - want).abs() < 2e-3, "{at}: {} against {want}", got[at]);
    }
}

#[test]
fn a_long_chain_is_walked_and_dropped_by_loops() {
    let x = tensor!([1.0]).requires_grad_();
    let mut y = &x * 1.0;
    for _ in 0..100_000 {
        y = &y + 1.0;
    }
    y.sum(..).backward();
    assert_eq!(grad_of(&x), [1.0]);
}
