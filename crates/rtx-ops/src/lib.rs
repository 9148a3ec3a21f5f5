//! rtx-ops
