// RUN: mrcc-opt %s --canonicalize | FileCheck %s

// Two transposes are one; an identity and a concat of one operand vanish.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT: return %arg0
func.func @transposes(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %a = mrc.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %b = mrc.concat %a {axis = 0 : i64} : (tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %c = mrc.transpose %b {perm = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  return %c : tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @composed
// CHECK-NEXT: mrc.transpose %arg0 {perm = array<i64: 2, 1, 0>}
// CHECK-NEXT: return
func.func @composed(%x: tensor<2x?x4xf32>) -> tensor<4x?x2xf32> {
  %a = mrc.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x?x4xf32>) -> tensor<?x4x2xf32>
  %b = mrc.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<?x4x2xf32>) -> tensor<4x?x2xf32>
  return %b : tensor<4x?x2xf32>
}

// A selection that a constant decides everywhere; one that broadcasts stays.
// CHECK-LABEL: func.func @decided
// CHECK: %[[STAYS:.*]] = mrc.select
// CHECK: return %arg0, %arg1, %[[STAYS]]
func.func @decided(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %row: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %yes = mrc.constant dense<true> : tensor<2x1xi1>
  %no = mrc.constant dense<false> : tensor<i1>
  %a = mrc.select %yes, %x, %row : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %b = mrc.select %no, %row, %y : (tensor<i1>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = mrc.select %yes, %row, %y : (tensor<2x1xi1>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b, %c : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
