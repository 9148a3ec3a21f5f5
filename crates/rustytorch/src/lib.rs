//! rustytorch
