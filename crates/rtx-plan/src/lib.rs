//! rtx-plan
