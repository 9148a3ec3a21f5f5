//! `rtx doctor`: what this machine has, where it was looked for, what rtx will use, and what to do about the rest.
use crate::machine::{self, find_library};
use crate::report::print_now;
use crate::words::{bytes, count};
use rustytorch::{self as torch, Device, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Looks, measures and tells.
///
/// # Errors
/// None: what is not there is told.
pub fn doctor() -> Result<()> {
    let threads = torch::get_num_threads();
    let stream = bytes(machine::stream_bandwidth(threads) as u64);
    print_now(&row("cpu", &cpu_lines(threads, &stream)));
    let memory = match machine::memory() {
        Some((all, free)) => format!("{}, {} free", gib(all), gib(free)),
        None => "unknown (no /proc/meminfo here)".to_owned(),
    };
    print_now(&row("memory", &[memory]));
    let folders = machine::library_folders();
    for (name, lines) in
        [("cuda", cuda(&folders)), ("rocm", rocm(&folders)), ("metal", metal()), ("vulkan", vulkan(&folders))]
    {
        print_now(&row(name, &lines));
    }
    let looked: Vec<String> = folders.iter().filter(|f| f.is_dir()).map(|f| f.display().to_string()).collect();
    print_now(&row("looked", &wrap(&looked.join(", "), 70)));
    print_now(&row(
        "device",
        &[format!("--device: cpu, or cuda where a card is used; the best here is {}", Device::best())],
    ));
    Ok(())
}

/// A name and its lines, one below the other.
fn row(name: &str, lines: &[String]) -> String {
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let name = if i == 0 { name } else { "" };
        out += &format!("{name:<8}{line}\n");
    }
    out
}

/// Words in lines of at most so many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last] = word.to_owned();
        } else if lines[last].chars().count() + 1 + word.chars().count() <= width {
            lines[last] += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn gib(n: u64) -> String {
    format!("{:.1} GiB", n as f64 / f64::from(1 << 30))
}

fn cpu_lines(threads: usize, stream: &str) -> Vec<String> {
    let features = machine::cpu_features();
    let features = if features.is_empty() { "no vector features that are used".to_owned() } else { features.join(" ") };
    vec![
        format!("{}, {}", machine::cpu_name(), count(threads as u64, "thread", "threads")),
        features,
        format!("kernels for {}; stream {stream}/s (measured, a copy's reads and writes)   used", machine::isa_name()),
    ]
}

const CUDA_FOLDERS: [&str; 4] =
    ["/usr/local/cuda/compat", "/usr/local/cuda/lib64", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"];

fn cuda(folders: &[PathBuf]) -> Vec<String> {
    let mut lines = Vec::new();
    let devices = entries("/dev", |name| name.strip_prefix("nvidia").is_some_and(|n| n.parse::<u32>().is_ok()));
    let kernel = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let version =
        kernel.split_whitespace().find(|w| w.split('.').count() >= 2 && w.starts_with(|c: char| c.is_ascii_digit()));
    match find_library("libcuda.so.1", folders, &CUDA_FOLDERS) {
        Some(path) => {
            let version = version.map_or(String::new(), |v| format!(" {v}"));
            lines.push(format!("driver{version}, {}; {}", path.display(), count(devices as u64, "device", "devices")));
            lines.push(match find_library("libnvrtc.so", folders, &CUDA_FOLDERS) {
                Some(path) => format!("compiler {}", path.display()),
                None => "no compiler: libnvrtc.so is not there (pip install nvidia-cuda-nvrtc-cu12 has it)".to_owned(),
            });
            match Device::cuda(0) {
                Ok(device) => {
                    lines.extend(device.describe());
                    lines.push("used with --device cuda; see docs/cuda.md for what is there".to_owned());
                }
                Err(e) => lines.extend(wrap(&format!("not used: {}", e.message()), 90)),
            }
        }
        None if devices > 0 => {
            lines.push(format!("{} in /dev, but no libcuda.so.1", count(devices as u64, "device", "devices")));
            lines.push("in a container? start it with the NVIDIA runtime (docker run --gpus all)".to_owned());
        }
        None => {
            lines.push("no driver: libcuda.so.1 is in none of the folders below, nor in /usr/local/cuda".to_owned());
            lines.push("with an NVIDIA card: install its driver, 550 or newer".to_owned());
        }
    }
    lines
}

fn rocm(folders: &[PathBuf]) -> Vec<String> {
    let driver = Path::new("/dev/kfd").exists();
    let library = find_library("libamdhip64.so", folders, &["/opt/rocm/lib"]);
    match (driver, library) {
        (true, Some(path)) => {
            vec![format!("/dev/kfd, {}", path.display()), "not used: this build has no ROCm back end".to_owned()]
        }
        (true, None) => {
            vec!["/dev/kfd is there, libamdhip64.so is not (nor in /opt/rocm/lib): install ROCm".to_owned()]
        }
        (false, Some(path)) => {
            vec![format!("{} is there, /dev/kfd is not: no card, or no amdgpu driver", path.display())]
        }
        (false, None) => vec!["none: no /dev/kfd, no libamdhip64.so (nor in /opt/rocm/lib)".to_owned()],
    }
}

fn metal() -> Vec<String> {
    let there = Path::new("/System/Library/Frameworks/Metal.framework").exists();
    vec![match (cfg!(target_os = "macos"), there) {
        (true, true) => "Metal.framework; not used: this build has no Metal back end".to_owned(),
        (true, false) => "no Metal.framework in /System/Library/Frameworks".to_owned(),
        (false, _) => "only on macOS".to_owned(),
    }]
}

const ICD_FOLDERS: [&str; 2] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

fn vulkan(folders: &[PathBuf]) -> Vec<String> {
    let Some(path) = find_library("libvulkan.so.1", folders, &[]) else {
        return vec!["none: no libvulkan.so.1 in the folders below (Debian: apt-get install libvulkan1)".to_owned()];
    };
    let drivers: usize = ICD_FOLDERS.iter().map(|f| entries(f, |name| name.ends_with(".json"))).sum();
    let cards = entries("/dev/dri", |name| name.starts_with("renderD"));
    let mut lines = vec![format!(
        "{}; {} in {}; {} in /dev/dri",
        path.display(),
        count(drivers as u64, "driver", "drivers"),
        ICD_FOLDERS.join(" and "),
        count(cards as u64, "card", "cards")
    )];
    lines.push("not used: this build has no Vulkan back end".to_owned());
    lines
}

/// How many names in a folder are wanted.
fn entries(folder: &str, wanted: impl Fn(&str) -> bool) -> usize {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(|e| wanted(&e.file_name().to_string_lossy())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_each_other() {
        assert_eq!(row("cpu", &["a".to_owned(), "b".to_owned()]), "cpu     a\n        b\n");
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
    }
}
