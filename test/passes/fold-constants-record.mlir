// RUN: mrcc-opt %s --mrc-fold-constants --mrc-pack-weights --mrc-fold-constants=stage=later | FileCheck %s

// What one call folds and the next folds on is one record: 272 bytes, and 4 of the factor.
// CHECK: mrc.folded = [{bytes_after = 512 : i64, bytes_before = 276 : i64, node = "weights", ops = "transpose,binary,pack", stage = "later"}]
module {
  func.func @weights(%x: tensor<?x4xf32>) -> tensor<?x17xf32> {
    %w = mrc.constant dense<[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0], [12.0, 13.0, 14.0, 15.0], [16.0, 17.0, 18.0, 19.0], [20.0, 21.0, 22.0, 23.0], [24.0, 25.0, 26.0, 27.0], [28.0, 29.0, 30.0, 31.0], [32.0, 33.0, 34.0, 35.0], [36.0, 37.0, 38.0, 39.0], [40.0, 41.0, 42.0, 43.0], [44.0, 45.0, 46.0, 47.0], [48.0, 49.0, 50.0, 51.0], [52.0, 53.0, 54.0, 55.0], [56.0, 57.0, 58.0, 59.0], [60.0, 61.0, 62.0, 63.0], [64.0, 65.0, 66.0, 67.0]]> : tensor<17x4xf32>
    %t = mrc.transpose %w {perm = array<i64: 1, 0>} : (tensor<17x4xf32>) -> tensor<4x17xf32>
    %two = mrc.constant dense<2.0> : tensor<f32>
    %s = mrc.binary mul %t, %two : (tensor<4x17xf32>, tensor<f32>) -> tensor<4x17xf32> loc("weights")
    %y = mrc.matmul %x, %s : (tensor<?x4xf32>, tensor<4x17xf32>) -> tensor<?x17xf32>
    return %y : tensor<?x17xf32>
  }
}
