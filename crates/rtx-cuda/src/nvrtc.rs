//! NVRTC: text to machine code, in the process.
use crate::library;
use crate::sys::{Handle, Rtc, Status};
use rtx_core::{Error, Kind, Result};
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

/// NVIDIA's compiler.
pub struct Nvrtc {
    rtc: Rtc,
    /// Major and minor.
    pub version: (i32, i32),
}

/// Machine code.
pub struct Compiled {
    /// For the architecture that was named.
    pub cubin: Vec<u8>,
    /// What the compiler said besides.
    pub log: String,
}

impl Nvrtc {
    /// Finds it.
    ///
    /// # Errors
    /// [`Kind::Device`], with where it was looked for.
    pub fn open() -> Result<Self> {
        let library = library::open_nvrtc()?;
        let lacks = |name| Error::new(Kind::Device, format!("cuda: this NVRTC is too old: it lacks {name}"));
        let rtc = Rtc::load(library).map_err(lacks)?;
        let mut version = (0, 0);
        // SAFETY: two integers to write.
        check(unsafe { (rtc.version)(&mut version.0, &mut version.1) }, "its version cannot be read")?;
        Ok(Self { rtc, version })
    }

    /// Compiles a text for an architecture, `sm_90a`.
    ///
    /// # Errors
    /// [`Kind::Internal`] with the compiler's log: texts are ours; [`Kind::Device`] for an architecture that this
    /// compiler does not know.
    pub fn compile(&self, text: &str, arch: &str, flags: &[&str]) -> Result<Compiled> {
        let source = CString::new(text).map_err(|e| Error::new(Kind::Internal, format!("cuda: {e}")))?;
        let arch_flag = format!("--gpu-architecture={arch}");
        let mut options = Vec::new();
        for flag in std::iter::once(arch_flag.as_str()).chain(flags.iter().copied()) {
            options.push(CString::new(flag).map_err(|e| Error::new(Kind::Internal, format!("cuda: {e}")))?);
        }
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Handle = null_mut();
        // SAFETY: strings end in 0 and outlive the calls; sizes are what NVRTC says.
        unsafe {
            check(
                (self.rtc.create)(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, null(), null()),
                "no program",
            )?;
            let status = (self.rtc.compile)(program, pointers.len() as i32, pointers.as_ptr());
            let log = self.bytes(program, self.rtc.log_size, self.rtc.log);
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
            let cubin = if status == 0 { self.bytes(program, self.rtc.cubin_size, self.rtc.cubin) } else { vec![] };
            (self.rtc.destroy)(&mut program);
            match status {
                0 if !cubin.is_empty() => Ok(Compiled { cubin, log }),
                // Invalid option: the architecture is the only one that varies.
                5 => {
                    let (major, minor) = self.version;
                    let what = format!("cuda: NVRTC {major}.{minor} does not compile for {arch}");
                    Err(Error::new(Kind::Device, what).hint("a newer NVRTC knows newer cards"))
                }
                _ => Err(Error::new(
                    Kind::Internal,
                    format!("cuda: a kernel does not compile for {arch} ({status})\n{log}"),
                )),
            }
        }
    }

    unsafe fn bytes(
        &self,
        program: Handle,
        size: unsafe extern "C" fn(Handle, *mut usize) -> Status,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> Status,
    ) -> Vec<u8> {
        let mut n = 0;
        // SAFETY: the caller's program; the buffer has as many bytes as NVRTC says.
        unsafe {
            if size(program, &mut n) != 0 {
                return vec![];
            }
            let mut bytes = vec![0u8; n];
            if get(program, bytes.as_mut_ptr().cast()) == 0 { bytes } else { vec![] }
        }
    }
}

fn check(status: Status, what: &str) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Error::new(Kind::Device, format!("cuda: NVRTC: {what} (error {status})"))) }
}
