//! PyTorch's golden runs, reproduced.

#[test]
fn gpt_trains_as_in_pytorch() {
    let report = rtx_conformance::goldens::gpt::run(&rtx_conformance::goldens::default_dir().join("train/gpt"))
        .expect("the goldens are in the repository");
    assert!(report.passed(), "{report}");
}
