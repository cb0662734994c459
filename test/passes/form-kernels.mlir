// RUN: mrcc-opt %s --mrc-form-kernels --split-input-file | FileCheck %s

// An element-wise chain is one loop; a scalar constant is in the body; equal operands are one.
// CHECK-LABEL: func.func @chain
// CHECK-NOT: mrc.unary
// CHECK: mrc.launch "loop" {extents = array<i64: 2, 5>} body "f32 load 0; f32 sigmoid %0; f32 mul %0 %1 -> %2"(%arg0)
// CHECK-NEXT: return
func.func @chain(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = mrc.unary sigmoid %x : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %1 = mrc.binary mul %x, %0 : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
}

// -----

// Activation and residual become the tail of the convolution.
// CHECK-LABEL: func.func @epilogue
// CHECK: mrc.launch "conv"
// CHECK-SAME: load 2
// CHECK-SAME: max
// CHECK-SAME: load 3
// CHECK-NOT: mrc.launch
// CHECK: return
func.func @epilogue(%x: tensor<1x4x4x16xf32>, %r: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
  %w = mrc.constant #mrc.blob<"k0"> : tensor<1x1x1x16x16xf32>
  %b = mrc.constant dense<1.5> : tensor<16xf32>
  %zero = mrc.constant dense<0.0> : tensor<f32>
  %0 = mrc.conv %x, %w, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64, packed_kernel = array<i64: 1, 1>, packed_oc = 16 : i64}
    : (tensor<1x4x4x16xf32>, tensor<1x1x1x16x16xf32>, tensor<16xf32>) -> tensor<1x4x4x16xf32>
  %1 = mrc.binary max %0, %zero : (tensor<1x4x4x16xf32>, tensor<f32>) -> tensor<1x4x4x16xf32>
  %2 = mrc.binary add %1, %r : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  return %2 : tensor<1x4x4x16xf32>
}

// -----

// A value with two users is computed once.
// CHECK-LABEL: func.func @two_users
// CHECK: %[[E:.*]] = mrc.launch "loop"{{.*}}exp
// CHECK: mrc.launch "loop"{{.*}}neg{{.*}}(%[[E]])
// CHECK: mrc.launch "loop"{{.*}}abs{{.*}}(%[[E]])
func.func @two_users(%x: tensor<7xf32>) -> (tensor<7xf32>, tensor<7xf32>) {
  %0 = mrc.unary exp %x : (tensor<7xf32>) -> tensor<7xf32>
  %1 = mrc.unary neg %0 : (tensor<7xf32>) -> tensor<7xf32>
  %2 = mrc.unary abs %0 : (tensor<7xf32>) -> tensor<7xf32>
  return %1, %2 : tensor<7xf32>, tensor<7xf32>
}

// -----

// The argument is no launch's own memory: it is copied into the concat, the launch writes in place.
// CHECK-LABEL: func.func @concat
// CHECK-DAG: %[[A:.*]] = mrc.launch "loop" {extents = array<i64: 2, 3>} body "f32 load 0; f32 exp %0 -> %1"
// CHECK-DAG: %[[B:.*]] = mrc.launch "loop" {extents = array<i64: 2, 4>} body "f32 load 0 -> %0"
// CHECK: mrc.concat %[[A]], %[[B]]
// CHECK-NOT: mrc.launch
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %0 = mrc.unary exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = mrc.concat %0, %y {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  return %1 : tensor<2x7xf32>
}

// -----

// A reshape of a transposed argument needs a copy, a reshape of a contiguous one does not. A returned view is copied out.
// CHECK-LABEL: func.func @views
// CHECK: mrc.transpose
// CHECK: %[[C:.*]] = mrc.launch "loop" {extents = array<i64: 3, 2>}
// CHECK: mrc.reshape %[[C]]
func.func @views(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %s = mrc.constant dense<[6]> : tensor<1xi64>
  %0 = mrc.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = mrc.reshape %0, %s : (tensor<3x2xf32>, tensor<1xi64>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}

// -----

// A mean divides by a run-time immediate: resolutions share the kernel.
// CHECK-LABEL: func.func @mean
// CHECK: mrc.launch "loop" {combine = "sum", extents = array<i64: 1, 4, 6, 8>, immediates = array<i64: 24>, reduce = array<i64: 1, 2>}
func.func @mean(%x: tensor<1x4x6x8xf32>) -> tensor<1x8xf32> {
  %0 = mrc.reduce mean %x {axes = array<i64: 1, 2>, keepdims = false} : (tensor<1x4x6x8xf32>) -> tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}

// -----

// A nearest resize is read in place by the sum that follows it.
// CHECK-LABEL: func.func @resize_add
// CHECK: mrc.launch "loop"
// CHECK-SAME: load_at
// CHECK-SAME: add
// CHECK-NOT: mrc.launch
// CHECK: return
func.func @resize_add(%x: tensor<1x2x2x8xf32>, %y: tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32> {
  %none = mrc.none : none
  %s = mrc.constant dense<2.0> : tensor<2xf32>
  %0 = mrc.resize %x, %none, %s, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 1, 2>, antialias = false,
    aspect_policy = "stretch", cubic_coeff = -0.75 : f32, exclude_outside = false, extrapolation = 0.0 : f32}
    : (tensor<1x2x2x8xf32>, none, tensor<2xf32>, none) -> tensor<1x4x4x8xf32>
  %1 = mrc.binary add %0, %y : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  return %1 : tensor<1x4x4x8xf32>
}

// -----

// A model's own number is an immediate (0.3 as bits), a small whole one is part of the op.
// CHECK-LABEL: func.func @numbers
// CHECK: mrc.launch "loop" {extents = array<i64: 7>, immediates = array<i64: 1050253722>} body "f32 load 0; f32 param 0; f32 mul %0 %1; f32 const 3; f32 add %2 %3 -> %4"
func.func @numbers(%x: tensor<7xf32>) -> tensor<7xf32> {
  %a = mrc.constant dense<0.3> : tensor<f32>
  %b = mrc.constant dense<3.0> : tensor<f32>
  %0 = mrc.binary mul %x, %a : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = mrc.binary add %0, %b : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}
