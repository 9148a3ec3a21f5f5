//! Checkpoints: the same bits with and without, less kept, and what they refuse.
use rtx_tensor::{
    self as torch, Result, Tensor,
    autograd::{Function, Saved, checkpoint, checkpoint_sequential},
    functional as F, no_grad, tensor,
};

fn bits(t: &Tensor) -> Result<Vec<u32>> {
    Ok(t.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect())
}

/// A block with dropout and a weight of its own.
fn block(x: &Tensor, w: &Tensor) -> Tensor {
    F::dropout(&F::gelu(&x.matmul(w)), 0.25) + x
}

/// Bits of the loss and of all gradients. The random numbers come from a stream of its own: the other tests draw from
/// the common one meanwhile.
fn train(depth: usize, run: impl Fn(&Tensor, &Tensor) -> Tensor, flush: bool) -> Result<Vec<Vec<u32>>> {
    torch::with_generator(&torch::Generator::new(5), || train_drawing(depth, run, flush))
}

fn train_drawing(depth: usize, run: impl Fn(&Tensor, &Tensor) -> Tensor, flush: bool) -> Result<Vec<Vec<u32>>> {
    let x = torch::randn([8, 16]).requires_grad_();
    let ws: Vec<Tensor> = (0..depth).map(|_| torch::randn([16, 16]).requires_grad_()).collect();
    let y = ws.iter().fold(x.alias(), |x, w| run(&x, w));
    let loss = y.pow(2).mean(..);
    if flush {
        torch::flush()?;
    }
    loss.backward();
    let mut all = vec![bits(&loss)?];
    for t in std::iter::once(&x).chain(&ws) {
        all.push(bits(&t.grad().expect("a gradient"))?);
    }
    Ok(all)
}

#[test]
fn checkpointed_is_plain_bit_by_bit() -> Result<()> {
    let plain = train(3, block, false)?;
    for flush in [false, true] {
        assert_eq!(train(3, |x, w| checkpoint(|| block(x, w)), flush)?, plain);
        let nested = |x: &Tensor, w: &Tensor| checkpoint(|| checkpoint(|| block(x, w)));
        assert_eq!(train(3, nested, flush)?, plain);
        let some = |x: &Tensor, w: &Tensor| {
            let h = checkpoint(|| x.matmul(w));
            F::dropout(&checkpoint(|| F::gelu(&h)), 0.25) + x
        };
        assert_eq!(train(3, some, flush)?, plain);
    }
    Ok(())
}

#[test]
fn the_closure_is_called_once() -> Result<()> {
    let x = tensor!([1., 2.]).requires_grad_();
    let mut calls = 0;
    let y = checkpoint(|| {
        calls += 1;
        x.exp()
    });
    y.sum(..).backward();
    assert_eq!(calls, 1);
    assert_eq!(bits(&x.grad().expect("a gradient"))?, bits(&x.exp())?);
    Ok(())
}

#[test]
fn second_order_goes_through() -> Result<()> {
    let gradient = |f: &dyn Fn(&Tensor) -> Tensor| -> Result<Vec<u32>> {
        let x = tensor!([0.3, -0.7]).requires_grad_();
        let [g] = torch::Grad::of(&f(&x)).create_graph().wrt([&x]);
        g.pow(2).sum(..).backward();
        bits(&x.grad().expect("a gradient"))
    };
    let f = |x: &Tensor| (x.exp() * x.sin()).sum(..);
    assert_eq!(gradient(&|x| checkpoint(|| f(x)))?, gradient(&f)?);
    let twice = torch::func::grad(|x: &Tensor| torch::func::grad(|x| checkpoint(|| f(x)))(x).sum(..));
    let plain = torch::func::grad(|x: &Tensor| torch::func::grad(f)(x).sum(..));
    let x = tensor!([0.3, -0.7]);
    assert_eq!(bits(&twice(&x))?, bits(&plain(&x))?);
    let rows = torch::randn([3, 2]);
    let each = torch::func::vmap(torch::func::grad(|x| checkpoint(|| f(x))));
    assert_eq!(bits(&each(&rows))?, bits(&torch::func::vmap(torch::func::grad(f))(&rows))?);
    let j = torch::func::jacrev(|x| checkpoint(|| x.exp() * x.sum(..)));
    assert_eq!(bits(&j(&x))?, bits(&torch::func::jacrev(|x| x.exp() * x.sum(..))(&x))?);
    Ok(())
}

/// Straight through.
struct Ste;
impl Function<1> for Ste {
    fn forward(&self, saved: &mut Saved, [x]: [&Tensor; 1]) -> Tensor {
        saved.save(x);
        x.round()
    }
    fn backward(&self, saved: &Saved, g: &Tensor) -> [Option<Tensor>; 1] {
        [Some(g * saved.get(0))]
    }
}

#[test]
fn what_the_tape_says_counts() -> Result<()> {
    let gradient = |run: &dyn Fn(&dyn Fn() -> Tensor) -> Tensor| -> Result<Vec<u32>> {
        let x = tensor!([0.3, -1.7]).requires_grad_();
        let y = run(&|| Ste.apply([&x]) * x.detach() + no_grad(|| x.exp()) * x.clone());
        y.sum(..).backward();
        bits(&x.grad().expect("a gradient"))
    };
    assert_eq!(gradient(&|f| checkpoint(f))?, gradient(&|f| f())?);
    Ok(())
}

#[test]
fn several_results_and_written_cells() -> Result<()> {
    let run = |with: bool| -> Result<Vec<Vec<u32>>> {
        let x = tensor!([0.3, -1.7]).requires_grad_();
        let mean = torch::zeros([2]);
        let f = || {
            no_grad(|| drop(mean.mul_(0.9).add_(x.sin()).alias()));
            (x.exp(), [x.sin(), x.alias()])
        };
        let (a, [b, c]) = if with { checkpoint(f) } else { f() };
        (&a * &b + c).sum(..).backward();
        Ok(vec![bits(&x.grad().expect("a gradient"))?, bits(&mean)?, bits(&a)?])
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}

#[test]
fn reading_inside_is_an_error_and_leaves_things_as_before() -> Result<()> {
    let x = tensor!([0.3, -1.7]).requires_grad_();
    let mut said = None;
    let y = checkpoint(|| {
        said = x.exp().to_vec::<f32>().err().map(|e| e.to_string());
        x.exp()
    });
    let said = said.expect("not there yet");
    assert!(said.starts_with("read: inside checkpoint a tensor stands for values that are not there yet"), "{said}");
    // What is there may be read.
    let z = checkpoint(|| x.exp() * x.to_vec::<f32>().expect("a value from outside")[0]);
    (y.sum(..) + z.sum(..)).backward();
    assert!(x.grad().is_some());
    let cell = torch::zeros([2]);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        checkpoint(|| {
            cell.add_(x.detach());
            if true {
                panic!("of the user");
            }
            x.exp()
        })
    }));
    assert!(panic.is_err());
    assert_eq!(cell.to_vec::<f32>()?, [0.0, 0.0]);
    assert_eq!((&cell + 1).to_vec::<f32>()?, [1.0, 1.0]);
    Ok(())
}

#[test]
fn sequential() -> Result<()> {
    let draw = |segments: usize| -> Result<Vec<u32>> {
        let x = torch::randn([4, 16]).requires_grad_();
        let ws: Vec<Tensor> = (0..5).map(|_| torch::randn([16, 16])).collect();
        let layers: Vec<Box<dyn Fn(&Tensor) -> Tensor>> =
            ws.iter().map(|w| Box::new(move |x: &Tensor| block(x, w)) as _).collect();
        let layers: Vec<&dyn Fn(&Tensor) -> Tensor> = layers.iter().map(|f| &**f).collect();
        checkpoint_sequential(&layers, segments, &x).sum(..).backward();
        bits(&x.grad().expect("a gradient"))
    };
    let run = |segments| torch::with_generator(&torch::Generator::new(5), || draw(segments));
    let plain = run(1)?;
    for segments in [2, 3, 5, 9] {
        assert_eq!(run(segments)?, plain);
    }
    Ok(())
}
