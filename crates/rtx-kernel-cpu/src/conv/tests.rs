//! The text of a convolution and the shapes that it is computed in.
use super::*;

#[test]
fn texts_are_read_or_refused() {
    let (dtype, steps) = Steps::parse("f32 2 3 1 2 0 -1 1 1 4 5").expect("a convolution");
    assert_eq!((dtype, steps.spatial, steps.groups), (DType::F32, 2, 3));
    assert_eq!((steps.stride, steps.low), ([1, 1, 2], [0, 0, -1]));
    assert_eq!((steps.base, steps.dilation), ([1, 1, 1], [1, 4, 5]));
    for wrong in
        ["", "f32", "f32 0 1", "f32 1 0 1 0 1 1", "f32 1 1 0 0 1 1", "f32 1 1 1 0 1", "f32 4 1", "x 1 1 1 0 1 1"]
    {
        assert_eq!(Steps::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn windows_of_one_element_are_walked_in_one_line() {
    let (_, steps) = Steps::parse("f32 2 1 1 1 0 0 1 1 1 1").expect("a convolution");
    // n o c, 4 × 5 elements, windows of one, then the strides of x, w, y.
    let dense = [2, 3, 7, 4, 5, 1, 1, 4, 5, 140, 20, 5, 1, 7, 1, 1, 1, 60, 20, 1];
    assert_eq!(Shape::read(steps, &dense).size, [1, 1, 20]);
    let mut padded_rows = dense;
    padded_rows[11] = 6;
    assert_eq!(Shape::read(steps, &padded_rows).size, [1, 4, 5]);
}
