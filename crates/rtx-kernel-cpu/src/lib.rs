//! rtx-kernel-cpu
