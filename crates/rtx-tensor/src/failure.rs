//! The plain twin of a `try_` method: a mistake panics at the caller's line.
use rtx_core::Result;

pub(crate) trait OrPanic<T> {
    fn or_panic(self) -> T;
}
impl<T> OrPanic<T> for Result<T> {
    #[track_caller]
    fn or_panic(self) -> T {
        match self {
            Ok(x) => x,
            Err(e) => match crate::scope::current_scope() {
                Some(scope) => panic!("{}", e.in_scope(scope)),
                None => panic!("{e}"),
            },
        }
    }
}
