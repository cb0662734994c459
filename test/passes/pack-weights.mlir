// RUN: mrcc-opt --mrc-pack-weights --split-input-file %s | FileCheck %s
// RUN: mrcc-opt --mrc-pack-weights --mrc-fold-constants --split-input-file %s | FileCheck %s --check-prefix=FOLDED

// CHECK-LABEL: func @conv
// CHECK: %[[P:.*]] = mrc.pack %{{.*}} {form = "conv"} : (tensor<2x1x1x2xf32>) -> tensor<1x1x2x1x16xf32>
// CHECK: mrc.conv %arg0, %[[P]], %{{.*}} {{{.*}}packed_kernel = array<i64: 1, 2>, packed_oc = 2 : i64{{.*}}} : (tensor<?x?x?x1xf32>, tensor<1x1x2x1x16xf32>, none) -> tensor<?x?x?x2xf32>
// FOLDED-LABEL: func @conv
// FOLDED: mrc.constant dense<{{\[\[\[\[}}[1.000000e+00, 3.000000e+00, 0.000000e+00
// FOLDED-NOT: mrc.pack
func.func @conv(%x: tensor<?x?x?x1xf32>) -> tensor<?x?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]> : tensor<2x1x1x2xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<?x?x?x1xf32>, tensor<2x1x1x2xf32>, none) -> tensor<?x?x?x2xf32>
  return %0 : tensor<?x?x?x2xf32>
}

// -----

// Every channel a group: depthwise. One spatial dimension: a kernel of one row.
// CHECK-LABEL: func @depthwise
// CHECK: %[[R:.*]] = mrc.constant dense<{{.*}}> : tensor<2x1x1x3xf32>
// CHECK: %[[P:.*]] = mrc.pack %[[R]] {form = "depthwise", group = 2 : i64} : (tensor<2x1x1x3xf32>) -> tensor<3x2xf32>
// CHECK: mrc.conv %arg0, %[[P]], %{{.*}} {{{.*}}packed_kernel = array<i64: 3>, packed_oc = 2 : i64
func.func @depthwise(%x: tensor<?x?x2xf32>) -> tensor<?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]> : tensor<2x1x3xf32>
  %0 = mrc.conv %x, %w, %none {strides = array<i64: 1>, dilations = array<i64: 1>, pads = array<i64: 1, 1>, group = 2 : i64} : (tensor<?x?x2xf32>, tensor<2x1x3xf32>, none) -> tensor<?x?x2xf32>
  return %0 : tensor<?x?x2xf32>
}

// -----

// A transposed convolution is packed as the convolution with its kernel turned around: [IC, OC, kernel] -> [OC, IC, kernel reversed].
// CHECK-LABEL: func @conv_transpose
// CHECK: %[[R:.*]] = mrc.constant dense<{{\[\[\[\[}}4.000000e+00, 3.000000e+00], [2.000000e+00, 1.000000e+00]], {{\[\[}}8.000000e+00, 7.000000e+00], [6.000000e+00, 5.000000e+00]]]]> : tensor<1x2x2x2xf32>
// CHECK: %[[P:.*]] = mrc.pack %[[R]] {form = "conv"}
// CHECK: mrc.conv_transpose %arg0, %[[P]], %{{.*}} {{{.*}}packed_kernel = array<i64: 2, 2>, packed_oc = 1 : i64
func.func @conv_transpose(%x: tensor<?x?x?x2xf32>) -> tensor<?x?x?x1xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 6.0], [7.0, 8.0]]]]> : tensor<2x1x2x2xf32>
  %0 = mrc.conv_transpose %x, %w, %none {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x1x2x2xf32>, none) -> tensor<?x?x?x1xf32>
  return %0 : tensor<?x?x?x1xf32>
}

// -----

// Groups of a transposed convolution keep their places: [2 x 2, 1, 1 x 2].
// CHECK-LABEL: func @grouped
// CHECK: mrc.constant dense<{{\[\[\[\[}}2.000000e+00, 1.000000e+00]], {{\[\[}}4.000000e+00, 3.000000e+00]]], {{\[\[\[}}6.000000e+00, 5.000000e+00]], {{\[\[}}8.000000e+00, 7.000000e+00]]]]> : tensor<2x2x1x2xf32>
// CHECK: mrc.pack %{{.*}} {form = "conv", group = 2 : i64} : (tensor<2x2x1x2xf32>) -> tensor<2x1x1x2x2x16xf32>
func.func @grouped(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x2xf32> {
  %none = mrc.none : none
  %w = mrc.constant dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]], [[[5.0, 6.0]]], [[[7.0, 8.0]]]]> : tensor<4x1x1x2xf32>
  %0 = mrc.conv_transpose %x, %w, %none {strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, group = 2 : i64} : (tensor<?x?x?x4xf32>, tensor<4x1x1x2xf32>, none) -> tensor<?x?x?x2xf32>
  return %0 : tensor<?x?x?x2xf32>
}

// -----

// CHECK-LABEL: func @matmul
// CHECK: %[[P:.*]] = mrc.pack %{{.*}} {form = "matmul"} : (tensor<3x2xf32>) -> tensor<1x3x16xf32>
// CHECK: mrc.matmul %arg0, %[[P]] {packed_k = 3 : i64, packed_n = 2 : i64} : (tensor<?x?x3xf32>, tensor<1x3x16xf32>) -> tensor<?x?x2xf32>
// FOLDED-LABEL: func @matmul
// FOLDED: mrc.constant dense<{{\[\[}}[1.000000e+00, 2.000000e+00, 0.000000e+00
// FOLDED-NOT: mrc.pack
func.func @matmul(%x: tensor<?x?x3xf32>) -> tensor<?x?x2xf32> {
  %w = mrc.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %0 = mrc.matmul %x, %w : (tensor<?x?x3xf32>, tensor<3x2xf32>) -> tensor<?x?x2xf32>
  return %0 : tensor<?x?x2xf32>
}

// -----

// Left as they are: a repeated value, another element type, a table that is also looked up, weights that are computed.
// CHECK-LABEL: func @stays
// CHECK-NOT: mrc.pack
func.func @stays(%x: tensor<?x2xf32>, %y: tensor<?x2xf64>, %i: tensor<?xi64>) -> (tensor<?x2xf32>, tensor<?x2xf64>, tensor<?x2xf32>, tensor<?x2xf32>) {
  %splat = mrc.constant dense<1.0> : tensor<2x2xf32>
  %wide = mrc.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>
  %table = mrc.constant dense<[[1.0, 2.0], [5.0, 4.0]]> : tensor<2x2xf32>
  %one = mrc.constant dense<0> : tensor<1xi64>
  %0 = mrc.matmul %x, %splat : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %1 = mrc.matmul %y, %wide : (tensor<?x2xf64>, tensor<2x2xf64>) -> tensor<?x2xf64>
  %2 = mrc.matmul %x, %table : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %3 = mrc.gather %table, %one {axis = 0 : i64} : (tensor<2x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  %4 = mrc.binary mul %x, %3 : (tensor<?x2xf32>, tensor<1x2xf32>) -> tensor<?x2xf32>
  return %0, %1, %2, %4 : tensor<?x2xf32>, tensor<?x2xf64>, tensor<?x2xf32>, tensor<?x2xf32>
}
