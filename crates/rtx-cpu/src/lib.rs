//! rtx-cpu
