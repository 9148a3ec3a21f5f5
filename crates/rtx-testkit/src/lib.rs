//! rtx-testkit
