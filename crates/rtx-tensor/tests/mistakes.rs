//! Mistakes panic at the user's own line, with the whole sentence; twins return it.
use rtx_tensor::{self as torch, DType::*, Kind, Tensor, TryTensor, in_scope, tensor};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex},
};

/// File, line and message of the panic of `f`. One test at a time may ask: the hook is the process's.
fn panic_of<T>(f: impl FnOnce() -> T) -> (String, u32, String) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let slot = Arc::new(Mutex::new(None));
    let seen = slot.clone();
    let old = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let at = info.location().expect("a panic has a place");
        *seen.lock().expect("not poisoned") =
            Some((at.file().to_owned(), at.line(), info.payload_as_str().unwrap_or("").to_owned()));
    }));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| drop(f())));
    panic::set_hook(old);
    assert!(outcome.is_err(), "it must panic");
    slot.lock().expect("not poisoned").take().expect("the hook ran")
}

#[track_caller]
fn check<T>(f: impl FnOnce() -> T, line: u32, message: &str) {
    let (file, at, text) = panic_of(f);
    assert!(file.ends_with("tests/mistakes.rs"), "{file}");
    assert_eq!((at, text.as_str()), (line, message));
}

#[test]
fn a_mistake_shows_the_users_line_and_both_shapes() {
    let (a, b) = (torch::zeros([2, 3]), torch::zeros([4, 5]));
    check(|| a.matmul(&b), line!(), "matmul: inner sizes differ: lhs [2, 3], rhs [4, 5]");
    let broadcast = "add: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4";
    check(|| &a + 1.0 + &b, line!(), broadcast);
    check(|| a.add(&b), line!(), broadcast);
    check(|| a.reshape([4, 2]), line!(), "reshape: [2, 3] has 6 elements, [4, 2] cannot hold them");
    check(|| a.i((0, 0, 0)), line!(), "index: 3 indices for a tensor of shape [2, 3]");
    check(|| a.i(2), line!(), "index: 2 is outside dim 0 of [2, 3]");
    check(|| a.dims::<3>(), line!(), "dims: 3 sizes asked for, shape is [2, 3]");
    check(|| a.expand([5, 3]), line!(), "expand: [2, 3] does not broadcast to [5, 3]");
    check(|| torch::from_slice(&[1.0f32], 2), line!(), "from_slice: 1 numbers for shape [2]");
    check(|| tensor!(vec![vec![1.0], vec![]]), line!(), "tensor!: rows have different lengths");
}

#[test]
fn gradients_that_cannot_be() {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let several =
        "backward: needs one element, shape is [2]\n  hint: call .sum(..) or .mean(..) first, or give a gradient";
    check(|| (&x * 2).backward(), line!(), several);
    let nothing = "backward: this tensor does not depend on any that requires grad\n  hint: was it computed inside \
                   no_grad, or from detached tensors?";
    check(|| x.detach().sum(..).backward(), line!(), nothing);
    let leaf = "add_: this tensor is a leaf that requires grad, and is written in place\n  hint: write it inside \
                no_grad(|| …), or write to a clone";
    check(|| x.add_(1), line!(), leaf);
    let y = tensor!([1.0]).requires_grad_();
    check(|| torch::grad(&x.sum(..), [&y]), line!(), "grad: the result does not depend on tensor 0");
    let ints = "requires_grad_: only floats have gradients, this is i64 [1]";
    check(|| tensor!([1]).requires_grad_(), line!(), ints);
}

#[test]
fn a_second_backward_says_who_used_the_records_up() {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let (loss, made) = ((&x * &x).sum(..), line!());
    loss.backward();
    let used = line!() - 1;
    let (_, at, text) = panic_of(|| loss.backward());
    assert_eq!(at, line!() - 1);
    assert!(text.starts_with("backward: the record of reduce_sum was used up by the backward pass at "), "{text}");
    assert!(text.contains(&format!("tests/mistakes.rs:{used}:")), "{text}");
    assert!(text.contains("hint: keep the records for a second pass"), "{text}");
    assert!(text.contains(&format!("recorded at {}:{made}:", file!())), "{text}");
}

#[test]
fn views_that_cannot_be_written() {
    let x = torch::zeros([1, 3]).expand([2, 3]);
    let twice = "add_: this view of shape [2, 3] shows elements more than once\n  hint: write to a clone, or to the \
                 tensor before expand";
    check(|| x.add_(1), line!(), twice);
    let wide = "add_: a result of shape [2, 3] does not go into a tensor of shape [3]";
    let (narrow, ids) = (torch::zeros(3), torch::arange(0..3));
    check(|| narrow.add_(torch::zeros([2, 3])), line!(), wide);
    let real = "add_: a result of f32 does not go into a tensor of i64";
    check(|| ids.add_(0.5), line!(), real);
    check(
        || torch::zeros([2, 3]).t().view(6),
        line!() - 1,
        "view: [3, 2] is not laid out to be seen as [6]\n  hint: reshape() copies where it must",
    );
}

#[test]
fn twins_return_what_the_plain_method_panics_with() {
    let (a, b) = (torch::zeros([2, 3]), torch::zeros([4, 5]));
    let e = a.try_matmul(&b).expect_err("sizes differ");
    assert_eq!((e.kind(), e.to_string().as_str()), (Kind::Shape, "matmul: inner sizes differ: lhs [2, 3], rhs [4, 5]"));
    assert!(a.try_softmax(5).is_err() && a.try_softmax(-1).is_ok());
}

#[test]
fn messages_name_the_part_of_the_model() {
    let a = torch::zeros(2);
    let (_, _, text) = panic_of(|| in_scope("layer 3", || a.reshape(3)));
    assert!(text.ends_with("\n  in: layer 3"), "{text}");
    assert_eq!(torch::current_scope(), None, "a caught panic leaves no scope behind");
}

#[test]
fn reads_say_what_does_not_fit() {
    let x = tensor!([1.0, 2.0]);
    let message = |e: torch::Error| e.to_string();
    assert_eq!(
        x.to_vec::<i64>().map_err(message),
        Err("to_vec: the tensor is f32, asked for i64\n  hint: convert it first: .to(I64)".into())
    );
    assert_eq!(x.item::<f32>().map_err(message), Err("item: needs one element, shape is [2]".into()));
    assert_eq!(x.to(F64).dtype(), F64);
}

#[test]
fn handles_cross_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Tensor>();
    check::<torch::Error>();
    assert_eq!(size_of::<torch::Result<Tensor>>(), 16);
    assert_eq!(format!("{:?}", torch::zeros([2, 3])), "Tensor(f32 [2, 3] cpu)");
}
