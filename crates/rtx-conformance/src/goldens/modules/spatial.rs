//! Convolutions, pools and norms of channels by their class names.
use super::arguments::numbers;
use super::build::{Found, custom, layer, when};
use super::*;

/// With the places of the largest elements.
macro_rules! indexed {
    ($built:expr) => {
        custom($built, |l, a, inputs| {
            let (y, places) = l.forward_with_indices(&a.tensor(inputs, 0, "input")?);
            Ok(vec![y, places])
        })
    };
}
macro_rules! convolution {
    ($T:ident, $a:ident, $transposed:literal) => {{
        let kernel = $a.ints(2, "kernel_size").unwrap_or_default();
        let built = nn::$T::new($a.size(0, "in_channels")?, $a.size(1, "out_channels")?, kernel);
        let at = |plain: usize, transposed: usize| if $transposed { transposed } else { plain };
        let built = match $a.int(6, "groups") {
            Some(groups) if groups > 1 => built.groups(usize::try_from(groups).unwrap_or(1)),
            _ => built,
        };
        let built = set(built, $a.ints(3, "stride"), |l, v| l.stride(v));
        let built = convolution!(@ padding built, $a, $transposed);
        let built = set(built, $a.ints(at(5, 8), "dilation"), |l, v| l.dilation(v));
        let built =
            if $transposed { set(built, $a.ints(5, "output_padding"), |l, v| l.output_padding(v)) } else { built };
        layer(when(!$a.flag(7, "bias", true), built, |l| l.no_bias()))
    }};
    (@ padding $built:ident, $a:ident, $transposed:literal) => {
        match $a.take(4, "padding") {
            Some(Node::Word(word)) => when(word == "same", $built, |l| l.same_padding()),
            Some(node) => set($built, numbers(&node), |l, v| l.padding(v)),
            None => $built,
        }
    };
}
macro_rules! lazy {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "out_channels")?, $a.ints(1, "kernel_size").unwrap_or_default());
        match $a.take(usize::MAX, "padding") {
            Some(Node::Word(word)) if word == "same" => layer(built.with(|l| l.same_padding())),
            Some(node) => Err(Error::new(Kind::Unsupported, format!("lazy padding {node:?}"))),
            None => layer(built),
        }
    }};
}
macro_rules! padding {
    ($T:ident, $a:ident) => {
        layer(nn::$T::new($a.ints(0, "padding").unwrap_or_default()))
    };
    ($T:ident, $a:ident, value) => {
        layer(nn::$T::new($a.ints(0, "padding").unwrap_or_default(), $a.float_or(1, "value", 0.0)))
    };
}
macro_rules! norm_pool {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.float_or(0, "norm_type", 2.0), $a.ints(1, "kernel_size").unwrap_or_default());
        let built = set(built, $a.ints(2, "stride"), |l, v| l.stride(v));
        layer(when($a.flag(3, "ceil_mode", false), built, |l| l.ceil_mode(true)))
    }};
}
macro_rules! fractional {
    ($T:ident, $a:ident, $inputs:ident) => {{
        let kernel = $a.ints(0, "kernel_size").unwrap_or_default();
        let built = match ($a.ints(1, "output_size"), $a.float(2, "output_ratio")) {
            (Some(size), _) => nn::$T::to_size(kernel, size),
            (None, ratio) => nn::$T::by(kernel, ratio.unwrap_or(f64::NAN)),
        };
        let indices = $a.flag(3, "return_indices", false);
        let built = set(built, $a.setting($inputs, 4, "_random_samples")?, |l, t| l.samples(t));
        if indices { indexed!(built) } else { layer(built) }
    }};
}
macro_rules! adaptive_max {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.ints(0, "output_size").unwrap_or_default());
        if $a.flag(1, "return_indices", false) { indexed!(built) } else { layer(built) }
    }};
}
macro_rules! windows {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.ints(0, "kernel_size").unwrap_or_default());
        let built = set(built, $a.ints(1, "stride"), |l, v| l.stride(v));
        set(built, $a.ints(2, "padding"), |l, v| l.padding(v))
    }};
}
macro_rules! pool {
    ($T:ident, $a:ident, max) => {{
        let built = windows!($T, $a);
        let built = set(built, $a.ints(3, "dilation"), |l, v| l.dilation(v));
        let indices = $a.flag(4, "return_indices", false);
        let built = when($a.flag(5, "ceil_mode", false), built, |l| l.ceil_mode(true));
        if indices { indexed!(built) } else { layer(built) }
    }};
    ($T:ident, $a:ident, mean) => {{
        let built = windows!($T, $a);
        let built = when($a.flag(3, "ceil_mode", false), built, |l| l.ceil_mode(true));
        when(!$a.flag(4, "count_include_pad", true), built, |l| l.count_include_pad(false))
    }};
}
macro_rules! batch_norm {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "num_features")?).eps($a.float_or(1, "eps", 1e-5));
        // None, which is something else than leaving it out.
        let cumulative = $a.is_none(2, "momentum");
        let built = built.momentum($a.float_or(2, "momentum", 0.1));
        let built = when(cumulative, built, |l| l.cumulative());
        let built = when(!$a.flag(3, "affine", true), built, |l| l.no_affine());
        let built = when(!$a.flag(4, "track_running_stats", true), built, |l| l.no_running_stats());
        layer(when(!$a.flag(usize::MAX, "bias", true), built, |l| l.no_bias()))
    }};
}
macro_rules! instance_norm {
    ($T:ident, $a:ident) => {{
        let built = nn::$T::new($a.size(0, "num_features")?).eps($a.float_or(1, "eps", 1e-5));
        let built = built.momentum($a.float_or(2, "momentum", 0.1));
        let built = when($a.flag(3, "affine", false), built, |l| l.affine());
        let built = when($a.flag(4, "track_running_stats", false), built, |l| l.running_stats());
        layer(when(!$a.flag(usize::MAX, "bias", true), built, |l| l.no_bias()))
    }};
}

/// `x` with a setting where it is given.
fn set<T, V>(x: T, value: Option<V>, set: impl FnOnce(T, V) -> T) -> T {
    match value {
        Some(v) => set(x, v),
        None => x,
    }
}

pub(super) fn spatial(name: &str, a: &mut Arguments, inputs: &Inputs<'_>) -> Option<Found> {
    made(name, a, inputs).transpose()
}

fn made(name: &str, a: &mut Arguments, inputs: &Inputs<'_>) -> Result<Option<Box<dyn super::build::Built>>> {
    let size = |a: &mut Arguments| a.ints(0, "output_size").unwrap_or_default();
    let built = match name {
        "Conv1d" => convolution!(Conv1d, a, false),
        "Conv2d" => convolution!(Conv2d, a, false),
        "Conv3d" => convolution!(Conv3d, a, false),
        "ConvTranspose1d" => convolution!(ConvTranspose1d, a, true),
        "ConvTranspose2d" => convolution!(ConvTranspose2d, a, true),
        "ConvTranspose3d" => convolution!(ConvTranspose3d, a, true),
        "MaxPool1d" => pool!(MaxPool1d, a, max),
        "MaxPool2d" => pool!(MaxPool2d, a, max),
        "MaxPool3d" => pool!(MaxPool3d, a, max),
        "AvgPool1d" => layer(pool!(AvgPool1d, a, mean)),
        "AvgPool2d" => {
            let built = pool!(AvgPool2d, a, mean);
            layer(set(built, a.int(5, "divisor_override"), |l, n| l.divisor_override(Some(n))))
        }
        "AvgPool3d" => {
            let built = pool!(AvgPool3d, a, mean);
            layer(set(built, a.int(5, "divisor_override"), |l, n| l.divisor_override(Some(n))))
        }
        "AdaptiveAvgPool1d" => layer(nn::AdaptiveAvgPool1d::new(size(a))),
        "AdaptiveAvgPool2d" => layer(nn::AdaptiveAvgPool2d::new(size(a))),
        "AdaptiveAvgPool3d" => layer(nn::AdaptiveAvgPool3d::new(size(a))),
        "AdaptiveMaxPool1d" => adaptive_max!(AdaptiveMaxPool1d, a),
        "AdaptiveMaxPool2d" => adaptive_max!(AdaptiveMaxPool2d, a),
        "AdaptiveMaxPool3d" => adaptive_max!(AdaptiveMaxPool3d, a),
        "BatchNorm1d" => batch_norm!(BatchNorm1d, a),
        "BatchNorm2d" => batch_norm!(BatchNorm2d, a),
        "BatchNorm3d" => batch_norm!(BatchNorm3d, a),
        "GroupNorm" => {
            let built = nn::GroupNorm::new(a.size(0, "num_groups")?, a.size(1, "num_channels")?);
            let built = built.eps(a.float_or(2, "eps", 1e-5));
            let built = when(!a.flag(3, "affine", true), built, |l| l.no_affine());
            layer(when(!a.flag(usize::MAX, "bias", true), built, |l| l.no_bias()))
        }
        "InstanceNorm1d" => instance_norm!(InstanceNorm1d, a),
        "InstanceNorm2d" => instance_norm!(InstanceNorm2d, a),
        "InstanceNorm3d" => instance_norm!(InstanceNorm3d, a),
        "LocalResponseNorm" => {
            let built = nn::LocalResponseNorm::new(a.size(0, "size")?).alpha(a.float_or(1, "alpha", 1e-4));
            layer(built.beta(a.float_or(2, "beta", 0.75)).k(a.float_or(3, "k", 1.0)))
        }
        "LPPool1d" => norm_pool!(LPPool1d, a),
        "LPPool2d" => norm_pool!(LPPool2d, a),
        "LPPool3d" => norm_pool!(LPPool3d, a),
        "FractionalMaxPool2d" => fractional!(FractionalMaxPool2d, a, inputs),
        "FractionalMaxPool3d" => fractional!(FractionalMaxPool3d, a, inputs),
        _ => return padding(name, a),
    };
    built.map(Some)
}

/// What only moves elements, and layers made at their first call.
fn padding(name: &str, a: &mut Arguments) -> Result<Option<Box<dyn super::build::Built>>> {
    let built = match name {
        "ZeroPad1d" => padding!(ZeroPad1d, a),
        "ZeroPad2d" => padding!(ZeroPad2d, a),
        "ZeroPad3d" => padding!(ZeroPad3d, a),
        "ConstantPad1d" => padding!(ConstantPad1d, a, value),
        "ConstantPad2d" => padding!(ConstantPad2d, a, value),
        "ConstantPad3d" => padding!(ConstantPad3d, a, value),
        "ReflectionPad1d" => padding!(ReflectionPad1d, a),
        "ReflectionPad2d" => padding!(ReflectionPad2d, a),
        "ReflectionPad3d" => padding!(ReflectionPad3d, a),
        "ReplicationPad1d" => padding!(ReplicationPad1d, a),
        "ReplicationPad2d" => padding!(ReplicationPad2d, a),
        "ReplicationPad3d" => padding!(ReplicationPad3d, a),
        "CircularPad1d" => padding!(CircularPad1d, a),
        "CircularPad2d" => padding!(CircularPad2d, a),
        "CircularPad3d" => padding!(CircularPad3d, a),
        "LazyConv1d" => lazy!(LazyConv1d, a),
        "LazyConv2d" => lazy!(LazyConv2d, a),
        "LazyConv3d" => lazy!(LazyConv3d, a),
        "LazyConvTranspose1d" => lazy!(LazyConvTranspose1d, a),
        "LazyConvTranspose2d" => lazy!(LazyConvTranspose2d, a),
        "LazyConvTranspose3d" => lazy!(LazyConvTranspose3d, a),
        _ => return Ok(None),
    };
    built.map(Some)
}
