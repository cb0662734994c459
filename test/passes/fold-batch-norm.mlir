// RUN: mrcc-opt --mrc-fold-batch-norm --split-input-file %s | FileCheck %s

// s = scale / sqrt(variance + epsilon) = [1, 2], t = bias - mean * s = [0.5, -1]. What was folded is on record.
// CHECK: mrc.folded = [{bytes_after = 24 : i64, bytes_before = 44 : i64, node = "", ops = "batch_norm", stage = "simplify"}]
// CHECK-LABEL: func @conv
// CHECK: %[[W:.*]] = mrc.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}2.000000e+00]]], {{\[\[\[}}6.000000e+00]], {{\[\[}}8.000000e+00]]]]> : tensor<2x2x1x1xf32>
// CHECK: %[[B:.*]] = mrc.constant dense<[5.000000e-01, -1.000000e+00]> : tensor<2xf32>
// CHECK: %[[C:.*]] = mrc.conv %arg0, %[[W]], %[[B]]
// CHECK-NEXT: return %[[C]]
func.func @conv(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %scale = mrc.constant dense<[2.0, 2.0]> : tensor<2xf32>
  %bias = mrc.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %mean = mrc.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %var = mrc.constant dense<[3.75, 0.75]> : tensor<2xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, none) -> tensor<?x?x?x2xf32>
  %1 = mrc.batch_norm %0, %scale, %bias, %mean, %var {epsilon = 0.25 : f32} : (tensor<?x?x?x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  return %1 : tensor<?x?x?x2xf32>
}

// -----

// Two groups of a transposed convolution: output channel 2 * group + j has weights [ic of the group, j].
// CHECK-LABEL: func @conv_transpose
// CHECK: mrc.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}4.000000e+00]]], {{\[\[\[}}9.000000e+00]], {{\[\[}}1.600000e+01]]]]> : tensor<2x2x1x1xf32>
// CHECK: mrc.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00]> : tensor<4xf32>
// CHECK: mrc.conv_transpose
// CHECK-NEXT: return
func.func @conv_transpose(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x4xf32> {
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %b = mrc.constant dense<[1.0, 0.5, 0.0, 0.0]> : tensor<4xf32>
  %scale = mrc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %bias = mrc.constant dense<[0.0, 0.0, 2.0, 2.0]> : tensor<4xf32>
  %mean = mrc.constant dense<0.0> : tensor<4xf32>
  %var = mrc.constant dense<1.0> : tensor<4xf32>
  %0 = mrc.conv_transpose %x, %w, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, group = 2 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, tensor<4xf32>) -> tensor<?x?x?x4xf32>
  %1 = mrc.batch_norm %0, %scale, %bias, %mean, %var {epsilon = 0.0 : f32} : (tensor<?x?x?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x?x?x4xf32>
  return %1 : tensor<?x?x?x4xf32>
}

// -----

// The convolution's result is needed as it is: mul and add.
// CHECK-LABEL: func @used_twice
// CHECK: %[[C:.*]] = mrc.conv
// CHECK: %[[S:.*]] = mrc.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: %[[T:.*]] = mrc.constant dense<[5.000000e-01, -1.000000e+00]> : tensor<2xf32>
// CHECK: %[[M:.*]] = mrc.binary mul %[[C]], %[[S]]
// CHECK: %[[A:.*]] = mrc.binary add %[[M]], %[[T]]
// CHECK: return %[[C]], %[[A]]
func.func @used_twice(%x: tensor<?x?x?x2xf32>) -> (tensor<?x?x?x2xf32>, tensor<?x?x?x2xf32>) {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %scale = mrc.constant dense<[2.0, 2.0]> : tensor<2xf32>
  %bias = mrc.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %mean = mrc.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %var = mrc.constant dense<[3.75, 0.75]> : tensor<2xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, none) -> tensor<?x?x?x2xf32>
  %1 = mrc.batch_norm %0, %scale, %bias, %mean, %var {epsilon = 0.25 : f32} : (tensor<?x?x?x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  return %0, %1 : tensor<?x?x?x2xf32>, tensor<?x?x?x2xf32>
}

// -----

// A repeated weight stays one value, so scales that differ do not go into it.
// CHECK-LABEL: func @splat
// CHECK: mrc.constant dense<1.000000e+00> : tensor<2x2x1x1xf32>
// CHECK: mrc.conv
// CHECK: mrc.binary mul
func.func @splat(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<1.0> : tensor<2x2x1x1xf32>
  %scale = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %zero = mrc.constant dense<0.0> : tensor<2xf32>
  %one = mrc.constant dense<1.0> : tensor<2xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, none) -> tensor<?x?x?x2xf32>
  %1 = mrc.batch_norm %0, %scale, %zero, %zero, %one {epsilon = 0.0 : f32} : (tensor<?x?x?x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  return %1 : tensor<?x?x?x2xf32>
}

// -----

// Parameters that only run time knows.
// CHECK-LABEL: func @computed
// CHECK: %[[V:.*]] = mrc.binary add %arg2
// CHECK: mrc.binary add %[[V]]
// CHECK: mrc.unary rsqrt
// CHECK: mrc.binary mul
// CHECK-NOT: mrc.batch_norm
func.func @computed(%x: tensor<?x?x?x2xf32>, %mean: tensor<2xf32>, %var: tensor<2xf32>) -> tensor<?x?x?x2xf32> {
  %scale = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %four = mrc.constant dense<4.0> : tensor<2xf32>
  %positive = mrc.binary add %var, %four : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %0 = mrc.batch_norm %x, %scale, %scale, %mean, %positive {epsilon = 0.0 : f32} : (tensor<?x?x?x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  return %0 : tensor<?x?x?x2xf32>
}
