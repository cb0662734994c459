// RUN: mrcc-opt %s --split-input-file --mrc-specialize=shapes=1x8x6x4 | FileCheck %s

// Shape arithmetic goes, types are static, flatten and friends become reshape.
// CHECK-LABEL: func.func @arithmetic(%arg0: tensor<1x8x6x4xf32>) -> tensor<8x24xf32>
// CHECK-NEXT: %[[S:.*]] = mrc.constant dense<[8, 24]> : tensor<2xi64>
// CHECK-NEXT: %[[R:.*]] = mrc.reshape %arg0, %[[S]] : (tensor<1x8x6x4xf32>, tensor<2xi64>) -> tensor<8x24xf32>
// CHECK-NEXT: return %[[R]] : tensor<8x24xf32>
func.func @arithmetic(%x: tensor<?x?x?x4xf32>) -> tensor<?x?xf32> {
  %shape = mrc.shape %x : (tensor<?x?x?x4xf32>) -> tensor<4xi64>
  %one = mrc.constant dense<1> : tensor<i64>
  %h = mrc.gather %shape, %one {axis = 0 : i64} : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
  %hs = mrc.unsqueeze %h {axes = array<i64: 0>} : (tensor<i64>) -> tensor<1xi64>
  %minus = mrc.constant dense<-1> : tensor<1xi64>
  %target = mrc.concat %hs, %minus {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %axes = mrc.squeeze %x {axes = array<i64: 0>} : (tensor<?x?x?x4xf32>) -> tensor<?x?x4xf32>
  %r = mrc.reshape %axes, %target : (tensor<?x?x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// Padding becomes numbers. SAME_UPPER at stride 2: 8 -> 4 with (0, 1), 6 -> 3 with (0, 1).
// CHECK-LABEL: func.func @windows
// CHECK: mrc.conv %arg0, {{.*}}pads = array<i64: 0, 0, 1, 1>{{.*}} -> tensor<1x4x3x2xf32>
// CHECK: mrc.conv_transpose {{.*}}output_padding = array<i64: 0, 0>, pads = array<i64: 0, 0, -1, -1>{{.*}} -> tensor<1x10x8x2xf32>
// CHECK: mrc.pool max_pool {{.*}} -> tensor<1x5x4x2xf32>
func.func @windows(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x2xf32> {
  %w = mrc.constant dense<1.0> : tensor<2x4x3x3xf32>
  %v = mrc.constant dense<1.0> : tensor<2x2x3x3xf32>
  %none = mrc.none : none
  %a = mrc.conv %x, %w, %none {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64,
      auto_pad = "SAME_UPPER"} : (tensor<?x?x?x4xf32>, tensor<2x4x3x3xf32>, none) -> tensor<?x?x?x2xf32>
  %b = mrc.conv_transpose %a, %v, %none {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      output_padding = array<i64: 1, 1>, group = 1 : i64} : (tensor<?x?x?x2xf32>, tensor<2x2x3x3xf32>, none) -> tensor<?x?x?x2xf32>
  %c = mrc.pool max_pool %b {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
      ceil_mode = true} : (tensor<?x?x?x2xf32>) -> tensor<?x?x?x2xf32>
  return %c : tensor<?x?x?x2xf32>
}

// -----

// split and gather become slices; a slice names every dimension. Down to element 0 the end is -(dim + 1).
// CHECK-LABEL: func.func @slices
// CHECK-DAG: %[[ZERO:.*]] = mrc.constant dense<0> : tensor<4xi64>
// CHECK-DAG: %[[FIRST:.*]] = mrc.constant dense<[1, 4, 6, 4]> : tensor<4xi64>
// CHECK-DAG: %[[AXES:.*]] = mrc.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
// CHECK-DAG: %[[ONES:.*]] = mrc.constant dense<1> : tensor<4xi64>
// CHECK: mrc.slice %arg0, %[[ZERO]], %[[FIRST]], %[[AXES]], %[[ONES]] : {{.*}} -> tensor<1x4x6x4xf32>
// CHECK: %[[START:.*]] = mrc.constant dense<[0, 7, 0, 0]> : tensor<4xi64>
// CHECK: %[[END:.*]] = mrc.constant dense<[1, -9, 6, 4]> : tensor<4xi64>
// CHECK: %[[STEP:.*]] = mrc.constant dense<[1, -1, 1, 1]> : tensor<4xi64>
// CHECK: mrc.slice %arg0, %[[START]], %[[END]], %{{.*}}, %[[STEP]]
// CHECK: %[[AT:.*]] = mrc.constant dense<[0, 0, 5, 0]> : tensor<4xi64>
// CHECK: mrc.slice %arg0, %[[AT]], {{.*}} -> tensor<1x8x1x4xf32>
// CHECK: mrc.reshape {{.*}} -> tensor<1x8x4xf32>
func.func @slices(%x: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x4xf32>) {
  %none = mrc.none : none
  %a, %b = mrc.split %x, %none {axis = 1 : i64} : (tensor<?x?x?x4xf32>, none) -> (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>)
  %start = mrc.constant dense<-1> : tensor<1xi64>
  %end = mrc.constant dense<-9223372036854775808> : tensor<1xi64>
  %axis = mrc.constant dense<1> : tensor<1xi64>
  %step = mrc.constant dense<-1> : tensor<1xi64>
  %c = mrc.slice %x, %start, %end, %axis, %step : (tensor<?x?x?x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?x?x4xf32>
  %last = mrc.constant dense<-1> : tensor<i64>
  %d = mrc.gather %x, %last {axis = 2 : i64} : (tensor<?x?x?x4xf32>, tensor<i64>) -> tensor<?x?x4xf32>
  return %a, %c, %d : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x4xf32>
}

// -----

// Ops that change nothing go; negative pads become a slice; tile of a 1 becomes expand.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: mrc.cast
// CHECK-NOT: mrc.resize
// CHECK: mrc.slice %arg0{{.*}} -> tensor<1x7x6x4xf32>
// CHECK: mrc.pad constant {{.*}} -> tensor<1x7x8x4xf32>
// CHECK: mrc.expand {{.*}} -> tensor<3x7x8x4xf32>
func.func @nothing(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x?xf32> {
  %none = mrc.none : none
  %a = mrc.cast %x {to = f32} : (tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  %sizes = mrc.constant dense<[8, 6]> : tensor<2xi64>
  %b = mrc.resize %a, %none, %none, %sizes {mode = "linear", coordinate = "half_pixel", nearest = "floor", axes = array<i64: 1, 2>, antialias = false,
      aspect_policy = "stretch", cubic_coeff = -0.75 : f32, exclude_outside = false, extrapolation = 0.0 : f32}
      : (tensor<?x?x?x4xf32>, none, none, tensor<2xi64>) -> tensor<?x?x?x4xf32>
  %one = mrc.constant dense<1> : tensor<1xi64>
  %shape = mrc.constant dense<[1, 1, 1, 1]> : tensor<4xi64>
  %c = mrc.expand %b, %shape : (tensor<?x?x?x4xf32>, tensor<4xi64>) -> tensor<?x?x?x4xf32>
  %pads = mrc.constant dense<[-1, 1, 0, 1]> : tensor<4xi64>
  %axes = mrc.constant dense<[1, 2]> : tensor<2xi64>
  %d = mrc.pad constant %c, %pads, %none, %axes : (tensor<?x?x?x4xf32>, tensor<4xi64>, none, tensor<2xi64>) -> tensor<?x?x?x4xf32>
  %repeats = mrc.constant dense<[3, 1, 1, 1]> : tensor<4xi64>
  %e = mrc.tile %d, %repeats : (tensor<?x?x?x4xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  return %e : tensor<?x?x?x?xf32>
}

// -----

// A dimension that the model fixes is overridden, and stale result types with it. Only axes that change are resized.
// CHECK-LABEL: func.func @fixed(%arg0: tensor<1x8x6x4xf32>) -> tensor<1x16x6x4xf32>
// CHECK: %[[S:.*]] = mrc.constant dense<2.000000e+00> : tensor<1xf32>
// CHECK: mrc.resize {{.*}}%[[S]]{{.*}}axes = array<i64: 1>
func.func @fixed(%x: tensor<1x32x32x4xf32>) -> tensor<1x64x32x4xf32> {
  %none = mrc.none : none
  %n = mrc.unary neg %x : (tensor<1x32x32x4xf32>) -> tensor<1x32x32x4xf32>
  %scales = mrc.constant dense<[1.0, 2.0, 1.0, 1.0]> : tensor<4xf32>
  %r = mrc.resize %n, %none, %scales, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 0, 1, 2, 3>,
      antialias = false, aspect_policy = "stretch", cubic_coeff = -0.75 : f32, exclude_outside = false, extrapolation = 0.0 : f32}
      : (tensor<1x32x32x4xf32>, none, tensor<4xf32>, none) -> tensor<1x64x32x4xf32>
  return %r : tensor<1x64x32x4xf32>
}

// -----

// The dims of packed elements fold although no elements are known.
// CHECK-LABEL: func.func @packed
// CHECK: mrc.constant dense<[1, 8, 6, 4]> : tensor<4xi64>
func.func @packed(%x: tensor<?x?x?x4xi4>) -> tensor<4xi64> {
  %s = mrc.shape %x : (tensor<?x?x?x4xi4>) -> tensor<4xi64>
  return %s : tensor<4xi64>
}
