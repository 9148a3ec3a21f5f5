//! rtx-ir
