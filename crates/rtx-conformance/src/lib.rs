//! rtx-conformance
