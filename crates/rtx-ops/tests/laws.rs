//! The laws hold for every op of the table.
use rtx_ops::ALL;
use rtx_testkit::{laws, transforms};

#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn literals_are_whole() {
    none(laws::hygiene_faults(ALL));
}
#[test]
fn signatures_are_pytorchs() {
    none(laws::schema_faults(ALL));
}
#[test]
fn refusals_say_what_they_should() {
    none(laws::refusal_faults(ALL));
}
#[test]
fn inference_agrees_with_the_oracle() {
    none(laws::inference_faults(ALL));
}
#[test]
fn text_round_trips() {
    none(laws::text_faults(ALL));
}
#[test]
fn rules_read_what_they_save() {
    none(laws::saves_faults(ALL));
}
#[test]
fn gradients_are_differences() {
    none(laws::gradient_faults(ALL));
}
#[test]
fn gradients_of_gradients_are_differences() {
    none(laws::second_order_faults(ALL));
}
#[test]
fn batching_is_stacking() {
    none(transforms::batch_faults(ALL));
}
#[test]
fn forward_mode_is_the_slope() {
    none(transforms::tangent_faults(ALL));
}
#[test]
fn jacobians_agree() {
    none(transforms::jacobian_faults(ALL));
}
#[test]
fn second_derivatives_are_symmetric() {
    none(transforms::hessian_faults(ALL));
}
