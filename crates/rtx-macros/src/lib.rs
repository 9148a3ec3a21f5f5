//! rtx-macros
