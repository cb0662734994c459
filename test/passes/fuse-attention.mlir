// RUN: mrcc-opt --mrc-fuse-attention --split-input-file %s | FileCheck %s

// torch's exporter puts the root of the scale on q and on k.
// CHECK-LABEL: func @torch
// CHECK: %[[Q:.*]] = mrc.transpose %arg0 {perm = array<i64: 0, 2, 1, 3>}
// CHECK: %[[K:.*]] = mrc.transpose %arg1 {perm = array<i64: 0, 2, 1, 3>}
// CHECK: mrc.attention %[[Q]], %[[K]], %{{.*}}, %{{.*}} {scale = 2.500000e-01 : f32} : (tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>, none) -> tensor<1x4x?x16xf32>
// CHECK-NEXT: return
func.func @torch(%q: tensor<1x?x4x16xf32> {mrc.dims = ["", "m", "", ""]}, %k: tensor<1x?x4x16xf32> {mrc.dims = ["", "n", "", ""]}, %v: tensor<1x?x4x16xf32> {mrc.dims = ["", "n", "", ""]}) -> tensor<1x4x?x16xf32> {
  %half = mrc.constant dense<0.5> : tensor<1xf32>
  %0 = mrc.binary mul %q, %half : (tensor<1x?x4x16xf32>, tensor<1xf32>) -> tensor<1x?x4x16xf32>
  %1 = mrc.binary mul %k, %half : (tensor<1x?x4x16xf32>, tensor<1xf32>) -> tensor<1x?x4x16xf32>
  %2 = mrc.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x?x4x16xf32>) -> tensor<1x4x?x16xf32>
  %3 = mrc.transpose %1 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x?x4x16xf32>) -> tensor<1x4x16x?xf32>
  %4 = mrc.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x?x4x16xf32>) -> tensor<1x4x?x16xf32>
  %5 = mrc.matmul %2, %3 : (tensor<1x4x?x16xf32>, tensor<1x4x16x?xf32>) -> tensor<1x4x?x?xf32>
  %6 = mrc.softmax %5 {axis = 3 : i64} : (tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  %7 = mrc.matmul %6, %4 : (tensor<1x4x?x?xf32>, tensor<1x4x?x16xf32>) -> tensor<1x4x?x16xf32>
  return %7 : tensor<1x4x?x16xf32>
}

// -----

// A scale and a mask on the scores; three dimensions get a leading one.
// CHECK-LABEL: func @masked
// CHECK: %[[O:.*]] = mrc.attention %{{.*}}, %{{.*}}, %{{.*}}, %arg3 {scale = 2.500000e-01 : f32} : (tensor<1x?x5x16xf32>, tensor<1x?x7x16xf32>, tensor<1x?x7x8xf32>, tensor<5x7xf32>) -> tensor<1x?x5x8xf32>
// CHECK: mrc.squeeze %[[O]] {axes = array<i64: 0>}
func.func @masked(%q: tensor<?x5x16xf32> {mrc.dims = ["b", "", ""]}, %k: tensor<?x7x16xf32> {mrc.dims = ["b", "", ""]}, %v: tensor<?x7x8xf32> {mrc.dims = ["b", "", ""]}, %mask: tensor<5x7xf32>) -> tensor<?x5x8xf32> {
  %four = mrc.constant dense<4.0> : tensor<f32>
  %zero = mrc.constant dense<0.0> : tensor<f32>
  %kt = mrc.transpose %k {perm = array<i64: 0, 2, 1>} : (tensor<?x7x16xf32>) -> tensor<?x16x7xf32>
  %0 = mrc.matmul %q, %kt : (tensor<?x5x16xf32>, tensor<?x16x7xf32>) -> tensor<?x5x7xf32>
  %1 = mrc.binary div %0, %four : (tensor<?x5x7xf32>, tensor<f32>) -> tensor<?x5x7xf32>
  %2 = mrc.binary add %1, %mask : (tensor<?x5x7xf32>, tensor<5x7xf32>) -> tensor<?x5x7xf32>
  %3 = mrc.softmax %2 {axis = 2 : i64} : (tensor<?x5x7xf32>) -> tensor<?x5x7xf32>
  %4 = mrc.matmul %3, %v : (tensor<?x5x7xf32>, tensor<?x7x8xf32>) -> tensor<?x5x8xf32>
  return %4 : tensor<?x5x8xf32>
}

// -----

// Scores that are also a result, a softmax over another axis, batch dims that broadcast: left alone.
// CHECK-LABEL: func @stays
// CHECK-NOT: mrc.attention
func.func @stays(%q: tensor<2x4x5x8xf32>, %kt: tensor<2x4x8x5xf32>, %v: tensor<2x4x5x8xf32>, %w: tensor<2x1x5x8xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) {
  %0 = mrc.matmul %q, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %1 = mrc.softmax %0 {axis = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %2 = mrc.matmul %1, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  %3 = mrc.matmul %2, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %4 = mrc.softmax %3 {axis = 2 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %5 = mrc.matmul %4, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  %6 = mrc.matmul %5, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %7 = mrc.softmax %6 {axis = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %8 = mrc.matmul %7, %w : (tensor<2x4x5x5xf32>, tensor<2x1x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %2, %0, %5, %8 : tensor<2x4x5x8xf32>, tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
}

// -----

// Half precision is fused, too; a mask of zeros is none.
// CHECK-LABEL: func @half
// CHECK: mrc.attention %arg0, %{{.*}}, %arg2, %{{.*}} {scale = 1.000000e+00 : f32} : (tensor<2x4x5x8xf16>, tensor<2x4x5x8xf16>, tensor<2x4x5x8xf16>, none) -> tensor<2x4x5x8xf16>
func.func @half(%q: tensor<2x4x5x8xf16>, %kt: tensor<2x4x8x5xf16>, %v: tensor<2x4x5x8xf16>) -> tensor<2x4x5x8xf16> {
  %zeros = mrc.constant dense<0.0> : tensor<5x5xf16>
  %0 = mrc.matmul %q, %kt : (tensor<2x4x5x8xf16>, tensor<2x4x8x5xf16>) -> tensor<2x4x5x5xf16>
  %1 = mrc.binary add %0, %zeros : (tensor<2x4x5x5xf16>, tensor<5x5xf16>) -> tensor<2x4x5x5xf16>
  %2 = mrc.softmax %1 {axis = 3 : i64} : (tensor<2x4x5x5xf16>) -> tensor<2x4x5x5xf16>
  %3 = mrc.matmul %2, %v : (tensor<2x4x5x5xf16>, tensor<2x4x5x8xf16>) -> tensor<2x4x5x8xf16>
  return %3 : tensor<2x4x5x8xf16>
}

// -----

// Rows that see nothing.
// CHECK-LABEL: func @guarded
// CHECK: %[[O:.*]] = mrc.attention %arg0, %{{.*}}, %arg2, %arg3
// CHECK: %[[R:.*]] = mrc.select %arg4, %{{.*}}, %[[O]] : (tensor<5x1xi1>, tensor<f32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
// CHECK: return %[[R]]
func.func @guarded(%q: tensor<2x4x5x8xf32>, %kt: tensor<2x4x8x5xf32>, %v: tensor<2x4x5x8xf32>, %mask: tensor<5x5xf32>, %blind: tensor<5x1xi1>) -> tensor<2x4x5x8xf32> {
  %zero = mrc.constant dense<0.0> : tensor<f32>
  %0 = mrc.matmul %q, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %1 = mrc.binary add %0, %mask : (tensor<2x4x5x5xf32>, tensor<5x5xf32>) -> tensor<2x4x5x5xf32>
  %2 = mrc.softmax %1 {axis = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %3 = mrc.select %blind, %zero, %2 : (tensor<5x1xi1>, tensor<f32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %4 = mrc.matmul %3, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %4 : tensor<2x4x5x8xf32>
}

// -----

// A condition on single keys is another thing.
// CHECK-LABEL: func @by_key
// CHECK-NOT: mrc.attention
func.func @by_key(%q: tensor<2x4x5x8xf32>, %kt: tensor<2x4x8x5xf32>, %v: tensor<2x4x5x8xf32>, %dropped: tensor<5x5xi1>) -> tensor<2x4x5x8xf32> {
  %zero = mrc.constant dense<0.0> : tensor<f32>
  %0 = mrc.matmul %q, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %1 = mrc.softmax %0 {axis = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %2 = mrc.select %dropped, %zero, %1 : (tensor<5x5xi1>, tensor<f32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %3 = mrc.matmul %2, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %3 : tensor<2x4x5x8xf32>
}
