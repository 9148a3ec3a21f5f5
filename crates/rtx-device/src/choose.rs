//! Devices by name: `cpu`, `cuda:0`, and the best one there is.
use crate::Device;
use rtx_core::{Error, Kind, Result};
use std::str::FromStr;

impl Device {
    /// A CUDA device.
    ///
    /// # Errors
    /// [`Kind::Device`], always: this build has no CUDA driver.
    pub fn cuda(index: usize) -> Result<Self> {
        Err(Error::new(Kind::Device, format!("cuda:{index}: this build has no CUDA driver")))
    }
    /// The fastest device present.
    pub fn best() -> Self {
        Self::cuda(0).unwrap_or_else(|_| Self::cpu())
    }
}

impl FromStr for Device {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        match (kind, index.parse()) {
            ("cpu", Ok(0)) => Ok(Device::cpu()),
            ("cuda", Ok(index)) => Device::cuda(index),
            _ => Err(Error::new(Kind::Argument, format!("device: {text:?} is none; write cpu or cuda:0"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!("cpu".parse::<Device>().ok(), Some(Device::cpu()));
        for (name, message) in [
            ("cuda:1", "cuda:1: this build has no CUDA driver"),
            ("tpu", "device: \"tpu\" is none; write cpu or cuda:0"),
        ] {
            assert_eq!(name.parse::<Device>().map_err(|e| e.to_string()), Err(message.into()));
        }
    }
}
