//! Transformations: against each other, nested, beside `backward()`, and what they refuse.
use rtx_tensor::{
    self as torch, DType, Result, Tensor,
    autograd::{Function, Saved},
    func::*,
    grad, no_grad, tensor,
};

fn v(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec().expect("a value")
}
#[track_caller]
fn near(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    for (x, y) in v(a).iter().zip(v(b)) {
        assert!((x - y).abs() <= 1e-5 * (1.0 + x.abs()), "{:?}\n{:?}", v(a), v(b));
    }
}
fn message(f: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).expect_err("panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}
/// A function whose derivatives of every order differ.
fn wave(x: &Tensor) -> Tensor {
    (x.sin() * x.exp()).sum(..)
}
fn vector(x: &Tensor) -> Tensor {
    torch::cat(&[&(x * x), &x.sin().cumulative(), &(x.prod(..)).reshape([1])], 0)
}
trait Cumulative {
    fn cumulative(&self) -> Tensor;
}
impl Cumulative for Tensor {
    /// `x @ lower`, so that the Jacobian is not diagonal.
    fn cumulative(&self) -> Tensor {
        let n = self.size(0);
        self.matmul(torch::ones([n, n]).tril())
    }
}

#[test]
fn gradients_nest() -> Result<()> {
    let x = tensor!([0.3, -0.7, 1.1]);
    let g = torch::func::grad(wave)(&x);
    near(&g, &(x.exp() * (x.sin() + x.cos())));
    let gg = torch::func::grad(|x| torch::func::grad(wave)(x).sum(..))(&x);
    near(&gg, &(2.0 * x.exp() * x.cos()));
    let ggg = torch::func::grad(|x| torch::func::grad(|x| torch::func::grad(wave)(x).sum(..))(x).sum(..))(&x);
    near(&ggg, &(2.0 * x.exp() * (x.cos() - x.sin())));
    assert!(!g.requires_grad() && !gg.requires_grad() && !ggg.requires_grad());
    let (g2, y) = grad_and_value(wave)(&x);
    near(&g2, &g);
    near(&y, &wave(&x));
    assert!(!y.requires_grad());
    Ok(())
}

#[test]
fn gradients_of_many_arguments() {
    let (x, w) = (tensor!([1., 2.]), tensor!([3., 4.]));
    let [gx, gw] = grad_n(|[x, w]| (x * w * w).sum(..))([&x, &w]);
    near(&gx, &(&w * &w));
    near(&gw, &(2.0 * &x * &w));
    // An argument that is not used has a gradient of zeros.
    let [gx, gw] = grad_n(|[x, _]| x.sum(..))([&x, &w]);
    near(&gx, &torch::ones([2]));
    near(&gw, &torch::zeros([2]));
}

#[test]
fn what_is_outside_is_differentiated_by_backward() {
    let x = tensor!([0.3, -0.7]).requires_grad_();
    let w = tensor!([2., 3.]).requires_grad_();
    let g = torch::func::grad(|x| (x.pow(3) * &w).sum(..))(&x);
    assert!(g.requires_grad());
    g.sum(..).backward();
    near(&x.grad().expect("a gradient"), &(6.0 * x.detach() * w.detach()));
    near(&w.grad().expect("a gradient"), &(3.0 * x.detach() * x.detach()));
    // Only what is captured requires grad.
    let y = tensor!([0.3, -0.7]);
    let g = torch::func::grad(|y| (y.pow(3) * &w).sum(..))(&y);
    assert!(g.requires_grad());
    no_grad(|| assert!(!torch::func::grad(|y| (y.pow(3) * &w).sum(..))(&x).requires_grad()));
}

#[test]
fn forward_and_reverse_mode_agree() {
    let x = tensor!([0.3, -0.7, 1.1]);
    let rows = jacrev(vector)(&x);
    let columns = jacfwd(vector)(&x);
    assert_eq!(rows.shape(), [7, 3]);
    near(&rows, &columns);
    let t = tensor!([1., -2., 0.5]);
    let (y, slope) = jvp(vector, &x, &t);
    near(&y, &vector(&x));
    near(&slope, &rows.matmul(&t));
    let u = torch::arange(0..7).to(DType::F32);
    let (y, pull) = vjp(vector, &x);
    near(&y, &vector(&x));
    near(&pull(&u), &u.matmul(&rows));
    near(&pull(&(2.0 * &u)), &(2.0 * u.matmul(&rows)));
}

#[test]
fn the_hessian_is_symmetric_and_the_second_order_of_backward() {
    let x = tensor!([0.3, -0.7, 1.1]);
    let f = |x: &Tensor| (x.prod(..) + (x * x * x).sum(..)) * x.sin().sum(..);
    let h = hessian(f)(&x);
    near(&h, &h.transpose(0, 1));
    near(&h, &jacrev(jacfwd(f))(&x));
    near(&h, &jacrev(jacrev(f))(&x));
    let leaf = x.clone().requires_grad_();
    let [g] = torch::Grad::of(&f(&leaf)).create_graph().wrt([&leaf]);
    for i in 0..3 {
        let [row] = torch::Grad::of(&g.select(0, i)).retain_graph().wrt([&leaf]);
        near(&row, &h.select(0, i));
    }
}

#[test]
fn batching_is_stacking() {
    let x = torch::randn([4, 3]);
    let w = torch::randn([3, 5]);
    let f = |x: &Tensor| x.matmul(&w).softmax(-1).log().sum(-1) + x.amax(0);
    let together = vmap(f)(&x);
    let single: Vec<Tensor> = (0..4).map(|i| f(&x.select(0, i))).collect();
    near(&together, &torch::stack(&single.iter().collect::<Vec<_>>(), 0));
    // Nested, over other dims, in chunks.
    let y = torch::randn([6, 4]);
    let table = vmap(|a| vmap(|b| (a * b).sum(..))(&y.select(0, 0).reshape([4, 1])))(&x.select(1, 0).reshape([4, 1]));
    near(&table, &x.select(1, 0).reshape([4, 1]).matmul(y.select(0, 0).reshape([1, 4])));
    let options = Vmap { in_dims: [Some(1), None], out_dims: [Some(-1)], chunk_size: Some(2), ..Vmap::default() };
    let [z] = vmap_with(options, |[a, b]| [a * b])([&y, &torch::arange(0..6).to(DType::F32)]);
    near(&z, &(y.clone() * torch::arange(0..6).to(DType::F32).reshape([6, 1])));
}

#[test]
fn gradients_for_each_example() {
    let x = torch::randn([4, 3]);
    let w = torch::randn([3]).requires_grad_();
    let loss = |x: &Tensor| (x * &w).sum(..).tanh();
    let each = vmap(torch::func::grad(loss))(&x);
    for i in 0..4 {
        near(&each.select(0, i), &torch::func::grad(loss)(&x.select(0, i)));
    }
    // Differentiated from outside, by backward().
    each.sum(..).backward();
    let batched = w.grad().expect("a gradient");
    w.set_grad(None);
    (0..4).map(|i| torch::func::grad(loss)(&x.select(0, i)).sum(..)).reduce(|a, b| a + b).expect("four").backward();
    near(&batched, &w.grad().expect("a gradient"));
    // With respect to what is captured, inside.
    let per_example = vmap(|x| {
        let [g] = grad(&loss(x), [&w]);
        g
    })(&x);
    for i in 0..4 {
        let [g] = grad(&loss(&x.select(0, i)), [&w]);
        near(&per_example.select(0, i), &g);
    }
}

#[test]
fn detached_values_stay_detached() {
    let x = torch::randn([4, 3]).requires_grad_();
    let f = |x: &Tensor| x * x.detach() + no_grad(|| x * 2.0);
    vmap(f)(&x).sum(..).backward();
    near(&x.grad().expect("a gradient"), &x.detach());
}

#[test]
fn indices_starts_and_writes_are_batched() {
    let x = torch::randn([3, 5, 2]);
    let at = tensor!([[0, 4, 2], [1, 1, 0], [3, 2, 4]]);
    let f = |[x, at]: [&Tensor; 2]| {
        let picked = x.index_select(0, at);
        let y = picked.clone();
        y.i(0).add_(10);
        y * at.to(DType::F32).reshape([3, 1])
    };
    let together = vmap_n(f)([&x, &at]);
    for i in 0..3 {
        near(&together.select(0, i), &f([&x.select(0, i), &at.select(0, i)]));
    }
    // An index outside the dim is found, not read from the neighbour.
    let wrong = tensor!([[0, 4, 2], [1, 5, 0], [3, 2, 4]]);
    assert!(vmap_n(f)([&x, &wrong]).to_vec::<f32>().is_err());
}

#[test]
fn random_ops_are_refused_shared_or_different() {
    let x = torch::zeros([4, 3]);
    let noisy = |[x]: [&Tensor; 1]| [x + torch::rand([3])];
    let said = message(|| drop(vmap_with(Vmap::default(), noisy)([&x])));
    assert!(said.starts_with("vmap: a random op, and the randomness is `Error`"), "{said}");
    let rows = |randomness| {
        let [y] = vmap_with(Vmap { randomness, ..Vmap::default() }, noisy)([&x]);
        (0..4).map(|i| v(&y.select(0, i))).collect::<Vec<_>>()
    };
    let same = rows(Randomness::Same);
    assert!(same.iter().all(|r| *r == same[0]));
    let different = rows(Randomness::Different);
    assert!((0..4).all(|i| (0..i).all(|j| different[i] != different[j])));
}

/// Its gradient says twice what it is.
struct Twice;
impl Function<1> for Twice {
    fn forward(&self, _: &mut Saved, [x]: [&Tensor; 1]) -> Tensor {
        x * 1.0
    }
    fn backward(&self, _: &Saved, g: &Tensor) -> [Option<Tensor>; 1] {
        [Some(2.0 * g)]
    }
}

#[test]
fn rules_of_ones_own_count() {
    let f = |x: &Tensor| Twice.apply([x]).sum(..);
    let x = torch::randn([4, 3]);
    near(&torch::func::grad(f)(&x), &torch::full([4, 3], 2.0));
    near(&vmap(torch::func::grad(f))(&x), &torch::full([4, 3], 2.0));
    let leaf = x.clone().requires_grad_();
    assert!(message(|| drop(vmap(f)(&leaf))).contains("Twice has a gradient of its own"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let x = torch::ones([2, 3]);
    assert_eq!(
        message(|| drop(torch::func::grad(|x| x * 2)(&x))),
        "grad: the function returns one number, got shape [2, 3]"
    );
    assert_eq!(
        message(|| drop(torch::func::grad(|x| x.sum(..))(&tensor!([1, 2])))),
        "grad: only floats have gradients, argument 0 is i64 [2]"
    );
    assert_eq!(
        message(|| drop(vmap(|x| x.clone())(&tensor!(1.0)))),
        "vmap: argument 0 has rank 0, and so no dim 0 with examples"
    );
    assert_eq!(
        message(|| drop(vmap_n(|[a, b]| a + b)([&x, &torch::ones([3, 3])]))),
        "vmap: the arguments have different numbers of examples: [2, 3]"
    );
    let read = std::cell::RefCell::new(None);
    vmap(|x| {
        *read.borrow_mut() = Some(x.sum(..).item::<f32>());
        x.clone()
    })(&x);
    assert!(read.into_inner().expect("called").expect_err("not there").to_string().starts_with("read: inside vmap"));
    // A value that leaves by a side door has no value.
    let kept = std::cell::RefCell::new(None);
    vmap(|x| {
        *kept.borrow_mut() = Some(x * 2);
        x.clone()
    })(&x);
    let kept = kept.into_inner().expect("called");
    assert!((&kept + 1).to_vec::<f32>().is_err() && kept.to_vec::<f32>().is_err());
    // What differs is not written to what is one.
    let sum = torch::zeros([3]);
    let said = message(|| drop(vmap(|x| sum.add_(x).clone())(&x)));
    assert!(said.starts_with("vmap: writes to a tensor from outside"), "{said}");
    assert_eq!(v(&sum), [0.0; 3]);
    let count = tensor!(0.0);
    vmap(|x| {
        count.add_(1);
        x.clone()
    })(&x);
    assert_eq!(v(&count), [1.0]);
    let leaf = x.clone().requires_grad_();
    assert!(
        message(|| drop(vmap(|x| {
            (x * &leaf).sum(..).backward();
            x.clone()
        })(&x)))
        .starts_with("backward: not inside vmap")
    );
    // After a panic inside, things are as before.
    assert_eq!(v(&(&leaf * 2)), [2.0; 6]);
}

#[test]
fn gradients_are_checked() -> Result<()> {
    let x = torch::rand([2, 3]).to(DType::F64);
    let w = torch::rand([3, 2]).to(DType::F64);
    gradcheck(|[x, w]| [x.matmul(w).tanh(), x.exp()], [&x, &w], GradCheck::default())?;
    gradgradcheck(|[x, w]| x.matmul(w).tanh(), [&x, &w], GradCheck::default())?;
    let wrong = gradcheck(|[x]| [Twice.apply([x])], [&x], GradCheck::default()).expect_err("twice too much");
    assert!(
        wrong.to_string().starts_with("gradcheck: result 0 [0] in argument 0 [0]: the gradient is 2, differences say")
    );
    let single = gradcheck(|[x]| [x.clone()], [&x.to(DType::F32)], GradCheck::default()).expect_err("f32");
    assert_eq!(single.to_string(), "gradcheck: argument 0 is f32, differences need f64");
    Ok(())
}
