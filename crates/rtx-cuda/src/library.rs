//! Where NVIDIA's libraries are: the system loader first, then toolkits, drivers' folders and Python packages.
//!
//! `RTX_CUDA_LIB_PATH=dir:dir` comes before all of them.
use rtx_core::{Error, Kind, Result};
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// An open library. Never closed: what it started may outlive any owner.
#[derive(Clone, Copy)]
pub(crate) struct Library(NonNull<c_void>);
// SAFETY: a handle that the loader itself guards.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens a file or a name that the system loader knows.
    fn open(path: &Path) -> std::result::Result<Self, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the name ends in 0; NVIDIA's libraries may be loaded at any time.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        NonNull::new(handle).map(Self).ok_or_else(|| {
            // SAFETY: after a failure there is a message, which is copied at once.
            let text = unsafe { libc::dlerror() };
            if text.is_null() {
                return "cannot be loaded".to_owned();
            }
            // SAFETY: the loader's message ends in 0.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        })
    }

    /// The address of a function.
    pub(crate) fn symbol(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the library is open and the name ends in 0.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

/// Opens the first of these that there is.
pub(crate) fn open(what: &str, names: &[&str], hint: &str) -> Result<Library> {
    find(names).map(|(library, _)| library).map_err(|tried| missing(what, &tried, hint))
}

fn missing(what: &str, tried: &[String], hint: &str) -> Error {
    let tried = if tried.is_empty() { "found in no folder".to_owned() } else { tried.join("; ") };
    Error::new(Kind::Device, format!("cuda: no {what}: {tried}")).hint(hint.to_owned())
}

fn find(names: &[&str]) -> std::result::Result<(Library, Option<PathBuf>), Vec<String>> {
    let mut tried = Vec::new();
    if std::env::var_os("RTX_CUDA_LIB_PATH").is_none() {
        for name in names {
            match Library::open(Path::new(name)) {
                Ok(library) => return Ok((library, None)),
                Err(e) => tried.push(e),
            }
        }
    }
    for folder in folders() {
        for path in names.iter().map(|n| folder.join(n)).filter(|p| p.exists()) {
            match Library::open(&path) {
                Ok(library) => return Ok((library, Some(path))),
                Err(e) => tried.push(e),
            }
        }
    }
    Err(tried)
}

/// NVRTC, and its library of built-ins, which some packages do not find by themselves.
pub(crate) fn open_nvrtc() -> Result<Library> {
    let hint = "install NVIDIA's toolkit or `pip install nvidia-cuda-nvrtc`, or name the folder in RTX_CUDA_LIB_PATH";
    let found = find(&["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]);
    let (library, path) = found.map_err(|tried| missing("NVRTC", &tried, hint))?;
    if let Some(folder) = path.as_deref().and_then(Path::parent) {
        let built_ins =
            |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libnvrtc-builtins.so."));
        // One that does not load is looked for again by NVRTC itself, which then says so.
        entries(folder).into_iter().filter(built_ins).for_each(|p| _ = Library::open(&p));
    }
    Ok(library)
}

/// The folders that are searched, in order.
fn folders() -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = Vec::new();
    let mut push = |p: PathBuf| {
        if p.is_dir() && !list.contains(&p) {
            list.push(p)
        }
    };
    std::env::var("RTX_CUDA_LIB_PATH").unwrap_or_default().split(':').for_each(|d| push(d.into()));
    for root in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os) {
        push(Path::new(&root).join("lib64"));
        push(Path::new(&root).join("targets/x86_64-linux/lib"));
    }
    push("/usr/local/cuda/lib64".into());
    let toolkit = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("cuda-"));
    entries(Path::new("/usr/local")).into_iter().rev().filter(toolkit).for_each(|p| push(p.join("lib64")));
    let known = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/usr/lib/x86_64-linux-gnu"];
    known.iter().chain(&["/usr/lib64", "/run/opengl-driver/lib"]).for_each(|d| push(d.into()));
    for packages in site_packages() {
        entries(&packages.join("nvidia")).into_iter().for_each(|p| push(p.join("lib")));
    }
    list
}

/// Folders of Python packages: of an active environment, of every `python3` on the path, of the system.
fn site_packages() -> Vec<PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Links are not resolved: an environment's python3 is a link out of it.
    let pythons = std::env::split_paths(&path)
        .filter(|d| d.join("python3").exists())
        .filter_map(|d| d.parent().map(Path::to_path_buf))
        .collect::<Vec<_>>();
    let prefixes = active.chain(pythons).chain(["/usr/local".into(), "/usr".into()]);
    prefixes
        .flat_map(|p| entries(&p.join("lib")))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python3")))
        .flat_map(|p| [p.join("site-packages"), p.join("dist-packages")])
        .collect()
}

/// What is in a folder, sorted; nothing where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> =
        std::fs::read_dir(folder).map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    list.sort();
    list
}
