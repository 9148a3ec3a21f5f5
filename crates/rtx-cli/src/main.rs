//! rtx
fn main() {}
