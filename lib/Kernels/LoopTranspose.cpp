// Transpositions: tiles whose reads and writes both run along whole cache lines. A tile is transposed in registers,
// square by square: unpacking inside 128-bit parts, then exchanging those parts. A copy stores the squares at once, so
// that its tiles may be tall; other bodies read them from scratch, row by row.
#include "LoopEmit.h"

using namespace mlir;

namespace mrcc::loops {

using Op = ExprNode::Op;

/// The view's unit step is the tile's column level, not the row level that outputs run along.
bool Emitter::isColumn(unsigned view) const {
  return plan.transpose && view >= plan.outputs && !plan.indexed(view) &&
         plan.steps[view][plan.parallel - 2] == Step::unit && plan.steps[view][plan.parallel - 1] == Step::strided;
}

/// Lane l is element from(l) of a followed by b.
Value Emitter::shuffled(Value a, Value b, llvm::function_ref<int64_t(int64_t)> from) {
  SmallVector<int64_t> mask;
  for (int64_t i = 0, n = cast<VectorType>(a.getType()).getDimSize(0); i < n; ++i)
    mask.push_back(from(i));
  return vector::ShuffleOp::create(kb.b, kb.loc, a, b, mask);
}

/// Elements of 128 bits.
static int64_t partOf(Value row) {
  auto type = cast<VectorType>(row.getType());
  return std::min<int64_t>(type.getDimSize(0), 128 / type.getElementTypeBitWidth());
}

/// Inside parts: part p of vector g + k of the result holds element k of part p of each row of the group at g.
SmallVector<Value> Emitter::unpacked(SmallVector<Value> rows) {
  const int64_t lanes = cast<VectorType>(rows[0].getType()).getDimSize(0), part = partOf(rows[0]);
  // log2(part) perfect shuffles of the rows i and i + part / 2 of each group of `part` rows
  for (int64_t stage = 1; stage < part; stage *= 2) {
    SmallVector<Value> next(rows.size());
    for (size_t group = 0; group < rows.size(); group += part)
      for (int64_t i = 0; i < part / 2; ++i)
        for (int64_t high = 0; high < 2; ++high)
          next[group + 2 * i + high] = shuffled(rows[group + i], rows[group + i + part / 2], [&](int64_t e) {
            int64_t inPart = e % part;
            return (inPart % 2 ? lanes : 0) + e - inPart + high * (part / 2) + inPart / 2;
          });
    rows = next;
  }
  return rows;
}

/// n vectors of n elements: vector i of the result holds element i of each.
SmallVector<Value> Emitter::transposed(SmallVector<Value> rows) {
  const int64_t n = rows.size(), part = partOf(rows[0]), parts = n / part;
  rows = unpacked(std::move(rows));
  // Parts: element e of part p of row k of group g belongs to vector p * part + k, at g * part + e.
  auto exchange = [&](Value a, Value b, std::array<int64_t, 4> pick) { // numbers of parts, b's follow a's
    return shuffled(a, b, [&](int64_t e) {
      int64_t p = pick[e / part];
      return (p >= parts ? n : 0) + (p % parts) * part + e % part;
    });
  };
  SmallVector<Value> result(n);
  for (int64_t k = 0; k < part; ++k) {
    if (parts == 1) {
      result[k] = rows[k];
    } else if (parts == 2) {
      result[k] = exchange(rows[k], rows[part + k], {0, 2});
      result[part + k] = exchange(rows[k], rows[part + k], {1, 3});
    } else {
      Value a = rows[k], b = rows[part + k], c = rows[2 * part + k], d = rows[3 * part + k];
      for (int64_t half = 0; half < 2; ++half) {
        Value s = exchange(a, b, {2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half});
        Value t = exchange(c, d, {2 * half, 2 * half + 1, 4 + 2 * half, 5 + 2 * half});
        result[2 * half * part + k] = exchange(s, t, {0, 2, 4, 6});
        result[(2 * half + 1) * part + k] = exchange(s, t, {1, 3, 5, 7});
      }
    }
  }
  return result;
}

/// Hands the tile of `view` to put(column, row, vector along rows): squares of n x n elements, four of them in a block
/// where a line of memory holds more than one vector: first those that end the lines of the output. What is left of the
/// rows goes in pieces of 128 bits if it is less than half of a square; the last square and piece of each direction
/// overlap the ones before.
void Emitter::transposeTile(unsigned view, Index column, Index row, Index columns, Index rows,
                            llvm::function_ref<void(Index, Index, Value)> put) {
  Type element = memoryType(kb.b.getContext(), plan.types[view]);
  const unsigned bits = element.getIntOrFloatBitWidth();
  const int64_t n = bits <= 16 ? 128 / bits : kb.target.vectorBits / bits, part = 128 / bits;
  const int64_t block = n * bits < 512 ? 2 * n : n;
  Buffer raw{views[view].memref, element};
  Index along = stride(view, plan.parallel - 1);
  auto load = [&](Index c, Index r, int64_t count) {
    Index base = kb.add(kb.add(state.offsets[view], kb.add(column, c)), kb.mul(kb.add(row, r), along));
    SmallVector<Value> square;
    for (int64_t i = 0; i < count; ++i)
      square.push_back(kb.loadVector(raw, {kb.add(base, kb.mul(i, along))}, n));
    return square;
  };
  auto square = [&](Index c, Index r) {
    for (auto [i, v] : llvm::enumerate(transposed(load(c, r, n))))
      put(kb.add(kb.add(column, c), int64_t(i)), kb.add(row, r), v);
  };
  auto piece = [&](Index c, Index r) { // `part` rows
    for (auto [k, v] : llvm::enumerate(unpacked(load(c, r, part))))
      for (int64_t p = 0; p < n / part; ++p) {
        Value x = vector::ExtractStridedSliceOp::create(kb.b, kb.loc, v, ArrayRef<int64_t>{p * part},
                                                        ArrayRef<int64_t>{part}, ArrayRef<int64_t>{1});
        put(kb.add(kb.add(column, c), p * part + int64_t(k)), kb.add(row, r), x);
      }
  };
  using Part = llvm::function_ref<void(Index, int64_t)>; // f(from, length)
  auto overColumns = [&](Part f) {
    Index whole = kb.sub(columns, kb.rem(columns, block));
    kb.loop(0, whole, block, [&](Index c) { f(c, block); });
    kb.loop(whole, columns, n, [&](Index c) { f(kb.min(c, kb.sub(columns, n)), n); });
  };
  auto overRows = [&](Part f) {
    // After whole blocks squares, then pieces, or a square where they would be as many stores.
    Index whole = kb.sub(rows, kb.rem(rows, block)), squares = kb.sub(rows, kb.rem(rows, n));
    Value few = kb.less(kb.mul(kb.sub(rows, squares), 2), n + 1);
    Index split = n > part ? kb.select(few, squares, rows) : rows;
    kb.loop(0, whole, block, [&](Index r) { f(r, block); });
    kb.loop(whole, split, n, [&](Index r) { f(kb.min(r, kb.sub(rows, n)), n); });
    if (n > part)
      kb.loop(split, rows, part, [&](Index r) { f(kb.min(r, kb.sub(rows, part)), part); });
  };
  auto move = [&](Index c, int64_t width, Index r, int64_t height) {
    for (int64_t i = 0; i < width; i += n)
      for (int64_t j = 0; j < height; j += n)
        height < n ? piece(kb.add(c, i), r) : square(kb.add(c, i), kb.add(r, j));
  };
  // Along the rows, so that lines of the output are written one after the other; along the columns where rows are short
  // and all of the tile's output stays in L1: then lines of the input are read one after the other.
  auto alongRows = [&] {
    overColumns([&](Index c, int64_t width) { overRows([&](Index r, int64_t height) { move(c, width, r, height); }); });
  };
  kb.ifThen(kb.less(tileSide, rows), alongRows, [&] {
    overRows([&](Index r, int64_t height) { overColumns([&](Index c, int64_t width) { move(c, width, r, height); }); });
  });
}

void Emitter::tileRow(Index block) {
  const unsigned columnLevel = plan.parallel - 2, rowLevel = plan.parallel - 1;
  Index across = kb.param(Params::blockSize), down = kb.div(kb.param(Params::blocks), across);
  auto part = [&](Index k, Index parts, unsigned level, int64_t side) { // the last one takes the rest
    Index from = kb.mul(k, side), last = kb.sub(parts, 1);
    return std::pair(from, kb.select(kb.equal(k, last), extent(level), kb.add(from, side)));
  };
  auto [firstColumn, lastColumn] = part(kb.div(block, across), down, columnLevel, tileSide);
  auto [firstRow, lastRow] = part(kb.rem(block, across), across, rowLevel, plan.tileRows());
  Index columns = kb.sub(lastColumn, firstColumn), rows = kb.sub(lastRow, firstRow);
  const Expr &body = plan.body;
  if (plan.copies()) {
    unsigned view = plan.outputs + body.nodes[0].imm;
    Buffer out{views[0].memref, memoryType(kb.b.getContext(), plan.types[0])};
    transposeTile(view, firstColumn, firstRow, columns, rows, [&](Index c, Index r, Value v) {
      kb.storeVector(v, out, {kb.add(kb.add(state.offsets[0], kb.mul(c, stride(0, columnLevel))), r)});
    });
    return;
  }
  SmallVector<Buffer> outside = views;
  SmallVector<unsigned> moved;
  for (unsigned v = plan.outputs; v < plan.types.size(); ++v) {
    if (!isColumn(v))
      continue;
    Buffer tile =
        kb.scratch(int64_t(moved.size()) * largestTile * largestTile * 8, plan.types[v], {largestTile * largestTile});
    Buffer raw{tile.memref, memoryType(kb.b.getContext(), plan.types[v])};
    transposeTile(v, firstColumn, firstRow, columns, rows,
                  [&, first = firstColumn, start = firstRow](Index c, Index r, Value x) {
                    kb.storeVector(x, raw, {kb.add(kb.mul(kb.sub(c, first), largestTile), kb.sub(r, start))});
                  });
    moved.push_back(v);
    outside[v] = views[v];
    views[v] = tile;
  }
  inTile = true;
  kb.loop(firstColumn, lastColumn, 1, [&, first = firstColumn, start = firstRow, end = lastRow](Index c) {
    scoped([&] {
      enter(columnLevel, c);
      for (unsigned v : moved) // mapRow adds the row
        state.offsets[v] = kb.sub(kb.mul(kb.sub(c, first), largestTile), start);
      mapRow(start, end);
    });
  });
  inTile = false;
  for (unsigned v : moved)
    views[v] = outside[v];
}

} // namespace mrcc::loops
