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
    // A thread's outputs: rows ty + 16 r, columns tx + 16 c of the tile.
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    T total[EACH][EACH], acc[EACH][EACH];
    // The first chunk is the sum so far bit by bit: -0 + x is x.
    const T none = k > 0 ? (T)-0.f : (T)0;
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int c = 0; c < EACH; c++) { total[r][c] = none; acc[r][c] = (T)0; }
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
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int c = 0; c < EACH; c++) {
                    total[r][c] = add(total[r][c], acc[r][c]);
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
