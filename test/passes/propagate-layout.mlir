// RUN: mrcc-opt --mrc-propagate-layout --split-input-file %s | FileCheck %s

// Two convolutions as the importer writes them, with an activation, a per-channel constant and a residual between.
// CHECK-LABEL: func @residual
// CHECK-SAME: %[[X:.*]]: tensor<?x8x?x?xf32>
// CHECK: %[[T:.*]] = mrc.transpose %[[X]] {perm = array<i64: 0, 2, 3, 1>}
// CHECK: %[[C1:.*]] = mrc.conv %[[T]]
// CHECK-NOT: transpose
// CHECK: %[[B:.*]] = mrc.constant dense<{{.*}}> : tensor<1x1x1x8xf32>
// CHECK: %[[A:.*]] = mrc.binary add %[[C1]], %[[B]]
// CHECK: %[[R:.*]] = mrc.unary tanh %[[A]]
// CHECK: %[[C2:.*]] = mrc.conv %[[R]]
// CHECK: %[[S:.*]] = mrc.binary add %[[C2]], %[[R]]
// CHECK: %[[O:.*]] = mrc.transpose %[[S]] {perm = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT: return %[[O]] : tensor<?x8x?x?xf32>
func.func @residual(%x: tensor<?x8x?x?xf32>) -> tensor<?x8x?x?xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<1.0> : tensor<8x8x1x1xf32>
  %b = mrc.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]], [[5.0]], [[6.0]], [[7.0]], [[8.0]]]> : tensor<8x1x1xf32>
  %0 = mrc.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
  %1 = mrc.conv %0, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x8xf32>, tensor<8x8x1x1xf32>, none) -> tensor<?x?x?x8xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %3 = mrc.binary add %2, %b : (tensor<?x8x?x?xf32>, tensor<8x1x1xf32>) -> tensor<?x8x?x?xf32>
  %4 = mrc.unary tanh %3 : (tensor<?x8x?x?xf32>) -> tensor<?x8x?x?xf32>
  %5 = mrc.transpose %4 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
  %6 = mrc.conv %5, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x8xf32>, tensor<8x8x1x1xf32>, none) -> tensor<?x?x?x8xf32>
  %7 = mrc.transpose %6 {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %8 = mrc.binary add %7, %4 : (tensor<?x8x?x?xf32>, tensor<?x8x?x?xf32>) -> tensor<?x8x?x?xf32>
  return %8 : tensor<?x8x?x?xf32>
}

// -----

// Squeeze and excite: the pooled values have one pixel; no transpose is left.
// CHECK-LABEL: func @squeeze_excite
// CHECK: mrc.reduce mean %{{.*}} {axes = array<i64: 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x1x1x8xf32>
// CHECK-NEXT: mrc.unary sigmoid {{.*}} : (tensor<?x1x1x8xf32>)
// CHECK-NEXT: mrc.binary mul %arg0, {{.*}} -> tensor<?x?x?x8xf32>
// CHECK-NEXT: return
func.func @squeeze_excite(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %1 = mrc.reduce mean %0 {axes = array<i64: 2, 3>} : (tensor<?x8x?x?xf32>) -> tensor<?x8x1x1xf32>
  %2 = mrc.unary sigmoid %1 : (tensor<?x8x1x1xf32>) -> tensor<?x8x1x1xf32>
  %3 = mrc.binary mul %0, %2 : (tensor<?x8x?x?xf32>, tensor<?x8x1x1xf32>) -> tensor<?x8x?x?xf32>
  %4 = mrc.transpose %3 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
  return %4 : tensor<?x?x?x8xf32>
}

// -----

// Image to tokens and back, H and W unknown: reshapes without transposes.
// CHECK-LABEL: func @tokens
// CHECK: %[[S:.*]] = mrc.constant dense<[0, -1, 8]> : tensor<3xi64>
// CHECK: %[[T:.*]] = mrc.reshape %arg0, %[[S]] : (tensor<?x?x?x8xf32>, tensor<3xi64>) -> tensor<?x?x8xf32>
// CHECK: %[[E:.*]] = mrc.unary exp %[[T]]
// CHECK-NOT: mrc.transpose
// CHECK: mrc.reshape %[[E]], %{{.*}} -> tensor<?x?x?x8xf32>
// CHECK-NOT: mrc.transpose
func.func @tokens(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %shape = mrc.constant dense<[0, 8, -1]> : tensor<3xi64>
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %1 = mrc.reshape %0, %shape : (tensor<?x8x?x?xf32>, tensor<3xi64>) -> tensor<?x8x?xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 2, 1>} : (tensor<?x8x?xf32>) -> tensor<?x?x8xf32>
  %3 = mrc.unary exp %2 : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %4 = mrc.transpose %3 {perm = array<i64: 0, 2, 1>} : (tensor<?x?x8xf32>) -> tensor<?x8x?xf32>
  %5 = mrc.shape %0 : (tensor<?x8x?x?xf32>) -> tensor<4xi64>
  %6 = mrc.reshape %4, %5 : (tensor<?x8x?xf32>, tensor<4xi64>) -> tensor<?x8x?x?xf32>
  %7 = mrc.transpose %6 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
  return %7 : tensor<?x?x?x8xf32>
}

// -----

// A flattened image mixes channels and pixels: the transpose has to stay.
// CHECK-LABEL: func @flatten_stays
// CHECK: %[[T:.*]] = mrc.transpose %arg0
// CHECK: mrc.flatten %[[T]]
func.func @flatten_stays(%x: tensor<?x4x4x8xf32>) -> tensor<?x128xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x4x4x8xf32>) -> tensor<?x8x4x4xf32>
  %1 = mrc.flatten %0 {axis = 1 : i64} : (tensor<?x8x4x4xf32>) -> tensor<?x128xf32>
  return %1 : tensor<?x128xf32>
}

// -----

// One pixel: flatten is a reshape whatever the layout.
// CHECK-LABEL: func @flatten_pixel
// CHECK-NOT: mrc.transpose
// CHECK: mrc.reshape %arg0
func.func @flatten_pixel(%x: tensor<?x1x1x8xf32>) -> tensor<?x8xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x1x1x8xf32>) -> tensor<?x8x1x1xf32>
  %1 = mrc.flatten %0 {axis = 1 : i64} : (tensor<?x8x1x1xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// -----

// Axes of data movement are mapped; a concat takes the layout of its inputs.
// CHECK-LABEL: func @movement
// CHECK: %[[P:.*]] = mrc.pad constant %arg0, %{{.*}} : (tensor<?x?x?x8xf32>, tensor<8xi64>, none, none) -> tensor<?x?x?x8xf32>
// CHECK: %[[R:.*]] = mrc.resize %[[P]], {{.*}}axes = array<i64: 1, 2>
// CHECK: %[[C:.*]] = mrc.concat %[[R]], %[[R]] {axis = 3 : i64}
// CHECK: %[[S:.*]]:2 = mrc.split %[[C]], %{{.*}} {axis = 3 : i64}
// CHECK: %[[A:.*]] = mrc.constant dense<[3, 2]> : tensor<2xi64>
// CHECK: %[[L:.*]] = mrc.slice %[[S]]#1, %{{.*}}, %{{.*}}, %[[A]], %{{.*}} -> tensor<?x?x?x4xf32>
// CHECK: %[[M:.*]] = mrc.softmax %[[L]] {axis = 3 : i64}
// CHECK: %[[X:.*]] = mrc.arg_reduce %[[M]] {axis = 3 : i64, is_max = true, keepdims = false} : (tensor<?x?x?x4xf32>) -> tensor<?x?x?xi64>
// CHECK: return %[[X]]
func.func @movement(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?xi64> {
  %none = mrc.none : none
  %pads = mrc.constant dense<[0, 0, 1, 1, 0, 0, 1, 1]> : tensor<8xi64>
  %scales = mrc.constant dense<2.0> : tensor<2xf32>
  %starts = mrc.constant dense<[2, 0]> : tensor<2xi64>
  %ends = mrc.constant dense<[6, -1]> : tensor<2xi64>
  %axes = mrc.constant dense<[1, -1]> : tensor<2xi64>
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %1 = mrc.pad constant %0, %pads, %none, %none : (tensor<?x8x?x?xf32>, tensor<8xi64>, none, none) -> tensor<?x8x?x?xf32>
  %2 = mrc.resize %1, %none, %scales, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 2, 3>, antialias = false, aspect_policy = "stretch", cubic_coeff = -7.5e-01 : f32, exclude_outside = false, extrapolation = 0.0 : f32} : (tensor<?x8x?x?xf32>, none, tensor<2xf32>, none) -> tensor<?x8x?x?xf32>
  %3 = mrc.concat %2, %2 {axis = 1 : i64} : (tensor<?x8x?x?xf32>, tensor<?x8x?x?xf32>) -> tensor<?x16x?x?xf32>
  %4:2 = mrc.split %3, %none {axis = 1 : i64} : (tensor<?x16x?x?xf32>, none) -> (tensor<?x8x?x?xf32>, tensor<?x8x?x?xf32>)
  %5 = mrc.slice %4#1, %starts, %ends, %axes, %none : (tensor<?x8x?x?xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, none) -> tensor<?x4x?x?xf32>
  %6 = mrc.softmax %5 {axis = 1 : i64} : (tensor<?x4x?x?xf32>) -> tensor<?x4x?x?xf32>
  %7 = mrc.arg_reduce %6 {axis = 1 : i64, is_max = true, keepdims = false} : (tensor<?x4x?x?xf32>) -> tensor<?x?x?xi64>
  return %7 : tensor<?x?x?xi64>
}

// -----

// The query, key and value of a joint projection: slices of a five-dimensional transpose become slices of the projection.
// CHECK-LABEL: func @qkv
// CHECK: %[[S:.*]] = mrc.slice %arg0, {{.*}} -> tensor<1x?x1x8x15xf32>
// CHECK: %[[Q:.*]] = mrc.squeeze %[[S]] {axes = array<i64: 2>} : (tensor<1x?x1x8x15xf32>) -> tensor<1x?x8x15xf32>
// CHECK: %[[T:.*]] = mrc.transpose %[[Q]] {perm = array<i64: 0, 2, 1, 3>}
// CHECK: return %[[T]]
func.func @qkv(%x: tensor<1x?x3x8x15xf32>) -> tensor<1x8x?x15xf32> {
  %none = mrc.none : none
  %zero = mrc.constant dense<0> : tensor<1xi64>
  %one = mrc.constant dense<1> : tensor<1xi64>
  %0 = mrc.transpose %x {perm = array<i64: 2, 0, 3, 1, 4>} : (tensor<1x?x3x8x15xf32>) -> tensor<3x1x8x?x15xf32>
  %1 = mrc.slice %0, %zero, %one, %zero, %none : (tensor<3x1x8x?x15xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, none) -> tensor<1x1x8x?x15xf32>
  %2 = mrc.squeeze %1 {axes = array<i64: 0>} : (tensor<1x1x8x?x15xf32>) -> tensor<1x8x?x15xf32>
  return %2 : tensor<1x8x?x15xf32>
}

// -----

// A second, untransposed operand of full size: the inverse transpose is worth it where the result's transpose cancels.
// CHECK-LABEL: func @other_operand
// CHECK: %[[Y:.*]] = mrc.transpose %arg1 {perm = array<i64: 0, 2, 3, 1>}
// CHECK: %[[S:.*]] = mrc.binary add %arg0, %[[Y]]
// CHECK: return %[[S]]
func.func @other_operand(%x: tensor<1x?x?x8xf32> {mrc.dims = ["", "h", "w", ""]}, %y: tensor<1x8x?x?xf32> {mrc.dims = ["", "", "h", "w"]}) -> tensor<1x?x?x8xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x?x?x8xf32>) -> tensor<1x8x?x?xf32>
  %1 = mrc.binary add %0, %y : (tensor<1x8x?x?xf32>, tensor<1x8x?x?xf32>) -> tensor<1x8x?x?xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x8x?x?xf32>) -> tensor<1x?x?x8xf32>
  return %2 : tensor<1x?x?x8xf32>
}

// -----

// Without a transpose to cancel, it is not.
// CHECK-LABEL: func @other_operand_stays
// CHECK: %[[X:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 3, 1, 2>}
// CHECK: %[[S:.*]] = mrc.binary add %[[X]], %arg1
// CHECK: return %[[S]]
func.func @other_operand_stays(%x: tensor<1x?x?x8xf32> {mrc.dims = ["", "h", "w", ""]}, %y: tensor<1x8x?x?xf32> {mrc.dims = ["", "", "h", "w"]}) -> tensor<1x8x?x?xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x?x?x8xf32>) -> tensor<1x8x?x?xf32>
  %1 = mrc.binary add %0, %y : (tensor<1x8x?x?xf32>, tensor<1x8x?x?xf32>) -> tensor<1x8x?x?xf32>
  return %1 : tensor<1x8x?x?xf32>
}

// -----

// CHECK-LABEL: func @shape_of_transposed
// CHECK: %[[S:.*]] = mrc.shape %arg0 : (tensor<1x?x?x8xf32>) -> tensor<4xi64>
// CHECK: %[[I:.*]] = mrc.constant dense<[1, 2]> : tensor<2xi64>
// CHECK: mrc.gather %[[S]], %[[I]] {axis = 0 : i64}
func.func @shape_of_transposed(%x: tensor<1x?x?x8xf32>) -> tensor<2xi64> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x?x?x8xf32>) -> tensor<1x8x?x?xf32>
  %1 = mrc.shape %0 {start = 2 : i64} : (tensor<1x8x?x?xf32>) -> tensor<2xi64>
  return %1 : tensor<2xi64>
}

// -----

// A channel shuffle: only the order of the channels is a transpose.
// CHECK-LABEL: func @shuffle
// CHECK: %[[A:.*]] = mrc.reshape %arg0, %{{.*}} -> tensor<?x?x?x2x4xf32>
// CHECK: %[[T:.*]] = mrc.transpose %[[A]] {perm = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[B:.*]] = mrc.reshape %[[T]], %{{.*}} -> tensor<?x?x?x8xf32>
// CHECK: return %[[B]]
func.func @shuffle(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x?x?x8xf32>) -> tensor<?x8x?x?xf32>
  %h = mrc.shape %0 {start = 2 : i64} : (tensor<?x8x?x?xf32>) -> tensor<2xi64>
  %groups = mrc.constant dense<[-1, 2, 4]> : tensor<3xi64>
  %channels = mrc.constant dense<[-1, 8]> : tensor<2xi64>
  %s5 = mrc.concat %groups, %h {axis = 0 : i64} : (tensor<3xi64>, tensor<2xi64>) -> tensor<5xi64>
  %s4 = mrc.concat %channels, %h {axis = 0 : i64} : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %1 = mrc.reshape %0, %s5 : (tensor<?x8x?x?xf32>, tensor<5xi64>) -> tensor<?x2x4x?x?xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<?x2x4x?x?xf32>) -> tensor<?x4x2x?x?xf32>
  %3 = mrc.reshape %2, %s4 : (tensor<?x4x2x?x?xf32>, tensor<4xi64>) -> tensor<?x8x?x?xf32>
  %4 = mrc.transpose %3 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x8x?x?xf32>) -> tensor<?x?x?x8xf32>
  return %4 : tensor<?x?x?x8xf32>
}

// -----

// Pixel shuffle: one transpose between the two reshapes.
// CHECK-LABEL: func @depth_to_space
// CHECK: mrc.reshape %arg0, %{{.*}} -> tensor<1x4x5x3x2x2xf32>
// CHECK-NEXT: mrc.transpose %{{.*}} {perm = array<i64: 0, 1, 4, 2, 5, 3>}
// CHECK: mrc.reshape %{{.*}}, %{{.*}} -> tensor<1x8x10x3xf32>
// CHECK-NEXT: return
func.func @depth_to_space(%x: tensor<1x4x5x12xf32>) -> tensor<1x8x10x3xf32> {
  %split = mrc.constant dense<[1, 3, 2, 2, 4, 5]> : tensor<6xi64>
  %merge = mrc.constant dense<[1, 3, 8, 10]> : tensor<4xi64>
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x12xf32>) -> tensor<1x12x4x5xf32>
  %1 = mrc.reshape %0, %split : (tensor<1x12x4x5xf32>, tensor<6xi64>) -> tensor<1x3x2x2x4x5xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 1, 4, 2, 5, 3>} : (tensor<1x3x2x2x4x5xf32>) -> tensor<1x3x4x2x5x2xf32>
  %3 = mrc.reshape %2, %merge : (tensor<1x3x4x2x5x2xf32>, tensor<4xi64>) -> tensor<1x3x8x10xf32>
  %4 = mrc.transpose %3 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x8x10xf32>) -> tensor<1x8x10x3xf32>
  return %4 : tensor<1x8x10x3xf32>
}

// -----

// The input's normalisation happens behind the transpose.
// CHECK-LABEL: func @normalised
// CHECK: %[[T:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 2, 3, 1>}
// CHECK: %[[M:.*]] = mrc.constant dense<{{.*}}> : tensor<1x1x1x3xf32>
// CHECK: %[[S:.*]] = mrc.binary sub %[[T]], %[[M]]
// CHECK: mrc.pool max_pool %[[S]]
func.func @normalised(%x: tensor<?x3x?x?xf32>) -> tensor<?x?x?x3xf32> {
  %mean = mrc.constant dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32>
  %0 = mrc.binary sub %x, %mean : (tensor<?x3x?x?xf32>, tensor<3x1x1xf32>) -> tensor<?x3x?x?xf32>
  %1 = mrc.transpose %0 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x3x?x?xf32>) -> tensor<?x?x?x3xf32>
  %2 = mrc.pool max_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<?x?x?x3xf32>) -> tensor<?x?x?x3xf32>
  return %2 : tensor<?x?x?x3xf32>
}

// -----

// A norm over all of an image does not care for the order in it; its scale does.
// CHECK-LABEL: func @norm_of_image
// CHECK: %[[S:.*]] = mrc.constant dense<{{\[\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]]> : tensor<1x2x2xf32>
// CHECK: mrc.layer_norm %arg0, %[[S]], %{{.*}} {axis = 1 : i64
// CHECK-NEXT: return
func.func @norm_of_image(%x: tensor<?x1x2x2xf32>) -> tensor<?x1x2x2xf32> {
  %none = mrc.none : none
  %scale = mrc.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %0 = mrc.transpose %x {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x1x2x2xf32>) -> tensor<?x2x1x2xf32>
  %1 = mrc.layer_norm %0, %scale, %none {axis = 1 : i64, epsilon = 1.0e-03 : f32} : (tensor<?x2x1x2xf32>, tensor<2x1x2xf32>, none) -> tensor<?x2x1x2xf32>
  %2 = mrc.transpose %1 {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x2x1x2xf32>) -> tensor<?x1x2x2xf32>
  return %2 : tensor<?x1x2x2xf32>
}
