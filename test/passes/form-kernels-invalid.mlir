// RUN: mrcc-opt %s --mrc-form-kernels --verify-diagnostics --split-input-file

func.func @no_kernel(%x: tensor<3xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{has no kernel for these types and attributes}}
  %0 = mrc.scatter_elements add %x, %i, %u {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
