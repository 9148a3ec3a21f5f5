//! Indices: what shows a view, and what picks elements by tensors of positions and masks.
use crate::{
    Result, Tensor,
    call::{self, Argument},
    hosted,
    index::Ix,
    view::{Start, View},
};
use rtx_core::{DType, Error, Kind, Shape};
use rtx_ir::{Arg, Bound, Builder, Prim, ScatterOp, Type, ValueId};

fn refuse<T>(kind: Kind, what: String) -> Result<T> {
    Err(Error::new(kind, what))
}

/// A tensor among the indices: positions along a dim of the view, or a mask over as many as it has.
struct Pick {
    axis: usize,
    tensor: Tensor,
}

impl Pick {
    fn is_mask(&self) -> bool {
        self.tensor.dtype() == DType::Bool
    }
}

/// A view and what picks from it.
struct Walked {
    view: View,
    picks: Vec<Pick>,
}

impl Tensor {
    #[track_caller]
    pub(crate) fn read_index(&self, index: Vec<Ix>) -> Result<Tensor> {
        let Walked { view, picks } = self.walk_index("index", index)?;
        let shown = self.with_view(view);
        let picks = positions_of(picks)?;
        match picks.as_slice() {
            [] => Ok(shown),
            [Pick { axis, tensor }] => call::record_one(&[(&shown).into(), tensor.into()], |b, x| {
                let ids = wrap_positions(b, x[1], x[0], *axis)?;
                b.prim(Prim::Gather { axis: *axis }, &[x[0], ids])
            }),
            several => call::call_one(call::op!("index"), &[(&shown).into(), listed(several)]),
        }
    }
    /// Python's `x[…] = value`.
    #[track_caller]
    pub(crate) fn write_index(&self, index: Vec<Ix>, value: Argument) -> Result<()> {
        let Walked { view, picks } = self.walk_index("set", index)?;
        let shown = self.with_view(view);
        if picks.is_empty() {
            return shown.write_shown(value);
        }
        let value = match value {
            Argument::Tensor(t) => t,
            Argument::Scalar(s) => crate::create::scalar(s, self.dtype())?,
            _ => return refuse(Kind::Argument, "set: the value is a tensor or a number".into()),
        };
        match picks.as_slice() {
            // One number where a mask holds: nothing has to be read.
            [mask] if mask.is_mask() && value.numel() == 1 => shown.write_where(mask, &value),
            _ => match positions_of(picks)?.as_slice() {
                [one] => shown.write_picked(one, &value),
                several => shown.write_several(several, &value),
            },
        }
    }

    /// The view that an index shows, and the tensors that pick from it.
    #[track_caller]
    fn walk_index(&self, op: &str, index: Vec<Ix>) -> Result<Walked> {
        let shape = self.shape();
        let used: usize = index.iter().map(dims_named).sum();
        if used > shape.len() {
            return refuse(Kind::Index, format!("{op}: {used} indices for a tensor of shape {shape:?}"));
        }
        if index.iter().filter(|i| matches!(i, Ix::Ellipsis)).count() > 1 {
            return refuse(Kind::Index, format!("{op}: more than one Ellipsis"));
        }
        let (mut view, mut at, mut picks) = (self.view_map().clone(), 0, Vec::new());
        for ix in index {
            match ix {
                Ix::At(n) => view = view.select(op, at, n)?,
                Ix::Span { start, end, step } => {
                    view = view.span(op, at, start, end, step)?;
                    at += 1;
                }
                Ix::Ellipsis => at += shape.len() - used,
                Ix::NewAxis => {
                    view = view.insert(at);
                    at += 1;
                }
                Ix::Tensor(t) => {
                    // A mask of rank 0 says of all there is whether it is there: along a dim of its own.
                    let t = if t.dtype() == DType::Bool && t.rank() == 0 {
                        view = view.insert(at);
                        t.reshape(-1)
                    } else {
                        t
                    };
                    check_pick(op, &t, at, &view)?;
                    let dims = if t.dtype() == DType::Bool { t.rank() } else { 1 };
                    picks.push(Pick { axis: at, tensor: t });
                    at += dims;
                }
            }
        }
        Ok(Walked { view, picks })
    }

    /// One number where a mask holds.
    #[track_caller]
    fn write_where(&self, mask: &Pick, value: &Tensor) -> Result<()> {
        let (axis, mask, value) = (mask.axis, mask.tensor.traced()?, value.reshape(()).traced()?);
        self.write("set", |trace, x| {
            let (mask, value) = (trace.import(&mask)?, trace.import(&value)?);
            let mut b = trace.recorder.builder();
            let shape = b.shape(x);
            let one = Type { dtype: b.dtype(x), shape: Shape::scalar() };
            let value = call::fit(&mut b, "set", value, &one)?;
            let held = b.shape(mask);
            let rank = held.rank();
            let aligned: Shape =
                held.iter().chain((axis + rank..shape.rank()).map(|_| rtx_core::Dim::Const(1))).collect();
            let mask = b.reshape(mask, &aligned)?;
            let mask = b.expand(mask, &shape)?;
            b.select(mask, value, x)
        })
    }
    #[track_caller]
    fn write_picked(&self, pick: &Pick, value: &Tensor) -> Result<()> {
        let (axis, ids, value) = (pick.axis, pick.tensor.traced()?, value.traced()?);
        self.write("set", |trace, x| {
            let (ids, value) = (trace.import(&ids)?, trace.import(&value)?);
            let mut b = trace.recorder.builder();
            let (shape, picks) = (b.shape(x), b.shape(ids));
            let shape: Shape = shape.iter().take(axis).chain(picks.iter()).chain(shape.iter().skip(axis + 1)).collect();
            let ids = wrap_positions(&mut b, ids, x, axis)?;
            let ty = Type { dtype: b.dtype(x), shape };
            let value = call::fit(&mut b, "set", value, &ty)?;
            b.prim(Prim::Scatter { axis, op: ScatterOp::Set }, &[x, ids, value])
        })
    }
    /// By the op of several tensors of positions.
    #[track_caller]
    fn write_several(&self, picks: &[Pick], value: &Tensor) -> Result<()> {
        let mut ids = Vec::with_capacity(picks.len());
        for p in picks {
            ids.push((p.axis, p.tensor.traced()?));
        }
        let value = value.traced()?;
        self.write("set", |trace, x| {
            let value = trace.import(&value)?;
            let mut list: Vec<Arg> = Vec::new();
            for (axis, t) in &ids {
                list.resize(*axis, Arg::None);
                list.push(Arg::Value(trace.import(t)?));
            }
            let mut b = trace.recorder.builder();
            let (from, to) = (b.dtype(value), b.dtype(x));
            if from.class() > to.class() {
                return refuse(Kind::DType, format!("set: a value of {from} does not go into a tensor of {to}"));
            }
            let bound = Bound::from([Arg::Value(x), Arg::List(list), Arg::Value(value), Arg::Bool(false)]);
            Ok(b.call(call::op!("index_put"), bound)?[0])
        })
    }
}

/// How many dims one index takes.
fn dims_named(ix: &Ix) -> usize {
    match ix {
        Ix::Ellipsis | Ix::NewAxis => 0,
        Ix::Tensor(t) if t.dtype() == DType::Bool => t.rank(),
        _ => 1,
    }
}
/// Masks as positions, one tensor for each of their dims; this reads them.
fn positions_of(picks: Vec<Pick>) -> Result<Vec<Pick>> {
    let mut out = Vec::with_capacity(picks.len());
    for p in picks {
        if !p.is_mask() {
            out.push(p);
            continue;
        }
        let each = hosted::positions(&p.tensor)?;
        out.extend(each.into_iter().enumerate().map(|(d, tensor)| Pick { axis: p.axis + d, tensor }));
    }
    Ok(out)
}
/// For each dim a tensor of positions, or nothing.
fn listed(picks: &[Pick]) -> Argument {
    let mut list = Vec::new();
    for p in picks {
        list.resize(p.axis, Argument::None);
        list.push(Argument::Tensor(p.tensor.alias()));
    }
    Argument::List(list)
}

/// Positions as `i64`, counted from the end where negative.
fn wrap_positions(b: &mut Builder<'_>, ids: ValueId, x: ValueId, axis: usize) -> Result<ValueId> {
    let ids = b.cast(ids, DType::I64)?;
    let size = b.constant(DType::I64, b.shape(x).dim(axis).bound() as i64)?;
    let from_end = b.add(ids, size)?;
    let negative = b.lt(ids, 0.0)?;
    b.select(negative, from_end, ids)
}

/// Positions are integers; a mask has the sizes of the dims that it stands for.
fn check_pick(op: &str, t: &Tensor, at: usize, view: &View) -> Result<()> {
    let dtype = t.dtype();
    if dtype.is_int() {
        return Ok(());
    }
    if dtype != DType::Bool {
        return refuse(Kind::Index, format!("{op}: positions are integers, got {dtype}"));
    }
    let (mask, all) = (t.shape(), view.shape().sizes());
    if all.get(at..at + mask.len()).is_some_and(|dims| *dims == mask[..]) {
        return Ok(());
    }
    let what = format!("{op}: a mask of shape {:?} does not fit the dims from {at} of {:?}", &mask[..], all.as_slice());
    refuse(Kind::Index, what)
}

impl View {
    pub(crate) fn select(&self, op: &str, axis: usize, index: i64) -> Result<View> {
        let sizes = self.shape().sizes();
        let Some(&n) = sizes.get(axis) else {
            return refuse(Kind::Index, format!("{op}: a tensor of rank 0 has no dim to index"));
        };
        if !(-(n as i64)..n as i64).contains(&index) {
            return refuse(Kind::Index, format!("{op}: {index} is outside dim {axis} of {:?}", sizes.as_slice()));
        }
        let at = index.rem_euclid(n as i64);
        Ok(self.slice(axis, Start::Runtime(at), 1, 1).drop_dim(axis))
    }
    fn span(&self, op: &str, axis: usize, start: Option<i64>, end: Option<i64>, step: i64) -> Result<View> {
        if step == 0 {
            return refuse(Kind::Index, format!("{op}: a step of 0"));
        }
        let n = self.shape().dim(axis).bound() as i64;
        let (from, len) = span_of(n, start, end, step);
        if from == 0 && len == n && step == 1 {
            return Ok(self.clone());
        }
        // 0 where the start is left out, whatever the size: part of the program.
        let from = if start.is_none() && step > 0 { Start::Static(from) } else { Start::Runtime(from) };
        Ok(self.slice(axis, from, len as usize, step))
    }
}

/// First position and number of positions of Python's `start:end:step` over `n` elements.
fn span_of(n: i64, start: Option<i64>, end: Option<i64>, step: i64) -> (i64, i64) {
    let wrap = |x: i64| if x < 0 { x + n } else { x };
    let (first, last) = match step > 0 {
        true => (start.map_or(0, |s| wrap(s).clamp(0, n)), end.map_or(n, |e| wrap(e).clamp(0, n))),
        false => (start.map_or(n - 1, |s| wrap(s).clamp(-1, n - 1)), end.map_or(-1, |e| wrap(e).clamp(-1, n - 1))),
    };
    let reach = if step > 0 { last - first } else { first - last };
    let len = if reach > 0 { (reach - 1) / step.abs() + 1 } else { 0 };
    (if len == 0 { 0 } else { first }, len)
}

#[cfg(test)]
mod tests {
    use super::span_of;

    #[test]
    fn spans_are_pythons() {
        assert_eq!(span_of(5, None, None, 1), (0, 5));
        assert_eq!(span_of(5, None, None, -1), (4, 5));
        assert_eq!(span_of(5, Some(1), Some(-1), 2), (1, 2));
        assert_eq!(span_of(5, Some(-2), None, 1), (3, 2));
        assert_eq!(span_of(5, Some(3), Some(0), -2), (3, 2));
        assert_eq!(span_of(5, Some(9), None, 1), (0, 0));
        assert_eq!(span_of(5, Some(9), None, -2), (4, 3));
        assert_eq!(span_of(0, None, None, -1), (0, 0));
    }
}
