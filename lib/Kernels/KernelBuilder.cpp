// KernelBuilder: folding index arithmetic, loops, tiles, memory. All of it is plain arith, scf, memref and vector ops;
// addresses are formed when memref is lowered, and LLVM hoists and strength-reduces them.
#include "mrcc/Kernels/KernelBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace mrcc {

Type valueType(MLIRContext *context, DType type) {
  switch (type) {
  case DType::f32:
    return Float32Type::get(context);
  case DType::f64:
    return Float64Type::get(context);
  case DType::f16:
    return Float16Type::get(context);
  case DType::bf16:
    return IntegerType::get(context, 16); // LLVM splits vectors of bfloat by library calls
  case DType::boolean:
    return IntegerType::get(context, 1);
  default:
    return IntegerType::get(context, std::max(8u, bitWidth(type)));
  }
}

Type memoryType(MLIRContext *context, DType type) {
  return type == DType::boolean ? IntegerType::get(context, 8) : valueType(context, type);
}

KernelBuilder::KernelBuilder(MLIRContext &context, const Target &target, llvm::ArrayRef<DType> types,
                             unsigned numParams)
    : b(&context), loc(UnknownLoc::get(&context)), target(target), types(types), numParams(numParams) {
  module = ModuleOp::create(loc);
  startFunction("kernel", 2);
}

// @name(views..., params..., `extra` indices..., scratch): the same leading arguments in every function of the module.
void KernelBuilder::startFunction(llvm::StringRef name, unsigned extra) {
  SmallVector<Type> arguments;
  for (DType type : types)
    arguments.push_back(MemRefType::get({1}, memoryType(b.getContext(), type)));
  arguments.append(numParams + extra, b.getIndexType());
  arguments.push_back(MemRefType::get({1}, b.getI8Type()));
  b.setInsertionPointToEnd(module->getBody());
  func = func::FuncOp::create(b, loc, name, b.getFunctionType(arguments, {}));
  func.setArgAttr(arguments.size() - 1, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
  func.setArgAttr(arguments.size() - 1, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(64));
  b.setInsertionPointToStart(func.addEntryBlock());
}

OwningOpRef<ModuleOp> KernelBuilder::finish() {
  func::ReturnOp::create(b, loc);
  return std::move(module);
}

void KernelBuilder::outlined(llvm::StringRef name, llvm::ArrayRef<Index> args,
                             llvm::function_ref<void(llvm::ArrayRef<Index>)> body) {
  SmallVector<Value> operands(func.getArguments().take_front(types.size() + numParams));
  for (Index arg : args)
    operands.push_back(ssa(arg));
  operands.push_back(func.getArguments().back());
  std::string symbol = (name + "." + std::to_string(numOutlined++)).str();
  func::CallOp::create(b, loc, symbol, TypeRange{}, operands);

  OpBuilder::InsertPoint here = b.saveInsertionPoint();
  func::FuncOp outer = func;
  startFunction(symbol, args.size());
  func.setPrivate();
  func->setAttr("no_inline", b.getUnitAttr());
  SmallVector<Index> inner;
  for (unsigned i = 0; i < args.size(); ++i)
    inner.push_back(args[i].isConstant() ? args[i] : Index(Value(func.getArgument(types.size() + numParams + i))));
  body(inner);
  func::ReturnOp::create(b, loc);
  func = outer;
  b.restoreInsertionPoint(here);
}

Index KernelBuilder::param(unsigned i) { return Value(func.getArgument(types.size() + i)); }
Index KernelBuilder::begin() { return Value(func.getArgument(types.size() + numParams)); }
Index KernelBuilder::end() { return Value(func.getArgument(types.size() + numParams + 1)); }

//===-- index arithmetic ------------------------------------------------------------------------------------------===//

Value KernelBuilder::ssa(Index x) {
  return x.isConstant() ? arith::ConstantIndexOp::create(b, loc, x.constant).getResult() : x.value;
}

Index KernelBuilder::add(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return x.constant + y.constant;
  if (x.isConstant() && x.constant == 0)
    return y;
  if (y.isConstant() && y.constant == 0)
    return x;
  return arith::AddIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::sub(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return x.constant - y.constant;
  if (y.isConstant())
    return add(x, -y.constant);
  return arith::SubIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::mul(Index x, Index y) {
  if (x.isConstant())
    std::swap(x, y);
  if (x.isConstant())
    return x.constant * y.constant;
  if (y.isConstant() && y.constant <= 1 && y.constant >= 0)
    return y.constant ? x : Index(0);
  return arith::MulIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::div(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return x.constant / y.constant;
  if (y.isConstant() && y.constant == 1)
    return x;
  return arith::DivUIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::rem(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return x.constant % y.constant;
  if (y.isConstant() && y.constant == 1)
    return 0;
  return arith::RemUIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::ceilDiv(Index x, Index y) { return div(add(x, sub(y, 1)), y); }

Index KernelBuilder::min(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return std::min(x.constant, y.constant);
  return arith::MinSIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Index KernelBuilder::max(Index x, Index y) {
  if (x.isConstant() && y.isConstant())
    return std::max(x.constant, y.constant);
  return arith::MaxSIOp::create(b, loc, ssa(x), ssa(y)).getResult();
}

Value KernelBuilder::less(Index x, Index y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, ssa(x), ssa(y));
}
Value KernelBuilder::equal(Index x, Index y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, ssa(x), ssa(y));
}
Value KernelBuilder::inRange(Index x, Index n) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, ssa(x),
                               ssa(n)); // unsigned: negative ones are out, too
}
Value KernelBuilder::both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
Index KernelBuilder::select(Value condition, Index x, Index y) {
  return arith::SelectOp::create(b, loc, condition, ssa(x), ssa(y)).getResult();
}

Buffer KernelBuilder::select(Value condition, Buffer x, Buffer y) {
  Value other = y.memref.getType() == x.memref.getType()
                    ? y.memref
                    : memref::CastOp::create(b, loc, x.memref.getType(), y.memref).getResult();
  return {arith::SelectOp::create(b, loc, condition, x.memref, other), x.element};
}

//===-- control flow ----------------------------------------------------------------------------------------------===//

void KernelBuilder::loop(Index lo, Index hi, Index step, llvm::function_ref<void(Index)> body) {
  loop(lo, hi, step, {}, [&](Index i, ValueRange) {
    body(i);
    return Values{};
  });
}

KernelBuilder::Values KernelBuilder::loop(Index lo, Index hi, Index step, ValueRange init,
                                          llvm::function_ref<Values(Index, ValueRange)> body) {
  if (lo.isConstant() && hi.isConstant()) {
    if (lo.constant >= hi.constant)
      return Values(init);
    if (step.isConstant() && lo.constant + step.constant >= hi.constant)
      return body(lo, init);
  }
  auto loop = scf::ForOp::create(b, loc, ssa(lo), ssa(hi), ssa(step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Values results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(b, loc, results);
  return Values(loop.getResults());
}

void KernelBuilder::ifThen(Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  then();
  if (otherwise) {
    b.setInsertionPointToStart(branch.elseBlock());
    otherwise();
  }
}

void KernelBuilder::switchOn(Index x, int64_t lo, int64_t hi, llvm::function_ref<void(int64_t)> body) {
  if (x.isConstant()) {
    if (x.constant >= lo && x.constant <= hi)
      body(x.constant);
    return;
  }
  if (lo > hi)
    return;
  SmallVector<int64_t> cases;
  for (int64_t k = lo; k <= hi; ++k)
    cases.push_back(k);
  auto choice = scf::IndexSwitchOp::create(b, loc, TypeRange{}, ssa(x), cases, cases.size());
  OpBuilder::InsertionGuard guard(b);
  for (size_t k = 0; k < cases.size(); ++k) {
    b.createBlock(&choice.getCaseRegions()[k]);
    body(cases[k]);
    scf::YieldOp::create(b, loc);
  }
  b.createBlock(&choice.getDefaultRegion());
  scf::YieldOp::create(b, loc);
}

void KernelBuilder::tiles(Index n, int64_t size, llvm::function_ref<void(Index, int64_t)> body) {
  Index tail = rem(n, size), main = sub(n, tail);
  loop(0, main, size, [&](Index i) { body(i, size); });
  switchOn(tail, 1, size - 1, [&](int64_t count) { body(main, count); });
}

void KernelBuilder::tilesEven(Index n, int64_t size, llvm::function_ref<void(Index, int64_t)> body,
                              llvm::function_ref<void(Index, Index)> after) {
  if (n.isConstant() && n.constant % size == 0) // all alike: no switch
    return loop(0, n, size, [&](Index i) {
      body(i, size);
      if (after)
        after(i, size);
    });
  Index count = ceilDiv(n, size);
  Index base = div(n, max(count, 1)), extra = rem(n, max(count, 1));
  loop(0, count, 1, [&](Index t) {
    Index start = add(mul(t, base), min(t, extra));
    Index rows = select(less(t, extra), add(base, 1), base);
    switchOn(rows, 1, size, [&](int64_t k) { body(start, k); });
    if (after)
      after(start, rows);
  });
}

void KernelBuilder::allowReordering() { (*module)->setAttr(reordersAttribute, b.getUnitAttr()); }

//===-- memory ----------------------------------------------------------------------------------------------------===//

static Value cast(KernelBuilder &kb, Value source, llvm::ArrayRef<Index> dims, llvm::ArrayRef<Index> strides,
                  Index offset) {
  auto fold = [&](llvm::ArrayRef<Index> from, SmallVector<OpFoldResult> &to, SmallVector<int64_t> &statics) {
    for (Index x : from) {
      to.push_back(x.isConstant() ? OpFoldResult(kb.b.getIndexAttr(x.constant)) : OpFoldResult(x.value));
      statics.push_back(x.isConstant() ? x.constant : ShapedType::kDynamic);
    }
  };
  SmallVector<OpFoldResult> sizes, steps, start;
  SmallVector<int64_t> staticSizes, staticSteps, staticStart;
  fold(dims, sizes, staticSizes);
  fold(strides, steps, staticSteps);
  fold(offset, start, staticStart);
  auto layout = StridedLayoutAttr::get(kb.b.getContext(), staticStart[0], staticSteps);
  auto type = MemRefType::get(staticSizes, cast<MemRefType>(source.getType()).getElementType(), layout);
  return memref::ReinterpretCastOp::create(kb.b, kb.loc, type, source, start[0], sizes, steps);
}

static SmallVector<Index> rowMajor(KernelBuilder &kb, llvm::ArrayRef<Index> dims) {
  SmallVector<Index> strides(dims.size(), 1);
  for (int i = int(dims.size()) - 2; i >= 0; --i)
    strides[i] = kb.mul(strides[i + 1], dims[i + 1]);
  return strides;
}

Buffer KernelBuilder::view(unsigned i, llvm::ArrayRef<Index> dims, llvm::ArrayRef<Index> strides, Index offset) {
  return {cast(*this, func.getArgument(i), dims, strides, offset), valueType(b.getContext(), types[i])};
}

Buffer KernelBuilder::scratch(Index byteOffset, DType type, llvm::ArrayRef<Index> dims, llvm::ArrayRef<Index> strides) {
  auto bytes = MemRefType::get({ShapedType::kDynamic}, b.getI8Type());
  Value all = memref::ReinterpretCastOp::create(b, loc, bytes, func.getArguments().back(),
                                                OpFoldResult(b.getIndexAttr(0)), ArrayRef<OpFoldResult>{ssa(INT64_MAX)},
                                                ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
  Value part = memref::ViewOp::create(b, loc, MemRefType::get({1}, memoryType(b.getContext(), type)), all,
                                      ssa(byteOffset), ValueRange{});
  SmallVector<Index> steps(strides);
  return {cast(*this, part, dims, steps.empty() ? rowMajor(*this, dims) : steps, 0), valueType(b.getContext(), type)};
}

static SmallVector<Value> indices(KernelBuilder &kb, llvm::ArrayRef<Index> at) {
  SmallVector<Value> values;
  for (Index i : at)
    values.push_back(kb.ssa(i));
  return values;
}

static Type like(Type element, Type shape) {
  auto vector = dyn_cast<VectorType>(shape);
  return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
}

// bool: a byte in memory, i1 in values.
static Value fromMemory(KernelBuilder &kb, Value v, Buffer m) {
  if (!m.element.isInteger(1))
    return v;
  Value zero = arith::ConstantOp::create(kb.b, kb.loc, kb.b.getZeroAttr(v.getType()));
  return arith::CmpIOp::create(kb.b, kb.loc, arith::CmpIPredicate::ne, v, zero);
}
static Value toMemory(KernelBuilder &kb, Value v, Buffer m) {
  return m.element.isInteger(1)
             ? arith::ExtUIOp::create(kb.b, kb.loc, like(kb.b.getI8Type(), v.getType()), v).getResult()
             : v;
}
static Type memoryElement(Buffer m) { return cast<MemRefType>(m.memref.getType()).getElementType(); }

Value KernelBuilder::load(Buffer m, llvm::ArrayRef<Index> at) {
  return fromMemory(*this, memref::LoadOp::create(b, loc, m.memref, indices(*this, at)), m);
}

void KernelBuilder::store(Value v, Buffer m, llvm::ArrayRef<Index> at) {
  memref::StoreOp::create(b, loc, toMemory(*this, v, m), m.memref, indices(*this, at));
}

Value KernelBuilder::loadVector(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes) {
  auto type = VectorType::get({lanes}, memoryElement(m));
  return fromMemory(*this, vector::LoadOp::create(b, loc, type, m.memref, indices(*this, at)), m);
}

void KernelBuilder::storeVector(Value v, Buffer m, llvm::ArrayRef<Index> at) {
  vector::StoreOp::create(b, loc, toMemory(*this, v, m), m.memref, indices(*this, at));
}

Value KernelBuilder::loadMasked(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes, int64_t active) {
  if (active >= lanes)
    return loadVector(m, at, lanes);
  auto type = VectorType::get({lanes}, memoryElement(m));
  Value mask =
      vector::ConstantMaskOp::create(b, loc, VectorType::get({lanes}, b.getI1Type()), ArrayRef<int64_t>{active});
  Value zeros = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  return fromMemory(*this, vector::MaskedLoadOp::create(b, loc, type, m.memref, indices(*this, at), mask, zeros), m);
}

void KernelBuilder::storeMasked(Value v, Buffer m, llvm::ArrayRef<Index> at, int64_t active) {
  int64_t lanes = cast<VectorType>(v.getType()).getDimSize(0);
  if (active >= lanes)
    return storeVector(v, m, at);
  v = toMemory(*this, v, m);
  // One lane of 16 bits never through a mask: LLVM 22 makes a scalar store of 32 bits of it.
  if (target.has("avx512vl") && active > 1 && cast<VectorType>(v.getType()).getElementTypeBitWidth() >= 8) {
    Value mask =
        vector::ConstantMaskOp::create(b, loc, VectorType::get({lanes}, b.getI1Type()), ArrayRef<int64_t>{active});
    vector::MaskedStoreOp::create(b, loc, m.memref, indices(*this, at), mask, v);
    return;
  }
  // Masked stores of AVX2 are slow on AMD, and other targets have none: powers of two.
  SmallVector<Index> where(at);
  for (int64_t part = lanes / 2, done = 0; done < active; part /= 2) {
    if (active - done < part)
      continue;
    Value piece = vector::ExtractStridedSliceOp::create(b, loc, v, ArrayRef<int64_t>{done}, ArrayRef<int64_t>{part},
                                                        ArrayRef<int64_t>{1});
    where.back() = add(at.back(), done);
    vector::StoreOp::create(b, loc, piece, m.memref, indices(*this, where));
    done += part;
  }
}

Value KernelBuilder::broadcastLoad(Buffer m, llvm::ArrayRef<Index> at, int64_t lanes) {
  return splat(load(m, at), lanes);
}

void KernelBuilder::prefetch(Buffer m, llvm::ArrayRef<Index> at, bool write, int cacheLevel) {
  memref::PrefetchOp::create(b, loc, m.memref, indices(*this, at), write, /*localityHint=*/4 - cacheLevel,
                             /*isDataCache=*/true);
}

//===-- values ----------------------------------------------------------------------------------------------------===//

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return lanes ? vector::BroadcastOp::create(b, loc, VectorType::get({lanes}, scalar.getType()), scalar).getResult()
               : scalar;
}

// A constant of x's type; floats by value, integers too.
static Value constantLike(KernelBuilder &kb, Type type, double v) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element) ? TypedAttr(kb.b.getFloatAttr(element, v))
                                           : TypedAttr(kb.b.getIntegerAttr(element, int64_t(v)));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
  return arith::ConstantOp::create(kb.b, kb.loc, attr);
}

Value KernelBuilder::constantVector(Type element, double v, int64_t lanes) {
  return constantLike(*this, lanes ? Type(VectorType::get({lanes}, element)) : element, v);
}

} // namespace mrcc
