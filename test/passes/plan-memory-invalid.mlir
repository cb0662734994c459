// RUN: mrcc-opt %s --mrc-plan-memory --verify-diagnostics

func.func @before_form_kernels(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %s = mrc.constant dense<[6]> : tensor<1xi64>
  %0 = mrc.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = mrc.reshape %0, %s : (tensor<3x2xf32>, tensor<1xi64>) -> tensor<6xf32>
  // expected-error @+1 {{has no place: form-kernels must run first}}
  %2 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%1) : (tensor<6xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}
