// Transcendental functions in portable arithmetic: the same bits on every host that has IEEE doubles, since they are
// made of + - * / and sqrt alone and no compiler may contract them. Within 3 ulp of a double (most within 1, erfc 4),
// so that a float rounded from one is within 0.5000001 ulp. Special values as in C's annex F.
#pragma once
#include <cstdint>

namespace mrcc::portable {

double exp(double x);
double log(double x);
double log1p(double x);
double pow(double x, double y);
double sin(double x);
double cos(double x);
double tan(double x);
double asin(double x);
double acos(double x);
double atan(double x);
double sinh(double x);
double cosh(double x);
double tanh(double x);
double asinh(double x);
double acosh(double x);
double atanh(double x);
double erf(double x);
double erfc(double x);
double sigmoid(double x);
double softplus(double x);
double gelu(double x);

} // namespace mrcc::portable
