//! rtx-hal
