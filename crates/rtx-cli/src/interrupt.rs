//! Ctrl-C (and a polite `kill`): the first asks a run to save and stop, the second ends the program at once.
use rustytorch::{Error, Kind, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a shell expects of a program that Ctrl-C ended.
pub const EXIT_CODE: u8 = 130;

/// Was the program asked to stop?
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from here on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and raises it, the second finds it up and ends.
            flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), asked.clone())
                .and_then(|_| flag::register(signal, asked.clone()))
                .map_err(|e| Error::new(Kind::Io, format!("cannot listen for Ctrl-C: {e}")))?;
        }
        Ok(Self(asked))
    }
    /// Was it?
    pub fn is_asked(&self) -> bool {
        self.0.load(Relaxed)
    }
}
