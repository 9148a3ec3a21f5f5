typedef i32 ix;
struct Args { u8* b[3]; i64 s[1]; Fault* fault; u64 step; };
extern "C" __global__ void __launch_bounds__(256) kernel(const __grid_constant__ Args a) {
    const i64 point = ((i64)blockIdx.x * 256 + threadIdx.x);
    if (point >= (i64)(((ix)4ll)) * (i64)(((ix)3ll))) return;
    const ix n1 = ((ix)3ll), q1 = (ix)point;
    const ix r1 = (ix)((u32)q1 / (u32)n1), c1 = q1 - r1 * n1;
    const ix c0 = r1;
    const i64 v0 = ((const i64*)a.b[1])[c0];
    if ((u64)v0 >= (u64)(i64)((ix)10ll) && ((ix)10ll) > 0) report(a.fault, a.step, v0, ((ix)10ll));
    const f32 v1 = ((ix)10ll) <= 0 ? f32{} : ((const f32*)a.b[0])[c1 + (ix)least(greatest(v0, 0ll), (i64)((ix)10ll) - 1) * ((ix)3ll)];
    const i64 v2 = From<i64>::raw(0x7ull);
    const i64 v3 = c0;
    const u32 v4 = random_u32(v2, v2, v3);
    const u32 v5 = From<u32>::raw(0x80000000ull);
    const u8 v6 = (u8)(v4 < v5);
    const f32 v7 = From<f32>::raw(0x0ull);
    const f32 v8 = v6 ? v1 : v7;
    ((f32*)a.b[2])[c0 * ((ix)3ll) + c1] = v8;
}
