// RUN: mrcc-opt --mrc-fuse-norms --split-input-file %s | FileCheck %s

// torch's group norm, as the importer shows it.
// CHECK-LABEL: func @group_norm
// CHECK: %[[T:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
// CHECK: %[[G:.*]] = mrc.group_norm %[[T]], %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32, groups = 4 : i64} : (tensor<?x?x?x8xf32>, none, none) -> tensor<?x?x?x8xf32>
// CHECK: %[[B:.*]] = mrc.transpose %[[G]] {perm = array<i64: 0, 3, 1, 2>}
// CHECK: return %[[B]]
func.func @group_norm(%x: tensor<?x8x?x?xf32>) -> tensor<?x8x?x?xf32> {
  %parts = mrc.constant dense<[0, 4, -1]> : tensor<3xi64>
  %one = mrc.constant dense<1.0> : tensor<4xf32>
  %zero = mrc.constant dense<0.0> : tensor<4xf32>
  %0 = mrc.reshape %x, %parts : (tensor<?x8x?x?xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
  %1 = mrc.transpose %0 {perm = array<i64: 0, 2, 1>} : (tensor<?x4x?xf32>) -> tensor<?x?x4xf32>
  %2 = mrc.group_norm %1, %one, %zero {groups = 4 : i64, epsilon = 1.0e-05 : f32} : (tensor<?x?x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>
  %3 = mrc.transpose %2 {perm = array<i64: 0, 2, 1>} : (tensor<?x?x4xf32>) -> tensor<?x4x?xf32>
  %4 = mrc.shape %x : (tensor<?x8x?x?xf32>) -> tensor<4xi64>
  %5 = mrc.reshape %3, %4 : (tensor<?x4x?xf32>, tensor<4xi64>) -> tensor<?x8x?x?xf32>
  return %5 : tensor<?x8x?x?xf32>
}

// -----

// CHECK-LABEL: func @layer_norm
// CHECK: %[[L:.*]] = mrc.layer_norm %arg0, %{{.*}}, %{{.*}} {axis = 2 : i64, epsilon = 9.99999974E-6 : f32} : (tensor<?x?x6xf32>, none, none)
// CHECK: %[[M:.*]] = mrc.binary mul %[[L]]
// CHECK: return %[[M]]
func.func @layer_norm(%x: tensor<?x?x6xf32>) -> tensor<?x?x6xf32> {
  %eps = mrc.constant dense<1.0e-05> : tensor<f32>
  %two = mrc.constant dense<2.0> : tensor<1xf32>
  %scale = mrc.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %0 = mrc.reduce mean %x {axes = array<i64: 2>} : (tensor<?x?x6xf32>) -> tensor<?x?x1xf32>
  %1 = mrc.binary sub %x, %0 : (tensor<?x?x6xf32>, tensor<?x?x1xf32>) -> tensor<?x?x6xf32>
  %2 = mrc.binary pow %1, %two : (tensor<?x?x6xf32>, tensor<1xf32>) -> tensor<?x?x6xf32>
  %3 = mrc.reduce mean %2 {axes = array<i64: 2>} : (tensor<?x?x6xf32>) -> tensor<?x?x1xf32>
  %4 = mrc.binary add %3, %eps : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
  %5 = mrc.unary sqrt %4 : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %6 = mrc.binary div %1, %5 : (tensor<?x?x6xf32>, tensor<?x?x1xf32>) -> tensor<?x?x6xf32>
  %7 = mrc.binary mul %6, %scale : (tensor<?x?x6xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
  return %7 : tensor<?x?x6xf32>
}

// -----

// Over the channels of an image: transposes bring them to the end.
// CHECK-LABEL: func @channels
// CHECK: %[[T:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>}
// CHECK: %[[L:.*]] = mrc.layer_norm %[[T]], %{{.*}}, %{{.*}} {axis = 3 : i64
// CHECK: %[[B:.*]] = mrc.transpose %[[L]] {perm = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: return %[[B]]
func.func @channels(%x: tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32> {
  %eps = mrc.constant dense<1.0e-06> : tensor<f32>
  %0 = mrc.reduce mean %x {axes = array<i64: 1>} : (tensor<?x6x?x?xf32>) -> tensor<?x1x?x?xf32>
  %1 = mrc.binary sub %x, %0 : (tensor<?x6x?x?xf32>, tensor<?x1x?x?xf32>) -> tensor<?x6x?x?xf32>
  %2 = mrc.binary mul %1, %1 : (tensor<?x6x?x?xf32>, tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32>
  %3 = mrc.reduce mean %2 {axes = array<i64: 1>} : (tensor<?x6x?x?xf32>) -> tensor<?x1x?x?xf32>
  %4 = mrc.binary add %eps, %3 : (tensor<f32>, tensor<?x1x?x?xf32>) -> tensor<?x1x?x?xf32>
  %5 = mrc.unary rsqrt %4 : (tensor<?x1x?x?xf32>) -> tensor<?x1x?x?xf32>
  %6 = mrc.binary mul %5, %1 : (tensor<?x1x?x?xf32>, tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32>
  return %6 : tensor<?x6x?x?xf32>
}

// -----

// Over the pixels of each channel: instance norm.
// CHECK-LABEL: func @instance
// CHECK: %[[T:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>}
// CHECK: %[[G:.*]] = mrc.group_norm %[[T]], %{{.*}}, %{{.*}} {{{.*}}groups = 6 : i64} : (tensor<?x?x?x6xf32>
// CHECK: mrc.transpose %[[G]] {perm = array<i64: 0, 3, 1, 2>}
func.func @instance(%x: tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32> {
  %eps = mrc.constant dense<1.0e-06> : tensor<f32>
  %0 = mrc.reduce mean %x {axes = array<i64: 2, 3>} : (tensor<?x6x?x?xf32>) -> tensor<?x6x1x1xf32>
  %1 = mrc.binary sub %x, %0 : (tensor<?x6x?x?xf32>, tensor<?x6x1x1xf32>) -> tensor<?x6x?x?xf32>
  %2 = mrc.binary mul %1, %1 : (tensor<?x6x?x?xf32>, tensor<?x6x?x?xf32>) -> tensor<?x6x?x?xf32>
  %3 = mrc.reduce mean %2 {axes = array<i64: 2, 3>} : (tensor<?x6x?x?xf32>) -> tensor<?x6x1x1xf32>
  %4 = mrc.binary add %3, %eps : (tensor<?x6x1x1xf32>, tensor<f32>) -> tensor<?x6x1x1xf32>
  %5 = mrc.unary sqrt %4 : (tensor<?x6x1x1xf32>) -> tensor<?x6x1x1xf32>
  %6 = mrc.binary div %1, %5 : (tensor<?x6x?x?xf32>, tensor<?x6x1x1xf32>) -> tensor<?x6x?x?xf32>
  return %6 : tensor<?x6x?x?xf32>
}

// -----

// CHECK-LABEL: func @rms
// CHECK: mrc.layer_norm %arg0, %{{.*}}, %{{.*}} {axis = 2 : i64, epsilon = 9.99999997E-7 : f32, rms = true}
// CHECK-NEXT: return
func.func @rms(%x: tensor<?x?x6xf32>) -> tensor<?x?x6xf32> {
  %eps = mrc.constant dense<1.0e-06> : tensor<f32>
  %two = mrc.constant dense<2.0> : tensor<f32>
  %0 = mrc.binary pow %x, %two : (tensor<?x?x6xf32>, tensor<f32>) -> tensor<?x?x6xf32>
  %1 = mrc.reduce mean %0 {axes = array<i64: 2>} : (tensor<?x?x6xf32>) -> tensor<?x?x1xf32>
  %2 = mrc.binary add %1, %eps : (tensor<?x?x1xf32>, tensor<f32>) -> tensor<?x?x1xf32>
  %3 = mrc.unary sqrt %2 : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %4 = mrc.unary reciprocal %3 : (tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
  %5 = mrc.binary mul %x, %4 : (tensor<?x?x6xf32>, tensor<?x?x1xf32>) -> tensor<?x?x6xf32>
  return %5 : tensor<?x?x6xf32>
}

// -----

// Variance and mean over different axes, and a reshape back to other dims: no norm.
// CHECK-LABEL: func @not_norms
// CHECK-NOT: mrc.layer_norm
// CHECK: mrc.group_norm {{.*}} : (tensor<?x48x4xf32>
// CHECK: mrc.reshape
func.func @not_norms(%x: tensor<?x4x6xf32>, %y: tensor<?x8x4x6xf32>) -> (tensor<?x4x6xf32>, tensor<?x8x6x4xf32>) {
  %eps = mrc.constant dense<1.0e-06> : tensor<f32>
  %0 = mrc.reduce mean %x {axes = array<i64: 1>} : (tensor<?x4x6xf32>) -> tensor<?x1x6xf32>
  %1 = mrc.binary mul %x, %0 : (tensor<?x4x6xf32>, tensor<?x1x6xf32>) -> tensor<?x4x6xf32>
  %2 = mrc.binary mul %x, %x : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  %3 = mrc.reduce mean %2 {axes = array<i64: 2>} : (tensor<?x4x6xf32>) -> tensor<?x4x1xf32>
  %4 = mrc.binary add %3, %eps : (tensor<?x4x1xf32>, tensor<f32>) -> tensor<?x4x1xf32>
  %5 = mrc.unary rsqrt %4 : (tensor<?x4x1xf32>) -> tensor<?x4x1xf32>
  %6 = mrc.binary mul %1, %5 : (tensor<?x4x6xf32>, tensor<?x4x1xf32>) -> tensor<?x4x6xf32>
  %none = mrc.none : none
  %parts = mrc.constant dense<[0, 4, -1]> : tensor<3xi64>
  %other = mrc.constant dense<[0, 8, 6, 4]> : tensor<4xi64>
  %7 = mrc.reshape %y, %parts : (tensor<?x8x4x6xf32>, tensor<3xi64>) -> tensor<?x4x48xf32>
  %8 = mrc.transpose %7 {perm = array<i64: 0, 2, 1>} : (tensor<?x4x48xf32>) -> tensor<?x48x4xf32>
  %9 = mrc.group_norm %8, %none, %none {groups = 4 : i64, epsilon = 1.0e-05 : f32} : (tensor<?x48x4xf32>, none, none) -> tensor<?x48x4xf32>
  %10 = mrc.transpose %9 {perm = array<i64: 0, 2, 1>} : (tensor<?x48x4xf32>) -> tensor<?x4x48xf32>
  %11 = mrc.reshape %10, %other : (tensor<?x4x48xf32>, tensor<4xi64>) -> tensor<?x8x6x4xf32>
  return %6, %11 : tensor<?x4x6xf32>, tensor<?x8x6x4xf32>
}
