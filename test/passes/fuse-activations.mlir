// RUN: mrcc-opt --mrc-fuse-activations --split-input-file %s | FileCheck %s

// CHECK-LABEL: func @silu
// CHECK-NEXT: %[[S:.*]] = mrc.unary silu %arg0
// CHECK-NEXT: return %[[S]]
func.func @silu(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = mrc.unary sigmoid %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = mrc.binary mul %0, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// -----

// Paddle writes sigmoid(1.0 * x).
// CHECK-LABEL: func @silu_times_one
// CHECK: mrc.unary silu %arg0
// CHECK-NEXT: return
func.func @silu_times_one(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %one = mrc.constant dense<1.0> : tensor<1xf32>
  %0 = mrc.binary mul %x, %one : (tensor<?x4xf32>, tensor<1xf32>) -> tensor<?x4xf32>
  %1 = mrc.unary sigmoid %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = mrc.binary mul %x, %1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// -----

// x * (0.5 * (1 + erf(x / sqrt 2))), torch; times another factor that stays.
// CHECK-LABEL: func @gelu_torch
// CHECK: %[[G:.*]] = mrc.unary gelu %arg0
// CHECK-NEXT: mrc.binary mul %arg1, %[[G]]
func.func @gelu_torch(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %root = mrc.constant dense<1.41421354> : tensor<f32>
  %one = mrc.constant dense<1.0> : tensor<f32>
  %half = mrc.constant dense<0.5> : tensor<f32>
  %0 = mrc.binary div %x, %root : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %1 = mrc.unary erf %0 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = mrc.binary add %1, %one : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %3 = mrc.binary mul %half, %2 : (tensor<f32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = mrc.binary mul %x, %3 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %5 = mrc.binary mul %y, %4 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %5 : tensor<3x4xf32>
}

// -----

// (x * (1 + erf(x * 0.7071))) * 0.5, x / 2 * (...), and the half inside the sum.
// CHECK-LABEL: func @gelu_orders
// CHECK: %[[A:.*]] = mrc.unary gelu %arg0
// CHECK: %[[B:.*]] = mrc.unary gelu %arg0
// CHECK: %[[C:.*]] = mrc.unary gelu %arg0
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @gelu_orders(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %root = mrc.constant dense<0.707106769> : tensor<f32>
  %one = mrc.constant dense<1.0> : tensor<f32>
  %two = mrc.constant dense<2.0> : tensor<f32>
  %half = mrc.constant dense<0.5> : tensor<f32>
  %0 = mrc.binary mul %x, %root : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %1 = mrc.unary erf %0 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %2 = mrc.binary add %1, %one : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %3 = mrc.binary mul %x, %2 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %4 = mrc.binary mul %3, %half : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %5 = mrc.binary div %x, %two : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %6 = mrc.binary mul %5, %2 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %7 = mrc.binary mul %half, %1 : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %8 = mrc.binary add %half, %7 : (tensor<f32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %9 = mrc.binary mul %8, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %4, %6, %9 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}

// -----

// Another scale inside, another argument: no gelu and no silu.
// CHECK-LABEL: func @others
// CHECK-NOT: gelu
// CHECK-NOT: silu
func.func @others(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %one = mrc.constant dense<1.0> : tensor<f32>
  %half = mrc.constant dense<0.5> : tensor<f32>
  %q = mrc.constant dense<1.702> : tensor<f32>
  %0 = mrc.unary erf %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = mrc.binary add %0, %one : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %2 = mrc.binary mul %x, %1 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %3 = mrc.binary mul %2, %half : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %4 = mrc.unary sigmoid %y : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %5 = mrc.binary mul %x, %4 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %6 = mrc.binary mul %x, %q : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %7 = mrc.unary sigmoid %6 : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %8 = mrc.binary mul %x, %7 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  return %3, %5, %8 : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}
