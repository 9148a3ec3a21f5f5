//! Devices by name: `cpu`, `cuda:0`, and the best one there is.
use crate::{Device, cuda};
use rtx_core::{Error, Kind, Result};
use std::str::FromStr;

impl Device {
    /// An NVIDIA GPU, opened at the first call.
    ///
    /// # Errors
    /// [`Kind::Device`]: no driver, one that is too old, no NVRTC, no such GPU or one that is not supported.
    pub fn cuda(index: usize) -> Result<Self> {
        cuda::open(index).map(|opened| opened.executor.into())
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
        let message = "tpu".parse::<Device>().map_err(|e| e.to_string());
        assert_eq!(message, Err("device: \"tpu\" is none; write cpu or cuda:0".into()));
        // On a machine without a GPU this is a sentence, not a panic.
        assert!("cuda:999".parse::<Device>().is_err());
    }
}
