//! What `.to(…)` accepts.
use rtx_core::DType;
pub use rtx_device::Device;

/// A dtype, a device, or both.
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
