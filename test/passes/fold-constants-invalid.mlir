// RUN: mrcc-opt %s --split-input-file --verify-diagnostics --mrc-fold-constants | FileCheck %s

// Too much work for a compiler: a warning that names the op, and the op stays.
// CHECK: mrc.matmul
func.func @cap() -> tensor<5000x5000xf32> {
  %a = mrc.constant dense<1.0> : tensor<5000x5000xf32>
  // expected-warning @+1 {{not folded: mrc.matmul of 1.25E+11 multiply-adds is above the folder's limit of 4294967296}}
  %r = mrc.matmul %a, %a : (tensor<5000x5000xf32>, tensor<5000x5000xf32>) -> tensor<5000x5000xf32>
  return %r : tensor<5000x5000xf32>
}

// -----

// What folding makes known may show that a shape cannot be.
func.func @known(%x: tensor<4xf32>) -> tensor<?x?xf32> {
  %a = mrc.constant dense<2> : tensor<1xi64>
  %b = mrc.constant dense<3> : tensor<1xi64>
  %z = mrc.constant dense<0> : tensor<1xi64>
  %n = mrc.none : none
  %s = mrc.tile %a, %b : (tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %t = mrc.slice %s, %z, %a, %n, %n : (tensor<3xi64>, tensor<1xi64>, tensor<1xi64>, none, none) -> tensor<2xi64>
  %p = mrc.binary mul %t, %b : (tensor<2xi64>, tensor<1xi64>) -> tensor<2xi64>
  // expected-error @+1 {{expected a shape of 4 elements for 4, got 6x6 (it is a constant, frozen for another size)}}
  %r = mrc.reshape %x, %p : (tensor<4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// A few bytes must not ask for all memory.
// CHECK-LABEL: func.func @memory
// CHECK: mrc.reduce
func.func @memory() -> tensor<f32> {
  %a = mrc.constant dense<1.0> : tensor<1048576x1048576xf32>
  // expected-warning @+1 {{not folded: reduce would need 4398046511108 bytes}}
  %r = mrc.reduce sum %a {axes = array<i64: 0, 1>, keepdims = false} : (tensor<1048576x1048576xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
