//! Programs over two devices. The second is the processor again, as an executor of its own: whatever is on it is on
//! another device.
use rtx_compiler::Compiler;
use rustytorch::{self as torch, Device, prelude::*};
use std::sync::Arc;

fn another() -> Device {
    let driver = rtx_device::cpu().device().clone();
    rtx_runtime::Executor::new(driver, Arc::new(Compiler::new(rtx_kernel_cpu::claims()))).into()
}

#[test]
fn gradients_go_the_way_back() -> Result<()> {
    let (here, there) = (Device::cpu(), another());
    let x = tensor!([1., 2., 3.]).requires_grad_();
    let w = tensor!([4., 5., 6.]).to(&there).requires_grad_();
    let moved = (&x * &x).to(&there);
    assert_eq!(moved.device(), there);
    (moved * &w).to(&here).sum(..).backward();
    let (of_x, of_w) = (x.grad().expect("of x"), w.grad().expect("of w"));
    assert_eq!((of_x.device(), of_w.device()), (here, there));
    assert_eq!(of_x.to_vec::<f32>()?, [8., 20., 36.]);
    assert_eq!(of_w.to_vec::<f32>()?, [1., 4., 9.]);
    Ok(())
}

#[test]
fn a_move_can_be_differentiated_twice() -> Result<()> {
    let there = another();
    let x = tensor!(3.).requires_grad_();
    let y = x.to(&there).pow(3);
    let [first] = torch::Grad::of(&y).create_graph().wrt([&x]);
    let [second] = torch::grad(&first, [&x]);
    assert_eq!((first.item::<f32>()?, second.item::<f32>()?), (27., 18.));
    Ok(())
}

#[test]
fn nothing_is_kept_where_nothing_is_asked_for() -> Result<()> {
    let there = another();
    let x = tensor!([1., 2.]).requires_grad_();
    assert!(!torch::no_grad(|| x.to(&there)).requires_grad());
    assert!(!x.detach().to((&there, F64)).requires_grad());
    let half = x.to((&there, F64));
    assert!(half.requires_grad());
    half.sum(..).backward();
    assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [1., 1.]);
    Ok(())
}

#[test]
fn devices_do_not_mix() {
    let x = torch::ones(2);
    let y = torch::ones(2).to(another());
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| &x + &y)).expect_err("refused");
    let said = said.downcast_ref::<String>().map_or("", String::as_str);
    assert!(said.contains("tensors are on cpu and on cpu"), "{said}");
}
