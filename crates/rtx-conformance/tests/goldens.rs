//! PyTorch's golden runs, reproduced.

#[test]
fn gpt_trains_as_in_pytorch() {
    let report = rtx_conformance::goldens::gpt::run(&rtx_conformance::goldens::default_dir().join("train/gpt"))
        .expect("the goldens are in the repository");
    assert!(report.passed(), "{report}");
}

#[test]
fn a_convolutional_network_trains_as_in_pytorch() {
    let report = rtx_conformance::goldens::cnn::run(&rtx_conformance::goldens::default_dir().join("train/cnn"))
        .expect("the goldens are in the repository");
    assert!(report.passed(), "{report}");
}

#[test]
fn a_recurrent_network_trains_as_in_pytorch() {
    let report = rtx_conformance::goldens::lstm::run(&rtx_conformance::goldens::default_dir().join("train/lstm"))
        .expect("the goldens are in the repository");
    assert!(report.passed(), "{report}");
}

/// What is not built yet is named here, and nothing else fails.
#[test]
fn optimizers_and_schedules_are_pytorchs() {
    let dir = rtx_conformance::goldens::default_dir().join("optim");
    let report = rtx_conformance::goldens::optim::run(&dir).expect("the goldens are in the repository");
    assert_eq!(report.outcomes.len(), 155);
    assert!(report.outcomes.iter().all(|o| o.fault.is_none() || o.name.starts_with("LBFGS")), "{report}");
}
