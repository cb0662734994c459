// RUN: mrcc-opt %s --verify-diagnostics --split-input-file

func.func @text(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{body: node 1: unknown operation 'twiddle'}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0; f32 twiddle %0 -> %1"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @load(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{body: node 0: there is no input 1, the launch has 1}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 1 -> %0"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @load_none() -> tensor<6xf32> {
  %n = mrc.none : none
  // expected-error @+1 {{body: node 0: input 0 is no tensor}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%n) : (none) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @load_at(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{body: node 1: input 0 has 2 dimensions, got 1 indices}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "i64 iter 0; f32 load_at 0 %0 -> %1"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @extent(%x: tensor<2x3xf32>) -> tensor<6xi64> {
  // expected-error @+1 {{body: node 0: input 0 has no dimension 2}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "i64 extent 0 2 -> %0"(%x) : (tensor<2x3xf32>) -> tensor<6xi64>
  return %0 : tensor<6xi64>
}

// -----

func.func @iter(%x: tensor<6xf32>) -> tensor<6xi64> {
  // expected-error @+1 {{body: node 0: there is no domain dimension 1}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "i64 iter 1 -> %0"(%x) : (tensor<6xf32>) -> tensor<6xi64>
  return %0 : tensor<6xi64>
}

// -----

func.func @param(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{body: node 1: there is no immediate 1, the launch has 1}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>, immediates = array<i64: 7>} body "f32 load 0; f32 param 1; f32 add %0 %1 -> %2"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @results(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{body: expected 1 results, got 2}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0 %0"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// The index of the largest: its value and index are reduced, the index is the result.
func.func @reduced(%x: tensor<6xf32>) -> tensor<1xi64> {
  // expected-error @+1 {{body: expected 3 results, got 2}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>, reduce = array<i64: 0>, combine = "argmax"} body "f32 load 0; i64 iter 0 -> %0 %1"(%x) : (tensor<6xf32>) -> tensor<1xi64>
  return %0 : tensor<1xi64>
}

// -----

func.func @views(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{expected a view of each of 1 results and 1 inputs, got 1}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%x) views [#mrc.view<"output", 0, 0, [6], [1]>] : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @no_view(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{view 1: expected #mrc.view, got "input"}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%x) views [#mrc.view<"output", 0, 0, [6], [1]>, "input"] : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @space(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{view 1: unknown space 'heap'}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%x) views [#mrc.view<"output", 0, 0, [6], [1]>, #mrc.view<"heap", 0, 0, [6], [1]>] : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @strides(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{view 1: 1 dims and 2 strides}}
  %0 = mrc.launch "loop" {extents = array<i64: 6>} body "f32 load 0 -> %0"(%x) views [#mrc.view<"output", 0, 0, [6], [1]>, #mrc.view<"input", 0, 0, [6], [1, 1]>] : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
