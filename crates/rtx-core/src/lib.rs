//! Words that every floor shares: dtypes, dims, shapes, layouts, scalars, source locations, ids, errors.

mod arith;
mod dtype;
mod error;
mod id_map;
mod location;
mod narrow;
mod scalar;
mod shape;

pub use arith::{Arith, Comparison, Extremum, Fold, Function};
pub use dtype::{Class, DType, Element};
pub use error::{Error, Kind, Result};
pub use id_map::{IdHasher, IdMap};
pub use location::Location;
pub use narrow::{Complex, F8E4M3, F8E5M2, bf16_from_f64, f16_from_f64};
pub use scalar::Scalar;
pub use shape::{Dim, Layout, Shape, SymId, contiguous_strides};

/// Version of the numerics: changes whenever any kernel's bits may change (contract N8).
pub const NUMERICS_VERSION: u32 = 2;

/// Defines a `u32` id newtype.
#[macro_export]
macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// The id as an index.
            pub fn index(self) -> usize { self.0 as usize }
        }
    };
}
