// RUN: mrcc-opt %s --split-input-file --mrc-fold-constants | FileCheck %s

// A chain folds in one pass; the module says so.
// CHECK: module attributes {mrc.folded = [{bytes_after = 8 : i64, bytes_before = 12 : i64, node = "scale", ops = "binary,unary", stage = "simplify"}]}
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[C:.*]] = mrc.constant dense<[-3.000000e+00, -6.000000e+00]>
// CHECK-NEXT: %[[R:.*]] = mrc.binary add %arg0, %[[C]]
// CHECK-NEXT: return %[[R]]
module {
  func.func @chain(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
    %a = mrc.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = mrc.constant dense<[3.0, 3.0]> : tensor<2xf32>
    %m = mrc.binary mul %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("product")
    %n = mrc.unary neg %m : (tensor<2xf32>) -> tensor<2xf32> loc("scale")
    %r = mrc.binary add %x, %n : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
    return %r : tensor<?x2xf32>
  }
}

// -----

// A shape operand that folds makes dims known. 0 copies, -1 is computed.
// CHECK-LABEL: func.func @target(%arg0: tensor<?x12xf32>) -> tensor<?x3x4xf32>
// CHECK: mrc.reshape %arg0, %{{.*}} -> tensor<?x3x4xf32>
func.func @target(%x: tensor<?x12xf32>) -> tensor<?x?x?xf32> {
  %a = mrc.constant dense<[0, 3]> : tensor<2xi64>
  %b = mrc.constant dense<[-1]> : tensor<1xi64>
  %s = mrc.concat %a, %b {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<3xi64>
  %r = mrc.reshape %x, %s : (tensor<?x12xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}

// -----

// Known dims of a partly unknown shape fold, unknown ones stay.
// CHECK-LABEL: func.func @dims
// CHECK: mrc.constant dense<[3, 8]> : tensor<2xi64>
// CHECK: mrc.shape %arg0 {end = 1 : i64}
func.func @dims(%x: tensor<?x3x8xf32>) -> (tensor<2xi64>, tensor<1xi64>) {
  %a = mrc.shape %x {start = 1 : i64} : (tensor<?x3x8xf32>) -> tensor<2xi64>
  %b = mrc.shape %x {end = 1 : i64} : (tensor<?x3x8xf32>) -> tensor<1xi64>
  return %a, %b : tensor<2xi64>, tensor<1xi64>
}

// -----

// A broadcast that would enlarge the bundle stays, unless it gives a repeated value; so does a wider type.
// CHECK-LABEL: func.func @larger
// CHECK-DAG: mrc.constant dense<2.500000e+00> : tensor<100x100xf32>
// CHECK-DAG: mrc.expand
// CHECK-DAG: mrc.cast {{.*}} -> tensor<128x64xf32>
func.func @larger(%w: tensor<1xf32>) -> (tensor<100x100xf32>, tensor<100x64xf32>, tensor<128x64xf32>) {
  %shape = mrc.constant dense<[100, 100]> : tensor<2xi64>
  %v = mrc.constant dense<2.5> : tensor<1xf32>
  %a = mrc.expand %v, %shape : (tensor<1xf32>, tensor<2xi64>) -> tensor<100x100xf32>
  %start = mrc.constant dense<0> : tensor<i64>
  %limit = mrc.constant dense<64> : tensor<i64>
  %delta = mrc.constant dense<1> : tensor<i64>
  %range = mrc.range %start, %limit, %delta : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<64xi64>
  %row = mrc.cast %range {to = f32} : (tensor<64xi64>) -> tensor<64xf32>
  %rows = mrc.constant dense<[100, 64]> : tensor<2xi64>
  %b = mrc.expand %row, %rows : (tensor<64xf32>, tensor<2xi64>) -> tensor<100x64xf32>
  %end = mrc.constant dense<8192> : tensor<i64>
  %long = mrc.range %start, %end, %delta : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8192xi64>
  %square = mrc.constant dense<[128, 64]> : tensor<2xi64>
  %grid = mrc.reshape %long, %square : (tensor<8192xi64>, tensor<2xi64>) -> tensor<128x64xi64>
  %c = mrc.cast %grid {to = f32} : (tensor<128x64xi64>) -> tensor<128x64xf32>
  return %a, %b, %c : tensor<100x100xf32>, tensor<100x64xf32>, tensor<128x64xf32>
}

// -----

// A table that is computed from little folds: here a grid of x + 100 * y.
// CHECK-LABEL: func.func @table
// CHECK-NEXT: %[[T:.*]] = mrc.constant #mrc.blob<
// CHECK-NEXT: return %[[T]]
func.func @table() -> tensor<40x64xi64> {
  %start = mrc.constant dense<0> : tensor<i64>
  %delta = mrc.constant dense<1> : tensor<i64>
  %w = mrc.constant dense<64> : tensor<i64>
  %h = mrc.constant dense<40> : tensor<i64>
  %x = mrc.range %start, %w, %delta : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<64xi64>
  %y = mrc.range %start, %h, %delta : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<40xi64>
  %column = mrc.unsqueeze %y {axes = array<i64: 1>} : (tensor<40xi64>) -> tensor<40x1xi64>
  %shape = mrc.constant dense<[40, 64]> : tensor<2xi64>
  %wide = mrc.expand %column, %shape : (tensor<40x1xi64>, tensor<2xi64>) -> tensor<40x64xi64>
  %hundred = mrc.constant dense<100> : tensor<i64>
  %far = mrc.binary mul %wide, %hundred : (tensor<40x64xi64>, tensor<i64>) -> tensor<40x64xi64>
  %sum = mrc.binary add %far, %x : (tensor<40x64xi64>, tensor<64xi64>) -> tensor<40x64xi64>
  return %sum : tensor<40x64xi64>
}

// -----

// Ops of several results, and an absent operand.
// CHECK-LABEL: func.func @parts
// CHECK-DAG: mrc.constant dense<[1, 2]> : tensor<2xi32>
// CHECK-DAG: mrc.constant dense<3> : tensor<1xi32>
// CHECK-NOT: mrc.split
func.func @parts() -> (tensor<2xi32>, tensor<1xi32>) {
  %c = mrc.constant dense<[1, 2, 3]> : tensor<3xi32>
  %none = mrc.none : none
  %a, %b = mrc.split %c, %none {axis = 0 : i64} : (tensor<3xi32>, none) -> (tensor<2xi32>, tensor<1xi32>)
  return %a, %b : tensor<2xi32>, tensor<1xi32>
}

// -----

// Not folded: what would fail at run time, too.
// CHECK-LABEL: func.func @zero
// CHECK: mrc.binary div
func.func @zero() -> tensor<i32> {
  %a = mrc.constant dense<1> : tensor<i32>
  %b = mrc.constant dense<0> : tensor<i32>
  %c = mrc.binary div %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %c : tensor<i32>
}

// -----

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

// -----

// Quantised weights stay integers; a zero point a channel has one dim and folds.
// CHECK-LABEL: func.func @weights
// CHECK: mrc.cast %{{.*}} : (tensor<2x3xi8>) -> tensor<2x3xf32>
// CHECK-NOT: mrc.cast
func.func @weights(%x: tensor<4x2xf32>) -> (tensor<4x3xf32>, tensor<3xi32>) {
  %w = mrc.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %z = mrc.constant dense<[1, 2, 3]> : tensor<3xi8>
  %scale = mrc.constant dense<0.5> : tensor<f32>
  %f = mrc.cast %w {to = f32} : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %s = mrc.binary mul %f, %scale : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %y = mrc.matmul %x, %s : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %o = mrc.cast %z {to = i32} : (tensor<3xi8>) -> tensor<3xi32>
  return %y, %o : tensor<4x3xf32>, tensor<3xi32>
}

// -----

// But for a transposed convolution, whose weights are flipped before they are packed.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: mrc.cast
func.func @transposed(%x: tensor<1x4x4x2xf32>, %n: none) -> tensor<?x?x?x?xf32> {
  %w = mrc.constant dense<[[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]]> : tensor<2x1x2x2xi8>
  %scale = mrc.constant dense<0.5> : tensor<f32>
  %f = mrc.cast %w {to = f32} : (tensor<2x1x2x2xi8>) -> tensor<2x1x2x2xf32>
  %s = mrc.binary mul %f, %scale : (tensor<2x1x2x2xf32>, tensor<f32>) -> tensor<2x1x2x2xf32>
  %y = mrc.conv_transpose %x, %s, %n {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, group = 1 : i64} : (tensor<1x4x4x2xf32>, tensor<2x1x2x2xf32>, none) -> tensor<?x?x?x?xf32>
  return %y : tensor<?x?x?x?xf32>
}
