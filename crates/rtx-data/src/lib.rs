//! rtx-data
