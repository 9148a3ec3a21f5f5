//! Automation of the repository: `cargo xtask <command>`.
fn main() {}
