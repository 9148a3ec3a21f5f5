typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
// Halves and eighths are their bits: arithmetic on them is done in f32.
struct f16 { u16 x; };
struct bf16 { u16 x; };
struct e4m3 { u8 x; };
struct e5m2 { u8 x; };
struct __align__(8) c64 { f32 re, im; };
struct __align__(16) c128 { f64 re, im; };
struct Fault { u64 state; i64 index, bound; };

__device__ __forceinline__ u32 raw(f32 x) { return __float_as_uint(x); }
__device__ __forceinline__ u64 raw(f64 x) { return (u64)__double_as_longlong(x); }
__device__ __forceinline__ u16 raw(f16 x) { return x.x; }
__device__ __forceinline__ u16 raw(bf16 x) { return x.x; }
__device__ __forceinline__ u8 raw(e4m3 x) { return x.x; }
__device__ __forceinline__ u8 raw(e5m2 x) { return x.x; }
__device__ __forceinline__ u64 raw(c64 x) { return (u64)raw(x.im) << 32 | raw(x.re); }
__device__ __forceinline__ u8 raw(u8 x) { return x; }
__device__ __forceinline__ u8 raw(i8 x) { return (u8)x; }
__device__ __forceinline__ u16 raw(u16 x) { return x; }
__device__ __forceinline__ u16 raw(i16 x) { return (u16)x; }
__device__ __forceinline__ u32 raw(u32 x) { return x; }
__device__ __forceinline__ u32 raw(i32 x) { return (u32)x; }
__device__ __forceinline__ u64 raw(u64 x) { return x; }
__device__ __forceinline__ u64 raw(i64 x) { return (u64)x; }
template <class T> struct From { static __device__ __forceinline__ T raw(u64 x) { return (T)x; } };
template <> struct From<f32> { static __device__ __forceinline__ f32 raw(u64 x) { return __uint_as_float((u32)x); } };
template <> struct From<f64> { static __device__ __forceinline__ f64 raw(u64 x) { return __longlong_as_double((i64)x); } };
template <> struct From<f16> { static __device__ __forceinline__ f16 raw(u64 x) { return f16{(u16)x}; } };
template <> struct From<bf16> { static __device__ __forceinline__ bf16 raw(u64 x) { return bf16{(u16)x}; } };
template <> struct From<e4m3> { static __device__ __forceinline__ e4m3 raw(u64 x) { return e4m3{(u8)x}; } };
template <> struct From<e5m2> { static __device__ __forceinline__ e5m2 raw(u64 x) { return e5m2{(u8)x}; } };
template <> struct From<c64> {
    static __device__ __forceinline__ c64 raw(u64 x) { return c64{__uint_as_float((u32)x), __uint_as_float((u32)(x >> 32))}; }
};

// Arithmetic on integers wraps: it is done on unsigned words.
template <class T> __device__ __forceinline__ T add(T a, T b) { return (T)((u64)a + (u64)b); }
template <class T> __device__ __forceinline__ T sub(T a, T b) { return (T)((u64)a - (u64)b); }
template <class T> __device__ __forceinline__ T mul(T a, T b) { return (T)((u64)a * (u64)b); }
template <> __device__ __forceinline__ f32 add(f32 a, f32 b) { return __fadd_rn(a, b); }
template <> __device__ __forceinline__ f32 sub(f32 a, f32 b) { return __fsub_rn(a, b); }
template <> __device__ __forceinline__ f32 mul(f32 a, f32 b) { return __fmul_rn(a, b); }
template <> __device__ __forceinline__ f64 add(f64 a, f64 b) { return __dadd_rn(a, b); }
template <> __device__ __forceinline__ f64 sub(f64 a, f64 b) { return __dsub_rn(a, b); }
template <> __device__ __forceinline__ f64 mul(f64 a, f64 b) { return __dmul_rn(a, b); }
template <class T> __device__ __forceinline__ T neg(T a) { return (T)(0 - (u64)a); }
template <> __device__ __forceinline__ f32 neg(f32 a) { return -a; }
template <> __device__ __forceinline__ f64 neg(f64 a) { return -a; }
__device__ __forceinline__ f32 fused(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f64 fused(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
template <class T> __device__ __forceinline__ T fused(T a, T b, T c) { return add(mul(a, b), c); }
// The second of two zeros; NaN if either is.
template <class T> __device__ __forceinline__ T greatest(T a, T b) { T m = a > b ? a : b; return a != a ? a : m; }
template <class T> __device__ __forceinline__ T least(T a, T b) { T m = a < b ? a : b; return a != a ? a : m; }
__device__ __forceinline__ f32 absolute(f32 x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
__device__ __forceinline__ f64 absolute(f64 x) { return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffll); }
template <class T> __device__ __forceinline__ T absolute(T x) { return x < 0 ? neg(x) : x; }
template <class T> __device__ __forceinline__ T sign(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : (T)0; }
template <> __device__ __forceinline__ f32 sign(f32 x) { return x != x ? x : (x > 0.f ? 1.f : 0.f) - (x < 0.f ? 1.f : 0.f); }
template <> __device__ __forceinline__ f64 sign(f64 x) { return x != x ? x : (x > 0. ? 1. : 0.) - (x < 0. ? 1. : 0.); }
__device__ __forceinline__ f32 quotient(f32 a, f32 b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ f64 quotient(f64 a, f64 b) { return __ddiv_rn(a, b); }
// Quotients by one divisor: by its reciprocal y, with t = a y and r = a - t b, t + r y is the quotient rounded once
// (Markstein), as long as nothing is too small or too large. The reciprocal is NaN where the divisor is.
__device__ __forceinline__ f32 inverse(f32 b) { return b >= 0.015625f && b < 1073741824.f ? __frcp_rn(b) : __uint_as_float(0x7fc00000u); }
__device__ __forceinline__ f32 quotient_by(f32 a, f32 b, f32 y) {
    const f32 t = __fmul_rn(a, y);
    if (__builtin_expect(fabsf(t) >= 1.2621774e-29f && fabsf(t) < 7.9228163e28f, 1)) return __fmaf_rn(__fmaf_rn(-t, b, a), y, t);
    return a == 0.f && y == y ? a : __fdiv_rn(a, b);
}
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
    if (b == 0) return 0;
    if ((T)-1 < 0 && b == (T)-1) return neg(a);
    return (T)(a / b);
}
template <class T> __device__ __forceinline__ T modulo(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    T r = (T)(a % b);
    return r != 0 && (r < 0) != (b < 0) ? add(r, b) : r;
}
template <> __device__ __forceinline__ f32 modulo(f32 a, f32 b) {
    f32 r = fmodf(a, b);
    return r != 0.f && (r < 0.f) != (b < 0.f) ? __fadd_rn(r, b) : r;
}
template <> __device__ __forceinline__ f64 modulo(f64 a, f64 b) {
    f64 r = fmod(a, b);
    return r != 0. && (r < 0.) != (b < 0.) ? __dadd_rn(r, b) : r;
}
template <class T> __device__ __forceinline__ T power(T a, T b) {
    if (b < 0) return a == 1 ? (T)1 : (T)-1 < 0 && a == (T)-1 ? (b & 1 ? a : (T)1) : (T)0;
    T y = 1;
    for (T n = b; n > 0; n = (T)(n >> 1)) {
        if (n & 1) y = mul(y, a);
        a = mul(a, a);
    }
    return y;
}
template <class T> __device__ __forceinline__ T shift_left(T a, T b) {
    return b < 0 || (u64)b >= 8 * sizeof(T) ? (T)0 : (T)((u64)a << b);
}
template <class T> __device__ __forceinline__ T shift_right(T a, T b) {
    const int most = 8 * sizeof(T) - 1;
    if (b >= 0 && (u64)b <= most) return (T)(a >> b);
    return (T)-1 < 0 ? (T)(a >> most) : (T)0;
}

// Conversions: float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is != 0.
__device__ __forceinline__ f32 wide(f16 h) { f32 y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(h.x)); return y; }
__device__ __forceinline__ f32 wide(bf16 h) { return __uint_as_float((u32)h.x << 16); }
__device__ __forceinline__ f32 wide(e5m2 h) { return wide(f16{(u16)(h.x << 8)}); }
__device__ __forceinline__ f32 wide(e4m3 h) {
    f32 finite = __fmul_rn(__uint_as_float((u32)(h.x & 0x7f) << 20), __uint_as_float((127u + 120) << 23));
    u32 bits = (h.x & 0x7f) == 0x7f ? 0x7fc00000u : __float_as_uint(finite);
    return __uint_as_float(bits | (u32)(h.x & 0x80) << 24);
}
template <class T> __device__ __forceinline__ T wide(T x) { return x; }
__device__ __forceinline__ f32 wide(c64 x) { return x.re; }
__device__ __forceinline__ f64 wide(c128 x) { return x.re; }

// Rounded to odd: a second rounding to a shorter type is then right.
__device__ __forceinline__ f32 odd(f64 x) {
    f32 y = __double2float_rz(x);
    bool lost = (f64)y != x && x == x && absolute(x) != __longlong_as_double(0x7ff0000000000000ll);
    return lost ? __uint_as_float(__float_as_uint(y) | 1u) : y;
}
__device__ __forceinline__ f32 odd(f32 x) { return x; }
template <class T> __device__ __forceinline__ f32 odd(T x) { return odd((f64)x); }

// The conversions of pairs: those of single numbers run at an eighth of their rate.
__device__ __forceinline__ f16 narrow_f16(f32 x) { u32 w; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(0.f), "f"(x)); return f16{(u16)w}; }
__device__ __forceinline__ bf16 narrow_bf16(f32 x) { u32 w; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(0.f), "f"(x)); return bf16{(u16)w}; }
__device__ __forceinline__ e4m3 narrow_e4m3(f32 x) {
    u32 sign = (__float_as_uint(x) >> 24) & 0x80, bits = __float_as_uint(x) & 0x7fffffffu;
    u32 small = __float_as_uint(__fadd_rn(__uint_as_float(bits), 16384.f)) - __float_as_uint(16384.f);
    u32 normal = (bits - (120u << 23) + (0x7ffffu + ((bits >> 20) & 1))) >> 20;
    u32 magnitude = bits < 121u << 23 ? small : normal;
    return e4m3{(u8)(sign | (bits >= __float_as_uint(480.f) ? 0x7f : magnitude))};
}
__device__ __forceinline__ e5m2 narrow_e5m2(f32 x) {
    u32 sign = (__float_as_uint(x) >> 24) & 0x80, bits = __float_as_uint(x) & 0x7fffffffu;
    u32 small = __float_as_uint(__fadd_rn(__uint_as_float(bits), 128.f)) - __float_as_uint(128.f);
    u32 normal = (bits - (112u << 23) + (0xfffffu + ((bits >> 21) & 1))) >> 21;
    u32 magnitude = bits < 113u << 23 ? small : normal;
    magnitude = bits >= 143u << 23 ? 0x7c : magnitude;
    return e5m2{(u8)(sign | (bits > 0x7f800000u ? 0x7f : magnitude))};
}

// To<T>::of(x): x is what `wide` gives.
template <class T> struct To {
    template <class S> static __device__ __forceinline__ T of(S x) { return (T)x; }
    static __device__ __forceinline__ T of(f32 x) { return of((f64)x); }
    // Types of up to 32 bits, and those of 64 below.
    static __device__ __forceinline__ T of(f64 x) {
        const bool is_signed = (T)-1 < (T)0;
        const i64 low = is_signed ? -(1ll << (8 * sizeof(T) - 1)) : 0;
        const i64 high = is_signed ? (1ll << (8 * sizeof(T) - 1)) - 1 : (i64)((1ull << (8 * sizeof(T) % 64)) - 1);
        if (!(x == x)) return 0;
        if (x <= (f64)low) return (T)low;
        if (x >= (f64)high) return (T)high;
        return (T)(i64)x;
    }
};
template <> __device__ __forceinline__ i64 To<i64>::of(f64 x) {
    return !(x == x) ? 0 : x >= 9223372036854775808. ? 0x7fffffffffffffffll : x <= -9223372036854775808. ? (i64)0x8000000000000000ull : (i64)x;
}
template <> __device__ __forceinline__ u64 To<u64>::of(f64 x) {
    return !(x > 0.) ? 0 : x >= 18446744073709551616. ? ~0ull : (u64)x;
}
template <> struct To<f32> { template <class S> static __device__ __forceinline__ f32 of(S x) { return (f32)x; } };
template <> struct To<f64> { template <class S> static __device__ __forceinline__ f64 of(S x) { return (f64)x; } };
template <> struct To<f16> { template <class S> static __device__ __forceinline__ f16 of(S x) { return narrow_f16(odd(x)); } };
template <> struct To<bf16> { template <class S> static __device__ __forceinline__ bf16 of(S x) { return narrow_bf16(odd(x)); } };
template <> struct To<e4m3> { template <class S> static __device__ __forceinline__ e4m3 of(S x) { return narrow_e4m3(odd(x)); } };
template <> struct To<e5m2> { template <class S> static __device__ __forceinline__ e5m2 of(S x) { return narrow_e5m2(odd(x)); } };
template <> struct To<c64> { template <class S> static __device__ __forceinline__ c64 of(S x) { return c64{(f32)x, 0.f}; } };
template <> struct To<c128> { template <class S> static __device__ __forceinline__ c128 of(S x) { return c128{(f64)x, 0.}; } };

// The lane `by` further on among 16, and the first one's.
template <class T> __device__ __forceinline__ T lane_after(u32 mask, T x, int by) { return (T)__shfl_down_sync(mask, (int)x, by, 16); }
template <> __device__ __forceinline__ u32 lane_after(u32 mask, u32 x, int by) { return __shfl_down_sync(mask, x, by, 16); }
template <> __device__ __forceinline__ f32 lane_after(u32 mask, f32 x, int by) { return __shfl_down_sync(mask, x, by, 16); }
template <> __device__ __forceinline__ i64 lane_after(u32 mask, i64 x, int by) { return __shfl_down_sync(mask, x, by, 16); }
template <> __device__ __forceinline__ u64 lane_after(u32 mask, u64 x, int by) { return __shfl_down_sync(mask, x, by, 16); }
template <> __device__ __forceinline__ f64 lane_after(u32 mask, f64 x, int by) { return __shfl_down_sync(mask, x, by, 16); }
template <class T> __device__ __forceinline__ T lane_first(u32 mask, T x) { return (T)__shfl_sync(mask, (int)x, 0, 16); }
template <> __device__ __forceinline__ u32 lane_first(u32 mask, u32 x) { return __shfl_sync(mask, x, 0, 16); }
template <> __device__ __forceinline__ f32 lane_first(u32 mask, f32 x) { return __shfl_sync(mask, x, 0, 16); }
template <> __device__ __forceinline__ i64 lane_first(u32 mask, i64 x) { return __shfl_sync(mask, x, 0, 16); }
template <> __device__ __forceinline__ u64 lane_first(u32 mask, u64 x) { return __shfl_sync(mask, x, 0, 16); }
template <> __device__ __forceinline__ f64 lane_first(u32 mask, f64 x) { return __shfl_sync(mask, x, 0, 16); }

// Word 0 of Philox4x32-10 for a 64-bit key and the counter (index, ordinal), low words first.
__device__ __forceinline__ u32 random_u32(i64 key, i64 ordinal, i64 index) {
    u32 k0 = (u32)key, k1 = (u32)((u64)key >> 32);
    u32 c0 = (u32)index, c1 = (u32)((u64)index >> 32), c2 = (u32)ordinal, c3 = (u32)((u64)ordinal >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        if (round > 0) { k0 += 0x9e3779b9u; k1 += 0xbb67ae85u; }
        u64 p = (u64)c0 * 0xd2511f53u, q = (u64)c2 * 0xcd9e8d57u;
        u32 n0 = (u32)(q >> 32) ^ c1 ^ k0, n2 = (u32)(p >> 32) ^ c3 ^ k1;
        c1 = (u32)q; c3 = (u32)p; c0 = n0; c2 = n2;
    }
    return c0;
}

// The first report of a region is kept.
__device__ __noinline__ void report(Fault* fault, u64 step, i64 index, i64 bound) {
    if (atomicCAS(&fault->state, 0ull, step + 1) == 0) { fault->index = index; fault->bound = bound; }
}
// Neighbours in one piece where they lie on its boundary, else one by one.
template <int bytes> struct Piece;
template <> struct Piece<4> { typedef u32 type; };
template <> struct Piece<8> { typedef uint2 type; };
template <> struct Piece<16> { typedef uint4 type; };
template <class T, int n> __device__ __forceinline__ void take(T (&to)[n], const T* from) {
    constexpr int bytes = sizeof(T) * n, step = bytes < 16 ? bytes : 16;
    typedef typename Piece<step>::type P;
    if (((u64)from & (step - 1)) == 0) {
#pragma unroll
        for (int i = 0; i < bytes / step; i++) {
            const P piece = ((const P*)from)[i];
            memcpy((u8*)to + i * step, &piece, step);
        }
    } else {
#pragma unroll
        for (int i = 0; i < n; i++) to[i] = from[i];
    }
}
template <class T, int n> __device__ __forceinline__ void put(T* to, const T (&from)[n]) {
    constexpr int bytes = sizeof(T) * n, step = bytes < 16 ? bytes : 16;
    typedef typename Piece<step>::type P;
    if (((u64)to & (step - 1)) == 0) {
#pragma unroll
        for (int i = 0; i < bytes / step; i++) {
            P piece;
            memcpy(&piece, (const u8*)from + i * step, step);
            ((P*)to)[i] = piece;
        }
    } else {
#pragma unroll
        for (int i = 0; i < n; i++) to[i] = from[i];
    }
}
