//! Kernels that move elements: strided loads and stores, gathers, scatters, broadcasts.
use super::args::{Args, Body, Extra, Index, Kernel, Move, cold};
use std::marker::PhantomData;

struct MoveLoop<T>(PhantomData<T>);
impl<T: Copy> Body for MoveLoop<T> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let Extra::Move(spec) = x.extra else { unreachable!("the binding describes every move") };
        let one = size_of::<T>() as isize;
        let done = if spec.indices.is_empty() && spec.dst_col == one && x.pitch[0] == one && spec.src_col != one {
            // SAFETY: the kernel's contract.
            unsafe { transpose_blocks::<T>(x, spec.src_col) }
        } else {
            0
        };
        for r in done as isize..x.rows as isize {
            // SAFETY: the kernel's contract.
            unsafe {
                let (mut dst, mut src) = (x.dst.offset(r * x.dst_pitch), x.src[0].offset(r * x.pitch[0]));
                if x.step[1..=spec.indices.len()].iter().all(|&step| step == 0) {
                    let moved = computed(x, spec, r, 0);
                    if spec.scatter {
                        dst = dst.offset(moved);
                    } else {
                        src = src.offset(moved);
                    }
                    move_row::<T>(dst, spec.dst_col, src, spec.src_col, x.cols);
                } else {
                    for c in 0..x.cols as isize {
                        let moved = computed(x, spec, r, c);
                        let (to, from) = if spec.scatter { (moved, 0) } else { (0, moved) };
                        let value = *(src.offset(c * spec.src_col + from) as *const T);
                        *(dst.offset(c * spec.dst_col + to) as *mut T) = value;
                    }
                }
            }
        }
    }
}

/// Rows of a source that is contiguous down the columns, in squares of 8: lines of both sides are used whole while
/// they are in cache, also where strides are powers of two. Gives how many rows are done.
#[inline(always)]
unsafe fn transpose_blocks<T: Copy>(x: &Args<'_>, src_col: isize) -> usize {
    const B: usize = 8;
    let (rows, cols) = (x.rows / B * B, x.cols / B * B);
    for r in (0..rows).step_by(B) {
        // SAFETY: the caller's: squares and the rest lie inside the tile.
        unsafe {
            let to = |i: usize| x.dst.offset((r + i) as isize * x.dst_pitch) as *mut T;
            let from = |c: usize| (x.src[0].offset(c as isize * src_col) as *const T).add(r);
            for c in (0..cols).step_by(B) {
                let mut square = [[*from(c); B]; B];
                for j in 0..B {
                    square[j] = *(from(c + j) as *const [T; B]);
                }
                for i in 0..B {
                    let mut line = [square[0][i]; B];
                    for j in 0..B {
                        line[j] = square[j][i];
                    }
                    *(to(i).add(c) as *mut [T; B]) = line;
                }
            }
            for c in cols..x.cols {
                for i in 0..B {
                    *to(i).add(c) = *from(c).add(i);
                }
            }
        }
    }
    rows
}

/// One row, whose steps are in bytes. In place only with equal steps.
#[inline(always)]
unsafe fn move_row<T: Copy>(dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, n: usize) {
    let one = size_of::<T>() as isize;
    // SAFETY: the caller's.
    unsafe {
        let (d, s) = (dst as *mut T, src as *const T);
        if dst_step == one && src_step == one {
            std::ptr::copy(s, d, n);
        } else if dst_step == one && src_step == 0 {
            if n > 0 {
                std::slice::from_raw_parts_mut(d, n).fill(*s);
            }
        } else if dst_step == one {
            let step = src_step / one;
            (0..n as isize).for_each(|c| *d.offset(c) = *s.offset(c * step));
        } else {
            let (to, from) = (dst_step / one, src_step / one);
            (0..n as isize).for_each(|c| *d.offset(c * to) = *s.offset(c * from));
        }
    }
}

/// The computed part of the address of one element, in bytes.
#[inline(always)]
unsafe fn computed(x: &Args<'_>, spec: &Move, r: isize, c: isize) -> isize {
    let mut sum = 0;
    for (k, index) in spec.indices.iter().enumerate() {
        // SAFETY: the kernel's contract; `bound` is positive, the binding drops moves where it is not.
        sum += unsafe {
            let row = x.src[k + 1].offset(r * x.pitch[k + 1]) as *const i64;
            clamped(index, *row.offset(c * x.step[k + 1] as isize), x.machine.report)
        };
    }
    sum
}
/// The bytes that an index adds, reporting it if it is outside and checked.
#[inline(always)]
pub(super) fn clamped(index: &Index, value: i64, report: &dyn Fn(i64, i64)) -> isize {
    if index.checked && (value < 0 || value >= index.bound) {
        report(value, index.bound);
    }
    value.clamp(0, index.bound - 1) as isize * index.stride
}

/// Moves elements of `size` bytes.
pub(super) fn move_elements(size: usize) -> Option<Kernel> {
    Some(match size {
        1 => cold::<MoveLoop<u8>>(),
        2 => cold::<MoveLoop<u16>>(),
        4 => cold::<MoveLoop<u32>>(),
        8 => cold::<MoveLoop<u64>>(),
        16 => cold::<MoveLoop<[u64; 2]>>(),
        _ => return None,
    })
}
