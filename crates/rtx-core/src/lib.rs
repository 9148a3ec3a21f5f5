//! rtx-core
