//! The text of warp-group products: instructions whose operands are as many registers as they have results.

/// The text that every kernel for sm_90a begins with.
pub(crate) const PRELUDE: &str = include_str!("hopper.cu");

/// Where the left operand is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// In shared memory, the summed axis along rows.
    Along,
    /// In shared memory, the summed axis across rows.
    Across,
    /// In registers.
    Registers,
}

/// A function `name` that adds a product of 64 x 16 and 16 x `n` halves to `d`, or sets it. `across`: the summed axis lies
/// across the right operand's rows of memory.
pub(crate) fn products(name: &str, n: usize, half: &str, left: Left, across: bool) -> String {
    let count = n / 2;
    let list = |f: fn(usize) -> String| (0..count).map(f).collect::<Vec<_>>().join(",");
    let (results, outs) = (list(|i| format!("%{i}")), list(|i| format!("\"+f\"(d[{i}])")));
    let b = u8::from(across);
    let (parameters, inputs, operands, flag, tail) = match left {
        Left::Registers => (
            "u32 a0, u32 a1, u32 a2, u32 a3, u64 right, int add",
            "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3), \"l\"(right), \"r\"(add)",
            format!("{{%{},%{},%{},%{}}}, %{}", count, count + 1, count + 2, count + 3, count + 4),
            count + 5,
            format!("p, 1, 1, {b}"),
        ),
        left => (
            "u64 left, u64 right, int add",
            "\"l\"(left), \"l\"(right), \"r\"(add)",
            format!("%{}, %{}", count, count + 1),
            count + 2,
            format!("p, 1, 1, {}, {b}", u8::from(left == Left::Across)),
        ),
    };
    format!(
        "__device__ __forceinline__ void {name}(f32 (&d)[{count}], {parameters}) {{\n    asm volatile(\"{{\\n.reg .pred p;\\n\
         setp.ne.b32 p, %{flag}, 0;\\nwgmma.mma_async.sync.aligned.m64n{n}k16.f32.{half}.{half} {{{results}}}, {operands}, {tail};\\n}}\\n\" \
         : {outs} : {inputs});\n}}\n"
    )
}
