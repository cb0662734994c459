/* Kernels for bundles made by tests, with the calling convention of generated ones (KernelFunction in Bundle/Format.h).
 * Built freestanding into an image like that of the compiler: no imports, no relocations, no writable data. */
#include <stdint.h>

/* out[r, i] = in[r, i] * weight[i * params[1]] + bias[0]; a unit is a row of params[0] elements */
void affine(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch) {
  float *out = (float *)views[0];
  const float *in = (const float *)views[1], *weight = (const float *)views[2], *bias = (const float *)views[3];
  const int64_t n = params[0], step = params[1];
  (void)scratch;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < n; ++i)
      out[r * n + i] = in[r * n + i] * weight[i * step] + bias[0];
}

/* out[r, i] = 2 * in[r, n - 1 - i], by way of a row of scratch memory */
void reverse(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch) {
  float *out = (float *)views[0];
  const float *in = (const float *)views[1];
  volatile float *row = (volatile float *)scratch;
  const int64_t n = params[0];
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < n; ++i)
      row[i] = in[r * n + i];
    for (int64_t i = 0; i < n; ++i)
      out[r * n + i] = 2 * row[n - 1 - i];
  }
}

/* out[0] = in[0] / params[0]; tells whether the thread keeps denormal numbers */
void divide(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch) {
  float *out = (float *)views[0];
  const float *in = (const float *)views[1];
  (void)scratch;
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i] / (float)params[0];
}

/* out[r, i] = begin: which units were done in one call */
void starts(char *const *views, const int64_t *params, int64_t begin, int64_t end, char *scratch) {
  float *out = (float *)views[0];
  const int64_t n = params[0];
  (void)scratch;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < n; ++i)
      out[r * n + i] = (float)begin;
}
