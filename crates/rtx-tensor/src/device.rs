//! Devices: where tensors are made, and what `.to(…)` accepts.
use crate::engine;
use rtx_core::DType;
pub use rtx_device::Device;

/// From here on, tensors that are made from nothing (`zeros`, `tensor!`, a module's parameters) are made there; at first
/// on the processor. For the whole process: call it once, before anything is made.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// torch::set_default_device(&torch::Device::cpu()); // or Device::cuda(0)?
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn set_default_device(device: &Device) {
    engine::set_default(device.executor().clone())
}
/// Where tensors are made when nothing says otherwise.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let device = torch::default_device();
/// assert_eq!(format!("{device:?}"), "cpu");
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn default_device() -> Device {
    engine::executor().into()
}

/// A dtype, a device, or both.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let half = torch::ones(2).to((&torch::Device::cpu(), DType::F16)); // a device, a dtype, or both
/// assert_eq!(half.dtype(), DType::F16);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The element type, if it changes.
    pub dtype: Option<DType>,
    /// The device, if it changes.
    pub device: Option<Device>,
}
impl From<DType> for Place {
    fn from(d: DType) -> Self {
        Self { dtype: Some(d), device: None }
    }
}
impl From<&Device> for Place {
    fn from(d: &Device) -> Self {
        Self { dtype: None, device: Some(d.clone()) }
    }
}
impl From<Device> for Place {
    fn from(d: Device) -> Self {
        Self { dtype: None, device: Some(d) }
    }
}
impl From<(&Device, DType)> for Place {
    fn from((device, dtype): (&Device, DType)) -> Self {
        Self { dtype: Some(dtype), device: Some(device.clone()) }
    }
}
