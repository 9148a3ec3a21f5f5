//! rtx-io
