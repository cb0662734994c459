// RUN: mrcc-opt %s --split-input-file --verify-diagnostics --mrc-specialize=shapes=1x8x6x4

func.func @reshape(%x: tensor<?x?x?x4xf32>) -> tensor<1x100xf32> {
  %s = mrc.constant dense<[1, 100]> : tensor<2xi64>
  // expected-error @+1 {{expected a shape of 192 elements for 1x8x6x4, got 1x100 (it is a constant, frozen for another size)}}
  %r = mrc.reshape %x, %s : (tensor<?x?x?x4xf32>, tensor<2xi64>) -> tensor<1x100xf32>
  return %r : tensor<1x100xf32>
}

// -----

func.func @add(%x: tensor<?x?x?x4xf32>) -> tensor<?x7x?x4xf32> {
  %c = mrc.constant dense<1.0> : tensor<1x7x1x4xf32>
  // expected-error @+1 {{expected shapes that broadcast, got 1x8x6x4 and 1x7x1x4: dimension 1 is 8 and 7; one operand is a constant, frozen for another size}}
  %r = mrc.binary add %x, %c : (tensor<?x?x?x4xf32>, tensor<1x7x1x4xf32>) -> tensor<?x7x?x4xf32>
  return %r : tensor<?x7x?x4xf32>
}

// -----

func.func @window(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  // expected-error @+1 {{expected an output of at least 1, got spatial dimension 1 of size 6 with pads 0 and 0 and a window of 7}}
  %r = mrc.pool max_pool %x {kernel = array<i64: 7, 7>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>}
      : (tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  return %r : tensor<?x?x?x4xf32>
}

// -----

func.func @concat(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %c = mrc.constant dense<1.0> : tensor<1x8x5x4xf32>
  // expected-error @+1 {{expected equal dimensions but along axis 1, got 1x8x6x4 and 1x8x5x4 (operand 1): dimension 2 is 6 and 5 (it is a constant, frozen for another size)}}
  %r = mrc.concat %x, %c {axis = 1 : i64} : (tensor<?x?x?x4xf32>, tensor<1x8x5x4xf32>) -> tensor<?x?x?x4xf32>
  return %r : tensor<?x?x?x4xf32>
}

// -----

func.func @data(%x: tensor<?x?x?x4xf32>) -> tensor<?xi64> {
  %zero = mrc.constant dense<0> : tensor<i64>
  %one = mrc.constant dense<1> : tensor<i64>
  %m = mrc.reduce max %x {axes = array<i64: 0, 1, 2, 3>, keepdims = false} : (tensor<?x?x?x4xf32>) -> tensor<f32>
  %n = mrc.cast %m {to = i64} : (tensor<f32>) -> tensor<i64>
  // expected-error @unknown {{of node 'Range_3': the size of the result 'tensor<?xi64>' depends on data}}
  %r = mrc.range %zero, %n, %one : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?xi64> loc("Range_3")
  return %r : tensor<?xi64>
}

// -----

// expected-error @+1 {{input 0: expected 3 dimensions, got 1x8x6x4}}
func.func @rank(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  return %x : tensor<?x?x4xf32>
}

// -----

// expected-error @+1 {{expected 2 shapes, one an input, got 1}}
func.func @count(%x: tensor<?x?x4xf32>, %y: tensor<f32>) -> tensor<?x?x4xf32> {
  return %x : tensor<?x?x4xf32>
}

// -----

func.func @infinite_scale(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %s = mrc.constant dense<[0x7F800000]> : tensor<1xf32>
  %none = mrc.none : none
  // expected-error @+1 {{expected a positive scale that gives at most 2^48 elements, got INF along axis 1}}
  %0 = mrc.resize %x, %none, %s, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 1>, antialias = false, aspect_policy = "stretch", cubic_coeff = -7.5e-01 : f32, exclude_outside = false, extrapolation = 0.0 : f32} : (tensor<?x?x?x4xf32>, none, tensor<1xf32>, none) -> tensor<?x?x?x4xf32>
  return %0 : tensor<?x?x?x4xf32>
}

// -----

func.func @nan_scale(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %s = mrc.constant dense<[0x7FC00000]> : tensor<1xf32>
  %none = mrc.none : none
  // expected-error @+1 {{expected a positive scale that gives at most 2^48 elements, got}}
  %0 = mrc.resize %x, %none, %s, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 1>, antialias = false, aspect_policy = "stretch", cubic_coeff = -7.5e-01 : f32, exclude_outside = false, extrapolation = 0.0 : f32} : (tensor<?x?x?x4xf32>, none, tensor<1xf32>, none) -> tensor<?x?x?x4xf32>
  return %0 : tensor<?x?x?x4xf32>
}

// -----

func.func @large_scale(%x: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %s = mrc.constant dense<[1.0e+30]> : tensor<1xf32>
  %none = mrc.none : none
  // expected-error @+1 {{expected a positive scale that gives at most 2^48 elements, got 1.000000e+30 along axis 1}}
  %0 = mrc.resize %x, %none, %s, %none {mode = "nearest", coordinate = "asymmetric", nearest = "floor", axes = array<i64: 1>, antialias = false, aspect_policy = "stretch", cubic_coeff = -7.5e-01 : f32, exclude_outside = false, extrapolation = 0.0 : f32} : (tensor<?x?x?x4xf32>, none, tensor<1xf32>, none) -> tensor<?x?x?x4xf32>
  return %0 : tensor<?x?x?x4xf32>
}

// -----

func.func @gather(%x: tensor<?x?x?x4xf32>) -> tensor<?x2x?x4xf32> {
  %i = mrc.constant dense<[0, 8]> : tensor<2xi64>
  // expected-error @+1 {{index 8 is out of range, axis 1 has 8 elements}}
  %r = mrc.gather %x, %i {axis = 1 : i64} : (tensor<?x?x?x4xf32>, tensor<2xi64>) -> tensor<?x2x?x4xf32>
  return %r : tensor<?x2x?x4xf32>
}
