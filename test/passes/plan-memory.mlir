// RUN: mrcc-opt %s --mrc-form-kernels --mrc-plan-memory --split-input-file | FileCheck %s

// The result lies in the caller's output; the value between is written over by no one else and needs 64 bytes.
// CHECK-LABEL: func.func @simple
// CHECK-SAME: mrc.arena_bytes = 64
// CHECK-SAME: mrc.arena_lower_bound = 64
// CHECK: views [#mrc.view<"arena", 0, 0, [2, 5], [5, 1]>, #mrc.view<"input", 0, 0, [2, 5], [5, 1]>]
// CHECK: views [#mrc.view<"output", 0, 0, [2, 1], [1, 1]>, #mrc.view<"arena", 0, 0, [2, 5], [5, 1]>]
// CHECK: views [#mrc.view<"output", 1, 0, [2, 5], [5, 1]>, #mrc.view<"arena", 0, 0, [2, 5], [5, 1]>]
func.func @simple(%x: tensor<2x5xf32>) -> (tensor<2x1xf32>, tensor<2x5xf32>) {
  %0 = mrc.unary exp %x : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %1 = mrc.reduce sum %0 {axes = array<i64: 1>} : (tensor<2x5xf32>) -> tensor<2x1xf32>
  %2 = mrc.unary neg %0 : (tensor<2x5xf32>) -> tensor<2x5xf32>
  return %1, %2 : tensor<2x1xf32>, tensor<2x5xf32>
}

// -----

// Both operands lie inside the concat's result: rows of 7, the second from column 3 on (12 bytes).
// CHECK-LABEL: func.func @concat
// CHECK: views [#mrc.view<"output", 0, 0, [2, 3], [7, 1]>
// CHECK: views [#mrc.view<"output", 0, 12, [2, 4], [7, 1]>
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %0 = mrc.unary exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = mrc.unary exp %y : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = mrc.concat %0, %1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
  return %2 : tensor<2x7xf32>
}

// -----

// A slice and a transposition are read in place.
// CHECK-LABEL: func.func @slice
// CHECK: views [#mrc.view<"output", 0, 0, [2, 3], [3, 1]>, #mrc.view<"input", 0, 8, [2, 3], [1, 4]>]
func.func @slice(%x: tensor<3x4xf32>) -> tensor<2x3xf32> {
  %a = mrc.constant dense<[0, 2]> : tensor<2xi64>
  %e = mrc.constant dense<[3, 4]> : tensor<2xi64>
  %d = mrc.constant dense<[0, 1]> : tensor<2xi64>
  %s = mrc.constant dense<1> : tensor<2xi64>
  %0 = mrc.slice %x, %a, %e, %d, %s : (tensor<3x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x2xf32>
  %1 = mrc.transpose %0 {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %2 = mrc.unary abs %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// A constant of one repeated value is read with stride 0.
// CHECK-LABEL: func.func @splat
// CHECK: #mrc.view<"constant", 0, 0, [2, 3], [0, 0]>
func.func @splat(%x: tensor<2x1xf32>) -> tensor<2x4xf32> {
  %c = mrc.constant dense<2.5> : tensor<2x3xf32>
  %0 = mrc.concat %x, %c {axis = 1 : i64} : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
