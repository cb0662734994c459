// Changes to ONNX models as messages, so that most of what the fuzzer tries is still a model: other ops, attributes,
// operands, dims, element types, numbers. (The messages are protobuf's lite ones: there is no reflection to do it for
// any field.)
#pragma once
#include MRCC_ONNX_HEADER
#include <random>

namespace mrcc::fuzz {

using Random = std::mt19937;

/// One change somewhere in the model, subgraphs and functions included.
void mutate(::onnx::ModelProto &model, Random &random);

/// Adds a run of nodes of `other` with the initialisers and inputs that they read.
void cross(::onnx::ModelProto &model, const ::onnx::ModelProto &other, Random &random);

} // namespace mrcc::fuzz
