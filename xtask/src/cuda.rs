//! `cargo xtask cuda`: the GPU's checks of rtx-conformance, with NVIDIA's compiler from its Python package where the
//! machine has none. Nothing of it needs a GPU.
use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python package that holds the compiler, and the folder in it.
const PACKAGE: (&str, &str) = ("nvidia-cuda-nvrtc==13.*", "nvidia/cu13/lib");

/// Runs `rtx-conformance cuda …`.
pub(crate) fn run(rest: &[String]) -> Result<(), String> {
    let mut args = vec!["run", "--quiet", "--release", "--package", "rtx-conformance", "--", "cuda"];
    args.extend(rest.iter().map(String::as_str));
    let mut command = crate::cargo_command(&args);
    if std::env::var_os("RTX_CUDA_LIB_PATH").is_none() {
        command.env("RTX_CUDA_LIB_PATH", installed()?);
    }
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: cargo {}", args.join(" "))) }
}

/// The folder with the compiler's libraries; installs them below the target folder once.
fn installed() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let (package, inside) = PACKAGE;
    let folder = target.join("nvrtc");
    let libraries = folder.join(inside);
    if !libraries.is_dir() {
        install(package, &folder)?;
    }
    if libraries.is_dir() { Ok(libraries) } else { Err(format!("{package} has no folder {inside}")) }
}

fn install(package: &str, folder: &Path) -> Result<(), String> {
    println!("installing {package} into {}", folder.display());
    let args = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--root-user-action=ignore",
        "--disable-pip-version-check",
        "--no-deps",
        "--target",
    ];
    let done = Command::new("python3").args(args).arg(folder).arg(package).status();
    match done {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("python3 -m pip cannot install {package}; set RTX_CUDA_LIB_PATH to the folder of libnvrtc")),
    }
}
