// One row or column: element p to lane p mod 16, blocks of 4096, lanes by halves, blocks pairwise, in Sum.
extern "C" __global__ void __launch_bounds__(256) gemm_vector(const __grid_constant__ Args a) {
    const i64* s = a.s;
    const i64 m = s[2], n = s[3], k = s[4], outputs = s[0] * s[1] * m * n;
    const u32 lane = threadIdx.x & 15, mask = 0xffffu << (threadIdx.x & 16);
    const i64 own = (i64)blockIdx.x * 16 + threadIdx.x / 16;
    const i64 out = own < outputs ? own : 0;
    const i64 j = out % n, i = out / n % m, batch = out / n / m, b1 = batch % s[1], b0 = batch / s[1];
    const T* A = (const T*)a.b[0] + b0 * s[5] + b1 * s[6] + i * s[7];
    const T* B = (const T*)a.b[1] + b0 * s[9] + b1 * s[10] + j * s[12];
    Sum stack[40], sum = (Sum)0;
    int top = 0;
    for (i64 block = 0; block * 4096 < k; block++) {
        const i64 end = block * 4096 + 4096 < k ? block * 4096 + 4096 : k;
        Sum acc = (Sum)0;
#pragma unroll 4
        for (i64 p = block * 4096 + lane; p < end; p += 16) acc = fused(wide(A[p * s[8]]), wide(B[p * s[11]]), acc);
#pragma unroll
        for (int half = 8; half > 0; half /= 2) acc = add(acc, lane_after(mask, acc, half));
        for (i64 b = block; b & 1; b >>= 1) acc = add(stack[--top], acc);
        stack[top++] = acc;
    }
    if (top > 0) sum = stack[--top];
    while (top > 0) sum = add(stack[--top], sum);
    if (lane == 0 && own < outputs) ((O*)a.b[2])[b0 * s[13] + b1 * s[14] + i * s[15] + j * s[16]] = To<O>::of(sum);
}
