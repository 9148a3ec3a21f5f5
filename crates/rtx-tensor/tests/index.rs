//! Indexing by tensors of positions and masks, read and written, against answers worked out by NumPy's rules.
use rtx_core::Result;
use rtx_tensor::{self as torch, Argument, DType::*, Ellipsis, NewAxis, Tensor, TryTensor, Unique, step, tensor};

fn ints(t: &Tensor) -> Vec<i64> {
    t.to_vec().expect("i64")
}
/// 0 … 23 as [2, 3, 4].
fn cube() -> Tensor {
    torch::arange(0..24).reshape((2, 3, 4))
}

#[test]
fn several_tensors_broadcast_and_stand_where_they_stand() {
    let x = cube();
    // x[[0, 1], [2, 0]]: two rows.
    let y = x.i((&tensor!([0, 1]), &tensor!([2, 0])));
    assert_eq!((y.shape(), ints(&y)), ([2, 4].into(), vec![8, 9, 10, 11, 12, 13, 14, 15]));
    // x[[[0], [1]], [2, 0]]: the shapes [2, 1] and [2] meet in [2, 2].
    let y = x.i((&tensor!([[0], [1]]), &tensor!([2, 0]), 1));
    assert_eq!((y.shape(), ints(&y)), ([2, 2].into(), vec![9, 1, 21, 13]));
    // x[:, [0, 2], [1, -1]]: in place of the two dims.
    let y = x.i((.., &tensor!([0, 2]), &tensor!([1, -1])));
    assert_eq!((y.shape(), ints(&y)), ([2, 2].into(), vec![1, 11, 13, 23]));
    // x[[0, 1], :, [3, 0]]: a range between them, so in front.
    let y = x.i((&tensor!([0, 1]), .., &tensor!([3, 0])));
    assert_eq!((y.shape(), ints(&y)), ([2, 3].into(), vec![3, 7, 11, 12, 16, 20]));
    // x[:, [[0], [1]], 1:3]: a tensor of rank 2, a range after it.
    let y = x.i((.., &tensor!([[0], [1]]), 1..3));
    assert_eq!((y.shape(), ints(&y)), ([2, 2, 1, 2].into(), vec![1, 2, 5, 6, 13, 14, 17, 18]));
    // x[..., None, [0, 0], [3, 1]] and x[None, [1], [2], ::-2].
    let y = x.i((Ellipsis, NewAxis, &tensor!([0, 0]), &tensor!([3, 1])));
    assert_eq!((y.shape(), ints(&y)), ([2, 1, 2].into(), vec![3, 1, 15, 13]));
    let y = x.i((NewAxis, &tensor!([1]), &tensor!([2]), step(.., -2)));
    assert_eq!((y.shape(), ints(&y)), ([1, 1, 2].into(), vec![23, 21]));
    // A number takes its dim away first, as in PyTorch.
    let y = x.i((1, .., &tensor!([0, 3])));
    assert_eq!((y.shape(), ints(&y)), ([3, 2].into(), vec![12, 15, 16, 19, 20, 23]));
}

#[test]
fn masks_pick_what_they_keep() {
    let x = cube();
    let y = x.i(&x.gt(20));
    assert_eq!((y.shape(), ints(&y)), ([3].into(), vec![21, 22, 23]));
    let rows = tensor!([true, false, true]);
    // x[:, m], x[m of two dims], x[0, m, 1], x[m, :, [0, ..]] of one kept row each.
    let y = x.i((.., &rows));
    assert_eq!((y.shape(), ints(&y.i((1, .., 0)))), ([2, 2, 4].into(), vec![12, 20]));
    let plane = tensor!([[false, true, false], [true, false, false]]);
    assert_eq!(ints(&x.i(&plane)), [4, 5, 6, 7, 12, 13, 14, 15]);
    assert_eq!(ints(&x.i((0, &rows, 1))), [1, 9]);
    // A mask is positions: [0, 2] beside [3, 1].
    assert_eq!(ints(&x.i((1, &rows, &tensor!([3, 1])))), [15, 21]);
    // A mask of rank 0 is there or not.
    assert_eq!(x.i(&torch::full((), true)).shape(), [1, 2, 3, 4]);
    assert_eq!(x.i(&torch::full((), false)).shape(), [0, 2, 3, 4]);
    let refused = x.try_i(&tensor!([true, false, true])).expect_err("3 of a dim of 2").to_string();
    assert!(refused.contains("a mask of shape [3] does not fit the dims from 0 of [2, 3, 4]"), "{refused}");
    let refused = x.try_i(&tensor!([0.5])).expect_err("floats").to_string();
    assert!(refused.contains("positions are integers, got f32"), "{refused}");
}

#[test]
fn assignments_broadcast_and_go_through_views() {
    let x = torch::zeros((2, 3)).to(I64);
    x.set((&tensor!([0, 1, 1]), &tensor!([2, 0, -1])), tensor!([7, 8, 9]));
    assert_eq!(ints(&x), [0, 0, 7, 8, 0, 9]);
    x.set((&tensor!([[0], [1]]), &tensor!([0, 1])), 5);
    assert_eq!(ints(&x), [5, 5, 7, 5, 5, 9]);
    // A mask with one number, with as many as it keeps, and of rows.
    x.set(&x.eq(5), -1);
    assert_eq!(ints(&x), [-1, -1, 7, -1, -1, 9]);
    x.set(&x.gt(0), tensor!([70, 90]));
    assert_eq!(ints(&x), [-1, -1, 70, -1, -1, 90]);
    x.set((.., &tensor!([true, false, true])), tensor!([[1, 2]]));
    assert_eq!(ints(&x), [1, -1, 2, 1, -1, 2]);
    // Through a view: the middle column, of which row 1 is kept.
    x.i((.., 1)).set(&tensor!([false, true]), 33);
    assert_eq!(ints(&x), [1, -1, 2, 1, 33, 2]);
    // A range between: the picked dims stand in front of what is written.
    let y = torch::zeros((2, 2, 3)).to(I64);
    y.set((&tensor!([0, 1]), .., &tensor!([2, 0])), tensor!([[1, 2], [3, 4]]));
    assert_eq!(ints(&y), [0, 0, 1, 0, 0, 2, 3, 0, 0, 4, 0, 0]);
}

#[test]
fn gradients_go_where_elements_came_from() -> Result<()> {
    let x = torch::arange(0..6).to(F32).reshape((2, 3)).requires_grad_();
    (x.i((&tensor!([0, 0, 1]), &tensor!([2, 2, 0]))) * tensor!([1.0, 10.0, 100.0])).sum(..).backward();
    assert_eq!(x.grad().expect("reaches x").to_vec::<f32>()?, [0.0, 0.0, 11.0, 100.0, 0.0, 0.0]);
    let v = tensor!([1.0, 2.0]).requires_grad_();
    let y = torch::zeros((3,));
    y.set(&tensor!([true, false, true]), &v);
    (&y * tensor!([3.0, 5.0, 7.0])).sum(..).backward();
    assert_eq!(v.grad().expect("reaches v").to_vec::<f32>()?, [3.0, 7.0]);
    Ok(())
}

#[test]
fn distinct_elements_and_slices() -> Result<()> {
    let x = tensor!([3, 1, 3, 2, 2, 3]);
    let found = x.unique_with(Unique::default())?;
    assert_eq!((ints(&found.values), ints(&found.counts)), (vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!(ints(&found.inverse), [2, 0, 2, 1, 1, 2]);
    let runs = x.unique_consecutive_with(Unique::default())?;
    assert_eq!((ints(&runs.values), ints(&runs.counts)), (vec![3, 1, 3, 2, 3], vec![1, 1, 1, 2, 1]));
    let rows = tensor!([[2, 1], [1, 5], [2, 1]]);
    let found = rows.unique_with(Unique { dim: Some(0) })?;
    assert_eq!((found.values.shape(), ints(&found.values)), ([2, 2].into(), vec![1, 5, 2, 1]));
    assert_eq!((ints(&found.inverse), ints(&found.counts)), (vec![1, 0, 1], vec![1, 2]));
    let found = rows.unique_with(Unique { dim: Some(-1) })?;
    assert_eq!(ints(&found.values), [1, 2, 5, 1, 1, 2]);
    let nan = tensor!([f32::NAN, 1.0, f32::NAN]).unique()?;
    assert_eq!(nan.shape(), [3], "NaN equals nothing");
    assert_eq!(ints(&tensor!([[0, 1], [2, 0]]).argwhere()?), [0, 1, 1, 0]);
    // Python's functions give what is asked for.
    let outs = torch::call("unique", &[(&x).into()], &[("return_counts", Argument::from(true))])?;
    assert_eq!(outs.len(), 2);
    let outs = torch::call("nonzero", &[(&rows).into()], &[("as_tuple", Argument::from(true))])?;
    assert_eq!(outs.iter().map(Tensor::rank).collect::<Vec<_>>(), [1, 1]);
    Ok(())
}
