// RUN: mrcc-opt %s --mrc-form-kernels --verify-diagnostics --split-input-file

// Weights are packed for f32 alone.
func.func @no_kernel(%x: tensor<1x2x2x16xf64>, %w: tensor<1x1x1x16x16xf64>) -> tensor<1x2x2x16xf64> {
  %none = mrc.none : none
  // expected-error @+1 {{has no kernel for these types and attributes}}
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64, packed_kernel = array<i64: 1, 1>, packed_oc = 16 : i64} : (tensor<1x2x2x16xf64>, tensor<1x1x1x16x16xf64>, none) -> tensor<1x2x2x16xf64>
  return %0 : tensor<1x2x2x16xf64>
}
