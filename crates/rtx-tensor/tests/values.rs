//! Values: ops, views and writes, cells and clones, creation, reading, printing.
#![allow(clippy::reversed_empty_ranges, reason = "arange counts down, too")]
use rtx_tensor::{
    self as torch, DType::*, Ellipsis, NewAxis, Result, Tensor, functional as F, keep, no_grad, step, tensor,
};

#[track_caller]
fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("it runs")
}
#[track_caller]
fn ints(t: &Tensor) -> Vec<i64> {
    t.to_vec().expect("it runs")
}

#[test]
fn operators_take_every_mixture() {
    let x = tensor!([1.0, 2.0, 3.0]);
    let y = tensor!([10.0, 20.0, 30.0]);
    assert_eq!(floats(&(&x + &y)), [11.0, 22.0, 33.0]);
    assert_eq!(floats(&(x.clone() * 2 + 1.0)), [3.0, 5.0, 7.0]);
    assert_eq!(floats(&(2.0 * &x - y.clone() / 10)), [1.0, 2.0, 3.0]);
    assert_eq!(floats(&(1 - &x)), [0.0, -1.0, -2.0]);
    assert_eq!(floats(&-(x.clone() - 0.5f32 + 1usize)), [-1.5, -2.5, -3.5]);
    assert_eq!((2.0 * &x).sum(..).shape(), [0; 0]);
    assert_eq!(ints(&(torch::arange(0..5) % 3)), [0, 1, 2, 0, 1]);
    let (n, m) = (3.0_f64, 0.5_f32);
    assert_eq!(floats(&(&x * n + &x * m)), [3.5, 7.0, 10.5]);
    let mut z = x.clone();
    z += &y;
    z -= 1;
    assert_eq!((floats(&z), floats(&x)), (vec![10.0, 21.0, 32.0], vec![1.0, 2.0, 3.0]));
}

#[test]
fn numbers_keep_the_tensors_dtype() {
    assert_eq!((tensor!([1, 2]) * 2).dtype(), I64);
    assert_eq!((tensor!([1, 2]) * 2.5).dtype(), F32);
    assert_eq!((tensor!([1., 2.]; F64) * 2.5).dtype(), F64);
    assert_eq!((tensor!([1, 2]) / 2).dtype(), F32);
    assert_eq!(tensor!([true, false]).dtype(), Bool);
    assert_eq!((tensor!([1, 2]) + tensor!([0.5, 0.5])).dtype(), F32);
}

#[test]
fn reductions_take_dims_and_keep() {
    let x = torch::arange(0..24).reshape((2, -1, 4));
    let [n, t, d] = x.dims();
    assert_eq!((n, t, d, x.size(-1)), (2, 3, 4, 4));
    assert_eq!(x.sum(..).item::<i64>().ok(), Some(276));
    assert_eq!(ints(&x.sum([0, 1])), [60, 66, 72, 78]);
    assert_eq!(x.sum(keep(-1)).shape(), [2, 3, 1]);
    assert_eq!(ints(&x.argmax(-1)), [3; 6]);
    assert_eq!(floats(&x.to(F32).mean([0, -1])), [7.5, 11.5, 15.5]);
    assert_eq!(floats(&tensor!([3.0, 4.0]).norm(-1)), [5.0]);
}

#[test]
fn indexing_reads_what_python_reads() -> Result<()> {
    let x = torch::arange(0..24).reshape((2, 3, 4));
    assert_eq!(ints(&x.i((.., 1..3, -1))), [7, 11, 19, 23]);
    assert_eq!(ints(&x.i((0, 0, step(.., -1)))), [3, 2, 1, 0]);
    assert_eq!(ints(&x.i((1, .., step(1.., 2)))), [13, 15, 17, 19, 21, 23]);
    assert_eq!(x.i((Ellipsis, NewAxis, 0)).shape(), [2, 3, 1]);
    let ids = tensor!([2, 0, -1]);
    assert_eq!(ints(&x.i((0, &ids, 0))), [8, 0, 8]);
    assert_eq!(x.i((.., &ids)).shape(), [2, 3, 4]);
    assert_eq!(ints(&x.masked_select(&x.gt(20))?), [21, 22, 23]);
    assert_eq!(ints(&tensor!([[0, 1], [2, 0]]).nonzero()?), [0, 1, 1, 0]);
    assert_eq!(ints(&x.gt(21).if_else(&x, 0).sum(..)), [45]);
    Ok(())
}

#[test]
fn writes_go_through_views() {
    let x = torch::zeros([2, 3]);
    x.i(1).add_(10);
    x.set((.., 0), 7);
    assert_eq!(floats(&x), [7.0, 0.0, 0.0, 7.0, 10.0, 10.0]);
    let t = x.t();
    assert_eq!(floats(&t), [7.0, 7.0, 0.0, 10.0, 0.0, 10.0]);
    t.i((2, ..)).copy_(&tensor!([1.0, 2.0]));
    assert_eq!(floats(&x), [7.0, 0.0, 1.0, 7.0, 10.0, 2.0]);
    assert_eq!(floats(&t), [7.0, 7.0, 0.0, 10.0, 1.0, 2.0], "a view made before the write sees it");
    x.reshape(6).i(step(.., 2)).fill_(-1);
    assert_eq!(floats(&x), [-1.0, 0.0, -1.0, 7.0, -1.0, 2.0]);
    x.unsqueeze(0).i((0, 0, step(.., -1))).copy_(&tensor!([1, 2, 3]));
    assert_eq!(floats(&x.i(0)), [3.0, 2.0, 1.0]);
    x.t().reshape(6).zero_();
    assert_eq!(floats(&x.i(0)), [3.0, 2.0, 1.0], "a reshape that must copy is no view");
    x.set((.., &tensor!([0, 2])), tensor!([[5.0, 6.0], [7.0, 8.0]]));
    assert_eq!(floats(&x), [5.0, 2.0, 6.0, 7.0, -1.0, 8.0]);
}

#[test]
fn clones_are_independent_and_aliases_are_not() {
    let x = tensor!([1.0, 2.0]);
    let (copy, same, detached) = (x.clone(), x.alias(), x.detach());
    x.mul_(10);
    assert_eq!(floats(&copy), [1.0, 2.0]);
    assert_eq!(floats(&same), [10.0, 20.0]);
    assert_eq!(floats(&detached), [10.0, 20.0]);
    copy.zero_();
    assert_eq!(floats(&x), [10.0, 20.0]);
    assert!(same.is_alias_of(&x) && !copy.is_alias_of(&x) && !copy.shares_storage(&x));
    assert!(x.i(..).shares_storage(&x));
    x.add_(&x);
    assert_eq!(floats(&x), [20.0, 40.0], "the operand may be the written tensor");
}

#[test]
fn a_write_after_a_read_of_the_view_is_seen() {
    let x = torch::arange(0..6).reshape([2, 3]);
    let row = x.i(1);
    assert_eq!(ints(&row), [3, 4, 5]);
    let before = row.clone();
    x.mul_(2);
    assert_eq!((ints(&row), ints(&before)), (vec![6, 8, 10], vec![3, 4, 5]));
    no_grad(|| row.sub_(6));
    assert_eq!(ints(&x), [0, 2, 4, 0, 2, 4]);
}

#[test]
fn movement() {
    let x = torch::arange(0..6).reshape([2, 3]);
    assert_eq!(ints(&x.permute([1, 0])), [0, 3, 1, 4, 2, 5]);
    assert_eq!(x.unsqueeze(-1).shape(), [2, 3, 1]);
    assert_eq!(x.unsqueeze(0).squeeze(0).shape(), [2, 3]);
    assert_eq!(x.reshape((1, 2, 3)).flatten(0, 1).shape(), [2, 3]);
    assert_eq!(x.unflatten(1, (3, -1)).shape(), [2, 3, 1]);
    assert_eq!(x.unbind(0).iter().map(ints).collect::<Vec<_>>(), [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(x.split(2, 1).iter().map(Tensor::shape).collect::<Vec<_>>(), [[2, 2], [2, 1]]);
    assert_eq!(x.chunk(3, -1).len(), 3);
    assert_eq!(ints(&torch::cat(&[&x, &x.i(..1)], 0)), [0, 1, 2, 3, 4, 5, 0, 1, 2]);
    assert_eq!(torch::stack(&[&x, &x], -1).shape(), [2, 3, 2]);
    assert_eq!(x.movedim(0, -1).shape(), [3, 2]);
    assert!(x.is_contiguous() && !x.t().is_contiguous() && x.t().contiguous().is_contiguous());
}

#[test]
fn creation() {
    assert_eq!(floats(&torch::ones([2])), [1.0, 1.0]);
    assert_eq!(ints(&torch::full(2, 7)), [7, 7]);
    assert_eq!(torch::full(2, 7.5).dtype(), F32);
    assert_eq!(ints(&torch::arange(2..5)), [2, 3, 4]);
    assert_eq!(ints(&torch::arange_step(5..0, -2)), [5, 3, 1]);
    assert_eq!(torch::arange(3..1).shape(), [0]);
    assert_eq!(floats(&torch::eye(2)), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(floats(&torch::linspace(0.0, 1.0, 3)), [0.0, 0.5, 1.0]);
    assert_eq!(torch::from_slice(&[1.0f64, 2.0], 2).to_vec::<f64>().ok(), Some(vec![1.0, 2.0]));
    assert_eq!(torch::zeros_like(&tensor!([1, 2])).dtype(), I64);
    assert_eq!(tensor!([1., 2.]; F64).dtype(), F64);
    assert_eq!(torch::zeros([2, 3]).to(F64).dtype(), F64);
}

#[test]
fn random_numbers_come_again_with_their_seed() -> Result<()> {
    let draw = || {
        torch::fork(&[7, 1], || {
            (floats(&torch::rand([100])), floats(&torch::randn([100])), ints(&torch::randint(3..9, [50])))
        })
    };
    let (u, n, i) = draw();
    assert_eq!((u.clone(), n.clone(), i.clone()), draw());
    assert!(u.iter().all(|x| (0.0..1.0).contains(x)) && i.iter().all(|k| (3..9).contains(k)));
    let mean = n.iter().sum::<f32>() / 100.0;
    assert!(mean.abs() < 0.4, "{mean}");
    assert_ne!(u, torch::fork(&[7, 2], || floats(&torch::rand([100]))));
    let mut p = torch::fork(&[1], || ints(&torch::randperm(10)));
    p.sort_unstable();
    assert_eq!(p, (0..10).collect::<Vec<_>>());
    let picks = torch::fork(&[1], || ints(&torch::multinomial(&tensor!([0.0, 1.0, 0.0]), 5)));
    assert_eq!(picks, [1; 5]);
    Ok(())
}

#[test]
fn a_draw_that_nobody_reads_shifts_nothing() {
    let second = |read: bool| {
        torch::fork(&[3], || {
            let first = torch::rand(4);
            if read {
                floats(&first);
            }
            floats(&torch::rand(4))
        })
    };
    assert_eq!(second(true), second(false));
}

#[test]
fn another_thread_reads_and_records() {
    let x = torch::arange(0..1000).to(F32);
    let y = &x * 2;
    let sums: Vec<f32> = std::thread::scope(|s| {
        let workers: Vec<_> = (0..4)
            .map(|k| {
                let y = &y;
                s.spawn(move || (y + k).sum(..).item::<f32>().expect("it runs"))
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("it ends")).collect()
    });
    assert_eq!(sums, [999_000.0, 1_000_000.0, 1_001_000.0, 1_002_000.0]);
    assert_eq!(floats(&y.i(..2)), [0.0, 2.0]);
}

#[test]
fn functions() {
    let x = tensor!([[1.0, -2.0], [0.5, 3.0]]);
    assert_eq!(floats(&F::relu(&x)), [1.0, 0.0, 0.5, 3.0]);
    let y = F::linear(&x, &tensor!([[1.0, 1.0]]), Some(&tensor!([0.5])));
    assert_eq!(floats(&y), [-0.5, 4.0]);
    assert_eq!(floats(&F::embedding(&tensor!([1, 0]), &x)), [0.5, 3.0, 1.0, -2.0]);
    let loss: f32 = F::cross_entropy(&torch::zeros([4, 10]), &tensor!([1, 2, 3, 4])).item().expect("it runs");
    assert!((loss - 10f32.ln()).abs() < 1e-6, "{loss}");
    let norm = F::layer_norm(&x, 2, None, None, 1e-5);
    assert!((norm.sum(..).item::<f32>().expect("it runs")).abs() < 1e-5);
    let soft = x.softmax(-1).sum(-1);
    assert!(floats(&soft).iter().all(|s| (s - 1.0).abs() < 1e-6));
    assert_eq!(floats(&F::dropout(&torch::ones(4), 0.0)), [1.0; 4]);
    let q = torch::ones([1, 1, 3, 2]);
    let v = torch::arange(0..6).to(F32).reshape([1, 1, 3, 2]);
    let out = F::scaled_dot_product_attention(&q, &q, &v, F::Attention { causal: true, ..Default::default() });
    let got = floats(&out);
    assert!(got.iter().zip([0.0, 1.0, 1.0, 2.0, 2.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}");
    assert_eq!(ints(&F::one_hot(&tensor!([1, 0]), 2)), [0, 1, 1, 0]);
}

#[test]
fn it_prints_as_pytorch_does() {
    assert_eq!(tensor!([[1., 2.], [3., 4.]]).to_string(), "tensor([[1., 2.],\n        [3., 4.]])");
    assert_eq!(tensor!([1, -20]).to_string(), "tensor([  1, -20])");
    assert_eq!(tensor!(2.5).to_string(), "tensor(2.5000)");
    assert_eq!(tensor!([0.5, 100.25]).to_string(), "tensor([  0.5000, 100.2500])");
    assert_eq!(tensor!([1e-6, 1.0]).to_string(), "tensor([1.0000e-06, 1.0000e+00])");
    assert_eq!(tensor!([1.5]; F64).to_string(), "tensor([1.5000], dtype=f64)");
    assert_eq!(torch::zeros(0).to_string(), "tensor([])");
    assert_eq!(tensor!([true, false]).to_string(), "tensor([ true, false])");
    assert_eq!(tensor!([f32::NAN, 1.5]).to_string(), "tensor([   nan, 1.5000])");
    let text = torch::arange(0..2000).to_string();
    assert_eq!(text, "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
    let cube = torch::zeros([2, 1, 2]).to_string();
    assert_eq!(cube, "tensor([[[0., 0.]],\n\n        [[0., 0.]]])");
    assert_eq!(tensor!([1.]).requires_grad_().to_string(), "tensor([1.], requires_grad=true)");
}

#[test]
fn an_index_out_of_range_is_found_when_it_runs() {
    let (table, ids) = (torch::arange(0..8).to(F32).reshape([4, 2]), tensor!([1, 9]));
    let (rows, line) = (F::embedding(&ids, &table), line!());
    let error = rows.to_vec::<f32>().expect_err("9 is outside").to_string();
    assert!(error.contains(&format!("values.rs:{line}:")), "{error}");
    assert!(error.contains('9') && error.contains('4'), "{error}");
}

#[test]
fn autocast_takes_products_in_low_precision_and_losses_in_full() {
    let x = torch::ones([2, 3]).requires_grad_();
    let (product, loss) = torch::autocast(BF16, || {
        let y = x.matmul(torch::ones([3, 4]));
        (y.clone(), F::cross_entropy(&y, &tensor!([0, 1])))
    });
    assert_eq!((product.dtype(), loss.dtype()), (BF16, F32));
    assert_eq!(x.matmul(torch::ones([3, 4])).dtype(), F32);
}
