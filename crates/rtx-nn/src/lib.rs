//! rtx-nn
