//! The task's words: how many, how large, how long, as people read them.
use std::time::Duration;

/// `464,384`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 thread`, `2 threads`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", thousands(n)) }
}

/// A loss: two places, three when it is small, powers of ten when it has run away.
pub fn loss(x: f64) -> String {
    match x {
        _ if x < 0.095 => format!("{x:.3}"),
        _ if x < 1e4 => format!("{x:.2}"),
        _ => format!("{x:.1e}"),
    }
}

/// Bytes: `17 bytes`, `2.3 kB`, `41 MB`, `1.2 GB`.
pub fn bytes(n: u64) -> String {
    let x = n as f64;
    match n {
        0..1_000 => count(n, "byte", "bytes"),
        1_000..9_950 => format!("{:.1} kB", x / 1e3),
        9_950..999_500 => format!("{:.0} kB", x / 1e3),
        999_500..9_950_000 => format!("{:.1} MB", x / 1e6),
        9_950_000..999_500_000 => format!("{:.0} MB", x / 1e6),
        999_500_000..9_950_000_000 => format!("{:.1} GB", x / 1e9),
        _ => format!("{:.0} GB", x / 1e9),
    }
}

/// `2:05`, `1:02:05`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([1, 999, 1000, 464_384, 1_234_567].map(thousands), ["1", "999", "1,000", "464,384", "1,234,567"]);
        assert_eq!([2.7712, 0.0951, 0.0021, 2.09e14].map(loss), ["2.77", "0.10", "0.002", "2.1e14"]);
        assert_eq!(
            [1, 999, 1_234, 41_400_000, 1_240_000_000].map(bytes),
            ["1 byte", "999 bytes", "1.2 kB", "41 MB", "1.2 GB"]
        );
        assert_eq!([125, 3725].map(|s| clock(Duration::from_secs(s))), ["2:05", "1:02:05"]);
        assert_eq!([count(1, "thread", "threads"), count(2000, "thread", "threads")], ["1 thread", "2,000 threads"]);
    }
}
