//! rustg
