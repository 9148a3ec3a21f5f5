typedef i32 ix;
struct Args { u8* b[2]; i64 s[2]; Fault* fault; u64 step; };
extern "C" __global__ void __launch_bounds__(256) kernel(const __grid_constant__ Args a) {
    const i64 point = 8 * ((i64)blockIdx.x * 256 + threadIdx.x);
    if (point >= (i64)(((ix)a.s[0]) * ((ix)a.s[1]))) return;
    const ix c0 = (ix)point;
    bf16 w0[8]; take(w0, (const bf16*)a.b[0] + (c0));
    bf16 to0[8];
    const ix first = c0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const ix c0 = first + k;
        const bf16 v0 = w0[k];
        const f32 v1 = To<f32>::of(wide(v0));
        const f32 v2 = exp_f32(v1);
        const bf16 v3 = To<bf16>::of(wide(v2));
        to0[k] = v3;
    }
    put((bf16*)a.b[1] + (c0), to0);
}
