//! rtx-device
