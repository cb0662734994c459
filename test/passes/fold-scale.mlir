// RUN: mrcc-opt --mrc-fold-scale --split-input-file %s | FileCheck %s

// What follows a convolution per channel: (x * 2 - [1, 3]) / 4 = x * 0.5 + [-0.25, -0.75].
// CHECK-LABEL: func @after_conv
// CHECK: mrc.constant dense<{{.*}}5.000000e-01{{.*}}1.000000e+00{{.*}}1.500000e+00{{.*}}2.000000e+00{{.*}}> : tensor<2x2x1x1xf32>
// CHECK: mrc.constant dense<2.500000e-01> : tensor<2xf32>
// CHECK: mrc.conv
// CHECK-NEXT: return
func.func @after_conv(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32> {
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %b = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %two = mrc.constant dense<2.0> : tensor<f32>
  %c = mrc.constant dense<[[[[1.0, 3.0]]]]> : tensor<1x1x1x2xf32>
  %four = mrc.constant dense<4.0> : tensor<1xf32>
  %0 = mrc.conv %x, %w, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  %1 = mrc.binary mul %two, %0 : (tensor<f32>, tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32>
  %2 = mrc.binary sub %1, %c : (tensor<?x?x?x2xf32>, tensor<1x1x1x2xf32>) -> tensor<?x?x?x2xf32>
  %3 = mrc.binary div %2, %four : (tensor<?x?x?x2xf32>, tensor<1xf32>) -> tensor<?x?x?x2xf32>
  return %3 : tensor<?x?x?x2xf32>
}

// -----

// A matmul takes the factor; the offset stays an addition.
// CHECK-LABEL: func @after_matmul
// CHECK: mrc.constant dense<{{\[\[}}2.000000e+00, 6.000000e+00], [6.000000e+00, 1.200000e+01]]> : tensor<2x2xf32>
// CHECK: %[[M:.*]] = mrc.matmul
// CHECK: %[[C:.*]] = mrc.constant dense<[2.000000e+00, 6.000000e+00]> : tensor<2xf32>
// CHECK: mrc.binary add %[[M]], %[[C]]
// CHECK-NEXT: return
func.func @after_matmul(%x: tensor<?x?x2xf32>) -> tensor<?x?x2xf32> {
  %w = mrc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = mrc.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %0 = mrc.matmul %x, %w : (tensor<?x?x2xf32>, tensor<2x2xf32>) -> tensor<?x?x2xf32>
  %1 = mrc.binary add %0, %b : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  %2 = mrc.binary mul %1, %s : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  return %2 : tensor<?x?x2xf32>
}

// -----

// Before an unpadded convolution factor and offset; before a padded one the factor alone.
// CHECK-LABEL: func @before_conv
// CHECK: mrc.constant dense<{{.*}}2.000000e+00{{.*}}4.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK: mrc.constant dense<[3.000000e+00, 6.000000e+00]> : tensor<2xf32>
// CHECK: mrc.conv
// CHECK-NEXT: %[[T:.*]] = mrc.unary tanh
// CHECK: mrc.constant dense<2.000000e+00> : tensor<1x2x3x3xf32>
// CHECK: mrc.conv %[[T]]
// CHECK-NEXT: return
func.func @before_conv(%x: tensor<?x?x?x1xf32>) -> tensor<?x?x?x1xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %v = mrc.constant dense<1.0> : tensor<1x2x3x3xf32>
  %two = mrc.constant dense<2.0> : tensor<f32>
  %three = mrc.constant dense<3.0> : tensor<f32>
  %0 = mrc.binary mul %x, %two : (tensor<?x?x?x1xf32>, tensor<f32>) -> tensor<?x?x?x1xf32>
  %1 = mrc.binary add %0, %three : (tensor<?x?x?x1xf32>, tensor<f32>) -> tensor<?x?x?x1xf32>
  %2 = mrc.conv %1, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x1xf32>, tensor<2x1x1x1xf32>, none) -> tensor<?x?x?x2xf32>
  %3 = mrc.unary tanh %2 : (tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32>
  %4 = mrc.binary mul %3, %two : (tensor<?x?x?x2xf32>, tensor<f32>) -> tensor<?x?x?x2xf32>
  %5 = mrc.conv %4, %v, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<1x2x3x3xf32>, none) -> tensor<?x?x?x1xf32>
  return %5 : tensor<?x?x?x1xf32>
}

// -----

// The border of a padded convolution is 0 after the offset, so the offset cannot go in.
// CHECK-LABEL: func @padded
// CHECK: mrc.binary add
// CHECK: mrc.conv
func.func @padded(%x: tensor<?x?x?x1xf32>) -> tensor<?x?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<1.0> : tensor<2x1x3x3xf32>
  %three = mrc.constant dense<3.0> : tensor<f32>
  %0 = mrc.binary add %x, %three : (tensor<?x?x?x1xf32>, tensor<f32>) -> tensor<?x?x?x1xf32>
  %1 = mrc.conv %0, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64} : (tensor<?x?x?x1xf32>, tensor<2x1x3x3xf32>, none) -> tensor<?x?x?x2xf32>
  return %1 : tensor<?x?x?x2xf32>
}

// -----

// Behind a norm: its scale and bias.
// CHECK-LABEL: func @after_norm
// CHECK: %[[S:.*]] = mrc.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: %[[B:.*]] = mrc.constant dense<[3.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK: mrc.layer_norm %arg0, %[[S]], %[[B]]
// CHECK-NEXT: return
func.func @after_norm(%x: tensor<?x?x2xf32>) -> tensor<?x?x2xf32> {
  %none = mrc.none : none
  %s = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = mrc.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %0 = mrc.layer_norm %x, %none, %none {axis = 2 : i64, epsilon = 1.0e-05 : f32} : (tensor<?x?x2xf32>, none, none) -> tensor<?x?x2xf32>
  %1 = mrc.binary mul %0, %s : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  %2 = mrc.binary add %1, %b : (tensor<?x?x2xf32>, tensor<2xf32>) -> tensor<?x?x2xf32>
  return %2 : tensor<?x?x2xf32>
}

// -----

// A chain alone becomes one mul and one add; rounding by a large number stays.
// CHECK-LABEL: func @chain
// CHECK: mrc.constant dense<7.000000e+00>
// CHECK: %[[M:.*]] = mrc.binary mul %arg0
// CHECK: mrc.binary add %[[M]]
// CHECK: mrc.binary add %arg1
// CHECK: mrc.binary sub
// CHECK-NEXT: return
func.func @chain(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> (tensor<?x3xf32>, tensor<?x3xf32>) {
  %two = mrc.constant dense<2.0> : tensor<f32>
  %three = mrc.constant dense<3.0> : tensor<f32>
  %one = mrc.constant dense<1.0> : tensor<f32>
  %large = mrc.constant dense<12582912.0> : tensor<f32>
  %0 = mrc.binary add %x, %three : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %1 = mrc.binary mul %0, %two : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %2 = mrc.binary add %1, %one : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %3 = mrc.binary add %y, %large : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %4 = mrc.binary sub %3, %large : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  return %2, %4 : tensor<?x3xf32>, tensor<?x3xf32>
}

// -----

// Weights that a second convolution reads keep their values; a constant that broadcasts is no channel's.
// CHECK-LABEL: func @stays
// CHECK: mrc.conv
// CHECK: mrc.binary mul
// CHECK: mrc.conv
// CHECK: mrc.binary mul %{{.*}}, %{{.*}} : (tensor<?x4x4x2xf32>, tensor<4x1xf32>)
func.func @stays(%x: tensor<?x4x4x2xf32>) -> (tensor<?x4x4x2xf32>, tensor<?x4x4x2xf32>) {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %two = mrc.constant dense<2.0> : tensor<f32>
  %rows = mrc.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x4x4x2xf32>, tensor<2x2x1x1xf32>, none) -> tensor<?x4x4x2xf32>
  %1 = mrc.binary mul %0, %two : (tensor<?x4x4x2xf32>, tensor<f32>) -> tensor<?x4x4x2xf32>
  %2 = mrc.conv %1, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x4x4x2xf32>, tensor<2x2x1x1xf32>, none) -> tensor<?x4x4x2xf32>
  %3 = mrc.binary mul %2, %rows : (tensor<?x4x4x2xf32>, tensor<4x1xf32>) -> tensor<?x4x4x2xf32>
  return %1, %3 : tensor<?x4x4x2xf32>, tensor<?x4x4x2xf32>
}

// -----

// A factor that is one number and no power of two stays behind the convolution, which gives its bias away:
// (c + [1, 2]) * 3 + 1 = c * 3 + [4, 7].
// CHECK-LABEL: func @number_behind_conv
// CHECK: mrc.constant dense<{{.*}}1.000000e+00{{.*}}2.000000e+00{{.*}}3.000000e+00{{.*}}4.000000e+00{{.*}}> : tensor<2x2x1x1xf32>
// CHECK: %[[NONE:.*]] = mrc.none
// CHECK: %[[C:.*]] = mrc.conv %arg0, %{{.*}}, %[[NONE]]
// CHECK: %[[S:.*]] = mrc.constant dense<3.000000e+00> : tensor<f32>
// CHECK: %[[T:.*]] = mrc.constant dense<[4.000000e+00, 7.000000e+00]> : tensor<2xf32>
// CHECK: %[[M:.*]] = mrc.binary mul %[[C]], %[[S]]
// CHECK: mrc.binary add %[[M]], %[[T]]
// CHECK-NEXT: return
func.func @number_behind_conv(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32> {
  %w = mrc.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %b = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %three = mrc.constant dense<3.0> : tensor<f32>
  %one = mrc.constant dense<1.0> : tensor<f32>
  %0 = mrc.conv %x, %w, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x?x?x2xf32>
  %1 = mrc.binary mul %0, %three : (tensor<?x?x?x2xf32>, tensor<f32>) -> tensor<?x?x?x2xf32>
  %2 = mrc.binary add %1, %one : (tensor<?x?x?x2xf32>, tensor<f32>) -> tensor<?x?x?x2xf32>
  return %2 : tensor<?x?x?x2xf32>
}

// -----

// In front of a rounding, here of a quantisation, every step stays as it is: (x - 124) * 0.1 + 3, then max, / 0.02, round.
// CHECK-LABEL: func @quantised
// CHECK: %[[X:.*]] = mrc.cast
// CHECK: %[[D:.*]] = mrc.binary sub %[[X]],
// CHECK-NEXT: mrc.binary mul
// CHECK-NEXT: mrc.binary add
// CHECK-NEXT: mrc.binary max
// CHECK-NEXT: %[[Q:.*]] = mrc.binary div
// CHECK-NEXT: mrc.unary round_even %[[Q]]
func.func @quantised(%q: tensor<?x4xui8>) -> tensor<?x4xui8> {
  %zero = mrc.constant dense<124.0> : tensor<f32>
  %scale = mrc.constant dense<0.1> : tensor<f32>
  %three = mrc.constant dense<3.0> : tensor<f32>
  %none = mrc.constant dense<0.0> : tensor<f32>
  %to = mrc.constant dense<0.02> : tensor<f32>
  %x = mrc.cast %q {to = f32} : (tensor<?x4xui8>) -> tensor<?x4xf32>
  %0 = mrc.binary sub %x, %zero : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = mrc.binary mul %0, %scale : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %2 = mrc.binary add %1, %three : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %3 = mrc.binary max %2, %none : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %4 = mrc.binary div %3, %to : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %5 = mrc.unary round_even %4 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %6 = mrc.cast %5 {to = ui8} : (tensor<?x4xf32>) -> tensor<?x4xui8>
  return %6 : tensor<?x4xui8>
}
