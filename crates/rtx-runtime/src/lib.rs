//! rtx-runtime
