//! Numbers of kernels that compute in f64 whatever they read.

/// f32 and f64.
pub(crate) trait Real: Copy + Send + Sync + 'static {
    /// As an f64: exact.
    fn wide(self) -> f64;
    /// The nearest.
    fn narrow(x: f64) -> Self;
}
impl Real for f32 {
    fn wide(self) -> f64 {
        self.into()
    }
    fn narrow(x: f64) -> Self {
        x as f32
    }
}
impl Real for f64 {
    fn wide(self) -> f64 {
        self
    }
    fn narrow(x: f64) -> Self {
        x
    }
}
