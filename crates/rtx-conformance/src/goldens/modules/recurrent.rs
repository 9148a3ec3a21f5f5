//! Recurrent layers by their class names.
use super::build::{Built, Found, custom, when};
use super::*;

macro_rules! stack {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "input_size")?, $a.size(1, "hidden_size")?);
        let built = match $a.int(2, "num_layers") {
            Some(n) => built.num_layers(usize::try_from(n).unwrap_or(1)),
            None => built,
        };
        let built = if $a.flag(3, "bias", true) { built } else { built.no_bias() };
        let built = if $a.flag(4, "batch_first", false) { built.batch_first() } else { built };
        // Dropout is 0 throughout.
        $a.float(5, "dropout");
        if $a.flag(6, "bidirectional", false) { built.bidirectional() } else { built }
    }};
}

macro_rules! cell {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "input_size")?, $a.size(1, "hidden_size")?);
        when(!$a.flag(2, "bias", true), built, |l| l.no_bias())
    }};
}

pub(super) fn recurrent(name: &str, a: &mut Arguments, _: &Inputs<'_>) -> Option<Found> {
    made(name, a).transpose()
}

fn made(name: &str, a: &mut Arguments) -> Result<Option<Box<dyn Built>>> {
    let built = match name {
        "LSTM" => {
            let built = stack!(LSTM, a);
            let projection = a.int(usize::MAX, "proj_size").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            custom(when(projection > 0, built, |l| l.projection(projection)), |l, a, inputs| {
                let (x, states) = (a.tensor(inputs, 0, "input")?, states_of(a, inputs)?);
                let given = if let [h, c] = states.as_slice() { Some([h, c]) } else { None };
                let (y, [h, c]) = l.forward(&x, given);
                Ok(vec![y, h, c])
            })
        }
        "GRU" => custom(stack!(GRU, a), |l, a, inputs| {
            let (x, h) = (a.tensor(inputs, 0, "input")?, a.tensor_or_none(inputs, 1, "hx")?);
            let (y, h) = l.forward(&x, h.as_ref());
            Ok(vec![y, h])
        }),
        "RNN" => {
            let relu = a.word(usize::MAX, "nonlinearity").as_deref() == Some("relu");
            custom(when(relu, stack!(RNN, a), |l| l.relu()), |l, a, inputs| {
                let (x, h) = (a.tensor(inputs, 0, "input")?, a.tensor_or_none(inputs, 1, "hx")?);
                let (y, h) = l.forward(&x, h.as_ref());
                Ok(vec![y, h])
            })
        }
        "LSTMCell" => custom(cell!(LSTMCell, a), |l, a, inputs| {
            let (x, states) = (a.tensor(inputs, 0, "input")?, states_of(a, inputs)?);
            let given = if let [h, c] = states.as_slice() { Some([h, c]) } else { None };
            Ok(l.forward(&x, given).into())
        }),
        "GRUCell" => custom(cell!(GRUCell, a), |l, a, inputs| {
            let (x, h) = (a.tensor(inputs, 0, "input")?, a.tensor_or_none(inputs, 1, "hx")?);
            Ok(vec![l.forward(&x, h.as_ref())])
        }),
        "RNNCell" => {
            let built = cell!(RNNCell, a);
            let relu = a.word(3, "nonlinearity").as_deref() == Some("relu");
            custom(when(relu, built, |l| l.relu()), |l, a, inputs| {
                let (x, h) = (a.tensor(inputs, 0, "input")?, a.tensor_or_none(inputs, 1, "hx")?);
                Ok(vec![l.forward(&x, h.as_ref())])
            })
        }
        _ => return Ok(None),
    };
    built.map(Some)
}

/// States given as a tuple; none where they are left out.
fn states_of(a: &mut Arguments, inputs: &mut Inputs<'_>) -> Result<Vec<Tensor>> {
    match a.take(1, "hx") {
        Some(node) => node.elements().iter().map(|n| tensor_argument(inputs, n)).collect(),
        None => Ok(Vec::new()),
    }
}

fn tensor_argument(inputs: &mut Inputs<'_>, node: &Node) -> Result<Tensor> {
    match inputs.argument(node)? {
        rustytorch::Argument::Tensor(t) => Ok(t),
        _ => Err(Error::new(Kind::Format, "a state is no tensor")),
    }
}
