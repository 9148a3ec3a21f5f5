//! Hand-made points of schedules; PyTorch's tables are compared by the goldens.
use super::*;
use std::f64::consts::PI;

/// The golden CNN's: CosineAnnealingLR with T_max 40.
#[test]
fn it_is_pytorchs() {
    let lr = Cosine::new(0.05, 40);
    for (t, want) in [(0, 0.05), (10, 0.05 * (1.0 + (PI / 4.0).cos()) / 2.0), (20, 0.025), (40, 0.0)] {
        assert!((lr.at(t) - want).abs() < 1e-15, "{t}");
    }
}

#[test]
fn warm_up_and_floor() {
    let lr = Cosine::new(1.0, 110).warmup(10).floor(0.1);
    assert_eq!((lr.at(0), lr.at(9), lr.at(10)), (0.1, 1.0, 1.0));
    assert!((lr.at(60) - 0.55).abs() < 1e-12);
    assert_eq!((lr.at(110), lr.at(1000)), (0.1, 0.1));
}

/// Steps may be asked for in any order.
#[test]
fn schedules_are_functions() {
    let lr = Multiplicative::new(1.0, |t| if t % 2 == 0 { 0.5 } else { 1.0 });
    assert_eq!((lr.at(4), lr.at(1), lr.at(2), lr.at(4)), (0.25, 1.0, 0.5, 0.25));
    let lr = Sequential::new(Constant::new(1.0).factor(0.5).steps(3)).then(3, Step::new(1.0, 2));
    assert_eq!([0, 2, 3, 5].map(|t| lr.at(t)), [0.5, 0.5, 1.0, 0.1]);
    let lr = Chained::new(Exponential::new(2.0, 0.5)).with(Linear::new(7.0, 2).from(0.5));
    assert_eq!([0, 1, 2].map(|t| lr.at(t)), [1.0, 0.75, 0.5]);
}
