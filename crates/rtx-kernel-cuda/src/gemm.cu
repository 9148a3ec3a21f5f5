#if !VECTOR
// C[b0, b1, i, j] = sum of A[b0, b1, i, p] B[b0, b1, p, j], p ascending by fused multiply-add in chunks of 512.
template <int TILE, int STEP, int EACH>
__device__ __forceinline__ void tiled(const Args& a) {
    const i64* s = a.s;
    const int m = (int)s[2], n = (int)s[3], k = (int)s[4];
    const u32 across = (u32)((n + TILE - 1) / TILE), down = (u32)((m + TILE - 1) / TILE);
    const u32 tile = blockIdx.x % (across * down), batch = blockIdx.x / (across * down);
    const i64 b0 = batch / (u32)s[1], b1 = batch % (u32)s[1];
    const int i0 = (int)(tile / across) * TILE, j0 = (int)(tile % across) * TILE;
    const T* A = (const T*)a.b[0] + b0 * s[5] + b1 * s[6];
    const T* B = (const T*)a.b[1] + b0 * s[9] + b1 * s[10];
    T* C = (T*)a.b[2] + b0 * s[13] + b1 * s[14];
    __shared__ T As[STEP][TILE + 4], Bs[STEP][TILE + 4];
    // A thread's outputs: rows tx + 16 r, columns ty + 16 c of the tile.
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    T total[EACH][EACH], acc[EACH][EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int c = 0; c < EACH; c++) total[r][c] = acc[r][c] = (T)0;
    const bool a_rows = s[8] != 1, b_rows = s[12] != 1;
    for (int p0 = 0; p0 < k; p0 += STEP) {
#pragma unroll
        for (int e = threadIdx.x; e < TILE * STEP; e += 256) {
            // Neighbouring threads read neighbouring elements, whichever way the operand lies.
            const int ai = a_rows ? e % TILE : e / STEP, ap = a_rows ? e / TILE : e % STEP;
            const int bj = b_rows ? e / STEP : e % TILE, bp = b_rows ? e % STEP : e / TILE;
            As[ap][ai] = i0 + ai < m && p0 + ap < k ? A[(i64)(i0 + ai) * s[7] + (i64)(p0 + ap) * s[8]] : (T)0;
            Bs[bp][bj] = j0 + bj < n && p0 + bp < k ? B[(i64)(p0 + bp) * s[11] + (i64)(j0 + bj) * s[12]] : (T)0;
        }
        __syncthreads();
#pragma unroll
        for (int p = 0; p < STEP; p++) {
            T x[EACH], y[EACH];
#pragma unroll
            for (int r = 0; r < EACH; r++) { x[r] = As[p][ty + 16 * r]; y[r] = Bs[p][tx + 16 * r]; }
            if (p0 + p < k) {
#pragma unroll
                for (int r = 0; r < EACH; r++)
#pragma unroll
                    for (int c = 0; c < EACH; c++) acc[r][c] = fused(x[r], y[c], acc[r][c]);
            }
        }
        __syncthreads();
        const int done = p0 + STEP;
        if (done % 512 == 0 || done >= k) {
            const bool first = p0 < 512;
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    total[r][c] = first ? acc[r][c] : add(total[r][c], acc[r][c]);
                    acc[r][c] = (T)0;
                }
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            const int i = i0 + ty + 16 * r, j = j0 + tx + 16 * c;
            if (i < m && j < n) C[(i64)i * s[15] + (i64)j * s[16]] = total[r][c];
        }
}
#if LARGE
extern "C" __global__ void __launch_bounds__(256) gemm_large(const __grid_constant__ Args a) { tiled<128, 8, 8>(a); }
#else
extern "C" __global__ void __launch_bounds__(256) gemm_small(const __grid_constant__ Args a) { tiled<64, 16, 4>(a); }
#endif
#else
// One row or column: element p to lane p mod 16, blocks of 4096, lanes by halves, blocks pairwise.
extern "C" __global__ void __launch_bounds__(256) gemm_vector(const __grid_constant__ Args a) {
    const i64* s = a.s;
    const i64 m = s[2], n = s[3], k = s[4], outputs = s[0] * s[1] * m * n;
    const u32 lane = threadIdx.x & 15, mask = 0xffffu << (threadIdx.x & 16);
    const i64 own = (i64)blockIdx.x * 16 + threadIdx.x / 16;
    const i64 out = own < outputs ? own : 0;
    const i64 j = out % n, i = out / n % m, batch = out / n / m, b1 = batch % s[1], b0 = batch / s[1];
    const T* A = (const T*)a.b[0] + b0 * s[5] + b1 * s[6] + i * s[7];
    const T* B = (const T*)a.b[1] + b0 * s[9] + b1 * s[10] + j * s[12];
    T stack[40], sum = (T)0;
    int top = 0;
    for (i64 block = 0; block * 4096 < k; block++) {
        const i64 end = block * 4096 + 4096 < k ? block * 4096 + 4096 : k;
        T acc = (T)0;
#pragma unroll 4
        for (i64 p = block * 4096 + lane; p < end; p += 16) acc = fused(A[p * s[8]], B[p * s[11]], acc);
#pragma unroll
        for (int half = 8; half > 0; half /= 2) acc = add(acc, lane_after(mask, acc, half));
        for (i64 b = block; b & 1; b >>= 1) acc = add(stack[--top], acc);
        stack[top++] = acc;
    }
    if (top > 0) sum = stack[--top];
    while (top > 0) sum = add(stack[--top], sum);
    if (lane == 0 && own < outputs) ((T*)a.b[2])[b0 * s[13] + b1 * s[14] + i * s[15] + j * s[16]] = sum;
}
#endif
