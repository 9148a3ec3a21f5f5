//# poly
template <class T> __device__ __forceinline__ T poly(T x, T c) { return c; }
template <class T, class... R> __device__ __forceinline__ T poly(T x, T c, R... rest) { return fused(poly(x, rest...), x, c); }
__device__ __forceinline__ f64 copysign_of(f64 x, f64 s) { return __longlong_as_double((__double_as_longlong(x) & 0x7fffffffffffffffll) | (__double_as_longlong(s) & (i64)0x8000000000000000ull)); }
__device__ __forceinline__ f32 copysign_of(f32 x, f32 s) { return __uint_as_float((__float_as_uint(x) & 0x7fffffffu) | (__float_as_uint(s) & 0x80000000u)); }
#define NAN32 __uint_as_float(0x7fc00000u)
#define INF32 __uint_as_float(0x7f800000u)
#define NAN64 __longlong_as_double(0x7ff8000000000000ll)
#define INF64 __longlong_as_double(0x7ff0000000000000ll)
#define ROUND32 12582912.f
#define ROUND64 6755399441055744.
#define LN2_LO32 -1.9046543e-9f
#define LN2_LO64 2.3190468138462996e-17
#define LN2_32 0.693147180559945309417232121458176568f
#define LN2_64 0.693147180559945309417232121458176568
#define LOG2E_32 1.44269504088896340735992468100189214f
#define LOG2E_64 1.44269504088896340735992468100189214
#define PI_64 3.14159265358979323846264338327950288
//# exp_base32: poly
__device__ __forceinline__ f32 exp2i(i32 k) { return __uint_as_float((u32)(k + 127) << 23); }
__device__ __forceinline__ i32 exp_reduce(f32 x, f32& r) {
    f32 m = fused(x, LOG2E_32, ROUND32), n = sub(m, ROUND32);
    r = fused(n, -(LN2_LO32), fused(n, -LN2_32, x));
    return (i32)(__float_as_uint(m) - __float_as_uint(ROUND32));
}
__device__ __forceinline__ f32 expm1_small(f32 r) {
    f32 q = poly(r, 0.5f, 0.16666666f, 0.04166636f, 0.008333382f, 0.0013940731f, 0.00019849719f);
    return fused(q, mul(r, r), r);
}
__device__ __forceinline__ f32 clamp_of(f32 x, f32 low, f32 high) { f32 y = x < low ? low : x; return y > high ? high : y; }
//# exp_base64: poly
__device__ __forceinline__ f64 exp2i(i64 k) { return __longlong_as_double((k + 1023) << 52); }
__device__ __forceinline__ i64 exp_reduce(f64 x, f64& r) {
    f64 m = fused(x, LOG2E_64, ROUND64), n = sub(m, ROUND64);
    r = fused(n, -LN2_LO64, fused(n, -LN2_64, x));
    return __double_as_longlong(m) - __double_as_longlong(ROUND64);
}
__device__ __forceinline__ f64 expm1_small(f64 r) {
    f64 q = poly(r, 0.5, 0.16666666666666677, 0.041666666666666519, 0.0083333333333215215, 0.0013888888888959258,
        0.00019841269886451118, 2.480158717765823e-05, 2.755724383314988e-06, 2.7557398509419597e-07,
        2.5109184359835874e-08, 2.0876618547365056e-09);
    return fused(q, mul(r, r), r);
}
__device__ __forceinline__ f64 clamp_of(f64 x, f64 low, f64 high) { f64 y = x < low ? low : x; return y > high ? high : y; }
__device__ __forceinline__ f64 exp_sum_f64(f64 x, f64 tail) {
    f64 r;
    i64 k = exp_reduce(clamp_of(x, -746., 710.), r);
    f64 y = add(expm1_small(add(r, tail)), 1.);
    return mul(mul(y, exp2i(k >> 1)), exp2i(k - (k >> 1)));
}
//# exp_f32: exp_base32
__device__ __forceinline__ f32 exp_far_f32(f32 x) {
    f32 r;
    i32 k = exp_reduce(clamp_of(x, -104.f, 89.f), r);
    f32 y = add(expm1_small(r), 1.f);
    return mul(mul(y, exp2i(k >> 1)), exp2i(k - (k >> 1)));
}
// Where the result is ordinary, one scaling makes it.
__device__ __forceinline__ f32 exp_f32(f32 x) {
    if (__builtin_expect(absolute(x) > 86.f, 0)) return exp_far_f32(x);
    f32 r;
    i32 k = exp_reduce(x, r);
    return mul(add(expm1_small(r), 1.f), exp2i(k));
}
//# exp_f64: exp_base64
__device__ __forceinline__ f64 exp_f64(f64 x) { return exp_sum_f64(x, 0.); }
//# expm1_f32: exp_base32
__device__ __forceinline__ f32 expm1_f32(f32 x) {
    f32 r;
    i32 k = exp_reduce(clamp_of(x, -30.f, 89.f), r);
    f32 p = expm1_small(r), half = exp2i(k - 1);
    f32 y = mul(2.f, fused(p, half, sub(half, 0.5f)));
    y = k == 0 ? p : y;
    return x == 0.f ? x : y;
}
//# expm1_f64: exp_base64
__device__ __forceinline__ f64 expm1_f64(f64 x) {
    f64 r;
    i64 k = exp_reduce(clamp_of(x, -60., 710.), r);
    f64 p = expm1_small(r), half = exp2i(k - 1);
    f64 y = mul(2., fused(p, half, sub(half, 0.5)));
    y = k == 0 ? p : y;
    return x == 0. ? x : y;
}
//# log_base32: poly
__device__ __forceinline__ i32 log_reduce(f32 x, f32& f) {
    bool tiny = x < 1.17549435e-38f;
    i32 bits = (i32)__float_as_uint(tiny ? mul(x, 8388608.0f) : x);
    i32 k = (i32)((u32)bits - 0x3f3504f3u) >> 23;
    f32 m = __uint_as_float((u32)bits - ((u32)k << 23));
    f = sub(m, 1.f);
    return k - (tiny ? 23 : 0);
}
__device__ __forceinline__ f32 log_sum(f32 k, f32 f) {
    f32 z = mul(f, f);
    f32 p = poly(f, 0.33333314f, -0.2500001f, 0.20002116f, -0.16667986f, 0.14219478f, -0.1240541f, 0.118889384f,
        -0.11678576f, 0.0674876f);
    f32 y = fused(p, mul(f, z), mul(k, LN2_LO32));
    return fused(k, LN2_32, add(f, fused(z, -0.5f, y)));
}
__device__ __forceinline__ f32 log_edges(f32 u, f32 y) {
    y = u == INF32 ? INF32 : y;
    y = u == 0.f ? -INF32 : y;
    return u >= 0.f ? y : NAN32;
}
//# log_base64: poly
__device__ __forceinline__ i64 log_reduce(f64 x, f64& f) {
    bool tiny = x < 2.2250738585072014e-308;
    i64 bits = __double_as_longlong(tiny ? mul(x, 4503599627370496.) : x);
    i64 k = (i64)((u64)bits - 0x3fe6a09e667f3bcdull) >> 52;
    f64 m = __longlong_as_double((i64)((u64)bits - ((u64)k << 52)));
    f = sub(m, 1.);
    return k - (tiny ? 52 : 0);
}
__device__ __forceinline__ f64 log_sum(f64 k, f64 f) {
    f64 s = quotient(f, add(2., f)), z = mul(s, s);
    f64 r = mul(z, poly(z, 0.66666666666667362, 0.39999999999402963, 0.285714287453743, 0.22222198232309948,
        0.18183583669298581, 0.15313517332310622, 0.14801640693765714));
    f64 h = mul(mul(0.5, f), f);
    return fused(k, LN2_64, sub(f, sub(h, fused(s, add(h, r), mul(k, LN2_LO64)))));
}
__device__ __forceinline__ f64 log_edges(f64 u, f64 y) {
    y = u == INF64 ? INF64 : y;
    y = u == 0. ? -INF64 : y;
    return u >= 0. ? y : NAN64;
}
//# log_f32: log_base32
__device__ __forceinline__ f32 log_f32(f32 x) {
    f32 f;
    i32 k = log_reduce(x, f);
    return log_edges(x, log_sum((f32)k, f));
}
//# log_f64: log_base64
__device__ __forceinline__ f64 log_f64(f64 x) {
    f64 f;
    i64 k = log_reduce(x, f);
    return log_edges(x, log_sum((f64)k, f));
}
//# log1p_f32: log_base32 exp_base32
__device__ __forceinline__ f32 log1p_f32(f32 x) {
    f32 u = add(1.f, x), f;
    i32 k = log_reduce(u, f);
    f32 lost = x >= 1.f ? sub(1.f, sub(u, x)) : sub(x, sub(u, 1.f));
    f = k == 0 ? x : fused(lost, exp2i(k < 100 ? -k : -100), f);
    f32 y = log_edges(u, log_sum((f32)k, f));
    return x == 0.f ? x : y;
}
//# log1p_f64: log_base64 exp_base64
__device__ __forceinline__ f64 log1p_f64(f64 x) {
    f64 u = add(1., x), f;
    i64 k = log_reduce(u, f);
    f64 lost = x >= 1. ? sub(1., sub(u, x)) : sub(x, sub(u, 1.));
    f = k == 0 ? x : fused(lost, exp2i(k < 1000 ? -k : (i64)-1000), f);
    f64 y = log_edges(u, log_sum((f64)k, f));
    return x == 0. ? x : y;
}
//# trig: poly
#define PIO2_LO 6.123233995736766e-17
#define PIO2_LOLO -1.4973849048591697e-33
__device__ __forceinline__ i64 trig_reduce(f64 x, f64& r) {
    f64 m = fused(x, 0.636619772367581343075535053490057448, ROUND64), n = sub(m, ROUND64);
    r = fused(-n, 1.57079632679489661923132169163975144, x);
    r = fused(-n, PIO2_LOLO, fused(-n, PIO2_LO, r));
    return __double_as_longlong(m);
}
//# trig32: trig
__device__ __forceinline__ f32 sin_quadrant(u32 q, f32 r) {
    f32 z = mul(r, r);
    f32 s = fused(poly(z, -0.16666667f, 0.008333329f, -0.00019839325f, 2.7182123e-6f), mul(r, z), r);
    f32 c = poly(z, 0.041666668f, -0.0013888883f, 2.4799509e-5f, -2.7209265e-7f);
    c = fused(c, mul(z, z), fused(z, -0.5f, 1.f));
    f32 y = (q & 1) == 0 ? s : c;
    return __uint_as_float(__float_as_uint(y) ^ ((q & 2) << 30));
}
//# trig64: trig
__device__ __forceinline__ f64 sin_quadrant(u64 q, f64 r) {
    f64 z = mul(r, r);
    f64 s = poly(z, -0.16666666666666632, 0.0083333333333222293, -0.0001984126982964335, 2.7557313631618727e-06,
        -2.5050748328913011e-08, 1.5896212563700129e-10);
    s = fused(s, mul(r, z), r);
    f64 c = poly(z, 0.041666666666666595, -0.0013888888888873858, 2.4801587289312666e-05, -2.7557314301675404e-07,
        2.0875716130010427e-09, -1.135926435024345e-11);
    f64 h = mul(0.5, z), w = sub(1., h);
    c = add(w, fused(c, mul(z, z), sub(sub(1., w), h)));
    f64 y = (q & 1) == 0 ? s : c;
    return __longlong_as_double((i64)((u64)__double_as_longlong(y) ^ ((q & 2) << 62)));
}
//# sin_f32: trig32
__device__ __forceinline__ f32 sin_f32(f32 x) {
    f64 r;
    i64 q = trig_reduce((f64)x, r);
    f32 y = sin_quadrant((u32)q, (f32)r);
    return x == 0.f ? x : y;
}
//# cos_f32: trig32
__device__ __forceinline__ f32 cos_f32(f32 x) {
    f64 r;
    i64 q = trig_reduce((f64)x, r);
    return sin_quadrant((u32)q + 1, (f32)r);
}
//# sin_f64: trig64
__device__ __forceinline__ f64 sin_f64(f64 x) {
    f64 r;
    i64 q = trig_reduce(x, r);
    f64 y = sin_quadrant((u64)q, r);
    return x == 0. ? x : y;
}
//# cos_f64: trig64
__device__ __forceinline__ f64 cos_f64(f64 x) {
    f64 r;
    i64 q = trig_reduce(x, r);
    return sin_quadrant((u64)q + 1, r);
}
//# tanh_f32: exp_base32
__device__ __forceinline__ f32 tanh_f32(f32 x) {
    f32 a = absolute(x), r;
    i32 k = exp_reduce(mul(-2.f, a > 10.f ? 10.f : a), r);
    f32 scale = exp2i(k);
    f32 m = fused(expm1_small(r), scale, sub(scale, 1.f));
    // The divisor is in [1, 2]: one step makes its reciprocal the one rounded once, as __frcp_rn does there, and
    // Markstein's step then rounds the quotient once.
    f32 d = add(2.f, m), y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    y = fused(y, fused(-d, y, 1.f), y);
    f32 t = mul(-m, y);
    return copysign_of(fused(fused(-t, d, -m), y, t), x);
}
//# tanh_f64: exp_base64
__device__ __forceinline__ f64 tanh_f64(f64 x) {
    f64 a = absolute(x), r;
    i64 k = exp_reduce(mul(-2., a > 20. ? 20. : a), r);
    f64 scale = exp2i(k);
    f64 m = fused(expm1_small(r), scale, sub(scale, 1.));
    return copysign_of(quotient(-m, add(2., m)), x);
}
//# erf_f32: exp_base32
__device__ __forceinline__ f32 erf_f32(f32 x) {
    f32 a = absolute(x), z = mul(x, x);
    f32 small = poly(z, 0.12837917f, -0.37612633f, 0.11283687f, -0.02685894f, 0.00519991f, -0.0008130093f, 8.317212e-5f);
    small = fused(small, x, x);
    f32 t = a > 4.f ? 4.f : a;
    f32 log_erfc = poly(t, 0.00017615664f, -1.1295222f, -0.63333186f, -0.10829706f, 0.02513067f, -0.0041754346f,
        0.00043538584f, -2.117669e-5f);
    f32 r;
    i32 k = exp_reduce(log_erfc, r);
    f32 large = sub(1.f, mul(add(expm1_small(r), 1.f), exp2i(k)));
    return a < 0.93f ? small : copysign_of(large, x);
}
//# erf_small64: poly
__device__ __forceinline__ f64 erf_small_f64(f64 x) {
    f64 z = mul(x, x);
    f64 small = poly(z, 0.12837916709551256, -0.37612638903183521, 0.11283791670944147, -0.026866170643107704,
        0.0052239776061003464, -0.00085483259288968985, 0.00012055293574743744, -1.4924712416289527e-05,
        1.6447134515944864e-06, -1.6206345827807801e-07, 1.37111528205131e-08, -7.7798423165418923e-10);
    return fused(small, x, x);
}
//# erf_f64: erf_small64 exp_base64
__device__ __forceinline__ f64 erf_f64(f64 x) {
    f64 a = absolute(x), small = erf_small_f64(x);
    f64 t = a > 6. ? 6. : a;
    f64 v = quotient(sub(t, 2.), add(t, 2.));
    f64 erfcx = poly(v, 0.25539567631050575, -0.42718584741395832, 0.24165819424245708, -0.078978581015876306,
        0.0037328924054167599, 0.0069974617649696796, -0.00084714320886791674, -0.00098197824547596431,
        4.3549410750369636e-05, 0.00017437224504831701, 2.7672547406757603e-05, -2.7327925840840223e-05,
        -1.4671432800911511e-05, -1.6940075695623164e-06);
    f64 r;
    i64 k = exp_reduce(mul(-t, t), r);
    f64 large = sub(1., mul(mul(add(expm1_small(r), 1.), exp2i(k)), erfcx));
    return a < 1. ? small : copysign_of(large, x);
}
//# erfc_f64: erf_small64 exp_base64
__device__ __forceinline__ f64 erfc_f64(f64 x) {
    f64 small = sub(1., erf_small_f64(x));
    f64 a = absolute(x) > 28. ? 28. : absolute(x);
    f64 v = quotient(sub(a, 4.), add(a, 4.));
    f64 scaled = poly(v, 1.2329951186255526, -0.13962111684056247, 0.015379652102619715, 0.06809705425468811,
        -0.10103906603630125, 0.09373283499854572, -0.0663303658123262, 0.03716751553362761,
        -0.01619773405603698, 0.005031970019855797, -0.0007577733044361342, -0.0001992569711541667,
        0.00015062176339014575, -2.439804371983309e-5, -1.1222342808082265e-5, 5.706478882058901e-6,
        2.945352319527839e-7, -8.195074824608123e-7, 7.359250618870618e-8, 1.0327217607915146e-7,
        -1.7085755482994144e-8, -9.662784059797579e-9, 1.5563401531371313e-9);
    f64 square = mul(a, a);
    f64 tail = mul(exp_sum_f64(-square, -fused(a, a, -square)), quotient(scaled, fused(a, 2., 1.)));
    f64 large = x < 0. ? sub(2., tail) : tail;
    f64 y = absolute(x) < 0.5 ? small : large;
    return x != x ? x : y;
}
//# erfc_f32: erfc_f64
__device__ __forceinline__ f32 erfc_f32(f32 x) { return (f32)erfc_f64((f64)x); }
//# lgamma_f64: log_f64 sin_f64
__device__ __noinline__ f64 lgamma_positive_f64(f64 x) {
    bool low = x < 8.;
    f64 y = low ? x : 1.5, n = floor(y), a = sub(y, n), b = sub(a, 1.), between = 1.;
    for (int k = 1; k < 7; k++) {
        f64 factor = sub(y, (f64)k);
        between = mul(between, factor >= 1. ? factor : 1.);
    }
    f64 of = !low || n == 0. ? x : between;
    f64 log = log_f64(of), u = sub(a, 0.5);
    f64 unit = poly(u, 0.4831289505409809, -0.14595989591430608, 0.06291140107456439, -0.031308487501010646,
        0.01679709863127416, -0.009425622448525798, 0.005446457839126065, -0.0032120740737152814,
        0.0019229163127905161, -0.0011644145847310124, 0.000711519067515296, -0.00043799307479613914,
        0.00027131373861446925, -0.0001689178215524898, 0.00010535512483785591, -6.614136022346414e-5,
        4.30276814976503e-5, -2.7201673025504752e-5, 1.3186019073996835e-5, -8.355075869795273e-6,
        1.2140008083973407e-5, -7.760660152513446e-6);
    unit = mul(mul(a, b), unit);
    f64 near = add(unit, n == 0. ? -log : log);
    f64 r = quotient(1., x), z = mul(r, r);
    f64 rest = poly(z, 0.08333333333333333, -0.002777777777773988, 0.0007936507897524059, -0.0005952365845057049,
        0.0008414700852503147, -0.001890382993887715, 0.005065905360156132);
    f64 far = fused(sub(x, 0.5), sub(log, 1.), fused(rest, r, 0.41893853320467274));
    return low ? near : far;
}
__device__ __forceinline__ f64 lgamma_f64(f64 x) {
    f64 a = absolute(x), above = lgamma_positive_f64(a), r = sub(a, rint(a));
    f64 sine = absolute(sin_f64(mul(PI_64, r)));
    f64 below = sub(-log_f64(mul(mul(a, sine), 0.318309886183790671537767526745028724)), above);
    below = a < 1e-18 ? above : below;
    f64 y = x < 0. ? below : above;
    return a == INF64 ? a : y;
}
//# lgamma_f32: lgamma_f64
__device__ __forceinline__ f32 lgamma_f32(f32 x) { return (f32)lgamma_f64((f64)x); }
//# digamma_f64: log_f64 sin_f64 cos_f64
__device__ __noinline__ f64 digamma_f64(f64 x) {
    bool negative = x < 0.;
    f64 y = negative ? sub(1., x) : x, sum = 0.;
    for (int k = 0; k < 8; k++) {
        bool low = y < 8.;
        sum = add(sum, low ? quotient(1., y) : 0.);
        y = add(y, low ? 1. : 0.);
    }
    f64 r = quotient(1., y), z = mul(r, r);
    f64 rest = poly(z, 0.08333333333333333, -0.008333333333331664, 0.003968253965999701, -0.004166665501516725,
        0.007575459920369176, -0.02105106090804774, 0.08002337465397756, -0.299425370626735);
    f64 above = sub(sub(log_f64(y), fused(r, 0.5, mul(z, rest))), sum);
    f64 t = mul(PI_64, sub(x, rint(x))), sine = sin_f64(t), cosine = cos_f64(t);
    f64 below = sub(above, mul(PI_64, quotient(cosine, sine)));
    below = sine == 0. ? NAN64 : below;
    y = negative ? below : above;
    return x == 0. ? copysign_of(-INF64, -x) : y;
}
//# digamma_f32: digamma_f64
__device__ __forceinline__ f32 digamma_f32(f32 x) { return (f32)digamma_f64((f64)x); }
//# pow_edges: poly
__device__ __forceinline__ f64 whole_of(f64 x) { return trunc(x); }
__device__ __forceinline__ f32 whole_of(f32 x) { return truncf(x); }
template <class T> __device__ __forceinline__ T pow_edges(T x, T y, T p, T inf, T nan) {
    bool whole = whole_of(y) == y;
    T half = mul((T)0.5, y);
    bool odd = whole && whole_of(half) != half;
    p = odd ? copysign_of(p, x) : p;
    p = x < 0 && x > -inf && !whole ? nan : p;
    p = x != x || y != y ? nan : p;
    return y == 0 || x == 1 ? (T)1 : p;
}
//# pow_f32: pow_edges log_f64 exp_f64
__device__ __forceinline__ f32 pow_f32(f32 x, f32 y) {
    f64 l = log_f64((f64)absolute(x));
    f64 t = l == 0. ? 0. : mul((f64)y, l);
    return pow_edges(x, y, (f32)exp_f64(t), INF32, NAN32);
}
//# pow_f64: pow_edges log_base64 exp_base64
__device__ __forceinline__ f64 two_sum(f64 a, f64 b, f64& lost) {
    f64 s = add(a, b), t = sub(s, a);
    lost = add(sub(a, sub(s, t)), sub(b, t));
    return s;
}
__device__ __forceinline__ f64 log_pair(f64 x, f64& low) {
    f64 f;
    f64 k = (f64)log_reduce(x, f);
    f64 d = add(2., f), d_lo = sub(f, sub(d, 2.)), s = quotient(f, d);
    f64 s_lo = quotient(sub(fused(-s, d, f), mul(s, d_lo)), d);
    f64 z = mul(s, s), z_lo = add(fused(s, s, -z), mul(mul(2., s), s_lo));
    f64 r = poly(z, 0.400000000000023, 0.28571428570072965, 0.22222222525270946, 0.18181783858492431,
        0.15386782256890838, 0.13256208830625515, 0.13202201692680801);
    const f64 two_thirds = 2.0 / 3.0, two_thirds_lo = 3.7007434154171884e-17;
    f64 w = fused(z, r, two_thirds), w_lo = add(fused(z, r, sub(two_thirds, w)), two_thirds_lo);
    f64 c = mul(s, z), c_lo = add(fused(s, z, -c), add(mul(s, z_lo), mul(s_lo, z)));
    f64 cubic = mul(c, w), cubic_lo = add(fused(c, w, -cubic), add(mul(c, w_lo), mul(c_lo, w)));
    f64 base = mul(k, LN2_64), base_lo = add(fused(k, LN2_64, -base), mul(k, LN2_LO64));
    f64 t_lo, h_lo, t = two_sum(base, mul(2., s), t_lo), h = two_sum(t, cubic, h_lo);
    f64 lo = add(add(h_lo, t_lo), add(add(base_lo, mul(2., s_lo)), cubic_lo));
    f64 hi = add(h, lo);
    low = sub(lo, sub(hi, h));
    return hi;
}
__device__ __noinline__ f64 pow_f64(f64 x, f64 y) {
    f64 a = absolute(x), l, h = log_pair(a, l);
    h = log_edges(a, h);
    f64 t = h == 0. ? 0. : mul(y, h);
    f64 tail = add(fused(y, h, -t), mul(y, l));
    tail = absolute(tail) < 1. ? tail : 0.;
    return pow_edges(x, y, exp_sum_f64(t, tail), INF64, NAN64);
}
//# atan2_f64: trig
__device__ __noinline__ f64 atan2_f64(f64 y, f64 x) {
    f64 ax = absolute(x), ay = absolute(y);
    bool steep = ay > ax;
    f64 lo = steep ? ax : ay, hi = steep ? ay : ax;
    if (hi == INF64) { lo = lo == hi ? 1. : 0.; hi = 1.; }
    f64 scale = hi > 1e300 ? 0.0625 : 1.;
    lo = mul(lo, scale); hi = mul(hi, scale);
    bool wide = lo > mul(hi, 0.41421356237309503);
    f64 t = wide ? quotient(sub(lo, hi), add(lo, hi)) : quotient(lo, hi);
    t = hi == 0. ? 0. : t;
    f64 z = mul(t, t);
    f64 p = poly(z, -0.33333333333333198, 0.19999999999953399, -0.14285714280174286, 0.11111110782179426,
        -0.090908977164153221, 0.076920594046269261, -0.066630940175819872, 0.058478105437334525,
        -0.050389247390880389, 0.038054294089796784, -0.017895321758866975);
    f64 a = fused(p, mul(t, z), t);
    a = wide ? add(0.785398163397448309615660845819875721, add(a, mul(0.5, PIO2_LO))) : a;
    a = steep ? sub(1.57079632679489661923132169163975144, sub(a, PIO2_LO)) : a;
    a = __double_as_longlong(x) < 0 ? sub(PI_64, sub(a, mul(2., PIO2_LO))) : a;
    return x != x || y != y ? NAN64 : copysign_of(a, y);
}
//# atan2_f32: atan2_f64
__device__ __forceinline__ f32 atan2_f32(f32 y, f32 x) { return (f32)atan2_f64((f64)y, (f64)x); }
