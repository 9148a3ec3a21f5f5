//! Every sample of the table on the device, as it is written and with its floats as each type that has kernels: whole it
//! gives the bits that it gives node by node, and each node, those of its gradients too, agrees with the oracle. What
//! that shows is `docs/coverage.md`.
use rtx_conformance::coverage::Coverage;
use std::path::Path;

#[test]
fn samples_run_on_the_device_in_every_type() {
    let coverage = Coverage::walk();
    let faults = &coverage.faults;
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coverage.md");
    let (page, there) = (coverage.page(), std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var("RTX_BLESS").is_ok_and(|v| v == "1") {
        return std::fs::write(&path, page).expect("a file that can be written");
    }
    let differs = page.lines().zip(there.lines()).find(|(a, b)| a != b);
    assert!(page == there, "docs/coverage.md is old ({differs:?}): run `cargo xtask coverage`");
}
