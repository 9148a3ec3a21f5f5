//! rtx-optim
