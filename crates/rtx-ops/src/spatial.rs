//! What ops over the last dims of images share: lists with a number a dim, sizes, and where windows lie.
use crate::args::{Args, Ints};
use crate::lines::known;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{Arg, Builder, Prim, ValueId, rules};
use smallvec::SmallVec;

/// Numbers, one a spatial dim.
pub(crate) type Each<T> = SmallVec<[T; 3]>;

/// A list of an argument with a number for each of `n` dims; one number stands for all, none for `default`.
pub(crate) fn list(args: Args<'_>, i: usize, n: usize, default: &[i64]) -> Result<Each<i64>> {
    let given = args.optional_ints(i)?.filter(|l| !l.is_empty()).unwrap_or_else(|| Ints::from_slice(default));
    match given.len() {
        1 => Ok(SmallVec::from_elem(given[0], n)),
        len if len == n => Ok(given.iter().copied().collect()),
        len => {
            let name = rules::parameter_names(args.op_sig()).get(i).copied().unwrap_or("?");
            Err(rules::refuse(args.op(), Kind::Argument, format_args!("{name} takes {n} numbers, got {len}")))
        }
    }
}

/// Every number is at least `least`.
pub(crate) fn check_least(op: &str, name: &str, list: &[i64], least: i64) -> Result<()> {
    match list.iter().find(|n| **n < least) {
        None => Ok(()),
        Some(n) => Err(rules::refuse(op, Kind::Argument, format_args!("{name} is at least {least}, got {n}"))),
    }
}

/// The sizes of the last `n` dims of a tensor with one or two dims before them.
pub(crate) fn sizes(b: &Builder<'_>, op: &str, x: ValueId, n: usize) -> Result<Each<i64>> {
    let shape = b.shape(x);
    if shape.rank() != n + 1 && shape.rank() != n + 2 {
        let what = format_args!("takes {} or {} dims, got {shape}", n + 1, n + 2);
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    shape.iter().skip(shape.rank() - n).map(|d| Ok(known(op, d)? as i64)).collect()
}

/// A tensor of `n + 2` dims, and whether the first one was missing.
pub(crate) fn with_batch(b: &mut Builder<'_>, op: &str, x: ValueId, n: usize) -> Result<(ValueId, bool)> {
    sizes(b, op, x, n)?;
    if b.rank(x) == n + 2 {
        return Ok((x, false));
    }
    let shape: Shape = [Dim::Const(1)].into_iter().chain(b.shape(x).iter()).collect();
    Ok((b.reshape(x, &shape)?, true))
}
/// The inverse.
pub(crate) fn without_batch(b: &mut Builder<'_>, x: ValueId, was_missing: bool) -> Result<ValueId> {
    if !was_missing {
        return Ok(x);
    }
    let shape: Shape = b.shape(x).iter().skip(1).collect();
    b.reshape(x, &shape)
}

/// A vector along `axis` of a tensor of `rank`.
pub(crate) fn along(b: &mut Builder<'_>, v: ValueId, axis: usize, rank: usize) -> Result<ValueId> {
    let mut shape: Shape = (0..rank).map(|_| Dim::Const(1)).collect();
    shape.set(axis, b.ty(v).shape.dim(0));
    b.reshape(v, &shape)
}

/// Positions `0 .. n` as `i64`.
pub(crate) fn count_to(b: &mut Builder<'_>, n: usize) -> Result<ValueId> {
    b.prim(Prim::Iota { shape: [n].into(), axis: 0 }, &[])
}

/// `x` at computed positions along an axis: the axis becomes the dims of the positions.
pub(crate) fn take(b: &mut Builder<'_>, x: ValueId, axis: usize, index: ValueId) -> Result<ValueId> {
    b.prim(Prim::Gather { axis }, &[x, index])
}

/// Windows along one dim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Size of the dim.
    pub size: i64,
    /// How many windows.
    pub count: i64,
    /// Elements, stride, padding and dilation of even windows; adaptive ones have none: they part the dim, window `i`
    /// from `⌊i n / count⌋` to `⌈(i + 1) n / count⌉`.
    pub even: Option<(i64, i64, i64, i64)>,
}

impl Windows {
    fn adaptive_at(&self, i: i64) -> (i64, i64) {
        let start = i * self.size / self.count;
        (start, ((i + 1) * self.size + self.count - 1) / self.count - start)
    }
    /// Elements of the longest.
    pub fn longest(&self) -> i64 {
        match self.even {
            Some((window, ..)) => window,
            None => (0..self.count).map(|i| self.adaptive_at(i).1).max().unwrap_or(0),
        }
    }
    /// Where each window starts, which may be outside, and how many elements it has, `[count]`; no lengths where all
    /// are one.
    pub fn starts(&self, b: &mut Builder<'_>) -> Result<(ValueId, Option<ValueId>)> {
        let i = count_to(b, self.count as usize)?;
        if let Some((_, stride, padding, _)) = self.even {
            let start = b.mul(i, stride as f64)?;
            return Ok((b.sub(start, padding as f64)?, None));
        }
        let (n, count) = (self.size as f64, self.count.max(1) as f64);
        let start = b.mul(i, n)?;
        let end = b.add(start, n + count - 1.0)?;
        let (start, end) = (b.div(start, count)?, b.div(end, count)?);
        Ok((start, Some(b.sub(end, start)?)))
    }
    /// How many elements each even window has: those inside the dim, or those inside its padding too.
    pub fn counts(&self, b: &mut Builder<'_>, include_padding: bool) -> Result<ValueId> {
        let Some((window, _, padding, _)) = self.even else {
            return Err(rtx_core::Error::new(Kind::Internal, "adaptive windows know their lengths"));
        };
        let more = if include_padding { padding } else { 0 };
        let (start, _) = self.starts(b)?;
        let end = b.add(start, window as f64)?;
        let end = b.min(end, (self.size + more) as f64)?;
        let start = b.max(start, -more as f64)?;
        b.sub(end, start)
    }
}

/// For windows along a dim `[count, longest]`: the position of each element, moved inside the dim, and whether it is
/// one.
pub(crate) fn positions(b: &mut Builder<'_>, w: &Windows) -> Result<(ValueId, ValueId)> {
    let (count, longest) = (w.count as usize, w.longest() as usize);
    let (shape, column) = (Shape::from([count, longest]), Shape::from([count, 1]));
    let (starts, lens) = w.starts(b)?;
    let starts = b.reshape(starts, &column)?;
    let starts = b.expand(starts, &shape)?;
    let element = b.prim(Prim::Iota { shape: shape.clone(), axis: 1 }, &[])?;
    let way = b.mul(element, w.even.map_or(1, |e| e.3) as f64)?;
    let at = b.add(starts, way)?;
    let least = b.max(at, 0.0)?;
    let inside = b.min(least, (w.size - 1).max(0) as f64)?;
    let is_one = b.eq(at, inside)?;
    let Some(lens) = lens else { return Ok((inside, is_one)) };
    let lens = b.reshape(lens, &column)?;
    let lens = b.expand(lens, &shape)?;
    let short = b.lt(element, lens)?;
    Ok((inside, b.and(is_one, short)?))
}

/// Is argument `i` given?
pub(crate) fn is_given(args: Args<'_>, i: usize) -> bool {
    !matches!(args.get(i), Arg::None)
}
