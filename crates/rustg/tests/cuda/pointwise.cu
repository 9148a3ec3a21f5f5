typedef i32 ix;
struct Args { u8* b[3]; i64 s[2]; Fault* fault; u64 step; };
extern "C" __global__ void __launch_bounds__(256) kernel(const __grid_constant__ Args a) {
    const i64 point = ((i64)blockIdx.x * 256 + threadIdx.x);
    if (point >= (i64)(((ix)a.s[0])) * (i64)(((ix)a.s[1]))) return;
    const ix n1 = ((ix)a.s[1]), q1 = (ix)point;
    const ix r1 = (ix)((u32)q1 / (u32)n1), c1 = q1 - r1 * n1;
    const ix c0 = r1;
    const bf16 v0 = ((const bf16*)a.b[0])[c0 * ((ix)a.s[1]) + c1];
    const f32 v1 = To<f32>::of(wide(v0));
    const f32 v2 = ((const f32*)a.b[1])[c1];
    const f32 v3 = exp_f32(v1);
    const f32 v4 = mul(v3, v2);
    ((f32*)a.b[2])[c0 * ((ix)a.s[1]) + c1] = v4;
}
