//! What this machine has: processor, memory, and the drivers and libraries of accelerators, by looking where they
//! are installed. Nothing is opened and nothing is run.
use rustytorch as torch;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The instruction set in use, as people write it.
pub fn isa_name() -> &'static str {
    match torch::cpu_capability() {
        "avx512" => "AVX-512",
        "avx2" => "AVX2",
        other => other,
    }
}

/// The processor's name.
pub fn cpu_name() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = about.lines().find(|l| l.starts_with("model name") || l.starts_with("Model"));
    let name = line.and_then(|l| l.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Features of the processor that kernels use or will, in the order in which they came.
pub fn cpu_features() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! look { ($($name:tt $shown:tt),*) => { $(
            if std::arch::is_x86_feature_detected!($name) { found.push($shown); }
        )* } }
        look!("avx2" "AVX2", "fma" "FMA", "f16c" "F16C", "avx512f" "AVX-512", "avx512vnni" "VNNI", "avx512bf16" "BF16",
              "avx512fp16" "FP16");
    }
    // The language has no name for it yet.
    if fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" amx_tile ")) {
        found.push("AMX");
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! look { ($($name:tt $shown:tt),*) => { $(
            if std::arch::is_aarch64_feature_detected!($name) { found.push($shown); }
        )* } }
        look!("neon" "NEON", "dotprod" "dot product", "bf16" "BF16", "i8mm" "I8MM", "sve" "SVE");
    }
    found
}

/// All memory and what is free of it, in bytes: that of the machine, or of the control group if it allows less.
pub fn memory() -> Option<(u64, u64)> {
    let about = fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = about.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
    };
    let (all, free) = (field("MemTotal:")?, field("MemAvailable:")?);
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").filter(|limit| *limit < all);
    Some(match limit {
        Some(limit) => {
            let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
            (limit, free.min(limit.saturating_sub(used)))
        }
        None => (all, free),
    })
}

/// Bytes a second that `threads` threads copy, read and written: the best of five passes over far more than a cache
/// holds.
pub fn stream_bandwidth(threads: usize) -> f64 {
    const BYTES: usize = 64 << 20;
    let mut buffers: Vec<(Vec<u8>, Vec<u8>)> = (0..threads).map(|_| (vec![1; BYTES], vec![0; BYTES])).collect();
    let mut best = 0f64;
    for _ in 0..5 {
        let from = Instant::now();
        std::thread::scope(|scope| {
            for (source, target) in &mut buffers {
                scope.spawn(|| target.copy_from_slice(std::hint::black_box(source)));
            }
        });
        best = best.max((2 * BYTES * threads) as f64 / from.elapsed().as_secs_f64());
    }
    best
}

/// Folders in which the system looks for libraries.
pub fn library_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|p| !p.as_os_str().is_empty()).collect();
    let mut configured = Vec::new();
    read_ld_conf(Path::new("/etc/ld.so.conf"), 0, &mut configured);
    folders.extend(configured);
    let arch = std::env::consts::ARCH;
    for usual in
        [format!("/lib/{arch}-linux-gnu"), format!("/usr/lib/{arch}-linux-gnu"), "/usr/lib64".into(), "/usr/lib".into()]
    {
        folders.push(usual.into());
    }
    let mut seen = std::collections::BTreeSet::new();
    folders.retain(|f| seen.insert(f.clone()));
    folders
}

/// The folders that the dynamic linker's settings name; `include` lines lead to more of them.
fn read_ld_conf(file: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let text = fs::read_to_string(file).unwrap_or_default();
    for line in text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()).filter(|l| !l.is_empty()) {
        let Some(pattern) = line.strip_prefix("include ") else {
            out.push(line.into());
            continue;
        };
        let folder = Path::new(pattern.trim()).parent().unwrap_or(Path::new("/")).to_owned();
        let mut files: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "conf"));
        files.sort();
        if depth < 3 {
            files.iter().for_each(|f| read_ld_conf(f, depth + 1, out));
        }
    }
}

/// The first file called `name`, or `name.` and more, in `folders` or below what `more` names.
pub fn find_library(name: &str, folders: &[PathBuf], more: &[&str]) -> Option<PathBuf> {
    let all = folders.iter().cloned().chain(more.iter().map(PathBuf::from));
    all.into_iter().find_map(|folder| {
        let exact = folder.join(name);
        if exact.exists() {
            return Some(exact);
        }
        let dotted = format!("{name}.");
        let mut found: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).collect();
        found.retain(|p| p.file_name().is_some_and(|f| f.to_string_lossy().starts_with(&dotted)));
        found.sort();
        found.into_iter().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_name_and_version() {
        let dir = std::env::temp_dir().join(format!("rtx-machine-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("folder");
        fs::write(dir.join("libx.so.12"), "").expect("file");
        fs::write(dir.join("libxy.so"), "").expect("file");
        let folders = [dir.clone()];
        assert_eq!(find_library("libx.so", &folders, &[]), Some(dir.join("libx.so.12")));
        assert_eq!(find_library("libxy.so", &folders, &[]), Some(dir.join("libxy.so")));
        assert_eq!(find_library("liby.so", &folders, &["/no/such"]), None);
        fs::write(dir.join("a.conf"), "# remark\n/one\ninclude /no/such/*.conf\n/two # why\n").expect("file");
        let mut out = Vec::new();
        read_ld_conf(&dir.join("a.conf"), 0, &mut out);
        assert_eq!(out, [PathBuf::from("/one"), PathBuf::from("/two")]);
    }

    #[test]
    fn this_machine_has_memory() {
        if cfg!(target_os = "linux") {
            let (all, free) = memory().expect("/proc/meminfo");
            assert!(free <= all && all > 0);
        }
    }
}
