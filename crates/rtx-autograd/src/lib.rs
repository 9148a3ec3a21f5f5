//! rtx-autograd
