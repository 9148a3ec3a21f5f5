//! Layers' values against hand calculation; files; the cache against the whole.
use rtx_nn::*;
use rtx_tensor::{self as torch, Tensor, no_grad};

fn close(a: &Tensor, want: &[f32], tolerance: f32) {
    let got = a.to_vec::<f32>().expect("runs");
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance, "{got:?} is not {want:?}");
    }
}

#[test]
fn linear_and_norm_by_hand() {
    let x = torch::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]);
    let layer = Linear::new(2, 1);
    init::constant_(&layer.weight, 0.5);
    init::constant_(layer.bias.as_ref().expect("has one"), 1.0);
    close(&layer.forward(&x), &[2.5, 4.5], 1e-6);
    close(&LayerNorm::new(2).forward(&x), &[-0.99998, 0.99998, -0.99998, 0.99998], 1e-4);
    let rows = Embedding::new(3, 2);
    rows.weight.set_data(&torch::from_slice(&[0f32, 1.0, 10.0, 11.0, 20.0, 21.0], [3, 2]));
    close(&rows.forward(&torch::from_slice(&[2i64, 0], 2)), &[20.0, 21.0, 0.0, 1.0], 0.0);
}

#[test]
fn first_values_lie_where_pytorch_puts_them() {
    torch::manual_seed(3);
    let weights = Linear::new(16, 64).weight.to_vec::<f32>().expect("runs");
    assert!(weights.iter().all(|w| w.abs() <= 0.25), "within 1/√16");
    assert!(weights.iter().any(|w| w.abs() > 0.2));
    let table = Embedding::new(64, 64).weight.to_vec::<f32>().expect("runs");
    let variance = table.iter().map(|w| w * w).sum::<f32>() / table.len() as f32;
    assert!((variance - 1.0).abs() < 0.1, "{variance}");
}

#[test]
fn clipping_scales_the_common_norm() {
    let params = [Param::new(torch::zeros(2)), Param::new(torch::zeros(1))];
    params[0].set_grad(Some(torch::from_slice(&[3f32, 0.0], 2)));
    params[1].set_grad(Some(torch::from_slice(&[4f32], 1)));
    let norm = clip_grad_norm_(&params, 1.0);
    close(&norm, &[5.0], 1e-6);
    close(&params[0].grad().expect("has one"), &[0.6, 0.0], 1e-6);
    close(&clip_grad_norm_(&params, 10.0), &[1.0], 1e-5);
    close(&params[1].grad().expect("has one"), &[0.8], 1e-6);
}

#[test]
fn dropout_keeps_the_mean() {
    torch::manual_seed(5);
    let y = Dropout::new(0.25).forward(&torch::ones(4000)).to_vec::<f32>().expect("runs");
    let zeros = y.iter().filter(|&&v| v == 0.0).count();
    assert!((900..1100).contains(&zeros), "{zeros} of 4000 are dropped");
    assert!(y.iter().all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6));
}

#[test]
fn a_model_comes_back_from_its_file() {
    let path = std::env::temp_dir().join(format!("rtx-nn-model-{}.safetensors", std::process::id()));
    let (a, b) = (seq![Linear::new(3, 4), ReLU, Linear::new(4, 2)], seq![Linear::new(3, 4), ReLU, Linear::new(4, 2)]);
    a.save(&path).expect("saves");
    b.load(&path).expect("loads");
    let x = torch::ones([1, 3]);
    assert_eq!(a.forward(&x).to_vec::<f32>().expect("runs"), b.forward(&x).to_vec::<f32>().expect("runs"));
    let e = seq![Linear::new(3, 5)].load(&path).expect_err("another architecture");
    assert!(e.message().starts_with("load_state_dict: file and model differ\n"), "{e}");
    let _ = std::fs::remove_file(&path);
    assert!(a.load(&path).expect_err("gone").message().contains(": cannot read: "));
}

#[test]
fn decoding_with_a_cache_is_the_whole_attention() {
    torch::manual_seed(7);
    let (width, heads, time) = (8, 2, 6);
    let attention = CausalSelfAttention::new(width, heads);
    let x = torch::randn((1, time, width));
    no_grad(|| {
        let whole = attention.forward(&x).to_vec::<f32>().expect("runs");
        let cache = attention.cache(1, time);
        let prompt = 2;
        let mut got = attention.forward_cached(&x.narrow(1, 0, prompt), &cache, 0).to_vec::<f32>().expect("runs");
        for start in prompt..time {
            let row = attention.forward_cached(&x.narrow(1, start, 1), &cache, start);
            got.extend(row.to_vec::<f32>().expect("runs"));
        }
        for (g, w) in got.iter().zip(&whole) {
            assert!((g - w).abs() < 1e-5, "{got:?} is not {whole:?}");
        }
        assert_eq!(cache.capacity(), time);
    });
}
