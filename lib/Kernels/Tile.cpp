// See Tile.h. Tiles by measurement on Zen 4 (`mrcc-bench-kernels` prints the shares of the FMA peak):
//   32 registers of 512 bits   8 x 2 vectors; 8 x 3 half vectors where that wastes fewer columns
//   16 registers of 256 bits   6 x 2; 4 x 3 where columns are a multiple of 24 and not of 16, or at most 24
//   128 bits                   6 x 4 with 32 registers, 4 x 2 with 16
#include "Tile.h"

using namespace mlir;

namespace mrcc {

TileShape chooseTile(const Target &target, DType compute, int64_t columns) {
  const int64_t lanes = target.lanes(bitWidth(compute));
  const bool thirds = columns <= 24 ? columns > 16 : columns % 24 == 0 && columns % 16 != 0;
  if (target.vectorRegisters >= 32 && target.vectorBits == 512) {
    if (thirds && lanes == 16)
      return {8, 3, 8};
    if (columns <= lanes / 2)
      return {14, 1, lanes / 2};
    return columns <= lanes ? TileShape{14, 1, lanes} : TileShape{8, 2, lanes};
  }
  if (target.vectorBits == 256)
    return thirds && lanes == 8 ? TileShape{4, 3, lanes}
           : columns <= lanes   ? TileShape{8, 1, lanes}
                                : TileShape{6, 2, lanes};
  return target.vectorRegisters >= 32 ? TileShape{6, columns <= 2 * lanes ? 2 : 4, lanes} : TileShape{4, 2, lanes};
}

DType computeType(DType input) {
  switch (input) {
  case DType::f16:
  case DType::bf16:
  case DType::f32:
    return DType::f32;
  case DType::f64:
    return DType::f64;
  case DType::i64:
  case DType::u64:
    return DType::i64;
  default:
    return DType::i32;
  }
}

static bool isSigned(DType type) {
  return type == DType::i8 || type == DType::i16 || type == DType::i32 || type == DType::i64;
}

Value Arithmetic::zero(int64_t lanes) { return kb.constantVector(valueType(kb.b.getContext(), type), 0, lanes); }

Value Arithmetic::widen(Value x, DType from) {
  Type to = valueType(kb.b.getContext(), type);
  if (getElementTypeOrSelf(x.getType()) == to)
    return x;
  if (from == DType::f16 || from == DType::bf16)
    return kb.toF32(x);
  Type wide = to;
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    wide = VectorType::get(vector.getShape(), to);
  if (isSigned(from))
    return arith::ExtSIOp::create(kb.b, kb.loc, wide, x);
  return arith::ExtUIOp::create(kb.b, kb.loc, wide, x);
}

Value Arithmetic::spread(Value x, DType from, int64_t lanes) {
  return from == DType::f16 || from == DType::bf16 ? widen(kb.splat(x, lanes), from) : kb.splat(widen(x, from), lanes);
}

Value Arithmetic::multiplyAdd(Value x, Value y, Value z) {
  return isFloat(type) ? kb.fma(x, y, z) : add(arith::MulIOp::create(kb.b, kb.loc, x, y), z);
}

Value Arithmetic::add(Value x, Value y) {
  if (isFloat(type))
    return arith::AddFOp::create(kb.b, kb.loc, x, y);
  return arith::AddIOp::create(kb.b, kb.loc, x, y);
}

KernelBuilder::Values multiplyLoop(Arithmetic &arithmetic, Index lo, Index hi, int64_t rows, int64_t vectors,
                                   ValueRange acc, llvm::function_ref<Value(int64_t, Index)> a,
                                   llvm::function_ref<Value(int64_t, Index)> b, llvm::function_ref<void(Index)> fetch,
                                   int64_t unroll) {
  KernelBuilder &kb = arithmetic.kb;
  using Values = KernelBuilder::Values;
  const int64_t set = rows * vectors;
  auto step = [&](Index k, ValueRange in, size_t from) {
    Values row, out;
    for (int64_t j = 0; j < vectors; ++j)
      row.push_back(b(j, k));
    for (int64_t r = 0; r < rows; ++r) {
      Value x = a(r, k);
      if (!isa<VectorType>(x.getType()))
        x = kb.splat(x, cast<VectorType>(row[0].getType()).getDimSize(0));
      for (int64_t j = 0; j < vectors; ++j)
        out.push_back(arithmetic.multiplyAdd(x, row[j], in[from + r * vectors + j]));
    }
    return out;
  };
  const int64_t sets = set >= 6 ? 1 : set >= 3 ? 2 : 4;
  if (sets == 1) {
    Index main = unroll == 1 ? hi : kb.sub(hi, kb.rem(kb.sub(hi, lo), unroll));
    Values sums = kb.loop(lo, main, unroll, acc, [&](Index k, ValueRange in) {
      Values out(in);
      for (int64_t u = 0; fetch && u < unroll; ++u)
        fetch(kb.add(k, u));
      for (int64_t u = 0; u < unroll; ++u)
        out = step(kb.add(k, u), out, 0);
      return out;
    });
    return unroll == 1 ? sums : kb.loop(main, hi, 1, sums, [&](Index k, ValueRange in) { return step(k, in, 0); });
  }
  Values wide(acc);
  for (int64_t s = 1; s < sets; ++s)
    for (int64_t i = 0; i < set; ++i)
      wide.push_back(arithmetic.zero(cast<VectorType>(acc[i].getType()).getDimSize(0)));
  Index main = kb.sub(hi, kb.rem(kb.sub(hi, lo), sets));
  wide = kb.loop(lo, main, sets, wide, [&](Index k, ValueRange in) {
    Values out;
    for (int64_t s = 0; fetch && s < sets; ++s)
      fetch(kb.add(k, s));
    for (int64_t s = 0; s < sets; ++s)
      out.append(step(kb.add(k, s), in, s * set));
    return out;
  });
  for (int64_t half = sets / 2; half >= 1; half /= 2) // pairwise
    for (int64_t s = 0; s < half; ++s)
      for (int64_t i = 0; i < set; ++i)
        wide[s * set + i] = arithmetic.add(wide[s * set + i], wide[(s + half) * set + i]);
  wide.truncate(set);
  return kb.loop(main, hi, 1, wide, [&](Index k, ValueRange in) { return step(k, in, 0); });
}

SmallVector<std::pair<Index, Index>> panelPlaces(KernelBuilder &kb, Index t, int64_t width, int64_t lanes,
                                                 int64_t vectors) {
  const int64_t perPanel = 16 / lanes;
  SmallVector<std::pair<Index, Index>> places;
  for (int64_t j = 0; j < vectors; ++j) {
    if (width % 16 == 0) {
      places.push_back({kb.add(kb.mul(t, width / 16), j / perPanel), j % perPanel * lanes});
    } else {
      Index v = kb.add(kb.mul(t, width / lanes), j);
      places.push_back({kb.div(v, perPanel), kb.mul(kb.rem(v, perPanel), lanes)});
    }
  }
  return places;
}

int64_t strideClass(const View &view) {
  if (view.dims.empty() || view.dims.back() == 1)
    return 1; // one element: any stride will do
  int64_t stride = view.strides.back();
  return stride == 0 || stride == 1 ? stride : 2;
}

Value loadLanes(KernelBuilder &kb, Buffer m, llvm::ArrayRef<Index> at, int64_t strideClass, int64_t lanes,
                int64_t active) {
  if (strideClass == 1)
    return kb.loadMasked(m, at, lanes, active);
  if (strideClass == 0)
    return kb.broadcastLoad(m, at, lanes);
  SmallVector<Index> where(at);
  Value v;
  for (int64_t i = 0; i < std::min(active, lanes); ++i) {
    where.back() = kb.add(at.back(), i);
    Value x = kb.load(m, where);
    v = i == 0 ? kb.splat(x, lanes) : vector::InsertOp::create(kb.b, kb.loc, x, v, ArrayRef<int64_t>{i}).getResult();
  }
  return v;
}

void storeLanes(KernelBuilder &kb, Value v, Buffer m, llvm::ArrayRef<Index> at, int64_t strideClass, int64_t active) {
  if (strideClass == 1)
    return kb.storeMasked(v, m, at, active);
  SmallVector<Index> where(at);
  for (int64_t i = 0; i < std::min(active, cast<VectorType>(v.getType()).getDimSize(0)); ++i) {
    where.back() = kb.add(at.back(), i);
    kb.store(vector::ExtractOp::create(kb.b, kb.loc, v, ArrayRef<int64_t>{i}), m, where);
  }
}

// log2(lanes) perfect shuffles: each interleaves the first half of the vectors with the second.
void transposeSquare(KernelBuilder &kb, llvm::SmallVectorImpl<Value> &rows) {
  const int64_t n = rows.size();
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < n / 2; ++i) {
    low.append({i, n + i});
    high.append({n / 2 + i, n + n / 2 + i});
  }
  for (int64_t stage = 1; stage < n; stage *= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < n / 2; ++i) {
      next.push_back(vector::ShuffleOp::create(kb.b, kb.loc, rows[i], rows[i + n / 2], low));
      next.push_back(vector::ShuffleOp::create(kb.b, kb.loc, rows[i], rows[i + n / 2], high));
    }
    rows = next;
  }
}

Epilogue::Epilogue(KernelBuilder &kb, const KernelDescription &kernel, const Expr &body, DType compute,
                   unsigned immediate)
    : kb(kb), body(body), compute(compute), outType(kernel.types[0]), immediate(immediate) {}

bool Epilogue::heavy(int limit) const {
  int cost = 0;
  for (const ExprNode &node : body.nodes)
    switch (node.op) {
    case ExprNode::Op::unary:
      cost += isExpensive(node) ? 6 : 1;
      break;
    case ExprNode::Op::binary:
    case ExprNode::Op::select:
    case ExprNode::Op::cast:
    case ExprNode::Op::bitcast:
    case ExprNode::Op::clamp_index:
      ++cost;
      break;
    case ExprNode::Op::load:
      cost += node.imm >= 2 && extras[node.imm - 2].strideClass == 2 ? 6 : 0;
      break;
    default:
      break;
    }
  return cost > limit || out.strideClass == 2;
}

void Epilogue::tiles(Index rows, const TileShape &tile, int64_t vectors, Buffer stage,
                     llvm::function_ref<KernelBuilder::Values(Index, int64_t)> product,
                     llvm::function_ref<void(Index, Value, int64_t)> finish) {
  constexpr int longest = 12; // bodies that full tiles apply to registers
  const bool fullDirect = !heavy(longest);
  auto micro = [&](Index first, int64_t count) {
    KernelBuilder::Values acc = product(first, count);
    const bool staged = heavy() && !(fullDirect && count == tile.rows);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 0; j < vectors; ++j)
        if (staged)
          kb.storeVector(acc[r * vectors + j], stage, {r, j * tile.lanes});
        else
          finish(kb.add(first, r), acc[r * vectors + j], j);
  };
  auto after = [&](Index first, Index count) {
    if (heavy())
      kb.loop(0, fullDirect ? kb.select(kb.less(count, tile.rows), count, 0) : count, 1, [&](Index r) {
        for (int64_t j = 0; j < vectors; ++j)
          finish(kb.add(first, r), kb.loadVector(stage, {r, j * tile.lanes}, tile.lanes), j);
      });
  };
  kb.tilesEven(rows, tile.rows, micro, after);
}

Value immediateValue(KernelBuilder &kb, DType type, unsigned param) {
  Value bits = arith::IndexCastOp::create(kb.b, kb.loc, kb.b.getI64Type(), kb.ssa(kb.param(param)));
  Type to = valueType(kb.b.getContext(), type);
  if (bitWidth(type) < 64)
    bits = arith::TruncIOp::create(kb.b, kb.loc, kb.b.getIntegerType(to.getIntOrFloatBitWidth()), bits);
  return isa<FloatType>(to) ? arith::BitcastOp::create(kb.b, kb.loc, to, bits).getResult() : bits;
}

// Float accumulators to a float type of the body or the output; integers keep their width (or are cut).
static Value convert(KernelBuilder &kb, Value x, DType from, DType to) {
  if (from == to)
    return x;
  if (from == DType::f32 && (to == DType::f16 || to == DType::bf16))
    return kb.fromF32(x, valueType(kb.b.getContext(), to));
  Type type = valueType(kb.b.getContext(), to);
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    type = VectorType::get(vector.getShape(), type);
  if (isFloat(from) && isFloat(to))
    return bitWidth(to) > bitWidth(from) ? arith::ExtFOp::create(kb.b, kb.loc, type, x).getResult()
                                         : arith::TruncFOp::create(kb.b, kb.loc, type, x).getResult();
  if (!isFloat(from) && !isFloat(to) && bitWidth(to) < bitWidth(from))
    return arith::TruncIOp::create(kb.b, kb.loc, type, x);
  return x;
}

Value Epilogue::load(size_t i, llvm::ArrayRef<Index> at, int64_t lanes, int64_t active) {
  return loadLanes(kb, extras[i].buffer, at, extras[i].strideClass, lanes, active);
}

void Epilogue::store(Value acc, llvm::ArrayRef<Index> at, int64_t active) {
  const int64_t lanes = cast<VectorType>(acc.getType()).getDimSize(0);
  Value result;
  if (body.empty()) {
    result = convert(kb, acc, compute, outType);
  } else {
    result = emitBody(kb, body, lanes, /*contract=*/true, [&](const ExprNode &node, llvm::ArrayRef<Value>) -> Value {
      if (node.op == ExprNode::Op::acc)
        return convert(kb, acc, compute, node.type);
      if (node.op == ExprNode::Op::param)
        return kb.splat(immediateValue(kb, node.type, immediate + node.imm), lanes);
      const Value before = extras[node.imm - 2].value;
      return before ? before : load(node.imm - 2, at, lanes, active);
    })[0];
  }
  storeLanes(kb, result, out.buffer, at, out.strideClass, active);
}

ImageWalk<int64_t> walkOf(const View &view) {
  return {view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

std::vector<ImageWalk<int64_t>> bindOperands(KernelDescription &kernel, const View &out, ArrayRef<View> extras,
                                             int64_t (*classOf)(const View &)) {
  std::vector<ImageWalk<int64_t>> walks = {walkOf(out)};
  kernel.config["x0"] = classOf(out);
  for (const View &extra : extras) {
    kernel.types.push_back(extra.type);
    kernel.config["x" + std::to_string(walks.size())] = classOf(extra);
    walks.push_back(walkOf(extra));
  }
  return walks;
}

void finishBind(BoundLaunch &bound, const LaunchSite &site) {
  bound.params.insert(bound.params.end(), site.immediates.begin(), site.immediates.end());
  bound.kernel.config["params"] = bound.params.size();
}

} // namespace mrcc
