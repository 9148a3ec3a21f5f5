//! rtx-compiler
