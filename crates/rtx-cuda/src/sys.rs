//! The functions of `libcuda` and NVRTC that are called, with NVIDIA's names and types.
#![allow(non_snake_case, missing_docs, reason = "NVIDIA's names")]
use crate::library::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

pub(crate) type Status = c_int;
pub(crate) type Address = u64;
/// Handles: contexts, streams, modules, functions, events, memory pools, programs.
pub(crate) type Handle = *mut c_void;

/// A struct of function pointers that is filled from a library.
macro_rules! functions {
    ($(#[$doc:meta])* $Name:ident { $($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)* }) => {
        $(#[$doc])*
        pub(crate) struct $Name { $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> Status,)* }
        impl $Name {
            /// Finds every function; the name of one that is missing otherwise.
            pub(crate) fn load(library: Library) -> Result<Self, &'static str> {
                $(let $field = {
                    let name = CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?;
                    let address = library.symbol(name).ok_or($symbol)?;
                    // SAFETY: the library's documentation gives the function of this name this type.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Status>(address.as_ptr()) }
                };)*
                Ok(Self { $($field),* })
            }
        }
    };
}

functions! {
    /// `libcuda`.
    Cuda {
        init = "cuInit": fn(c_uint);
        driver_version = "cuDriverGetVersion": fn(*mut c_int);
        device_count = "cuDeviceGetCount": fn(*mut c_int);
        device_get = "cuDeviceGet": fn(*mut c_int, c_int);
        device_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
        device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
        device_memory = "cuDeviceTotalMem_v2": fn(*mut usize, c_int);
        context_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
        context_set = "cuCtxSetCurrent": fn(Handle);
        memory_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
        stream_create = "cuStreamCreate": fn(*mut Handle, c_uint);
        stream_wait = "cuStreamSynchronize": fn(Handle);
        pool_of = "cuDeviceGetDefaultMemPool": fn(*mut Handle, c_int);
        pool_set = "cuMemPoolSetAttribute": fn(Handle, c_int, *mut c_void);
        pool_trim = "cuMemPoolTrimTo": fn(Handle, usize);
        allocate = "cuMemAllocAsync": fn(*mut Address, usize, Handle);
        free = "cuMemFreeAsync": fn(Address, Handle);
        host_allocate = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
        write = "cuMemcpyHtoDAsync_v2": fn(Address, *const c_void, usize, Handle);
        read = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, Address, usize, Handle);
        fill = "cuMemsetD8Async": fn(Address, u8, usize, Handle);
        module_load = "cuModuleLoadData": fn(*mut Handle, *const c_void);
        module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
        function_set = "cuFuncSetAttribute": fn(Handle, c_int, c_int);
        launch = "cuLaunchKernel": fn(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
        event_create = "cuEventCreate": fn(*mut Handle, c_uint);
        event_record = "cuEventRecord": fn(Handle, Handle);
        event_destroy = "cuEventDestroy_v2": fn(Handle);
        event_wait = "cuEventSynchronize": fn(Handle);
        event_query = "cuEventQuery": fn(Handle);
        event_time = "cuEventElapsedTime": fn(*mut f32, Handle, Handle);
        graph_create = "cuGraphCreate": fn(*mut Handle, c_uint);
        graph_add = "cuGraphAddKernelNode_v2": fn(*mut Handle, Handle, *const Handle, usize, *const KernelNode);
        graph_instantiate = "cuGraphInstantiateWithFlags": fn(*mut Handle, Handle, u64);
        graph_set = "cuGraphExecKernelNodeSetParams_v2": fn(Handle, Handle, *const KernelNode);
        graph_launch = "cuGraphLaunch": fn(Handle, Handle);
        graph_exec_destroy = "cuGraphExecDestroy": fn(Handle);
        graph_destroy = "cuGraphDestroy": fn(Handle);
        map = "cuTensorMapEncodeTiled": fn(*mut u64, c_int, c_uint, Address, *const u64, *const u64, *const c_uint, *const c_uint, c_int, c_int, c_int, c_int);
        error_name = "cuGetErrorName": fn(Status, *mut *const c_char);
        error_text = "cuGetErrorString": fn(Status, *mut *const c_char);
    }
}

functions! {
    /// NVRTC.
    Rtc {
        version = "nvrtcVersion": fn(*mut c_int, *mut c_int);
        create = "nvrtcCreateProgram": fn(*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
        compile = "nvrtcCompileProgram": fn(Handle, c_int, *const *const c_char);
        log_size = "nvrtcGetProgramLogSize": fn(Handle, *mut usize);
        log = "nvrtcGetProgramLog": fn(Handle, *mut c_char);
        cubin_size = "nvrtcGetCUBINSize": fn(Handle, *mut usize);
        cubin = "nvrtcGetCUBIN": fn(Handle, *mut c_char);
        destroy = "nvrtcDestroyProgram": fn(*mut Handle);
    }
}

/// `CUDA_KERNEL_NODE_PARAMS`, the second version.
#[repr(C)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) arguments: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    pub(crate) kernel: Handle,
    pub(crate) context: Handle,
}

/// A stream that does not wait for the null stream.
pub(crate) const NON_BLOCKING: c_uint = 1;
/// An event without a clock.
pub(crate) const NO_TIMING: c_uint = 2;
pub(crate) const OUT_OF_MEMORY: Status = 2;
/// What a question about an event says while its work runs.
pub(crate) const NOT_READY: Status = 600;
pub(crate) const MULTIPROCESSORS: c_int = 16;
pub(crate) const CAPABILITY_MAJOR: c_int = 75;
pub(crate) const CAPABILITY_MINOR: c_int = 76;
pub(crate) const MEMORY_POOLS: c_int = 115;
/// How many bytes a memory pool keeps.
pub(crate) const POOL_KEEPS: c_int = 4;
pub(crate) const DYNAMIC_SHARED: c_int = 8;
