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
