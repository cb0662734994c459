// Elementary functions of f32 and f64 values (scalars or vectors) as polynomials: no calls, the same bits on every host
// for one target. Errors are relative unless said so; f32 within 3e-7, f64 within 1e-13 or so.
#pragma once
#include "Num.h"

namespace mrcc::vmath {

Num exp(Num x);       // results below the smallest normal number are 0
Num exp2Below(Num x); // 2^x for f32 x <= 0, within 1.6e-7; 0 from -127 on. Softmax: nothing exceeds the maximum
Num expBelow(Num x);  // e^x for f32 x <= 0, within 1.6e-7 + 1.4e-8 |x| (1e-7 |x| without FMA); 0 where exp is
Num log(Num x);
Num log1p(Num x);
Num pow(Num x, Num y);
Num sigmoid(Num x);
Num silu(Num x);
Num softplus(Num x);
Num tanh(Num x);
Num erf(Num x);
Num gelu(Num x); // x * Phi(x); f32: absolute error 1e-7 * max(1, |x|)
Num sin(Num x);  // any argument: exact reduction
Num cos(Num x);
Num tan(Num x);
Num asin(Num x);
Num acos(Num x);
Num atan(Num x);
Num sinh(Num x);
Num cosh(Num x);
Num asinh(Num x);
Num acosh(Num x);
Num atanh(Num x);
Num fmod(Num x, Num y); // exact, sign of x

} // namespace mrcc::vmath
