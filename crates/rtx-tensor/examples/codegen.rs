//! Writes `src/methods.rs` anew: `cargo run -p rtx-tensor --example codegen`.
#[path = "../codegen/generate.rs"]
mod generate;

use std::process::Command;

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/methods.rs");
    std::fs::write(path, generate::generate(&generate::table()))?;
    let formatted = Command::new("rustfmt").args(["--edition", "2024", path]).status()?;
    if formatted.success() { Ok(()) } else { Err(std::io::Error::other("rustfmt failed")) }
}
